"""Verbs of precision_tool at the prompt, with its options, for people who have them in their fingers.

They answer from the run; what msprobe computed anew, the run holds already.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from probe_flow.api.dumps import asker_of
from probe_flow.cli.number import Number
from probe_flow.cli.options import DrawingFile
from probe_flow.cli.peer.peer_syntax import PeerCommand
from probe_flow.cli.shell.prompt import Prompt, pass_asker
from probe_flow.errors import Diagnostic, UsageError, WorkflowError
from probe_flow.exit_codes import EXIT_GATE_FAILED, EXIT_INCOMPLETE, EXIT_PASSED
from probe_flow.files.existing import exists, is_file
from probe_flow.runs.queries.asker import Asker, Reply

if TYPE_CHECKING:
    from probe_flow.record.types.run import RunRecord
    from probe_flow.records import TensorRef

COSINE = 0.98
OPERATORS = 3
"""Defaults of msprobe."""

OF_TRAINING = "tf_training"
"""Packaged workflow of a training step."""

_NAME_OPTION = click.option("-n", "named", metavar="NAME", help="The same as NAME.")


@click.command("ac", cls=PeerCommand)
@click.option("-c", "again", is_flag=True, help="Compare again first.")
@click.option("-l", "limit", type=click.IntRange(min=0), default=OPERATORS, show_default=True, help="Operators listed.")
@click.pass_obj
def _ac(prompt: Prompt, *, again: bool, limit: int) -> Any:
    """Show where the divergence begins, and operators whose cosine is at most 0.98."""
    asker = _compared_again(prompt, {}) if again else prompt.asker
    _print(asker.origin())
    click.echo("")
    try:
        _print(_low_cosine(asker, COSINE, limit))
    except UsageError as error:  # statistics have no cosine; the origin above holds all the same
        click.echo(error.diagnostic.message)
    return asker


@click.command("vcs", cls=PeerCommand)
@click.option("-f", "folder", type=click.Path(path_type=Path), help="Folder of another run.")
@click.option("-c", "cosine", type=Number(), default=COSINE, show_default=True, help="Greatest cosine that is listed.")
@click.option("-l", "limit", type=click.IntRange(min=0), default=OPERATORS, show_default=True, help="Operators listed.")
@pass_asker
def _vcs(asker: Asker, *, folder: Path | None, cosine: float, limit: int) -> None:
    """List operators whose cosine is at most a bound, in execution order."""
    _print(_low_cosine(asker if folder is None else asker_of(folder), cosine, limit))


@click.command("vc", cls=PeerCommand)
@click.option("-lt", "target", type=click.Path(path_type=Path), help="Dump of the target; default: that of the run.")
@click.option("-rt", "golden", type=click.Path(path_type=Path), help="Dump of the golden; default: that of the run.")
@click.option("-g", "graph", type=click.Path(path_type=Path), help="Graph, where the workflow has a parameter for it.")
@click.pass_obj
def _vc(prompt: Prompt, *, target: Path | None, golden: Path | None, graph: Path | None) -> Asker:
    """Compare again by the run's workflow, in a new folder, and ask that run from now on."""
    given = {"target": target, "golden": golden, "graph": graph}
    return _compared_again(prompt, {name: str(path) for name, path in given.items() if path is not None})


@click.command("ni", cls=PeerCommand)
@click.argument("name", required=False)
@_NAME_OPTION
@click.option("-g", "graph", help="Id of the graph.")
@click.option("-a", "attributes", is_flag=True, help="Every attribute.")
@click.option("-s", "depth", type=click.IntRange(0, 100), default=0, help="Neighbours up to so many steps away.")
@click.option("-o", "output", type=DrawingFile(), help="Draw them to this SVG file.")
@pass_asker
def _ni(
    asker: Asker,
    *,
    name: str | None,
    named: str | None,
    graph: str | None,
    attributes: bool,
    depth: int,
    output: Path | None,
) -> None:
    """Show all that is known of an operator."""
    from probe_flow.runs.draw.drawing import write_drawing
    from probe_flow.runs.queries.base import Scope

    depth = max(depth, 1) if output is not None else depth
    reply = asker.node(_one(name, named), depth=depth, has_attributes=attributes, scope=Scope(graph=graph))
    _print(reply)
    if output is not None and reply.graph is not None:
        click.echo(write_drawing(reply.graph, output))


@click.command("pt", cls=PeerCommand)
@click.argument("name", required=False)
@_NAME_OPTION
@click.pass_obj
def _pt(prompt: Prompt, *, name: str | None, named: str | None) -> None:
    """Show the values of a tensor of the run, or of a `.npy` file."""
    wanted = _one(name, named)
    if not is_file(wanted):
        _print(prompt.asker.tensor(wanted))
        return
    from probe_flow.reports.tensor_values import values_of
    from probe_flow.runs.queries.answers_tensor import file_lines

    for line in file_lines(wanted, values_of(_file_ref(Path(wanted)))):
        click.echo(line)


