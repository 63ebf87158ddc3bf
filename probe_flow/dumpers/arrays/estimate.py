"""About how many bytes a folder of arrays will have, by shapes alone: what the process that knows the model tells.

Modules `probe_flow.dumpers.FRAMEWORK.estimate MODEL OPTIONS` load a model and print what `told`
gives; nothing is run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from probe_flow.dumpers.arrays.array_folder import ArrayOptions
from probe_flow.dumpers.requirements import asked_for

HEADER_BYTES = 128
"""Of a `.npy` file, beside its elements."""

STATISTICS_BYTES = 1024
"""Of a file with the statistics of a tensor."""

UNKNOWN = "an unknown number of bytes"
_MOST_NAMED = 3


class SizedTensor(Struct, frozen=True):
    """A tensor that a dump would have.

    Args:
        node, op_type: what gives it.
        name: of the tensor.
        size: bytes of its elements; None where shapes do not tell.
    """

    node: str
    op_type: str
    name: str
    size: int | None


Sized = Callable[[Path, Mapping[str, Any]], Iterable[SizedTensor]]
"""Returns the tensors of a model, given its file and the options of the dump."""


def main(sized: Sized) -> None:
    """Print what a plan says of the model that the command line names."""
    dump = json.loads(sys.argv[2])
    sys.stdout.write(told(sized(Path(sys.argv[1]), dump), dump))


def told(tensors: Iterable[SizedTensor], dump: Mapping[str, Any]) -> str:
    """Return the number of bytes, or what is known of it in words, as JSON.

    >>> told([SizedTensor("a", "Relu", "y", 40)], {})
    '168'
    """
    options = ArrayOptions.of(dump)
    total, count = 0, 0
    open_: list[str] = []
    for tensor in tensors:
        if not options.nodes.takes(tensor.node, tensor.op_type):
            continue
        count += 1
        if options.data in ("statistics", "both"):
            total += STATISTICS_BYTES
        if options.data == "statistics":
            continue
        if tensor.size is None:
            open_.append(tensor.name)
        elif options.max_tensor_bytes is None or tensor.size <= options.max_tensor_bytes:
            total += tensor.size + HEADER_BYTES
    if open_:
        shown = ", ".join(f"`{name}`" for name in open_[:_MOST_NAMED])
        return json.dumps(
            f"at least {total:,} bytes: of {len(open_)} of {count} tensors, such as {shown}, the model leaves sizes "
            "open, which `input_shape` may give"
        )
    return json.dumps(total)


def estimated(module: str, model: str, dump: Mapping[str, Any], repeat: int) -> int | str:
    """Return about how many bytes the dumps of a model will have, or why that is not known.

    Args:
        module: that knows its framework, and is run in a process of its own.
        model: its file.
        dump: options of the dump.
        repeat: how many dumps there are.
    """
    found = asked_for(module, model, json.dumps(dump))
    try:
        size = json.loads(found)
    except ValueError:
        return f"{UNKNOWN}: the model cannot be looked at, and its run will say why"
    return size * repeat if isinstance(size, int) else str(size)
