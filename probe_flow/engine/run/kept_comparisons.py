"""What is kept of stages between runs: of unchanged inputs nothing is matched, measured or judged again.

A comparison is kept whole, beside the results that it was made of, for the state of all files that its stages name. In
the name of its file is all else that decides what it says: our source, the packages that are installed, and the
options of its stages. It is kept only where that is all: not where code of others takes part, the day counts (waivers),
a file lies elsewhere, or something went wrong that need not go wrong again.
"""

from __future__ import annotations

import hashlib
import json
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from probe_flow.engine.cache import RunCache, catalog_store, comparison_store
from probe_flow.engine.run.kept_catalogs import DAMAGED, KeptCatalogs, damaged, is_ours
from probe_flow.engine.run.paths import input_paths, measure_path
from probe_flow.engine.run.plan import Plan, PlannedStage, needs
from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.existing import exists
from probe_flow.files.small_files import FileState
from probe_flow.packages import is_extended
from probe_flow.records import Catalog, Comparison, Pairs, Status, TensorTable
from probe_flow.records.row import verdicts_of
from probe_flow.stages.base import Kind

_COMPARES = "compare"
_NOT_KEPT = ("waivers", "baseline", "only")
"""Options of comparing stages that look at the day, at a file that another command writes, or at other results."""

_MODEL_FILE = "model_file"
"""Attribute of dumps that name a file elsewhere, the model that they are of."""

_PACKAGES = ("site-packages", "dist-packages")
"""Folders that change when a package is installed or removed."""


class _Chain(Struct, frozen=True):
    """The stages of one comparison.

    Args:
        dumps: read the sides.
        pairs: matches them, for nobody else.
        result: compares.
        path: of the kept comparison.
        state: of all files that the stages name.
    """

    dumps: tuple[PlannedStage, ...]
    pairs: PlannedStage
    result: PlannedStage
    path: Path
    state: str


class KeptComparisons:
    """The comparisons of one plan that can be kept.

    Args:
        folder: where they lie; None keeps none.
        plan: of the run.
        catalogs: say which dumps are as they were.
    """

    def __init__(self, folder: Path | None, plan: Plan, catalogs: KeptCatalogs) -> None:
        found = [] if folder is None or is_extended() else [*_chains(folder, plan, catalogs)]
        self._chains = {chain.result.stage.name: chain for chain in found}
        self._result_of = {chain.pairs.stage.name: chain.result.stage.name for chain in found}
        self._roots = {each.stage.name: _roots(each) for chain in found for each in chain.dumps}
        self._forced = plan.forced
        self._sources = plan.workflow.sources
        self._recalled: dict[str, Comparison | None] = {}

    def results_of(self, planned: PlannedStage) -> int | None:
        """Return how many results the kept comparison of a stage, or of the pairs that a stage makes, holds.

        None where none is kept.
        """
        chain = self._chain_of(planned)
        if chain is None or self._is_forced(chain) or not exists(chain.path):
            return None
        from probe_flow.record.stored.kept import kept_results

        try:
            return kept_results(chain.path, state=chain.state)
        except OSError:  # a run reports it
            return None

    def find(self, planned: PlannedStage, report: Callable[[Diagnostic], object]) -> Comparison | Pairs | None:
        """Return what a matching or comparing stage found before; report what is wrong with the cache."""
        chain = self._chain_of(planned)
        if chain is None:
            return None
        name = chain.result.stage.name
        if planned is chain.pairs:
            found = self._recalled[name] = self._read(chain, report)
            return None if found is None else found.pairs
        return self._recalled.pop(name, None)

    def keep(self, planned: PlannedStage, result: Comparison, written: Path, results: int) -> None:
        """Keep what a comparing stage found, if all that it depends on is known.

        A cache that does not take it is not reported here: it does not take results either, and that is.

        Args:
            planned: the stage.
            result: what it found.
            written: the file that the run has of it.
            results: how many measured results it was made of.
        """
        chain = self._chains.get(planned.stage.name)
        if chain is None or not _is_sure(result) or not self._is_placeless(result):
            return
        roots = tuple(root for dump in chain.dumps for root in self._roots[dump.stage.name])
        files = {path for catalog in result.pairs.catalogs for path in _files(catalog)}
        if not all(path.startswith(roots) and "/../" not in path for path in files):
            return
        from probe_flow.record.stored.writing import keep_comparison

        with suppress(OSError):
            keep_comparison(written, chain.path, state=chain.state, results=results)

    def stages_of(self, planned: PlannedStage) -> tuple[str, ...]:
        """Return the matching and the comparing stage of a comparison that can be kept; none of another one."""
        chain = self._chains.get(planned.stage.name)
        return () if chain is None else (chain.pairs.stage.name, chain.result.stage.name)

    def _chain_of(self, planned: PlannedStage) -> _Chain | None:
        name = planned.stage.name
        return self._chains.get(self._result_of.get(name, name))

    def _is_forced(self, chain: _Chain) -> bool:
        return any(each.stage.name in self._forced for each in (*chain.dumps, chain.pairs, chain.result))

    def _is_placeless(self, comparison: Comparison) -> bool:
        """Whether nothing that is said names a place of the workflow, which may be written otherwise next time."""
        pairs = comparison.pairs
        problems = (*comparison.problems, *pairs.problems, *pairs.unused)
        spans = [problem.span for problem in problems]
        spans += [terms.rule_span for terms in {id(pair.terms): pair.terms for pair in pairs.pairs}.values()]
        return all(span is None or span.file not in self._sources for span in spans)

    def _read(self, chain: _Chain, report: Callable[[Diagnostic], object]) -> Comparison | None:
        if self._is_forced(chain) or not exists(chain.path):
            return None
        from probe_flow.record.stored.kept import read_kept_comparison

        try:
            return read_kept_comparison(chain.path, state=chain.state)
        except (IncompleteError, OSError) as error:
            report(damaged(chain.path, error))
            return None


