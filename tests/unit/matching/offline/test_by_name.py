"""Offline dumps of one kind without rules: operators of one name, what differs, what stands in the same place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from offline_builders import by_golden, by_target, check_complete, codes, match, partners, values
from om_writer import GoldenFolder, OmFolder, OmTensor, om_tree, tensor

X = np.arange(6, dtype=np.float32).reshape(2, 3)
IMAGE = np.arange(2 * 5 * 3 * 4, dtype=np.float32).reshape(2, 5, 3, 4)


@pytest.fixture
def sides(tmp_path: Path) -> tuple[OmFolder, OmFolder]:
    return OmFolder(tmp_path / "target"), OmFolder(tmp_path / "golden")


def test_operators_of_one_name_are_compared_tensor_by_tensor(sides: tuple[OmFolder, OmFolder]) -> None:
    for side in sides:
        side.op("Relu", "a/x", at=1, inputs=[X], outputs=[X])
        side.op("Add", "b", at=2, inputs=[X, X], outputs=[X])
    pairs = match(sides[0].path, sides[1].path)
    ids = ["a/x.input.0", "a/x.output.0", "b.input.0", "b.input.1", "b.output.0"]
    assert partners(pairs) == {name: name for name in ids}
    assert {(pair.rule.name, pair.confidence) for pair in pairs.pairs} == {("name", 1.0)}
    assert [group.id for group in pairs.groups] == ["0", "1"]
    check_complete(pairs)


def test_names_of_headers_and_of_files_are_one(sides: tuple[OmFolder, OmFolder]) -> None:
    sides[0].op("Relu", "a/x", at=1, outputs=[X])
    sides[1].op("Relu", "a/x", at=1, outputs=[X], header_name="")
    assert partners(match(sides[0].path, sides[1].path)) == {"a/x.output.0": "a_x.output.0"}


def test_operators_of_one_side_say_so(sides: tuple[OmFolder, OmFolder]) -> None:
    for side in sides:
        side.op("Relu", "both", at=1, outputs=[X])
    sides[0].op("Relu", "only_left", at=2, outputs=[X])
    sides[1].op("Relu", "only_right", at=2, outputs=[X])
    pairs = match(sides[0].path, sides[1].path)
    left, right = by_target(pairs)["only_left.output.0"], by_golden(pairs)["only_right.output.0"]
    assert left.reason is not None
    assert right.reason is not None
    assert (left.reason.code, right.reason.code) == ("no_golden_dump", "no_target_dump")
    assert left.reason.text.startswith("the golden has no operator of this name: ")
    assert right.reason.text.startswith("the target has no operator of this name: ")
    assert (left.group, right.group) == ("1", "2")
    check_complete(pairs)


def test_other_shapes_and_numbers_of_tensors(sides: tuple[OmFolder, OmFolder]) -> None:
    sides[0].op("Mul", "m", at=1, inputs=[X], outputs=[X])
    sides[1].op("Mul", "m", at=1, inputs=[X, X], outputs=[X.reshape(6)])
    pairs = match(sides[0].path, sides[1].path)
    reason = by_target(pairs)["m.output.0"].reason
    assert reason is not None
    assert (reason.code, reason.facts) == ("no_rule_shape", ("(2, 3)", "(6)"))
    assert reason.text.startswith("the target has shape (2, 3), the golden (6): ")
    reason = by_golden(pairs)["m.input.1"].reason
    assert reason is not None
    assert (reason.code, reason.facts) == ("no_rule_count", ("input", "1", "2"))
    assert reason.text.startswith("the operator has 1 inputs in the target and 2 in the golden: ")
    assert partners(pairs)["m.input.0"] == "m.input.0"


def test_one_tensor_in_two_layouts_is_compared_without_padding(sides: tuple[OmFolder, OmFolder]) -> None:
    sides[0].op("Conv2D", "c", at=1, outputs=[tensor(IMAGE, layout="NC1HWC0")])
    sides[1].op("Conv2D", "c", at=1, outputs=[tensor(IMAGE, layout="NCHW")])
    pair = by_target(match(sides[0].path, sides[1].path))["c.output.0"]
    assert pair.reason is None
    np.testing.assert_array_equal(*values(pair))


def test_private_layouts_of_unknown_shape_are_compared_as_they_are_stored(sides: tuple[OmFolder, OmFolder]) -> None:
    for side in sides:
        side.op("Conv2D", "c", at=1, outputs=[tensor(IMAGE, layout="NC1HWC0", original_shape=None)])
    pair = by_target(match(sides[0].path, sides[1].path))["c.output.0"]
    assert pair.reason is None
    target, golden = values(pair)
    np.testing.assert_array_equal(target, golden)
    assert target.size == 2 * 1 * 3 * 4 * 16


def test_operators_that_the_device_numbers_anew_pair_by_place(sides: tuple[OmFolder, OmFolder]) -> None:
    for side, shift in zip(sides, (0, 3), strict=True):
        side.op("Relu", "a", at=1, outputs=[X])
        side.op("TransData", f"trans_TransData_{5 + shift}", at=2, outputs=[X])
        side.op("Relu", "b", at=3, outputs=[X])
        side.op("TransData", f"trans_TransData_{8 + 10 * shift}", at=4, outputs=[X])
    pairs = match(sides[0].path, sides[1].path)
    found = by_target(pairs)
    assert partners(pairs)["trans_TransData_5.output.0"] == "trans_TransData_8.output.0"
    assert partners(pairs)["a.output.0"] == "a.output.0"
    guess = found["trans_TransData_5.output.0"]
    assert (guess.rule.name, guess.confidence, guess.reason.code) == ("order", 0.6, "guessed")  # type: ignore[union-attr]


def test_one_more_on_one_side_pairs_nothing_by_place(sides: tuple[OmFolder, OmFolder]) -> None:
    for side in sides:
        side.op("Relu", "a", at=1, outputs=[X])
        side.op("Relu", "b", at=5, outputs=[X])
    sides[0].op("Cast", "trans_Cast_1", at=2, outputs=[X])
    for number in (2, 3):
        sides[1].op("Cast", f"trans_Cast_{number}", at=number, outputs=[X])
    pairs = match(sides[0].path, sides[1].path)
    assert codes(by_target(pairs)) == {"trans_Cast_1.output.0": "no_golden_dump missing"}
    assert len(by_golden(pairs)) == 2


def test_arrays_against_arrays(tmp_path: Path) -> None:
    for name in ("target", "golden"):
        folder = GoldenFolder(tmp_path / name)
        folder.output("a/b", 0, X)
        folder.output("a/b", 1, X)
    GoldenFolder(tmp_path / "golden", at=9).output("more", 0, X)
    pairs = match(tmp_path / "target", tmp_path / "golden")
    assert partners(pairs) == {"a_b.output.0": "a_b.output.0", "a_b.output.1": "a_b.output.1"}
    assert codes(by_golden(pairs)) == {"more.output.0": "no_target_dump missing"}
    check_complete(pairs)


def test_models_are_told_apart_by_name_where_the_device_numbers_them_anew(tmp_path: Path) -> None:
    for side, model_id in (("target", 1), ("golden", 4)):
        for model in ("first", "second"):
            for step in (0, 1):
                folder = OmFolder(om_tree(tmp_path / side, model=model, model_id=model_id, step=step))
                folder.op("Relu", "r", at=step + 1, outputs=[X + step])
            model_id += 1
    pairs = match(tmp_path / "target", tmp_path / "golden")
    runs = {
        (pair.target.node.execution, pair.golden.node.execution)
        for pair in pairs.pairs
        if pair.target is not None and pair.golden is not None
    }
    assert len(runs) == 4
    assert all((mine.model, mine.step) == (other.model, other.step) for mine, other in runs)
    assert {group.id for group in pairs.groups} == {"0/0", "1/0", "2/0", "3/0"}
    check_complete(pairs)


def test_a_step_of_one_side_is_left_with_a_reason(tmp_path: Path) -> None:
    for side, steps in (("target", (0, 1)), ("golden", (0, 2))):
        for step in steps:
            OmFolder(om_tree(tmp_path / side, step=step)).op("Relu", "r", at=step + 1, outputs=[X])
    pairs = match(tmp_path / "target", tmp_path / "golden")
    reasons = sorted(pair.reason.code for pair in pairs.pairs if pair.reason)
    assert reasons == ["no_golden_execution", "no_target_execution"]
    assert {problem.code for problem in pairs.problems} == {"PF4203"}
    check_complete(pairs)


def test_addresses_tell_who_feeds_whom(sides: tuple[OmFolder, OmFolder]) -> None:
    for side in sides:
        side.op("Relu", "a", at=1, outputs=[tensor(X, address=512)])
        side.op("Relu", "b", at=2, inputs=[tensor(X, address=512)], outputs=[tensor(X, address=512)])
        side.op("Relu", "c", at=3, inputs=[tensor(X, address=512), tensor(X[:1], address=512)], outputs=[X])
    edges = match(sides[0].path, sides[1].path).target.edges
    assert [(edge.producer.name, edge.consumer.name, edge.input) for edge in edges] == [("a", "b", 0), ("b", "c", 0)]


@pytest.mark.parametrize(
    ("given", "is_fed"),
    [
        (tensor(X.reshape(6), address=512), True),
        (tensor(X.reshape(6), layout="FRACTAL_NZ", address=512), False),
        (tensor(X.reshape(6), "float16", address=512), False),
        (tensor(X.reshape(6)[:4], address=512), False),
    ],
)
def test_a_view_without_file_lies_between_two_shapes_at_one_address(
    sides: tuple[OmFolder, OmFolder], given: OmTensor, *, is_fed: bool
) -> None:
    for side in sides:
        side.op("Transpose", "a", at=1, outputs=[tensor(X, address=512)])
        side.op("MatMul", "b", at=2, inputs=[given], outputs=[X])
    edges = match(sides[0].path, sides[1].path).target.edges
    assert [(edge.producer.name, edge.consumer.name) for edge in edges] == ([("a", "b")] if is_fed else [])


def test_inputs_of_operators_of_another_type_are_a_guess(tmp_path: Path) -> None:
    values = np.arange(8, dtype=np.float16).reshape(2, 4)
    sides = {"target": ("LayerNormScale", "Relu"), "golden": ("LayerNorm", "Relu")}
    for side, types in sides.items():
        folder = OmFolder(tmp_path / side)
        for at, (name, op_type) in enumerate(zip(("ln", "act"), types, strict=True), start=1):
            given = tensor(values, "float16", address=0x1000 * at)
            made = tensor(values, "float16", address=0x1000 * (at + 1))
            folder.op(op_type, name, at=at, inputs=[given], outputs=[made])
    found = by_target(match(tmp_path / "target", tmp_path / "golden"))
    assert {name: (pair.rule.name, pair.confidence) for name, pair in found.items()} == {
        "ln.input.0": ("name", 0.6), "ln.output.0": ("name", 1.0),
        "act.input.0": ("name", 1.0), "act.output.0": ("name", 1.0),
    }  # fmt: skip
    reason = found["ln.input.0"].reason
    assert reason is not None
    assert (reason.code, reason.text) == (
        "guessed", "`LayerNormScale` and `LayerNorm` of one name: their inputs may be others"
    )  # fmt: skip
