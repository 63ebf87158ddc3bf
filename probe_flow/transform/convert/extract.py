"""Extract the tensors of a run of TensorFlow's debugger as arrays, in one folder, under the names that tools know."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.dumps.offline.names import parse_array_name
from probe_flow.dumps.tfdbg.reader import read_tfdbg
from probe_flow.dumps.tfdbg.runs import RunChoice
from probe_flow.elements.converted.files import FileKind
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.records import Catalog
from probe_flow.transform.convert.catalog import convert_catalog
from probe_flow.transform.convert.names import MAPPING_FILE
from probe_flow.transform.convert.tensors import Wanted

if TYPE_CHECKING:
    from probe_flow.jobs import TaskMap
    from probe_flow.work import Emit

_SHOWN = 3
_THREADS, _PIECE = 8, 8
"""Threads that wait for the disk, and the tensors that each writes before it takes the next."""


def extract(runs: Path, output: Path, *, run: RunChoice = "last", replaces: bool = False) -> Catalog:
    """Write the tensors of a run as ``{operator}.{output}.{microseconds}.npy`` and return their catalog.

    Args:
        runs: folder of the debugger, or of one run.
        output: folder of the arrays; it is made.
        run: which run, as of `dump.tfdbg`.
        replaces: whether the arrays of an earlier extraction are removed first.

    Raises:
        UsageError: PF6512 the folder holds arrays, PF6502 it cannot be used; and as `read_tfdbg`.
        IncompleteError: PF6508 some tensors could not be written; and as `read_tfdbg`.
    """
    earlier = _earlier(output)
    if earlier and not replaces:
        raise UsageError(_holds_arrays(output, earlier))
    catalog = read_tfdbg(runs, side="golden", run=run)
    for path in earlier:
        path.unlink()
    wanted = Wanted(FileKind.NPY, "ND")
    return convert_catalog(catalog, wanted, _Command(), folder=str(output), nodes=None, replaces=replaces)


def _earlier(folder: Path) -> list[Path]:
    """Return what an earlier extraction left in a folder: arrays by their names, and the table of these."""
    try:
        held = sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        message = f"`{folder}` cannot be used: {error.strerror or error}"
        raise UsageError(
            Diagnostic("PF6502", message, path=str(folder), help="name another folder with `-o`")
        ) from error
    arrays = [path for path in held if path.suffix == ".npy" and parse_array_name(path.name) is not None]
    return [*arrays, *(path for path in held if arrays and path.name == MAPPING_FILE)]


def _holds_arrays(folder: Path, earlier: Sequence[Path]) -> Diagnostic:
    return Diagnostic(
        "PF6512",
        f"`{folder}` holds {len(earlier)} files of an earlier extraction",
        help="name an empty folder with `-o`, or let them be replaced with `--force`",
        notes=tuple(f"`{path.name}`" for path in earlier[:_SHOWN]),
        path=str(folder),
    )


def _here(
    function: Callable[[Any], Any],
    batches: Sequence[Any],
    *,
    sizes: Sequence[int],  # noqa: ARG001 (what a map is told)
    lost: object = None,  # noqa: ARG001
    serial_bytes: int | None = None,  # noqa: ARG001
) -> Iterator[tuple[int, Any]]:
    """Run batches in pieces, several at a time: what takes long is that each file reaches the disk."""
    pieces = [
        (number, replace(batch, jobs=batch.jobs[start : start + _PIECE]))
        for number, batch in enumerate(batches)
        for start in range(0, len(batch.jobs), _PIECE)
    ]
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from zip(
            (number for number, _ in pieces), pool.map(function, (piece for _, piece in pieces)), strict=True
        )


class _Command(Struct, frozen=True):
    """What a conversion runs in that is no stage of a workflow."""

    stage: str = "tf_dump"
    output: Path = Path(os.devnull)
    map: TaskMap = _here
    emit: Emit = lambda *_, **__: None
    report: Callable[[Iterable[Diagnostic]], None] = lambda _problems: None
