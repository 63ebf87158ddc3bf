"""The results of stages while a consumer remains, and what of them outlives the run: files, facts and problems."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.engine.run.plan import PlannedStage
from probe_flow.engine.run.record import input_facts
from probe_flow.errors import Diagnostic, InternalError, Severity
from probe_flow.files.existing import exists
from probe_flow.files.machine import return_free_memory
from probe_flow.record.jsonl import write_comparison_jsonl, write_details_jsonl, write_nodes_jsonl
from probe_flow.record.row_index import FILE as INDEX
from probe_flow.record.row_index import is_indexed, write_index
from probe_flow.record.run_json import Summary, comparison_summary
from probe_flow.record.stored.kinds import FILE
from probe_flow.record.stored.writing import write_comparison
from probe_flow.record.types.run import InputRecord
from probe_flow.records import Catalog, Comparison, Pairs
from probe_flow.stages.base import Kind
from probe_flow.stages.registry import STAGES
from probe_flow.work import Begun, Beside, Done, Scripts
from probe_flow.workflow.loading.fields import KIND_WORDS

_ROWS, _NODES, _DETAILS = "comparison.jsonl", "nodes.jsonl", "details.jsonl"

_RECORD_OF: Mapping[Kind, type] = {
    Kind.CATALOG: Catalog,
    Kind.PAIRS: Pairs,
    Kind.COMPARISON: Comparison,
    Kind.SCRIPTS: Scripts,
}


class Results:
    """Everything that the stages of one run returned.

    Args:
        selected: the stages that run.
        folder: where the records of comparisons are written.
        announce: is told of every record before it is begun.
        beside: begins to write records, which may go on while reports are made.
        strict: codes of warnings that count as errors, ``x`` for any digit.
    """

    def __init__(
        self,
        selected: Sequence[PlannedStage],
        folder: Path,
        announce: Callable[[Path], None],
        beside: Beside,
        *,
        strict: Sequence[str] = (),
    ) -> None:
        self.selected, self.folder, self.announce, self.strict = selected, folder, announce, strict
        self._beside = beside
        self._records: _Records | None = None
        self._unkept: list[Callable[[], None]] = []
        self._keeping: Begun[None] = Done(None)
        self._waiting = Counter(name for planned in selected for name in planned.needs)
        self._held: dict[str, Any] = {}
        self._known: dict[object, set[str]] = {}
        self.inputs: list[InputRecord] = []
        """Provenance of the dumps."""
        self.comparisons: dict[str, Comparison] = {}
        """By stage; kept to the end, for the summary on the screen."""
        self.summaries: dict[str, Summary] = {}
        """What `run.json` says of each comparison."""
        self.problems: list[Diagnostic] = []
        """What the stages reported or put into their results."""
        self.reproductions: list[Mapping[str, object]] = []
        """What scripts found, as fields of the run's record."""
        self.artifacts: list[str] = []
        """Files that are there, in the order in which they were written; relative to the folder if they lie in it."""

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the stages whose results are still held for a consumer."""
        return tuple(self._held)

    def inputs_of(self, planned: PlannedStage) -> dict[str, list[Any]]:
        """Return the results that a stage takes, by option."""
        return {option: [self._held[name] for name in names] for option, names in planned.stage.inputs.items()}

    def sharing(self, result: object) -> object:
        """Return a stage's result; a dump with the nodes of dumps that are held, where it has equal ones."""
        if isinstance(result, Catalog):
            for held in self._held.values():
                if isinstance(held, Catalog):
                    result = _sharing(result, held)
        return result

    def add(self, planned: PlannedStage, result: object, keep: Callable[[], None]) -> None:
        """Take a stage's result: write what must be written, hold it if a consumer waits.

        Args:
            planned: the stage.
            result: what it returned.
            keep: keeps it for other runs, once it is written.

        Raises:
            InternalError: PF6004 when the result is not of the kind that the stage declares. A report is a list of
                paths.
        """
        return_free_memory()  # of the stage: writing needs some
        name, kind = planned.stage.name, planned.stage.type.produces
        expected = _RECORD_OF.get(kind)
        if expected is not None and not isinstance(result, expected):
            raise InternalError(_wrong_kind(planned, result))
        if isinstance(result, Catalog):
            self.inputs.append(input_facts(name, result))
            self.report(name, result.problems)
        elif isinstance(result, Pairs):
            self.report(name, (*result.problems, *result.unused))
            for file in result.files:
                self._note(Path(file))
            self._keep_dumps(rows=len(result.pairs))
        elif isinstance(result, Comparison):
            self._add_comparison(planned, result, keep)
        elif kind is Kind.REPORT:
            self._add_files(planned, result)
        elif isinstance(result, Scripts):
            self._add_files(planned, result.files)
            self.reproductions += result.found
        if isinstance(result, Catalog) and not holds_tensors(result):
            self._unkept.append(keep)  # a fork has time for it while the pairs are compared
        elif not isinstance(result, Comparison):
            keep()
        if self._waiting[name]:
            self._held[name] = result
        return_free_memory()  # of writing: the next stage needs some

    def _keep_dumps(self, rows: int) -> None:
        """Keep dumps for other runs, which go into so many rows."""
        if self._unkept:
            self._keeping.result()
            self._keeping = self._beside(partial(_all_done, tuple(self._unkept)), rows=rows)
            self._unkept.clear()

    def done_with(self, planned: PlannedStage) -> None:
        """Note that a stage needs its inputs no more; drop those that nobody else waits for."""
        for name in planned.needs:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                self._held.pop(name, None)

    def _judged_by(self, planned: PlannedStage) -> str:
        """Return the stage whose comparison a result is: its own, or one that it adds findings to, and so on."""
        stage = planned.stage
        extended = stage.inputs.get(stage.type.extends, ())
        before = next((each for each in self.selected if each.stage.name in extended), None)
        return stage.name if before is None else self._judged_by(before)

    def _add_comparison(self, planned: PlannedStage, comparison: Comparison, keep: Callable[[], None]) -> None:
        name = self._judged_by(planned)
        folder = self._folder_of(name)
        files = tuple(folder / each for each in _files_of(comparison))
        for path in files:
            self.announce(path)
            self._note(path)
        self._keeping.result()
        write = partial(_write_records, comparison, folder, (*self._unkept, keep))
        # Measuring tensors takes most of a run: a fork saves a tenth of it then, and takes 40 % more memory.
        rows = 0 if holds_tensors(comparison.pairs.target) else len(comparison.rows)
        try:
            begun = self._beside(write, rows=rows, folders=[folder])
        except BaseException:
            self._forget_missing(files)
            raise
        self._unkept.clear()
        self._records = None if begun.is_done else _Records(planned.stage.name, name, files, begun)
        self.comparisons[name] = comparison
        self.summaries[name] = comparison_summary(comparison)
        self.report(name, comparison.problems, repeats=True)

    def summary_of(self, comparison: Comparison) -> Summary:
        """Return what `run.json` says of a comparison; 10,000 findings take 0.3 s, so it is made once."""
        known = (self.summaries[name] for name, each in self.comparisons.items() if each is comparison)
        return next(known, None) or comparison_summary(comparison)

    @property
    def writing(self) -> str | None:
        """The stage whose records are still being written."""
        return None if self._records is None else self._records.stage

    @property
    def unwritten(self) -> frozenset[str]:
        """Of `artifacts`, records that are still being written."""
        return frozenset(map(self._name_of, () if self._records is None else self._records.files))

    def settle(self) -> None:
        """Have all records written.

        Raises:
            IncompleteError: PF7001 when one cannot be written.
        """
        if self._records is not None:
            try:
                self._records.begun.result()
                self._records = None
            finally:
                self.close()

    def close(self) -> None:
        """End what is still being written; a comparison without its records is none of the run's.

        What no comparison took with it is kept for other runs.
        """
        self._keeping.result()
        while self._unkept:
            self._unkept.pop()()
        records, self._records = self._records, None
        if records is not None:
            records.begun.stop()
            self.comparisons.pop(records.name, None)
            self.summaries.pop(records.name, None)
            self._forget_missing(records.files)

    def _forget_missing(self, files: Iterable[Path]) -> None:
        missing = {self._name_of(path) for path in files if not exists(path)}
        self.artifacts = [name for name in self.artifacts if name not in missing]

    def stored_of(self, name: str) -> Path:
        """Return the file that has the comparison of a stage whole."""
        return self._folder_of(name) / FILE

    def _folder_of(self, name: str) -> Path:
        judging = [each for each in self.selected if each.stage.type.produces is Kind.COMPARISON]
        count = len({self._judged_by(each) for each in judging})
        return self.folder if count == 1 else self.folder / name

    def report(self, stage: str, problems: Iterable[Diagnostic], *, repeats: bool = False) -> list[Diagnostic]:
        """Keep what a stage reports or puts into its result; return what was not known yet, named after the stage.

        Args:
            stage: name of the stage.
            problems: two dumps may have the same problem in files of the same name, so a problem is known by stage.
            repeats: the result holds the problems of its inputs too, as that of a comparison does.
        """
        new = []
        for problem in problems:
            if is_strict(problem, self.strict):
                problem = replace(problem, severity=Severity.ERROR)
            key = (problem.code, problem.message, problem.path, problem.tensor, problem.span)
            stages = self._known.setdefault(key, set())
            is_known = bool(stages) if repeats else stage in stages
            if not is_known:
                stages.add(stage)
                new.append(problem if problem.stage else replace(problem, stage=stage))
        self.problems += new
        return new

    def _add_files(self, planned: PlannedStage, result: object) -> None:
        if isinstance(result, str) or not isinstance(result, Sequence):
            raise InternalError(_wrong_kind(planned, result))
        strange = next((each for each in result if not isinstance(each, (str, PathLike))), None)
        if strange is not None:
            raise InternalError(_wrong_kind(planned, result, f" with a `{type(strange).__name__}` in it"))
        for path in result:
            self._note(Path(path))

    def _note(self, path: Path) -> None:
        name = self._name_of(path)
        if name not in self.artifacts:
            self.artifacts.append(name)

    def _name_of(self, path: Path) -> str:
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else str(path)

    def incomplete(self) -> list[str]:
        """Return why the run is incomplete as far as its results say, each reason once."""
        reasons = [reason for comparison in self.comparisons.values() for reason in comparison.incomplete]
        errors = Counter(problem.stage for problem in self.problems if problem.severity is Severity.ERROR)
        for stage, count in errors.items():
            first = next(p for p in self.problems if p.stage == stage and p.severity is Severity.ERROR)
            more = f" (and {count - 1} more)" if count > 1 else ""
            reasons.append(f"[{first.code}] {first.message}{more}")
        return list(dict.fromkeys(reasons))

    def failed_gates(self) -> list[str]:
        """Return the names of the comparisons whose gate said no."""
        return [name for name, comparison in self.comparisons.items() if not comparison.gate_passed]


