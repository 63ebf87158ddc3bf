"""`probe-flow graph`: one dump as a graph, or two compared, as JSON files, in the syntax of msprobe 1.2 to 8.2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from probe_flow.cli.options import execution_options, verdict_options
from probe_flow.cli.peer.graph_workflow import LATER, Wanted, graph_options, pairing, show_graphs
from probe_flow.cli.peer.peer_syntax import FRAMEWORKS, PeerCommand
from probe_flow.errors import Diagnostic, UsageError, did_you_mean

_SIDES = {"npu_path": "target", "bench_path": "golden"}
_LOG = "is_print_compare_log"
"""Taken for msprobe's sake: `comparison.jsonl` of the run has a record of every tensor anyway."""


@click.command("graph", cls=PeerCommand, frameworks=FRAMEWORKS, later=LATER)
@click.option(
    "-i",
    "--input_path",
    required=True,
    metavar="FILE",
    help="JSON file with `npu_path`, the dump to show, and `bench_path`, the one to compare it with, if any.",
)
@graph_options
@click.option("-f", "--fuzzy_match", is_flag=True, help="Also pair calls whose numbers differ.")
@click.option("-cs", "--complete_stack", is_flag=True, help="All frames of call stacks, not those of your code alone.")
@execution_options
@verdict_options
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    input_path: str,
    output_path: str,
    layer_mapping: str | None,
    fuzzy_match: bool,
    complete_stack: bool,
    overflow_check: bool,
    layout: str,
    **how: Any,
) -> int:
    """Write the modules and calls of a dump as graphs for TensorBoard with tb-graph-ascend, coloured by a golden one.

    Each rank and step is a file in the output folder, build_step0_rank0_TIME.vis or compare_step0_rank0_TIME.vis. Dumps
    need the level mix or L0, which record modules. The record of the run and report.html, which shows the same without
    a server, are in `probe_flow` below the output folder.

    Exit code: 0 nothing is wrong; 1 something is (in one dump alone, with -oc: NaN or infinity); 2 a mistake; 3 a
    part could not be compared or shown: what could is written; 130 interrupted.
    """
    from probe_flow.cli.peer.compare import check_paths

    cwd = Path.cwd()
    given = cwd / input_path
    check_paths({"-i": given, **({"-lm": cwd / layer_mapping} if layer_mapping else {})})
    named = _read(given)
    paths = {_SIDES[key]: cwd / path for key, path in named.items()}
    check_paths({f"{given.name}, {key}": cwd / path for key, path in named.items()})
    match = pairing(layer_mapping=layer_mapping, fuzzy_match=fuzzy_match)
    wanted = Wanted("vis", cwd / output_path, layout, match, overflow_check, complete_stack, **how)
    return show_graphs(context, paths, wanted)


def _read(path: Path) -> dict[str, str]:
    """Return the paths that a file names, by their keys.

    Raises:
        UsageError: PF2131 it is no object with such paths.
    """
    from probe_flow.files.opening import read_text

    try:
        found = json.loads(read_text(path))
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise _wrong(path, f"is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise _wrong(path, f"holds a {type(found).__name__}, not an object")
    for key in found:
        if key not in (*_SIDES, _LOG):
            raise _wrong(path, f"has the unknown key `{key}`", did_you_mean(key, (*_SIDES, _LOG)))
    named = {key: found[key] for key in _SIDES if found.get(key) not in (None, "")}
    if "npu_path" not in named:
        raise _wrong(path, "has no `npu_path`")
    for key, value in named.items():
        if not isinstance(value, str):
            raise _wrong(path, f"has no path as `{key}` but {json.dumps(value)[:40]}")
    return named


def _wrong(path: Path, what: str, hint: str | None = None) -> UsageError:
    cure = 'write {"npu_path": "dump/step0", "bench_path": "golden/step0"}; paths start from the working directory'
    return UsageError(Diagnostic("PF2131", f"`{path.name}` {what}", path=str(path), help=hint or cure))
