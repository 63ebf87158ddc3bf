"""What a run concludes in words: the verdict, the line that names both dumps, and the last line.

Terminal, `--quiet`, JUnit, annotations, Markdown and HTML take their words from here, so that they cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Literal

from msgspec.structs import replace

from probe_flow.exit_codes import EXIT_GATE_FAILED, EXIT_INCOMPLETE, EXIT_PASSED, EXIT_WRONG_INPUT
from probe_flow.record.excuses import excuses_any
from probe_flow.record.places import operator, printable, slot, where
from probe_flow.record.run_json import Summary, comparison_summary
from probe_flow.record.types.conclusions import Conclusions, DumpRecord, FindingRecord
from probe_flow.record.types.run import RunRecord, StageRecord
from probe_flow.records import Comparison, FindingKind, Role, Status

SAMPLE = "bundled sample"

STRUCTURE = "structure"
"""Task of dumps that record calls and no values."""

BENCHMARK = "benchmark"
"""Task of a side that is no dump: what was computed for the comparison, of the calls of the other side."""

_ALONE = ""
"""Name of the comparison in a record that has no other; those of stages are not empty."""

_GAPS = "failed", "skipped", "interrupted"

_EXIT_CODES = {"pass": EXIT_PASSED, "fail": EXIT_GATE_FAILED, "incomplete": EXIT_INCOMPLETE, None: EXIT_PASSED}


def concluded(comparison: Comparison, run: RunRecord, summary: Summary | None = None) -> RunRecord:
    """Return the record of a run with what this comparison concludes, and nothing of others.

    Args:
        comparison: it decides verdict and exit code; what it does not know of (a later stage that fails) can only
            make them worse.
        run: the record so far; of one that this returned, the conclusions stay.
        summary: what the comparison concludes, where that is known.
    """
    record, findings = summary or summary_in(run, comparison)
    judged = ("pass" if comparison.gate_passed else "fail") if comparison.gate else None
    verdict = "incomplete" if comparison.incomplete else judged
    return replace(
        run,
        **{name: getattr(record, name) for name in Conclusions.__struct_fields__},
        findings=findings,
        comparisons={_ALONE: record},
        verdict=verdict,
        exit_code=_EXIT_CODES[verdict],
        incomplete=tuple(comparison.incomplete),
    )


def summary_in(run: RunRecord, comparison: Comparison) -> Summary:
    """Return what a comparison concludes, which a record that `concluded` returned has already."""
    alone = run.comparisons.get(_ALONE)
    return comparison_summary(comparison) if alone is None else Summary(alone, run.findings)


def stage_gaps(stages: Iterable[StageRecord]) -> dict[str, str]:
    """Return the stages that were to run and did not come to their end, each with the reason it gives."""
    return {each.name: f"stage `{each.name}` {each.status}: {each.reason}" for each in stages if each.status in _GAPS}


def error_reasons(errors: Iterable[tuple[str, str]]) -> list[str]:
    """Return a reason for each code of some errors: the message of the first, and how many more there are.

    >>> error_reasons([("PF3015", "`a` is cut off"), ("PF3015", "`b` is cut off")])
    ['[PF3015] `a` is cut off (and 1 more)']
    """
    found = list(errors)
    counts = Counter(code for code, _ in found)
    firsts = dict(reversed(found))
    more = {code: f" (and {count - 1} more)" if count > 1 else "" for code, count in counts.items()}
    return [f"[{code}] {firsts[code]}{more[code]}" for code in counts]


def verdict_word(run: RunRecord) -> str:
    """Return the verdict of a run as the one word that people see."""
    if run.exit_code > 128:
        return "INTERRUPTED"
    if run.exit_code == EXIT_WRONG_INPUT:  # runs of old versions have another verdict then
        return "STOPPED"
    return "DONE" if run.verdict is None else run.verdict.upper()


def dumps_line(run: RunRecord) -> str:
    """Return what was compared: kind, tensors, executions and path of both sides; of several comparisons the first.

    Empty where nothing was compared.
    """
    summaries = [each for each in run.comparisons.values() if each.dumps]
    if not summaries:
        return ""
    sides = [_side(name, dump, run) for name, dump in summaries[0].dumps.items()]
    more = [f"and {len(summaries) - 1} more comparisons"] if len(summaries) > 1 else []
    return " | ".join((*sides, *more, *([SAMPLE] if run.workflow.sample else [])))


def last_line(run: RunRecord, *, folder: str | None = None) -> str:
    """Return the verdict in one line: what is wrong and how much, how much was compared, caveats, and the report.

    Args:
        run: a run record, live or stored.
        folder: the run's folder as the user should type it, for the path of the report; None leaves that out.
    """
    word = verdict_word(run)
    heirs = run.roles.get(Role.INHERITED, 0)
    parts = [
        f"{word} {_what(run, word)}",
        f"{heirs} inherit{'s' if heirs == 1 else ''}" if heirs and word in ("FAIL", "INCOMPLETE") else "",
        compared(run),
        *map(printable, caveats(run)),
        "" if folder is None else report_path(run, folder),
    ]
    return " | ".join(filter(None, parts))


def caveats(run: RunRecord) -> list[str]:
    """Return what has to be said along with the verdict."""
    return [*run.caveats, *([SAMPLE] if run.workflow.sample else [])]


def compared(run: RunRecord) -> str:
    """Return ``143 of 143 compared``; of the golden too where its share is smaller.

    Empty where nothing was asked, and where a side has no values.
    """
    if any(dump.task == STRUCTURE for each in run.comparisons.values() for dump in each.dumps.values()):
        return ""
    (done, total), (golden_done, golden_total) = _counted(run, "target"), _counted(run, "golden")
    if not total and not golden_total:
        return ""
    text = f"{done} of {total} {run.done}"
    if golden_total and golden_done / golden_total < (done / total if total else 1.0):
        text += f" (golden {golden_done} of {golden_total})"
    return text


def _so_far(run: RunRecord) -> str:
    """Return what was found in the part that was compared, as a sentence that goes on after another one."""
    if run.first is not None:
        return f" In what was, {operator(run.first)} is the first to go wrong."
    return f" In what was, {_failing(run.failure, run)}." if run.failure is not None else ""


def headline(run: RunRecord, word: str) -> str:
    """Return the verdict as one sentence; ``word`` is that of `verdict_word`."""
    first, nonfinite = run.first, run.nonfinite
    if word == "PASS":
        return _passes(run)
    if word == "DONE":
        return "The workflow ended; it compares nothing."
    if word == "STOPPED":
        found = _so_far(run)
        if found:
            return f"The rest was not {run.done}: something in the command or its files is wrong.{found}"
        return "Nothing was judged: something in the command or its files is wrong."
    if word == "INTERRUPTED":
        return "The run was stopped before its end."
    if word == "INCOMPLETE":
        return f"Not everything that was asked for was {run.done}.{_so_far(run)}"
    overflow = _overflow(run)
    if overflow is not None:
        where = operator(overflow) if overflow.node else "an operator without dump"
        return f"The run overflowed, first at {where}."
    if first is not None:
        return f"The target first goes wrong at {operator(first)}."
    if nonfinite is not None:
        return f"NaN or infinity first appears at {operator(nonfinite)}."
    if run.failure is not None:
        return f"{_failing(run.failure, run)}."
    if _drifts(run):
        return "The error grows step by step; no single operator is to blame."
    count = run.counts.get(Status.FAIL, 0)
    return f"{count} tensor{'' if count == 1 else 's'} failed; no single operator was found to be the cause."


def _passes(run: RunRecord) -> str:
    if excuses_any(run):
        return "Nothing goes wrong beyond what is waived or accepted."
    if run.first is not None:
        return f"Its gate passes, although the target first goes wrong at {operator(run.first)}."
    if run.done == "examined":
        is_plain = not run.counts.get(Status.WARNING)
        return "All values are finite." if is_plain else "No NaN, and no infinity but where it was asked for."
    if any(side.missing or side.outside for side in run.coverage.values()):
        return "No operator that was compared goes wrong."
    return "No operator of the target goes wrong."


def _what(run: RunRecord, word: str) -> str:
    """Return the verdict's object: the operator with place and size, or the first cause."""
    first = run.first or run.nonfinite or run.failure
    causes = [printable(cause) for cause in run.incomplete]
    if word == "INCOMPLETE" or (word == "STOPPED" and causes):
        more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
        wrong = f"; {_wrong(first, run)}" if first is not None else ""
        return (causes[0] if causes else f"not everything was {run.done}") + more + wrong
    if word == "FAIL" and first is not None and _overflow(run) is None:
        return _wrong(first, run)
    if word == "FAIL" and _drifts(run):
        return "the error grows step by step, no single operator is to blame"
    sentence = headline(run, word)
    return sentence[0].lower() + sentence[1:].rstrip(".")


