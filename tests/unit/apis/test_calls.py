"""What a dump records of a call: every form of an element, and what is refused with a reason."""

from __future__ import annotations

import math
from typing import Any

import pytest

from probe_flow.apis.calls import (
    MAX_DEPTH,
    Call,
    DeviceArgument,
    DtypeName,
    Plain,
    TensorSpec,
    UnusableError,
    argument_leaves,
    canonical_dtype,
    leaves,
    read_call,
    read_gradients,
    read_tree,
    with_leaves,
)


def tensor(dtype: str = "Float32", shape: Any = (2, 3), **more: Any) -> dict[str, Any]:
    return {"type": "mindspore.Tensor", "dtype": dtype, "shape": list(shape), **more}


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (None, Plain(None)),
        ({"type": "int", "value": 3}, Plain(3)),
        ({"type": "int", "value": -(2**70)}, Plain(-(2**70))),
        ({"type": "float", "value": 1}, Plain(1.0)),
        ({"type": "float", "value": math.inf}, Plain(math.inf)),
        ({"type": "bool", "value": True}, Plain(True)),
        ({"type": "str", "value": "mean"}, Plain("mean")),
        ({"type": "str", "value": ""}, Plain("")),
        ({"type": "slice", "value": [0, None, 2]}, Plain(slice(0, None, 2))),
        ({"type": "mindspore.dtype", "value": "BFloat16"}, DtypeName("bfloat16")),
        ({"type": "torch.dtype", "value": "torch.int64"}, DtypeName("int64")),
        ({"type": "torch.Size", "value": [2, 3]}, Plain((2, 3))),
        ({"type": "torch.device", "value": "npu:0"}, DeviceArgument()),
        ({"type": "ellipsis", "value": "..."}, Plain(...)),
        ({"type": "float64", "value": 0.5}, Plain(0.5)),
        (tensor(), TensorSpec("float32", (2, 3))),
        (tensor(Max=2, Min=-1.5, Mean=0, Norm=3), TensorSpec("float32", (2, 3), -1.5, 2)),
        (tensor("Bool", (), Max=False, Min=True), TensorSpec("bool", (), True, False)),
        (tensor("Int4", (0,)), TensorSpec("int4", (0,))),
        (tensor("BFloat16", data_name="a.npy"), TensorSpec("bfloat16", (2, 3), None, None, "a.npy")),
        (tensor(data_name=""), TensorSpec("float32", (2, 3))),
        (
            {**tensor("torch.float16"), "type": "torch.Tensor", "Max": math.inf, "Max_except_inf_nan": 7.0, "Min": 0},
            TensorSpec("float16", (2, 3), 0, math.inf, finite_high=7.0),
        ),
        ([], ()),
        ([{"type": "int", "value": 1}, [None]], (Plain(1), (Plain(None),))),
        ({"eps": {"type": "int", "value": 1}}, {"eps": Plain(1)}),
    ],
)
def test_each_form_of_an_element(element: object, expected: object) -> None:
    found = read_tree(element)
    assert found == expected
    if isinstance(expected, Plain) and isinstance(found, Plain):
        assert type(found.value) is type(expected.value), "1 is no 1.0 and no True"


@pytest.mark.parametrize(
    ("element", "words"),
    [
        (3, "a bare int"),
        ("text", "a bare str"),
        (True, "a bare bool"),
        ({}, "was not recorded"),
        ({"type": "int"}, "without `value`"),
        ({"type": "int", "value": None}, "type `int`"),
        ({"type": "int", "value": "3"}, "type `int`"),
        ({"type": "int", "value": math.nan}, "type `int` was recorded as nan"),
        ({"type": "int", "value": -math.inf}, "type `int` was recorded as -inf"),
        ({"type": "float", "value": 10**400}, "type `float`"),
        ({"type": "str", "value": 3}, "type `str`"),
        ({"type": "slice", "value": [0, 1]}, "type `slice`"),
        ({"type": "slice", "value": 5}, "type `slice`"),
        ({"type": "NoneType", "value": None}, "type `NoneType`"),
        ({"type": "mystery", "value": 1}, "type `mystery`"),
        ({"type": "mindspore.dtype", "value": "Float128"}, "`Float128` is not known"),
        ({"type": "mindspore.Tensor", "shape": [1]}, "without `dtype` or `shape`"),
        ({"type": "mindspore.Tensor", "dtype": "Int8"}, "without `dtype` or `shape`"),
        (tensor("Float8"), "`Float8` is not known"),
        (tensor(shape=(2, -1)), "is no shape"),
        (tensor(shape=(2, True)), "is no shape"),
        (tensor(shape=("2",)), "is no shape"),
        (tensor(shape=(2.0,)), "is no shape"),
    ],
)
def test_what_cannot_be_made_again_is_refused_with_the_reason(element: object, words: str) -> None:
    with pytest.raises(UnusableError, match=words) as caught:
        read_tree(element)
    assert not caught.value.is_expected, "a hole in the dump, not in what can be checked"


