"""How the device cut an operator into slices: the description that each slice's dump header carries.

The first attribute of the header is a JSON object: ``threadMode`` (true when the runtime cut the operator, one slice
per thread; false when the compiler did), ``slice_instance_num`` (number of slices), ``outputCutList`` (per output, the
number of pieces along each axis), ``input_tensor_slice`` and ``output_tensor_slice`` (per thread and tensor, the range
``{"lower": a, "higher": b}`` of each axis).
"""

from __future__ import annotations

import json
from pathlib import Path

from msgspec import Struct

from probe_flow.dumps.device.file_records import GeDump
from probe_flow.errors import FormatError
from probe_flow.files.binary_file import malformed

MAX_TEXT = 16 << 20
"""Characters; tables of thousands of threads stay far below."""

Ranges = tuple[tuple[int, int], ...]
"""For each axis of a stored tensor the first index of a slice and the one behind its last."""


class SliceTable(Struct, frozen=True):
    """The description of one operator.

    Args:
        is_automatic: the runtime cut it: slices are threads, and the ranges give their shapes.
        count: number of slices; None when the description lacks it.
        cuts: per output, the axes along which it is cut.
        inputs, outputs: ranges per thread and tensor; empty when the description has none.
    """

    is_automatic: bool
    count: int | None
    cuts: tuple[tuple[int, ...], ...]
    inputs: tuple[tuple[Ranges, ...], ...]
    outputs: tuple[tuple[Ranges, ...], ...]

    def ranges(self, thread: int, output: int) -> Ranges | None:
        """Return the part of an output that a thread computes, None when the description does not say."""
        return _ranges_of(self.outputs, thread, output)

    def input_ranges(self, thread: int, index: int) -> Ranges | None:
        """Return the part of an input that a thread takes."""
        return _ranges_of(self.inputs, thread, index)


def _ranges_of(table: tuple[tuple[Ranges, ...], ...], thread: int, index: int) -> Ranges | None:
    known = 0 <= thread < len(table) and index < len(table[thread])
    return table[thread][index] if known else None


def slice_table(dump: GeDump, path: Path | str) -> SliceTable | None:
    """Return the description of the slices, None when the header carries none.

    Raises:
        FormatError: PF3023 when it is there and malformed.
    """
    if not dump.attrs or "threadMode" not in dump.attrs[0][1]:
        return None
    text = dump.attrs[0][1]
    if len(text) > MAX_TEXT:
        raise _malformed(path, f"it has {len(text)} characters, at most {MAX_TEXT} are read")
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            raise _malformed(path, "it is no object")
        count = found.get("slice_instance_num")
        return SliceTable(
            is_automatic=bool(found.get("threadMode")),
            count=None if count is None else _whole(count),
            cuts=tuple(_cut_axes(counts) for counts in found.get("outputCutList") or ()),
            inputs=_threads(found.get("input_tensor_slice")),
            outputs=_threads(found.get("output_tensor_slice")),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _malformed(path, f"{type(error).__name__}: {error}") from error


def _cut_axes(counts: list[object]) -> tuple[int, ...]:
    return tuple(axis for axis, count in enumerate(counts) if _whole(count) != 1)


def _threads(found: list[list[list[dict[str, object]]]] | None) -> tuple[tuple[Ranges, ...], ...]:
    return tuple(tuple(tuple(map(_range, axes)) for axes in tensors) for tensors in found or ())


def _range(bounds: dict[str, object]) -> tuple[int, int]:
    lower, higher = _whole(bounds["lower"]), _whole(bounds["higher"])
    if lower > higher:
        raise ValueError(f"the range {lower} to {higher} runs backwards")
    return lower, higher


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"`{str(value)[:40]}` is no count")
    return value


def _malformed(path: Path | str, what: str) -> FormatError:
    return malformed(
        "PF3023",
        path,
        f"the description of the slices in `{Path(path).name}` is malformed: {what}",
        help_text="dump this operator again, or exclude it with `select.nodes`",
    )
