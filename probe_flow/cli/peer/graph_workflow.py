"""The packaged workflow that `graph` and `graph_visualize` stand for: one dump as a graph, or two compared."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from probe_flow.api.scenario import ACROSS, MINDSPORE_DUMPS, PYTORCH_DUMPS, packaged_for
from probe_flow.cli.elsewhere import Lack
from probe_flow.cli.peer.compare import RUN_FOLDER
from probe_flow.cli.peer.compare_sides import Sides, check_framework, choose_sides
from probe_flow.cli.peer.compare_workflow import NO_FILE, check_match, matched, replaced, with_options
from probe_flow.cli.peer.compare_workflow import Wanted as WantedPairs
from probe_flow.dumps.dump_json.head import read_head
from probe_flow.errors import Diagnostic, UsageError

if TYPE_CHECKING:
    from probe_flow.workflow.model import ResolvedStage, Workflow

Command = TypeVar("Command", bound=Callable[..., object])

BUILD, EXAMINED = "build_graph", "overflow_check"
"""Packaged workflows of one dump: that shows it, and that examines it first."""

_GRAPHS: Mapping[str, str] = MappingProxyType(
    {PYTORCH_DUMPS: "pytorch_graph", MINDSPORE_DUMPS: "mindspore_graph", ACROSS: "mindspore_vs_pytorch_graph"}
)
"""Packaged workflow of a comparison -> the one that shows it as graphs."""

_MERGE = Lack(
    "merging the ranks of one model before they are compared",
    "leave it out: each rank is compared with its counterpart",
)
_LOG = Lack("one log line per tensor", "leave it out: `comparison.jsonl` of the run holds one record of each")
_PROGRESS = Lack("progress as log lines", "leave it out: progress is shown on stderr")
LATER: Mapping[str, Lack] = MappingProxyType(
    {
        "-tensor_log": _LOG,
        "--is_print_compare_log": _LOG,
        "-progress_log": _PROGRESS,
        "--is_print_progress_log": _PROGRESS,
        "--rank_size": _MERGE,
        "--tp": _MERGE,
        "--pp": _MERGE,
        "--vpp": _MERGE,
        "--order": _MERGE,
        "--file_type": _MERGE,
    }
)
"""Options that msprobe has and this version does not."""

_KINDS = {1: "one rank", 2: "a folder of ranks", 3: "a folder of steps", 4: "a folder of `graph` and `pynative`"}


class Wanted(Struct, frozen=True):
    """What a command line asks for.

    Args:
        format: of the files.
        output: folder of the files.
        layout: of the graphs.
        match: how two dumps are paired, as `WantedPairs.match`.
        has_levels, has_all_frames: what nodes show beside.
        scheduler, workers, min_coverage, strict: how it runs, and what makes it incomplete.
    """

    format: Literal["vis", "vis_db"]
    output: Path
    layout: str
    match: Mapping[str, str]
    has_levels: bool
    has_all_frames: bool
    scheduler: str | None
    workers: int | None
    min_coverage: float | None
    strict: tuple[str, ...]


def graph_options(command: Command) -> Command:
    """Add the options that both commands have."""
    for option in (
        click.option(
            "--layout",
            type=click.Choice(["own", "msprobe"]),
            default="own",
            show_default=True,
            help="`msprobe`: nodes, matches, scores and colours by its rules, what is wrong in them included.",
        ),
        click.option(
            "-oc", "--overflow_check", is_flag=True, help="Also show where values overflow: medium, high or critical."
        ),
        click.option(
            "-lm",
            "--layer_mapping",
            is_flag=False,
            flag_value=NO_FILE,
            metavar="[FILE]",
            help="Pair by the tree of layers, by a file of layers whose names differ.",
        ),
        click.option("-o", "--output_path", "--output", required=True, metavar="DIR", help="Folder of the graphs."),
    ):
        command = option(command)
    return command


def pairing(*, layer_mapping: str | None, fuzzy_match: bool) -> dict[str, str]:
    """Return how two dumps are paired, by the names of `compare`."""
    if layer_mapping is not None and fuzzy_match:
        raise click.UsageError("a layer mapping and fuzzy matching are two ways to pair nodes; leave one of them out")
    if layer_mapping is not None:
        return {"layer_mapping": layer_mapping}
    return {"fuzzy_match": NO_FILE} if fuzzy_match else {}


def show_graphs(context: click.Context, paths: Mapping[str, Path], wanted: Wanted) -> int:
    """Run the workflow and return its exit code.

    Args:
        context: of the command.
        paths: `target`, and `golden` where two dumps are compared.
        wanted: everything else.
    """
    from probe_flow.api.running import How
    from probe_flow.cli.options import with_min_coverage
    from probe_flow.cli.terminal.running import show_run
    from probe_flow.engine.run.plan import make_plan

    cwd = Path.cwd()
    framework = context.find_root().params.get("framework")
    workflow = (_compared if "golden" in paths else _built)(paths, framework, wanted, cwd)
    plan = make_plan(
        with_min_coverage(workflow, wanted.min_coverage), scheduler=wanted.scheduler, workers=wanted.workers
    )
    with suppress(OSError):  # whoever writes into it says why not
        wanted.output.mkdir(mode=0o750, parents=True, exist_ok=True)  # others may not write, or the viewer refuses it
    return show_run(plan, output=wanted.output / RUN_FOLDER, cwd=cwd, how=How(strict=wanted.strict))


def _built(paths: Mapping[str, Path], framework: str | None, wanted: Wanted, cwd: Path) -> Workflow:
    if wanted.match:
        raise click.UsageError("`-lm` and fuzzy matching pair two dumps, and there is no golden one")
    head = read_head(paths["target"])
    if head is not None and head.framework is not None:
        check_framework(framework, Sides("dump_json", head.framework))
    return _adapted(EXAMINED if wanted.has_levels else BUILD, {"dump": str(paths["target"])}, {}, wanted, cwd)


def _compared(paths: Mapping[str, Path], framework: str | None, wanted: Wanted, cwd: Path) -> Workflow:
    _check_kinds(paths)
    sides = choose_sides("auto", paths["target"], paths["golden"])
    check_framework(framework, sides)
    match = wanted.match
    check_match(WantedPairs(wanted.output, match), sides)
    template = packaged_for(*sides.frameworks) or MINDSPORE_DUMPS  # a name that is no framework: the tensors tell
    if template == ACROSS and not match:
        match = {"layer_mapping": NO_FILE}  # names of two frameworks hardly ever agree
    sets = {name: str(path) for name, path in paths.items()}
    unused = {"mapping": sets["target"]} if template == ACROSS else {}
    return _adapted(_GRAPHS[template], {**unused, **sets}, match, wanted, cwd)


def _check_kinds(paths: Mapping[str, Path]) -> None:
    """Refuse two paths of which one is a rank and the other a folder of them.

    Raises:
        UsageError: PF2132.
    """
    heads = {name: read_head(path) for name, path in paths.items()}
    depths = {name: len(head.file.relative_to(paths[name]).parts) for name, head in heads.items() if head is not None}
    if 0 not in depths.values() and len(set(depths.values())) > 1:  # `choose_sides` tells files from folders
        words = [f"the {name} is {_KINDS[depth]}, `{paths[name]}`" for name, depth in depths.items()]
        raise UsageError(
            Diagnostic(
                "PF2132",
                f"the two sides are of different kinds: {' and '.join(words)}",
                help="name two folders of ranks, two folders of steps, or one rank of each side",
            )
        )


def _adapted(template: str, sets: Mapping[str, str], match: Mapping[str, str], wanted: Wanted, cwd: Path) -> Workflow:
    """Return a packaged workflow as the command line wants it."""
    from probe_flow.stages.base import Kind
    from probe_flow.workflow.loading.loader import load_workflow
    from probe_flow.workflow.templates.packaged import templates

    workflow = load_workflow(templates()[template], sets=dict(sets), env=os.environ, cwd=cwd)
    options = _options(match, wanted, cwd)
    stages: list[ResolvedStage] = []
    for stage in workflow.stages:
        if stage.type.uses == "report.graph":
            stages.append(with_options(stage, **options))
        elif stage.type.produces is Kind.PAIRS:
            stages.append(matched(stage, match, cwd))
        elif stage.type.produces is not Kind.REPORT:
            stages.append(stage)
        elif stage.name == "report":  # the page has the graphs of what was examined
            stages.append(replaced(stage, "report.graph", {"comparison": "overflow", **options}))
    files = {name: str(cwd / file) for name, file in match.items() if file != NO_FILE}
    params = {name: value for name, value in sets.items() if name != "mapping"}
    return replace(workflow, stages=tuple(stages), params={**params, **files})


def _options(match: Mapping[str, str], wanted: Wanted, cwd: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        "formats": [wanted.format, "html"],
        "output": str(wanted.output),
        "layout": wanted.layout,
        "overflow": wanted.has_levels,
        "stacks": "complete" if wanted.has_all_frames else "lean",
    }
    if wanted.layout == "msprobe" and match:
        found["match"] = "fuzzy" if "fuzzy_match" in match else "layer_mapping"
        if file := match.get("layer_mapping"):
            found["mapping"] = str(cwd / file)
    return found
