"""`probe-flow code_mapping`: the lines of model code behind the operators of a kernel dump, in msprobe's syntax."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click

from probe_flow.cli.peer.peer_syntax import PeerCommand
from probe_flow.errors import IncompleteError, Severity

SHOWN = 10
"""Unbound names that are shown; the list has all."""


@click.command("code_mapping", cls=PeerCommand, frameworks=("mindspore",))
@click.option(
    "--ir",
    "texts",
    required=True,
    multiple=True,
    metavar="FILE|DIR",
    help="IR text that MindSpore wrote, or a folder of them. May be repeated; where several texts know an operator, "
    "that of the dump's own graph counts.",
)
@click.option(
    "--dump_data",
    "dump",
    required=True,
    metavar="PATH",
    help="Folder of a kernel dump, one of its tensor files, or a statistic.csv.",
)
@click.option(
    "--output", "-o", "output", default="./", show_default=True, metavar="DIR", help="Folder of the table and the list."
)
@click.option(
    "--no-inplace",
    "leaves_source",
    is_flag=True,
    help="Leave each statistic.csv as it is, and write statistic_code_mapping.csv beside it.",
)
def command(*, texts: tuple[str, ...], dump: str, output: str, leaves_source: bool) -> int:
    """Say for each operator of a MindSpore kernel dump in graph mode which lines of code it comes from.

    A dump of tensors gets code_mapping_{time}.csv: a row a file, with the lines of code, the scope of the operator and,
    for parameters, their line of the IR. A statistic.csv gets these columns itself. What no text knows is listed in
    code_mapping_unbound_{time}.csv.

    Exit code: 0 at least one operator is bound and every file could be used; 2 a path does not exist, or is no IR; 3 no
    operator is bound, the dump is empty, or something could not be used.
    """
    from probe_flow.cli.terminal.console import show
    from probe_flow.dumps.mindspore_graph.ir_code import IrIndex
    from probe_flow.dumps.mindspore_graph.ir_files import read_ir_files
    from probe_flow.transform.code_mapping import map_code

    files, problems = read_ir_files([Path(text) for text in texts])
    outcome = map_code(
        IrIndex(files), Path(dump), Path(output), in_place=not leaves_source, stamp=f"{datetime.now():%Y%m%d%H%M%S}"
    )
    found = [*problems, *outcome.problems]
    show(found)
    for path in outcome.written:
        click.echo(f"written: {path}")
    unbound = outcome.unbound
    if unbound:
        names = ", ".join(unbound[:SHOWN])
        more = f" and {len(unbound) - SHOWN} more" if len(unbound) > SHOWN else ""
        click.echo(f"not bound: {names}{more}")
    read = f"{len(files)} IR text{'s' if len(files) > 1 else ''}"
    click.echo(f"{outcome.bound} of {len(outcome.operators)} operators are bound to code by {read}")
    is_incomplete = not outcome.bound or any(problem.severity is Severity.ERROR for problem in found)
    return IncompleteError.exit_code if is_incomplete else 0
