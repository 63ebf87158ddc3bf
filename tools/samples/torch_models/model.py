"""A small model of PyTorch: one layer of a transformer, made from a seed. The golden side of `torch_vs_torch`."""

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Attention with one head."""

    def __init__(self, width):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        weights = torch.softmax(query @ key.transpose(1, 2) / query.shape[-1] ** 0.5, dim=-1)
        return self.out(weights @ value)


class Layer(nn.Module):
    """Attention and two dense layers, each with a way around it."""

    def __init__(self, width):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    """Tokens in, scores of the next token out."""

    def __init__(self, tokens=11, width=16, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, tokens)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def model():
    """Return the model; its weights come from a seed of its own."""
    torch.manual_seed(0)
    return Net()
