"""Write the FX side of a TorchAir dump: one npy file for each positional argument and output of each aten node.

File names follow TorchAir's FX dumper: ``{node}-{target}.{INPUT|OUTPUT}.{i}[.{j}].{timestamp}.npy``, where ``j`` counts
inside a list argument and the timestamp (UTC, 20 digits) is shared by all files of a node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MICROSECONDS_BETWEEN_NODES = 37


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor of a trace: output ``index`` of a node, or a placeholder."""

    node: str
    index: int = 0


Argument: TypeAlias = "Ref | bool | int | float | Sequence[Argument] | None"
Values = Mapping[Ref, Array]


@dataclass(frozen=True, slots=True)
class FxNode:
    """One ``call_function`` node: its name, its printed target (``aten.add.Tensor``) and positional arguments."""

    name: str
    target: str
    args: tuple[Argument, ...]
    outputs: int = 1

    @property
    def key(self) -> str:
        return f"{self.name}-{self.target}"


@dataclass(frozen=True, slots=True)
class Trace:
    """A captured graph: its placeholders (parameters and network inputs), then its nodes in execution order."""

    placeholders: tuple[str, ...]
    nodes: tuple[FxNode, ...]


def write_fx_dump(folder: Path, trace: Trace, values: Values, *, start: int = 20260101000000000000) -> None:
    """Write all nodes of one execution into ``folder``, which is created.

    Args:
        folder: the token folder.
        trace: the graph that was run.
        values: every tensor that a node reads or makes.
        start: timestamp of the first node, 20 digits, microseconds last.

    ``None`` arguments are left out: the product writes them as pickled objects, which no reader should open.
    """
    folder.mkdir(parents=True)
    for position, node in enumerate(trace.nodes):
        timestamp = start + position * MICROSECONDS_BETWEEN_NODES
        for index, argument in enumerate(node.args):
            for place, array in _arrays(argument, values):
                path = folder / f"{node.key}.INPUT.{index}{place}.{timestamp}.npy"
                np.save(path, array, allow_pickle=False)
        for index in range(node.outputs):
            output = np.asarray(values[Ref(node.name, index)])
            np.save(folder / f"{node.key}.OUTPUT.{index}.{timestamp}.npy", output, allow_pickle=False)


def _arrays(argument: Argument, values: Values) -> Iterator[tuple[str, Array]]:
    """Yield what is written for one argument: a tensor, each tensor of a list, or a number or list of numbers."""
    if argument is None:
        return
    if isinstance(argument, Ref):
        yield "", np.asarray(values[argument])
    elif isinstance(argument, Sequence) and argument and isinstance(argument[0], Ref):
        for position, item in enumerate(argument):
            assert isinstance(item, Ref)
            yield f".{position}", np.asarray(values[item])
    else:
        yield "", np.asarray(argument)
