"""The terminal summary of a run: the verdict, where it begins, how much was compared, what to do next."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from probe_flow.record.conclusion import dumps_line, headline, last_line, verdict_word
from probe_flow.record.excuses import excuses_text
from probe_flow.record.facts import (
    advice_texts,
    counts_text,
    covered_columns,
    gaps,
    inherited,
    largest_errors,
    problems_text,
    roles_text,
)
from probe_flow.record.places import (
    entry_title,
    figure,
    in_dump,
    operator,
    printable,
    readable,
    sentence_place,
    slot,
    where,
    with_entry,
)
from probe_flow.record.same_places import SamePlace, elsewhere, is_same_place, suspected
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison, FindingKind
from probe_flow.reports.phrases import FIGURES_FIRST, note_on_failing_rows

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NO_TABLES: Mapping[str, Sequence[str]] = MappingProxyType({})

MIN_WIDTH = 40
MAX_SUSPECTS = 5
MAX_GAPS = 4
MAX_LARGEST = 5
MAX_FILES = 12
MAX_CAUSES = 8
MAX_EXCUSES = 12
MAX_FIGURES = 4

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "DONE": "bold"}
_UNFINISHED_STYLE = "bold yellow"
_SHOWN_ABOVE = frozenset(
    {
        FindingKind.ORIGIN,
        FindingKind.CHECKSUM_ORIGIN,
        FindingKind.NONFINITE_ORIGIN,
        FindingKind.FAILURE,
        FindingKind.SUSPECT,
    }
)

_EXIT_CODES = {
    1: "Exit code 1: the run came to its end, and what it found fails its gate.",
    2: "Exit code 2: the command, the workflow or a mapping file is wrong.",
    3: "Exit code 3: something that was asked for was not {done}, so a pass or a fail would not be safe to state.",
    **{
        code: f"Exit code {code}: interrupted by {name}; run the same command with {{resume}} to go on."
        for code, name in ((129, "SIGHUP"), (130, "SIGINT"), (143, "SIGTERM"))
    },
}


def render_summary(
    run: RunRecord,
    comparisons: Sequence[Comparison],
    *,
    color: bool,
    width: int,
    folder: str = "",
    tables: Mapping[str, Sequence[str]] = NO_TABLES,
    resume: str = "--resume",
) -> str:
    """Return the summary as text that ends with a line end: both dumps first, the verdict in one line last.

    Args:
        run: the run record, as in run.json.
        comparisons: the comparisons behind it; without them the parts that need rows are left out.
        color: whether to use terminal colours. The caller knows whether there is a terminal and about ``NO_COLOR``.
        width: columns of the terminal; below 40 counts as 40. Only the first and the last line may be longer.
        folder: the run's folder as the user should type it.
        tables: title -> lines that are printed as they are, before the files.
        resume: option of the command that goes on with a run that was interrupted.
    """
    from rich.console import Console

    buffer = io.StringIO()
    console = Console(
        file=buffer,
        width=max(width, MIN_WIDTH),
        force_terminal=color,
        force_interactive=False,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    _Summary(console, run, comparisons, folder, tables, resume).render()
    lines = buffer.getvalue().splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


class _Summary:
    """Prints the sections, findings first."""

    def __init__(
        self,
        console: Console,
        run: RunRecord,
        comparisons: Sequence[Comparison],
        folder: str,
        tables: Mapping[str, Sequence[str]],
        resume: str,
    ) -> None:
        self._console = console
        self._resume = resume
        self._run = run
        self._comparisons = comparisons
        self._folder = folder
        self._tables = tables

    def render(self) -> None:
        self._compared_dumps()
        self._verdict()
        self._incomplete()
        self._origin("First wrong tensor", self._run.first)
        self._nonfinite()
        self._suspects()
        self._other_findings()
        self._excuses()
        self._dumps()
        self._results()
        self._coverage()
        self._largest()
        self._given()
        self._files()
        self._end()

    def _line(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(text, style=style))

    def _title(self, text: str) -> None:
        self._line("")
        self._line(text, "bold")

    def _unbroken(self, text: str, style: str = "") -> None:
        """Print a line that is copied as a whole: the terminal may wrap it, we do not."""
        from rich.text import Text

        self._console.print(Text(text, style=style), soft_wrap=True)

    def _items(self, texts: Iterable[str]) -> None:
        self._grid((("-", text) for text in texts), gap=1)

    def _grid(self, rows: Iterable[Sequence[str]], *, gap: int = 2) -> None:
        """Print a label and a text per row, the texts aligned and wrapped below themselves."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, gap, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in rows:
            grid.add_row(Text(label), Text(text))
        self._indented(grid)

    def _indented(self, table: Table) -> None:
        from rich.padding import Padding

        if table.row_count:
            self._console.print(Padding(table, (0, 0, 0, 2), expand=False))

    def _table(self, header: Sequence[str], *, numbers: int) -> Table:
        """Return a table without lines whose last ``numbers`` columns are right-aligned."""
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
        for place, name in enumerate(header):
            is_number = place >= len(header) - numbers
            table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
        return table

    def _compared_dumps(self) -> None:
        line = dumps_line(self._run)
        if line:
            self._unbroken(line)

    def _verdict(self) -> None:
        from rich.text import Text

        word = verdict_word(self._run)
        text = Text()
        text.append(word, style=_STYLES.get(word, _UNFINISHED_STYLE))
        text.append(f"  {headline(self._run, word)}", style="bold")
        self._console.print(text)

    def _incomplete(self) -> None:
        causes = [printable(cause) for cause in self._run.incomplete]
        if not causes:
            return
        self._title("Why it is incomplete")
        more = [f"and {len(causes) - MAX_CAUSES} more, in run.json"] if len(causes) > MAX_CAUSES else []
        self._items(causes[:MAX_CAUSES] + more)

    def _origin(self, title: str, place: FindingRecord | None) -> None:
        if place is None:
            return
        self._title(title)
        also = elsewhere(suspected(self._run), place)
        self._grid((label, text) for label, text in _place_rows(place, also) if text)

    def _nonfinite(self) -> None:
        place, first = self._run.nonfinite, self._run.first
        if place is None:
            return
        if first is not None and is_same_place(place, first):
            self._line("  NaN or infinity begins at the same tensor.")
            return
        self._origin("Where NaN or infinity begins", place)

    def _suspects(self) -> None:
        first = self._run.first
        others = [found for found in suspected(self._run) if first is None or not found.is_at(first)]
        if not others:
            return
        is_failing = self._run.failure is not None
        self._title("Other suspects" if first is not None else "What fails" if is_failing else "Worth a look")
        texts = [_one_line(found) for found in others[:MAX_SUSPECTS]]
        if len(others) > MAX_SUSPECTS:
            texts.append(f"and {len(others) - MAX_SUSPECTS} more, in run.json")
        self._items(texts)

    def _other_findings(self) -> None:
        texts = [readable(finding.evidence) for finding in self._run.findings if finding.kind not in _SHOWN_ABOVE]
        if texts:
            self._title("Also found")
            self._items(texts[:MAX_SUSPECTS])

    def _excuses(self) -> None:
        for title, texts in zip(("Waivers", "Baseline"), excuses_text(self._run), strict=True):
            if texts:
                self._title(title)
                more = [f"and {len(texts) - MAX_EXCUSES} more, in run.json"] if len(texts) > MAX_EXCUSES else []
                self._items(texts[:MAX_EXCUSES] + more)

    def _dumps(self) -> None:
        """Say what a run that compares nothing has read, or made, and where it lies."""
        dumps = self._run.inputs
        if verdict_word(self._run) != "DONE" or not dumps:
            return
        self._title("Dumps")
        for dump in dumps:
            name, path = printable(dump.stage), printable(dump.path)
            self._unbroken(f"  {name}  {_tensors(dump.tensors)} of {dump.nodes} nodes  {path}")

    def _results(self) -> None:
        counts = self._run.counts
        rows = []
        if counts or verdict_word(self._run) != "DONE":
            gate = self._run.gate
            rule = f"{counts_text(counts)}{f' by {printable(gate.policy)}' if gate is not None and gate.policy else ''}"
            rows = [("tensors", roles_text(self._run)), ("row rule", rule)]
        note = note_on_failing_rows(self._run, inherited(self._comparisons))
        if note:
            rows.append(("note", note))
        problems = problems_text(self._run.problems)
        if problems:
            rows.append(("problems", f"{problems}, explained by `probe-flow explain CODE`"))
        if rows:
            self._title("Results")
            self._grid((label, text) for label, text in rows if text)

    def _coverage(self) -> None:
        coverage = self._run.coverage
        if not coverage:
            return
        self._title(f"How much was {self._run.done}")
        columns = covered_columns(coverage, self._run.done)
        table = self._table(("side", *columns.values()), numbers=len(columns))
        for side, found in coverage.items():
            table.add_row(side, *(str(getattr(found, name)) for name in columns))
        self._indented(table)
        counts = coverage.values()
        lacks = any(count.missing or count.outside for count in counts)
        if any(count.compared for count in counts) and not lacks and not self._run.incomplete:
            self._line(f"  Nothing is missing: everything that had to be {self._run.done} was.")
        found_gaps = gaps(self._comparisons, limit=MAX_GAPS)
        self._items(f"{gap.count} {gap.kind} ({gap.side}), e.g. {gap.example}" for gap in found_gaps)

    def _largest(self) -> None:
        from rich.text import Text

        largest = largest_errors(self._comparisons, limit=MAX_LARGEST)
        if not largest:
            return
        self._title("Largest errors, relative to the golden tensor")
        title = entry_title("tensor", has_entries=any(in_dump(each.place) for each in largest))
        table = self._table((title, "where", "verdict", "error"), numbers=1)
        for distance, row, place in largest:
            tensor = Text(with_entry(f"{readable(place.node)} {slot(place)}", place))
            verdict = row.verdict.status.value.replace("_", " ")
            table.add_row(tensor, Text(where(place)), Text(verdict), Text(f"{distance:.3g}"))
        self._indented(table)

    def _given(self) -> None:
        for title, lines in self._tables.items():
            self._title(title)
            for line in lines:
                self._unbroken(line)

    def _files(self) -> None:
        files = [printable(name) for name in self._run.artifacts]
        if not files:
            return
        self._title(f"Files in {printable(self._folder)}" if self._folder else "Files")
        more = [f"and {len(files) - MAX_FILES} more"] if len(files) > MAX_FILES else []
        for file in files[:MAX_FILES] + more:
            self._unbroken(f"  {file}")

    def _end(self) -> None:
        self._line("")
        step, command = _next_step(self._run, self._folder)
        if step:
            self._line(f"Next: {step}")
        if command:
            self._unbroken(f"  {printable(command)}")
        self._advice()
        explanation = _EXIT_CODES.get(self._run.exit_code)
        if explanation:
            self._line(explanation.format(done=self._run.done, resume=self._resume))
        word = verdict_word(self._run)
        self._unbroken(last_line(self._run, folder=self._folder), _STYLES.get(word, _UNFINISHED_STYLE))

    def _advice(self) -> None:
        texts = advice_texts(self._run) if self._run.exit_code == 1 else []
        if texts:
            self._line("Then, with more in `probe-flow explain CODE`:")
            self._items(texts)


