"""What both summaries say: the rows of a place, the next step, what an exit code means."""

from __future__ import annotations

import shlex

from probe_flow.exit_codes import EXIT_GATE_FAILED, EXIT_INCOMPLETE
from probe_flow.record.places import figure, in_dump, operator, printable, readable, sentence_place, slot, where
from probe_flow.record.same_places import SamePlace
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.run import RunRecord
from probe_flow.reports.phrases import FIGURES_FIRST

MAX_FIGURES = 4

_STYLES = {"PASS": "bold green", "FAIL": "bold red", "DONE": "bold"}
_UNFINISHED_STYLE = "bold yellow"

_EXIT_CODES = {
    1: "Exit code 1: the run came to its end, and what it found fails its gate.",
    2: "Exit code 2: the command, the workflow or a mapping file is wrong.",
    3: "Exit code 3: something that was asked for was not {done}, so a pass or a fail would not be safe to state.",
    **{
        code: f"Exit code {code}: interrupted by {name}; run the same command with {{resume}} to go on."
        for code, name in ((129, "SIGHUP"), (130, "SIGINT"), (143, "SIGTERM"))
    },
}


def style_of(word: str) -> str:
    """Return the style of a verdict's word."""
    return _STYLES.get(word, _UNFINISHED_STYLE)


def exit_code_text(run: RunRecord, resume: str) -> str:
    """Return what the exit code of a run means; empty where that is plain."""
    return _EXIT_CODES.get(run.exit_code, "").format(done=run.done, resume=resume)


def tensors_text(count: int) -> str:
    """Return ``1 tensor`` or ``7 tensors``."""
    return f"{count} tensor{'' if count == 1 else 's'}"


def place_rows(place: FindingRecord, also: str) -> list[tuple[str, str]]:
    """Return what is known of a finding, a label and a text each; texts may be empty."""
    return [
        ("operator", operator(place)),
        ("in the dump", in_dump(place)),
        ("tensor", slot(place)),
        ("where", where(place)),
        ("also in", also),
        ("golden", readable(place.golden_node or "")),
        ("called at", printable(place.source or "")),
        ("evidence", readable(place.evidence)),
        ("figures", figures_text(place)),
        ("compared by", printable(place.comparison or "")),
    ]


def figures_text(place: FindingRecord) -> str:
    """Return the metrics of a finding that say most, ``cosine 0.9975, max_abs_err 0.093``."""
    metrics = {name: value for name, value in place.metrics.items() if value is not None}
    names = dict.fromkeys((*(name for name in FIGURES_FIRST if name in metrics), *metrics))
    return ", ".join(f"{printable(name)} {figure(metrics[name])}" for name in list(names)[:MAX_FIGURES])


def one_line(found: SamePlace) -> str:
    """Return a finding as one sentence, with the other executions in which it was made."""
    place = found.first
    also = f"; also in {found.elsewhere}" if found.others else ""
    return f"{sentence_place(place)}: {readable(place.evidence)}{also}"


def next_step(run: RunRecord, folder: str) -> tuple[str, str]:
    """Return what to do now, and the command that helps with it (either may be empty)."""
    code = run.exit_code
    first = run.first or run.nonfinite or run.failure
    if code == EXIT_INCOMPLETE:
        return "remove the causes listed above and run the same command again.", ""
    show = f"probe-flow show {shlex.quote(folder or '.')}"
    if code == EXIT_GATE_FAILED and first is not None and first.node is not None:
        execution = {"rank": first.rank, "graph": first.graph, "step": first.step}
        at = [f" --{name} {shlex.quote(str(value))}" for name, value in execution.items() if value is not None]
        command = f"{show} --node {shlex.quote(first.name or first.node)}{''.join(at)}"
        return f"look at the inputs and outputs of {operator(first)}:", command
    return ("look at the rows that fail:", f"{show} --verdict fail") if code == EXIT_GATE_FAILED else ("", "")
