"""`probe-flow compare`: compare two dumps, in the syntax of the tool that probe_flow replaces."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from probe_flow.cli.peer_syntax import PeerCommand
from probe_flow.cli.plan_options import execution_options
from probe_flow.errors import Diagnostic, UsageError, did_you_mean

if TYPE_CHECKING:
    from probe_flow.workflow.resolved import ResolvedStage, Workflow

RUN_FOLDER = "probe_flow"
"""Folder below the output folder for everything but the result table."""

WORKFLOWS: Mapping[str, str] = MappingProxyType({"torchair": "torchair_ge_vs_fx", "dump_json": "pytorch_compare"})

GE_GRAPH = "dynamo_original_graph_*.txt"
DUMP_JSON = "dump.json"

_MODES = ("auto", "torchair")
_LATER_MODES = ("offline_data", "offline_model", "atb")

_LATER: Mapping[str, str] = MappingProxyType(
    {
        "-fm": "fuzzy match",
        "--fuzzy_match": "fuzzy match",
        "-cm": "cell mapping",
        "--cell_mapping": "cell mapping",
        "-am": "API mapping",
        "--api_mapping": "API mapping",
        "-dm": "data mapping",
        "--data_mapping": "data mapping",
        "-lm": "layer mapping",
        "--layer_mapping": "layer mapping",
        "-da": "analysis of differences between ranks",
        "--diff_analyze": "analysis of differences between ranks",
        "-tensor_log": "one log line per tensor",
        "--is_print_compare_log": "one log line per tensor",
        "--xlsx": "a spreadsheet in place of the CSV",
        "--consistent_check": "consistency of training and inference",
        "--backend": "consistency of training and inference",
        "--config": "processing of tensors before they are compared",
        "--step": "selection of steps",
    }
)


@click.command("compare", cls=PeerCommand, later=_LATER)
@click.option("-tp", "--target_path", required=True, metavar="PATH", help="Dump under test, or its dump.json.")
@click.option("-gp", "--golden_path", required=True, metavar="PATH", help="Dump to judge it by, or its dump.json.")
@click.option("-o", "--output_path", default=".", show_default=True, metavar="DIR", help="Folder of the result table.")
@click.option(
    "-m",
    "--mode",
    default="auto",
    show_default=True,
    metavar="MODE",
    help="`torchair`, or `auto`: from what the paths hold.",
)
@click.option("--rank", type=click.IntRange(min=0), metavar="R", help="Compare only this rank.")
@execution_options
@click.pass_context
def command(
    context: click.Context,
    *,
    target_path: str,
    golden_path: str,
    output_path: str,
    mode: str,
    rank: int | None,
    scheduler: str | None,
    workers: int | None,
) -> int:
    """Compare two dumps and write the result table into the output folder.

    A GE dump with an FX dump (-m torchair), or two dumps described by dump.json files. The record of the run, and all
    other results, are written into `probe_flow` below the output folder. For anything else write a workflow file:
    `probe-flow templates` lists examples.
    """
    from probe_flow.cli.running import run_plan
    from probe_flow.engine.plan import make_plan

    cwd = Path.cwd()
    paths = {"target": cwd / target_path, "golden": cwd / golden_path}
    _check_paths(paths)
    scenario = choose_scenario(mode, paths["target"], paths["golden"])
    _check_framework(context.find_root().params.get("framework"))
    output = cwd / output_path
    workflow = packaged_comparison(scenario, paths, cwd=cwd, output=output, rank=rank)
    plan = make_plan(workflow, scheduler=scheduler, workers=workers)
    return run_plan(plan, output=output / RUN_FOLDER, cwd=cwd, as_json=False, quiet=False)


def choose_scenario(mode: str, target: Path, golden: Path) -> str:
    """Return the key of `WORKFLOWS` that fits the mode and what the paths hold.

    Raises:
        UsageError: PF2120 for a mode that this version does not have, PF2121 for a GE dump as the golden side of a
            TorchAir comparison, PF2122 when the two sides do not go together.
    """
    from probe_flow.engine.paths import holds

    if mode not in _MODES:
        raise UsageError(_unknown_mode(mode))
    if mode == "auto":
        described = [holds(path, DUMP_JSON) for path in (target, golden)]
        if all(described):
            return "dump_json"
        if any(described) or not holds(target, GE_GRAPH):
            raise UsageError(_different_kinds(target, golden, described))
    if holds(golden, GE_GRAPH):
        raise UsageError(
            Diagnostic(
                "PF2121",
                f"`{golden}` is a GE dump: comparing two GE dumps (fusion on and off) is not part of this version",
                help="name the FX dump (`msprobe_fx_dump` or `data_dump`) with `-gp`",
                path=str(golden),
            )
        )
    return "torchair"


def packaged_comparison(
    scenario: str, paths: Mapping[str, Path], *, cwd: Path, output: Path, rank: int | None
) -> Workflow:
    """Return the packaged workflow of a scenario with its dumps, its rank and the folder of its table set."""
    from probe_flow.workflow.loader import load_workflow
    from probe_flow.workflow.templates import templates

    sets = {name: str(path) for name, path in paths.items()}
    workflow = load_workflow(templates()[WORKFLOWS[scenario]], sets=sets, env=os.environ, cwd=cwd)
    return replace(workflow, stages=tuple(each for stage in workflow.stages for each in _adapted(stage, output, rank)))


def _adapted(stage: ResolvedStage, output: Path, rank: int | None) -> Iterator[ResolvedStage]:
    """Yield a stage as the peer's command has it: tables go to the output folder, a dump is narrowed to the rank."""
    from probe_flow.stages.base import Kind

    values = stage.options.model_dump(by_alias=True)
    validate = stage.type.options.model_validate
    if stage.type.produces is Kind.REPORT:
        tables = [entry for entry in values["formats"] if isinstance(entry, dict)]
        others = [entry for entry in values["formats"] if not isinstance(entry, dict)]
        yield replace(stage, options=validate({**values, "formats": tables, "output": str(output)}))
        # The run's own folder gets the other formats.
        yield replace(stage, name=f"{stage.name}_files", options=validate({**values, "formats": others}))
    elif stage.type.produces is Kind.CATALOG and rank is not None:
        yield replace(stage, options=validate({**values, "select": {**values["select"], "ranks": [rank]}}))
    else:
        yield stage


