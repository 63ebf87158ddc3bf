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
from probe_flow.records import NAMED_BY, Execution, NodeKey, NodeKind, Phase, Statistics, TensorKind

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
    flattener.finish()
    return found


def test_a_usual_tensor_by_hand() -> None:
    tensor = read(Flattener, {**USUAL, "requires_grad": True})[-1].tensors[0]

    assert (tensor.kind, tensor.dtype, tensor.stored_dtype) == (TensorKind.STATISTICS, "float32", "torch.float32")
    assert tensor.shape == tensor.logical_shape == (2, 3)
    assert tensor.recorded == Statistics(min=-1.5, max=2.5, mean=0.25, l2norm=4.0)
    assert tensor.item == "f.0.forward.output.0"
    assert tensor.requires_grad is True
    assert tensor.source == "dump.json"


SECTIONS = {
    "input_args": [USUAL, {"type": "int", "value": 2}, [USUAL, None]],
    "input_kwargs": {"eps": USUAL},
    "parameters": {"weight": USUAL},
    "output": USUAL,
}
OF_SECTIONS = ["input.0", "input.1", "input.2.0", "input.2.1", "input.eps", "parameters.weight", "output.0"]


@pytest.mark.parametrize(
    ("entry", "kind", "node", "value", "rest"),
    [
        ("Tensor.add.5.forward", NodeKind.API, ("Tensor.add", 5, Phase.FORWARD), SECTIONS, OF_SECTIONS),
        ("Module.fc.Fc.backward.3", NodeKind.MODULE, ("Module.fc.Fc", 3, Phase.BACKWARD), SECTIONS, OF_SECTIONS),
        (
            "Module.fc.Fc.parameters_grad.1",
            NodeKind.PARAMETERS_GRAD,
            ("Module.fc.Fc.parameters_grad", 1, Phase.NONE),
            {"weight": [USUAL], "bias": [USUAL]},
            ["weight", "bias"],
        ),
        ("y.4.debug", NodeKind.DEBUG, ("y", 4, Phase.NONE), [USUAL, [USUAL]], ["0", "1.0"]),
    ],
)
@pytest.mark.parametrize("is_regular", [True, False])
def test_items_are_named_by_their_entry_whether_or_not_that_follows_from_the_node(
    entry: str, kind: NodeKind, node: tuple[str, int, Phase], value: Any, rest: list[str], is_regular: bool
) -> None:
    key = NodeKey(Execution(), *node) if is_regular else NODE
    found = Flattened()
    Flattener("dump.json", TensorFiles(Path("nowhere"), ProblemList("dump.json"))).flatten(
        value, name=entry, kind=kind, node=key, result=found
    )

    assert [tensor.item for tensor in found.tensors] == [f"{entry}.{each}" for each in rest]
    plain = [tensor.facts for tensor in found.tensors if tensor.kind is TensorKind.STATISTICS]
    assert [facts is NAMED_BY[kind] for facts in plain] == [is_regular] * len(plain)


def test_a_value_saved_alone_is_named_by_its_entry_alone() -> None:
    found = Flattened()
    Flattener("debug.json", TensorFiles(Path("nowhere"), ProblemList("debug.json"))).flatten(
        USUAL, name="y.4.debug", kind=NodeKind.DEBUG, node=NodeKey(Execution(), "y", 4, Phase.NONE), result=found
    )

    assert [tensor.item for tensor in found.tensors] == ["y.4.debug"]


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
