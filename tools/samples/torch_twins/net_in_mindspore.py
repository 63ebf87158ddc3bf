"""A small network in MindSpore; `net_in_torch.py` is the same one. The target of `mindspore_vs_pytorch`."""

import mindspore
import numpy as np
from mindspore import nn


class Mlp(nn.Cell):
    """Two dense layers."""

    def __init__(self):
        super().__init__()
        self.up = nn.Dense(8, 16)
        self.act = nn.ReLU()
        self.down = nn.Dense(16, 8)

    def construct(self, x):
        return self.down(self.act(self.up(x)))


class Net(nn.Cell):
    """An input layer, a block with a way around it, a norm, a head."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Dense(8, 8)
        self.mlp = Mlp()
        self.norm = nn.LayerNorm((8,), epsilon=1e-5)
        self.head = nn.Dense(8, 4)

    def construct(self, x):
        x = self.stem(x)
        return self.head(self.norm(x + self.mlp(x)))


def model():
    """Return the network with the weights of the seed that both frameworks use."""
    net, random = Net(), np.random.default_rng(7)
    for layer in (net.stem, net.mlp.up, net.mlp.down, net.head):
        for parameter, scale in ((layer.weight, 0.3), (layer.bias, 0.1)):
            parameter.set_data(mindspore.Tensor(random.normal(0, scale, parameter.shape).astype(np.float32)))
    return net
