"""The record of a run as one comparison would leave it, for reports that are written before the run has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from probe_flow.records import Comparison
from probe_flow.reports.run_json import comparison_summary

_EXIT_CODES = {"pass": 0, "fail": 1, "incomplete": 3}


def concluded(comparison: Comparison, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a run with what this comparison concludes, in the words of run.json.

    Args:
        comparison: it decides verdict and exit code; what it does not know of (a later stage that fails) can only
            make them worse.
        run: facts of run.json so far.
    """
    verdict = "incomplete" if comparison.incomplete else "pass" if comparison.gate_passed else "fail"
    return {
        **run,
        **comparison_summary(comparison),
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
    workflow = run.get("workflow")
    return str(workflow.get("name") or "") if isinstance(workflow, Mapping) else ""