def _chains(folder: Path, plan: Plan, catalogs: KeptCatalogs) -> Iterator[_Chain]:
    stages = {planned.stage.name: planned for planned in plan.selected}
    for planned in plan.selected:
        stage = planned.stage
        if stage.type.uses != _COMPARES or not is_ours(stage) or {*stage.inputs} != {"pairs"}:
            continue
        options = stage.options.model_dump()
        (name, *others) = stage.inputs["pairs"]
        pairs = stages[name]
        readers = [each for each in plan.selected if name in needs(each.stage)]
        if others or readers != [planned] or not is_ours(pairs.stage) or any(map(options.get, _NOT_KEPT)):
            continue
        dumps = tuple(stages[each] for each in needs(pairs.stage))
        places = [catalogs.place(dump) for dump in dumps]
        states = [*(state for _, state in places), *_states_of_files(pairs)]
        if pairs.stage.type.produces is Kind.PAIRS and all(path for path, _ in places) and all(states):
            key = [_installed(), *(str(path) for path, _ in places), _told(pairs), _told(planned), _settings(plan)]
            file = hashlib.blake2b(json.dumps(key).encode(), digest_size=16).hexdigest()
            yield _Chain(dumps, pairs, planned, folder / f"{file}.msgpack", " ".join(states))


def _told(planned: PlannedStage) -> list[object]:
    stage = planned.stage
    inputs: Mapping[str, Iterable[str]] = stage.inputs
    told = {option: [*names] for option, names in inputs.items()}
    return [stage.type.uses, stage.name, told, stage.options.model_dump_json(by_alias=True)]


def _settings(plan: Plan) -> list[object]:
    """Return what of the run's settings may decide whether, or by what, something is computed."""
    return [plan.workflow.metrics_backend, plan.executor.memory_bytes]


def _installed() -> list[object]:
    """Return what changes when packages do, by which suspects are computed again."""
    folders = [Path(path).stat() for path in sys.path if path.endswith(_PACKAGES) and Path(path).is_dir()]
    return [[each.st_dev, each.st_ino, each.st_mtime_ns] for each in folders]


