"""`probe-flow graph_visualize`: one dump as a graph, or two compared, as a database, in the syntax of msprobe 26."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from probe_flow.cli.options import execution_options, verdict_options
from probe_flow.cli.peer.graph_workflow import LATER, Wanted, graph_options, pairing, show_graphs
from probe_flow.cli.peer.peer_syntax import FRAMEWORKS, PeerCommand


@click.command("graph_visualize", cls=PeerCommand, frameworks=FRAMEWORKS, later=LATER)
@click.option("-tp", "--target_path", required=True, metavar="PATH", help="Dump to show: a rank, or a folder of them.")
@click.option("-gp", "--golden_path", metavar="PATH", help="Dump to compare it with.")
@graph_options
@click.option("-fm", "--fuzzy_match", is_flag=True, help="Also pair calls whose numbers differ.")
@execution_options
@verdict_options
@click.pass_context
def command(
    context: click.Context,
    /,
    *,
    target_path: str,
    golden_path: str | None,
    output_path: str,
    layer_mapping: str | None,
    fuzzy_match: bool,
    overflow_check: bool,
    layout: str,
    **how: Any,
) -> int:
    """Write the modules and calls of a dump as a graph for TensorBoard with tb-graph-ascend, coloured by a golden one.

    All ranks and steps go into one database in the output folder, build_TIME.vis.db or compare_TIME.vis.db. Dumps need
    the level mix or L0, which record modules. The record of the run and report.html, which shows the same without a
    server, are in `probe_flow` below the output folder.

    Exit code: 0 nothing is wrong; 1 something is (in one dump alone, with -oc: NaN or infinity); 2 a mistake; 3 a
    part could not be compared or shown: what could is written; 130 interrupted.
    """
    from probe_flow.cli.peer.compare import check_paths

    cwd = Path.cwd()
    paths = {"target": cwd / target_path, **({"golden": cwd / golden_path} if golden_path is not None else {})}
    files = {"-lm": cwd / layer_mapping} if layer_mapping else {}
    check_paths({**{f"--{name}_path": path for name, path in paths.items()}, **files})
    match = pairing(layer_mapping=layer_mapping, fuzzy_match=fuzzy_match)
    output = cwd / output_path
    wanted = Wanted("vis_db", output, layout, match, overflow_check, has_all_frames=True, **how)
    return show_graphs(context, paths, wanted)
