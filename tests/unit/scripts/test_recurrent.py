"""What computes a recurrent module: by its entry and its weights, and never more than they say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probe_flow as pf
from probe_flow.errors import IncompleteError
from probe_flow.scripts.recurrent import RecurrentCall, recurrent_call
from probe_flow.scripts.repro import write_script
from probe_flow.scripts.suspect import Suspect

MODULE = "Module.net.rnn"


class Dumps:
    """Two dumps of a step of one recurrent module."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def tensor(self, name: str, *shape: int) -> dict[str, Any]:
        for side in ("target", "golden"):
            (self.folder / side / "dump_tensor_data").mkdir(parents=True, exist_ok=True)
            np.save(self.folder / side / "dump_tensor_data" / f"{name}.npy", np.full(shape, 0.5, np.float32))
        facts = {"Max": 0.5, "Min": 0.5, "Mean": 0.5, "Norm": 0.5, "requires_grad": True, "data_name": f"{name}.npy"}
        return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape), **facts}

    def suspect(self, kind: str, entry: dict[str, Any], *, has_golden: bool = True) -> Suspect:
        name = f"{MODULE}.{kind}.forward.0"
        for side in ("target", "golden"):
            head = {"task": "tensor", "level": "mix", "framework": "pytorch", "dump_data_dir": "dump_tensor_data"}
            (self.folder / side / "dump.json").write_text(json.dumps({**head, "data": {name: entry}}))
            (self.folder / side / "construct.json").write_text(json.dumps({name: None}))
        target, golden = (pf.read_dump(self.folder / side, side=side) for side in ("target", "golden"))
        (node,) = (each for each in target.nodes.values() if each.entry == name)
        (same,) = (each for each in golden.nodes.values() if each.entry == name)
        return Suspect(target, node, golden, same) if has_golden else Suspect(target, node)


@pytest.fixture
def dumps(tmp_path: Path) -> Dumps:
    return Dumps(tmp_path)


def lstm(dumps: Dumps, *, batch: int = 2, length: int = 5) -> dict[str, Any]:
    """Two layers in both directions, the batch first, of 3 values in and 4 out."""
    weights = {}
    for layer, width in ((0, 3), (1, 8)):
        for side in ("", "_reverse"):
            sizes = {"weight_ih": (16, width), "weight_hh": (16, 4), "bias_ih": (16,), "bias_hh": (16,)}
            weights |= {f"{role}_l{layer}{side}": size for role, size in sizes.items()}
    shuffled = sorted(weights)  # no order of names is the kernel's
    return {
        "input_args": [dumps.tensor("x", batch, length, 3)],
        "input_kwargs": {},
        "output": [
            dumps.tensor("y", batch, length, 8),
            [dumps.tensor("h", 4, batch, 4), dumps.tensor("c", 4, batch, 4)],
        ],
        "parameters": {name: dumps.tensor(name, *weights[name]) for name in shuffled},
    }


def called(suspect: Suspect) -> RecurrentCall:
    found = recurrent_call(suspect)
    assert found is not None
    return found


def test_weights_stand_as_the_kernel_takes_them_and_a_missing_state_is_zeros(dumps: Dumps, tmp_path: Path) -> None:
    suspect = dumps.suspect("LSTM", lstm(dumps))
    call = called(suspect)
    forward = call.sides["target"]["forward"]
    _, state, weights, *plain = forward["input_args"]
    roles = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    order = [f"{role}_l{layer}{side}.npy" for layer in (0, 1) for side in ("", "_reverse") for role in roles]
    assert (call.api, call.direction) == ("lstm", "forward")
    assert [each["data_name"] for each in weights] == order
    assert [each["value"] for each in plain] == [True, 2, 0.0, False, True]
    assert forward["input_kwargs"] == {"batch_first": {"type": "bool", "value": True}}
    assert [each["data_name"] for each in forward["output"]] == ["y.npy", "h.npy", "c.npy"]
    assert [each["requires_grad"] for each in state] == [False, False]
    script = write_script(suspect, tmp_path / "scripts")
    for number in (0, 1):
        zeros = np.load(script.path.with_suffix("") / "target" / f"zeros_{number}.npy")
        assert (zeros.shape, zeros.dtype, zeros.any()) == ((4, 2, 4), np.float32, np.False_)


def test_a_batch_as_long_as_the_sequence_leaves_the_order_to_the_golden(dumps: Dumps) -> None:
    call = called(dumps.suspect("LSTM", lstm(dumps, batch=5, length=5)))
    assert [guess["batch_first"]["value"] for guess in call.guesses] == [False, True]
    assert "batch_first" not in call.sides["target"]["forward"]["input_kwargs"]


def test_a_state_that_was_given_is_taken(dumps: Dumps) -> None:
    entry = lstm(dumps)
    given = [dumps.tensor("h0", 4, 2, 4), dumps.tensor("c0", 4, 2, 4)]
    call = called(dumps.suspect("LSTM", {**entry, "input_args": [*entry["input_args"], given]}))
    assert call.sides["target"]["forward"]["input_args"][1] == given
    assert not call.zeros["target"]


def test_without_a_golden_nothing_shows_what_the_module_was_made_with(dumps: Dumps) -> None:
    with pytest.raises(IncompleteError, match="no golden shows it"):
        recurrent_call(dumps.suspect("LSTM", lstm(dumps), has_golden=False))


def test_another_class_is_none(dumps: Dumps) -> None:
    assert recurrent_call(dumps.suspect("MyLSTM", lstm(dumps))) is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"parameters": {"kernel": {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1]}}}, "other weights"),
        ({"parameters": {}}, "other weights"),
        ({"output": []}, "other arguments or results"),
        ({"input_args": [{"type": "int", "value": 3}]}, "other arguments or results"),
    ],
)
def test_an_entry_that_is_not_of_such_a_module_is_named(dumps: Dumps, change: dict[str, Any], why: str) -> None:
    with pytest.raises(IncompleteError, match=why):
        recurrent_call(dumps.suspect("LSTM", {**lstm(dumps), **change}))


@pytest.mark.parametrize("shape", [[4, 2, 1 << 40], [4, 2, -1], [4, 2, "4"]])
def test_what_a_dump_says_of_a_state_decides_no_allocation(dumps: Dumps, shape: list[Any]) -> None:
    entry = lstm(dumps)
    for state in entry["output"][1]:
        state["shape"] = shape
    with pytest.raises(IncompleteError, match="its entry is not that of a module"):
        recurrent_call(dumps.suspect("LSTM", entry))
