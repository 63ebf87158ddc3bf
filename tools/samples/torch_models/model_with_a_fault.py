"""The same model as in `model.py`, with a fault in its second layer. The target of `torch_vs_torch`."""

import torch
from model import model as right_model


def model():
    """Return the model with the weights of one layer 2 % too large, as a wrong scale leaves them."""
    net = right_model()
    with torch.no_grad():
        net.layers[1].up.weight.mul_(1.02)
    return net
