"""One side has its elements, the other statistics of them: what is computed, compared, kept and refused."""

from __future__ import annotations

import json
import math
import os
import zlib
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from raw_pairs import context, pairs_of, raw

from probe_flow.measure.results import incomparable
from probe_flow.measure.run import measure_pairs, planned_texts
from probe_flow.measure.sides import Reduced, figures_to_take, is_mixed, reduced_of, reduced_text
from probe_flow.metrics.catalogue.registry import metric_ids
from probe_flow.records import Execution, Mode, NodeKey, Pair, Rule, Slot, SlotRole, Statistics, TensorKind, TensorRef
from probe_flow.work import Context, Settings

IDS = metric_ids("default")
VALUES = np.array([[-1.5, 2.0, 0.5], [1.0, 0.0, 4.0]], np.float32)
KNOWN = Statistics(min=-1.5, max=5.0, mean=1.0, l2norm=5.0)


def recorded(name: str = "op", statistics: Statistics | None = KNOWN, shape=(2, 3), **more) -> TensorRef:
    fields = {"dtype": "float32", "shape": shape, "logical_shape": shape, "recorded": statistics, **more}
    return TensorRef.of(NodeKey(Execution(0, 0, 1), name), Slot(SlotRole.OUTPUT), TensorKind.STATISTICS, **fields)


def measured(target: TensorRef, golden: TensorRef):
    (row,) = measure_pairs([Pair(target, golden, "g", Rule("exact"))], IDS, context())
    return row


class TestStatistics:
    def test_the_elements_are_reduced_to_what_the_other_side_recorded(self, tmp_path):
        found = measured(raw(tmp_path, "t", "op", VALUES), recorded()).measurement
        assert (found.mode, found.count, found.nonfinite_mismatch) == (Mode.STATISTICS, 6, 0)
        assert found.target.statistics == Statistics(
            min=-1.5, max=4.0, mean=1.0, l2norm=pytest.approx(math.sqrt(2.25 + 4 + 0.25 + 1 + 16))
        )
        assert found.golden.statistics == KNOWN
        assert found.metrics["max_diff"] == -1.0
        assert found.metrics["max_diff_rel"] == 0.2
        assert found.metrics["min_diff"] == found.metrics["mean_diff"] == 0.0

    def test_either_side_may_have_the_elements(self, tmp_path):
        found = measured(recorded(), raw(tmp_path, "g", "op", VALUES)).measurement
        assert found.metrics["max_diff"] == 1.0
        assert found.metrics["max_diff_rel"] == 0.25
        assert found.target.statistics == KNOWN

    def test_only_what_both_can_have_is_computed(self, tmp_path):
        found = measured(raw(tmp_path, "t", "op", VALUES), recorded(statistics=Statistics(max=4.0))).measurement
        assert found.target.statistics == Statistics(max=4.0)
        assert {name for name, value in found.metrics.items() if value is not None} == {"max_diff", "max_diff_rel"}

    def test_one_nan_makes_every_statistic_nan_as_the_recorders_do(self, tmp_path):
        values = np.array([1.0, np.nan, 2.0], np.float32)
        nan = Statistics(min=math.nan, max=math.nan)
        same = measured(raw(tmp_path, "t", "op", values), recorded(statistics=nan, shape=(3,))).measurement
        assert math.isnan(same.target.statistics.max)
        assert same.nonfinite_mismatch == 0
        other = measured(raw(tmp_path, "t", "op", values), recorded(shape=(3,))).measurement
        assert other.nonfinite_mismatch == 1

    @pytest.mark.parametrize(
        ("values", "nan", "inf", "mismatch"),
        [
            ([1.0, 2.0, 1.5], 0, 0, 0), ([1.0, 2.0, 1.5], 1, 0, 1), ([1.0, 2.0, 1.5], 0, 1, 1),
            ([1.0, 2.0, math.nan], 1, 0, 0), ([1.0, 2.0, math.nan], 0, 0, 1), ([1.0, 2.0, math.nan], 2, 0, 1),
            ([1.0, 2.0, -math.inf], 0, 1, 0), ([1.0, 2.0, -math.inf], 0, 0, 1), ([1.0, 2.0, -math.inf], 1, 0, 1),
            ([1.0, 2.0, -3.4028234663852886e38], 0, 1, 0), ([1.0, 2.0, -1e9], 0, 1, 0), ([1.0, 2.0, -1e9], 1, 0, 1),
        ],
    )  # fmt: skip
    def test_a_device_counts_nan_and_infinities_beside_the_extremes_of_the_rest(
        self, tmp_path, values, nan, inf, mismatch
    ):
        known = Statistics(min=1.0, max=2.0, mean=1.5, nan=nan, inf=inf)
        golden = raw(tmp_path, "g", "op", np.array(values, np.float32))
        assert measured(recorded(statistics=known, shape=(3,)), golden).measurement.nonfinite_mismatch == mismatch

    def test_infinities_stay(self, tmp_path):
        values = np.array([1.0, np.inf, -np.inf], np.float16)
        known = Statistics(min=-math.inf, max=math.inf)
        found = measured(raw(tmp_path, "t", "op", values), recorded(statistics=known, shape=(3,))).measurement
        assert (found.metrics["max_diff"], found.metrics["min_diff"], found.nonfinite_mismatch) == (0.0, 0.0, 0)

    def test_padding_of_a_private_layout_is_no_element(self, tmp_path):
        stored = np.full((1, 1, 16, 16), 99.0, np.float16)
        stored[0, 0, :2, :3] = VALUES
        target = raw(tmp_path, "t", "op", stored, logical_shape=(2, 3), layout="FRACTAL_NZ")
        found = measured(target, recorded(statistics=Statistics(min=-1.5, max=4.0))).measurement
        assert found.target.statistics == Statistics(min=-1.5, max=4.0)

    @pytest.mark.parametrize(
        ("values", "low", "high"),
        [
            (np.array([True, True]), True, True), (np.array([2**40, -3]), -3, 2**40),
            (np.array([7, 250], np.uint8), 7, 250),
        ],
    )  # fmt: skip
    def test_extremes_of_whole_numbers_are_whole(self, tmp_path, values, low, high):
        known = Statistics(min=low, max=high)
        golden = recorded(statistics=known, shape=(2,), dtype=str(values.dtype))
        found = measured(raw(tmp_path, "t", "op", values), golden).measurement
        assert found.target.statistics == known
        assert type(found.target.statistics.min) is type(low)
        assert found.metrics["max_diff"] == 0

    def test_an_unknown_shape_is_that_of_the_elements(self, tmp_path):
        found = measured(raw(tmp_path, "t", "op", VALUES), recorded(shape=None)).measurement
        assert (found.count, found.notes) == (6, ())

    def test_empty_on_both_sides_needs_no_figure(self, tmp_path):
        nothing = recorded(statistics=Statistics(), shape=(0,))
        row = measured(raw(tmp_path, "t", "op", np.zeros(0, np.float32)), nothing)
        assert row.failure is None
        assert row.measurement.count == 0

    def test_a_large_tensor_is_reduced_over_all_its_blocks(self, tmp_path):
        values = np.arange(200_000, dtype=np.float32)
        known = Statistics(min=0.0, max=199_999.0, mean=99_999.5)
        found = measured(raw(tmp_path, "t", "op", values), recorded(statistics=known, shape=(200_000,))).measurement
        assert found.metrics["mean_diff"] == 0.0
        assert found.metrics["max_diff"] == 0.0