class _Records(Struct, frozen=True):
    """Records of a comparison that are being written while the run goes on.

    Args:
        stage: that made it.
        name: of the comparison.
        files: they.
        begun: the writing.
    """

    stage: str
    name: str
    files: tuple[Path, ...]
    begun: Begun[None]


def _sharing(catalog: Catalog, held: Catalog) -> Catalog:
    if not catalog.ran:
        return catalog.with_nodes_of(held)
    from probe_flow.records.tables.catalogs import sharing

    return sharing(catalog, held)


def nothing() -> None:
    """Do nothing."""


def _files_of(comparison: Comparison) -> Iterator[str]:
    yield from (_ROWS, _NODES)
    if is_indexed(comparison.rows):
        yield INDEX
    yield FILE
    if comparison.details:
        yield _DETAILS


def holds_tensors(dump: Catalog) -> bool:
    """Whether a comparison of a dump reads the elements of tensors, which takes most of a run."""
    return dump.task == "tensor"


def _all_done(works: Iterable[Callable[[], None]]) -> None:
    for work in works:
        work()


def _write_records(comparison: Comparison, folder: Path, kept: Sequence[Callable[[], None]]) -> None:
    """Write the files of `_files_of`, then keep the comparison and what it was made of."""
    _write_lines(comparison, folder)  # their index is no more when the records are written
    write_comparison(comparison, folder / FILE)
    if comparison.details:
        write_details_jsonl(comparison, folder / _DETAILS)
    _all_done(kept)


