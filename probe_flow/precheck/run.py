"""Check the API calls of a dump: in workers, each result written as it comes."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, IncompleteError, Severity
from probe_flow.files.atomic import atomic_text
from probe_flow.precheck.jobs import Found, How, Job, jobs_of
from probe_flow.precheck.log import VERSION, CheckLog, Terms, continued_log, new_log
from probe_flow.precheck.results import ApiResult
from probe_flow.precheck.worker import check_batch, lost_batch
from probe_flow.records import Catalog
from probe_flow.work import Isolate

SHOWN = 3
"""Calls that a problem names."""

INDEX = "index.json"
"""Names the saved files of each call that fails."""


class Request(Struct, frozen=True):
    """Where a check writes, and what it does beside checking.

    Args:
        folder: of its tables.
        resume: table of calls of a check that did not end, which is continued.
        is_forced: whether one of other terms is.
        saves: whether the data of calls that fail are saved.
        data: folder that a folder with these data is made in; None = that of the tables.
        seconds: that a call may take.
        announce: is told of every file before it is begun.
    """

    folder: Path
    resume: Path | None = None
    is_forced: bool = False
    saves: bool = False
    data: Path | None = None
    seconds: int = 600
    announce: Callable[[Path], object] = lambda _path: None


class Outcome(Struct, frozen=True):
    """What a check leaves.

    Args:
        results: of all calls, in the order of the dump; each is read from the record when it is asked for.
        tables: files of the calls and of their results.
        problems: what could not be saved.
    """

    results: Collection[ApiResult]
    tables: tuple[Path, Path]
    problems: tuple[Diagnostic, ...] = ()


def check_calls(source: Catalog, found: Found, how: How, request: Request, isolate: Isolate) -> Outcome:
    """Check all calls that were not checked before, and return the results of all.

    Raises:
        UsageError: PF6606, PF6607, PF6608 for a check that cannot be continued.
        IncompleteError: PF6605 if a file cannot be written.
    """
    terms = _terms(source, found, how)
    stamp = _free_stamp(request.folder)
    if request.resume is not None:
        log = continued_log(request.resume, terms, found.nodes, is_forced=request.is_forced)
    else:
        log = new_log(request.folder, stamp, terms)
    for path in (*log.tables, log.record):
        request.announce(path)
    save = _save_folder(log, how, request.data) if request.saves else None
    # Files beside the tables are named so that the folder can be moved.
    saved_as = "" if save is None else save if request.data is not None else Path(save).name
    with ExitStack() as stack:
        stack.enter_context(log.open())
        for skipped in found.skipped():
            if skipped.name not in log.known:
                log.add(skipped)
        open_jobs = [job for job in jobs_of(found, _located(how, save, saved_as, stack)) if job.name not in log.known]
        found.entries.clear()  # the jobs have them, each as long as it is not done
        logs = _device_logs(request.folder, stamp, how, terms, stack) if open_jobs else {}
        for result in _checked(open_jobs, how, request, isolate):
            if result.device in logs:
                logs[result.device].add(result)
            log.add(result)
    log.sort(list(found.nodes), terms)
    results = log.known.values()
    problems = _problems(results)
    if save is not None and any(result.saved for result in results):
        problems += _write_index(Path(save), results, request.announce)
    return Outcome(results, log.tables, problems)


def _free_stamp(folder: Path) -> str:
    """Return the time as names of files have it; where an earlier check began in this very second, a later one."""
    moment = datetime.now()
    while any(folder.glob(f"*{moment:%Y%m%d%H%M%S}*")):
        moment += timedelta(seconds=1)
    return f"{moment:%Y%m%d%H%M%S}"


def _checked(jobs: list[Job], how: How, request: Request, isolate: Isolate) -> Iterator[ApiResult]:
    """Yield the results as they come; jobs that are done lose their entries."""
    if not jobs:
        return
    done = replace(jobs[0], entries="")
    workers = min(len(how.devices), len(jobs))
    tasks = isolate(workers, request.seconds, "calls")
    for number, result in tasks(check_batch, jobs, sizes=[1] * len(jobs), lost=lost_batch):
        jobs[number] = done
        yield result


def _terms(source: Catalog, found: Found, how: How) -> Terms:
    digest = hashlib.sha256()
    for name, entries in found.entries.items():
        digest.update(f"{name}\0{entries}\n".encode())
    digest.update("\0".join((*found.refused, *found.left_out)).encode())
    digest.update(source.task.encode())
    options = json.dumps(
        {name: getattr(how, name) for name in ("benchmark", "generator", "max_abs_limit", "standards", "judge")}
    )
    return Terms(VERSION, digest.hexdigest(), options, how.kernels)


def _located(how: How, save: str | None, saved_as: str, stack: ExitStack) -> How:
    """Return how calls are checked, with the folders of this check."""
    locks = stack.enter_context(tempfile.TemporaryDirectory()) if len(how.devices) > 1 else None
    return replace(how, save=save, saved_as=saved_as, locks=locks)


def _save_folder(log: CheckLog, how: How, data: Path | None) -> str:
    """Return where data are saved: by the time of the tables where it is not theirs, so that a continued check adds."""
    if data is not None or len(how.devices) > 1:
        return str((log.folder if data is None else data.absolute()) / f"ut_error_data{log.stamp}")
    return str(log.folder / "error_data")


def _device_logs(folder: Path, stamp: str, how: How, terms: Terms, stack: ExitStack) -> dict[int, CheckLog]:
    """Return the files of each device, where there are several."""
    if len(how.devices) == 1:
        return {}
    logs = {device: new_log(folder / f"device{device}_{stamp}", stamp, terms) for device in how.devices}
    for log in logs.values():
        stack.enter_context(log.open())
    return logs


def _write_index(
    folder: Path, results: Collection[ApiResult], announce: Callable[[Path], object]
) -> tuple[Diagnostic, ...]:
    """Write which files each call that fails has; return a warning where that cannot be written."""
    saved = {result.name: list(result.saved) for result in results if result.saved}
    announce(folder / INDEX)
    try:
        with atomic_text(folder / INDEX) as file:
            json.dump(saved, file, indent=1)
    except IncompleteError as error:
        return (_unsaved(error.diagnostic.message),)
    return ()


def _unsaved(message: str) -> Diagnostic:
    return Diagnostic("PF6609", message, severity=Severity.WARNING, help="the verdicts are not touched by it")


def _problems(results: Collection[ApiResult]) -> tuple[Diagnostic, ...]:
    """Return warnings of what the verdicts do not say."""
    found = []
    unsaved = [result for result in results if result.unsaved]
    if unsaved:
        first = unsaved[0]
        message = f"the data of {len(unsaved)} calls could not be saved, of `{first.name}` because: {first.unsaved}"
        found.append(_unsaved(message))
    replaced = [result.name for result in results if any(each.fallback for _, each in result.directions())]
    if replaced:
        shown = ", ".join(f"`{name}`" for name in replaced[:SHOWN])
        more = f" and {len(replaced) - SHOWN} more" if len(replaced) > SHOWN else ""
        found.append(
            Diagnostic(
                "PF6610",
                f"{len(replaced)} calls ran in torch, for there is no kernel of theirs here: {shown}{more}",
                severity=Severity.WARNING,
                help="their verdicts say nothing of the kernels; check them on the device that the model runs on",
            )
        )
    return tuple(found)