@click.command("cp", cls=PeerCommand)
@click.argument("names", nargs=-1)
@click.option("-n", "named", nargs=2, metavar="A B", help="The same as A B.")
@click.option("-p", "count", type=click.IntRange(min=0), default=20, show_default=True, help="Elements listed.")
@click.option("-al", "absolute", type=Number(), default=0.001, show_default=True, help="Absolute tolerance.")
@click.option("-rl", "relative", type=Number(), default=0.001, show_default=True, help="Relative tolerance.")
@click.option("-s", "save", is_flag=True, help="Also write the result to `cp_result.txt`.")
@click.pass_obj
def _cp(
    prompt: Prompt,
    *,
    names: tuple[str, ...],
    named: tuple[str, str] | None,
    count: int,
    absolute: float,
    relative: float,
    save: bool,
) -> None:
    """Compare two tensors element by element: names of the run or `.npy` files; the second is the golden one."""
    from probe_flow.runs.two_tensors import compare_two

    both = (*names, *(named or ()))
    if len(both) != 2:
        raise click.UsageError("`cp` takes two tensors")
    first, second = (_ref(prompt, name, prefers) for name, prefers in zip(both, ("target", "golden"), strict=True))
    found = compare_two(first, second, absolute=absolute, relative=relative, limit=count)
    lines = list(found.lines())
    for line in lines:
        click.echo(line)
    if save:
        from probe_flow.files.atomic import atomic_text

        with atomic_text(Path("cp_result.txt")) as file:
            file.write("\n".join(lines) + "\n")
        click.echo("wrote cp_result.txt")


@click.command("dc", cls=PeerCommand)
@click.argument("name", required=False)
@_NAME_OPTION
@click.option("-f", "layout", help="Layout to bring the tensors into, such as NCHW; default: as they are stored.")
@click.option("-o", "output", type=click.Path(path_type=Path), default=Path("dump_convert"), show_default=True)
@click.pass_obj
def _dc(prompt: Prompt, *, name: str | None, named: str | None, layout: str | None, output: Path) -> int:
    """Convert a device file, a folder of them, or the dump of an operator of the run to `.npy`."""
    wanted = _one(name, named)
    files = [wanted] if exists(Path(wanted)) else _target_files(prompt.asker, wanted)
    if not files:
        raise click.UsageError(f"`{wanted}` is no file, and no operator of the run whose dump is there")
    given = [word for file in files for word in ("-d", file)]
    return prompt.command_line(["parse", *given, "-t", "npy", "-o", str(output), *(["-f", layout] if layout else [])])


def _target_files(asker: Asker, name: str) -> list[str]:
    """Return the device files that hold tensors of a name."""
    sides = [side for view in asker.tensor_answer(name).views for side in view.sides if side.name == "target"]
    found = (side.ref.file or side.ref.source for side in sides if side.ref is not None)
    return list(dict.fromkeys(file for file in found if file))


@click.command("ls", cls=PeerCommand)
@click.argument("part", required=False)
@click.option("-t", "op_type", default="", help="Part of the type.")
@click.option("-n", "name", default="", help="Part of the name.")
@click.option("-f", "fusion", default="", help="Part of the fusion pass.")
@click.option("-k", "kernel", default="", help="Part of the kernel's name.")
@pass_asker
def _ls(asker: Asker, *, part: str | None, op_type: str, name: str, fusion: str, kernel: str) -> None:
    """Count operators by type, or list those that hold every given part."""
    from probe_flow.runs.queries.answers import counted_lines, listed_lines

    wanted = [op_type, name or part or "", fusion, kernel]
    if not any(wanted):
        lines = counted_lines(asker.nodes)
    else:
        lines = listed_lines(asker.nodes, op_type=op_type, name=wanted[1], fusion=fusion, kernel=kernel)
    for line in lines:
        click.echo(line)


def _low_cosine(asker: Asker, bound: float, limit: int) -> Reply:
    from probe_flow.runs.queries.threshold import Relation, Threshold

    return asker.threshold(Threshold("cosine", bound, Relation.AT_MOST), limit=limit or None)


def _print(reply: Reply) -> None:
    for line in reply.lines:
        click.echo(line)


def _one(name: str | None, named: str | None) -> str:
    found = name or named
    if not found:
        raise click.UsageError("name what you want to see")
    return found


