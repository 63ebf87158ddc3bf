from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from probe_flow.errors import UsageError
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.records import Execution, NodeKey, Slot, SlotRole
from probe_flow.reports import tensor_values
from probe_flow.reports.tensor_values import values_of, worst_elements
from probe_flow.runs import two_tensors
from probe_flow.runs.two_tensors import compare_two

KEY = NodeKey(Execution(None, None, None), "x")


def ref(tmp_path, values, name="x.npy"):
    path = tmp_path / name
    np.save(path, values)
    return npy_tensor_ref(path, KEY, Slot(SlotRole.OUTPUT))


def test_statistics_and_histogram_leave_out_what_is_not_finite(tmp_path):
    found = values_of(ref(tmp_path, np.array([[0.0, 3.0], [np.nan, np.inf], [4.0, 16.0]], np.float32)), first=3)
    assert found.numel == 6
    assert found.first[:2] == (0.0, 3.0)
    assert math.isnan(found.first[2])
    statistics = found.statistics
    assert (statistics.min, statistics.max, statistics.nan, statistics.inf) == (0.0, 16.0, 1, 1)
    assert statistics.mean == pytest.approx(23 / 4)
    assert statistics.l2norm == pytest.approx(math.sqrt(9 + 16 + 256))
    assert found.edges[0] == 0.0
    assert found.edges[-1] == 16.0
    assert found.counts == (1, 0, 0, 1, 1, *[0] * 10, 1)


@pytest.mark.parametrize("values", [np.array([], np.float16), np.array([np.nan, -np.inf], np.float16)])
def test_nothing_finite_makes_no_histogram(tmp_path, values):
    found = values_of(ref(tmp_path, values))
    assert found.counts == ()
    assert found.statistics.min is None


@pytest.mark.parametrize(
    "values", [np.full(7, 2.5), np.array([1e308, -1e308]), np.array([5e-324, 0.0]), np.array([True, True])]
)
def test_extreme_values_are_all_counted(tmp_path, values):
    assert sum(values_of(ref(tmp_path, values)).counts) == len(values)


def test_blocks_make_no_difference(tmp_path, monkeypatch):
    values = np.random.default_rng(1).normal(size=(37, 5)).astype(np.float32)
    whole = values_of(ref(tmp_path, values))
    monkeypatch.setattr(tensor_values, "BLOCK", 8)
    parts = values_of(ref(tmp_path, values))
    assert parts.counts == whole.counts
    assert parts.statistics.mean == pytest.approx(whole.statistics.mean)


FLOATS = st.floats(width=32)


@settings(max_examples=80, deadline=None)
@given(data=st.data(), limit=st.integers(1, 5))
def test_worst_elements_are_those_of_a_plain_sort(tmp_path_factory, data, limit):
    shape = data.draw(npst.array_shapes(max_dims=2, max_side=6))
    one, other = (data.draw(npst.arrays(np.float32, shape, elements=FLOATS)) for _ in range(2))
    folder = tmp_path_factory.mktemp("worst")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensor_values, "BLOCK", 4)
        found = worst_elements(ref(folder, one, "a.npy"), ref(folder, other, "b.npy"), limit=limit)
    expected = []
    for at, (x, y) in enumerate(zip(one.ravel().tolist(), other.ravel().tolist(), strict=True)):
        same = x == y or (math.isnan(x) and math.isnan(y))
        error = abs(x - y)
        expected.append((0.0 if same else math.inf if math.isnan(error) else error, at))
    expected = sorted((item for item in expected if item[0] > 0), key=lambda item: (-item[0], item[1]))[:limit]
    assert [(each.error, each.index) for each in found.elements] == expected
    both = np.isfinite(one) & np.isfinite(other)
    assert found.max_abs_err == max(np.abs(one[both].astype(float) - other[both]).tolist(), default=0.0)


def test_the_largest_error_is_known_though_infinite_ones_fill_the_list(tmp_path):
    golden = np.arange(6.0)
    target = np.array([np.nan, 1.0, np.inf, 3.5, np.nan, 5.25])
    found = worst_elements(ref(tmp_path, target), ref(tmp_path, golden, "y.npy"), limit=2)
    assert [(each.index, each.error) for each in found.elements] == [(0, math.inf), (2, math.inf)]
    assert found.max_abs_err == 0.5


def test_two_tensors_agree_within_a_tolerance(tmp_path, monkeypatch):
    one = np.array([1.0, 2.0, 3.0, np.nan, 5.0])
    other = np.array([1.0, 2.1, 3.0, np.nan, 5.5])
    monkeypatch.setattr(two_tensors, "BLOCK", 2)
    found = compare_two(ref(tmp_path, one), ref(tmp_path, other, "y.npy"), absolute=0.05, relative=0.05, limit=2)
    # |2 - 2.1| = 0.1 <= 0.05 + 0.05 * 2.1 = 0.155; |5 - 5.5| = 0.5 > 0.05 + 0.275
    assert (found.numel, found.beyond, found.is_close) == (5, 1, False)
    assert [line[0] for line in found.errors] == [4]
    assert [line[0] for line in found.values] == [0, 1]
    finite = np.array([0, 1, 2, 4])
    cosine = np.dot(one[finite], other[finite]) / np.linalg.norm(one[finite]) / np.linalg.norm(other[finite])
    assert found.metrics["cosine"] == pytest.approx(cosine)
    assert next(found.lines()) == "not all of 5 elements are close; 1 are not (20 %)"


def test_a_nan_on_one_side_is_never_close(tmp_path):
    found = compare_two(
        ref(tmp_path, np.array([np.nan])), ref(tmp_path, np.array([1.0]), "y.npy"), absolute=9.0, relative=9.0, limit=1
    )
    assert found.beyond == 1


def test_tensors_of_other_sizes_are_refused_not_padded(tmp_path):
    with pytest.raises(UsageError) as caught:
        compare_two(ref(tmp_path, np.ones(6)), ref(tmp_path, np.ones(8), "y.npy"), absolute=0, relative=0, limit=1)
    assert caught.value.diagnostic.code == "PF7208"


def test_maps_tell_where_the_largest_errors_are(tmp_path):
    golden = np.array([[1.0, np.inf, np.nan], [4.0, 5.0, 1.0]])
    target = np.array([[1.0, np.inf, np.nan], [np.nan, 7.0, np.inf]])
    (found,) = worst_elements(ref(tmp_path, target), ref(tmp_path, golden, "y.npy"), limit=2).maps
    assert found.errors == (0.0, None, None, None, 2.0, None)
    assert (found.alike, found.mismatch) == ((1, 2), (3, 5))
