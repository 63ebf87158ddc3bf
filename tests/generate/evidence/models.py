"""Small torch networks for kinds of trouble that `generate.dump_json_models` lacks: depth, decisions, caches, int8.

Each is made by `make` and called without arguments, as those are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from generate.dump_json_models import Deep, Mlp, Model, RmsNorm, Transformer
from generate.dump_json_models import make as make_known


class Decoder(Model):
    """Decodes one token a call with a cache of keys and values: what a token spoils, later tokens read."""

    def __init__(self, width: int = 24, depth: int = 2) -> None:
        super().__init__()
        self.emb, self.head = nn.Embedding(29, width), nn.Linear(width, 29)
        self.q, self.k, self.v, self.o = (
            nn.ModuleList(nn.Linear(width, width) for _ in range(depth)) for _ in range(4)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth))
        self.mlps = nn.ModuleList(Mlp(width) for _ in range(depth))
        self.cache: list[list[torch.Tensor]] = [[] for _ in range(2 * depth)]
        self.at = 0
        self.tensors(ids=torch.randint(0, 29, (4, 12)))

    def loss(self) -> torch.Tensor:
        x = self.emb(
            self.get("ids")[:, : 6 + self.at] if not self.at else self.get("ids")[:, 5 + self.at : 6 + self.at]
        )
        for n, mlp in enumerate(self.mlps):
            h = self.norms[2 * n](x)
            q = self.q[n](h)
            for place, new in ((2 * n, self.k[n](h)), (2 * n + 1, self.v[n](h))):
                self.cache[place] = [torch.cat([*self.cache[place], new], dim=1)]
            keys, values = self.cache[2 * n][0], self.cache[2 * n + 1][0]
            scores = torch.matmul(q, keys.transpose(-1, -2)) / 5.0
            if not self.at:
                scores = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), float("-inf"))
            x = x + self.o[n](torch.matmul(F.softmax(scores, dim=-1), values))
            x = x + mlp(self.norms[2 * n + 1](x))
        self.at += 1
        return self.head(x)[:, -1].float().mean()


class Routed(Model):
    """Sparse experts: each runs on the rows that were sent to it, so near ties change shapes behind the router."""

    def __init__(self, width: int = 16, experts: int = 4) -> None:
        super().__init__()
        self.inp, self.router = nn.Linear(9, width), nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Mlp(width) for _ in range(experts))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 6)
        self.tensors(x=torch.randn(48, 9), labels=torch.randint(0, 6, (48,)))

    def loss(self) -> torch.Tensor:
        x = torch.tanh(self.inp(self.get("x")))
        share = F.softmax(self.router(x), dim=-1)
        weight, chosen = torch.topk(share, 1, dim=-1)
        total = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = torch.nonzero(torch.eq(chosen[:, 0], number))[:, 0]
            total = torch.index_add(total, 0, rows, expert(torch.index_select(x, 0, rows)))
        x = x + total * weight
        return F.cross_entropy(self.out(self.norm(x)).float(), self.get("labels"))


class Tied(Routed):
    """The same with scores that lie so close that 16 bits tell several of them otherwise."""

    def __init__(self) -> None:
        super().__init__()
        with torch.no_grad():
            self.router.weight.mul_(0.05)


class Deciding(Model):
    """Sorts, compares, rounds and counts: a detector's head, written out."""

    def __init__(self, width: int = 20) -> None:
        super().__init__()
        self.inp, self.score, self.box = nn.Linear(11, width), nn.Linear(width, 7), nn.Linear(width, 4)
        self.table, self.out = nn.Embedding(7, width), nn.Linear(width, 5)
        self.tensors(x=torch.randn(40, 11), labels=torch.randint(0, 5, (12,)))

    def loss(self) -> torch.Tensor:
        x = torch.tanh(self.inp(self.get("x")))
        scores = torch.sigmoid(self.score(x))
        best = torch.amax(scores, dim=-1)
        kind = torch.argmax(scores, dim=-1)
        order = torch.argsort(best, descending=True)
        kept = order[:12]
        boxes = torch.floor(torch.index_select(self.box(x), 0, kept) * 8.0) / 8.0
        grid = torch.round(torch.index_select(x, 0, kept) * 4.0) / 4.0
        hot = F.one_hot(torch.index_select(kind, 0, kept), 7).to(x.dtype)
        named = torch.matmul(hot, self.table.weight)
        is_high = torch.gt(torch.index_select(best, 0, kept), 0.5)
        mixed = torch.where(is_high[:, None], named, grid) + boxes.sum(dim=-1, keepdim=True) * 0.01
        x = torch.index_select(x, 0, kept) + mixed
        return F.cross_entropy(self.out(x).float(), self.get("labels"))


