"""What every `reduce` stage does: reduce the dump, write the summary, and adopt what is there then."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError, Severity, Stopped
from probe_flow.records import Catalog
from probe_flow.records.frameworks import NO_FRAMEWORK
from probe_flow.stages.dump.adopt_any import adopt_any
from probe_flow.stages.reduce.reduce_options import ReduceOptions, WatchOptions
from probe_flow.transform.reduce.reduce_folders import Reduction, Wanted, Watch
from probe_flow.transform.reduce.reduce_functions import load_functions
from probe_flow.transform.reduce.reduce_source import SourceReduction
from probe_flow.transform.reduce.reduce_stop import Stop
from probe_flow.transform.reduce.reduce_summary import Summary
from probe_flow.transform.reduce.reduce_tensors import Figures
from probe_flow.work import Context


def run_reduce(
    options: ReduceOptions, statistics: Sequence[str], inputs: Mapping[str, Sequence[Any]], context: Context
) -> Catalog:
    """Reduce a folder (`path`), or the dump of another stage (`source`); return the catalog of what is there then."""
    if options.source is None:
        return reduce_dump(options, statistics, context)
    return reduce_source(options, statistics, inputs["source"][0], context)


def reduce_source(options: ReduceOptions, statistics: Sequence[str], dump: Catalog, context: Context) -> Catalog:
    """Reduce the dump of another stage into a folder of the run, or the one named.

    Raises:
        UsageError: PF6303 for a function, PF6301, PF6302 or PF6335 for the folder.
        IncompleteError: PF6334 when nothing can be reduced, PF6306 when a file could not be.
        KeyboardInterrupt: Ctrl-C or SIGTERM.
    """
    figures = Figures(tuple(dict.fromkeys(statistics)), load_functions(options.functions))
    output = Path(options.output) if options.output else context.output / "reduced" / context.stage
    reduction = SourceReduction(dump, output, figures, options.suffix)

    def tell(problem: Diagnostic) -> None:
        context.emit("reduce.problem", code=problem.code, message=problem.message, path=problem.path)

    with Stop() as stop:
        summary = reduction.run(context.map, stop, tell)
        stopped = stop.signal
    _report(summary, dump.root, options, context)
    if stopped is not None:
        raise Stopped(stopped)
    if not summary.is_complete(is_stopped=False):
        raise IncompleteError(_failures(summary, dump.root))
    context.report(reduction.remarks())
    return reduction.catalog(context.stage)


def reduce_dump(options: ReduceOptions, statistics: Sequence[str], context: Context) -> Catalog:
    """Reduce the dump in a folder and return the catalog of what is there then.

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
    assert options.path is not None, "the options have a path or a source"

    def tell(summary: Summary, problem: Diagnostic | None) -> None:
        if problem is not None:
            context.emit("reduce.problem", code=problem.code, message=problem.message, path=problem.path)

    with Stop() as stop:
        summary = Reduction([Path(options.path)], wanted, context.map, stop, tell).run()
        stopped = stop.signal
    _report(summary, options.path, options, context)
    if stopped == signal.SIGINT or (stopped is not None and wanted.watch is None):
        raise Stopped(stopped)
    if not summary.is_complete(is_stopped=stopped is not None):
        raise IncompleteError(_failures(summary, options.path))
    return _adopted(options.path, options, wanted, context)


def _report(summary: Summary, dump: str, options: ReduceOptions, context: Context) -> None:
    """Write the summary, and report what is wrong but keeps nothing from being reduced."""
    path = Path(options.summary) if options.summary else context.output / f"reduce_{context.stage}.json"
    summary.write(path, [Path(dump)])
    context.emit("reduce.ended", summary=summary.line())
    context.report([problem for problem in summary.problems() if problem.severity is not Severity.ERROR])


def _failures(summary: Summary, dump: str) -> tuple[Diagnostic, ...]:
    errors = [problem for problem in summary.problems() if problem.severity is Severity.ERROR]
    return gaps(summary, dump), *errors[:20]


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


def _adopted(dump: str, options: ReduceOptions, wanted: Wanted, context: Context) -> Catalog:
    """Read the reduced dump; one that nobody may wait for need not be a dump of any kind yet."""
    path = options.output or dump
    try:
        return adopt_any(path, options.select, side=context.stage)
    except ProbeFlowError as exc:
        if wanted.watch is None or wanted.watch.stop_when != "never":
            raise
        problems = tuple(replace(problem, severity=Severity.WARNING) for problem in exc.diagnostics)
        return Catalog(context.stage, NO_FRAMEWORK, "statistics", str(Path(path).resolve()), {}, (), problems=problems)
