"""Arguments of calls of APIs of two frameworks: paired by name and shape, whatever their slots are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from name_builders import ONLY, item_pairs, read, ref_of

from probe_flow.errors import Span
from probe_flow.mappings.mapping_file import ClassEntries, Entry
from probe_flow.matching.alike.slots_by_shape import no_slot, pair_foreign_call
from probe_flow.matching.mapping.layers import match_layer_mapping
from probe_flow.matching.shared.parameter_names import argument_name
from probe_flow.records import (
    Expectation,
    NodeKey,
    Pairs,
    Phase,
    Slot,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
)

SPAN = Span("layers.yaml", 1, 1)
CHANNELS = (4,)


def twin_pairs() -> Pairs:
    """The twins under a mapping that names the API inside the layer norm, as `suggest-mapping` writes it."""
    names = {
        "LayerNorm": {"LayerNorm": "layer_norm"},
        "MLP": {"dense1": "fc1", "act": "relu", "dense2": "fc2"},
        "ReLU": {"ReLU": "relu"},
    }
    entries = [
        ClassEntries(owner, SPAN, tuple(Entry(one, other, SPAN) for one, other in children.items()))
        for owner, children in names.items()
    ]
    return match_layer_mapping(read("ms_tensor_base"), read("twin_tensor", "golden"), entries=entries)


def test_gamma_meets_weight_and_beta_meets_bias() -> None:
    # layer_norm(input, normalized_shape, weight, bias, eps); LayerNorm(input, gamma, beta)
    found = item_pairs(twin_pairs())
    name = "Primitive.layer_norm.LayerNorm.0.forward"
    other = "Functional.layer_norm.0.forward"
    assert {slot: found[f"{name}.{slot}"] for slot in ("input.0", "input.1", "input.2", "output.0")} == {
        "input.0": f"{other}.input.0",
        "input.1": f"{other}.input.2",
        "input.2": f"{other}.input.3",
        "output.0": f"{other}.output.0",
    }


def test_gradients_of_arguments_meet_by_shape_and_values() -> None:
    # MindSpore records them in the reverse order of the arguments, PyTorch in their order.
    found = item_pairs(twin_pairs())
    name = "Primitive.layer_norm.LayerNorm.0.backward.output"
    assert [found[f"{name}.{number}"][-1] for number in (0, 1, 2)] == ["2", "1", "0"]


def test_no_argument_is_missing_because_its_slot_differs() -> None:
    pairs = twin_pairs().pairs
    assert not [pair for pair in pairs if pair.reason and pair.reason.expectation is Expectation.MISSING]


def call(api: str, slots: Sequence[int | str], **more: object) -> list[TensorRef]:
    """The inputs of a forward call, each of one shape."""
    key = NodeKey(ONLY, api, 0, Phase.FORWARD)
    return [
        ref_of(key, Slot(SlotRole.INPUT, (slot,)), shape=CHANNELS, logical_shape=CHANNELS, **more) for slot in slots
    ]


def slots(target: Sequence[TensorRef], golden: Sequence[TensorRef]) -> dict[object, object]:
    return {
        one.slot.path[0] if one else None: other.slot.path[0] if other else None
        for one, other in pair_foreign_call(target, golden)
    }


@pytest.mark.parametrize("api", ["Functional.batch_norm", "MintFunctional.batch_norm"])
def test_running_statistics_stand_at_other_places(api: str) -> None:
    # BatchNorm(input, scale, bias, mean, variance) of MindSpore; batch_norm(input, running_mean, running_var, weight,
    # bias): five tensors in slots of equal numbers on both sides, three of them another argument.
    found = slots(call("Primitive.batch_norm.BatchNorm", range(1, 5)), call(api, range(1, 5)))
    assert found == {1: 3, 2: 4, 3: 1, 4: 2}


def test_keywords_meet_by_name_in_any_order() -> None:
    assert slots(call("Primitive.x.LayerNorm", [1, 2]), call("Functional.layer_norm", ["bias", "weight"])) == {
        1: "weight",
        2: "bias",
    }
    assert slots(call("Functional.f", ["beta", "gamma"]), call("Functional.f", ["weight", "bias"])) == {
        "beta": "bias",
        "gamma": "weight",
    }


def test_arguments_without_known_names_meet_by_slot_then_by_order() -> None:
    assert slots(call("Mint.add", [0, 1]), call("Torch.add", [0, 1])) == {0: 0, 1: 1}
    assert slots(call("Mint.f", [0, 1]), call("Torch.f", [0, 2])) == {0: 0, 1: 2}


def test_values_with_as_many_rows_as_the_weight_are_no_weight() -> None:
    # linear of 2 x 6 rows and a weight of 12 rows: MatMul takes the rows as one axis, and both have the shape (12, 24)
    def given(api: str, *shapes: tuple[int, ...]) -> list[TensorRef]:
        key = NodeKey(ONLY, api, 0, Phase.FORWARD)
        return [ref_of(key, Slot(SlotRole.INPUT, (n,)), shape=s, logical_shape=s) for n, s in enumerate(shapes)]

    linear = given("Functional.linear", (2, 6, 24), (12, 24), (12,))
    product = given("Primitive.matmul.MatMul", (12, 24), (12, 24))
    assert slots(product, linear) == {0: 0, 1: 1, None: 2}


def test_names_of_arguments_are_those_of_the_parameters() -> None:
    assert [argument_name("Primitive.norm.BatchNorm", place) for place in range(6)] == [
        "input", "weight", "bias", "running_mean", "running_var", None,
    ]  # fmt: skip
    assert argument_name("Functional.add", 0) is None
    assert argument_name("Functional.add", "moving_mean") == "running_mean"


def gradient(number: int, api: str, high: float) -> TensorRef:
    return ref_of(
        NodeKey(ONLY, api, 0, Phase.BACKWARD),
        Slot(SlotRole.OUTPUT, (number,)),
        shape=CHANNELS,
        logical_shape=CHANNELS,
        kind=TensorKind.STATISTICS,
        recorded=Statistics(max=high, min=-1.0, mean=0.0, l2norm=high + 1.0),
    )


def test_gradients_take_the_order_in_which_most_values_agree() -> None:
    # The gradient of one argument is wrong; that of the other says which is which.
    target = [gradient(0, "Primitive.f.F", 7.0), gradient(1, "Primitive.f.F", 2.0)]
    golden = [gradient(0, "Functional.f", 2.0), gradient(1, "Functional.f", 3.0)]
    assert slots(target, golden) == {0: 1, 1: 0}


def test_those_of_primitives_come_from_the_last_argument_to_the_first() -> None:
    target = [gradient(0, "Primitive.f.F", 7.0), gradient(1, "Primitive.f.F", 2.0)]
    wrong = [gradient(0, "Functional.f", 50.0), gradient(1, "Functional.f", 90.0)]
    assert slots(target, wrong) == {0: 1, 1: 0}
    near = [gradient(0, "Functional.f", 6.8), gradient(1, "Functional.f", 90.0)]  # behind a fault, by accident
    assert slots(target, near) == {0: 1, 1: 0}
    equal = [gradient(0, "Functional.f", 7.0), gradient(1, "Functional.f", 90.0)]
    assert slots(target, equal) == {0: 0, 1: 1}
    assert slots([gradient(n, "Functional.f", 7.0 - n) for n in (0, 1)], wrong) == {0: 0, 1: 1}


def test_a_gradient_that_only_one_framework_gives_stays_alone() -> None:
    # of y * log(p) PyTorch gives no gradient of the labels y, MindSpore gives both
    both = [gradient(0, "Tensor.__mul__", 0.9), gradient(1, "Tensor.__mul__", 0.2)]
    one = [gradient(1, "Tensor.__mul__", 0.2)]
    assert slots(both, one) == {0: None, 1: 1}
    assert slots(both, [gradient(1, "Tensor.__mul__", 0.7)]) == {0: None, 1: 1}  # a wrong one, too
    assert slots(both, [gradient(0, "Tensor.__mul__", 0.2)]) == {0: None, 1: 0}


def test_a_result_without_partner_is_missing_and_further_outputs_are_not() -> None:
    key = NodeKey(ONLY, "Primitive.layer_norm.LayerNorm", 0, Phase.FORWARD)
    found = [
        no_slot(ref_of(key, Slot(SlotRole.OUTPUT, (n,))), is_target=True, is_foreign=True, is_row=False) for n in (0, 1)
    ]
    assert [reason.expectation for reason in found] == [Expectation.MISSING, Expectation.EXPECTED]
    assert "gives other tensors" in found[1].text
