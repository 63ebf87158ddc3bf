"""The long summary of a run, `-v`: the verdict, where it begins, how much was compared, the files, what to do next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from probe_flow.exit_codes import EXIT_GATE_FAILED
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
    role_word,
    roles_text,
)
from probe_flow.record.places import entry_title, in_dump, printable, readable, slot, where, with_entry
from probe_flow.record.same_places import elsewhere, is_same_place, suspected
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.run import RunRecord
from probe_flow.records import Comparison
from probe_flow.reports.phrases import is_told_above, note_on_failing_rows
from probe_flow.reports.terminal.printing import Printer
from probe_flow.reports.terminal.words import exit_code_text, next_step, one_line, place_rows, style_of, tensors_text

NO_TABLES: Mapping[str, Sequence[str]] = MappingProxyType({})

MAX_SUSPECTS = 5
MAX_GAPS = 4
MAX_LARGEST = 5
MAX_FILES = 12
MAX_CAUSES = 8
MAX_EXCUSES = 12


def render_summary(
    run: RunRecord,
    comparisons: Sequence[Comparison],
    *,
    color: bool,
    width: int,
    folder: str = "",
    tables: Mapping[str, Sequence[str]] = NO_TABLES,
    resume: str = "--resume",
    to_terminal: bool = False,
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
        to_terminal: whether a terminal shows it, so that the first and the last line are broken between words.
    """
    printer = Printer(color=color, width=width)
    print_line = printer.sentence if to_terminal else printer.unbroken
    _Summary(printer, run, comparisons, folder, tables, resume, print_line).render()
    return "\n".join(printer.lines()) + "\n"


class _Summary:
    """Prints the sections, findings first."""

    def __init__(
        self,
        out: Printer,
        run: RunRecord,
        comparisons: Sequence[Comparison],
        folder: str,
        tables: Mapping[str, Sequence[str]],
        resume: str,
        print_line: Callable[[str, str], None],
    ) -> None:
        self._out = out
        self._print_line = print_line
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

    def _compared_dumps(self) -> None:
        line = dumps_line(self._run)
        if line:
            self._print_line(line, "")

    def _verdict(self) -> None:
        word = verdict_word(self._run)
        self._out.spans((word, style_of(word)), (f"  {headline(self._run, word)}", "bold"))

    def _incomplete(self) -> None:
        causes = [printable(cause) for cause in self._run.incomplete]
        if not causes:
            return
        self._out.title("Why it is incomplete")
        more = [f"and {len(causes) - MAX_CAUSES} more, in run.json"] if len(causes) > MAX_CAUSES else []
        self._out.items(causes[:MAX_CAUSES] + more)

    def _origin(self, title: str, place: FindingRecord | None) -> None:
        if place is None:
            return
        self._out.title(title)
        also = elsewhere(suspected(self._run), place)
        self._out.grid((label, text) for label, text in place_rows(place, also) if text)

    def _nonfinite(self) -> None:
        place, first = self._run.nonfinite, self._run.first
        if place is None:
            return
        if first is not None and is_same_place(place, first):
            self._out.line("  NaN or infinity begins at the same tensor.")
            return
        self._origin("Where NaN or infinity begins", place)

    def _suspects(self) -> None:
        first = self._run.first
        others = [found for found in suspected(self._run) if first is None or not found.is_at(first)]
        if not others:
            return
        is_failing = self._run.failure is not None
        self._out.title("Other suspects" if first is not None else "What fails" if is_failing else "Worth a look")
        texts = [one_line(found) for found in others[:MAX_SUSPECTS]]
        if len(others) > MAX_SUSPECTS:
            texts.append(f"and {len(others) - MAX_SUSPECTS} more, in run.json")
        self._out.items(texts)

    def _other_findings(self) -> None:
        texts = [readable(finding.evidence) for finding in self._run.findings if not is_told_above(finding.kind)]
        if texts:
            self._out.title("Also found")
            self._out.items(texts[:MAX_SUSPECTS])

    def _excuses(self) -> None:
        for title, texts in zip(("Waivers", "Baseline"), excuses_text(self._run), strict=True):
            if texts:
                self._out.title(title)
                more = [f"and {len(texts) - MAX_EXCUSES} more, in run.json"] if len(texts) > MAX_EXCUSES else []
                self._out.items(texts[:MAX_EXCUSES] + more)

    def _dumps(self) -> None:
        """Say what a run that compares nothing has read, or made, and where it lies."""
        dumps = self._run.inputs
        if verdict_word(self._run) != "DONE" or not dumps:
            return
        self._out.title("Dumps")
        for dump in dumps:
            name, path = printable(dump.stage), printable(dump.path)
            self._out.unbroken(f"  {name}  {tensors_text(dump.tensors)} of {dump.nodes} nodes  {path}")

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
            self._out.title("Results")
            self._out.grid((label, text) for label, text in rows if text)

    def _coverage(self) -> None:
        coverage = self._run.coverage
        if not coverage:
            return
        self._out.title(f"How much was {self._run.done}")
        columns = covered_columns(coverage, self._run.done)
        table = self._out.table(("side", *columns.values()), numbers=len(columns))
        for side, found in coverage.items():
            table.add_row(side, *(str(getattr(found, name)) for name in columns))
        self._out.indented(table)
        counts = coverage.values()
        lacks = any(count.missing or count.outside for count in counts)
        if any(count.compared for count in counts) and not lacks and not self._run.incomplete:
            self._out.line(f"  Nothing is missing: everything that had to be {self._run.done} was.")
        found_gaps = gaps(self._comparisons, limit=MAX_GAPS)
        self._out.items(f"{gap.count} {gap.kind} ({gap.side}), e.g. {gap.example}" for gap in found_gaps)

    def _largest(self) -> None:
        from rich.text import Text

        largest = largest_errors(self._comparisons, limit=MAX_LARGEST)
        if not largest:
            return
        self._out.title("Largest errors, relative to the golden tensor")
        title = entry_title("tensor", has_entries=any(in_dump(each.place) for each in largest))
        table = self._out.table((title, "where", "it is", "error"), numbers=1)
        for distance, row, place in largest:
            tensor = Text(with_entry(f"{readable(place.node)} {slot(place)}", place))
            verdict = role_word(row.verdict.role, row.verdict.status)
            table.add_row(tensor, Text(where(place)), Text(verdict), Text(f"{distance:.3g}"))
        self._out.indented(table)

    def _given(self) -> None:
        for title, lines in self._tables.items():
            self._out.title(title)
            for line in lines:
                self._out.unbroken(line)

    def _files(self) -> None:
        files = [printable(name) for name in self._run.artifacts]
        if not files:
            return
        self._out.title(f"Files in {printable(self._folder)}" if self._folder else "Files")
        more = [f"and {len(files) - MAX_FILES} more"] if len(files) > MAX_FILES else []
        for file in files[:MAX_FILES] + more:
            self._out.unbroken(f"  {file}")

    def _end(self) -> None:
        self._out.line("")
        step, command = next_step(self._run, self._folder)
        if step:
            self._out.line(f"Next: {step}")
        if command:
            self._out.unbroken(f"  {printable(command)}")
        self._advice()
        explanation = exit_code_text(self._run, self._resume)
        if explanation:
            self._out.line(explanation)
        word = verdict_word(self._run)
        self._print_line(last_line(self._run, folder=self._folder), style_of(word))

    def _advice(self) -> None:
        texts = advice_texts(self._run, self._folder or ".") if self._run.exit_code == EXIT_GATE_FAILED else []
        if texts:
            self._out.line("Then, with more in `probe-flow explain CODE`:")
            self._out.items(texts)
