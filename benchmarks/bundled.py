"""The bundled run: 84 KB of dumps, so that nearly all of its time is the start of a program and its reports."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from benchmarks.figures import ROOT, WORKFLOW, Row, Settings, loaded_modules, one, probe_flow, usage_rows
from benchmarks.timing import Usage, interleave, run_command

FAILED_GATE = 1
WITH, WITHOUT = "probe-flow", "probe-flow, no byte code kept"


def bundled(settings: Settings) -> list[Row]:
    """Compare the bundled dumps: the whole command, with and without kept byte code of our modules."""

    def run(variables: Mapping[str, str]) -> Usage:
        cache = {"PROBE_FLOW_CACHE": str(settings.folder("bundled_cache"))}
        output = settings.folder("bundled_output") / "run"
        command = [*probe_flow(), "run", WORKFLOW, "--output", str(output)]
        return run_command(command, cwd=ROOT, variables={**cache, **variables}, accepted=(FAILED_GATE,))

    source = settings.folder("source")
    shutil.copytree(ROOT / "probe_flow", source / "probe_flow", ignore=shutil.ignore_patterns("__pycache__"))
    uncompiled = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    found = interleave({WITH: lambda: run({}), WITHOUT: lambda: run(uncompiled)}, settings.runs)
    rows = [row for name, usages in found.items() for row in usage_rows("bundled", name, usages)]
    words = ["run", WORKFLOW, "--output", str(settings.folder("bundled_output") / "run")]
    loaded = loaded_modules(words, settings.scratch, accepted=(FAILED_GATE,))
    ours = sum(name.partition(".")[0] == "probe_flow" for name in loaded)
    return [*rows, Row("bundled", "modules of ours", "count", one(ours), "<= 180")]