class TestChecksums:
    @pytest.mark.parametrize(
        ("values", "dtype"), [(VALUES, "float32"), (VALUES.astype(np.float16), "float16"), (np.arange(6), "int64")]
    )
    def test_the_bytes_of_the_elements_in_their_own_dtype(self, tmp_path, values, dtype):
        crc = f"{zlib.crc32(np.ascontiguousarray(values).tobytes()):08x}"
        target = raw(tmp_path, "t", "op", values)
        for known, equal in ((crc, True), (crc.upper(), True), ("00000000", False)):
            golden = recorded(statistics=None, shape=values.shape, dtype=dtype, checksum=known)
            found = measured(target, golden).measurement
            assert (found.mode, found.metrics) == (Mode.CHECKSUM, {"checksum_equal": equal})
            assert found.target.checksum == crc

    def test_bfloat16_is_hashed_as_float32_like_the_fx_dump_holds_it(self, tmp_path):
        values = VALUES.astype(ml_dtypes.bfloat16)
        target = raw(tmp_path, "t", "op", values, dtype="bfloat16")
        crc = f"{zlib.crc32(values.astype(np.float32).tobytes()):08x}"
        golden = recorded(statistics=None, checksum=crc)
        assert measured(target, golden).measurement.metrics == {"checksum_equal": True}

    def test_a_private_layout_is_hashed_in_logical_order(self, tmp_path):
        stored = np.zeros((1, 1, 16, 16), np.float16)
        stored[0, 0, :2, :3] = VALUES
        target = raw(tmp_path, "t", "op", stored, logical_shape=(2, 3), layout="FRACTAL_NZ")
        crc = f"{zlib.crc32(VALUES.astype(np.float16).tobytes()):08x}"
        golden = recorded(statistics=None, dtype="float16", checksum=crc)
        assert measured(target, golden).measurement.metrics == {"checksum_equal": True}

    def test_different_dtypes_are_not_compared(self, tmp_path):
        target = raw(tmp_path, "t", "op", VALUES.astype(np.float16))
        row = measured(target, recorded(statistics=None, checksum="ab"))
        assert row.measurement is None
        assert row.failure.code == "PF5117"
        assert row.failure.message == "a checksum of float32 values says nothing of float16 values"

    def test_different_dtypes_fall_back_to_statistics(self, tmp_path):
        target = raw(tmp_path, "t", "op", VALUES.astype(np.float16))
        found = measured(target, recorded(checksum="ab")).measurement
        assert found.mode is Mode.STATISTICS


