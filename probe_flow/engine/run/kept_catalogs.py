"""Catalogs that are kept between runs: a dump whose files are as they were is not read again.

One look at the folder, which the plan takes anyway, says whether they are: a digest of all that the file system says of
them. A catalog is kept for each stage with its options, in the place of the one before, together with that digest.
Whatever else decides what a reader finds is in the name of the file: our source, and whether torch is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from probe_flow.engine.run.paths import input_paths, measure_path
from probe_flow.engine.run.plan import Plan, PlannedStage
from probe_flow.errors import Diagnostic, IncompleteError, Severity
from probe_flow.files.existing import exists
from probe_flow.records import Catalog
from probe_flow.stages.base import Kind
from probe_flow.version import __version__
from probe_flow.workflow.model import ResolvedStage

_ASKS_PACKAGES = "dump.auto"
"""Has the readers of packages read what none of ours knows."""

_ITSELF_WITH_NEIGHBOURS = "dump.json"
"""Name of a file that stands for the dump in its folder."""


class KeptCatalogs:
    """The catalogs of one plan.

    Args:
        folder: where they lie; None keeps none.
        plan: says which stages are forced, and by what files are identified.
    """

    def __init__(self, folder: Path | None, plan: Plan) -> None:
        self._folder = folder if plan.workflow.cache.key == "stat" else None
        self._forced = plan.forced
        self._places: dict[str, tuple[Path | None, str]] = {}

    def find(self, planned: PlannedStage, report: Callable[[Diagnostic], object]) -> Catalog | None:
        """Return what a stage found before in files that are as they were; report what is wrong with the cache."""
        path, state = self.place(planned)
        if path is None or planned.stage.name in self._forced or not exists(path):
            return None
        from probe_flow.record.stored.kept import read_catalog

        try:
            return read_catalog(path, state=state)
        except (IncompleteError, OSError) as error:
            report(damaged(path, error))
            return None

    def keep(self, planned: PlannedStage, catalog: Catalog) -> None:
        """Keep what a stage found, for the state that its files had when it was planned.

        A cache that does not take it is not reported here: it does not take results either, and that is.
        """
        path, state = self.place(planned)
        if path is None:
            return
        from probe_flow.record.stored.writing import write_catalog

        with suppress(OSError):
            write_catalog(catalog, path, state=state)

    def place(self, planned: PlannedStage) -> tuple[Path | None, str]:
        """Return the file of a stage's catalog and the state of the dump; no file where it cannot be kept.

        The state is that of before the dump is read, whenever it is asked for.
        """
        name = planned.stage.name
        if name not in self._places:
            self._places[name] = self._found_place(planned)
        return self._places[name]

    def _found_place(self, planned: PlannedStage) -> tuple[Path | None, str]:
        stage = planned.stage
        reads_only = stage.type.produces is Kind.CATALOG and not stage.inputs and stage.type.uses != _ASKS_PACKAGES
        if self._folder is None or not (reads_only and is_ours(stage)):
            return None, ""
        states = [*_states(planned)]
        if not states or not all(states):
            return None, ""
        asked = stage.type.uses, stage.name, stage.options.model_dump_json(by_alias=True)
        key = [__version__, sys.version, os.geteuid(), has_torch(), source_digest(), *asked]
        name = hashlib.blake2b(json.dumps(key).encode(), digest_size=16).hexdigest()
        return self._folder / f"{name}.msgpack", " ".join(states)


def _states(planned: PlannedStage) -> Iterator[str]:
    known = {size.path: size.state for size in planned.sizes}
    for option, path in input_paths(planned.stage.options):
        if path.name == _ITSELF_WITH_NEIGHBOURS:
            yield measure_path(option, path.parent).state
        else:
            yield known.get(str(path), "")


def has_torch() -> bool:
    """Say whether torch is there for files that only it can read."""
    return find_spec("torch") is not None


def is_ours(stage: ResolvedStage) -> bool:
    """Whether nothing but our own code is run by a stage."""
    return stage.type.run.__module__.startswith("probe_flow.") and stage.type.foresee(stage.options) is None


@cache
def source_digest() -> str:
    """Return what tells our source from that of another version: 5 ms for 1,000 files."""
    package = str(Path(__file__).parents[2])
    return hashlib.blake2b("\n".join(sorted(_sources(package))).encode(), digest_size=16).hexdigest()


def _sources(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
            elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path)


DAMAGED = "PF6206"
"""Code of what is said of something kept that cannot be read, and is made anew."""


def damaged(path: Path, error: IncompleteError | OSError) -> Diagnostic:
    """Return what to say of something kept that cannot be read."""
    why = error.diagnostic.message if isinstance(error, IncompleteError) else error.strerror or str(error)
    return Diagnostic(
        DAMAGED,
        f"a dump is read again: what is kept of it, {why}",
        severity=Severity.WARNING,
        path=str(path),
        help="`probe-flow cache gc` removes it",
    )
