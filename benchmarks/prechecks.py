"""Pre-checks of PyTorch dumps: beside msprobe, what an API costs, two workers against one, memory of many calls."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from benchmarks.figures import Row, Settings, cpu, memory, probe_flow, usage_row, wall
from benchmarks.timing import Spread, Usage, interleave, ratios, run_command

CASE = "precheck"
COPIES = 7
"""Of each call of `CALLS` in the dump that both tools check: about 70 APIs, as in an L1 dump of a small network."""

FEW, MANY = 100, 10_000
EQUAL, EQUAL_SHAPE = 2000, (128, 1024)
ACCEPTED = (0, 1, 3)
"""Exit codes of a check that came to its end: whether a kernel is right is not measured."""

Element = dict[str, Any]


def tensor(*shape: int, requires_grad: bool = True) -> Element:
    facts = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape), "requires_grad": requires_grad}
    return {**facts, "Max": 2.0, "Min": -2.0, "Mean": 0.0, "Norm": 8.0}


def number(value: Any) -> Element:
    return {"type": type(value).__name__, "value": value}


WIDE, WEIGHT = tensor(8, 32, 64), tensor(64, 64)
CALLS: Mapping[str, tuple[Sequence[Element], Mapping[str, Element], Element]] = MappingProxyType(
    {
        "Functional.linear": ((WIDE, WEIGHT, tensor(64)), {}, WIDE),
        "Functional.softmax": ((WIDE,), {"dim": number(-1)}, WIDE),
        "Functional.gelu": ((WIDE,), {}, WIDE),
        "Functional.relu": ((WIDE,), {}, WIDE),
        "Functional.silu": ((WIDE,), {}, WIDE),
        "Torch.matmul": ((WIDE, WEIGHT), {}, WIDE),
        "Torch.tanh": ((WIDE,), {}, WIDE),
        "Tensor.mul": ((WIDE, WIDE), {}, WIDE),
        "Tensor.add": ((WIDE, WIDE), {}, WIDE),
        "Torch.exp": ((WIDE,), {}, WIDE),
    }
)
"""API -> arguments, and the result."""

TINY = tensor(4, requires_grad=False)

MSPROBE = """
import sys, torch
torch.cuda.set_device = lambda *_: None
from msprobe.pytorch.api_accuracy_checker.acc_check import acc_check, acc_check_utils
acc_check.current_device = acc_check_utils.current_device = "cpu"
acc_check._acc_check()
"""
"""msprobe's check with its device replaced by the processor: it knows NPU and GPU only."""


def precheck(settings: Settings) -> list[Row]:
    """Run API calls of PyTorch dumps again, alone: the whole command."""
    if find_spec("torch") is None:
        return [Row(CASE, "torch is not installed", "", None)]
    rows = [*_beside(settings), *_by_number(settings), *_by_workers(settings)]
    shutil.rmtree(settings.scratch / CASE, ignore_errors=True)
    return rows


def write_net(folder: Path, copies: int) -> Path:
    """Write a dump of statistics with each call of `CALLS` so many times, forward and backward."""
    data: dict[str, Element] = {}
    for copy in range(copies):
        for api, (args, kwargs, result) in CALLS.items():
            data[f"{api}.{copy}.forward"] = {"input_args": list(args), "input_kwargs": dict(kwargs), "output": [result]}
            gradients = [{**each, "requires_grad": False} for each in args]
            data[f"{api}.{copy}.backward"] = {"input": [{**result, "requires_grad": False}], "output": gradients}
    return _write(folder, data)


def write_equal(folder: Path, count: int, element: Element) -> Path:
    """Write a dump of statistics with so many equal calls of `torch.add`."""
    call = {"input_args": [element, element], "input_kwargs": {}, "output": [element]}
    return _write(folder, {f"Torch.add.{index}.forward": call for index in range(count)})


