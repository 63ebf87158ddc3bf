"""Which pairs can be measured, why others cannot, and what is made of recorded figures and plain values."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from probe_flow.errors import CODES
from probe_flow.measure.results import incomparable, measurement_without_data
from probe_flow.records import (
    Execution,
    Expectation,
    Mode,
    NodeKey,
    Pair,
    Reason,
    Rule,
    Slot,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
)
from tests.support.rules import kind_of

T, S, V, Q, N, X = (
    TensorKind.TENSOR, TensorKind.STATISTICS, TensorKind.SCALAR, TensorKind.OPAQUE, TensorKind.NULL,
    TensorKind.UNREADABLE,
)  # fmt: skip
KNOWN = Statistics(min=-1.0, max=2.0, mean=0.5, l2norm=3.0)


LEAST = {"min": -3.4028234663852886e38, "mean": -6e37, "l2norm": 3.4e38}
"""A mask of the least number."""


def ref(kind=T, shape=(2, 3), **more):
    fields = {"dtype": "float32", "shape": shape, "logical_shape": shape, **more}
    if kind is S and "recorded" not in more:
        fields["recorded"] = KNOWN
    return TensorRef.of(NodeKey(Execution(), "op"), Slot(SlotRole.OUTPUT), kind, **fields)


def pair(target, golden):
    return Pair(target, golden, "g", Rule("exact"))


@pytest.mark.parametrize(
    ("target", "golden", "code"),
    [
        (T, T, None), (S, S, None), (V, V, None), (N, N, None),
        (T, S, None), (S, T, None), (T, V, "PF5104"), (V, S, "PF5104"), (N, T, "PF5104"), (S, N, "PF5104"),
        (V, N, "PF5104"), (T, Q, "PF5103"), (Q, T, "PF5103"), (Q, Q, "PF5103"), (X, T, "PF3191"), (T, X, "PF3191"),
        (X, X, "PF3191"), (Q, X, "PF5103"), (X, Q, "PF3191"),
    ],
)  # fmt: skip
def test_kinds_that_can_be_measured(target, golden, code):
    found = incomparable(pair(ref(target), ref(golden)))
    assert (found.code if found else None) == code
    assert found is None or found.code in CODES


def test_an_unreadable_side_says_which_and_why():
    found = incomparable(pair(ref(), ref(X, reason="cut off", source="x.npy")))
    assert found.message == "the golden is unreadable: cut off"
    assert found.path == "x.npy"


def test_element_counts_decide_shapes_do_not():
    found = incomparable(pair(ref(shape=(2, 3)), ref(shape=(7,))))
    assert found.code == "PF5102"
    assert found.message == "Shape mismatch: target [2, 3] has 6 elements, golden [7] has 7"
    assert incomparable(pair(ref(shape=(2, 3)), ref(shape=(6,)))) is None
    assert incomparable(pair(ref(shape=()), ref(shape=(1,)))) is None
    assert incomparable(pair(ref(S, shape=(2, 3)), ref(S, shape=(7,)))).code == "PF5102"
    # A padded device tensor counts by what it means.
    assert incomparable(pair(ref(shape=(1, 1, 16, 16), logical_shape=(2, 3)), ref())) is None


@pytest.mark.parametrize("code", ["shape_mismatch", "blocks_mismatch"])
def test_shapes_that_a_matcher_cannot_bring_together_are_not_measured(code):
    known = Reason(kind_of(code), "the target has shape (8, 4), the golden (4, 8)", Expectation.MISSING)
    found = incomparable(replace(pair(ref(shape=(8, 4)), ref(shape=(4, 8))), reason=known))
    assert (found.code, found.message) == ("PF5102", known.text)


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        ({"recorded": None}, {}),
        ({"recorded": Statistics()}, {"recorded": Statistics()}),
        ({"recorded": Statistics(max=1.0)}, {"recorded": Statistics(mean=1.0)}),
        ({"recorded": None, "checksum": "ab"}, {}),
    ],
)
def test_statistics_without_a_common_figure_do_not_pass_for_equal(target, golden):
    assert incomparable(pair(ref(S, **target), ref(S, **golden))).code == "PF5105"


def test_checksums_of_different_dtypes_are_not_compared():
    sides = ref(S, recorded=None, checksum="ab", dtype="float16"), ref(S, recorded=None, checksum="ab")
    found = incomparable(pair(*sides))
    assert (found.code, found.message) == ("PF5117", "checksums of float16 and float32 values cannot be compared")


def test_an_empty_tensor_needs_no_figure():
    assert incomparable(pair(ref(S, (0, 3), recorded=Statistics()), ref(S, (0, 3), recorded=Statistics()))) is None


def test_statistics_are_compared_as_recorded():
    found = measurement_without_data(pair(ref(S, recorded=Statistics(max=3.0, mean=0.5)), ref(S)))
    assert found.mode is Mode.STATISTICS
    assert found.metrics["max_diff"] == 1.0
    assert found.metrics["max_diff_rel"] == 0.5
    assert found.metrics["mean_diff"] == 0.0
    assert found.metrics["l2norm_diff"] is None
    assert found.golden.statistics == KNOWN
    assert (found.count, found.nonfinite_mismatch, found.backend) == (6, 0, "")


@pytest.mark.parametrize(
    ("target", "golden", "mismatch"),
    [
        ({"max": math.nan}, {"max": 1.0}, 1), ({"max": 1.0}, {"max": math.nan}, 1),
        ({"max": math.nan}, {"max": math.nan}, 0),
        ({"min": -math.inf}, {"min": -math.inf}, 0), ({"min": -math.inf}, {"min": math.inf}, 1),
        ({"max": math.inf}, {"max": math.nan}, 1), ({"max": math.inf}, {"max": None}, 0),
        ({"l2norm": math.nan}, {"l2norm": 1.0}, 1), ({"l2norm": 1.0}, {"l2norm": math.nan}, 1),
        ({"l2norm": math.nan}, {"l2norm": math.nan}, 0), ({"l2norm": math.nan}, {"l2norm": None}, 1),
        ({"mean": math.nan}, {"mean": 1.0}, 1), ({"mean": math.nan}, {"mean": math.nan}, 0),
        ({"mean": math.nan, "l2norm": 1.0}, {"mean": 0.5, "l2norm": 1.0}, 1), ({"mean": math.inf}, {"mean": 1.0}, 1),
        ({"l2norm": math.inf}, {"l2norm": 1.0}, 1), ({"max": True, "min": False}, {"max": True, "min": True}, 0),
        ({"nan": 1, "inf": 0}, {"nan": 0, "inf": 0}, 1), ({"nan": 1, "inf": 0}, {"nan": 1, "inf": 0}, 0),
        ({"nan": 1, "inf": 0}, {"nan": None, "inf": None}, 0), ({"nan": 0, "inf": 3}, {"nan": 0, "inf": 1}, 1),
        ({"nan": 0, "inf": 1, "max": math.inf}, {"nan": 0, "inf": 1, "max": -math.inf}, 1),
        ({"nan": 0, "inf": 1}, {"nan": 0, "inf": 1, "max": math.inf}, 0),
        # a mask of -inf beside one of the least number: sums of both are infinite by themselves
        ({"min": -math.inf, "mean": -math.inf, "l2norm": math.inf}, LEAST, 0),
        ({"min": -math.inf, "mean": -math.inf, "l2norm": math.nan}, LEAST, 1),
        ({"min": None, "max": None, "l2norm": math.inf}, {"min": None, "max": None, "l2norm": 1.0}, 0),
        ({"min": None, "max": None, "l2norm": math.inf}, {"min": -1e30, "max": 1.0, "l2norm": math.inf}, 0),
    ],
)  # fmt: skip
def test_extremes_and_sums_show_nan_and_extremes_infinities_of_one_side(target, golden, mismatch):
    recorded = [Statistics(**{"min": 0.0, "max": 1.0, **side}) for side in (target, golden)]
    found = measurement_without_data(pair(ref(S, recorded=recorded[0]), ref(S, recorded=recorded[1])))
    assert found.nonfinite_mismatch == mismatch


@pytest.mark.parametrize(
    ("dtype", "shape", "peak", "sums", "mismatch"),
    [
        # 1,000 elements of 30 sum to 30,000 and their squares to 900,000; float16 ends at 65,504.
        ("float16", (1000,), 30.0, {"mean": math.nan}, 1), ("float16", (1000,), 30.0, {"l2norm": math.inf}, 0),
        ("float16", (1000,), 90.0, {"mean": math.nan}, 0), ("float16", (1000,), 90.0, {"mean": -math.inf}, 0),
        ("bfloat16", (1000,), 90.0, {"mean": math.nan}, 1), ("bfloat16", (1000,), 90.0, {"l2norm": math.inf}, 1),
        ("float64", (4,), 1e30, {"l2norm": math.inf}, 0), ("float64", (4,), 1e30, {"mean": math.inf}, 1),
    ],
)  # fmt: skip
def test_sums_that_finite_elements_can_overflow_show_nothing(dtype, shape, peak, sums, mismatch):
    finite = {"min": -peak, "max": peak, "mean": 0.5, "l2norm": peak}
    sides = (ref(S, shape, dtype=dtype, recorded=Statistics(**known)) for known in ({**finite, **sums}, finite))
    assert measurement_without_data(pair(*sides)).nonfinite_mismatch == mismatch


@pytest.mark.parametrize(("one", "equal"), [("00ff", True), ("00FF", True), ("01ff", False)])
def test_checksums_come_before_statistics(one, equal):
    found = measurement_without_data(pair(ref(S, checksum=one), ref(S, checksum="00ff")))
    assert found.mode is Mode.CHECKSUM
    assert found.metrics == {"checksum_equal": equal}
    assert (found.target.checksum, found.target.statistics) == (one, KNOWN)


def test_checksums_of_different_dtypes_say_nothing():
    found = measurement_without_data(pair(ref(S, checksum="a", dtype="bfloat16"), ref(S, checksum="b")))
    assert found.mode is Mode.STATISTICS
    # One side without a checksum: the statistics that both have decide.
    assert measurement_without_data(pair(ref(S, checksum="a"), ref(S))).mode is Mode.STATISTICS


def test_plain_values_are_their_own_statistics():
    found = measurement_without_data(pair(ref(V, (), value=3), ref(V, (), value=2.5)))
    assert found.mode is Mode.VALUE
    assert found.metrics["max_diff"] == 0.5
    assert found.target.statistics == Statistics(min=3, max=3, mean=3.0, l2norm=3.0)


@pytest.mark.parametrize("value", ["sum", True, None, [1], 10**400])
def test_other_values_have_no_figures_and_do_no_harm(value):
    kind = N if value is None else V
    found = measurement_without_data(pair(ref(kind, (), value=value), ref(kind, (), value=value)))
    assert found.mode is Mode.VALUE
    assert found.golden.statistics.mean is None


def test_notes_tell_shapes_and_classes_of_dtypes_apart():
    found = measurement_without_data(pair(ref(S, (6,), dtype="int64"), ref(S, (2, 3))))
    assert found.notes == ("shape differs: [6] against [2, 3]", "dtype differs: int64 against float32")
    assert measurement_without_data(pair(ref(S, dtype="float16"), ref(S))).notes == ()
