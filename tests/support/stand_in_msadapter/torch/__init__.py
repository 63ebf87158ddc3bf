"""A stand-in for MSAdapter: a package named like PyTorch, with the tensors of the stand-in for MindSpore."""

from __future__ import annotations

from typing import Any

import mindspore
import tape
from mindspore import mint as _mint

globals().update({name: getattr(mindspore, name) for name in tape.DTYPES if name != "bool"})


class Tensor(mindspore.Tensor):
    def to(self, dtype: Any) -> Tensor:
        return Tensor(self.values.astype(dtype.name))


def tensor(value: float) -> Tensor:
    return Tensor(value)


def from_numpy(values: Any) -> Tensor:
    return Tensor(values)


_FUNCTIONS = tape.functions(Tensor)
globals().update(_FUNCTIONS)
for _name, _function in _FUNCTIONS.items():
    setattr(Tensor, _name, _function)


def ends(x: Any) -> Any:
    return x


wrong, crash, no_kernel = _mint.wrong, _mint.crash, _mint.no_kernel

from torch import nn as nn  # noqa: E402 (it needs what is above)
