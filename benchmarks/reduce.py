"""Reducing dumps: large files beside the reading and reducing that numpy itself does, many small ones, and waiting."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.dumps import WRITERS, Array, base_values
from benchmarks.figures import ROOT, Row, Settings, one, usage_row, usage_rows, wall
from benchmarks.timing import Spread, Usage, interleave, run_command

LARGE_FILES, LARGE_ELEMENTS = 4, 32 * 2**20
LARGE_READ_BYTES, QUICK_READ_BYTES = 128 * 2**30, 2**27
"""What is read in all: each file has as many names as that takes. Starting up takes half a second; at the 15 to 20 GB/s
that two cores reach from the page cache, it weighs 5 to 7 % of a run."""

SMALL_FILES = 10_000
WATCHED_FILES, WATCH_S = 2000, 6.0
SHARE_GOAL = 0.8
LIMIT = "benchmarks.reduce_limit"
_FX = "relu_{number}-aten.relu.default.OUTPUT.0.{at}.npy"
_START = 20260101000000000000


def reduce(settings: Settings) -> list[Row]:
    """Reduce large and small files, and watch a folder in which nothing happens."""
    return [*_large(settings), *_small(settings), *_idle(settings)]


def _large(settings: Settings) -> list[Row]:
    elements = 2**20 if settings.is_quick else LARGE_ELEMENTS
    rows = []
    for dtype in ("float32", "float16"):
        file_bytes = elements * np.dtype(dtype).itemsize
        links = (QUICK_READ_BYTES if settings.is_quick else LARGE_READ_BYTES) // (LARGE_FILES * file_bytes)
        size = LARGE_FILES * links * file_bytes
        folder = settings.folder("reduce", LARGE_FILES * file_bytes)
        _write_large(folder, base_values(elements).astype(dtype), links)
        try:
            found = interleave(
                {
                    "limit, one thread": _limit(folder, 1),
                    "limit, all cores": _limit(folder, _cores()),
                    "one worker": _reducer(folder, "--scheduler", "sync"),
                    "as it chooses": _reducer(folder),
                },
                settings.runs,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        what = f"{LARGE_FILES * links} {dtype} files of {file_bytes >> 20} MiB"
        for name, usages in found.items():
            speed = Spread.of([size / usage.wall_s / 1e9 for usage in usages])
            rows.append(Row("reduce", f"{what}, {name}", "GB/s", speed))
        for ours, theirs in (("one worker", "limit, one thread"), ("as it chooses", "limit, all cores")):
            pairs = zip(found[ours], found[theirs], strict=True)
            share = Spread.of([limit.wall_s / own.wall_s for own, limit in pairs])
            goal = f">= {SHARE_GOAL}" if ours == "as it chooses" else ""
            rows.append(Row("reduce", f"{what}, {ours} to {theirs}", "ratio", share, goal))
        rows.append(
            usage_row(
                "reduce",
                f"{what}, as it chooses, peak memory of a process",
                "MiB",
                found["as it chooses"],
                lambda usage: usage.peak_rss_bytes / 2**20,
            )
        )
    return rows


def _write_large(folder: Path, values: Array, links: int) -> None:
    for number in range(LARGE_FILES):
        first = folder / _FX.format(number=number, at=_START)
        np.save(first, values)
        for link in range(1, links):
            (folder / _FX.format(number=number, at=_START + link)).hardlink_to(first)


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _reducer(folder: Path, *words: str) -> Callable[[], Usage]:
    command = [sys.executable, "-m", "probe_flow", "reduce", str(folder), "--quiet", *words]

    def run() -> Usage:
        for path in folder.glob("*_min_max.np?"):
            path.unlink()
        return run_command(command, cwd=ROOT)

    return run


def _limit(folder: Path, threads: int) -> Callable[[], Usage]:
    command = [sys.executable, "-m", LIMIT, str(folder), str(threads)]
    return lambda: run_command(command, cwd=ROOT)


def _small(settings: Settings) -> list[Row]:
    count = 200 if settings.is_quick else SMALL_FILES
    folder = settings.folder("reduce_small", count * 4096)
    dump = folder / "dump"
    dump.mkdir()
    _write_small(dump, count)
    try:
        found = interleave({"reduce": _into_new_folders(dump, folder)}, settings.runs)["reduce"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    rows = usage_rows("reduce", f"{count} device files of 3 small tensors", found, wall_goal="<= 30")
    return [*rows, usage_row("reduce", "a small file", "us", found, lambda usage: wall(usage) / count * 1e6)]


def _into_new_folders(dump: Path, parent: Path) -> Callable[[], Usage]:
    """Return what reduces a dump into another folder each time.

    Nothing is deleted in between: for minutes after thousands of files were, ext4 looks long for a place for each new
    one (measured: 0.5 ms of processor time a file, more than all the rest).
    """
    numbers = itertools.count()

    def run() -> Usage:
        output = parent / f"reduced_{next(numbers)}"
        return run_command(
            [sys.executable, "-m", "probe_flow", "reduce", str(dump), "--output", str(output), "--quiet"], cwd=ROOT
        )

    return run


def _write_small(folder: Path, count: int) -> None:
    sys.path.insert(0, str(WRITERS))
    from ge_writer import DumpTensor, file_name, write_dump  # type: ignore[import-not-found]

    tensor = DumpTensor(base_values(256).astype(np.float16), "float16")
    for number in range(count):
        name = file_name("Add", f"Add_{number}", number, 7, 1_767_225_600_000_000 + number)
        write_dump(folder / name, op_name=f"Add_{number}", inputs=[tensor, tensor], outputs=[tensor])


def _idle(settings: Settings) -> list[Row]:
    """Measure the processor time of a watch while nothing happens: what it takes to start is left out."""
    count = 100 if settings.is_quick else WATCHED_FILES
    folder = settings.folder("reduce_idle", count * 4096)
    _write_small(folder, count)
    shares = []
    command = [sys.executable, "-m", "probe_flow", "reduce", str(folder), "--watch", "--quiet", "--settle", "0"]
    try:
        for _ in range(settings.runs):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT) as process:
                while len(list(folder.glob("*_min_max.npz"))) < count:
                    time.sleep(0.2)
                time.sleep(3.0)  # folders that changed just now are listed each time
                before = _cpu_s(process.pid)
                time.sleep(WATCH_S)
                shares.append((_cpu_s(process.pid) - before) / WATCH_S)
                process.terminate()
            if process.returncode != 0:
                raise RuntimeError(f"the watch ended with exit code {process.returncode}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [
        Row("reduce", f"a watch of {count} files in which nothing happens, CPU", "share", Spread.of(shares), "< 0.01"),
        Row("reduce", "seconds watched", "s", one(WATCH_S)),
    ]


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
