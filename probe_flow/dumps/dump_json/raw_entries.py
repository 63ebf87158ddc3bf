"""Entries of a dump as its dump.json has them, for those who show or run them: a catalog keeps less than that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from probe_flow.dumps.dump_json.folders import find_dump_files
from probe_flow.dumps.dump_json.stream import EntryStream
from probe_flow.records import Catalog, Execution


def raw_entries(catalog: Catalog, execution: Execution | None = None) -> Iterator[tuple[str, object]]:
    """Yield name and value of every entry, read again.

    Args:
        catalog: of dump.json files.
        execution: only its entries.

    Raises:
        UsageError, FormatError: the dump is gone, or has changed so that it is none any more.
    """
    root, files = Path(catalog.root), catalog.attrs["files"]
    assert isinstance(files, tuple)
    shown = [str(name) for name in files]
    if execution is not None and len(shown) > 1:
        run = execution.rank, execution.step, execution.graph
        found = [each for each in find_dump_files(root).files if each.shown in shown]
        shown = [
            each.shown for each in found if (each.execution.rank, each.execution.step, each.execution.graph) == run
        ]
    for name in shown:
        yield from EntryStream(root if root.is_file() else root / name, name)
