"""`probe-flow acc_check`: check the APIs of a dump one by one, in the syntax of the tool it replaces."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from probe_flow.cli.peer.peer_syntax import FRAMEWORKS, PeerCommand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Command = TypeVar("Command", bound="Callable[..., object]")

WORKFLOWS = {"pytorch": "pytorch_precheck", "mindspore": "mindspore_precheck"}
"""The packaged workflows that the command line stands for, by what wrote the dump."""

MSPROBE = {"generator": "ms_seed42", "benchmark": "same", "max_abs_err_threshold": 1e-3}
"""What `--profile msprobe` sets."""


_EVERYWHERE = (
    click.option("--force-resume", is_flag=True, help="With -csv_path: continue whatever the tables are of."),
    click.option(
        "--timeout",
        type=click.IntRange(min=1),
        default=600,
        show_default=True,
        help="Seconds a call may take.",
    ),
    click.option("-j", "--jit_compile", is_flag=True, help="PyTorch on an NPU: compile each operator for its shape."),
    click.option(
        "-csv_path",
        "--result_csv_path",
        "csv_path",
        metavar="FILE",
        help="accuracy_checking_result_*.csv of a check that did not end: continue it.",
    ),
    click.option(
        "-o",
        "--out_path",
        "--output",
        "out_path",
        default="./",
        show_default=True,
        metavar="DIR",
        help="Folder of the tables.",
    ),
    click.option(
        "-api_info",
        "--api_info_file",
        "api_info",
        required=True,
        metavar="FILE",
        help="dump.json of level L1 or mix.",
    ),
)

_OF_ACCURACY = (
    click.option(
        "--judge",
        type=click.Choice(["acc_check", "standard"]),
        default="acc_check",
        show_default=True,
        help="MindSpore: `standard` judges by the precision standard of the API, not by cosine and absolute error.",
    ),
    click.option(
        "--profile",
        type=click.Choice(["acc_check", "msprobe"]),
        default="acc_check",
        show_default=True,
        help="`msprobe`: its inputs, its benchmark of the same precision, its limit of 1e-3, to set beside it.",
    ),
    click.option(
        "--standards",
        type=click.Choice(["per_api", "benchmark_only"]),
        default="per_api",
        show_default=True,
        help="PyTorch: which figures a result gets; `benchmark_only` is what msprobe 26.2.0 has.",
    ),
    click.option("-f", "--filter_api", is_flag=True, help="Check calls once that are alike but for their values."),
    click.option(
        "-config",
        "--config_path",
        "config_path",
        metavar="FILE",
        help="JSON file with `white_list` and `black_list`, names of APIs, and `error_data_path`, a folder.",
    ),
    click.option(
        "-save_error_data", "--save_error_data", is_flag=True, help="Save inputs and results of calls that fail."
    ),
)


def run_options(command: Command) -> Command:
    """Add the options of every command that runs the calls of a dump."""
    for option in _EVERYWHERE:
        command = option(command)
    return command


def check_options(command: Command) -> Command:
    """Add the options that `acc_check` and `multi_acc_check` have."""
    for option in _OF_ACCURACY:
        command = option(command)
    return run_options(command)


@click.command("acc_check", cls=PeerCommand, frameworks=FRAMEWORKS)
@check_options
def command(**given: Any) -> int:
    """Run every API call of a dump again, alone, and compare it with a benchmark in torch.

    MindSpore and PyTorch dumps: which of them, the dump says.

    A dump of statistics gives the ranges of inputs that are made; a dump of tensors gives inputs and results. Two
    tables are written into the output folder as calls finish: accuracy_checking_result_*.csv, a row a call, and
    accuracy_checking_details_*.csv, a row a result. A result of MindSpore passes if its cosine is above
    0.99 and its largest absolute error below 1e-4; results of PyTorch have a status and the figures of the precision
    standards. All other results of the run are in `probe_flow` below the output folder.

    Exit code: 0 all passed; 1 a call is wrong; 2 a mistake in the command; 3 a call could not be checked that had to
    be; 130 interrupted.
    """
    return check(devices=(0,), **given)


def check(*, devices: Sequence[int], save_error_data: bool, profile: str, config_path: str | None, **given: Any) -> int:
    """Check the accuracy of the calls of a dump as a command line wants it, and return the exit code."""
    own: dict[str, Any] = {"devices": list(devices), "save_error_data": save_error_data}
    if config_path:
        file = Path.cwd() / config_path
        _check_path("-config", file)
        own |= _config(file)
    if profile == "msprobe":
        if framework_of(Path.cwd() / given["api_info"]) == "pytorch":
            raise click.UsageError(
                "`--profile msprobe` is for dumps of MindSpore: msprobe draws the inputs of all calls of PyTorch from "
                "one sequence, which a check call by call does not have; `--standards benchmark_only` gives its figures"
            )
        own |= MSPROBE
    return run_calls(**given, **own)


def run_calls(
    *, api_info: str, out_path: str, csv_path: str | None, timeout: int, force_resume: bool, **own: Any
) -> int:
    """Run the packaged workflow of a pre-check, and return the exit code.

    Args:
        api_info, out_path, csv_path, timeout, force_resume: of the command line.
        own: further options of the stage `precheck`.
    """
    from msgspec.structs import replace

    from probe_flow.api.running import How
    from probe_flow.cli.peer.compare import RUN_FOLDER
    from probe_flow.cli.peer.compare_workflow import with_options
    from probe_flow.cli.terminal.running import show_run
    from probe_flow.engine.run.plan import make_plan
    from probe_flow.workflow.loading.loader import load_workflow
    from probe_flow.workflow.templates.packaged import templates

    cwd = Path.cwd()
    output = cwd / (out_path or ".")
    dump = cwd / api_info
    _check_path("-api_info", dump)
    if csv_path:
        own |= {"resume": str(cwd / csv_path), "force_resume": force_resume}
    own |= {"time_limit": timeout, "output": str((cwd / csv_path).parent if csv_path else output)}
    template = templates()[WORKFLOWS[framework_of(dump)]]
    workflow = load_workflow(template, sets={"api_info": str(dump)}, env=os.environ, cwd=cwd)
    stages = tuple(with_options(stage, **own) if stage.type.uses == "precheck" else stage for stage in workflow.stages)
    plan = make_plan(replace(workflow, stages=stages))
    how = How(resume_option="-csv_path FILE", output_option="-o")
    return show_run(plan, output=output / RUN_FOLDER, cwd=cwd, how=how)


def _check_path(option: str, path: Path) -> None:
    from probe_flow.cli.peer.compare import check_paths

    check_paths({option: path})


def _config(path: Path) -> dict[str, Any]:
    """Return the options that a configuration file sets.

    Raises:
        UsageError: PF6612 if it is no JSON object with lists of names, and the name of a folder.
    """
    import json

    from probe_flow.errors import Diagnostic, UsageError
    from probe_flow.files.opening import read_text

    try:
        found = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        found = error
    lists = {name: found.get(name, []) for name in ("white_list", "black_list")} if isinstance(found, dict) else {}
    folder = found.get("error_data_path", "") if isinstance(found, dict) else ""
    if (
        not lists
        or not isinstance(folder, str)
        or not all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in lists.values())
    ):
        why = f": {found}" if isinstance(found, Exception) else ""
        raise UsageError(
            Diagnostic(
                "PF6612",
                f"`{path.name}` is no JSON object with lists of names and a folder{why}",
                path=str(path),
                help='write {"white_list": ["linear"], "black_list": [], "error_data_path": "errors"}',
            )
        )
    return {**lists, **({"error_data": str(Path.cwd() / folder)} if folder else {})}


def framework_of(dump: Path) -> str:
    """Return what wrote a dump: PyTorch, or anything else, which the check itself tells apart."""
    from probe_flow.dumps.dump_json.head import read_head
    from probe_flow.records.frameworks import PYTORCH

    head = read_head(dump)
    return "pytorch" if head is not None and head.framework == PYTORCH else "mindspore"
