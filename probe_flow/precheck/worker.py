"""Check one API call, in a worker process: that is where frameworks are imported, and where they may crash."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from probe_flow.apis import check, overflow, run, values
from probe_flow.apis.calls import UnusableError, shown_path
from probe_flow.apis.side import Held, Result
from probe_flow.apis.side import Side as Runtime
from probe_flow.errors import Diagnostic, ProbeFlowError
from probe_flow.files.atomic import atomic_bytes
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.brought import measured_text
from probe_flow.precheck.far_torch import FarTorch, without_first
from probe_flow.precheck.jobs import How, Job
from probe_flow.precheck.results import (
    ApiResult,
    Direction,
    Output,
    Side,
    Status,
    figure,
    of_all,
    writable,
)
from probe_flow.records.frameworks import Kernels

BENCH = "bench"
"""Word in the names of files with results of the benchmark."""

MESSAGE_LENGTH = 400
"""Of what a framework says when it refuses a call, the beginning of the first line: what follows are its own frames."""


def check_batch(job: Job) -> ApiResult:
    """Return what became of one call."""
    entries: dict[str, Any] = json.loads(job.entries)
    device = _device(job.how)
    try:
        tested = _tested(job, device)
        benchmark = _far_torch(has_adapter=tested is not None) if job.how.is_adapted else _benchmark()
    except ImportError as error:
        missing = _skip(UnusableError(f"`{error.name or error}` is not installed"))
        return ApiResult.alike(job.name, entries, missing)
    except UnusableError as error:
        return ApiResult.alike(job.name, entries, _skip(error))
    except Exception as error:  # whatever a framework raises that cannot start
        words = f"its framework cannot be started: {type(error).__name__}: {error}"
        return ApiResult.alike(job.name, entries, _skip(UnusableError(words)))
    by_standards = job.how.judge == "standard"
    how = run.How(
        job.how.benchmark,
        _judge(job),
        check.judge_by_standards(job.api, job.how.max_abs_limit) if by_standards else None,
        job.how.memory_bytes,
        is_pytorch=job.how.kernels is Kernels.PYTORCH,
        counts_zeros=job.how.kernels is Kernels.PYTORCH,
        rounding=check.by_rounding() if job.how.kernels is Kernels.PYTORCH else None,
    )
    is_alone = tested is None or (job.how.kernels is Kernels.PYTORCH and job.kind != "NPU")
    sides = [tested] if is_alone else [tested, benchmark]
    other = benchmark if by_standards else None
    runners = [run.Runner(side, benchmark, _source(job), how, other) for side in sides]
    return _checked(job, entries, runners, device)


def lost_batch(job: Job, reason: Diagnostic) -> ApiResult:
    """Return the result of a call that hangs, or ended its worker each time that it was tried."""
    ended = reason.message.rpartition(": ")[2]
    hangs = ended.startswith("took longer")
    lost = Direction(Status.SKIP, reason=f"it {ended}" if hangs else f"its worker ended each time: {ended}")
    return ApiResult.alike(job.name, json.loads(job.entries), lost)


def _checked(job: Job, entries: dict[str, Any], runners: Sequence[run.Runner], device: int) -> ApiResult:
    raw = check.check_call(job.kind, job.api, entries, runners)
    if job.how.judge == "overflow":
        raw = {phase: overflow.repeated(each, entries[phase]) for phase, each in raw.items()}
    saved, unsaved = _saved(job, raw)
    found = {phase: _direction(each, job.how.options, saved.get(phase, {})) for phase, each in raw.items()}
    names = dict.fromkeys(name for files in saved.values() for name in files.values())  # both directions name inputs
    return ApiResult(job.name, found.get("forward"), found.get("backward"), device, unsaved, tuple(names))


def _direction(raw: run.Direction, options: MeasureOptions, files: dict[str, str]) -> Direction:
    if raw.skipped is not None:
        return _skip(raw.skipped)
    outputs = tuple(_output(each, options, files, number) for number, each in enumerate(raw.checked))
    return Direction(of_all(outputs), outputs, ran=raw.ran, fallback=raw.fallback)


def _skip(error: UnusableError) -> Direction:
    first = (error.reason.strip().splitlines() or [""])[0]
    return Direction(Status.SKIP, reason=writable(first[:MESSAGE_LENGTH]), is_expected=error.is_expected)


def _output(checked: run.Checked, options: MeasureOptions, files: dict[str, str], number: int) -> Output:
    found = checked.judgement.figures
    return Output(
        _side(checked.tested, files.get(f"output.{number}")),
        _side(checked.benchmark, files.get(f"output.{number}.{BENCH}")),
        checked.judgement.is_right,
        figure(found.cosine),
        figure(found.max_abs),
        figure(found.max_rel),
        checked.judgement.message,
        _measured(checked, options),
        checked.judgement.is_doubtful,
        {name: figure(float(value)) for name, value in checked.judgement.named.items()},
        checked.judgement.is_empty,
    )


def _side(result: Result, file: str | None) -> Side:
    value = result.value
    if isinstance(value, Held):
        return Side(value.dtype, value.values.shape, file=file)
    if isinstance(value, int | float | bool | None):
        return Side(result.dtype, value=figure(value) if isinstance(value, float) else value)
    return Side(result.dtype, value=writable(str(value)))


def _measured(checked: run.Checked, options: MeasureOptions) -> str:
    one, other = checked.tested.value, checked.benchmark.value
    if not isinstance(one, Held) or not isinstance(other, Held) or one.values.shape != other.values.shape:
        return ""
    return measured_text(_Elements(one), _Elements(other), options)


class _Elements:
    """The elements of a tensor for the kernel."""

    def __init__(self, held: Held) -> None:
        self._flat = held.values.reshape(-1)
        # The kernel wants bfloat16 as such; whatever else numpy lacks arrives here as float32.
        self.dtype = held.dtype if held.dtype == str(self._flat.dtype) else str(self._flat.dtype)
        self.numel = self._flat.size

    def read(self, start: int, stop: int) -> Any:
        return self._flat[start:stop]


def _source(job: Job) -> values.Source:
    if job.how.data is not None:
        return values.of_files(job.how.data)
    return values.ms_seed42 if job.how.generator == "ms_seed42" else values.per_slot(job.name)


def _judge(job: Job) -> run.Judge:
    """Return what judges the results of a call."""
    if job.how.judge == "overflow":
        return overflow.judge_overflow
    if job.how.kernels is Kernels.PYTORCH:
        return check.judge_pytorch(job.api, job.entries, job.how.standards)
    return check.judge_mindspore(job.how.max_abs_limit)


def _tested(job: Job, device: int) -> Runtime | None:
    """Return the tested side; None where the dump holds its results."""
    if job.how.kernels is Kernels.PYTORCH:
        return _torch(device, compiles=job.how.compiles)
    if job.how.data is not None:
        return None
    return _msadapter(device) if job.how.is_adapted else _mindspore(device)


_torch = lru_cache(maxsize=1)(check.torch_side)
_mindspore = lru_cache(maxsize=1)(check.mindspore_side)
_msadapter = lru_cache(maxsize=1)(check.msadapter_side)


@lru_cache(maxsize=1)
def _benchmark() -> Runtime:
    return check.torch_side()


@lru_cache(maxsize=1)
def _far_torch(*, has_adapter: bool) -> Runtime:
    """Return PyTorch, in a process of its own, for in this one `torch` is MSAdapter; or none, where nothing is run."""
    return FarTorch(without_first(sys.path) if has_adapter else sys.path)


_taken: dict[str, int] = {}
"""Folder of lock files -> the device of this process, which holds its file for as long as it lives."""


def _device(how: How) -> int:
    """Return the device of this process, one of those that no other worker has."""
    if how.locks is None or len(how.devices) < 2:
        return how.devices[0]
    if how.locks not in _taken:
        for device in how.devices:
            handle = os.open(Path(how.locks) / f"device{device}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                continue
            _taken[how.locks] = device
            break
    return _taken.get(how.locks, how.devices[0])


def _saved(job: Job, raw: dict[str, run.Direction]) -> tuple[dict[str, dict[str, str]], str]:
    """Save inputs and results of the directions that fail; return the files, and why some are not there."""
    files: dict[str, dict[str, str]] = {}
    if job.how.save is None:
        return files, ""
    try:
        for phase, direction in raw.items():
            if direction.skipped is None and not direction.is_right:
                files[phase] = _save(job, phase, direction)
    except ProbeFlowError as error:
        return files, error.diagnostic.message
    except OSError as error:
        return files, error.strerror or str(error)
    return files, ""


def _save(job: Job, phase: str, direction: run.Direction) -> dict[str, str]:
    found: dict[str, str] = {}
    assert job.how.save is not None
    tensors: dict[str, object] = {
        f"forward.input.{shown_path(place)}": each for place, each in direction.inputs.items()
    }
    tensors |= {f"{phase}.input.{number}": each for number, each in enumerate(direction.incoming) if each is not None}
    for number, each in enumerate(direction.checked):
        tensors[f"{phase}.output.{number}"] = each.tested.value
        tensors[f"{phase}.output.{number}.{BENCH}"] = each.benchmark.value
    for place, held in tensors.items():
        if isinstance(held, Held):
            name = f"{job.name}.{place}.npy"
            with atomic_bytes(Path(job.how.save) / name) as file:
                np.save(file, held.values, allow_pickle=False)
            found[place.removeprefix(f"{phase}.")] = f"{job.how.saved_as}/{name}"
    return found