def _write_lines(comparison: Comparison, folder: Path) -> None:
    """Write the lines of rows and nodes, and the index of many rows."""
    rows = write_comparison_jsonl(comparison, folder / _ROWS)
    nodes = write_nodes_jsonl(comparison, folder / _NODES)
    if is_indexed(comparison.rows):
        write_index(rows, nodes, folder / INDEX)


def is_strict(problem: Diagnostic, strict: Sequence[str]) -> bool:
    """Return whether a warning is of a code that counts as an error; ``x`` is any digit."""
    return problem.severity is Severity.WARNING and any(
        all(wanted in (mine, "x") for wanted, mine in zip(code, problem.code, strict=True)) for code in strict
    )


def _wrong_kind(planned: PlannedStage, result: object, more: str = "") -> Diagnostic:
    stage, found = planned.stage, type(result).__name__
    plugins = STAGES.plugins_of(stage.type.uses)
    packages = " and ".join(f"`{plugin.package}`" for plugin in plugins)
    return Diagnostic(
        "PF6004",
        f"stage `{stage.name}` (`{stage.type.uses}`) returned a {found}{more}, not {KIND_WORDS[stage.type.produces]}",
        stage=stage.name,
        help="this is a defect of the stage; report it to its author"
        if not packages
        else f"this is a defect of the package {packages}; report it to its author",
        notes=tuple(map(str, plugins)),
    )
