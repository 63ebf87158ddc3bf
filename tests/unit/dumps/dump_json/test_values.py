"""Tensors with the usual facts take a shorter way through the reader; what they become is the same."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe_flow.dumps.dump_json.problems import ProblemList
from probe_flow.dumps.dump_json.tensor_files import TensorFiles
from probe_flow.dumps.dump_json.values import Flattened, Flattener
from probe_flow.records import Execution, NodeKey, NodeKind, Statistics, TensorKind

NODE = NodeKey(Execution(), "Functional.linear")
USUAL = {
    "type": "torch.Tensor",
    "dtype": "torch.float32",
    "shape": [2, 3],
    "Max": 2.5,
    "Min": -1.5,
    "Mean": 0.25,
    "Norm": 4.0,
    "requires_grad": False,
}


class Careful(Flattener):
    """Takes the long way for every tensor."""

    def _usual(self, *_: object) -> None:
        return None


def read(kind: type[Flattener], *leaves: Any) -> list[Flattened]:
    """Read entries with one output list each, after usual ones that make shape and dtype known."""
    flattener = kind("dump.json", TensorFiles(Path("nowhere"), ProblemList("dump.json")))
    found = []
    for value in ({"output": [USUAL, USUAL]}, {"output": [USUAL, USUAL]}, {"output": list(leaves)}):
        found.append(Flattened())
        flattener.flatten(value, name="f.0.forward", kind=NodeKind.API, node=NODE, result=found[-1])
    return found


def test_a_usual_tensor_by_hand() -> None:
    tensor = read(Flattener, {**USUAL, "requires_grad": True})[-1].tensors[0]

    assert (tensor.kind, tensor.dtype, tensor.stored_dtype) == (TensorKind.STATISTICS, "float32", "torch.float32")
    assert tensor.shape == tensor.logical_shape == (2, 3)
    assert tensor.recorded == Statistics(min=-1.5, max=2.5, mean=0.25, l2norm=4.0)
    assert tensor.item == "f.0.forward.output.0"
    assert tensor.requires_grad is True
    assert tensor.source == "dump.json"


ODD = [
    {"shape": [True, 3]},
    {"shape": [2.0, 3]},
    {"shape": ["2", 3]},
    {"shape": "23"},
    {"shape": None},
    {"shape": [[2], 3]},
    {"shape": [2, 3, 4]},
    {"shape": []},
    {"dtype": ["torch.float32"]},
    {"dtype": "torch.int64", "Max": 3, "Min": 1, "Mean": None, "Norm": None},
    {"type": 5},
    {"type": "mindspore.Tensor"},
    {"Max": "3.5"},
    {"Max": True},
    {"Max": 10**400},
    {"Norm": math.nan, "Max": math.inf},
    {"requires_grad": "True"},
    {"requires_grad": None},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_tensors_are_read_with_care(odd: dict[str, object]) -> None:
    leaf = {**USUAL, **odd}
    assert repr(read(Flattener, leaf, USUAL)) == repr(read(Careful, leaf, USUAL))


def test_eight_other_keys_are_read_with_care() -> None:
    leaf = {key: value for key, value in USUAL.items() if key != "Norm"} | {"md5": "00000000"}
    assert repr(read(Flattener, leaf)) == repr(read(Careful, leaf))


VALUES = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.floats(), st.sampled_from(["", "1", "torch.half"]))


@given(st.dictionaries(st.sampled_from(list(USUAL)), st.one_of(VALUES, st.lists(VALUES, max_size=3))))
def test_any_facts_are_read_alike(odd: dict[str, object]) -> None:
    assert repr(read(Flattener, {**USUAL, **odd})) == repr(read(Careful, {**USUAL, **odd}))
