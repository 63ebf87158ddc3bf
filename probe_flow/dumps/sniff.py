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
from probe_flow.errors import Diagnostic, IncompleteError, UsageError
from probe_flow.files.existing import first_names, is_file, is_there, real_path, why_missing
from probe_flow.files.walk import MAX_DEPTH
from probe_flow.packages import BrokenPackageError

_KINDS_OF_FILES = MappingProxyType({".json": DUMP_JSON, ".npy": NPY})

MAX_NAMES = 20_000
"""Names looked at below a path; dumps show what they are within the first few."""

_MAX_LISTED = 5
_ARCHIVES = (".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar")


def kind_of_dump(path: str) -> str:
    """Return the kind of the dump at a path, a name of `READERS`.

    Readers of packages are loaded and asked only where none of ours knows the dump.

    Raises:
        UsageError: PF3401 no such path, PF3430 nothing known there, PF3431 several kinds.
        IncompleteError: PF3409 the path cannot be searched.
    """
    place = Path(path)
    if not is_there(place):
        what, cure = why_missing(place)
        raise UsageError(Diagnostic("PF3401", f"`{path}` {what}", path=path, help=cure))
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
    if OM in found and (TORCHAIR_GE in found or any(map(is_torchair, place.resolve().parts[-MAX_DEPTH:]))):
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
    looked_for = [_looked_for(name) for name in READERS.built_in]
    broken: list[str] = []
    for kind in READERS:
        if kind in READERS.built_in:
            continue
        try:
            found |= _shown([READERS[kind]], names)
            looked_for.append(_looked_for(kind))
        except BrokenPackageError as error:
            broken.append(error.diagnostic.message)
        except Exception as error:  # code of others
            broken.append(READERS.unusable(kind, f"{type(error).__name__}: {error}").diagnostic.message)
    found = found or _shown((READERS[name] for name in READERS.built_in if READERS[name].is_last), names)
    if not found:
        raise _unknown(path, held, looked_for, broken)
    return _only(found, path)


def _looked_for(kind: str) -> str:
    return f"of `{kind}` it would hold {READERS[kind].signs}"


def _only(found: dict[str, str], path: str) -> str:
    if len(found) > 1:
        shown = ", ".join(f"{kind} (`{example}`)" for kind, example in found.items())
        folders = [Path(path, example.split("/")[0]) for example in found.values() if "/" in example]
        apart = " or ".join(f"`{folder}`" for folder in dict.fromkeys(folders))
        cure = f"give {apart}" if len(set(folders)) == len(found) else "give the folder of one of them"
        raise UsageError(
            Diagnostic(
                "PF3431",
                f"`{path}` holds dumps of {len(found)} kinds: {shown}",
                path=path,
                help=f"{cure}; in a workflow the stage of one kind, in place of `dump.auto`, takes its files alone",
            )
        )
    return next(iter(found))


def _names(root: Path) -> Iterator[tuple[Folders, str]]:
    """Yield the files below a folder with the folders that hold them (the root's own name first), nearest first."""

    def fail(error: OSError) -> None:
        raise error

    for folder, below, files in os.walk(root, onerror=fail):
        folders = (root.resolve().name, *Path(folder).relative_to(root).parts)
        below[:] = sorted(name for name in below if name != FOLDER) if len(folders) <= MAX_DEPTH else []
        yield from ((folders, name) for name in sorted(files))


def _unknown(path: str, held: Sequence[str], looked_for: Sequence[str], broken: Sequence[str]) -> UsageError:
    shown = ", ".join(f"`{name}`" for name in held[:_MAX_LISTED])
    nothing = "it is a file, not a folder" if is_file(path) else "it holds no file"
    return UsageError(
        Diagnostic(
            "PF3430",
            f"`{path}` holds no dump of a known kind",
            path=path,
            help=_where_the_dump_is(Path(path)),
            notes=(f"it holds {shown}" if shown else nothing, *looked_for, *broken),
        )
    )


def _where_the_dump_is(path: Path) -> str:
    """Return the next step for a path without a dump: it may be packed, or lie in the folder above."""
    if is_file(path):
        is_packed = path.name.lower().endswith(_ARCHIVES)
        return f"{'unpack it, and ' if is_packed else ''}give the folder of the dump, not a file"
    above = real_path(path).parent
    names = [((above.name,), name) for name in first_names(above)]
    readers = (READERS[name] for name in READERS.built_in if not READERS[name].is_last)
    shown = above if path.name in ("", "..") else path.parent
    return f"give the folder above it, `{shown}`" if _shown(readers, names) else "give the folder of one dump"
