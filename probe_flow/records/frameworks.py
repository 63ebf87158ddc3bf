"""Frameworks: what wrote a dump, and what follows from that for those who compare it.

Records, no enum: a reader of an installed package makes one of its own. Nothing asks for names; what a comparison needs
to know of a framework is a property here.
"""

from __future__ import annotations

import enum
from typing import Any

from msgspec import Struct


class Kernels(enum.Enum):
    """Whose kernels compute: the values of two kernels of one family differ by less than those of two families."""

    PYTORCH = "pytorch"
    MINDSPORE = "mindspore"


class Framework(Struct, frozen=True, gc=False):
    """What wrote a dump.

    Args:
        name: as published (``torchair_ge``, ``pytorch`` ...).
        kernels: whose kernels, dtypes and API names it uses; None for those of no program (graphs of a device, models
            that were compiled, arrays).
        is_arrays: whether its dumps hold the outputs of an original model as plain arrays, which dumps of devices are
            compared with.
    """

    name: str
    kernels: Kernels | None = None
    is_arrays: bool = False

    @classmethod
    def shared(cls, *fields: Any) -> Framework:
        """Return a framework, ours where it is one of ours."""
        found = cls(*fields)
        return next((each for each in _OURS if each == found), found)

    @property
    def dialect(self) -> str:
        """The framework whose dtypes and API names its dumps use."""
        return self.name if self.kernels is None else self.kernels.value


PYTORCH = Framework("pytorch", Kernels.PYTORCH)
MINDSPORE = Framework("mindspore", Kernels.MINDSPORE)
MINDTORCH = Framework("mindtorch", Kernels.MINDSPORE)
TORCHAIR_GE = Framework("torchair_ge")
TORCHAIR_FX = Framework("torchair_fx")
OM = Framework("om")
NPY = Framework("npy", is_arrays=True)
TFDBG = Framework("tfdbg", is_arrays=True)
ARRAYS = Framework("arrays")
"""Arrays of any program, named as it pleased."""
NO_FRAMEWORK = Framework("")
"""Of a catalog that no dump lies behind."""

_OURS = (PYTORCH, MINDSPORE, MINDTORCH, TORCHAIR_GE, TORCHAIR_FX, OM, NPY, TFDBG, ARRAYS, NO_FRAMEWORK)


def named(name: str) -> Framework:
    """Return the framework of a published name; one of which no more is known where it is none of ours."""
    return next((each for each in _OURS if each.name == name), Framework(name))
