"""Networks of torch whose dumps msprobe wrote too (`tests/data/dump_json/collected.tar.xz`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        a = torch.softmax(q @ k.transpose(1, 2) / 4.0, dim=-1)
        return self.proj(a @ v)


class Dense(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(functional.gelu(self.fc1(x)))


class Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.ln1 = nn.LayerNorm(width)
        self.attn = Attention(width)
        self.ln2 = nn.LayerNorm(width)
        self.mlp = Dense(width)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop(self.attn(self.ln1(x)))
        return x + self.mlp(self.ln2(x))


class Transformer(nn.Module):
    """Two layers; `reentrant` says how they are computed again in the backward pass, None: not at all."""

    def __init__(self, *, reentrant: bool | None = None) -> None:
        super().__init__()
        self.emb = nn.Embedding(11, 16)
        self.layers = nn.ModuleList([Layer(16) for _ in range(2)])
        self.head = nn.Linear(16, 11)
        self.reentrant = reentrant

    def forward(self, ids: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        x = self.emb(ids) * scale
        for layer in self.layers:
            x = layer(x) if self.reentrant is None else checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.head(x)


class Convolutions(nn.Module):
    """With a relu in place, a recurrent layer, several results, and a mapping among them."""

    def __init__(self) -> None:
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3)
        )
        self.lstm = nn.LSTM(4, 5, batch_first=True)
        self.fc = nn.Linear(5, 2)

    def forward(self, x: torch.Tensor) -> Any:
        x = self.f(x).contiguous()
        x = x.flatten(2).transpose(1, 2)
        y, (h, _) = self.lstm(x)
        y = (y * 2).add_(1.0)
        m, _ = torch.max(y, 1)
        return self.fc(m.float()), {"h": h}


def transformer() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Transformer(), (torch.randint(0, 11, (2, 6)),)


def reentrant() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Transformer(reentrant=True), (torch.randint(0, 11, (2, 6)),)


def stopping_early() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Transformer(reentrant=False), (torch.randint(0, 11, (2, 6)),)


def convolutions() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return Convolutions(), (torch.randn(2, 3, 8, 8),)


def loss(result: Any) -> torch.Tensor:
    scores = result[0] if isinstance(result, tuple) else result
    classes = torch.zeros(scores.numel() // scores.shape[-1], dtype=torch.long)
    return functional.cross_entropy(scores.reshape(-1, scores.shape[-1]).float(), classes)


NETS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "transformer": transformer,
    "reentrant": reentrant,
    "convolutions": convolutions,
}
