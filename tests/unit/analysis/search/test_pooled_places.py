"""Where a max pooling found its values is a decision: near ties fall either way once the inputs differ at all."""

from __future__ import annotations

import pytest

from probe_flow.analysis.search.conclude import conclude
from tests.support.comparison_rows import IN, edge, pairs_of, passes, row

ONE_OTHER = {"size": 128.0, "relative": 16.0 / 1000**0.5 / 128.0, "peak": 16.0, "count": 1000}
"""Of 1000 whole numbers around 128 one is off by 16."""


def named(op_type: str, *, input_error: float) -> list[str]:
    """The origins where one of 1000 places is another one, in the row above, and the values are all right."""
    rows = [
        row("pool", IN, 0, relative=input_error, count=4000),
        row("pool", relative=input_error, count=1000),
        row("pool", place=1, dtype="int64", **ONE_OTHER),
        row("next", IN, 0, relative=input_error, count=1000),
    ]
    found, _ = conclude(rows, pairs_of(rows, {"pool": op_type}, [edge("pool", "next")]), passes(rows))
    return [each.node.name for each in found]


@pytest.mark.parametrize("op_type", ["MaxPoolV3", "MaxPool", "MaxPoolWithArgmax", "max_pool2d_with_indices"])
def test_a_place_may_be_another_where_the_inputs_differ(op_type):
    assert named(op_type, input_error=4e-4) == []


def test_equal_inputs_have_their_largest_values_in_equal_places():
    assert named("MaxPoolV3", input_error=0.0) == ["pool"]


def test_whole_numbers_that_are_only_moved_are_no_places():
    assert named("Reshape", input_error=4e-4) == ["pool"]
