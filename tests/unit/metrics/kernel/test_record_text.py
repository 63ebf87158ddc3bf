"""Records as text: exactly the same record comes back, whatever the values."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.kernel.compare import measure, measure_span
from probe_flow.metrics.kernel.record_text import record_of, record_text
from probe_flow.metrics.sums.record import BLOCK, Errors, Record, Side, fold


class Values:
    def __init__(self, data: np.ndarray, dtype: str) -> None:
        self.data, self.dtype, self.numel = data, dtype, data.size

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.data[start:stop]


def sides(dtype: str, count: int = 2 * BLOCK + 17):
    rng = np.random.default_rng(3)
    if dtype == "bool":
        data = rng.random(count) > 0.5
        return Values(data, dtype), Values(~data, dtype)
    if dtype == "uint64":
        data = rng.integers(2**63, 2**64 - 1, count, dtype=np.uint64)
        return Values(data, dtype), Values(np.zeros(count, np.uint64), dtype)
    data = (rng.standard_normal(count) * 100).astype(dtype)
    golden = data + (rng.standard_normal(count)).astype(dtype)
    if data.dtype.kind == "f":
        data[5], data[7], golden[7], golden[9] = np.nan, np.inf, np.inf, -np.inf
    return Values(data, dtype), Values(golden, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint64", "bool"])
@pytest.mark.parametrize("options", [MeasureOptions(), MeasureOptions(("masked", "moments", "significant"))])
def test_spans_come_back_bit_for_bit(dtype, options):
    target, golden = sides(dtype)
    spans = [measure_span(target, golden, first, count, options) for first, count in ((0, 2), (2, 1))]
    read = [record_of(record_text(span)) for span in spans]
    assert read == spans or repr(read) == repr(spans)  # NaN differs from itself, its text does not
    assert repr(fold(read)) == repr(fold(spans))
    assert type(fold(read)) is type(fold(spans))


def test_whole_pairs_with_a_second_pass_come_back(tmp_path):
    target, golden = (Values(side.data[100:300], side.dtype) for side in sides("float32"))
    record = measure(target, golden, MeasureOptions(("minmax", "softmax")))
    assert [each.name for each in record.accumulators] == ["minmax", "softmax"]
    assert repr(record_of(record_text(record))) == repr(record)


def test_empty_pairs_come_back():
    nothing = Values(np.empty(0, np.float32), "float32")
    span = measure_span(nothing, nothing, 0, 0)
    assert repr(record_of(record_text(span))) == repr(span)


@pytest.mark.parametrize("text", ["", "{}", "[]", '["span"]', '["pair", []]', '["else", 1]', '["pair", 5]', "[1, 2]"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"record|unpack|expected"):
        record_of(text)


@pytest.mark.parametrize("with_special", [False, True])
def test_any_floats_and_integers_come_back(with_special):
    bits = np.random.default_rng(11).integers(0, 2**64, 4000, dtype=np.uint64)
    floats = [value for value in bits.view(np.float64).tolist() if math.isfinite(value)]
    floats += [0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 1e16, 123456789012345680.0, 0.1]
    for first, second in zip(floats[::2], floats[1::2], strict=False):
        low = math.nan if with_special else 2**64 - 1
        target = Side(2**70, 0, 0, 0, 3, -600, first, second, low, True)
        record = Record(2**63, target, target, Errors(max_abs=-(2**80), dot=first, max_rel=second))
        found = record_of(record_text(record))
        assert repr(found) == repr(record)
        assert [type(each) for each in found.target] == [type(each) for each in target]


def test_texts_of_earlier_versions_are_read():
    target, golden = sides("float32", 10)
    span = measure_span(target, golden, 0, 1)
    assert repr(record_of(json.dumps(["span", 0, 1, span.nodes]))) == repr(span)


def test_the_text_is_plain_json():
    target, golden = sides("float32", 10)
    assert json.loads(record_text(measure_span(target, golden, 0, 1)))[0] == "span"
