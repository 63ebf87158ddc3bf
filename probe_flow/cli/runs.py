"""`probe-flow runs`: which runs there are, and fewer of them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from probe_flow.cli.options import format_option
from probe_flow.cli.terminal.console import show
from probe_flow.errors import ProbeFlowError, UsageError

_S_PER_DAY = 86400
_SHOWN = 60
REFUSED = 2


@click.group("runs")
def command() -> None:
    """List and remove runs: those in the working directory, below it, and in `probe_flow_runs`."""


@command.command("ls")
@click.argument(
    "folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path(), metavar="[DIR]"
)
@format_option
def list_runs(*, folder: Path, output_format: str) -> None:
    """List the runs in DIR (default: the working directory), the newest first, each with its verdict."""
    found = list(_described(folder))
    if output_format == "json":
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    if not found:
        click.echo(f"no runs in `{folder}`")
        return
    from probe_flow.record.text_table import text_table

    cells = [
        (each["written"], each["verdict"], each["workflow"], _size(each["size_bytes"]), each["folder"], each["what"])
        for each in found
    ]
    for line in text_table(
        ("written", "verdict", "workflow", "size", "folder", "what"), cells, right={"size"}, indent=0
    ):
        click.echo(line)


def _described(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield a record of each run; of one whose record cannot be read, why."""
    from probe_flow.record.conclusion import last_line, verdict_word
    from probe_flow.record.places import printable
    from probe_flow.record.run_folder import read_run
    from probe_flow.runs.found_runs import folder_size, found_runs

    for each in found_runs(folder):
        facts = {
            "folder": str(each.folder),
            "written": time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(each.written_s)),
            "size_bytes": folder_size(each.folder),
        }
        try:
            run = read_run(each.folder).record
        except ProbeFlowError as error:
            what = f"{error.diagnostic.code}: {error.diagnostic.message}"
            yield {**facts, "verdict": "?", "workflow": "?", "what": printable(what)[:_SHOWN]}
            continue
        word = verdict_word(run)
        line = last_line(run).removeprefix(f"{word} ")
        shown = line if len(line) <= _SHOWN else line[: _SHOWN - 3] + "..."
        yield {**facts, "verdict": word, "workflow": printable(run.workflow.name), "what": shown}


@command.command("rm")
@click.argument("runs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="RUN...")
def remove(*, runs: tuple[Path, ...]) -> int:
    """Remove RUN... A folder below `probe_flow_runs` goes whole; of others only the files that the record names.

    Dumps are inputs and stay. Exit code 2 when a run was not removed.
    """
    return _remove(runs)


@command.command("gc")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the newest N of each workflow.")
@click.option("--days", type=click.FloatRange(min=0), metavar="DAYS", help="Remove what is older only.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and remove nothing.")
def collect(*, keep: int | None, days: float | None, dry_run: bool) -> int:
    """Remove old runs below `probe_flow_runs`: beyond the newest N, or older than DAYS; with both, what is both."""
    from probe_flow.runs.found_runs import RUNS_FOLDER, found_runs, readable_run

    if keep is None and days is None:
        raise click.UsageError("say what may go: `--keep N`, `--days DAYS`, or both")
    seen: Counter[str] = Counter()
    old = []
    for each in found_runs(Path()):
        run = readable_run(each.folder) if each.folder.parent == Path(RUNS_FOLDER) else None
        if run is None or run.record.status == "running":
            continue
        seen[run.record.workflow.name] += 1
        is_beyond = keep is None or seen[run.record.workflow.name] > keep
        if is_beyond and (days is None or time.time() - each.written_s > days * _S_PER_DAY):
            old.append(each.folder)
    if dry_run:
        for folder in old:
            click.echo(f"would remove {folder}")
        click.echo(_runs(len(old)))
        return 0
    return _remove(old)


def _remove(folders: Sequence[Path]) -> int:
    from probe_flow.engine.run.removing import remove_run

    freed = count = code = 0
    for folder in folders:
        try:
            removed = remove_run(folder)
        except ProbeFlowError as error:
            show(error.diagnostics)
            code = REFUSED if isinstance(error, UsageError) else max(code, error.exit_code)
            continue
        freed, count = freed + removed.freed_bytes, count + 1
        left = f"; {len(removed.left)} other files stay" if removed.left else ""
        click.echo(f"removed {folder}{left}")
    click.echo(f"{_runs(count)}, {_size(freed)}")
    return code


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


def _size(count: int) -> str:
    from rich.filesize import decimal

    return decimal(count)
