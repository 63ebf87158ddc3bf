"""The bundled run: 84 KB of dumps, so that nearly all of its time is the start of a program and its reports."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import ROOT, WORKFLOW, Row, Settings, one, probe_flow, usage_rows
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
    return [*rows, Row("bundled", "modules of ours", "count", one(_our_modules(settings.scratch)), "<= 180")]


def _our_modules(scratch: Path) -> int:
    """Run it in a fresh interpreter and count the modules of ours that it has loaded at its end."""
    found, output = scratch / "modules.txt", scratch / "modules_run"
    script = (
        "import atexit, pathlib, sys\n"
        f"atexit.register(lambda: pathlib.Path({str(found)!r}).write_text("
        "str(sum(name.partition('.')[0] == 'probe_flow' for name in sys.modules))))\n"
        f"sys.argv = ['probe-flow', 'run', {WORKFLOW!r}, '--output', {str(output)!r}]\n"
        "from probe_flow.cli.main import main\n"
        "sys.exit(main())\n"
    )
    shutil.rmtree(output, ignore_errors=True)
    run_command([sys.executable, "-c", script], cwd=ROOT, accepted=(FAILED_GATE,))
    return int(found.read_text(encoding="utf-8"))