def _tensors(count: int) -> str:
    return f"{count} tensor{'' if count == 1 else 's'}"


def _place_rows(place: FindingRecord, also: str) -> list[tuple[str, str]]:
    metrics = {name: value for name, value in place.metrics.items() if value is not None}
    names = dict.fromkeys((*(name for name in FIGURES_FIRST if name in metrics), *metrics))
    figures = ", ".join(f"{printable(name)} {figure(metrics[name])}" for name in list(names)[:MAX_FIGURES])
    return [
        ("operator", operator(place)),
        ("in the dump", in_dump(place)),
        ("tensor", slot(place)),
        ("where", where(place)),
        ("also in", also),
        ("golden", readable(place.golden_node or "")),
        ("called at", printable(place.source or "")),
        ("evidence", readable(place.evidence)),
        ("figures", figures),
        ("compared by", printable(place.comparison or "")),
    ]


def _one_line(found: SamePlace) -> str:
    place = found.first
    also = f"; also in {found.elsewhere}" if found.others else ""
    return f"{sentence_place(place)}: {readable(place.evidence)}{also}"


def _next_step(run: RunRecord, folder: str) -> tuple[str, str]:
    """Return what to do now, and the command that helps with it (either may be empty)."""
    code = run.exit_code
    first = run.first or run.nonfinite or run.failure
    if code == 3:
        return "remove the causes listed above and run the same command again.", ""
    show = f"probe-flow show {shlex.quote(folder or '.')}"
    if code == 1 and first is not None and first.node is not None:
        execution = {"rank": first.rank, "graph": first.graph, "step": first.step}
        at = [f" --{name} {shlex.quote(str(value))}" for name, value in execution.items() if value is not None]
        command = f"{show} --node {shlex.quote(first.name or first.node)}{''.join(at)}"
        return f"look at the inputs and outputs of {operator(first)}:", command
    return ("look at the rows that fail:", f"{show} --verdict fail") if code == 1 else ("", "")
