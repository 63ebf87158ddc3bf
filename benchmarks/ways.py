"""Ways to make one dump, beside each other: each in a process of its own, in turn, with what it made compared."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

RUNS = 3
_ONE = "--one"


def run_in_turn(
    module: str, ways: Sequence[str], root: Path, compared: Callable[[Mapping[str, Path]], str]
) -> Iterator[tuple[str, Sequence[float]]]:
    """Make the dump in each way, print of each round what ``compared`` says, and yield each way's medians.

    Args:
        module: of the benchmark, which `start` began.
        ways: their names.
        root: folder for the dumps; those of a round are removed after it.
        compared: gets the folder of each way.
    """
    figures: dict[str, list[list[float]]] = {way: [] for way in ways}
    for _ in range(RUNS):
        folders = {way: root / way.replace(" ", "_") for way in ways}
        for way, folder in folders.items():
            folder.mkdir()
            command = [sys.executable, "-m", module, _ONE, way, str(folder)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            figures[way].append([float(figure) for figure in done.stdout.splitlines()[-1].split()])
        print(compared(folders))
        for folder in folders.values():
            shutil.rmtree(folder)
    for way, found in figures.items():
        yield way, [median(column) for column in zip(*found, strict=True)]


def start(one: Callable[[str, Path], None], main: Callable[[Path], None]) -> None:
    """Do what the command line says: one way, whose last line of output are its figures, or all in a folder."""
    arguments = sys.argv[1:]
    if arguments[:1] == [_ONE]:
        one(arguments[1], Path(arguments[2]))
        return
    folder = Path(arguments[0] if arguments else tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        main(Path(temporary))
