"""What a run concludes in words: the verdict, the line that names both dumps, and the last line.

Terminal, `--quiet`, JUnit, annotations, Markdown and HTML take their words from here, so that they cannot differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from probe_flow.record.excuses import excuses_any
from probe_flow.record.facts import operator, printable, slot, where
from probe_flow.record.run_json import comparison_summary
from probe_flow.records import Comparison

SAMPLE = "bundled sample"

_EXIT_CODES = {"pass": 0, "fail": 1, "incomplete": 3}
_SIDES = ("target", "golden")


def concluded(comparison: Comparison, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a run with what this comparison concludes, in the words of run.json.

    Args:
        comparison: it decides verdict and exit code; what it does not know of (a later stage that fails) can only
            make them worse.
        run: facts of run.json so far.
    """
    summary = comparison_summary(comparison)
    verdict = "incomplete" if comparison.incomplete else "pass" if comparison.gate_passed else "fail"
    return {
        **run,
        **summary,
        "comparisons": {"": summary},
        "verdict": verdict,
        "exit_code": _EXIT_CODES[verdict],
        "incomplete": list(comparison.incomplete),
    }


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


def workflow_name(run: Mapping[str, Any]) -> str:
    """Return the name of the workflow, empty when the facts do not tell."""
    return str(_workflow(run).get("name") or "")


def verdict_word(run: Mapping[str, Any]) -> str:
    """Return the verdict of a run as the one word that people see."""
    code = run.get("exit_code")
    if isinstance(code, int) and code > 128:
        return "INTERRUPTED"
    if code == 2:
        return "STOPPED"
    return {"pass": "PASS", "fail": "FAIL", None: "DONE"}.get(run.get("verdict"), "INCOMPLETE")


def dumps_line(run: Mapping[str, Any]) -> str:
    """Return what was compared: kind, tensors, executions and path of both sides; of several comparisons the first.

    Empty where nothing was compared.
    """
    summaries = [each for each in (run.get("comparisons") or {}).values() if each.get("dumps")]
    if not summaries:
        return ""
    folder = str(_workflow(run).get("folder") or "")
    sides = [_side(name, dump, folder) for name, dump in summaries[0]["dumps"].items()]
    more = [f"and {len(summaries) - 1} more comparisons"] if len(summaries) > 1 else []
    return " | ".join((*sides, *more, *([SAMPLE] if _workflow(run).get("sample") else [])))


def last_line(run: Mapping[str, Any], *, folder: str | None = None) -> str:
    """Return the verdict in one line: what is wrong and how much, how much was compared, caveats, and the report.

    Args:
        run: a run record, live or stored; what an older one lacks is left out.
        folder: the run's folder as the user should type it, for the path of the report; None leaves that out.
    """
    word = verdict_word(run)
    heirs = (run.get("roles") or {}).get("inherited", 0)
    parts = [
        f"{word} {_what(run, word)}",
        f"{heirs} inherit{'s' if heirs == 1 else ''}" if heirs and word in ("FAIL", "INCOMPLETE") else "",
        compared(run),
        *map(printable, caveats(run)),
        "" if folder is None else _report(run, folder),
    ]
    return " | ".join(filter(None, parts))


def caveats(run: Mapping[str, Any]) -> list[str]:
    """Return what has to be said beside the verdict."""
    sample = [SAMPLE] if _workflow(run).get("sample") else []
    return [*map(str, run.get("caveats") or ()), *sample]


def compared(run: Mapping[str, Any]) -> str:
    """Return ``143 of 143 compared``; of the golden too where its share is smaller. Empty where nothing was asked."""
    counts = {side: _counted(run, side) for side in _SIDES}
    (done, total), (golden_done, golden_total) = counts.values()
    if not total and not golden_total:
        return ""
    text = f"{done} of {total} compared"
    if golden_total and golden_done / golden_total < (done / total if total else 1.0):
        text += f" (golden {golden_done} of {golden_total})"
    return text