def _compared_again(prompt: Prompt, sets: Mapping[str, str]) -> Asker:
    """Run the workflow of the run again with its parameters, and return the new run.

    A prompt on the folder of a training step, of which nothing was compared yet, runs the packaged workflow of such.
    """
    if prompt.run is None and prompt.data is not None:
        from probe_flow.workflow.templates.packaged import templates

        return _run_again(prompt, templates()[OF_TRAINING], {"data": str(prompt.data)}, Path("probe_flow_runs", "step"))
    record = prompt.asker.run.record
    path = Path(record.workflow.folder, record.workflow.path)
    given = {name: value for name, value in record.params.items() if value is not None}
    known = {name: value if isinstance(value, str) else json.dumps(value) for name, value in given.items()}
    if not is_file(path):
        raise click.UsageError(f"the workflow of this run is not at `{path}`; run it again by `probe-flow run`")
    _check_stages(record, path, {**known, **sets})
    return _run_again(prompt, path, {**known, **sets}, prompt.asker.run.folder)


def _run_again(prompt: Prompt, path: Path, sets: Mapping[str, str], beside: Path) -> Asker:
    output = _new_folder(beside) if beside.exists() else beside
    settings = [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
    words = ["run", str(path), *settings, "--output", str(output), "--quiet"]
    click.echo("probe-flow " + shlex.join(words))
    if (
        prompt.command_line(words) not in (EXIT_PASSED, EXIT_GATE_FAILED, EXIT_INCOMPLETE)
        or not (output / "run.json").is_file()
    ):
        raise click.UsageError("the run did not come to an end; the messages above say why")
    found = asker_of(output)
    click.echo(f"asking {found.shown} from now on")
    return found


def _check_stages(record: RunRecord, path: Path, sets: Mapping[str, str]) -> None:
    """Refuse a workflow file that does not say by itself what the run did: `compare` had options for the rest."""
    from probe_flow.workflow.loading.loader import load_workflow

    try:
        stages = load_workflow(path, sets=sets, env=os.environ, cwd=Path.cwd()).stages
    except WorkflowError as error:
        raise click.UsageError(
            f"`{path}` cannot be run with the parameters of this run alone ({error.diagnostic.message}); "
            "give the command that made the run again"
        ) from error
    uses = {stage.name: stage.type.uses for stage in stages}
    for stage in record.stages:
        name, ran = stage.name, stage.uses
        if uses.get(name, ran) != ran:
            raise click.UsageError(
                f"stage `{name}` of this run is `{ran}`, in `{path}` it is `{uses[name]}`; give the command that made "
                "the run again"
            )


def _new_folder(folder: Path) -> Path:
    number = 2
    while (found := folder.with_name(f"{folder.name}-{number}")).exists():
        number += 1
    return found


def _ref(prompt: Prompt, name: str, prefers: str) -> TensorRef:
    """Return a tensor with elements: a file, or one that a name of the run means on the side that has this name."""
    if is_file(name):
        return _file_ref(Path(name))
    answer = prompt.asker.tensor_answer(name, limit=1)
    if answer.matching > 1:
        if answer.how == "part":
            raise UsageError(
                Diagnostic(
                    "PF7208",
                    f"`{name}` is a part of the names of {answer.matching} rows",
                    help="name one tensor; the Tab key completes names",
                )
            )
        click.echo(f"`{name}` is in {answer.matching} rows, the first is taken")
    sides = answer.views[0].sides
    own = [each for each in sides if each.record.name == name]
    for each in sorted(own or sides, key=lambda each: each.name != prefers):
        if each.ref is not None:
            return each.ref
    why = next((each.why for each in sides if each.why), "the run has no elements of it")
    cure = "name a tensor whose dump is there, or a `.npy` file"
    raise UsageError(Diagnostic("PF7208", f"`{name}` cannot be compared element by element: {why}", help=cure))


def _file_ref(path: Path) -> TensorRef:
    from probe_flow.dumps.offline.names import parse_om_name
    from probe_flow.files.arrays.npy import npy_tensor_ref
    from probe_flow.records import Execution, NodeKey, Slot, SlotRole

    if path.suffix != ".npy" and parse_om_name(path.name) is not None:
        raise UsageError(
            Diagnostic(
                "PF7208",
                f"`{path.name}` is a dump file of a device, which holds all tensors of an operator",
                path=str(path),
                help=f"`dc {shlex.quote(str(path))} -o FOLDER` writes each as a `.npy` file; `pt NODE` shows them",
            )
        )
    key = NodeKey(Execution(rank=None, step=None, graph=None), path.name)
    return npy_tensor_ref(path.absolute(), key, Slot(SlotRole.OUTPUT))


ALIASES: Mapping[str, click.Command] = MappingProxyType(
    {str(verb.name): verb for verb in (_ac, _vcs, _vc, _ni, _pt, _cp, _dc, _ls)}
)
