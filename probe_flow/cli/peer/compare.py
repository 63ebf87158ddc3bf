"""`probe-flow compare`: compare two dumps, in the syntax of the tool that probe_flow replaces."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from probe_flow.cli.elsewhere import Lack
from probe_flow.cli.options import execution_options, verdict_options, with_min_coverage
from probe_flow.cli.peer.compare_workflow import FLAGS, NO_FILE, RULE_FLAGS, Wanted
from probe_flow.cli.peer.peer_syntax import FRAMEWORKS, PeerCommand
from probe_flow.errors import Diagnostic, UsageError

_PART = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?", re.ASCII)
_MAX_NUMBER = 1_000_000


class Numbers(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on only
    """A list of numbers and ranges, each number once."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers in the order in which they were written."""
        if isinstance(value, tuple):
            return value
        found: dict[int, None] = {}
        for part in str(value).split(","):
            match = _PART.fullmatch(part.strip())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if first > last or last > _MAX_NUMBER:
                self.fail(f"{value!r} is no list of numbers such as 0, 0,2 or 4-6", param, ctx)
            found.update(dict.fromkeys(range(first, last + 1)))
        return tuple(found)


RUN_FOLDER = "probe_flow"
"""Folder below a named output folder for everything but the result tables."""

_LOG = Lack("one log line per tensor", "leave it out: `comparison.jsonl` of the run holds one record of each")
_CONSISTENCY = Lack(
    "consistency of training and inference",
    "compare the two dumps as they are; `-lm FILE` pairs modules of other names",
)
_STACKS = Lack("call stacks", "leave it out: tables and reports have them wherever the dump does")
_FIGURES = Lack(
    "a table without judgement", "leave it out: `comparison.jsonl` of the run has the figures by themselves"
)
_FILE = Lack(
    "both paths in a file, as msprobe 1.2 has them", "name them: `-tp` is its `npu_path`, `-gp` its `bench_path`"
)
_LATER: Mapping[str, Lack] = MappingProxyType(
    {
        "-i": _FILE,
        "--input_path": _FILE,
        "-s": _STACKS,
        "--stack_mode": _STACKS,
        "-c": _FIGURES,
        "--compare_only": _FIGURES,
        "-tensor_log": _LOG,
        "--is_print_compare_log": _LOG,
        "--consistent_check": _CONSISTENCY,
        "--backend": _CONSISTENCY,
        "--config": Lack(
            "processing of tensors before they are compared", "write a workflow with `convert.*` or `reduce.*` stages"
        ),
    }
)


