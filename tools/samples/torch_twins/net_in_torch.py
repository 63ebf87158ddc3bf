"""A small network in PyTorch; `net_in_mindspore.py` is the same one. The golden side of `mindspore_vs_pytorch`."""

import numpy as np
import torch
from torch import nn


class Mlp(nn.Module):
    """Two dense layers."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.act = nn.ReLU()
        self.down = nn.Linear(16, 8)

    def forward(self, x):
        return self.down(self.act(self.up(x)))


class Net(nn.Module):
    """An input layer, a block with a way around it, a norm, a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(8, 8)
        self.mlp = Mlp()
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = self.stem(x)
        return self.head(self.norm(x + self.mlp(x)))


def model():
    """Return the network with the weights of the seed that both frameworks use."""
    net, random = Net(), np.random.default_rng(7)
    for layer in (net.stem, net.mlp.up, net.mlp.down, net.head):
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(random.normal(0, 0.3, tuple(layer.weight.shape)).astype(np.float32)))
            layer.bias.copy_(torch.from_numpy(random.normal(0, 0.1, tuple(layer.bias.shape)).astype(np.float32)))
    return net