def test_nesting_has_a_bound() -> None:
    element: object = None
    for _ in range(MAX_DEPTH):
        element = [element]
    assert read_tree(element) is not None
    with pytest.raises(UnusableError, match="deeper than 64"):
        read_tree([element])


@pytest.mark.parametrize(
    ("word", "expected"),
    [(f"{sign}Int{bits}", f"{sign}int{bits}".lower()) for sign in ("", "U") for bits in (8, 16, 32, 64)]
    + [("Bool", "bool"), ("Int4", "int4"), ("Float16", "float16"), ("BFloat16", "bfloat16"), ("Float64", "float64")]
    + [("Complex64", "complex64"), ("torch.float8_e4m3fn", "float8_e4m3fn"), ("torch.bool", "bool")],
)
def test_element_types_in_the_words_of_each_framework(word: str, expected: str) -> None:
    assert canonical_dtype(word) == expected


def test_a_call_by_its_entry() -> None:
    entry = {"input_args": [[tensor()], None], "input_kwargs": {"dim": {"type": "int", "value": 1}}, "output": [None]}
    found = read_call("Mint", "cat", entry)
    spec = TensorSpec("float32", (2, 3))
    assert found == Call("Mint", "cat", ((spec,), Plain(None)), {"dim": Plain(1)}, (Plain(None),))
    assert argument_leaves(found) == [((0, 0), spec), ((1,), Plain(None)), (("dim",), Plain(1))]
    assert spec.numel == 6


def test_entries_may_lack_what_is_empty() -> None:
    assert read_call("Mint", "rand", {}) == Call("Mint", "rand", (), {}, ())
    assert read_call("Mint", "rand", {"input_kwargs": None}).kwargs == {}
    assert read_gradients({"input": [None]}).incoming == (Plain(None),)
    assert read_gradients({"input": [None]}).results == ()


@pytest.mark.parametrize("entry", [None, [], 3, {"input_args": {}}, {"input_kwargs": []}, {"output": "x"}])
def test_entries_that_are_none(entry: object) -> None:
    if entry == {"input_kwargs": []}:  # an empty list holds as much as an empty object
        assert read_call("Mint", "a", entry).kwargs == {}
        return
    with pytest.raises(UnusableError):
        read_call("Mint", "a", entry)


@pytest.mark.parametrize("entry", [None, {"input": {}}, {"output": 1}])
def test_backward_entries_that_are_none(entry: object) -> None:
    with pytest.raises(UnusableError):
        read_gradients(entry)


@pytest.mark.parametrize(
    ("api", "expected"),
    [("add_", True), ("__iadd__", True), ("add", False), ("__add__", False), ("linalg.inv", False)],
)
def test_which_calls_change_their_arguments(api: str, expected: bool) -> None:
    assert Call("Tensor", api, (), {}, ()).is_in_place is expected


@pytest.mark.parametrize(
    ("api", "args", "kwargs", "expected"),
    [
        ("relu", (), {"inplace": Plain(value=True)}, True),
        ("relu", (), {"inplace": Plain(value=False)}, False),
        ("hardtanh", (Plain(0), Plain(0), Plain(6), Plain(value=True)), {}, True),
        ("dropout", (Plain(0), Plain(0.5), Plain(value=True), Plain(value=False)), {}, False),
        ("sum", (Plain(0), Plain(1), Plain(value=True)), {}, False),
    ],
)
def test_which_calls_change_what_they_read_by_an_argument(
    api: str, args: tuple[Plain, ...], kwargs: dict[str, Plain], expected: bool
) -> None:
    """A pre-check gives these copies: torch refuses to change a leaf that needs a gradient."""
    assert Call("Functional", api, args, kwargs, ()).is_in_place is expected


def test_leaves_are_replaced_in_their_places() -> None:
    tree = (Plain(1), ({"a": Plain(2)}, ()))
    assert list(leaves(tree)) == [((0,), Plain(1)), ((1, 0, "a"), Plain(2))]
    changed = with_leaves(tree, lambda place, leaf: (place, leaf.value))  # type: ignore[union-attr]
    assert changed == (((0,), 1), ({"a": ((1, 0, "a"), 2)}, ()))
