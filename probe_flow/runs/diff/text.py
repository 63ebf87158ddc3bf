"""The difference of two runs in words: for the terminal, and for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import asdict

from probe_flow.exit_codes import EXIT_GATE_FAILED, EXIT_INCOMPLETE, EXIT_PASSED
from probe_flow.record.excuses import MAX_CHANGES, baseline_facts, change_text, deviant_facts
from probe_flow.record.facts import counts_text
from probe_flow.record.json_values import json_number, json_value
from probe_flow.record.places import Place, figure, in_dump, operator, printable, slot, where
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.run_json import plain
from probe_flow.runs.diff.differences import Move, RunDiff
from probe_flow.runs.diff.inputs import input_facts, input_lines, names_text
from probe_flow.runs.diff.rows import MEANINGS, At, Kind, RowChange, RowFacts

EXIT_CODES = {"no_regression": EXIT_PASSED, "regression": EXIT_GATE_FAILED, "uncertain": EXIT_INCOMPLETE}


def outcome(found: RunDiff) -> str:
    """Return ``no_regression``, ``regression``, or ``uncertain`` when B is incomplete."""
    if not found.is_certain:
        return "uncertain"
    return "regression" if found.has_regressed else "no_regression"


def answer_word(found: RunDiff) -> str:
    """Return the answer as people see it."""
    return outcome(found).upper().replace("_", " ")


def headline(found: RunDiff) -> str:
    """Return the answer as one sentence."""
    moved = sum(move.is_regression for name in found.findings for move in _moved_alone(found, name))
    worse = (
        (sum(len(use.worse) for use in found.findings.values()) + moved, "finding"),
        (sum(change.is_regression for change in found.rows), "tensor"),
    )
    texts = [_counted(count, word) for count, word in worse if count]
    said = {
        "no_regression": "Nothing is worse in B.",
        "regression": f"Worse in B: {' and '.join(texts) or 'the verdict of the run'}.",
        "uncertain": "B is incomplete; what it did not compare may be worse.",
    }
    others = f"The runs are of different dumps: {names_text(found.inputs)}. " if found.inputs else ""
    return f"{others}{said[outcome(found)]}"


def counts_line(found: RunDiff) -> str:
    """Return ``2 worse, 1 better, 96 of 98 the same``."""
    parts = [f"{count} {kind.value}" for kind, count in found.counts.items() if count]
    both = {Kind.VANISHED, Kind.APPEARED}
    changed = sum(count for kind, count in found.counts.items() if kind not in both)
    return ", ".join([*parts, f"{found.common - changed} of {found.common} the same"])


def diff_lines(found: RunDiff, *, limit: int | None, names: tuple[str, str]) -> Iterator[str]:
    """Yield the difference for people; the last line states the answer, the counts and the exit code.

    Args:
        found: the difference.
        limit: rows of a kind; None = all.
        names: of the runs, as the user typed them.
    """
    yield f"{answer_word(found)}  {headline(found)}"
    yield ""
    for letter, run, name in zip("AB", (found.a, found.b), names, strict=True):
        yield f"  {letter}  {run_text(run, name)}"
    yield from _section("Dumps that differ", input_lines(found.inputs), None)
    yield from _section("Findings that fail", finding_lines(found), limit)
    for kind in Kind:
        rows = [change for change in found.rows if change.kind is kind]
        yield from _section(f"{kind.value.capitalize()}: {MEANINGS[kind]}", _table(rows[:limit]), None, len(rows))
    verdicts = [f"{count} {_word(old)} -> {_word(new)}" for (old, new), count in sorted(found.verdicts.items())]
    yield from _section("Other verdicts", verdicts, None)
    yield ""
    inputs = f"different dumps: {names_text(found.inputs)} | " if found.inputs else ""
    yield f"{answer_word(found)} | {inputs}{counts_line(found)} | exit code {EXIT_CODES[outcome(found)]}"


def run_text(run: StoredRun, name: str) -> str:
    """Return one run in a line: its name, verdict, counts, and when it began."""
    record = run.record
    said = f"{record.verdict or 'nothing compared'}, {counts_text(record.counts)}"
    return printable(f"{name}: {said}, began {record.timings.started}")


def finding_lines(found: RunDiff) -> list[str]:
    """Return how the failing findings changed, one a line, those for the worse first."""
    texts = []
    for name, use in found.findings.items():
        stage = f"{name}: " if len(found.findings) > 1 else ""
        facts = baseline_facts(use)
        for words, changes, count in (
            ("worse", facts.worse, facts.counts.worse),
            ("better", facts.better, facts.counts.better),
            ("no such node", facts.absent, facts.counts.absent),
        ):
            texts += [printable(f"{words}: {stage}{change_text(change)}") for change in changes]
            if count > MAX_CHANGES:
                texts.append(f"{words}: and {count - MAX_CHANGES} more")
        texts += [printable(f"moved: {stage}{_move_text(move)}") for move in found.moves[name]]
        same = use.accepted - len(_moved_alone(found, name))
        if same:
            texts.append(f"as before: {stage}{_counted(same, 'finding')}")
    return texts


def _moved_alone(found: RunDiff, comparison: str) -> list[Move]:
    """Return the findings that moved and are no larger than before."""
    grown = {change.deviant.place for change in found.findings[comparison].worse}
    return [move for move in found.moves[comparison] if move.deviant.place not in grown]


def _move_text(move: Move) -> str:
    """Return a moved finding in words: ``Add_2.output.0 (AddV2), origin: rank 0 step 1 -> rank 0 step 2``."""
    of_type = f" ({move.deviant.op_type})" if move.deviant.op_type else ""
    kind = move.deviant.kind.replace("_", " ")
    return f"{move.deviant}{of_type}, {kind}: {_places_text(move.before)} -> {_places_text(move.after)}"


def _places_text(places: Sequence[At]) -> str:
    return ", ".join(where(Place(rank=rank, step=step)) or "the run" for rank, step in places)


_HEADER = ("verdict", "error", "where", "tensor", "golden", "in the dump")


def table(rows: Sequence[RowChange]) -> list[tuple[str, ...]]:
    """Return the lines of a table, the headings first; columns that are empty in every row are left out."""
    lines = [_HEADER, *map(_cells, rows)]
    used = [place for place in range(len(_HEADER)) if any(line[place] for line in lines[1:])]
    return [tuple(line[place] for place in used) for line in lines]


def _cells(change: RowChange) -> tuple[str, ...]:
    old, new = change.before, change.after
    both = [each for each in (old, new) if each is not None]
    verdict = " -> ".join(dict.fromkeys(_word(each.verdict.value) for each in both))
    if new is not None and new.is_excused:
        verdict += " (waived or accepted)"
    goldens = dict.fromkeys(printable(each.golden) for each in both if each.golden)
    stage = f"{printable(change.place.comparison)}: " if change.place.comparison else ""
    return (
        verdict,
        _error(old, new),
        where(change.place),
        f"{stage}{operator(change.place)} {slot(change.place)}",
        " -> ".join(goldens),
        in_dump(change.place),
    )


def _error(old: RowFacts | None, new: RowFacts | None) -> str:
    texts = [_size(each) for each in (old, new) if each is not None]
    names = dict.fromkeys(each.figure[0] for each in (old, new) if each is not None and each.figure is not None)
    name = "" if list(names) in ([], ["relative_euclidean_distance"]) else f" ({', '.join(map(_figure_name, names))})"
    shown = texts if len(texts) == 2 and texts[0] != texts[1] else texts[:1]
    return f"{' -> '.join(shown)}{name}" if any(text != "-" for text in shown) else ""


def _figure_name(metric: str) -> str:
    return "1 - cosine" if metric == "cosine" else metric


def _size(facts: RowFacts) -> str:
    if facts.is_equal is not None:
        return "equal" if facts.is_equal else "differs"
    size = "-" if facts.figure is None else figure(facts.figure[1])
    return f"{size} + {facts.nonfinite} nan/inf" if facts.nonfinite else size


def _table(rows: Sequence[RowChange]) -> list[str]:
    lines = table(rows) if rows else []
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]


def _section(title: str, lines: Sequence[str], limit: int | None, total: int = 0) -> Iterator[str]:
    if not lines:
        return
    yield ""
    yield f"{title} ({total})" if total else title
    yield from (f"  {line}" for line in lines[:limit])
    left = total - len(lines) + 1 if total else len(lines) - len(lines[:limit])
    if left > 0:
        yield f"  and {left} more; `--limit 0` shows all"


def diff_json(found: RunDiff) -> str:
    """Return the difference for programs: everything, whatever the limit of the text."""
    answer = outcome(found)
    record = {
        "answer": answer,
        "exit_code": EXIT_CODES[answer],
        "tolerance": found.tolerance,
        "a": _run_facts(found.a),
        "b": _run_facts(found.b),
        "inputs": input_facts(found.inputs),
        "common": found.common,
        "counts": {kind.value: count for kind, count in found.counts.items()},
        "findings": {name: plain(baseline_facts(use)) for name, use in found.findings.items()},
        "moved": {name: [_move(move) for move in moves] for name, moves in found.moves.items()},
        "verdicts": [
            {"before": old, "after": new, "count": count} for (old, new), count in sorted(found.verdicts.items())
        ],
        "rows": [_row(change) for change in found.rows],
        "problems": [problem.to_dict() for problem in found.problems],
    }
    # Files of runs may be changed by others: a number such as 1e999 reads as infinite.
    return json.dumps(json_value(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _move(move: Move) -> dict[str, Any]:
    return {
        **deviant_facts(move.deviant),
        "before": [{"rank": rank, "step": step} for rank, step in move.before],
        "after": [{"rank": rank, "step": step} for rank, step in move.after],
        "regression": move.is_regression,
    }


def _run_facts(run: StoredRun) -> dict[str, Any]:
    record = run.record
    return {
        "folder": str(run.folder),
        "run_id": record.run_id,
        "workflow": record.workflow.name,
        "verdict": record.verdict,
        "exit_code": record.exit_code,
        "counts": {status.value: count for status, count in record.counts.items()},
    }


def _row(change: RowChange) -> dict[str, Any]:
    return {
        "kind": change.kind.value,
        "regression": change.is_regression,
        "rematched": change.is_rematched,
        **asdict(change.place),
        "phase": change.place.phase.value,
        "direction": change.place.direction.value,
        "before": _facts(change.before),
        "after": _facts(change.after),
    }


def _facts(row: RowFacts | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {
        "verdict": row.verdict.value,
        "role": row.role.value,
        "golden": row.golden or None,
        "rule": row.rule,
        "metric": row.figure[0] if row.figure is not None else None,
        "error": json_number(row.figure[1]) if row.figure is not None else None,
        "nonfinite": row.nonfinite,
        "checksum_equal": row.is_equal,
        "excused": row.is_excused,
    }


def _word(verdict: str) -> str:
    return printable(verdict).replace("_", " ")


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