def _write(folder: Path, data: Mapping[str, Element]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "dump.json"
    top = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    path.write_text(json.dumps(top), encoding="utf-8")
    return path


def _beside(settings: Settings) -> list[Row]:
    copies = 1 if settings.is_quick else COPIES
    dump = write_net(settings.folder(CASE), copies)
    subjects = {"probe-flow": _ours(settings, dump, "--standards", "benchmark_only")}
    python = interpreter(settings.peer)
    if python:
        subjects["peer"] = _command(settings, [python, "-c", MSPROBE], dump)
    found = interleave(subjects, settings.runs)
    what = f"{copies * len(CALLS)} APIs"
    rows = [usage_row(CASE, f"{name}, {what}, CPU", "s", usages, cpu) for name, usages in found.items()]
    rows += [usage_row(CASE, f"{name}, {what}, peak memory", "MiB", usages, memory) for name, usages in found.items()]
    if python:
        rows.append(
            Row(CASE, "peer to probe-flow, CPU", "ratio", ratios(found["probe-flow"], found["peer"], cpu), ">= 8")
        )
    return rows


def _by_number(settings: Settings) -> list[Row]:
    """Measure few and many tiny calls: their difference is what a call costs, beside the microseconds of its kernel."""
    few, many = (FEW // 10, FEW) if settings.is_quick else (FEW, MANY)
    dumps = {count: write_equal(settings.folder(f"{CASE}_{count}"), count, TINY) for count in (few, many)}
    found = interleave({str(count): _ours(settings, dump) for count, dump in dumps.items()}, settings.runs)
    pairs = list(zip(found[str(few)], found[str(many)], strict=True))
    each_ms = Spread.of([(more.cpu_s - less.cpu_s) / (many - few) * 1e3 for less, more in pairs])
    return [
        Row(CASE, "an API beyond its call, CPU", "ms", each_ms, "<= 10"),
        usage_row(CASE, f"{few} calls, peak memory", "MiB", found[str(few)], memory),
        Row(CASE, f"{few} calls to {many}, peak memory", "ratio", ratios(*found.values(), memory), "<= 1.01"),
    ]


def _by_workers(settings: Settings) -> list[Row]:
    count = EQUAL // 40 if settings.is_quick else EQUAL
    dump = write_equal(settings.folder(f"{CASE}_equal"), count, tensor(*EQUAL_SHAPE, requires_grad=False))
    subjects = {
        "one worker": _ours(settings, dump, "-d", "0", command="multi_acc_check"),
        "two workers": _ours(settings, dump, "-d", "0", "1", command="multi_acc_check"),
    }
    found = interleave(subjects, settings.runs)
    what = f"{count} equal calls of {math.prod(EQUAL_SHAPE)} elements"
    rows = [usage_row(CASE, f"{name}, {what}, wall", "s", usages, wall) for name, usages in found.items()]
    ratio = ratios(found["two workers"], found["one worker"], wall)
    return [*rows, Row(CASE, "one worker to two, wall", "ratio", ratio, ">= 1.6")]


def _ours(settings: Settings, dump: Path, *options: str, command: str = "acc_check") -> Callable[[], Usage]:
    return _command(settings, [*probe_flow(), command], dump, *options)


def _command(settings: Settings, words: Sequence[str], dump: Path, *options: str) -> Callable[[], Usage]:
    def run() -> Usage:
        folder = settings.folder(f"{CASE}_output")
        given = [*words, "-api_info", str(dump), "-o", str(folder), *options]
        return run_command(given, cwd=folder, variables={"OMP_NUM_THREADS": "1"}, accepted=ACCEPTED)

    return run


def interpreter(peer: Sequence[str]) -> str | None:
    """Return the interpreter of the peer's command: that of its script, or of the one that it hands over to."""
    path = shutil.which(peer[0]) if peer else None
    while path:
        with Path(path).open("rb") as file:
            first, *rest = file.read(1 << 16).decode("utf-8", "replace").splitlines()
        if re.match(r"#!.*/python[\d.]*$", first):
            return first[2:]
        handed = re.search(r'^exec "?([^"$ ]+)', "\n".join(rest), re.MULTILINE)
        path = handed[1] if handed and os.access(handed[1], os.X_OK) and handed[1] != path else None
    return None
