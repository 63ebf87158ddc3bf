"""Small torch models whose forward and backward passes are dumped: eight of them, of different arithmetic.

A model is made by ``MODELS[name](seed)`` and called without arguments: it returns the loss of its own batch. Sizes are
small so that an archive of dumps stays small; depth and kinds of operations are those of real networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint


class Model(nn.Module):
    """A network with its batch; ``loss`` runs both. Floating inputs follow the dtype of the parameters.

    Some parts carry a switch that makes them wrong: `Attention.scale` and ``order``, `Mlp.factor` and ``activates``.
    """

    recompute: bool | None = None
    """Run blocks under activation recomputation: True reentrant, False not reentrant, None not at all."""

    def tensors(self, **named: torch.Tensor) -> None:
        self.batch = named

    def get(self, name: str) -> torch.Tensor:
        tensor = self.batch[name]
        return tensor.to(next(self.parameters()).dtype) if tensor.is_floating_point() else tensor

    def block(self, module: nn.Module, *inputs: torch.Tensor) -> torch.Tensor:
        if self.recompute is None:
            return module(*inputs)
        return checkpoint(module, *inputs, use_reentrant=self.recompute)

    def loss(self) -> torch.Tensor:
        raise NotImplementedError


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, *, fused: bool = False) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.scale, self.order = math.sqrt(width // heads), (0, 1, 2)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (parts[n].reshape(batch, length, self.heads, -1).transpose(1, 2) for n in self.order)
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)
        else:
            scores = torch.matmul(q, k.transpose(-1, -2)) / self.scale
            scores = scores.masked_fill(mask, float("-inf"))
            mixed = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    def __init__(self, width: int, factor: int = 2) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(width, factor * width), nn.Linear(factor * width, width)
        self.factor, self.activates = 1.0, True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.fc1(x)
        h = F.gelu(h) if self.activates else h
        return self.fc2(h if self.factor == 1.0 else h * self.factor)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, *, fused: bool = False) -> None:
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = Attention(width, heads, fused=fused), Mlp(width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln1(x), mask)
        return x + self.mlp(self.ln2(x))


class Transformer(Model):
    """Pre-norm causal transformer; ``tied``: the head shares the embedding's weight."""

    def __init__(
        self, *, depth: int = 3, width: int = 24, heads: int = 3, tied: bool = False, fused: bool = False
    ) -> None:
        super().__init__()
        self.emb, self.pos = nn.Embedding(19, width), nn.Parameter(0.1 * torch.randn(10, width))
        self.layers = nn.ModuleList(Block(width, heads, fused=fused) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 19, bias=not tied)
        if tied:
            self.head.weight = self.emb.weight
        ids = torch.randint(0, 19, (3, 11))
        self.tensors(ids=ids[:, :-1], labels=ids[:, 1:], mask=torch.ones(10, 10, dtype=torch.bool).triu(1))

    def loss(self) -> torch.Tensor:
        x = self.emb(self.get("ids")) + self.pos
        for layer in self.layers:
            x = self.block(layer, x, self.get("mask"))
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), self.get("labels").reshape(-1))


