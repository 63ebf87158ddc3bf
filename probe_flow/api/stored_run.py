"""A run as Python sees it: what it concluded, its rows and nodes, and the elements of its tensors."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Iterator, Mapping
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.api.arguments import expect, one_of, path_of
from probe_flow.api.dumps import adopt
from probe_flow.api.problems import told_whole
from probe_flow.api.rows import SIDES, Rows
from probe_flow.errors import Diagnostic, IncompleteError, Severity, Span, UsageError
from probe_flow.exit_codes import EXIT_WRONG_INPUT
from probe_flow.record.conclusion import headline, last_line, verdict_word
from probe_flow.record.places import operator, slot, where
from probe_flow.record.run_folder import StoredRun, read_run
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.nodes import NodeRecord
from probe_flow.record.types.rows import RowRecord
from probe_flow.record.types.run import ProblemRecord, RunRecord
from probe_flow.records import Role, Status
from probe_flow.runs.reopen import StoredDumps
from probe_flow.runs.view import Filter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self


class Origin(Struct, frozen=True):
    """The first place where a target goes wrong.

    Args:
        node: name of the operator, API, module or layer.
        op_type: its type, empty where it is not known.
        tensor: which tensor of it, e.g. ``output 0``.
        place: in which execution, e.g. ``rank 0, graph 1, step 0``.
        size: how large the error is that nothing explains, in a few words.
        evidence: the claim in words, with its figures.
        finding: the same with all of its fields.

    >>> import probe_flow as pf
    >>> run = pf.compare("examples/torchair/faulty/msprobe_ge_dump", "examples/torchair/faulty/msprobe_fx_dump")
    >>> run.origin.node, run.origin.tensor, run.origin.size
    ('Gelu_1', 'output 0', '25.5 x rounding, scale +2.15%')
    """

    node: str
    op_type: str
    tensor: str
    place: str
    size: str
    evidence: str
    finding: FindingRecord

    def __repr__(self) -> str:
        return f"<Origin {self}>"

    def __str__(self) -> str:
        return ", ".join(filter(None, (" ".join((operator(self.finding), self.tensor)).strip(), self.place, self.size)))


class Tensors(NamedTuple):
    """The elements of a row's sides, in the shapes in which they were compared; None where a side has no tensor.

    >>> import probe_flow as pf
    >>> run = pf.compare("examples/torchair/faulty/msprobe_ge_dump", "examples/torchair/faulty/msprobe_fx_dump")
    >>> target, golden, reference = run.tensors(run.origin)
    >>> str(target.dtype), str(golden.dtype), reference
    ('float16', 'float32', None)
    """

    target: NDArray[np.generic] | None
    golden: NDArray[np.generic] | None
    reference: NDArray[np.generic] | None


class Run:
    """A run: what it concluded, and what lies in its folder. `run`, `compare` and `open_run` return one.

    >>> import probe_flow as pf
    >>> run = pf.compare("examples/torchair/faulty/msprobe_ge_dump", "examples/torchair/faulty/msprobe_fx_dump")
    >>> run.verdict, run.exit_code
    ('fail', 1)
    >>> run.origin.node, run.origin.op_type, run.origin.tensor, run.origin.place
    ('Gelu_1', 'Gelu', 'output 0', 'rank 0, graph 1, step 0')
    >>> run.tensors(run.origin).target.shape
    (8, 32)
    """

    def __init__(self, stored: StoredRun, *, moved: Mapping[str, str], is_temporary: bool = False) -> None:
        self._stored = stored
        self._dumps = StoredDumps(stored, moved, partial(adopt, stored.record))
        if is_temporary:
            weakref.finalize(self, remove_folder, stored.folder, os.getpid())

    @property
    def folder(self) -> Path:
        """Where the run lies."""
        return self._stored.folder

    @property
    def record(self) -> RunRecord:
        """All that `run.json` says."""
        return self._stored.record

    @property
    def verdict(self) -> str | None:
        """``pass``, ``fail``, ``incomplete``, ``stopped`` by a mistake; None where nothing was to be compared."""
        return self.record.verdict

    @property
    def exit_code(self) -> int:
        """What the command line ends with: 0 passed, 1 the gate failed, 2 wrong input, 3 incomplete."""
        return self.record.exit_code

    @property
    def origin(self) -> Origin | None:
        """The first place where the target goes wrong, or where NaN or infinity begins; None where there is none.

        A run that is incomplete may have none because it did not see it: ask for `verdict` first, or call `check`.
        """
        found = self.record.first or self.record.nonfinite
        return None if found is None else _origin(found)

    @property
    def findings(self) -> tuple[FindingRecord, ...]:
        """Everything that the analysis concludes, the most important first."""
        return self.record.findings

    @property
    def suspects(self) -> tuple[FindingRecord, ...]:
        """Every origin, then what comes near to being one."""
        found = map(self.record.at, self.record.suspects)
        return tuple(each for each in found if each is not None)

    @property
    def problems(self) -> tuple[ProblemRecord, ...]:
        """Diagnostics of the run: what could not be read, what is doubtful."""
        return self.record.problems

    @property
    def reports(self) -> tuple[Path, ...]:
        """Files that report stages wrote."""
        return tuple(self.folder / name for name in self.record.artifacts if Path(name).name not in _OWN)

    def rows(
        self,
        *,
        verdict: str | None = None,
        role: str | None = None,
        node: str | None = None,
        comparison: str | None = None,
    ) -> Rows:
        """Return the rows, or those that meet all conditions, in execution order.

        Args:
            verdict: ``pass``, ``fail``, ``unmatched_target`` ...
            role: ``origin``, ``inherited``, ``clean`` or ``unknown``.
            node: name of a node, or a pattern such as ``MatMul*``.
            comparison: stage, where the run compares more than once.

        Raises:
            UsageError: PF2130 for a word that is none, PF7114 for an unknown stage.
        """
        with told_whole():
            one_of("verdict", verdict, (each.value for each in Status))
            one_of("role", role, (each.value for each in Role))
            self._stored.check_comparison(comparison)
        return Rows(self._stored, Filter(verdict, role, node), comparison, owner=self)

    def nodes(self) -> Iterator[NodeRecord]:
        """Yield every node of every side, each with its source frames.

        Raises:
            IncompleteError: PF7204 when the file of the nodes is damaged.
        """
        with told_whole():
            frames: dict[int, tuple[str, ...]] = {}
            for number, node in self._stored.nodes():
                if isinstance(node.stack, int):
                    yield replace(node, stack=frames[node.stack])
                else:
                    if node.stack:
                        frames[number] = node.stack
                    yield node

    @told_whole()
    def tensors(self, row: RowRecord | FindingRecord | Origin) -> Tensors:
        """Return the elements of a row's tensors, from the dumps, which still hold what the run compared.

        Args:
            row: a row, or what points to one: the origin, a finding.

        Raises:
            IncompleteError: PF7209 when a dump has moved or changed, or has statistics only.
            UsageError: PF2130 for a finding without a row.
        """
        found = self._row_of(row)
        sides = dict(found.sides)
        return Tensors(*(self._elements(found, name) if name in sides else None for name in SIDES))

    @told_whole()
    def check(self) -> Self:
        """Return the run, if it did what was asked for; whether its gate passed does not matter.

        Raises:
            UsageError: something that the workflow names is wrong; with the diagnostics of the run.
            IncompleteError: a stage failed, or not everything that was asked for was compared.
        """
        if self.exit_code < EXIT_WRONG_INPUT:
            return self
        errors = [_diagnostic(each) for each in self.problems if each.severity == "error"]
        if self.exit_code == EXIT_WRONG_INPUT and errors:
            raise UsageError(errors)
        causes = tuple(map(str, self.record.incomplete))
        lead = Diagnostic("PF7210", f"the run is incomplete: {causes[0] if causes else 'no cause is recorded'}",
                          path=str(self.folder), notes=causes[1:])  # fmt: skip
        raise IncompleteError([lead, *errors])

    def __repr__(self) -> str:
        return f"<Run {last_line(self.record)} | {self.folder}>"

    def _repr_html_(self) -> str:
        """Return the run for a notebook: the verdict, and the suspects with their evidence."""
        word = verdict_word(self.record)
        lines = [f"<b>{escape(word)}</b> {escape(headline(self.record, word))}"]
        for found in self.suspects[:_SHOWN]:
            origin = _origin(found)
            lines.append(f"{escape(found.kind.value)}: <code>{escape(str(origin))}</code><br>{escape(found.evidence)}")
        return f"<p>{'</p><p>'.join(lines)}</p><p><small>{escape(str(self.folder))}</small></p>"

    def _row_of(self, row: RowRecord | FindingRecord | Origin) -> RowRecord:
        if isinstance(row, RowRecord):
            return row
        expect("row", row, (FindingRecord, Origin), "a row, a finding or the origin of a run")
        finding = row.finding if isinstance(row, Origin) else row
        if finding.row is not None:
            for rows in self._stored.stored_rows(comparison=finding.comparison):
                for found in rows.rows(rows.index.numbers_of_order(finding.row)):
                    return found
        raise UsageError(Diagnostic("PF2130", "the finding points to no row, so that it has no tensors"))

    def _elements(self, row: RowRecord, name: str) -> NDArray[np.generic]:
        import numpy as np

        from probe_flow.elements.blocks import array_of
        from probe_flow.runs.queries.tensor import side_view

        view = side_view(self._dumps, row, name, dict(row.sides)[name])
        value = view.record.value
        if view.ref is None and isinstance(value, (bool, int, float)):
            return np.array(value)
        if view.ref is None:
            raise IncompleteError(_no_elements(name, view.record.name, view.why or "it has none"))
        return array_of(view.ref)


_OWN = frozenset({
    "run.json", "events.jsonl", "comparison.jsonl", "comparison.index", "nodes.jsonl", "details.jsonl",
    "comparison.msgpack",
})  # fmt: skip
"""Files of a run that no report stage writes."""

_SHOWN = 3
"""Suspects that a notebook shows."""


@told_whole()
def open_run(folder: str | os.PathLike[str], *, dumps: Mapping[str, str | os.PathLike[str]] | None = None) -> Run:
    """Return a run of earlier, from its folder.

    Args:
        folder: of the run, or the output folder of `probe-flow compare`.
        dumps: where dumps lie now that were moved since, by side: ``{"target": PATH, "golden": PATH}``.

    Raises:
        UsageError: PF7110 when there is no run, PF7112 when a newer probe_flow wrote it.
        IncompleteError: PF7111 when its record is damaged.

    >>> import probe_flow as pf
    >>> run = pf.compare("examples/torchair/healthy/msprobe_ge_dump", "examples/torchair/healthy/msprobe_fx_dump")
    >>> pf.open_run(run.folder).verdict
    'pass'
    """
    for side in dumps or ():
        one_of("dumps", side, SIDES)
    moved = {side: os.fspath(path) for side, path in (dumps or {}).items()}
    return Run(read_run(path_of("folder", folder)), moved=moved)


def remove_folder(folder: Path, process: int) -> None:
    """Remove the folder of a temporary run; a process that was forked meanwhile leaves it to the one that made it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _origin(found: FindingRecord) -> Origin:
    return Origin(found.node or "", found.op_type or "", slot(found), where(found), found.size, found.evidence, found)


def _diagnostic(problem: ProblemRecord) -> Diagnostic:
    """Return a diagnostic of a stored run."""
    span = None
    if problem.line is not None and problem.file is not None:
        column = problem.column or 1
        span = Span(problem.file, problem.line, column, problem.end_line or problem.line, problem.end_column or column)
    return Diagnostic(
        problem.code,
        problem.message,
        Severity(problem.severity),
        span=span,
        help=problem.help,
        notes=problem.notes,
        stage=problem.stage,
        tensor=problem.tensor,
        path=problem.path,
    )


def _no_elements(side: str, name: str, why: str) -> Diagnostic:
    return Diagnostic(
        "PF7209",
        f"the elements of `{name}` ({side}) cannot be given: {why}",
        tensor=name,
        help=f"where the dump was moved: `open_run(FOLDER, dumps={{'{side}': PATH}})`",
    )
