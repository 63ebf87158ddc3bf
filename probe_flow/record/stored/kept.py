"""Reading what is kept between runs: catalogs and comparisons, each for one state of the files that it was made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TypeVar

from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.opening import open_bytes
from probe_flow.record.stored.kinds import MAX_HEADER_BYTES, catalog_header, kept_header
from probe_flow.record.stored.reading import damaged_record, last_record, messages_of
from probe_flow.records import Catalog, Comparison

_NOWHERE = Path("memory")

_Kept = TypeVar("_Kept", Catalog, Comparison)


def read_catalog(path: Path, *, state: str) -> Catalog | None:
    """Return the catalog that `write_catalog` wrote for a state of its files.

    None where there is none, or that of another state, or of other records than those of this probe_flow.

    Raises:
        IncompleteError: PF7116 when the file is damaged.
        OSError: it cannot be read.
    """
    header = json.dumps(catalog_header(state)).encode() + b"\n"
    return _read(Catalog, path, lambda line: line == header)


def catalog_of(data: bytes) -> Catalog:
    """Return the catalog that `catalog_bytes` wrote in the same version of probe_flow."""
    file = BytesIO(data)
    file.readline(MAX_HEADER_BYTES)
    return last_record(Catalog, messages_of(file, _NOWHERE), _NOWHERE)


def read_kept_comparison(path: Path, *, state: str) -> Comparison | None:
    """Return the comparison that was kept for a state of its files.

    None where there is none, or that of another state, or of other records than those of this probe_flow.

    Raises:
        IncompleteError: PF7116 when the file is damaged.
        OSError: it cannot be read.
    """
    return _read(Comparison, path, lambda line: _kept_results(line, state) is not None)


def _read(kind: type[_Kept], path: Path, is_asked: Callable[[bytes], bool]) -> _Kept | None:
    try:
        file = open_bytes(path)
    except FileNotFoundError:
        return None
    with file:
        if not is_asked(file.readline(MAX_HEADER_BYTES)):
            return None
        return last_record(kind, messages_of(file, path), path)


def kept_results(path: Path, *, state: str) -> int | None:
    """Return how many results the comparison holds that was kept for a state of its files; None where there is none.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with open_bytes(path) as file:
            return _kept_results(file.readline(MAX_HEADER_BYTES), state)
    except FileNotFoundError:
        return None


def _kept_results(line: bytes, state: str) -> int | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    results = found.get("results") if isinstance(found, dict) else None
    return results if results.__class__ is int and found == kept_header(state, results) else None


def problem_of_kept(path: Path) -> Diagnostic | None:
    """Read a kept catalog or comparison whole and return what is wrong with it, None when it is as it was written."""
    try:
        with open_bytes(path) as file:
            file.readline(MAX_HEADER_BYTES)
            for _ in messages_of(file, path):
                pass
    except IncompleteError as error:
        return error.diagnostic
    except OSError as error:
        return damaged_record(path, error.strerror or str(error)).diagnostic
    return None