def _check_paths(paths: Mapping[str, Path]) -> None:
    from probe_flow.engine.paths import exists

    problems = [
        Diagnostic(
            "PF2101",
            f"`--{name}_path`: `{path}` does not exist",
            path=str(path),
            help="paths start from the working directory",
        )
        for name, path in paths.items()
        if not exists(path)
    ]
    if problems:
        raise UsageError(problems)


def _check_framework(framework: str | None) -> None:
    if framework in (None, "pytorch"):
        return
    raise UsageError(
        Diagnostic(
            "PF2120",
            f"`-f {framework}` is not part of this version of probe_flow",
            help="this version compares dumps of PyTorch programs; leave `-f` out",
        )
    )


def _unknown_mode(mode: str) -> Diagnostic:
    if mode in _LATER_MODES:
        return Diagnostic(
            "PF2120",
            f"`-m {mode}` is not part of this version of probe_flow",
            help="modes: " + ", ".join(f"`{name}`" for name in _MODES),
        )
    hint = did_you_mean(mode, (*_MODES, *_LATER_MODES)) or "modes: " + ", ".join(f"`{name}`" for name in _MODES)
    return Diagnostic("PF2120", f"unknown mode `{mode}`", help=hint)


def _different_kinds(target: Path, golden: Path, described: list[bool]) -> Diagnostic:
    found = [
        f"`{path}` " + ("holds" if has else "holds no") + f" `{DUMP_JSON}`"
        for path, has in zip((target, golden), described, strict=True)
    ]
    return Diagnostic(
        "PF2122",
        f"the two sides do not go together: {' and '.join(found)}",
        help="name two `dump.json` files or folders that hold one, or a GE and an FX dump with `-m torchair`",
    )
