"""`probe-flow reduce`: replace the tensors of a dump by statistics, once or while it is written."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from probe_flow.cli.options import execution_options
from probe_flow.errors import Diagnostic, IncompleteError, Severity

if TYPE_CHECKING:
    from probe_flow.transform.reduce.reduce_folders import Watch
    from probe_flow.transform.reduce.reduce_summary import Summary

INTERRUPTED = 130
SHOWN = 20
"""Problems that are shown in full at the end; the summary file has all."""


@click.command("reduce")
@click.argument("dumps", nargs=-1, required=True, metavar="DUMP...")
@click.option(
    "--statistics",
    default="min,max",
    show_default=True,
    metavar="NAME[,NAME]",
    help="What each tensor is reduced to: min, max, mean, l2norm, count, nan_count, inf_count, crc32.",
)
@click.option(
    "--function",
    "functions",
    multiple=True,
    metavar="MODULE:NAME",
    help="Also an own function of the tensor as an array; it returns a fixed number of figures. May be repeated.",
)
@click.option("--suffix", default="_min_max", show_default=True, metavar="TEXT", help="Added to the names of files.")
@click.option("--delete-source", is_flag=True, help="Delete each dumped file once its reduced file reads back.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder of the reduced dump, for one DUMP. Default: each reduced file beside the dumped one.",
)
@click.option("--watch", is_flag=True, help="Reduce while the dump is written, until SIGTERM or Ctrl-C.")
@click.option("--interval", type=float, metavar="S", help="With --watch: least pause after each look. Default: 0.5.")
@click.option("--settle", type=float, metavar="S", help="With --watch: how long a file must rest. Default: 2.")
@click.option("--idle", type=float, metavar="S", help="With --watch: end when nothing has changed for so long.")
@click.option("--stop-file", metavar="FILE", help="With --watch: end when this file appears.")
@click.option(
    "--summary", type=click.Path(path_type=Path), metavar="FILE", help="Write what was done to this file, as JSON."
)
@click.option("--quiet", is_flag=True, help="No progress and no problems; only the last line.")
@execution_options
def command(
    *,
    dumps: tuple[str, ...],
    statistics: str,
    functions: tuple[str, ...],
    suffix: str,
    delete_source: bool,
    output: Path | None,
    watch: bool,
    interval: float | None,
    settle: float | None,
    idle: float | None,
    stop_file: str | None,
    summary: Path | None,
    quiet: bool,
    scheduler: str | None,
    workers: int | None,
) -> int:
    """Reduce dumps to statistics of their tensors, to save disk.

    Every device file becomes a `*_min_max.npz`, every FX array a `*_min_max.npy`; `compare` and the dump stages read
    them like the dump itself. Nothing is deleted unless --delete-source asks for it.

    Exit code: 0 all was reduced, or a watch was ended; 2 a mistake in the command; 3 files are left, with the reasons;
    130 interrupted.
    """
    from probe_flow.cli.terminal.console import show
    from probe_flow.cli.terminal.reduce_display import display_on
    from probe_flow.engine.run.tasks import Silent, StageTasks
    from probe_flow.engine.schedulers.choice import make_scheduler
    from probe_flow.transform.reduce.reduce_folders import Reduction, Wanted
    from probe_flow.transform.reduce.reduce_functions import load_functions
    from probe_flow.transform.reduce.reduce_stop import Stop
    from probe_flow.transform.reduce.reduce_tensors import Figures

    names = _statistics(statistics)
    _check_suffix(suffix)
    if output is not None and len(dumps) > 1:
        raise click.UsageError("`--output` takes the reduced files of one DUMP; reduce the others by themselves")
    how = _watch(interval, settle, idle, stop_file, is_watched=watch)
    with redirect_stdout(sys.stderr):
        loaded = load_functions(functions)
    wanted = Wanted(Figures(names, loaded), suffix, delete_source, output, how)
    paths = [Path(dump) for dump in dumps]
    chosen = make_scheduler(scheduler or "auto", workers)
    tasks = StageTasks("reduce", chosen, progress=Silent(), emit=lambda *_, **__: None)
    told: dict[int, Diagnostic] = {}
    # What a user's function prints is no result: on stdout is the last line only.
    with Stop() as stop, redirect_stdout(sys.stderr), display_on(quiet=quiet) as tell:

        def hear(totals: Summary, problem: Diagnostic | None) -> None:
            if problem is not None and not watch:  # what a watch told may be hours ago
                told[id(problem)] = problem
            tell(totals, problem)

        found = Reduction(paths, wanted, tasks, stop, hear).run()
        heard = stop.signal
    if summary is not None:
        found.write(summary, paths)
    empties = delete_source and output is not None  # then an earlier command may have left nothing
    if found.is_empty and heard is None and not watch and not empties:
        raise _nothing(dumps)
    errors = [each for each in found.problems() if each.severity is Severity.ERROR and id(each) not in told]
    if not quiet:
        show(errors[:SHOWN])
    click.echo(found.line() + (f"; {len(errors) - SHOWN} more problems" if len(errors) > SHOWN else ""))
    if heard is not None and (heard == signal.SIGINT or not watch):
        return INTERRUPTED
    return 0 if found.is_complete(is_stopped=heard is not None) else IncompleteError.exit_code


def _nothing(dumps: Sequence[str]) -> IncompleteError:
    where = f"`{dumps[0]}`" if len(dumps) == 1 else f"none of the {len(dumps)} folders"
    message = f"{where} holds {'no' if len(dumps) == 1 else 'a'} dumped file to reduce"
    cure = "give the folder of a dump: device files, or arrays of an FX dump"
    return IncompleteError(Diagnostic("PF6308", message, path=dumps[0], help=cure))


def _statistics(text: str) -> tuple[str, ...]:
    from probe_flow.errors import did_you_mean
    from probe_flow.metrics.reduction import STATISTICS

    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in STATISTICS:
            hint = did_you_mean(name, STATISTICS) or "there are " + ", ".join(STATISTICS)
            raise click.UsageError(f"`--statistics`: there is no statistic `{name}`; {hint}")
    if not names:
        raise click.UsageError("`--statistics` names none")
    return names


def _check_suffix(suffix: str) -> None:
    from probe_flow.dumps.reduced.reduced_names import SUFFIX_PATTERN

    if re.fullmatch(SUFFIX_PATTERN, suffix) is None:
        raise click.UsageError(f"`--suffix`: `{suffix}` is not `_` and 1 to 40 letters, digits or further `_`")


def _watch(
    interval: float | None, settle: float | None, idle: float | None, stop_file: str | None, *, is_watched: bool
) -> Watch | None:
    from probe_flow.transform.reduce.reduce_folders import Watch

    given = {"--interval": interval, "--settle": settle, "--idle": idle, "--stop-file": stop_file}
    named = [name for name, value in given.items() if value is not None]
    if not is_watched:
        if named:
            raise click.UsageError(f"`{named[0]}` is of use with `--watch` only")
        return None
    if idle is not None and stop_file is not None:
        raise click.UsageError("give `--idle` or `--stop-file`, not both")
    for name, value, least in (("--interval", interval, 0.01), ("--settle", settle, 0.0), ("--idle", idle, 0.01)):
        if value is not None and not value >= least:
            raise click.UsageError(f"`{name}` is at least {least} seconds, not {value}")
    usual = Watch()
    return Watch(
        usual.interval_s if interval is None else interval,
        usual.settle_s if settle is None else settle,
        "idle" if idle is not None else "file" if stop_file is not None else "never",
        usual.idle_s if idle is None else idle,
        Path(stop_file) if stop_file is not None else None,
    )
