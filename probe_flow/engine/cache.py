"""The result cache of a run: a store shared between runs, with the run's own folder as a fallback.

A cache that cannot be read or written costs time, never a result: it is reported once and the run goes on. Where
nothing is kept between runs, results still go to the run's folder until it ends, so that a killed run can be resumed.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, Severity

if TYPE_CHECKING:
    from probe_flow.files.shards import ShardStore

VERSION = "v2"
PAIRS = "pairs"
TENSORS = "tensors"
CATALOGS = "catalogs"
COMPARISONS = "comparisons"
PARTIAL = ".partial"
"""Folder of a run that holds its results until it ends."""

ENVIRONMENT = "PROBE_FLOW_CACHE"


def cache_folder(configured: str | None, environ: Mapping[str, str]) -> Path:
    """Return the cache's folder: the workflow's ``cache.dir``, ``$PROBE_FLOW_CACHE``, or the user's cache folder."""
    if configured:
        return Path(configured)
    if environ.get(ENVIRONMENT):
        return Path(environ[ENVIRONMENT])
    home = environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path(environ.get("HOME", "~")).expanduser() / ".cache") / "probe_flow"


_MAX_NAME = 120
"""Characters of a name in files of the cache."""


class RunCache(Struct):
    """The `ResultCache` of one run.

    Args:
        shared: folder of the cache between runs, None when it is switched off.
        partial: folder inside the run's folder, for what the shared cache does not take.
        key: what identifies an input file: ``stat`` or ``content``.
        report: takes diagnostics.
        made_by: the names of the workflow and of the run's folder, for people who look at what the cache holds.
        forced: whether kept results are ignored (they are replaced).
    """

    shared: Path | None
    partial: Path
    key: str
    report: Callable[[Iterable[Diagnostic]], None]
    made_by: tuple[str, str] = ("", "")
    forced: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    _stores: dict[Path, ShardStore] = field(default_factory=dict)
    _refused: set[Path] = field(default_factory=set)

    def find(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the kept texts by key, from both stores."""
        found: dict[str, str] = {}
        if not self.forced:
            for folder in self._folders():
                found.update(self._find_in(folder, [key for key in keys if key not in found]))
        self.counts.update(hits=len(found), misses=len(keys) - len(found))
        return found

    def add(self, texts: Mapping[str, tuple[str, str]]) -> None:
        """Keep texts in the first store that takes them."""
        if not texts:
            return
        from probe_flow.files.shards import Entry

        entries = {key: Entry(text, label) for key, (text, label) in texts.items()}
        for folder in self._folders():
            if folder in self._refused:
                continue
            try:
                self._store(folder).add(entries)
                self.counts.update(written=len(entries))
                return
            except (OSError, RuntimeError) as error:  # HDF5 raises either
                self._refused.add(folder)
                self.report([_not_written(folder, error)])

    @property
    def asked(self) -> int:
        """How many results were looked for so far."""
        return self.counts["hits"] + self.counts["misses"]

    def recalled(self, results: int) -> None:
        """Count results that came with a comparison that was kept as a whole."""
        self.counts.update(hits=results, misses=0)

    def for_stage(self, *, forced: bool) -> RunCache:
        """Return the cache as one stage sees it: the same stores and counts, kept results ignored when forced."""
        return replace(self, forced=forced)

    def facts(self) -> dict[str, object]:
        """Return what the record of the run says of the cache."""
        return {"folder": str(self.shared) if self.shared else None, "key": self.key, **self.counts}

    def ended(self) -> None:
        """Drop what the run kept in its own folder: the run came to its end."""
        shutil.rmtree(self.partial, ignore_errors=True)

    def _folders(self) -> list[Path]:
        return [folder for folder in (self.shared, self.partial) if folder is not None]

    def _find_in(self, folder: Path, keys: Sequence[str]) -> Mapping[str, str]:
        if not keys or not folder.is_dir():
            return {}
        store = self._store(folder)
        try:
            found = store.find(keys)
        except OSError as error:
            self.report([_not_read(folder, error)])
            return {}
        self.report(store.problems)
        store.problems.clear()
        return {key: entry.text for key, entry in found.items()}

    def _store(self, folder: Path) -> ShardStore:
        from probe_flow.files.shards import ShardStore

        if folder not in self._stores:
            workflow, run = (name[:_MAX_NAME] for name in self.made_by)
            text = json.dumps({"workflow": workflow, "run": run}, ensure_ascii=False)
            self._stores[folder] = ShardStore(folder, made_by=text)
        return self._stores[folder]


def _not_written(folder: Path, error: OSError | RuntimeError) -> Diagnostic:
    return Diagnostic(
        "PF6203",
        f"the cache cannot be written: {getattr(error, 'strerror', None) or error}",
        severity=Severity.WARNING,
        path=str(folder),
        help="results are not affected; free space, set `cache.dir` to another folder, or pass --no-cache",
    )


def _not_read(folder: Path, error: OSError) -> Diagnostic:
    return Diagnostic(
        "PF6204",
        f"the cache cannot be read: {error.strerror or error}",
        severity=Severity.WARNING,
        path=str(folder),
        help="everything is measured again; set `cache.dir` to another folder, or pass --no-cache",
    )


def shared_store(folder: Path) -> Path:
    """Return where pair results lie in a cache folder."""
    return folder / VERSION / PAIRS


def tensor_store(folder: Path) -> Path:
    """Return where converted tensors lie in a cache folder."""
    return folder / VERSION / TENSORS


def catalog_store(folder: Path) -> Path:
    """Return where the catalogs of dumps lie in a cache folder."""
    return folder / VERSION / CATALOGS


def comparison_store(folder: Path) -> Path:
    """Return where whole comparisons lie in a cache folder."""
    return folder / VERSION / COMPARISONS


def collect_garbage(folder: Path, max_bytes: int) -> tuple[int, int]:
    """Delete the oldest files of a cache until it is at most ``max_bytes`` large; return (files, bytes) deleted.

    Comparisons, catalogs and converted tensors go before results: they are made again without measuring anything. A
    file that another run reads at this moment stays readable for it; one that it looks for later is a miss.
    """
    files = []
    for store in (comparison_store(folder), catalog_store(folder), tensor_store(folder), shared_store(folder)):
        for path in store.rglob("*"):
            if path.is_file():
                status = path.stat()
                files.append((store.name == PAIRS, status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, _, size, _ in files)
    deleted = freed = 0
    for _, _, size, path in sorted(files):
        if total - freed <= max_bytes:
            break
        path.unlink(missing_ok=True)
        deleted, freed = deleted + 1, freed + size
    return deleted, freed
