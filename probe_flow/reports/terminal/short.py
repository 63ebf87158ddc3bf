"""The short summary of a run: what is wrong, how that is known, what to do; at most 24 lines, the verdict last.

Every part is printed by itself. Where they are more than a screen together, those go first that say least; what
names the dumps, the first wrong tensor, the next command and the verdict always stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from probe_flow.exit_codes import EXIT_GATE_FAILED
from probe_flow.record.conclusion import dumps_line, headline, last_line, verdict_word
from probe_flow.record.excuses import excuses_text
from probe_flow.record.facts import advice_texts, problems_text, roles_text
from probe_flow.record.places import in_dump, operator, printable, readable, slot, where
from probe_flow.record.same_places import elsewhere, is_same_place, suspected
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.run import RunRecord
from probe_flow.records import FindingKind
from probe_flow.reports.phrases import is_told_above
from probe_flow.reports.terminal.printing import MIN_WIDTH, Printer, columns_of
from probe_flow.reports.terminal.words import exit_code_text, figures_text, next_step, one_line, style_of, tensors_text

MAX_LINES = 24
"""Of a terminal as it opens; longer lines count as often as they wrap."""

MAX_CAUSES = 4
MAX_OTHERS = 3
MAX_DUMPS = 8

_ALWAYS = 0
"""Rank of parts that are never left out; of others the highest rank goes first."""


class _Part(NamedTuple):
    """Lines, and how many lines of the terminal they take; of evidence, which may be a page, the beginning will do."""

    rank: int
    lines: Sequence[str]
    height: int
    may_be_cut: bool = False

    def cut(self, count: int) -> _Part:
        """Return the part with so many lines less, but two at least."""
        kept = [*self.lines[: max(2, len(self.lines) - count)]]
        room = kept[-1][: len(kept[-1]) - len(" ...") + 1]
        words = room.rpartition(" ")[0].rstrip() or room[:-1]
        return self._replace(lines=[*kept[:-1], f"{words} ..."], height=len(kept))


def render_short(
    run: RunRecord,
    *,
    color: bool,
    width: int,
    folder: str = "",
    resume: str = "--resume",
    more: str = "",
    to_terminal: bool = False,
) -> str:
    """Return the summary as text that ends with a line end: both dumps first, the verdict in one line last.

    Args:
        run: the run record, as in run.json.
        color: whether to use terminal colours. The caller knows whether there is a terminal and about ``NO_COLOR``.
        width: columns of the terminal; below 40 counts as 40.
        folder: the run's folder as the user should type it.
        resume: option of the command that goes on with a run that was interrupted.
        more: how the user sees the rest, as a command or an option.
        to_terminal: whether a terminal shows it, so that the first and the last line, which are longer than it, are
            broken between words. Logs and programs get them whole.
    """
    printed = Printer.sentence if to_terminal else Printer.unbroken
    parts = _Short(run, folder, resume, more, printed, color=color, width=max(width, MIN_WIDTH)).parts()
    return "\n".join(line for part in _fitting(parts) for line in part.lines) + "\n"


def _fitting(parts: Sequence[_Part]) -> list[_Part]:
    """Return the parts that fit: those of the highest rank are left out, the last of one rank first."""
    kept = list(parts)
    while sum(part.height for part in kept) > MAX_LINES:
        least = max(kept, key=lambda part: (part.rank, kept.index(part)))
        if least.rank == _ALWAYS:
            break
        kept.remove(least)
    beyond = sum(part.height for part in kept) - MAX_LINES
    return [part.cut(beyond) if beyond > 0 and part.may_be_cut and part.height > 2 else part for part in kept]


class _Short:
    """Makes the parts."""

    def __init__(
        self,
        run: RunRecord,
        folder: str,
        resume: str,
        more: str,
        print_line: Callable[[Printer, str, str], None],
        *,
        color: bool,
        width: int,
    ) -> None:
        self._run = run
        self._print_line = print_line
        self._folder = folder
        self._resume = resume
        self._more = more
        self._color = color
        self._width = width

    def parts(self) -> list[_Part]:
        """Return what there is to say, in order."""
        run, word = self._run, verdict_word(self._run)
        first = run.first or run.nonfinite or run.failure
        return [
            *self._long(dumps_line(run)),
            self._blank(),
            *self._wrapped(_ALWAYS, headline(run, word), "bold"),
            *self._causes(),
            *(self._place(first) if first is not None else ()),
            *self._others(first),
            *self._dumps(word),
            *self._counts(),
            *self._next(),
            *self._long(last_line(run, folder=self._folder), style_of(word)),
        ]

    def _wrapped(self, rank: int, text: str, style: str = "") -> list[_Part]:
        return self._part(rank, lambda out: out.line(text, style)) if text else []

    def _long(self, text: str, style: str = "") -> list[_Part]:
        """Return the line that names the dumps, or the verdict."""
        return self._part(_ALWAYS, lambda out: self._print_line(out, text, style)) if text else []

    def _unbroken(self, rank: int, text: str) -> list[_Part]:
        return self._part(rank, lambda out: out.unbroken(text)) if text else []

    def _part(self, rank: int, printed: Callable[[Printer], None]) -> list[_Part]:
        """Return what is printed as a part, nothing where that is nothing."""
        out = Printer(color=self._color, width=self._width)
        printed(out)
        lines = out.lines()
        return [_Part(rank, lines, sum(map(self._height, lines)))] if lines else []

    def _height(self, line: str) -> int:
        return max(1, -(-columns_of(line) // self._width))

    def _blank(self) -> _Part:
        return _Part(8, ("",), 1)

    def _labels(self, rank: int, rows: Iterable[tuple[str, str]]) -> list[_Part]:
        found = [(label, text) for label, text in rows if text]
        return self._part(rank, lambda out: out.labels(found))

    def _causes(self) -> list[_Part]:
        causes = [readable(cause) for cause in self._run.incomplete]
        if verdict_word(self._run) == "STOPPED" or not causes:
            return []
        more = [f"and {len(causes) - MAX_CAUSES} more, in run.json"] if len(causes) > MAX_CAUSES else []
        shown = causes[:MAX_CAUSES] + more
        return [
            *self._part(_ALWAYS, lambda out: out.items(shown[:1])),
            *self._part(2, lambda out: out.items(shown[1:])),
        ]

    def _place(self, place: FindingRecord) -> list[_Part]:
        tensor = ", ".join(filter(None, (slot(place), where(place))))
        golden, evidence = readable(place.golden_node or ""), readable(place.evidence)
        return [
            *self._labels(_ALWAYS, [("tensor", tensor)]),
            *self._labels(5, [("in dump", in_dump(place))]),
            *self._labels(6, [("golden", "" if golden == place.node else golden)]),
            *self._labels(1, [("called at", printable(place.source or ""))]),
            *(part._replace(may_be_cut=True) for part in self._labels(_ALWAYS, [("evidence", evidence)])),
            *self._labels(7, [("figures", figures_text(place))]),
            *self._labels(4, [("also in", elsewhere(suspected(self._run), place))]),
            *self._labels(5, [("by", printable(place.comparison or ""))]),
        ]

    def _others(self, first: FindingRecord | None) -> list[_Part]:
        """Say where else something is wrong: NaN, other origins, and what no operator is to blame for."""
        run = self._run
        texts = []
        nonfinite = run.nonfinite
        if nonfinite is not None and run.first is not None:
            is_there = is_same_place(nonfinite, run.first)
            place = f"{operator(nonfinite)} {slot(nonfinite)}, {where(nonfinite)}"
            texts.append(f"NaN or infinity begins at {'the same tensor' if is_there else place}")
        others = [found for found in suspected(run) if first is None or not found.is_at(first)]
        texts += [one_line(found) for found in others[:MAX_OTHERS]]
        if len(others) > MAX_OTHERS:
            texts.append(f"and {len(others) - MAX_OTHERS} more places, in run.json")
        drift = [readable(each.evidence) for each in run.findings if not is_told_above(each.kind)]
        texts += drift[:MAX_OTHERS]
        waivers, baseline = excuses_text(run)
        labels = [("also" if place == 0 else "", text) for place, text in enumerate(texts)]
        excused = [("waived", text) for text in waivers] + [("baseline", text) for text in baseline]
        drifts = any(each.kind is FindingKind.DRIFT and each.fails for each in run.findings)
        return [
            *(part for row in labels for part in self._labels(1 if drifts else 5, [row])),
            *(part for row in excused[:MAX_OTHERS] for part in self._labels(6, [row])),
        ]

    def _dumps(self, word: str) -> list[_Part]:
        """Say what a run that compares nothing has read, or made, and where it lies."""
        if word != "DONE":
            return []
        inputs = self._run.inputs
        lines = [
            f"  {printable(dump.stage)}  {tensors_text(dump.tensors)} of {dump.nodes} nodes  {printable(dump.path)}"
            for dump in inputs[:MAX_DUMPS]
        ]
        if len(inputs) > MAX_DUMPS:
            lines.append(f"  and {len(inputs) - MAX_DUMPS} more, in run.json")
        return [part for line in lines for part in self._unbroken(3, line)]

    def _counts(self) -> list[_Part]:
        problems = problems_text(self._run.problems)
        return [
            *self._labels(2, [("tensors", roles_text(self._run))]),
            *self._labels(3, [("problems", problems)]),
        ]

    def _next(self) -> list[_Part]:
        step, command = next_step(self._run, self._folder)
        advice = advice_texts(self._run, self._folder or ".") if self._run.exit_code == EXIT_GATE_FAILED else []
        code = exit_code_text(self._run, self._resume) if self._run.exit_code > 1 else ""
        return [
            self._blank(),
            *self._wrapped(_ALWAYS, f"Next: {step}" if step else ""),
            *self._unbroken(_ALWAYS, f"  {printable(command)}" if command else ""),
            *(part for text in advice[:1] for part in self._wrapped(4, f"Then: {text}")),
            *self._wrapped(5, code),
            *self._wrapped(6, f"More: {self._more}" if self._more else "", "dim"),
        ]
