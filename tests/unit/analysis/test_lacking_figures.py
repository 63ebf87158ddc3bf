"""Statistics that one side lacks of a tensor: a gap where its dump has them of others alike, else none."""

from __future__ import annotations

import pytest
from comparison_rows import tensor
from msgspec.structs import replace

from probe_flow.analysis.lacking_figures import lacking_figures
from probe_flow.measure.results import measurement_without_data
from probe_flow.records import Pair, Rule, Statistics, TensorKind
from probe_flow.records.figures import FEW
from probe_flow.records.row import Row
from tests.support.rules import rule_of

ALL = Statistics(min=-3.0, max=3.0, mean=0.0, l2norm=10.0)
ENDS = Statistics(min=-3.0, max=3.0)


def side(node: str, recorded: Statistics | None, dtype: str = "float32", shape: tuple[int, ...] = (100,)):
    kind = TensorKind.STATISTICS
    return tensor(node, dtype=dtype, shape=shape, logical_shape=shape, kind=kind, recorded=recorded)


def row(number: int, target: Statistics, golden: Statistics, **more) -> Row:
    pair = Pair(side(f"op{number}", target, **more), side(f"op{number}", golden, **more), "g", rule_of("exact"))
    return Row(pair, measurement_without_data(pair), None, number)


@pytest.mark.parametrize("gap", ["min", "max", "mean", "l2norm"])
@pytest.mark.parametrize("count", [2, 3 * FEW])
def test_what_a_dump_has_of_others_is_missed(gap: str, count: int) -> None:
    hole = replace(ALL, **{gap: None})
    rows = [row(0, hole, ALL), *(row(n, ALL, ALL) for n in range(1, count))]
    (cause,) = lacking_figures(rows)
    word = {"min": "minimum", "max": "maximum", "l2norm": "norm"}.get(gap, gap)
    assert cause.startswith(f"the target recorded no {word} of `op0.output.0`, though it did of other float32 tensors")
    (cause,) = lacking_figures([row(0, ALL, hole), row(1, ALL, hole), *(row(n, ALL, ALL) for n in range(2, count + 1))])
    assert f"the golden recorded no {word} of `op0.output.0` (and of 1 more)" in cause


def test_a_single_element_lacks_what_larger_tensors_have() -> None:
    rows = [row(0, ENDS, ALL, shape=()), row(1, ALL, ALL)]
    (cause,) = lacking_figures(rows)
    assert "no mean and norm of `op0.output.0`" in cause


HEALTHY = {
    "nothing on both sides": [row(0, Statistics(), Statistics()), row(1, ALL, ALL)],
    "one figure on neither side": [row(0, ENDS, ENDS), row(1, ALL, ALL)],
    "one framework never has means of integers": [row(0, ENDS, ALL, dtype="int64"), row(1, ALL, ALL)],
    "but those of single elements": [
        row(0, ENDS, ALL, dtype="int64"), row(1, ALL, ALL, dtype="int64", shape=()), row(2, ALL, ALL),
    ],
    "a collector that leaves out norms": [row(0, ENDS, ALL), row(1, ENDS, ALL)],
    "no elements": [row(0, Statistics(), ALL, shape=(0, 3)), row(1, ALL, ALL)],
}  # fmt: skip


@pytest.mark.parametrize("rows", HEALTHY.values(), ids=HEALTHY)
def test_what_no_tensor_of_a_kind_has_is_no_gap(rows: list[Row]) -> None:
    assert lacking_figures(rows) == ()


def test_elements_have_every_figure() -> None:
    elements = tensor("op0", dtype="float32", shape=(100,), logical_shape=(100,), kind=TensorKind.TENSOR)
    rows = [Row(Pair(elements, side("op0", ENDS), "g", Rule("exact")), None, None, 0), row(1, ALL, ALL)]
    (cause,) = lacking_figures(rows)
    assert cause.startswith("the golden recorded no mean and norm of `op0.output.0`")
