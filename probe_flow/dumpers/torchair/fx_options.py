"""What an FX dump writes: which nodes, steps and values, and in which form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from typing import Any

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class NodeFilter:
    """Which nodes are dumped. Capitals do not matter; a text without wildcard may stand anywhere in the name.

    Args:
        include: patterns of node names, one of which must fit; empty = every name.
        exclude: patterns of node names, none of which may fit.
        types: patterns of targets such as ``aten.mm.*``; empty = every target.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def takes(self, name: str, target: str) -> bool:
        """Tell whether a node is dumped.

        >>> NodeFilter(include=("MM",), types=("aten.*",)).takes("addmm_1", "aten.addmm.default")
        True
        """
        if self.include and not _fits(name, self.include):
            return False
        if self.types and not _fits(target, self.types):
            return False
        return not _fits(name, self.exclude)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    name = name.lower()
    for pattern in patterns:
        wanted = pattern.lower()
        if fnmatchcase(name, wanted) if _WILDCARDS & set(wanted) else wanted in name:
            return True
    return False


@dataclass(frozen=True, slots=True)
class FxDumpOptions:
    """Options of an FX dump.

    Args:
        nodes: which nodes are dumped.
        steps: executions of each graph that are dumped, counted from 0; None = all.
        direction: ``input``, ``output`` or both.
        peer_compatible: also write arguments that are no tensors, and leave out keyword arguments, as TorchAir does.
        data: ``tensor`` writes the elements, ``statistics`` only minimum, maximum, mean and L2 norm, ``both`` both.
        precision: ``float64`` computes each graph in float64; None = as the model is.
        max_tensor_bytes: larger tensors are left out, and named in the manifest.
    """

    nodes: NodeFilter = field(default_factory=NodeFilter)
    steps: tuple[int, ...] | None = None
    direction: tuple[str, ...] = ("input", "output")
    peer_compatible: bool = False
    data: str = "tensor"
    precision: str | None = None
    max_tensor_bytes: int | None = None

    def takes_step(self, step: int) -> bool:
        """Tell whether an execution is dumped."""
        return self.steps is None or step in self.steps

    def to_dict(self) -> dict[str, Any]:
        """Return the options for the manifest."""
        return asdict(self)
