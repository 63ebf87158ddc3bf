"""Which steps and ranks of a program are dumped, with values that no framework knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from probe_flow.dumpers.dump_json.encoding import UNKNOWN, array_statistics
from probe_flow.dumpers.dump_json.folder import StepFolders
from probe_flow.dumpers.dump_json.options import checked_options
from probe_flow.dumpers.dump_json.recorder import Recorder, StepLeaves
from probe_flow.errors import UsageError

PROGRAM_STEPS = 4


class Arrays(StepLeaves):
    """Values are arrays of numpy alone."""

    def leaf(self, value: Any, item: str, key: object) -> object:
        return UNKNOWN

    def array(self, array: NDArray[Any], item: str) -> dict[str, Any]:
        return array_statistics(array)

    def finish(self) -> None:
        pass


def dumped(root: Path, rank: Callable[[], int | None] = lambda: None, **options: Any) -> list[str]:
    """Return the folders that a program of some steps leaves, in each of which is the number of its step."""
    folder = StepFolders(root, "pytorch", rank, (), overwrite=False)
    recorder = Recorder(folder, checked_options({"level": "L1", "data": "statistics", **options}), Arrays, ())
    recorder.start()
    for number in range(PROGRAM_STEPS):
        if recorder.is_running:
            recorder.outputs("Torch.add.0.forward", np.array([number]))
        recorder.end_step()
    recorder.stop()
    found = sorted(root.glob("step*/*/dump.json"))
    for path in found:
        leaf = json.loads(path.read_text())["data"]["Torch.add.0.forward"]["output"][0]
        assert f"step{leaf['Max']}" == path.parent.parent.name
    return [path.parent.relative_to(root).as_posix() for path in found]


@pytest.mark.parametrize(
    ("steps", "numbers"), [(None, [0, 1, 2, 3]), ([1], [1]), ([3, 0, 3], [0, 3]), (2, [2]), ([9], [])]
)
def test_steps_that_are_asked_for_are_dumped(tmp_path: Path, steps: object, numbers: list[int]) -> None:
    assert dumped(tmp_path / "dump", steps=steps) == [f"step{number}/proc0" for number in numbers]


@pytest.mark.parametrize(
    ("ranks", "rank", "is_dumped"),
    [(None, 3, True), ([3], 3, True), ([0, 3], 3, True), ([0], 3, False), (3, 3, True), ([0], None, True)],
)
def test_ranks_that_are_asked_for_are_dumped(tmp_path: Path, ranks: object, rank: int | None, is_dumped: bool) -> None:
    folder = "proc0" if rank is None else f"rank{rank}"
    found = dumped(tmp_path / "dump", lambda: rank, ranks=ranks, steps=[1, 2])
    assert found == ([f"step1/{folder}", f"step2/{folder}"] if is_dumped else [])


def test_an_empty_list_of_steps_is_refused() -> None:
    with pytest.raises(UsageError, match="`ranks` is empty"):
        checked_options({"ranks": []})
