"""Everything that runs in workers goes through one protocol, and says what a lost batch becomes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import probe_flow

PACKAGE = Path(probe_flow.__file__).parent
KINDS = {
    "check_batch", "convert_batch", "look_at", "measure_batch", "parse_batch", "reduce_batch", "round_batch",
    "worst_channel", "here", "apart",
}  # fmt: skip
"""The functions that run in workers; the last two are those of any `recompute.Work`."""


def calls() -> Iterator[ast.Call]:
    """Yield the calls of a `TaskMap`: those with `sizes`."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and {"sizes"} <= {word.arg for word in node.keywords} and len(node.args) == 2:
                yield node


def test_each_kind_of_job_says_what_a_lost_batch_becomes() -> None:
    found = {}
    for call in calls():
        function = call.args[0]
        assert isinstance(function, ast.Name)
        found[function.id] = {word.arg for word in call.keywords}
    assert {kind: words - {"serial_bytes"} for kind, words in found.items()} == {
        kind: {"sizes", "lost"} for kind in KINDS
    }


def test_only_what_runs_batches_models_torch_and_scripts_starts_processes() -> None:
    starting = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "subprocess.Popen(" in path.read_text(encoding="utf-8")
    }
    assert starting == {
        "dumpers/base/process.py",
        "engine/schedulers/processes.py",
        "precheck/far_torch.py",
        "scripts/trials/trial.py",
    }
