"""Templates of installed packages: entry points ``probe_flow.templates`` that name a folder of workflows.

An entry point's value is the dotted name of a package whose folder holds the files: ``acme_probe.workflows``. Files are
listed and read; nothing of the package is imported, so that looking for a template runs no foreign code.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import Diagnostic, Severity

GROUP = "probe_flow.templates"
"""Entry point group; the name of an entry is for people, its value names a folder."""


class Announced(Struct, frozen=True):
    """A workflow file of an installed package.

    Args:
        path: the file.
        package: name of the distribution; of the entry point where there is no distribution.
        version: of the distribution; empty where it does not tell.
    """

    path: Path
    package: str
    version: str


def announced(entries: Iterable[EntryPoint]) -> tuple[list[Announced], list[Diagnostic]]:
    """Return the files of all packages, sorted by package and name, and a warning for each that brings none."""
    found: dict[tuple[str, Path], Announced] = {}
    problems = []
    for entry in sorted(entries, key=lambda entry: (_package(entry), entry.name)):
        files = _files(entry)
        if isinstance(files, str):
            problems.append(_brings_none(entry, files))
            continue
        for path in files:
            found.setdefault((_package(entry), path), Announced(path, _package(entry), _version(entry)))
    return list(found.values()), problems


def _files(entry: EntryPoint) -> list[Path] | str:
    """Return the workflow files that an entry point announces, or why there are none."""
    folders = _folders(entry)
    if isinstance(folders, str):
        return folders
    try:
        files = sorted(
            path
            for folder in folders
            for path in folder.iterdir()
            if path.suffix == ".yaml" and not path.name.startswith((".", "_")) and path.is_file()
        )
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return files or f"there is no `*.yaml` in `{folders[0]}`"


def _folders(entry: EntryPoint) -> list[Path] | str:
    try:
        module, attribute = entry.module, entry.attr
    except (AttributeError, TypeError, ValueError):  # the value does not have the form of an entry point
        return "its value is no dotted name of a package"
    if attribute:
        return f"its value names `{attribute}` inside a module, not the package that holds the files"
    # Asking for a package below another one would import the one above.
    top, *inner = module.split(".")
    roots = _roots(top)
    if not roots:
        return f"there is no package `{top}`"
    folders = [folder for root in roots if (folder := root.joinpath(*inner)).is_dir()]
    return folders or f"there is no folder `{roots[0].joinpath(*inner)}`"


def _roots(top: str) -> list[Path]:
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        loaded = sys.modules.get(top)
        return [Path(folder) for folder in getattr(loaded, "__path__", ())]
    return [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec is not None else []


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.name


def _version(entry: EntryPoint) -> str:
    return entry.dist.version if entry.dist is not None else ""


def _brings_none(entry: EntryPoint, why: str) -> Diagnostic:
    return Diagnostic(
        "PF7402",
        f"the templates of the package `{_package(entry)}` cannot be found: {why}",
        Severity.WARNING,
        help="update or remove the package; if it is yours, look at its entry point and at what its wheel holds",
        notes=(f'entry point of `{GROUP}`: `{entry.name} = "{entry.value}"`',),
    )