class TestRefusals:
    def test_a_side_without_any_figure_is_not_compared(self, tmp_path):
        row = measured(raw(tmp_path, "t", "op", VALUES), recorded(statistics=Statistics(nan=0)))
        assert (row.measurement, row.failure.code) == (None, "PF5105")

    def test_element_counts_must_agree(self, tmp_path):
        row = measured(raw(tmp_path, "t", "op", VALUES), recorded(shape=(7,)))
        assert row.failure.code == "PF5102"
        counted = recorded(shape=None, count=7)
        assert incomparable(Pair(raw(tmp_path, "t", "op", VALUES), counted, "g", Rule("exact"))).code == "PF5102"

    def test_a_file_that_is_gone_costs_its_row(self, tmp_path):
        target = raw(tmp_path, "t", "op", VALUES)
        Path(target.source).unlink()
        row = measured(target, recorded())
        assert row.measurement is None
        assert row.failure.code.startswith("PF3")

    def test_a_file_that_is_cut_off_costs_its_row(self, tmp_path):
        target = raw(tmp_path, "t", "op", VALUES)
        os.truncate(target.source, 8)
        assert measured(target, recorded()).measurement is None


class _Memory:
    key = "stat"

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def find(self, keys):
        return {key: self.texts[key] for key in keys if key in self.texts}

    def add(self, texts) -> None:
        self.texts.update({key: text for key, (text, _) in texts.items()})


@pytest.mark.usefixtures("all_kept")
class TestCache:
    def run(self, cache, pairs, batches):
        def in_order(function, given, **_):
            for number, batch in enumerate(given):
                batches.append(len(batch.tasks))
                yield number, function(batch)

        def ignore(*_: object, **__: object) -> None:
            return None

        own = Context("c", Path(), in_order, ignore, ignore, Settings(), {}, cache)
        return [row.measurement for row in measure_pairs(pairs, IDS, own)]

    def tensors(self, tmp_path):
        found = raw(tmp_path, "t", "a", VALUES), raw(tmp_path, "g", "b", VALUES)
        for tensor in found:
            os.utime(tensor.source, (1_700_000_000, 1_700_000_000))
        return found

    def pairs(self, tensors, known):
        target, golden = tensors
        sides = [(target, recorded("a", known)), (recorded("b", known), golden), (target, golden)]
        return [Pair(*both, str(number), Rule("exact")) for number, both in enumerate(sides, 1)]

    def test_statistics_are_kept_and_taken_again(self, tmp_path):
        cache, batches = _Memory(), []
        pairs = self.pairs(self.tensors(tmp_path), KNOWN)
        first = self.run(cache, pairs, batches)
        assert sum(batches) == 3
        assert self.run(cache, pairs, batches) == first
        assert sum(batches) == 3

    def test_other_statistics_are_taken_anew(self, tmp_path):
        cache, batches = _Memory(), []
        tensors = self.tensors(tmp_path)
        self.run(cache, self.pairs(tensors, KNOWN), batches)
        found = self.run(cache, self.pairs(tensors, Statistics(max=4.0)), batches)
        assert sum(batches) == 5
        assert found[0].metrics["max_diff"] == 0.0

    def test_a_plan_names_every_task(self, tmp_path):
        target, golden = self.tensors(tmp_path)
        pairs = pairs_of([(target, recorded("a")), (recorded("b"), golden)])
        planned = list(planned_texts(pairs, IDS, by="stat"))
        assert [name for name, _, _ in planned] == ["a.output.0", "b.output.0"]
        assert len({identity for _, identity, _ in planned}) == 2
        assert all("golden.source" not in text for _, _, text in planned)


def test_which_pairs_are_mixed(tmp_path):
    elements = raw(tmp_path, "t", "op", VALUES)
    assert is_mixed(Pair(elements, recorded(), "g", Rule("r")))
    assert is_mixed(Pair(recorded(), elements, "g", Rule("r")))
    assert not is_mixed(Pair(elements, elements, "g", Rule("r")))
    assert not is_mixed(Pair(recorded(), recorded(), "g", Rule("r")))
    assert not is_mixed(Pair(elements, None, "g", Rule("r")))


def test_what_is_taken_of_the_elements(tmp_path):
    elements = raw(tmp_path, "t", "op", VALUES)
    partial = recorded(statistics=Statistics(max=1.0, l2norm=2.0, nan=3), checksum="ab")
    assert figures_to_take(Pair(elements, partial, "g", Rule("r"))) == ("max", "l2norm", "nan_count", "crc32")
    counts_alone = recorded(statistics=Statistics(nan=3, inf=0))
    assert figures_to_take(Pair(elements, counts_alone, "g", Rule("r"))) == ()
    assert figures_to_take(Pair(recorded(checksum="ab", dtype=""), elements, "g", Rule("r"))) == (
        "min", "max", "mean", "l2norm",
    )  # fmt: skip


def test_statistics_survive_as_text():
    found = Reduced(("min", "max"), (-0.1, math.inf))
    assert reduced_of(reduced_text(found)) == found
    for text in ("", "[]", '["reduced"]', '["pair", [], []]', '["reduced", ["min"], ["x"]]', '{"a": 1}', "nonsense"):
        assert reduced_of(text) is None, text
    assert json.loads(reduced_text(found))[0] == "reduced"
