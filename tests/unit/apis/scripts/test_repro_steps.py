"""What a script that reproduces a call says: where a result is off, and what cannot be written or imported."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.scripts.repro_call import fitting
from probe_flow.apis.scripts.repro_pairs import gradient_pairs, worst_element
from probe_flow.apis.scripts.repro_steps import Output, _difference, _off, reproduce
from probe_flow.apis.side import Held

FROZEN: dict[str, Any] = {"entry": "Torch.add.0.forward", "direction": "forward", "sides": {}, "folder": "x"}


@pytest.mark.parametrize(
    ("one", "other", "shape", "expected"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], (2, 2), ("", 0)),
        ([1, 2, 3, 9], [1, 0, 3, 4], (2, 2), ("[1, 1]", 0)),
        ([1, np.nan, 3, 9], [1, 0, np.inf, 4], (2, 2), ("[0, 1]", 2)),
        ([np.nan, 2], [np.nan, 1], (2,), ("[1]", 0)),
        ([np.inf, 2], [-np.inf, 2], (2,), ("[0]", 1)),
        ([5], [4], (), ("", 0)),
        ([], [], (0, 3), ("", 0)),
        ([1, 2], [1, 2, 3], (2,), ("", 0)),
    ],
)
def test_the_element_that_is_furthest_off_is_found(one, other, shape, expected):
    assert worst_element(np.array(one, np.float32), np.array(other, np.float32), shape) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (
            Output("target", "0", 0.0123, 456.7, 0.01, "[0, 3]"),
            "is off by 0.012, 457 times its rounding, most at [0, 3]",
        ),
        (Output("target", "0", 0.0123, 456.7, 0.01), "is off by 0.012, 457 times its rounding"),
        (
            Output("target", "0", math.inf, math.inf, math.inf, "[2]", 1),
            "is NaN or infinite on one side alone in 1 element at [2]",
        ),
        (
            Output("target", "0", math.inf, math.inf, math.inf, "[2]", 1234),
            "is NaN or infinite on one side alone in 1,234 elements, the first at [2]",
        ),
        (Output("target", "0", math.inf, math.inf, 1.0, "[2]"), "is not zero, as this processor's is, most at [2]"),
    ],
)
def test_errors_are_told_with_their_place(output, expected):
    assert _off(output) == expected


def test_a_missing_framework_is_told_and_leaves_a_result(tmp_path: Path, capsys) -> None:
    def decide(_outputs: list[Output]) -> tuple[str, str]:
        import no_such_framework  # noqa: F401

        raise AssertionError

    code = reproduce(FROZEN, ["--json", str(tmp_path / "found.json")], decide, ("no_such_framework", "numpy"))
    assert code == 3
    assert "undecided: this Python has no module `no_such_framework`" in capsys.readouterr().out
    said = json.loads((tmp_path / "found.json").read_text())
    assert (said["status"], said["versions"]) == ("undecided", {"numpy": np.__version__})


def test_what_a_dump_says_is_one_line_and_moves_no_cursor(tmp_path: Path, capsys) -> None:
    def decide(_outputs: list[Output]) -> tuple[str, str]:
        raise UnusableError("element type `x\x1b[2J\n'; \u202e` is not known")

    assert reproduce({**FROZEN, "entry": "a\nb"}, ["--json", str(tmp_path / "found.json")], decide, ()) == 3
    first, second = capsys.readouterr().out.splitlines()
    assert first == r"a\nb: computed again on this processor from the inputs of the dump"
    assert second == r"undecided: element type `x\x1b[2J\n'; \u202e` is not known"
    assert json.loads((tmp_path / "found.json").read_text())["why"] == second.removeprefix("undecided: ")


def test_a_result_that_cannot_be_written_is_a_mistake_and_no_error_of_the_operator(tmp_path: Path, capsys) -> None:
    code = reproduce(FROZEN, ["--json", str(tmp_path / "no" / "x.json")], lambda _: ("reproduced", "why"), ("numpy",))
    assert code == 2
    assert "x.json` cannot be written: No such file or directory" in capsys.readouterr().err


def held(*shape: int, scale: float = 1.0) -> Held:
    return Held(np.arange(np.prod(shape), dtype=np.float32).reshape(shape) * np.float32(scale), "float32")


GRADIENTS = [((0,), held(2, 3, 8)), ((1,), held(4, 8))]


def numbers(dumped: list, found: list, *passed: Held) -> list[tuple[str, int | None]]:
    return [(name, number) for name, _, number in gradient_pairs(dumped, found, passed)]


def test_a_gradient_that_a_node_passes_on_in_another_shape_is_the_one_that_came_in():
    dumped = [((0,), held(6, 4)), ((1,), held(8, 4))]
    assert numbers(dumped, GRADIENTS, held(2, 3, 4)) == [("0", None), ("1", 1)]
    with pytest.raises(UnusableError, match=r"no result of shape \[6, 4\], as 0 has"):
        numbers(dumped, GRADIENTS, held(2, 3, 4, scale=1.01))


def test_a_backward_pass_of_which_only_what_came_in_was_dumped_is_not_decided():
    for found in (GRADIENTS, [*GRADIENTS, (("node", 0), held(6, 4))]):
        with pytest.raises(UnusableError, match="nothing but the gradient that came in"):
            numbers([((0,), held(6, 4))], found, held(2, 3, 4))


def test_what_the_last_node_gives_is_held_against_what_the_last_node_gives_here():
    found = [*GRADIENTS, (("node", 0), held(5, 5)), (("node", 1), held(6, 4))]
    dumped = [((0,), held(6, 4, scale=1.01)), ((1,), held(5, 5))]
    assert numbers(dumped, found, held(2, 3, 4)) == [("0 of the last step", 3), ("1 of the last step", 2)]


def test_a_gradient_of_an_argument_is_there_once_also_where_the_last_node_gives_it():
    one, other = held(3), held(3, scale=2)
    found = [((0,), one), ((1,), other), (("node", 0), one), (("node", 1), other)]
    # A kernel that gives the first gradient twice is not met by the copy of it.
    assert numbers([((0,), one), ((1,), one)], found) == [("0", 0), ("1", 1)]


def test_gradients_that_are_nearest_to_each_other_are_paired_first():
    found = [((0,), held(3)), ((1,), held(3, scale=2))]
    assert numbers([((0,), held(3, scale=9)), ((1,), held(3, scale=2))], found) == [("0", 0), ("1", 1)]


@pytest.mark.parametrize(
    ("dumped", "given", "fits"),
    [
        ((1, 1), (1,), True),  # the weight of a prelu
        ((1, 5, 1, 1), (5,), True),  # the same of 5 channels
        ((3, 1), (1, 3), True),
        ((4, 6), (4, 6), True),
        ((6, 4), (4, 6), True),
        ((24,), (4, 6), True),
        ((), (1,), True),
        ((4, 6), (24,), False),  # of 24 elements nobody knows which matrix they are
        ((6, 1, 4), (4, 6), False),
        ((5, 1), (4, 1), False),
    ],
)
def test_a_gradient_is_found_by_its_shape(dumped, given, fits):
    assert list(fitting(dumped, [((0,), held(*given))])) == [0] * fits


def test_of_a_backward_pass_the_gradient_that_came_in_may_be_what_differs(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("probe_flow.apis.scripts.repro_steps.__file__", str(tmp_path / "script.py"))
    entries = {}
    for side, factor in (("target", 1.25), ("golden", 1.0)):
        (tmp_path / "x" / side).mkdir(parents=True)
        for name, values in (("a", np.ones(4)), ("g", np.full(4, factor))):
            np.save(tmp_path / "x" / side / f"{name}.npy", values.astype(np.float32))
        a, g = (
            {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "data_name": f"{name}.npy"}
            for name in "ag"
        )
        forward = {"input_args": [a], "input_kwargs": {}, "output": [a]}
        entries[side] = {"forward": forward, "backward": {"input": [g], "output": [g]}}
    frozen = {**FROZEN, "kind": "Functional", "api": "relu", "sides": entries}
    assert _difference({**frozen, "direction": "backward"}) == "incoming gradient 0 differs from the golden's by 0.25"
    assert _difference(frozen) == ""
