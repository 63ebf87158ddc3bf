"""A device dump against arrays without any rule file: what is guessed, how sure, and what is left open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from offline_builders import Case, by_golden, by_target, check_complete, codes, match, partners, values
from om_writer import tensor

from probe_flow.matching.offline.name_parts import NameParts
from probe_flow.records import Expectation


def numbers(*shape: int) -> np.ndarray:
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32).reshape(shape)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def guesses(case: Case) -> dict[str, tuple[str, str, float]]:
    pairs = case.match()
    check_complete(pairs)
    found = {}
    for name, pair in by_target(pairs).items():
        if pair.golden is not None:
            assert pair.confidence < 1
            assert pair.reason is not None
            assert pair.reason.code == "guessed"
            assert "guess" in pair.reason.text
            assert pair.reason.expectation is Expectation.EXPECTED
            found[name] = (pair.golden.id, pair.rule.name, round(pair.confidence, 2))
    return found


def test_equal_names_come_first(case: Case) -> None:
    case.device("Relu", "a/b", outputs=[numbers(2, 3)])
    case.golden.output("a/b", 0, numbers(2, 3))
    case.golden.output("other", 0, numbers(2, 3))
    assert guesses(case) == {"a/b.output.0": ("a_b.output.0", "name", 0.9)}
    assert [problem.code for problem in case.match().problems] == ["PF4406"]


def test_the_name_of_a_fused_operator_is_taken_apart(case: Case) -> None:
    case.device("Conv2D", "net/conv1net/relu1", outputs=[tensor(numbers(1, 5, 3, 3), layout="NC1HWC0")])
    for name in ("net/conv1", "net/bn1", "net/relu1"):
        case.golden.output(name, 0, numbers(1, 5, 3, 3))
    assert guesses(case) == {"net/conv1net/relu1.output.0": ("net_relu1.output.0", "name_parts", 0.8)}
    left = codes(by_golden(case.match()))
    assert left == {"net_conv1.output.0": "internal expected", "net_bn1.output.0": "internal expected"}


def folding(case: Case, op_type: str, *devices: str) -> dict[str, tuple[str, str, float]]:
    """Return the pairs of a convolution, a norm and its scale, then a rectifier, of which the device has some."""
    for name in ("conv1", *devices, "relu1"):
        case.device(op_type if name == "conv1" else "Relu", name, outputs=[numbers(1, 5, 3, 3)])
    for name in ("conv1", "bn1", "scale1", "relu1"):
        case.golden.output(name, 0, numbers(1, 5, 3, 3))
        case.golden.output(f"{name}_weights", 0, numbers(5))
    return guesses(case)


def test_what_the_device_has_not_behind_a_product_is_folded_into_it(case: Case) -> None:
    assert folding(case, "Conv2D") == {
        "conv1.output.0": ("scale1.output.0", "folded", 0.7),
        "relu1.output.0": ("relu1.output.0", "name", 0.9),
    }
    left = codes(by_golden(case.match()))
    assert {left["conv1.output.0"], left["bn1.output.0"]} == {"internal expected"}


def test_what_is_no_part_of_weights_is_not_folded(case: Case) -> None:
    """The device may compute it together with what reads it, under the name of that."""
    for op_type, name in (("Conv2D", "conv"), ("Swish", "mul")):
        case.device(op_type, name, outputs=[numbers(1, 5, 3, 3)])
    for name in ("conv", "conv_bn", "sigmoid", "mul"):
        case.golden.output(name, 0, numbers(1, 5, 3, 3))
    assert {name: golden for name, (golden, _, _) in guesses(case).items()} == {
        "conv.output.0": "conv_bn.output.0",
        "mul.output.0": "mul.output.0",
    }


def test_what_the_device_has_under_its_own_name_is_not_folded(case: Case) -> None:
    found = folding(case, "Conv2D", "bn1", "scale1")
    assert {(name, golden, rule) for name, (golden, rule, _) in found.items()} == {
        (f"{name}.output.0", f"{name}.output.0", "name") for name in ("conv1", "bn1", "scale1", "relu1")
    }


def test_an_operator_that_folds_nothing_is_paired_by_its_name(case: Case) -> None:
    assert folding(case, "Relu")["conv1.output.0"] == ("conv1.output.0", "name", 0.9)


def test_the_only_tensor_of_a_shape_between_the_same_pairs(case: Case) -> None:
    case.device("Relu", "a", outputs=[numbers(2, 3)])
    case.device("Odd", "device_name", outputs=[tensor(numbers(1, 4, 2, 5), layout="NC1HWC0")])
    case.device("Relu", "b", outputs=[numbers(2, 3)])
    case.golden.output("a", 0, numbers(2, 3))
    case.golden.output("golden_name", 0, numbers(1, 4, 2, 5))
    case.golden.output("b", 0, numbers(2, 3))
    assert guesses(case)["device_name.output.0"] == ("golden_name.output.0", "shape", 0.6)


@pytest.mark.parametrize(("others", "words"), [("NHWC", ("golden:nhwc_to_nchw",)), ("NCHW", ())])
def test_axes_that_fit_in_two_orders_are_in_that_of_the_others(case: Case, others: str, words: tuple[str, ...]) -> None:
    """Eight channels of eight by eight: the shape alone does not say which axis the channels are."""
    square, plain = numbers(1, 8, 8, 8), numbers(1, 24, 8, 8)
    order = (0, 2, 3, 1) if others == "NHWC" else (0, 1, 2, 3)
    case.device("Conv2D", "square", outputs=[tensor(square, layout="NC1HWC0")])
    case.device("Conv2D", "plain", outputs=[tensor(plain, layout="NC1HWC0")])
    case.golden.output("square", 0, np.ascontiguousarray(square.transpose(order)))
    case.golden.output("plain", 0, np.ascontiguousarray(plain.transpose(order)))

    pairs = case.match()
    pair = by_target(pairs)["square.output.0"]
    assert pair.transform == words
    mine, other = values(pair)
    np.testing.assert_array_equal(mine, other)


def test_as_many_of_a_shape_on_both_sides_are_taken_in_order(case: Case) -> None:
    for number in (1, 2):
        case.device("Odd", f"mine{number}", outputs=[numbers(2, 3)])
        case.golden.output(f"golden{number}", 0, numbers(2, 3))
    assert guesses(case) == {f"mine{n}.output.0": (f"golden{n}.output.0", "order", 0.4) for n in (1, 2)}


def test_what_several_could_be_stays_open_and_names_them(case: Case) -> None:
    case.device("Odd", "mine", outputs=[numbers(2, 3)])
    for number in (1, 2, 3, 4):
        case.golden.output(f"golden{number}", 0, numbers(2, 3))
    assert guesses(case) == {}
    pairs = case.match()
    reason = by_target(pairs)["mine.output.0"].reason
    assert reason is not None
    assert reason.code == "ambiguous"
    assert "`golden1.output.0` or `golden2.output.0` or `golden3.output.0` or 1 more" in reason.text
    assert set(codes(by_golden(pairs)).values()) == {"ambiguous missing"}


def test_channels_last_is_seen_by_shape(case: Case) -> None:
    logical = numbers(1, 5, 3, 4)
    case.device("Conv2D", "conv", outputs=[tensor(logical, layout="NC1HWC0")])
    case.golden.output("conv", 0, logical.transpose(0, 2, 3, 1))
    pair = by_target(case.match())["conv.output.0"]
    np.testing.assert_array_equal(*values(pair))


def test_inputs_follow_addresses_through_casts(case: Case) -> None:
    x = numbers(2, 3)
    case.device("Relu", "a", outputs=[tensor(x, address=64)])
    case.device("Cast", "trans_Cast_1", inputs=[tensor(x, address=64)], outputs=[tensor(x, "float16", address=128)])
    case.device("Relu", "b", inputs=[tensor(x, "float16", address=128)], outputs=[x])
    for name in ("a", "b"):
        case.golden.output(name, 0, x)
    found = guesses(case)
    assert found["trans_Cast_1.input.0"] == ("a.output.0", "address", 0.81)
    assert found["trans_Cast_1.output.0"] == ("a.output.0", "address", 0.73)
    assert found["b.input.0"] == ("a.output.0", "address", 0.66)
    edges = case.match().target.edges
    assert [(edge.producer.name, edge.consumer.name) for edge in edges] == [
        ("a", "trans_Cast_1"),
        ("trans_Cast_1", "b"),
    ]


def test_inputs_that_the_golden_has_too(case: Case) -> None:
    case.device("Relu", "a", inputs=[numbers(2, 3)], outputs=[numbers(2, 3)])
    case.golden.output("a", 0, numbers(2, 3))
    case.golden.input("a", 0, numbers(2, 3))
    assert guesses(case)["a.input.0"] == ("a.input.0", "input", 0.6)


def test_what_nothing_fits_says_so(case: Case) -> None:
    case.device("Odd", "mine", inputs=[numbers(2, 3)], outputs=[numbers(7)])
    case.golden.output("golden", 0, numbers(2, 3))
    pairs = case.match()
    assert codes(by_target(pairs)) == {"mine.input.0": "no_rules expected", "mine.output.0": "no_rules missing"}
    assert codes(by_golden(pairs)) == {"golden.output.0": "no_rules missing"}


def test_equal_names_of_other_shapes_are_no_pair(case: Case) -> None:
    case.device("Relu", "a", outputs=[numbers(7)])
    case.golden.output("a", 0, numbers(2, 3))
    assert partners(case.match()) == {}


def test_long_dumps_of_one_shape_end_quickly(tmp_path: Path) -> None:
    case = Case(tmp_path)
    for number in range(60):
        case.device("Odd", f"mine{number}", outputs=[numbers(3)])
    for number in range(80):
        case.golden.output(f"golden{number}", 0, numbers(3))
    pairs = match(case.target.path, case.golden.path)
    assert partners(pairs) == {}
    check_complete(pairs)


@pytest.mark.parametrize(
    ("known", "name", "parts"),
    [
        (["a", "ab", "b", "c"], "abc", ["ab", "c"]),
        (["a", "ab", "bcd"], "abcd", ["a", "bcd"]),
        (["a"], "a", []),
        (["a", "b"], "abx", []),
        (["a"], "aaaa", ["a", "a", "a", "a"]),
        ([], "x", []),
        (["x"], "", []),
        (["a"], "a" * 5000, []),
    ],
)
def test_names_are_read_as_known_names(known: list[str], name: str, parts: list[str]) -> None:
    assert list(NameParts(known).of(name)) == parts
