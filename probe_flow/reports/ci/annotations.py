"""What a CI system shows beside the code: GitHub workflow commands, or a GitLab code quality report.

GitHub reads lines ``::error file=...,line=...::message`` from the output of a step, with ``%``, line ends and, in
properties, ``:`` and ``,`` in percent form. GitLab reads a JSON list of objects with ``description``, ``check_name``,
``fingerprint``, ``severity`` and ``location``.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from probe_flow.files.atomic import atomic_text
from probe_flow.record.conclusion import caveats, dumps_line, last_line, summary_in, verdict_word
from probe_flow.record.places import printable, sentence_place
from probe_flow.record.types.run import ProblemRecord, RunRecord
from probe_flow.records import ALL_PASS, Comparison, Status

MAX_PROBLEMS_OF_ONE_CODE = 3
"""A damaged dump may have thousands; GitHub itself shows ten annotations of a level."""


class Level(enum.Enum):
    """The words of GitHub."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


_LEVELS = {"error": Level.ERROR, "warning": Level.WARNING, "note": Level.NOTICE}
_GITLAB = {Level.ERROR: "critical", Level.WARNING: "minor", Level.NOTICE: "info"}


class Annotation(Struct, frozen=True):
    """One remark. Lines and columns count from 1, the end is exclusive; None = not known.

    Args:
        level: how grave it is.
        check: what found it: a kind of finding, ``incomplete``, or a diagnostic code.
        title: a few words.
        message: the rest.
        file: the file that it belongs to.
    """

    level: Level
    check: str
    title: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None


def annotate(comparisons: Iterable[Comparison], run: RunRecord, *, root: Path) -> list[Annotation]:
    """Return what is worth a remark: the verdict, findings, why the run is incomplete, and problems with a place.

    Where something is wrong, or has to be known beside the verdict, the last line of the terminal comes first.
    A finding that the gate fails on is an error, a weaker one a notice. It stands at the innermost source line of its
    operator outside installed packages, where the dump has stacks. Of problems of one code the first three are told;
    a reason why the run is incomplete that only repeats a problem is not.

    Args:
        comparisons: what was compared.
        run: facts of run.json: the conclusions, ``incomplete`` and ``problems``.
        root: folder that paths are shown relative to, as CI systems want them: the checkout.
    """
    found = [each for comparison in comparisons for each in _of_findings(comparison, run, root)]
    if run.verdict == "fail" or caveats(run):
        level = Level.NOTICE if run.verdict == "pass" else Level.ERROR
        found.insert(0, Annotation(level, "verdict", verdict_word(run), f"{last_line(run)}\n{dumps_line(run)}"))
    told = {f"[{problem.code}]" for problem in run.problems}
    found += [
        Annotation(Level.ERROR, "incomplete", "incomplete", cause)
        for cause in run.incomplete
        if not any(code in cause for code in told)
    ]
    found += _of_problems(run.problems, root)
    return found


def github_text(found: Iterable[Annotation]) -> str:
    """Return the annotations as workflow commands of GitHub, one a line."""
    return "".join(_github_line(each) + "\n" for each in found)


def gitlab_text(found: Sequence[Annotation], *, workflow: str, root: Path) -> str:
    """Return the annotations as a code quality report of GitLab.

    Args:
        found: the annotations.
        workflow: the workflow file, the place of what has no other; that report has no entry without a place.
        root: the checkout.
    """
    records = []
    for each in found:
        path, line = each.file or relative_to(workflow, root), each.line or 1
        identity = "\0".join((each.check, path, str(line), each.title, each.message))
        records.append(
            {
                "description": printable(f"{each.title}: {each.message}"),
                "check_name": each.check,
                "fingerprint": hashlib.sha256(identity.encode("utf-8", "backslashreplace")).hexdigest(),
                "severity": _GITLAB[each.level],
                "location": {"path": printable(path), "lines": {"begin": line}},
            }
        )
    return json.dumps(records, indent=2, ensure_ascii=False) + "\n"


def write_annotations(text: str, path: Path) -> None:
    """Write one of the texts above.

    Raises:
        IncompleteError: PF7001 when the file cannot be written.
    """
    with atomic_text(path) as file:
        file.write(text)


def _of_findings(comparison: Comparison, run: RunRecord, root: Path) -> Iterator[Annotation]:
    for finding in summary_in(run, comparison).findings:
        level = Level.ERROR if finding.fails and not comparison.judges_rows else Level.NOTICE
        kind = finding.kind.value.replace("_", " ")
        file, _, line = (finding.source or "").rpartition(":")
        yield Annotation(
            level,
            finding.kind.value,
            kind,
            f"{sentence_place(finding)}: {finding.evidence}",
            relative_to(file, root) if file else None,
            int(line) if line else None,
        )
    failing = sum(row.verdict.status is Status.FAIL and row.verdict.excuse is None for row in comparison.rows)
    if comparison.judges_rows and failing:
        yield Annotation(Level.ERROR, ALL_PASS, f"gate {ALL_PASS}", f"{failing} of {len(comparison.rows)} rows fail")


def _of_problems(problems: Iterable[ProblemRecord], root: Path) -> list[Annotation]:
    kept: dict[str, list[Annotation]] = {}
    counts: dict[str, int] = {}
    for problem in problems:
        code = problem.code
        counts[code] = counts.get(code, 0) + 1
        if counts[code] <= MAX_PROBLEMS_OF_ONE_CODE:
            kept.setdefault(code, []).append(_of_problem(problem, root))
    for code, count in counts.items():
        if count > MAX_PROBLEMS_OF_ONE_CODE:
            text = f"and {count - MAX_PROBLEMS_OF_ONE_CODE} more of {code}, all in run.json"
            kept[code].append(Annotation(Level.NOTICE, code, code, text))
    return [each for same in kept.values() for each in same]


def _of_problem(problem: ProblemRecord, root: Path) -> Annotation:
    return Annotation(
        _LEVELS[problem.severity],
        problem.code,
        problem.code,
        "\n".join(part for part in (problem.message, problem.help) if part),
        relative_to(problem.file, root) if problem.file else None,
        problem.line,
        problem.column,
        problem.end_line,
        problem.end_column,
    )


def relative_to(file: str, root: Path) -> str:
    """Return a path as a CI system knows it: from the root of the checkout where it lies below."""
    path = PurePosixPath(file)
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _github_line(each: Annotation) -> str:
    end_column = each.end_column - 1 if each.end_column and each.end_line == each.line else None  # inclusive there
    fields = (
        ("title", f"probe_flow: {each.title}"),
        ("file", each.file),
        ("line", each.line),
        ("endLine", each.end_line),
        ("col", each.column if end_column else None),
        ("endColumn", end_column),
    )
    properties = ",".join(f"{name}={_property(value)}" for name, value in fields if value)
    return f"::{each.level.value} {properties}::{_data(each.message)}"


def _data(text: str) -> str:
    """Return text for the message of a command; line ends stay line ends, other control characters become text."""
    lines = "\n".join(map(printable, text.split("\n")))
    return lines.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(value: object) -> str:
    return _data(printable(value)).replace(":", "%3A").replace(",", "%2C")
