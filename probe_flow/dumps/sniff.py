"""Which kind of dump lies at a path: told by the names of its files and folders, a bounded number of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from probe_flow.dumps.device_folders.layout import is_torchair
from probe_flow.dumps.dump_json.tensor_files import FOLDER
from probe_flow.dumps.registry import DUMP_JSON, NPY, OM, READERS, TORCHAIR_GE, Folders, ReaderSpec
from probe_flow.errors import Diagnostic, IncompleteError, UsageError, did_you_mean
from probe_flow.files.existing import is_file, is_there
from probe_flow.packages import BrokenPackageError

_KINDS_OF_FILES = MappingProxyType({".json": DUMP_JSON, ".npy": NPY})

MAX_NAMES = 20_000
"""Names looked at below a path; dumps show what they are within the first few."""

_MAX_DEPTH = 8
_MAX_LISTED = 5


def _names_in(folder: Path) -> list[str]:
    try:
        return [child.name for child in folder.iterdir()]
    except OSError:
        return []


def kind_of_dump(path: str) -> str:
    """Return the kind of the dump at a path, a name of `READERS`.

    Readers of packages are loaded and asked only where none of ours knows the dump.

    Raises:
        UsageError: PF3401 no such path, PF3430 nothing known there, PF3431 several kinds.
        IncompleteError: PF3409 the path cannot be searched.
    """
    place = Path(path)
    if not is_there(place):
        help_text = did_you_mean(place.name, _names_in(place.parent))
        raise UsageError(Diagnostic("PF3401", f"`{path}` does not exist", path=path, help=help_text))
    if is_file(place):
        if place.suffix in _KINDS_OF_FILES:
            return _KINDS_OF_FILES[place.suffix]
        return _of_packages(path, [((place.resolve().parent.name,), place.name)], [])
    try:
        names = list(islice(_names(place), MAX_NAMES))
    except OSError as error:
        message = f"`{path}` cannot be searched: {error.strerror or error}"
        cure = "give yourself the right to read the folder, or name the one that holds the dump"
        raise IncompleteError(Diagnostic("PF3409", message, path=path, help=cure)) from error
    ours = [READERS[name] for name in READERS.built_in]
    found = _shown((reader for reader in ours if not reader.is_last), names)
    if OM in found and (TORCHAIR_GE in found or any(map(is_torchair, place.resolve().parts[-_MAX_DEPTH:]))):
        # The files of both look alike; what tells them apart may lie beside them, or above the path.
        found.setdefault(TORCHAIR_GE, found.pop(OM))
    return _only(found, path) if found else _of_packages(path, names, ["/".join((*a[1:], b)) for a, b in names])


def _shown(readers: Iterable[ReaderSpec], names: Iterable[tuple[Folders, str]]) -> dict[str, str]:
    """Return the kinds that files show, each with the path of one; a file shows the first kind that it fits."""
    known = list(readers)
    found: dict[str, str] = {}
    for folders, name in names:
        kind = next((reader.name for reader in known if reader.shows(folders, name)), None)
        if kind is not None:
            found.setdefault(kind, "/".join((*folders[1:], name)))
    return found


def _of_packages(path: str, names: Sequence[tuple[Folders, str]], held: Sequence[str]) -> str:
    """Return the kind by the readers of packages; one that cannot be used is a note of the error of an unknown dump."""
    found: dict[str, str] = {}
    looked_for = [f"{name}: {READERS[name].signs}" for name in READERS.built_in]
    broken: list[str] = []
    for kind in READERS:
        if kind in READERS.built_in:
            continue
        try:
            found |= _shown([READERS[kind]], names)
            looked_for.append(f"{kind}: {READERS[kind].signs}")
        except BrokenPackageError as error:
            broken.append(error.diagnostic.message)
        except Exception as error:  # code of others
            broken.append(READERS.unusable(kind, f"{type(error).__name__}: {error}").diagnostic.message)
    found = found or _shown((READERS[name] for name in READERS.built_in if READERS[name].is_last), names)
    if not found:
        raise _unknown(path, held, looked_for, broken)
    return _only(found, path)


def _only(found: dict[str, str], path: str) -> str:
    if len(found) > 1:
        shown = ", ".join(f"{kind} (`{example}`)" for kind, example in found.items())
        raise UsageError(
            Diagnostic(
                "PF3431",
                f"`{path}` holds dumps of {len(found)} kinds: {shown}",
                path=path,
                help="give the folder of one of them, or use the stage of its kind, e.g. `dump.torchair_fx`",
            )
        )
    return next(iter(found))


def _names(root: Path) -> Iterator[tuple[Folders, str]]:
    """Yield the files below a folder with the folders that hold them (the root's own name first), nearest first."""

    def fail(error: OSError) -> None:
        raise error

    for folder, below, files in os.walk(root, onerror=fail):
        folders = (root.resolve().name, *Path(folder).relative_to(root).parts)
        below[:] = sorted(name for name in below if name != FOLDER) if len(folders) <= _MAX_DEPTH else []
        yield from ((folders, name) for name in sorted(files))


def _unknown(path: str, held: Sequence[str], looked_for: Sequence[str], broken: Sequence[str]) -> UsageError:
    shown = ", ".join(f"`{name}`" for name in held[:_MAX_LISTED])
    nothing = "it is a file, not a folder" if is_file(Path(path)) else "it holds no file"
    holds = f"it holds {shown}" if shown else nothing
    return UsageError(
        Diagnostic(
            "PF3430",
            f"`{path}` holds no dump of a known kind",
            path=path,
            help="give the folder of one dump",
            notes=("looked for " + "; ".join(looked_for), holds, *broken),
        )
    )
