"""Names in offline dumps: device files, framework arrays, and operators that only a quantised model has.

Device file: as `probe_flow.dumps.file_names` reads them, with whatever hangs behind the name. Array of a
framework: ``{op}.{output index}.{timestamp}.npy``; ``.pb`` and ``.quant`` are older forms that hold a device container.
Its names have ``_`` in place of ``/`` and ``.``; the copy of an operator's input is ``input_{op}.{input index}...``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import Struct

from probe_flow.dumps.file_names import GeFileName, parse_fx_name, parse_ge_name, safe_name
from probe_flow.dumps.selection import Selection

FFTS_TASK_TYPES = range(5)
"""AI core, AI CPU, debug, collective communication, FFTS+."""

INPUT_PREFIX = "input_"

_ARRAY = re.compile(
    r"(?P<op>.+)\.(?P<index>\d{1,6})\.(?P<timestamp>\d{1,255})(?P<reduced>_[^.]*)?\.(?P<suffix>npy|pb|quant)", re.DOTALL
)
_OTHER_KINDS = (
    ".json", ".txt", ".csv", ".npz", ".npy", ".pb", ".quant", ".pt", ".pth", ".py", ".log", ".md", ".swp", ".tmp",
    ".part", ".om", ".onnx", ".bin", ".xlsx",
)  # fmt: skip
_MAX_TAIL_FIELDS = 3
_QUANTISED = re.compile(
    r"_(?:anti_)?quant_layer|_dequant_layer|Ascend(?:Weight)?Quant(?!ile)|AscendDequant|AntiQuant(?!ile)"
    r"|[_/.](?:weight_|anti_)?(?:de)?quant(?=[_/.\d]|$)"
)
_QUANTISED_TYPES = frozenset({"AscendQuant", "AscendWeightQuant", "AscendAntiQuant", "AscendDequant"})


class ArrayName(Struct, frozen=True):
    """The fields of a framework array's name; ``suffix`` is without its dot."""

    op: str
    index: int
    timestamp: int
    suffix: str
    is_reduced: bool = False


def parse_om_name(name: str) -> GeFileName | None:
    """Return the fields of a device file's name, None when it is not one. Text fields behind the name are tolerated.

    >>> parse_om_name("Add.a_b.44.6.1706596912161941.copy").op_name
    'a_b'
    """
    if name.startswith(".") or name.endswith(_OTHER_KINDS):
        return None
    for _ in range(_MAX_TAIL_FIELDS + 1):
        parsed = parse_ge_name(name)
        name, dot, tail = name.rpartition(".")
        if parsed is not None or not dot or tail.isdigit():
            return parsed
    return None


def parse_om_array_name(name: str) -> GeFileName | None:
    """Return the fields of an array that stands for a device file, None for arrays of other names.

    Only the full form (with stream) counts: the shorter one looks like a framework array.

    >>> parse_om_array_name("Add.a_b.44.6.1706596912161941.npy").op_name
    'a_b'
    """
    parsed = parse_ge_name(name.removesuffix(".npy")) if name.endswith(".npy") else None
    is_full = parsed is not None and parsed.stream_id is not None and "." not in parsed.op_name
    return parsed if is_full else None


def parse_array_name(name: str) -> ArrayName | None:
    """Return the fields of a framework array's name, None when it is not one.

    >>> parse_array_name("block_conv1.0.1700000000001000.npy").index
    0
    """
    found = None if name.startswith(".") or parse_fx_name(name) is not None else _ARRAY.fullmatch(name)
    if found is None or (found["reduced"] and found["suffix"] != "npy"):
        return None
    is_reduced = found["reduced"] is not None
    return ArrayName(found["op"], int(found["index"]), int(found["timestamp"]), found["suffix"], is_reduced)


def owner_of_input(name: str, names: Collection[str]) -> str | None:
    """Return the operator whose inputs the arrays of a name are, None when they are its own outputs.

    An operator may well be called ``input_1``: the prefix counts only where the rest is an operator of the dump, and
    nothing is the input of ``name``.

    >>> owner_of_input("input_conv", {"conv", "input_conv"}), owner_of_input("input_1", {"conv", "input_1"})
    ('conv', None)
    """
    rest = name.removeprefix(INPUT_PREFIX)
    is_copy = rest != name and rest in names and INPUT_PREFIX + name not in names
    return rest if is_copy else None


def name_filter(patterns: Sequence[str] | None) -> Callable[[str], bool]:
    """Return the test of cleaned operator names by glob patterns of true or cleaned ones; None takes all.

    >>> list(map(name_filter(["block/conv*"]), ["block_conv1", "block_bn"]))
    [True, False]
    """
    both = None if patterns is None else (*patterns, *map(safe_name, patterns))
    return Selection(nodes=both).node_filter()


def names_of_quantised(operators: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names that only a quantised model has, of (operator name, type or empty text).

    Words are matched whole: `post_quantile` is no quantisation. Fused names join words without a sign between, so the
    longer patterns may go on.

    >>> names_of_quantised([("conv1_quant", ""), ("post_quantile", ""), ("AscendDequant_1", "")])
    ('conv1_quant', 'AscendDequant_1')
    """
    return tuple(
        name for name, op_type in operators if op_type in _QUANTISED_TYPES or _QUANTISED.search(name) is not None
    )