def _failing(worst: FindingRecord, run: RunRecord) -> str:
    """Return how many nodes fail where each stands for itself, and which of them most."""
    count = run.finding_counts[FindingKind.FAILURE].failing
    return f"{operator(worst)} fails" if count == 1 else f"{count} nodes fail, {operator(worst)} most"


def _overflow(run: RunRecord) -> FindingRecord | None:
    return next((each for each in run.findings if each.kind is FindingKind.OVERFLOW and each.fails), None)


def _drifts(run: RunRecord) -> bool:
    return any(each.kind is FindingKind.DRIFT and each.fails for each in run.findings)


def _wrong(place: FindingRecord, run: RunRecord) -> str:
    """Return ``Gelu_1 (Gelu) output 0, rank 0, graph 1, step 0: 25.5 x rounding``, with how many more there are."""
    name = " ".join(filter(None, (operator(place), slot(place))))
    size = printable(place.size)
    source = printable(PurePosixPath(place.source or "").name)
    same = [each for each in run.findings if each.fails and _is_at(each, place)]
    others = sum(count.failing for count in run.finding_counts.values()) - max(1, len(same))
    more = f" (and {others} more)" if others > 0 else ""
    called = f", called at {source}" if source else ""
    among = printable(place.comparison or "")
    return ", ".join(filter(None, (name, where(place), among))) + (f": {size}" if size else "") + called + more


