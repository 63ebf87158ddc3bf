"""One layer in PyTorch and in MindSpore, trained for a step with the same numbers: ``python FILE FRAMEWORK FOLDER``.

Leaves ``FOLDER/LAYER``, the dump of each layer with its call and the square of what it gives.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import probe_flow as pf

Numbers = Mapping[str, Any]


def _cases() -> Mapping[str, tuple[Any, Numbers]]:
    """Return input and parameters (``w`` weight, ``b`` bias) of each layer."""
    dice = np.random.RandomState(3)

    def of(*shape: int) -> Any:
        return dice.randn(*shape).astype(np.float32)

    return {
        "conv1d": (of(2, 4, 12), {"w": of(6, 4, 3), "b": of(6)}),
        "conv2d": (of(2, 4, 9, 9), {"w": of(6, 4, 3, 3), "b": of(6)}),
        "conv3d": (of(2, 3, 5, 6, 6), {"w": of(4, 3, 3, 3, 3), "b": of(4)}),
        "transposed": (of(2, 4, 6, 6), {"w": of(4, 5, 3, 3), "b": of(5)}),
        "dense": (of(2, 5, 8), {"w": of(8, 8), "b": of(8)}),
        "embedding": (dice.randint(0, 11, (3, 5)).astype(np.int32), {"w": of(11, 6)}),
        "layer_norm": (of(2, 5, 8), {"w": of(8), "b": of(8)}),
        "batch_norm": (of(4, 8, 5, 5), {"w": of(8), "b": of(8)}),
        "prelu": (of(2, 8, 5, 5), {"w": abs(of(8))}),
        "l1": (of(6, 5), {"target": of(6, 5)}),
        "mse": (of(6, 5), {"target": of(6, 5)}),
        "cross_entropy": (of(6, 5), {"target": dice.randint(0, 5, 6).astype(np.int32)}),
    }


LAYERS = (
    "conv1d", "conv2d", "conv3d", "transposed", "dense", "embedding", "layer_norm", "batch_norm", "prelu", "l1", "mse",
    "cross_entropy",
)  # fmt: skip


def in_torch(folder: Path) -> None:
    import torch
    from torch import nn

    makers: Mapping[str, Callable[[], nn.Module]] = {
        "conv1d": lambda: nn.Conv1d(4, 6, 3, padding=1), "conv2d": lambda: nn.Conv2d(4, 6, 3, padding=1),
        "conv3d": lambda: nn.Conv3d(3, 4, 3, padding=1), "transposed": lambda: nn.ConvTranspose2d(4, 5, 3),
        "dense": lambda: nn.Linear(8, 8), "embedding": lambda: nn.Embedding(11, 6),
        "layer_norm": lambda: nn.LayerNorm(8), "batch_norm": lambda: nn.BatchNorm2d(8),
        "prelu": lambda: nn.PReLU(8), "l1": nn.L1Loss, "mse": nn.MSELoss, "cross_entropy": nn.CrossEntropyLoss,
    }  # fmt: skip

    class Net(nn.Module):
        def __init__(self, layer: nn.Module, target: Any) -> None:
            super().__init__()
            self.layer, self.target = layer, target

        def forward(self, x: Any) -> Any:
            y = x * 2 if x.is_floating_point() else x
            if self.target is not None:
                return self.layer(
                    y, torch.from_numpy(self.target).to(torch.int64 if self.target.ndim == 1 else x.dtype)
                )
            made = self.layer(y)
            return (made * made).mean()

    for name, (given, numbers) in _cases().items():
        layer = makers[name]()
        with torch.no_grad():
            for word, parameter in zip("wb", layer.parameters(), strict=False):
                parameter.copy_(torch.from_numpy(numbers[word]))
        x = torch.from_numpy(given)
        net = Net(layer, numbers.get("target"))
        with pf.dump_torch(net, folder / name, data="tensor"):
            net(x.requires_grad_() if x.is_floating_point() else x).backward()


def in_mindspore(folder: Path) -> None:
    import mindspore as ms
    from mindspore import Tensor, nn

    ms.set_context(mode=ms.PYNATIVE_MODE)
    padded = {"pad_mode": "pad", "padding": 1, "has_bias": True}
    makers: Mapping[str, Callable[[], Any]] = {
        "conv1d": lambda: nn.Conv1d(4, 6, 3, **padded), "conv2d": lambda: nn.Conv2d(4, 6, 3, **padded),
        "conv3d": lambda: nn.Conv3d(3, 4, 3, **padded),
        "transposed": lambda: nn.Conv2dTranspose(4, 5, 3, pad_mode="pad", has_bias=True),
        "dense": lambda: nn.Dense(8, 8), "embedding": lambda: nn.Embedding(11, 6),
        "layer_norm": lambda: nn.LayerNorm((8,), epsilon=1e-5), "batch_norm": lambda: nn.BatchNorm2d(8),
        "prelu": lambda: nn.PReLU(8), "l1": nn.L1Loss, "mse": nn.MSELoss, "cross_entropy": nn.CrossEntropyLoss,
    }  # fmt: skip

    class Net(nn.Cell):  # type: ignore[misc]
        def __init__(self, layer: Any, target: Any) -> None:
            super().__init__()
            self.layer, self.target = layer, target

        def construct(self, x: Any) -> Any:
            y = x * 2 if x.dtype == ms.float32 else x
            if self.target is not None:
                return self.layer(y, Tensor(self.target))
            made = self.layer(y)
            return (made * made).mean()

    for name, (given, numbers) in _cases().items():
        layer = makers[name]()
        for word, parameter in zip("wb", (each for each in layer.get_parameters() if each.requires_grad), strict=False):
            parameter.set_data(Tensor(numbers[word].reshape(parameter.shape)))
        net = Net(layer, numbers.get("target")).set_train()
        weights = net.trainable_params()
        step = ms.value_and_grad(net, 0 if given.dtype == np.float32 else None, weights or None)
        with pf.dump_mindspore(net, folder / name, data="tensor"):
            step(Tensor(given))


if __name__ == "__main__":
    {"torch": in_torch, "mindspore": in_mindspore}[sys.argv[1]](Path(sys.argv[2]))