def headline(run: Mapping[str, Any], word: str) -> str:
    """Return the verdict as one sentence; ``word`` is that of `verdict_word`."""
    first, nonfinite = run.get("first_divergence"), run.get("nonfinite_origin")
    counts, coverage = run.get("counts") or {}, run.get("coverage") or {}
    if word == "PASS" and excuses_any(run):
        return "Nothing goes wrong beyond what is waived or accepted."
    if word == "PASS" and first is not None:
        return f"Its gate passes, although the target first goes wrong at {operator(first)}."
    if word == "PASS" and any(side.get("missing") or side.get("outside") for side in coverage.values()):
        return "No operator that was compared goes wrong."
    if word == "PASS":
        return "No operator of the target goes wrong."
    if word == "DONE":
        return "The workflow ended; it compares nothing."
    if word == "STOPPED":
        return "Nothing was judged: something in the command or its files is wrong."
    if word == "INTERRUPTED":
        return "The run was stopped before its end."
    if word == "INCOMPLETE":
        tail = f" In what was, {operator(first)} is the first to go wrong." if first else ""
        return "Not everything that was asked for was compared." + tail
    if first is not None:
        return f"The target first goes wrong at {operator(first)}."
    if nonfinite is not None:
        return f"NaN or infinity first appears at {operator(nonfinite)}."
    if any(finding.get("kind") == "drift" and finding.get("fails") for finding in run.get("findings") or ()):
        return "The error grows step by step; no single operator is to blame."
    count = counts.get("fail", 0)
    return f"{count} tensor{'' if count == 1 else 's'} failed; no single operator was found to be the cause."


def _what(run: Mapping[str, Any], word: str) -> str:
    """Return the verdict's object: the operator with place and size, or the first cause."""
    first = run.get("first_divergence") or run.get("nonfinite_origin")
    causes = [printable(cause) for cause in run.get("incomplete") or ()]
    if word == "INCOMPLETE" or (word == "STOPPED" and causes):
        more = f" (and {len(causes) - 1} more)" if len(causes) > 1 else ""
        wrong = f"; {_wrong(first, run)}" if first else ""
        return (causes[0] if causes else "not everything was compared") + more + wrong
    if word == "FAIL" and first is not None:
        return _wrong(first, run)
    if word == "FAIL" and any(each.get("kind") == "drift" and each.get("fails") for each in run.get("findings") or ()):
        return "the error grows step by step, no single operator is to blame"
    sentence = headline(run, word)
    return sentence[0].lower() + sentence[1:].rstrip(".")


def _wrong(place: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    """Return ``Gelu_1 (Gelu) output 0, rank 0, graph 1, step 0: 25.5 x rounding``, with how many more there are."""
    name = " ".join(filter(None, (operator(place), slot(place))))
    size = printable(place.get("size") or "")
    source = printable(PurePosixPath(str(place.get("source") or "")).name)
    others = sum(bool(each.get("fails")) and each.get("node") is not None for each in run.get("findings") or ()) - 1
    more = f" (and {others} more)" if others > 0 else ""
    called = f", called at {source}" if source else ""
    return ", ".join(filter(None, (name, where(place)))) + (f": {size}" if size else "") + called + more


def _counted(run: Mapping[str, Any], side: str) -> tuple[int, int]:
    found = (run.get("coverage") or {}).get(side) or {}
    done = int(found.get("compared") or 0)
    return done, done + int(found.get("missing") or 0) + int(found.get("outside") or 0)


def _side(name: str, dump: Mapping[str, Any], folder: str) -> str:
    path = PurePosixPath(str(dump.get("path") or ""))
    shown = path.relative_to(folder) if folder and path.is_relative_to(folder) else path
    tensors, executions = int(dump.get("tensors") or 0), int(dump.get("executions") or 0)
    held = f"{tensors} tensor{'' if tensors == 1 else 's'}"
    if executions > 1:
        held += f" of {executions} executions"
    return printable(f"{name} {dump.get('framework')} dump `{shown}`, {held}")


def _report(run: Mapping[str, Any], folder: str) -> str:
    """Return the path of the report for people, or of run.json where there is none."""
    pages = (str(name) for name in run.get("artifacts") or () if str(name).endswith(".html"))
    name = next(pages, "run.json")
    return printable(name if not folder or name.startswith("/") else f"{folder.rstrip('/')}/{name}")


def _workflow(run: Mapping[str, Any]) -> Mapping[str, Any]:
    workflow = run.get("workflow")
    return workflow if isinstance(workflow, Mapping) else {}
