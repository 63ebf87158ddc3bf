"""`probe-flow parse`: convert dumped device files to arrays, torch files or plain bytes, in msprobe's syntax."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from probe_flow.cli.options import execution_options
from probe_flow.cli.peer.peer_syntax import PeerCommand
from probe_flow.errors import IncompleteError, Severity, did_you_mean

SHOWN = 20
"""Problems that are shown in full; the list of failed files names all files."""

_SHAPE = re.compile(r"[1-9][0-9]{0,17}(,[1-9][0-9]{0,17}){0,63}")


@click.command("parse", cls=PeerCommand)
@click.option(
    "-d",
    "--dump_path",
    "dump_paths",
    required=True,
    multiple=True,
    metavar="PATH[,PATH]",
    help="A dumped file, several, or a folder of them (folders inside are not searched). May be repeated.",
)
@click.option(
    "-t",
    "--type",
    "kind",
    type=click.Choice(["npy", "pt", "bin", "msnpy"]),
    default="pt",
    show_default=True,
    help="What is written: numpy arrays, torch tensors (torch itself is not needed), the bytes as they are, or arrays "
    "under the names that MindSpore uses.",
)
@click.option(
    "-o",
    "-out",
    "--output",
    "--output_path",
    "output_path",
    default="./output",
    show_default=True,
    metavar="DIR",
    help="Folder of the results.",
)
@click.option(
    "-f",
    "--format",
    "layout",
    metavar="LAYOUT",
    help="Bring the tensors into this layout, e.g. ND, NCHW or NC1HWC0, without padding. Default: as they are stored.",
)
@click.option(
    "-s", "--shape", metavar="N,N", help="With --format: the logical shape, in place of the one that the dump gives."
)
@click.option(
    "--input_index", "inputs", multiple=True, type=click.IntRange(min=0), metavar="N", help="Only this input."
)
@click.option(
    "--output_index", "outputs", multiple=True, type=click.IntRange(min=0), metavar="N", help="Only this output."
)
@click.option("--replace", is_flag=True, help="Replace other files that have the names of results.")
@click.option("--quiet", is_flag=True, help="No progress and no problems; only the last line.")
@execution_options
def command(
    *,
    dump_paths: tuple[str, ...],
    kind: str,
    output_path: str,
    layout: str | None,
    shape: str | None,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    replace: bool,
    quiet: bool,
    scheduler: str | None,
    workers: int | None,
) -> int:
    """Convert dumped device files to files that numpy, torch or other tools read.

    Each tensor becomes a file of its own: DUMP_FILE.input.0.npy, DUMP_FILE.output.0.npy, and so on. Buffers and spaces
    become .bin files, overflow records .json files. What could not be converted is listed in
    convert_failed_file_list.txt, beside what it has of other files; overlong names are resolved by mapping.csv.

    Values never change: types that the written files cannot name (bfloat16 in arrays, 8-bit floats, int4) are widened.

    Exit code: 0 all was converted; 2 a mistake in the command; 3 something is not converted, with the reasons; 130
    interrupted.
    """
    from probe_flow.api.progress import can_redraw, progress_on
    from probe_flow.cli.terminal.console import show
    from probe_flow.elements.converted.files import FileKind
    from probe_flow.engine.run.tasks import StageTasks
    from probe_flow.engine.schedulers.choice import make_scheduler
    from probe_flow.transform.parse.parse_files import Wanted
    from probe_flow.transform.parse.parse_folder import parse_paths

    wanted = Wanted(
        Path(output_path),
        FileKind(kind),
        _layout(layout),
        _shape(shape, layout),
        tuple(inputs) if inputs else None,
        tuple(outputs) if outputs else None,
        replace,
    )
    is_live = can_redraw(os.environ, is_terminal=sys.stderr.isatty())
    with progress_on(sys.stderr, quiet=quiet, is_live=is_live) as progress:
        chosen = make_scheduler(scheduler or "auto", workers)
        tasks = StageTasks("parse", chosen, progress=progress, emit=lambda *_, **__: None)
        progress.stage_started("parse", "converting")
        outcome = parse_paths(_paths(dump_paths), wanted, tasks)
    errors = [problem for problem in outcome.problems if problem.severity is Severity.ERROR]
    if not quiet:
        show(outcome.problems[:SHOWN])
    more = f"; {len(errors) - SHOWN} more problems" if len(errors) > SHOWN else ""
    click.echo(outcome.line(wanted.output) + more)
    return 0 if outcome.is_complete else IncompleteError.exit_code


def _paths(given: Sequence[str]) -> list[Path]:
    """Return the paths: each option is one, or several with commas in between."""
    from probe_flow.files.existing import exists

    paths: list[Path] = []
    for text in given:
        parts = [text] if exists(Path(text)) else text.split(",")
        paths += [Path(part) for part in parts if part]
    if not paths:
        raise click.UsageError("`--dump_path` names no dumped file and no folder")
    return paths


def _layout(name: str | None) -> str | None:
    from probe_flow.tensors.stored_shapes import CONVERTIBLE

    if name is None or name in CONVERTIBLE:
        return name
    hint = did_you_mean(name, CONVERTIBLE) or "there are " + ", ".join(sorted(CONVERTIBLE))
    raise click.UsageError(f"`--format`: no tensor can be brought into layout `{name}`; {hint}")


def _shape(text: str | None, layout: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if layout is None:
        raise click.UsageError("`--shape` is of use with `--format` only")
    if not _SHAPE.fullmatch(text):
        raise click.UsageError(f"`--shape`: `{text}` is no shape such as 1,3,224,224")
    return tuple(int(dim) for dim in text.split(","))