class ConvBlock(nn.Module):
    def __init__(self, channels: int, out: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, padding=1), nn.BatchNorm2d(out)
        self.skip = nn.Conv2d(channels, out, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


class Cnn(Model):
    """Residual convolutions with batch norm: the biases before it have gradients of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList([ConvBlock(8, 8), ConvBlock(8, 12), ConvBlock(12, 16)])
        self.head = nn.Linear(16, 5)
        self.tensors(x=torch.randn(4, 3, 12, 12), labels=torch.randint(0, 5, (4,)))

    def loss(self) -> torch.Tensor:
        x = F.relu(self.stem(self.get("x")))
        for number, block in enumerate(self.blocks):
            x = self.block(block, x)
            if number < 2:
                x = F.max_pool2d(x, 2) if number else F.avg_pool2d(x, 2)
        return F.cross_entropy(self.head(x.mean(dim=(2, 3))).float(), self.get("labels"))


class InPlaceBlock(nn.Module):
    """A basic block as image networks are written: gate and sum overwrite what they read."""

    def __init__(self, channels: int, out: int, stride: int, gate: nn.Module) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.gate, self.skip = gate, None
        if stride > 1 or channels != out:
            self.skip = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.gate(self.bn1(self.conv1(x)))))
        y += x if self.skip is None else self.skip(x)
        return self.gate(y)


class ResNet(Model):
    """Residual network whose gates work in place; ``gate`` makes one of them."""

    def __init__(self, gate: Callable[[], nn.Module] = lambda: nn.ReLU(inplace=True)) -> None:
        super().__init__()
        self.conv1, self.bn1, self.gate = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), gate()
        sizes = ((8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 24, 2))
        self.layers = nn.ModuleList(InPlaceBlock(*size, gate()) for size in sizes)
        self.fc = nn.Linear(24, 10)
        self.tensors(x=torch.randn(8, 3, 16, 16), labels=torch.randint(0, 10, (8,)))

    def loss(self) -> torch.Tensor:
        x = F.max_pool2d(self.gate(self.bn1(self.conv1(self.get("x")))), 3, 2, 1)
        for layer in self.layers:
            x = self.block(layer, x)
        return F.cross_entropy(self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1)).float(), self.get("labels"))


class Recurrent(Model):
    """A gated cell written out, over nine steps, then a fused GRU of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.gates, self.new = nn.Linear(24, 32), nn.Linear(24, 16)
        self.gru = nn.GRU(16, 12, num_layers=2, batch_first=True)
        self.head = nn.Linear(12, 4)
        self.tensors(x=torch.randn(5, 9, 8), y=torch.randn(5, 4))

    def loss(self) -> torch.Tensor:
        x = self.get("x")
        state = torch.zeros(5, 16, dtype=x.dtype)
        states = []
        for step in range(9):
            update, reset = torch.sigmoid(self.gates(torch.cat([x[:, step], state], dim=-1))).chunk(2, dim=-1)
            new = torch.tanh(self.new(torch.cat([x[:, step], reset * state], dim=-1)))
            state = (1 - update) * state + update * new
            states.append(state)
        mixed, _ = self.gru(torch.stack(states, dim=1))
        return F.mse_loss(self.head(mixed[:, -1]).float(), self.get("y").float())


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(width), Mlp(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp(self.norm(x))


class Deep(Model):
    """Forty residual layers: rounding errors grow slowly and no layer is to blame."""

    def __init__(self, depth: int = 40, width: int = 16) -> None:
        super().__init__()
        self.inp, self.out = nn.Linear(10, width), nn.Linear(width, 3)
        self.layers = nn.ModuleList(Residual(width) for _ in range(depth))
        self.tensors(x=torch.randn(24, 10), y=torch.randn(24, 3))

    def loss(self) -> torch.Tensor:
        x = torch.tanh(self.inp(self.get("x")))
        for layer in self.layers:
            x = self.block(layer, x)
        return F.mse_loss(self.out(x).float(), self.get("y").float())


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Rotary(nn.Module):
    """Attention with rotary positions, padding keys masked, and a gated feed-forward part."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=name == "k") for name in "qkv")
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    @staticmethod
    def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-second, first], dim=-1) * sin

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        h = self.norm1(x)
        q, k = self.rotate(self.q(h), cos, sin), self.rotate(self.k(h), cos, sin)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (x.shape[-1] ** -0.5) + bias, dim=-1)
        x = x + self.o(weights @ self.v(h))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(Model):
    """Rotary attention with an additive -inf mask, RMS norm written out, gated units."""

    def __init__(self, depth: int = 2, width: int = 16) -> None:
        super().__init__()
        self.emb = nn.Embedding(23, width)
        self.layers = nn.ModuleList(Rotary(width) for _ in range(depth))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, 23, bias=False)
        angle = torch.arange(8)[:, None] / 10 ** torch.linspace(0, 2, width // 2)
        bias = torch.zeros(3, 8, 8).masked_fill(torch.ones(8, 8, dtype=torch.bool).triu(1), float("-inf"))
        bias[1, :, 6:] = float("-inf")
        self.tensors(
            ids=torch.randint(0, 23, (3, 8)),
            labels=torch.randint(0, 23, (24,)),
            cos=torch.cat([angle.cos()] * 2, dim=-1),
            sin=torch.cat([angle.sin()] * 2, dim=-1),
            bias=bias,
        )

    def loss(self) -> torch.Tensor:
        x = self.emb(self.get("ids"))
        for layer in self.layers:
            x = self.block(layer, x, self.get("cos"), self.get("sin"), self.get("bias"))
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1).float(), self.get("labels"))


class Mixture(Model):
    """Top-2 mixture of four experts: softmax, top k, gather and weighted sums."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.inp, self.router = nn.Linear(7, width), nn.Linear(width, 4)
        self.experts = nn.ModuleList(Mlp(width) for _ in range(4))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, 6)
        self.tensors(x=torch.randn(20, 7), labels=torch.randint(0, 6, (20,)))

    def loss(self) -> torch.Tensor:
        x = torch.tanh(self.inp(self.get("x")))
        share = F.softmax(self.router(x), dim=-1)
        _, chosen = torch.topk(share, 2, dim=-1)
        weights = torch.gather(share, 1, chosen)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        every = torch.stack([expert(x) for expert in self.experts], dim=1)
        picked = torch.gather(every, 1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        x = x + (picked * weights[..., None]).sum(dim=1)
        return F.cross_entropy(self.out(self.norm(x)).float(), self.get("labels"))


class UNet(Model):
    """Down and up again: strided and transposed convolutions, group norm, concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(2, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.n1, self.n2, self.n3 = nn.GroupNorm(2, 8), nn.GroupNorm(4, 16), nn.GroupNorm(2, 8)
        self.mid = nn.Conv2d(16, 16, 3, padding=1)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.c3, self.c4 = nn.Conv2d(16, 8, 3, padding=1), nn.Conv2d(8, 2, 1)
        self.tensors(x=torch.randn(2, 2, 12, 12), y=torch.randn(2, 2, 12, 12))

    def loss(self) -> torch.Tensor:
        a = F.silu(self.n1(self.c1(self.get("x"))))
        b = F.silu(self.n2(self.c2(a)))
        b = b + F.leaky_relu(self.mid(b), 0.1)
        y = F.silu(self.n3(self.c3(torch.cat([a, self.up(b)], dim=1))))
        return F.smooth_l1_loss(self.c4(y).float(), self.get("y").float())


class Patches(Model):
    """A small vision transformer: patch convolution, learned class token, tanh head."""

    def __init__(self, width: int = 18) -> None:
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, width, 4, stride=4), nn.Parameter(torch.randn(1, 1, width))
        self.layers = nn.ModuleList(Block(width, 2, fused=True) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 7)
        self.tensors(
            x=torch.randn(3, 3, 12, 12), labels=torch.randint(0, 7, (3,)), mask=torch.zeros(10, 10, dtype=torch.bool)
        )

    def loss(self) -> torch.Tensor:
        x = self.patch(self.get("x")).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)
        for layer in self.layers:
            x = self.block(layer, x, self.get("mask"))
        return F.cross_entropy(torch.tanh(self.head(self.norm(x)[:, 0])).float(), self.get("labels"))


_KINDS = {
    "transformer": Transformer,
    "tied": lambda: Transformer(depth=2, width=16, heads=2, tied=True),
    "cnn": Cnn,
    "recurrent": Recurrent,
    "deep": Deep,
    "llama": Llama,
    "mixture": Mixture,
    "unet": UNet,
    "patches": Patches,
    "resnet": ResNet,
    "resnet6": lambda: ResNet(lambda: nn.ReLU6(inplace=True)),
    "resnet_leaky": lambda: ResNet(lambda: nn.LeakyReLU(0.1, inplace=True)),
    "sdpa": lambda: Transformer(depth=2, width=32, heads=4, fused=True),
}
MODELS = tuple(_KINDS)


def make(name: str, seed: int) -> Model:
    """Return a model with weights and batch drawn from ``seed``."""
    torch.manual_seed(seed)
    model = _KINDS[name]()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():  # norms start at exactly 1 and 0, which hides faults
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            assert parameter.isfinite().all(), parameter_name
    return model
