"""Primitives that together are one API: in order, by shapes, without callers, and with their gradients."""

from __future__ import annotations

import pytest
from name_builders import ONLY, assert_complete, catalog, entry_pairs, item_pairs, ref_of

from probe_flow.matching.mapping.match_mapping import match_api_mapping
from probe_flow.records import Catalog, NodeKey, Phase, Slot, SlotRole, TensorRef

IN, OUT = SlotRole.INPUT, SlotRole.OUTPUT


def tensors(entry: str, key: NodeKey, slots: dict[str, tuple[int, ...]]) -> list[TensorRef]:
    found = []
    for text, shape in slots.items():
        role, _, number = text.partition(".")
        found.append(ref_of(key, Slot(SlotRole(role), (int(number),)), logical_shape=shape, item=f"{entry}.{text}"))
    return found


def calls(*entries: tuple[str, dict[str, tuple[int, ...]]], framework: str) -> Catalog:
    refs = []
    for entry, slots in entries:
        name, call, way = entry.rsplit(".", 2)
        refs += tensors(entry, NodeKey(ONLY, name, int(call), Phase(way)), slots)
    return catalog([entry for entry, _ in entries], tensors=refs, framework=framework)


def matmul(number: int, width: int) -> tuple[str, dict[str, tuple[int, ...]]]:
    shapes = {"input.0": (4, 8), "input.1": (width, 8), "output.0": (4, width)}
    return f"Primitive.m.MatMul.{number}.forward", shapes


def bias_add(number: int, width: int) -> tuple[str, dict[str, tuple[int, ...]]]:
    shapes = {"input.0": (4, width), "input.1": (width,), "output.0": (4, width)}
    return f"Primitive.b.BiasAdd.{number}.forward", shapes


def linear(number: int, width: int, *, has_bias: bool = True) -> tuple[str, dict[str, tuple[int, ...]]]:
    shapes = {"input.0": (4, 8), "input.1": (width, 8), **({"input.2": (width,)} if has_bias else {})}
    return f"Functional.linear.{number}.forward", {**shapes, "output.0": (4, width)}


def test_a_matmul_that_only_one_side_has_shifts_nothing() -> None:
    target = calls(matmul(0, 3), matmul(1, 5), bias_add(0, 5), matmul(2, 6), bias_add(1, 6), framework="mindspore")
    golden = calls(linear(0, 5), linear(1, 6), framework="pytorch")

    pairs = match_api_mapping(target, golden)
    found = item_pairs(pairs)
    assert_complete(pairs)
    assert found["Primitive.b.BiasAdd.0.forward.output.0"] == "Functional.linear.0.forward.output.0"
    assert found["Primitive.m.MatMul.2.forward.input.1"] == "Functional.linear.1.forward.input.1"
    assert ("Primitive.m.MatMul.0.forward", None) in entry_pairs(pairs)


def test_a_linear_without_bias_is_a_matmul_alone() -> None:
    target = calls(matmul(0, 5), framework="mindspore")

    pairs = match_api_mapping(target, calls(linear(0, 5, has_bias=False), framework="pytorch"))
    assert_complete(pairs)
    assert all(pair.target and pair.golden for pair in pairs.pairs)
    assert {pair.confidence for pair in pairs.pairs} == {0.8}


@pytest.mark.parametrize("has_bias", [True, False])
def test_the_primitive_of_a_linear_layer_of_mint_is_a_linear(has_bias: bool) -> None:
    golden = linear(0, 5, has_bias=has_bias)
    target = calls(("Primitive.dense.Dense.0.forward", golden[1]), framework="mindspore")

    pairs = match_api_mapping(target, calls(golden, framework="pytorch"))

    assert_complete(pairs)
    assert all(pair.target and pair.golden for pair in pairs.pairs)


def test_gradients_follow_the_forward() -> None:
    norm = {"input.0": (4, 8), "input.1": (8,), "input.2": (8,), "output.0": (4, 8)}
    other = {"input.0": (4, 8), "input.2": (8,), "input.3": (8,), "output.0": (4, 8)}
    back = {"input.0": (4, 8), "output.0": (8,), "output.1": (8,), "output.2": (4, 8)}
    swapped = {"input.0": (4, 8), "output.0": (4, 8), "output.1": (8,), "output.2": (8,)}
    target = calls(
        ("Primitive.n.LayerNorm.0.forward", norm), ("Primitive.n.LayerNorm.0.backward", back), framework="mindspore"
    )
    golden = calls(
        ("Functional.layer_norm.0.forward", other), ("Functional.layer_norm.0.backward", swapped), framework="pytorch"
    )

    found = item_pairs(match_api_mapping(target, golden))
    assert found["Primitive.n.LayerNorm.0.backward.output.0"] == "Functional.layer_norm.0.backward.output.2"
    assert found["Primitive.n.LayerNorm.0.backward.output.2"] == "Functional.layer_norm.0.backward.output.0"
    assert None not in found.values()


def test_a_cell_of_mindspore_is_never_taken_apart_within_one_framework() -> None:
    target = calls(matmul(0, 5), framework="mindspore")

    pairs = match_api_mapping(target, calls(linear(0, 5, has_bias=False), framework="mindspore"))
    assert {pair.rule.name for pair in pairs.pairs} == {"none"}