def _states_of_files(planned: PlannedStage) -> Iterator[str]:
    """Yield the state of each mapping file or folder of them; empty where it is not sure to tell of a change."""
    for option, path in input_paths(planned.stage.options):
        if path.is_dir():
            yield measure_path(option, path).state
            continue
        found = path.lstat()
        state = FileState.of(found)
        yield f"{path} {[*state]}" if stat.S_ISREG(found.st_mode) and state.is_settled else ""


def _roots(planned: PlannedStage) -> tuple[str, ...]:
    return tuple(f"{_folder(path)}/" for _, path in input_paths(planned.stage.options))


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _files(catalog: Catalog) -> Iterator[str]:
    """Yield the files that a catalog's tensors lie in, or the folder of them."""
    for data in {id(tensor.data): tensor.data for tensor in catalog.tensors}.values():
        if isinstance(data, TensorTable):
            yield data.place
        else:
            yield from (path for path in (data.file, *(extent.file for extent in data.extents)) if path is not None)


def _is_sure(comparison: Comparison) -> bool:
    """Whether a comparison depends on nothing but the files of its dumps, and nothing of it was left out by chance."""
    return not (
        any(verdict.status is Status.ERROR for verdict in verdicts_of(comparison.rows))
        or any(_MODEL_FILE in catalog.attrs for catalog in comparison.pairs.catalogs)
        or comparison.pairs.files
    )


class Recalled(Struct, frozen=True):
    """The result of a stage that need not run.

    Args:
        result: as the stage found it before.
        event: name of the event that says so, and its fields.
    """

    result: Catalog | Pairs | Comparison
    event: str
    fields: Mapping[str, int]


class KeptStages:
    """Results of stages that are kept between the runs of a plan.

    Args:
        folder: of the cache; None keeps none.
        plan: of the run.
        cache: counts the results that are not looked for one by one.
    """

    def __init__(self, folder: Path | None, plan: Plan, cache: RunCache) -> None:
        self._catalogs = KeptCatalogs(catalog_store(folder) if folder else None, plan)
        self._comparisons = KeptComparisons(comparison_store(folder) if folder else None, plan, self._catalogs)
        self._cache = cache
        self._asked_before = 0
        self._doubted: set[str] = set()

    def find(self, planned: PlannedStage, report: Callable[[Diagnostic], object]) -> Recalled | None:
        """Return what a stage found before, where nothing changed; report what is wrong with the cache."""
        self._asked_before = self._cache.asked
        catalog = self._catalogs.find(planned, report)
        if catalog is not None:
            return Recalled(catalog, "dump.recalled", {"tensors": len(catalog.tensors)})
        found = self._comparisons.find(planned, report)
        if isinstance(found, Pairs):
            return Recalled(found, "pairs.recalled", {"pairs": len(found.pairs)})
        if found is None:
            return None
        results = self._comparisons.results_of(planned) or 0
        self._cache.recalled(results)
        return Recalled(found, "compare.recalled", {"rows": len(found.rows), "results": results})

    def may_have(self, planned: PlannedStage) -> bool:
        """Whether something is kept of a dump, maybe of another state of its files."""
        path, _ = self._catalogs.place(planned)
        return path is not None and exists(path)

    def doubt(self, name: str) -> None:
        """Keep nothing of a stage in which something was lost, which may be there the next time."""
        self._doubted.add(name)

    def keep(
        self, planned: PlannedStage, result: object, written: Callable[[str], Path], said: Iterable[Diagnostic]
    ) -> None:
        """Keep what a stage found.

        Args:
            planned: the stage, which ran.
            result: what it returned.
            written: returns the file that the run has of the comparison of a stage.
            said: what was reported in the run so far.
        """
        if planned.stage.name in self._doubted:
            return
        if isinstance(result, Catalog):
            self._catalogs.keep(planned, result)
        elif isinstance(result, Comparison):
            stages = self._comparisons.stages_of(planned)
            told = (*result.problems, *result.pairs.problems, *result.pairs.unused)
            known = {(each.code, each.message, each.path) for each in told}
            new = [each for each in said if each.stage in stages and each.code != DAMAGED]
            if all((each.code, each.message, each.path) in known for each in new):
                file, asked = written(planned.stage.name), self._cache.asked - self._asked_before
                self._comparisons.keep(planned, result, file, asked)
