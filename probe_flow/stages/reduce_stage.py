"""What every `reduce` stage does: reduce the dump, write the summary, and adopt what is there then."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError, Severity
from probe_flow.records import Catalog
from probe_flow.stages.adopt_any import adopt_any
from probe_flow.stages.base import Context
from probe_flow.stages.reduce_folders import Reduction, Wanted, Watch
from probe_flow.stages.reduce_functions import load_functions
from probe_flow.stages.reduce_options import ReduceOptions, WatchOptions
from probe_flow.stages.reduce_stop import Stop
from probe_flow.stages.reduce_summary import Summary
from probe_flow.stages.reduce_tensors import Figures


def reduce_dump(options: ReduceOptions, statistics: Sequence[str], context: Context) -> Catalog:
    """Reduce the dump of a stage and return the catalog of what is there then.

    Raises:
        UsageError: PF6303 for a function, PF3201, PF6301 or PF6302 for the folder.
        IncompleteError: PF6306 when a file could not be reduced.
        KeyboardInterrupt: Ctrl-C, or SIGTERM before everything was reduced once.
    """
    wanted = Wanted(
        Figures(tuple(dict.fromkeys(statistics)), load_functions(options.functions)),
        options.suffix,
        options.delete_source,
        Path(options.output) if options.output else None,
        watch_of(options.watch) if options.watch else None,
    )
    told: list[Diagnostic] = []

    def tell(summary: Summary, problem: Diagnostic | None) -> None:
        if problem is not None:
            context.emit("reduce.problem", code=problem.code, message=problem.message, path=problem.path)

    with Stop() as stop:
        summary = Reduction([Path(options.path)], wanted, context.map, stop, tell).run()
        stopped = stop.signal
    path = Path(options.summary) if options.summary else context.output / f"reduce_{context.stage}.json"
    summary.write(path, [Path(options.path)])
    told += summary.problems()
    context.emit("reduce.ended", summary=summary.line())
    context.report([problem for problem in told if problem.severity is not Severity.ERROR])
    if stopped == signal.SIGINT or (stopped is not None and wanted.watch is None):
        raise KeyboardInterrupt
    if not summary.is_complete(is_stopped=stopped is not None):
        errors = [problem for problem in told if problem.severity is Severity.ERROR]
        raise IncompleteError((gaps(summary, options.path), *errors[:20]))
    return _adopted(options, wanted, context)


def watch_of(options: WatchOptions) -> Watch:
    """Return how to watch."""
    stop_file = Path(options.stop_file) if options.stop_file else None
    return Watch(options.interval, options.settle, options.stop_when, options.idle_s, stop_file)


def gaps(summary: Summary, path: str) -> Diagnostic:
    """Return the problem of a dump that is not reduced as a whole."""
    return Diagnostic(
        "PF6306",
        f"{summary.failed + summary.unfinished} files of `{path}` are not reduced",
        path=path,
        help="the reasons follow; the dumped files are kept, reduce the folder again when they are gone",
    )


def _adopted(options: ReduceOptions, wanted: Wanted, context: Context) -> Catalog:
    """Read the reduced dump; one that nobody may wait for need not be a dump of any kind yet."""
    path = options.output or options.path
    try:
        return adopt_any(path, options.select, side=context.stage)
    except ProbeFlowError as exc:
        if wanted.watch is None or wanted.watch.stop_when != "never":
            raise
        problems = tuple(replace(problem, severity=Severity.WARNING) for problem in exc.diagnostics)
        return Catalog(context.stage, "", "statistics", str(Path(path).resolve()), {}, (), problems=problems)