def test_leading_axes_that_a_kernel_takes_as_one_do_not_part_it_from_its_api() -> None:
    flat = {"input.0": (6, 8), "input.1": (5, 8), "output.0": (6, 5)}
    bias = {"input.0": (6, 5), "input.1": (5,), "output.0": (6, 5)}
    whole = {"input.0": (2, 3, 8), "input.1": (5, 8), "input.2": (5,), "output.0": (2, 3, 5)}
    target = calls(
        ("Primitive.m.MatMul.0.forward", flat), ("Primitive.b.BiasAdd.0.forward", bias), framework="mindspore"
    )

    pairs = match_api_mapping(target, calls(("Functional.linear.0.forward", whole), framework="pytorch"))

    found = item_pairs(pairs)
    assert_complete(pairs)
    assert found["Primitive.m.MatMul.0.forward.input.0"] == "Functional.linear.0.forward.input.0"
    assert found["Primitive.b.BiasAdd.0.forward.output.0"] == "Functional.linear.0.forward.output.0"
    reshaped = [pair for pair in pairs.pairs if pair.reason is not None and pair.reason.kind.is_reshaped]
    assert len(reshaped) == 2


@pytest.mark.parametrize(
    ("one", "other", "are_joined"),
    [
        ((6, 4), (2, 3, 4), True),
        ((2, 3, 4), (24,), True),
        ((3, 8), (2, 3, 4), False),
        ((2, 3), (3, 2), False),
        ((), (1, 1), False),
        (None, (4,), False),
    ],
)
def test_joined_axes_are_the_leading_ones(one, other, are_joined: bool) -> None:
    key = NodeKey(ONLY, "x")
    assert ref_of(key, logical_shape=one).has_axes_joined(ref_of(key, logical_shape=other)) is are_joined


def test_other_elements_of_as_many_are_no_parts() -> None:
    target = calls(
        ("Primitive.m.MatMul.0.forward", {"input.0": (8, 6), "input.1": (5, 8), "output.0": (8, 6)}),
        framework="mindspore",
    )
    whole = {"input.0": (2, 3, 8), "input.1": (5, 8), "output.0": (2, 3, 8)}

    pairs = match_api_mapping(target, calls(("Functional.linear.0.forward", whole), framework="pytorch"))

    assert {pair.rule.name for pair in pairs.pairs} == {"none"}


def test_a_convolution_is_a_primitive_and_a_sum_whose_gradients_come_last_first() -> None:
    target = calls(
        ("Primitive.c.Conv2D.0.forward", {"input.0": (1, 3, 4, 4), "input.1": (6, 3, 1, 1), "output.0": (1, 6, 4, 4)}),
        ("Primitive.b.BiasAdd.0.forward", {"input.0": (1, 6, 4, 4), "input.1": (6,), "output.0": (1, 6, 4, 4)}),
        ("Primitive.b.BiasAdd.0.backward", {"input.0": (1, 6, 4, 4), "output.0": (6,), "output.1": (1, 6, 4, 4)}),
        (
            "Primitive.c.Conv2D.0.backward",
            {"input.0": (1, 6, 4, 4), "output.0": (6, 3, 1, 1), "output.1": (1, 3, 4, 4)},
        ),
        framework="mindspore",
    )
    golden = calls(
        (
            "Functional.conv2d.0.forward",
            {"input.0": (1, 3, 4, 4), "input.1": (6, 3, 1, 1), "input.2": (6,), "output.0": (1, 6, 4, 4)},
        ),
        (
            "Functional.conv2d.0.backward",
            {"input.0": (1, 6, 4, 4), "output.0": (1, 3, 4, 4), "output.1": (6, 3, 1, 1), "output.2": (6,)},
        ),
        framework="pytorch",
    )

    pairs = match_api_mapping(target, golden)

    found, back = item_pairs(pairs), "Functional.conv2d.0.backward"
    assert_complete(pairs)
    assert found["Primitive.b.BiasAdd.0.forward.output.0"] == "Functional.conv2d.0.forward.output.0"
    assert found["Primitive.b.BiasAdd.0.backward.output.0"] == f"{back}.output.2"
    assert found["Primitive.c.Conv2D.0.backward.output.0"] == f"{back}.output.1"
    assert found["Primitive.c.Conv2D.0.backward.output.1"] == f"{back}.output.0"
    assert found["Primitive.c.Conv2D.0.forward.output.0"] is None  # lies inside


def test_a_table_and_its_indices_meet_in_the_other_order() -> None:
    target = calls(
        ("Primitive.g.Gather.0.forward", {"input.0": (9, 4), "input.1": (6,), "output.0": (6, 4)}),
        framework="mindspore",
    )
    golden = calls(
        ("Functional.embedding.0.forward", {"input.0": (2, 3), "input.1": (9, 4), "output.0": (2, 3, 4)}),
        framework="pytorch",
    )

    assert item_pairs(match_api_mapping(target, golden)) == {
        "Primitive.g.Gather.0.forward.input.0": "Functional.embedding.0.forward.input.1",
        "Primitive.g.Gather.0.forward.input.1": "Functional.embedding.0.forward.input.0",
        "Primitive.g.Gather.0.forward.output.0": "Functional.embedding.0.forward.output.0",
    }
