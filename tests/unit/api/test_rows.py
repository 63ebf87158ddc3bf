"""Rows as columns, for numpy and for libraries of tables."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import probe_flow as pf
from probe_flow.api.rows import column

ROOT = Path(__file__).resolve().parents[3]
BIG = 2**70


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([True, False], np.array([True, False])),
        ([True, None], [True, None]),
        ([1, 2**62], np.array([1, 2**62])),
        ([1, None], [1, None]),
        ([0.5, math.inf], np.array([0.5, math.inf])),
        ([0.5, None], [0.5, None]),
        ([1, 0.5], np.array([1.0, 0.5])),
        ([True, 2, None], [1.0, 2.0, None]),
        ([BIG], np.array([float(BIG)])),
        ([10**400, None], [math.inf, None]),
        (["a", None], ["a", None]),
        (["a", 1], ["a", "1"]),
        ([None, None], [None, None]),
        ([], []),
        ([[1, 2], None], [[1, 2], None]),
    ],
)
def test_a_column_has_one_type(values: list[object], wanted: object) -> None:
    found = column(values)

    assert type(found) is type(wanted)
    if isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
        assert np.array_equal(found, wanted)
    else:
        assert found == wanted
        assert [type(each) for each in found] == [type(each) for each in wanted]


def test_nan_is_a_value_and_none_is_not_measured() -> None:
    found = column([math.nan, None])

    assert isinstance(found, list)
    assert math.isnan(found[0])
    assert found[1] is None


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pf.Run:
    """A run of statistics: whole numbers, texts, None and shapes in its rows."""
    dumps = ROOT / "examples" / "dump_json"
    return pf.compare(dumps / "target", dumps / "golden", output=tmp_path_factory.mktemp("rows") / "run")


def test_columns_hold_what_the_rows_hold(run: pf.Run) -> None:
    rows, columns = list(run.rows()), run.rows().columns()

    assert {len(each) for each in columns.values()} == {len(rows)}
    assert columns["node"] == [row.node for row in rows]
    assert columns["verdict"] == [row.verdict.value for row in rows]
    assert columns["golden_shape"] == [
        None if row.golden is None or row.golden.shape is None else list(row.golden.shape) for row in rows
    ]
    for metric in {name for row in rows for name in row.metrics}:
        for row, value in zip(rows, columns[metric], strict=True):
            assert value == row.metrics.get(metric) or math.isnan(value)


def test_pandas_takes_the_columns(run: pf.Run) -> None:
    pandas = pytest.importorskip("pandas")
    rows = list(run.rows())
    frame = pandas.DataFrame(run.rows().columns())

    assert frame.shape[0] == len(rows)
    assert list(frame["node"]) == [row.node for row in rows]
    assert frame["order"].dtype == np.int64
    assert frame["max_diff"].isna().sum() == sum(row.metrics.get("max_diff") is None for row in rows)


def test_polars_takes_the_columns(run: pf.Run) -> None:
    polars = pytest.importorskip("polars")
    columns = run.rows().columns()
    frame = polars.DataFrame(columns)

    assert frame.shape == (len(columns["order"]), len(columns))
    assert frame["order"].dtype == polars.Int64
    for name, values in columns.items():
        if name.endswith(("_diff", "_shape", "node", "verdict")):
            assert frame[name].to_list() == list(values), name


def test_pyarrow_takes_the_columns(run: pf.Run) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    columns = run.rows().columns()
    table = pyarrow.table(columns)

    assert (table.num_rows, table.num_columns) == (len(columns["order"]), len(columns))
    assert table["order"].type == pyarrow.int64()
    for name, values in columns.items():
        if name.endswith(("_diff", "_shape", "node", "verdict")):
            assert table[name].to_pylist() == list(values), name
