"""A tensor that is several arguments of a call: MindSpore gives the sum of its gradients, PyTorch each of them."""

from __future__ import annotations

import pytest
from name_builders import ONLY, assert_complete, catalog, item_pairs, ref_of

from probe_flow.matching.mapping.match_mapping import match_cell_mapping
from probe_flow.matching.name.match_name import match_name
from probe_flow.matching.structure.match_structure import match_structure
from probe_flow.records import Catalog, NodeKey, Phase, Slot, SlotRole, TensorKind
from probe_flow.records.reasons import Expectation

QUERY, MEMORY = (2, 6, 8), (2, 9, 8)


def attention(kind: str, framework: str, gradients: list[tuple[int, ...] | None]) -> Catalog:
    """A layer of attention to a memory, forward and backward, with these gradients of its arguments."""
    name = f"{kind}.layer.MultiheadAttention"
    entries = [f"{name}.forward.0", f"{name}.backward.0"]
    keys = [NodeKey(ONLY, name, 0, phase) for phase in (Phase.FORWARD, Phase.BACKWARD)]
    given = [*enumerate((QUERY, MEMORY, MEMORY))]
    refs = [
        ref_of(keys[0], Slot(SlotRole.INPUT, (n,)), logical_shape=shape, item=f"{entries[0]}.input.{n}")
        for n, shape in given
    ]
    refs.append(ref_of(keys[0], logical_shape=QUERY, item=f"{entries[0]}.output.0"))
    refs.append(ref_of(keys[1], Slot(SlotRole.INPUT, (0,)), logical_shape=QUERY, item=f"{entries[1]}.input.0"))
    for number, shape in enumerate(gradients):
        more = {"kind": TensorKind.NULL, "dtype": "", "stored_dtype": ""} if shape is None else {"logical_shape": shape}
        refs.append(ref_of(keys[1], Slot(SlotRole.OUTPUT, (number,)), item=f"{entries[1]}.output.{number}", **more))
    return catalog(entries, tensors=refs, framework=framework)


EACH = [QUERY, MEMORY, MEMORY]
BACK = "Cell.layer.MultiheadAttention.backward.0.output"


@pytest.mark.parametrize("match", [match_cell_mapping, match_structure])
def test_a_sum_of_gradients_is_not_compared_with_one_of_them(match) -> None:
    target = attention("Cell", "mindspore", [QUERY, MEMORY, None])

    pairs = match(target, attention("Module", "pytorch", EACH))

    found = item_pairs(pairs)
    assert_complete(pairs)
    assert found[f"{BACK}.0"] == "Module.layer.MultiheadAttention.backward.0.output.0"
    assert found[f"{BACK}.1"] is None
    why = [pair.reason for pair in pairs.pairs if pair.target is not None and pair.target.item == f"{BACK}.1"]
    assert [reason.expectation for reason in why if reason is not None] == [Expectation.EXPECTED]


def test_gradients_that_both_frameworks_give_are_compared() -> None:
    found = item_pairs(match_cell_mapping(attention("Cell", "mindspore", EACH), attention("Module", "pytorch", EACH)))

    assert None not in found.values()


def test_none_of_pytorch_is_of_an_argument_that_needs_no_gradient() -> None:
    """`x * mask` of equal shapes: PyTorch gives no gradient of the mask, which makes that of `x` no sum."""

    def product(name: str, given: list[bool], *, framework: str) -> Catalog:
        key = NodeKey(ONLY, name, 0, Phase.BACKWARD)
        known = {} if framework == "mindspore" else {"requires_grad": False}
        none = {"kind": TensorKind.NULL, "dtype": "", "stored_dtype": ""}
        incoming = ref_of(key, Slot(SlotRole.INPUT, (0,)), logical_shape=QUERY, **known)
        refs = [
            ref_of(key, Slot(SlotRole.OUTPUT, (n,)), **({"logical_shape": QUERY, **known} if is_given else none))
            for n, is_given in enumerate(given)
        ]
        return catalog([f"{name}.0.backward"], tensors=[incoming, *refs], framework=framework)

    target = product("Tensor.__mul__", [True, True], framework="mindspore")
    pairs = match_cell_mapping(target, product("Tensor.__mul__", [True, False], framework="pytorch")).pairs
    compared = {str(pair.target.slot) for pair in pairs if pair.target is not None and pair.golden is not None}
    assert compared == {"input.0", "output.0"}


def test_within_one_framework_a_gradient_that_is_not_there_hides_no_other() -> None:
    target = attention("Module", "pytorch", [QUERY, MEMORY, None])

    found = item_pairs(match_name(target, attention("Module", "pytorch", EACH)))

    assert found["Module.layer.MultiheadAttention.backward.0.output.1"] is not None
