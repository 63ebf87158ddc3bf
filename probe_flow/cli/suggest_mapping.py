"""`suggest-mapping`: write the layer mapping of two dumps whose names differ, found by structure, for review."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from probe_flow.cli.peer.peer_syntax import PeerCommand
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError

if TYPE_CHECKING:
    from probe_flow.matching.structure.layer_mapping import SuggestedEntry, Suggestion
    from probe_flow.records import Catalog

MAX_OF_ONE_CODE = 3


@click.command("suggest-mapping", cls=PeerCommand)
@click.option("-tp", "--target_path", required=True, metavar="PATH", help="Dump under test, or its dump.json.")
@click.option("-gp", "--golden_path", required=True, metavar="PATH", help="Dump to judge it by, or its dump.json.")
@click.option(
    "-o",
    "--output_path",
    "--output",
    default="layer_mapping.yaml",
    show_default=True,
    metavar="FILE",
    help="Mapping file to write; one that exists is not written over.",
)
@click.option("--rank", type=click.IntRange(min=0), metavar="R", help="Look at this rank only.")
@click.option("--step", type=click.IntRange(min=0), metavar="S", help="Look at this step only.")
def command(*, target_path: str, golden_path: str, output_path: str, rank: int | None, step: int | None) -> int:
    """Suggest a layer mapping for two dumps of one model whose names differ.

    Modules are paired by structure: tree, order, shapes, parameters and recorded values. The mapping is applied to the
    dumps it was made from, and entries that their values contradict are left out. It is written for review, with the
    confidence of every entry and with what could not be decided.
    """
    from probe_flow.cli.terminal.running import shown_path
    from probe_flow.exit_codes import EXIT_INCOMPLETE
    from probe_flow.files.atomic import atomic_text
    from probe_flow.matching.structure.layer_check import without_contradictions
    from probe_flow.matching.structure.layer_mapping import suggest_layer_mapping
    from probe_flow.matching.structure.layer_text import layer_mapping_text
    from probe_flow.matching.structure.match_structure import match_structure

    cwd = Path.cwd()
    output = cwd / output_path
    _check(output)
    target = _read(cwd / target_path, "target", rank, step)
    golden = _read(cwd / golden_path, "golden", rank, step)
    pairs = match_structure(target, golden)
    suggestion = without_contradictions(suggest_layer_mapping(pairs), target, golden)
    _show_some([*target.problems, *golden.problems, *pairs.problems])
    if not suggestion.modules:
        raise IncompleteError(_nothing({target_path: target, golden_path: golden}))
    _echo_summary(suggestion)
    if not suggestion.entries and not suggestion.rejected:
        click.echo("paired modules have equal names: no mapping is needed, nothing is written")
        return 0
    with atomic_text(output) as file:
        file.write(layer_mapping_text(suggestion, target=target_path, golden=golden_path))
    name = shown_path(output, cwd)
    click.echo(f"wrote {name}")
    _show_some([_left_out(owner, entry, name) for owner, entry in suggestion.rejected])
    _show_some([_conflict(text, name) for text in suggestion.conflicts])
    if not suggestion.entries:
        click.echo(f"no entry is left: decide which layers correspond, and write it into {name}")
        return EXIT_INCOMPLETE
    quoted = " ".join(shlex.quote(part) for part in ("-tp", target_path, "-gp", golden_path, "-lm", name))
    click.echo(f"next: review it, then probe-flow compare {quoted}")
    return 0


def _check(output: Path) -> None:
    if output.exists():
        message = f"`{output.name}` exists and is not written over"
        raise UsageError(
            Diagnostic("PF4245", message, path=str(output), help="name another file with `-o`, or remove this one")
        )


def _read(path: Path, side: str, rank: int | None, step: int | None) -> Catalog:
    from probe_flow.dumps.dump_json.reader import read_dump_json
    from probe_flow.dumps.selection import Selection

    select = Selection(ranks=None if rank is None else [rank], steps=None if step is None else [step])
    return read_dump_json(path, side=side, select=select)


def _nothing(sides: Mapping[str, Catalog]) -> Diagnostic:
    """Say that no modules were paired, and what would help: dumping modules, where a side has none."""
    from probe_flow.records import NodeKind

    first, second = (f"`{path}`" for path in sides)
    flat = {
        path: str(side.attrs.get("level") or "unknown")
        for path, side in sides.items()
        if not any(node.kind is NodeKind.MODULE for node in side.nodes.values())
    }
    where = " and ".join(f"`{path}` (level {level})" for path, level in flat.items())
    cure = (
        f"{where} {'has' if len(flat) == 1 else 'have'} no modules: dump at level mix or L0, with `extra_info`"
        if flat
        else "both have modules, but none agree in class and path, or in what they hold: check that both dumps are of "
        "one model, or pair tensors with a data mapping"
    )
    return Diagnostic("PF4244", f"no module of {first} could be paired with one of {second}", help=cure)


def _left_out(owner: str, entry: SuggestedEntry, name: str) -> Diagnostic:
    message = f"`{'.'.join(entry.child)}: {'.'.join(entry.partner)}` of `{owner}` is left out: {entry.note}"
    cure = "decide by hand which layers correspond, and write it into the file"
    return Diagnostic("PF4220", message, severity=Severity.WARNING, path=name, help=cure)


def _conflict(text: str, name: str) -> Diagnostic:
    cure = "correct the file by hand, or name these modules in a data mapping"
    return Diagnostic("PF4243", f"cannot be written: {text}", severity=Severity.WARNING, path=name, help=cure)


def _show_some(problems: Sequence[Diagnostic]) -> None:
    """Show the first problems of every code, and how many more there are."""
    from probe_flow.cli.terminal.console import show

    of_code: dict[str, list[Diagnostic]] = {}
    for problem in problems:
        of_code.setdefault(problem.code, []).append(problem)
    show(problem for found in of_code.values() for problem in found[:MAX_OF_ONE_CODE])
    for code, found in of_code.items():
        if len(found) > MAX_OF_ONE_CODE:
            click.echo(f"{code}: and {len(found) - MAX_OF_ONE_CODE} more", err=True)


def _echo_summary(suggestion: Suggestion) -> None:
    entries = f"{suggestion.entries} {'entry' if suggestion.entries == 1 else 'entries'}"
    click.echo(f"{suggestion.modules} modules paired, {entries}, {suggestion.guesses} to check")
    if suggestion.unpaired:
        count = len(suggestion.unpaired)
        lone = "1 module has" if count == 1 else f"{count} modules have"
        click.echo(f"{lone} no partner; the file lists them with the reason")
