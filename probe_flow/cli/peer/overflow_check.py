"""`probe-flow overflow_check`: where NaN and infinity begin in one dump, in the syntax of the tool it replaces."""

from __future__ import annotations

import os
from pathlib import Path

import click
from msgspec.structs import replace

from probe_flow.cli.options import execution_options
from probe_flow.cli.peer.peer_syntax import FRAMEWORKS, PeerCommand

WORKFLOW = "overflow_check"
"""The packaged workflow that the command line stands for."""


@click.command("overflow_check", cls=PeerCommand, frameworks=FRAMEWORKS)
@click.option(
    "-i",
    "--input_path",
    required=True,
    metavar="PATH",
    help="The dump: a step folder with its ranks, one of them, a dump.json, or a dump of any other kind.",
)
@click.option(
    "-o",
    "--output_path",
    "--output",
    default="./output",
    show_default=True,
    metavar="DIR",
    help="Folder of the result.",
)
@execution_options
def command(*, input_path: str, output_path: str, scheduler: str | None, workers: int | None) -> int:
    """Find the first operator that makes NaN or infinity, and tell it from those that receive it.

    Dumps of tensors or statistics, of PyTorch, MindSpore and every other kind that is known. Ranks are ordered by the
    layers of their communications. Where there is such an operator, anomaly_analyze_*.json in the output folder names
    it, with its data, the modules around it and its call stack. Every call has a level: `critical` if it makes NaN or
    infinity out of finite values, `high` if it passes them on or its result is 100 times as large as its input,
    `medium` if what it makes of them is finite. The record of the run, and its report, are in `probe_flow` below the
    output folder.

    Exit code: 0 all is finite, or infinite on purpose as masks are; 1 NaN or infinity begins somewhere; 2 a mistake in
    the command; 3 a part of the dump could not be examined; 130 interrupted.
    """
    from probe_flow.api.running import How
    from probe_flow.cli.peer.compare import RUN_FOLDER, check_paths
    from probe_flow.cli.peer.compare_workflow import with_options
    from probe_flow.cli.terminal.running import show_run
    from probe_flow.engine.run.plan import make_plan
    from probe_flow.workflow.loading.loader import load_workflow
    from probe_flow.workflow.templates.packaged import templates

    cwd = Path.cwd()
    dump, output = cwd / input_path, cwd / output_path
    check_paths({"--input_path": dump})
    workflow = load_workflow(templates()[WORKFLOW], sets={"dump": str(dump)}, env=os.environ, cwd=cwd)
    stages = tuple(
        with_options(stage, output=str(output)) if stage.name == "anomalies" else stage for stage in workflow.stages
    )
    plan = make_plan(replace(workflow, stages=stages), scheduler=scheduler, workers=workers)
    return show_run(plan, output=output / RUN_FOLDER, cwd=cwd, how=How())