def _is_at(one: FindingRecord, other: FindingRecord) -> bool:
    """Return True for what is said of one tensor twice, as where NaN begins is of an origin."""
    return one is other or (one.row is not None and (one.row, one.comparison) == (other.row, other.comparison))


def _counted(run: RunRecord, side: Literal["target", "golden"]) -> tuple[int, int]:
    found = run.coverage.get(side)
    return (0, 0) if found is None else (found.compared, found.compared + found.missing + found.outside)


def _side(name: str, dump: DumpRecord, run: RunRecord) -> str:
    path, folder = PurePosixPath(dump.path), run.workflow.folder
    shown = path.relative_to(folder) if folder and path.is_relative_to(folder) else path
    what = f"{dump.framework} dump" if run.done == "examined" else f"{name} {dump.framework} dump"
    if dump.task == BENCHMARK:
        what = f"{name} benchmark in {dump.framework} of"
    held = f"{dump.tensors} {'call' if dump.task == STRUCTURE else 'tensor'}{'' if dump.tensors == 1 else 's'}"
    if dump.executions > 1:
        held += f" of {dump.executions} executions"
    return printable(f"{what} `{shown}`, {held}")


def report_path(run: RunRecord, folder: str) -> str:
    """Return the path of the report for people, or of run.json where there is none.

    Of one report for each comparison it is that of the one with the finding that the conclusion names.
    """
    pages = [name for name in run.artifacts if name.endswith(".html")]
    place, names = run.first or run.nonfinite or run.failure, [*run.comparisons]
    if len(pages) == len(names) and place is not None and place.comparison in names:
        pages = pages[names.index(place.comparison) :]
    name = next(iter(pages), "run.json")
    return printable(name if not folder or name.startswith("/") else f"{folder.rstrip('/')}/{name}")
