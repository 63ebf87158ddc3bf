"""`probe-flow repro`: is it the operator itself? A script that computes a suspect again from its own inputs."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("repro")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--node", default="", metavar="NAME", help="Entry of a call, or its name without number: its first call.")
@click.option(
    "--suspect", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="The n-th suspect."
)
@click.option("-o", "--output", default=".", show_default=True, metavar="DIR", help="Folder of the script.")
@click.option("--dump", "dumps", multiple=True, metavar="SIDE=PATH", help="Where a dump lies now. May be repeated.")
@click.option(
    "--model",
    metavar="FILE",
    help="Of an offline model: the ONNX file that the OM was made of, or that the target is a dump of. Default: the "
    "file that `dump.onnx` ran.",
)
@click.option("--golden-model", metavar="FILE", help="The same of the golden, where the target is a dump of ONNX too.")
@click.option("--python", metavar="FILE", help="Interpreter that has the framework. Default: this one.")
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="What the script may take before it is ended.",
)
@click.option("--memory-limit", metavar="SIZE", help="The same of memory, e.g. 4GiB. Default: half of the machine's.")
@click.option(
    "--random",
    "is_random",
    is_flag=True,
    help="Write the script of `op_generate`: random values in the recorded ranges, judged by higher precision.",
)
@click.option("--no-run", is_flag=True, help="Write the script and do not run it.")
def command(
    *,
    run: Path,
    node: str,
    suspect: int,
    output: str,
    dumps: tuple[str, ...],
    model: str | None,
    golden_model: str | None,
    python: str | None,
    time_limit: float,
    memory_limit: str | None,
    is_random: bool,
    no_run: bool,
) -> int:
    """Compute the first suspect of a RUN again on this processor, from its own inputs, and say whether it is to blame.

    Writes repro_ENTRY.py, its tensors beside it, and repro_ENTRY.json. The script needs numpy and the framework, moves
    with its folder, and holds what was dumped against what this processor makes of the same inputs, on both sides.

    Exit code: 0 the result is what was dumped, so that the cause lies before the call, or there is no suspect; 1 it is
    another one: the call itself is wrong; 2 a mistake in the command; 3 it cannot be told.
    """
    from probe_flow.api.repro import reproduce
    from probe_flow.record.places import printable
    from probe_flow.record.run_folder import read_run
    from probe_flow.runs.reopen import parse_dumps
    from probe_flow.scripts.op_generate import write_random_script
    from probe_flow.scripts.repro import write_script
    from probe_flow.scripts.trials.suspects import Trial
    from probe_flow.scripts.trials.trial import Limits

    found = reproduce(
        read_run(run),
        Path(output),
        node=node,
        suspect=suspect,
        moved=parse_dumps(dumps),
        models=(model, golden_model),
        write=write_random_script if is_random else write_script,
        trial=None if no_run else Trial(python or "", Limits(time_limit, _bytes(memory_limit))),
    )
    if found is None:
        click.echo("no suspects")
        return 0
    click.echo(f"written: {found.script.path}")
    if not found.was_tried:
        click.echo("not run")
        return 0
    status = str(found.said["status"]).replace("_", " ")
    click.echo(f"{status}: {printable(found.said['why'])}")
    if found.said.get("differs"):
        click.echo(f"before it: {printable(found.said['differs'])}")
    if found.unrecorded:
        click.echo(f"not added to the record of the run: {found.unrecorded}", err=True)
    return found.code


def _bytes(size: str | None) -> int:
    from probe_flow.stages.sizes import parse_size

    found = 0 if size is None else parse_size(size)
    if found is None:
        raise click.BadParameter(f"`{size}` is no size such as 4GiB or 500MB", param_hint="--memory-limit")
    return found
