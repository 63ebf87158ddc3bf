"""`probe-flow op_generate`: a script that runs one API of a dump again, in the syntax of msprobe."""

from __future__ import annotations

from pathlib import Path

import click

from probe_flow.cli.peer.peer_syntax import FRAMEWORKS, PeerCommand


@click.command("op_generate", cls=PeerCommand, frameworks=FRAMEWORKS)
@click.option("-i", "--config_input", "config", required=True, metavar="FILE", help="config_op.json: what is wanted.")
@click.option(
    "-o",
    "--api_output_path",
    "--output",
    "folder",
    required=True,
    metavar="DIR",
    help="Folder of the script; it must exist.",
)
@click.pass_context
def command(context: click.Context, /, *, config: str, folder: str) -> int:
    """Write a script that runs one API of a dump again and compares it with higher precision.

    The configuration names the dump (`dump_json_path`), the API (`api_name`, e.g. Functional.softmax.3) and where its
    entries go (`extract_api_path`); without a dump these entries are read. `propagation` is forward or backward,
    `data_mode` random_data (`random_seed` 1234, `iter_times` 1) or real_data.

    The script DIR/API.DIRECTION.py needs numpy and the framework, and nothing of probe_flow.

    Exit code: 0 it is written; 2 a mistake in the command or the configuration; 3 the entries cannot be used.
    """
    from probe_flow.cli.peer.compare import check_paths
    from probe_flow.scripts.op_generate import op_generate, read_config

    check_paths({"-i": Path(config), "-o": Path(folder)})
    if not Path(folder).is_dir():
        raise click.UsageError(f"`-o`: `{folder}` is no folder")
    framework = context.find_root().params.get("framework")
    for path in op_generate(read_config(Path(config)), Path(folder), framework=framework):
        click.echo(f"written: {path}")
    return 0