class Int8Linear(nn.Module):
    """A product in int8, emulated: one scale a channel of the weight, one for what is read."""

    def __init__(self, read: int, written: int) -> None:
        super().__init__()
        weight = torch.randn(written, read) / read**0.5 * (0.2 + 3.0 * torch.rand(written, 1))
        self.register_buffer("scale", weight.abs().amax(dim=1) / 127.0)
        self.register_buffer("weight", torch.round(weight / self.scale[:, None]))
        self.bias = nn.Parameter(0.1 * torch.randn(written))
        self.step = 0.03

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole = torch.clamp(torch.round(x / self.step), -128, 127)
        return F.linear(whole, self.weight) * (self.scale * self.step) + self.bias


class Int8(Model):
    """Products in int8 between norms and gates."""

    def __init__(self, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        self.inp, self.out = nn.Linear(12, width), nn.Linear(width, 5)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.ups = nn.ModuleList(Int8Linear(width, 2 * width) for _ in range(depth))
        self.downs = nn.ModuleList(Int8Linear(2 * width, width) for _ in range(depth))
        self.tensors(x=torch.randn(24, 12), labels=torch.randint(0, 5, (24,)))

    def loss(self) -> torch.Tensor:
        x = self.inp(self.get("x"))
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            x = x + down(F.relu(up(norm(x))))
        return F.cross_entropy(self.out(x).float(), self.get("labels"))


class Fused(Model):
    """Operators of several parts each: attention, recurrence, norms and losses that leave no inner result."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.gru = nn.GRU(width, width, batch_first=True)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.inp, self.qkv, self.out = nn.Linear(7, width), nn.Linear(width, 3 * width), nn.Linear(width, 5)
        self.norm, self.rms = nn.LayerNorm(width), RmsNorm(width)
        self.tensors(x=torch.randn(4, 10, 7), labels=torch.randint(0, 5, (4,)))

    def loss(self) -> torch.Tensor:
        x = self.inp(self.get("x"))
        x = x + self.gru(self.norm(x))[0]
        q, k, v = self.qkv(self.rms(x)).reshape(4, 10, 3, 3, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(4, 10, -1)
        x = torch.addcmul(x, mixed, F.silu(x), value=0.5)
        x = F.normalize(x + self.lstm(x)[0], dim=-1) * 4.0
        return F.cross_entropy(self.out(x.mean(dim=1)).float(), self.get("labels"))


class InPlace(Model):
    """Overwrites what it can: sums, factors, clamps and gates."""

    def __init__(self, width: int = 28, depth: int = 4) -> None:
        super().__init__()
        self.inp, self.out = nn.Linear(10, width), nn.Linear(width, 6)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(2 * depth))
        self.tensors(x=torch.randn(32, 10), labels=torch.randint(0, 6, (32,)))

    def loss(self) -> torch.Tensor:
        x = self.inp(self.get("x"))
        for up, down in zip(self.layers[::2], self.layers[1::2], strict=True):
            h = F.leaky_relu(up(x), 0.1, inplace=True)
            h = down(h).mul_(0.5)
            h.add_(x).clamp_(-6.0, 6.0)
            x = h
        return F.cross_entropy(self.out(x).float(), self.get("labels"))


class Summed(Model):
    """Sums of many terms in no fixed order: what atomic additions do on a device."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.inp, self.mid, self.out = nn.Linear(8, width), nn.Linear(width, width), nn.Linear(width, 4)
        self.tensors(
            x=torch.randn(96, 8),
            labels=torch.randint(0, 4, (12,)),
            at=torch.randint(0, 12, (96,)),
            many=torch.arange(96),
        )

    def loss(self) -> torch.Tensor:
        x = torch.tanh(self.inp(self.get("x")))
        nodes = torch.index_add(torch.zeros(12, x.shape[-1], dtype=x.dtype), 0, self.get("at"), x)
        x = torch.relu(self.mid(nodes)) + nodes
        x = x - x.mean(dim=0, keepdim=True)
        return F.cross_entropy(self.out(x).float(), self.get("labels"))


_KINDS: dict[str, Callable[[], Model]] = {
    "deep24": lambda: Transformer(depth=24, width=16, heads=2),
    "deep48": lambda: Transformer(depth=48, width=16, heads=2),
    "residual48": lambda: Deep(depth=48, width=20),
    "decoder": Decoder,
    "routed": Routed,
    "tied_routes": Tied,
    "deciding": Deciding,
    "int8": Int8,
    "fused": Fused,
    "in_place": InPlace,
    "summed": Summed,
}


def make(name: str, seed: int) -> Model:
    """Return a model of this module or of `generate.dump_json_models`, with weights and batch drawn from ``seed``."""
    if name not in _KINDS:
        return make_known(name, seed)
    torch.manual_seed(seed)
    model = _KINDS[name]()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model