@click.command("compare", cls=PeerCommand, frameworks=FRAMEWORKS, later=_LATER)
@click.option("-tp", "--target_path", required=True, metavar="PATH", help="Dump under test, or its dump.json.")
@click.option("-gp", "--golden_path", required=True, metavar="PATH", help="Dump to judge it by, or its dump.json.")
@click.option(
    "-o",
    "--output_path",
    "--output",
    metavar="DIR",
    help="Folder of the result tables. Default: the working directory, where each record gets a folder of its own.",
)
@click.option(
    "-m",
    "--mode",
    default="auto",
    show_default=True,
    metavar="MODE",
    help="`torchair`, `offline_data`, `offline_model`, or `auto`: from what the paths hold.",
)
@click.option("--xlsx", is_flag=True, help="Write coloured workbooks in place of CSV files.")
@click.option("-fm", "--fuzzy_match", is_flag=True, help="Also pair calls whose numbers differ.")
@click.option(
    "-cm",
    "--cell_mapping",
    is_flag=False,
    flag_value=NO_FILE,
    metavar="[FILE]",
    help="Pair cells with modules, by a file of class or path names.",
)
@click.option(
    "-am",
    "--api_mapping",
    is_flag=False,
    flag_value=NO_FILE,
    metavar="[FILE]",
    help="Pair APIs of MindSpore with those of PyTorch, by the built-in table and a file.",
)
@click.option("-dm", "--data_mapping", metavar="FILE", help="Pair what the file lists, item by item.")
@click.option(
    "-lm",
    "--layer_mapping",
    is_flag=False,
    flag_value=NO_FILE,
    metavar="[FILE]",
    help="Pair by the tree of layers, by a file of layers whose names differ.",
)
@click.option(
    "-fr", "--fusion_rule_file", metavar="FILE", help="Offline models: fusion rules, ATC's JSON or the .om itself."
)
@click.option(
    "-cfr",
    "--close_fusion_rule_file",
    metavar="FILE",
    help="Offline models: rules of a golden OM built without fusion.",
)
@click.option(
    "-qfr", "--quant_fusion_rule_file", metavar="FILE", help="Offline models: rules of the quantisation tool."
)
@click.option(
    "-overflow_detection", "--overflow_detection", is_flag=True, help="Offline models: also show which overflow."
)
@click.option("--input_data", metavar="FILES", help="-m offline_model: inputs of the model, commas between the files.")
@click.option("--input_shape", metavar="SHAPES", help="-m offline_model: sizes left open, e.g. x:1,3,224,224;y:1,5.")
@click.option("--dym_shape_range", metavar="SHAPES", help="-m offline_model: each of several sizes, 200~224~8 or 1-4.")
@click.option("--output_size", metavar="SIZES", help="-m offline_model: bytes of the outputs of an .om.")
@click.option(
    "-ofs",
    "--onnx_fusion_switch",
    type=click.Choice(["True", "False"], case_sensitive=False),
    help="-m offline_model: whether the graph of the model is optimised first; default False.",
)
@click.option("-da", "--diff_analyze", is_flag=True, help="Also write the first difference of every rank.")
@click.option("--rank", type=Numbers(), metavar="R[,R]", help="Compare only these ranks, e.g. 0 or 0,2 or 4-6.")
@click.option("--step", type=Numbers(), metavar="N[,N]", help="Compare only these steps, e.g. 0 or 0,2 or 4-6.")
@execution_options
@verdict_options
@click.pass_context
def command(
    context: click.Context,
    *,
    target_path: str,
    golden_path: str,
    output_path: str | None,
    mode: str,
    input_data: str | None,
    input_shape: str | None,
    dym_shape_range: str | None,
    output_size: str | None,
    onnx_fusion_switch: str | None,
    xlsx: bool,
    fuzzy_match: bool,
    cell_mapping: str | None,
    api_mapping: str | None,
    data_mapping: str | None,
    layer_mapping: str | None,
    fusion_rule_file: str | None,
    close_fusion_rule_file: str | None,
    quant_fusion_rule_file: str | None,
    overflow_detection: bool,
    diff_analyze: bool,
    rank: tuple[int, ...] | None,
    step: tuple[int, ...] | None,
    scheduler: str | None,
    workers: int | None,
    min_coverage: float | None,
    strict: tuple[str, ...],
) -> int:
    """Compare two dumps and write the result tables into the output folder.

    Two dumps described by dump.json files, of PyTorch or MindSpore programs or one of each; a GE dump with an FX
    dump or with a GE dump made with fusion off (-m torchair: a golden side with a graph text is a GE dump); or the
    dump of an offline model with the outputs of its original model (-m offline_data), or with that model itself, which
    is run on the inputs that the dump recorded (-m offline_model; where CANN is, an .om may stand for its dump); or any
    two folders of `.npy` arrays of equal names. Other dumps are compared by `probe-flow start`, or a workflow file:
    `probe-flow templates` lists examples. The record of the run, and all other results, are written into `probe_flow`
    below the output folder, where they replace those of an earlier run; without an output folder into a new folder
    below `probe_flow_runs`.
    """
    from probe_flow.api.running import How
    from probe_flow.cli.peer.compare_sides import check_framework, choose_sides
    from probe_flow.cli.peer.compare_workflow import check_match, comparison_workflow
    from probe_flow.cli.peer.offline_model import OFFLINE_MODEL, ModelInputs, Running, check_not_fed, compare_model
    from probe_flow.cli.terminal.running import show_run
    from probe_flow.engine.run.plan import make_plan

    cwd = Path.cwd()
    paths = {"target": cwd / target_path, "golden": cwd / golden_path}
    mappings = {
        "cell_mapping": cell_mapping,
        "api_mapping": api_mapping,
        "data_mapping": data_mapping,
        "layer_mapping": layer_mapping,
    }
    match = {name: file for name, file in mappings.items() if file is not None}
    if fuzzy_match:
        match = {"fuzzy_match": NO_FILE, **match}
    given_rules = {
        "fusion_rule": fusion_rule_file,
        "close_fusion_rule": close_fusion_rule_file,
        "quant_fusion_rule": quant_fusion_rule_file,
    }
    rules = {name: file for name, file in given_rules.items() if file is not None}
    output = cwd / (output_path or ".")
    folder = output / RUN_FOLDER if output_path is not None else None
    named = {f"--{name}_path": path for name, path in paths.items()}
    flags = {**FLAGS, **RULE_FLAGS}
    check_paths({**named, **{flags[name]: cwd / file for name, file in {**match, **rules}.items() if file}})
    wanted = Wanted(
        output,
        match,
        rules,
        ranks=rank,
        steps=step,
        is_xlsx=xlsx,
        finds_first=diff_analyze,
        shows_overflow=overflow_detection,
    )
    fed = ModelInputs(input_data, input_shape, dym_shape_range, output_size, onnx_fusion_switch)
    with_checks = partial(with_min_coverage, share=min_coverage)
    if mode == OFFLINE_MODEL:
        return compare_model(paths, fed, wanted, with_checks, Running(cwd, folder, scheduler, workers, strict))
    check_not_fed(fed)
    sides = choose_sides(mode, paths["target"], paths["golden"])
    check_framework(context.find_root().params.get("framework"), sides)
    check_match(wanted, sides)
    workflow = with_min_coverage(comparison_workflow(sides, paths, cwd=cwd, wanted=wanted), min_coverage)
    plan = make_plan(workflow, scheduler=scheduler, workers=workers)
    return show_run(plan, output=folder, cwd=cwd, how=How(strict=strict, output_option="-o"))


def check_paths(named: Mapping[str, Path]) -> None:
    """Refuse paths that cannot be read, by the options that name them.

    Raises:
        UsageError: PF2101 or PF2102 for each.
    """
    from probe_flow.files.existing import exists, is_readable, why_missing

    problems = []
    for name, path in named.items():
        if not exists(path):
            what, cure = why_missing(path)
            problems.append(Diagnostic("PF2101", f"`{name}`: `{path}` {what}", path=str(path), help=cure))
        elif not is_readable(path):
            message = f"`{name}`: `{path}` cannot be read: permission denied"
            cure = "give yourself the right to read it, or name another path"
            problems.append(Diagnostic("PF2102", message, path=str(path), help=cure))
    if problems:
        raise UsageError(problems)
