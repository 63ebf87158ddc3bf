"""The third side in result files: columns behind the published ones, the side of JSON lines, three sides in HTML."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from html_data import payload
from msgspec.structs import replace
from report_builders import GOOD_METRICS, comparison, good_row, measurement, missing_golden, stats, tensor

from probe_flow.record.jsonl import write_comparison_jsonl, write_nodes_jsonl
from probe_flow.records import Catalog, Comparison, Extent
from probe_flow.records.frameworks import TORCHAIR_FX
from probe_flow.reports.layout import LAYOUTS, OURS, Layout
from probe_flow.testing.run_records import run_record

FIGURES = {
    "reference.cosine": 0.5,
    "reference.euclidean_distance": 2.0,
    "reference.max_abs_err": 0.25,
    "golden_error": 1e-7,
    "excess_error": 154.0,
}
ROOT = "/dumps/exact"


def three_sides(**figures: Any) -> Comparison:
    """Two rows, of which the first has a reference."""
    exact = tensor("add_1", side="golden", dtype="float64", extents=(Extent(f"{ROOT}/add_1.npy", 128, 32),))
    measured = measurement({**GOOD_METRICS, **FIGURES, **figures}, reference=stats(max=7.5))
    row = good_row(0, measured=measured)
    first = replace(row, pair=row.pair.judged_by(exact))
    found = comparison(first, missing_golden(1))
    reference = Catalog("exact", TORCHAIR_FX, "tensor", ROOT, {}, (exact,))
    return replace(found, pairs=replace(found.pairs, reference=reference))


def table(path: Path, found: Comparison) -> list[dict[str, str]]:
    LAYOUTS["torchair"].write_csv(found, path / "t.csv")
    with (path / "t.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_columns_of_the_reference_stand_behind_the_published_ones(tmp_path: Path) -> None:
    first, second = table(tmp_path, three_sides())
    names = list(first)
    added = names[names.index("Color") + 1 :]

    assert added == [
        "Reference Dtype", "Reference Cosine", "Reference EucDist", "Reference MaxAbsErr", "Golden Error",
        "Excess Error",
    ]  # fmt: skip
    assert [first[name] for name in added] == ["float64", "0.5", "2.0", "0.25", "1e-07", "154.0"]
    assert [second[name] for name in added] == ["N/A"] * 6


@pytest.mark.parametrize("layout", [each for each in OURS if each.table is not None], ids=lambda each: each.name)
def test_rows_with_a_reference_have_a_cell_for_every_column(layout: Layout) -> None:
    shown = layout.make(three_sides())
    widths = [len(cells) for _, cells in shown.rows]
    assert widths
    assert set(widths) == {len(shown.header)}


@pytest.mark.parametrize(("value", "cell"), [(None, "N/A"), (math.nan, "NaN"), (math.inf, "inf")])
def test_figures_that_are_no_numbers_are_words(tmp_path: Path, value: float | None, cell: str) -> None:
    assert table(tmp_path, three_sides(excess_error=value))[0]["Excess Error"] == cell


def test_without_a_reference_the_table_is_the_published_one(tmp_path: Path) -> None:
    assert list(table(tmp_path, comparison(good_row(0)))[0])[-1] == "Color"


def test_json_lines_hold_the_side_with_its_statistics_and_file(tmp_path: Path) -> None:
    write_comparison_jsonl(three_sides(), tmp_path / "c.jsonl")
    first, second = map(json.loads, (tmp_path / "c.jsonl").read_text().splitlines())

    assert (first["reference"]["dtype"], first["reference"]["max"], first["reference"]["file"]) == (
        "float64", 7.5, "add_1.npy",
    )  # fmt: skip
    assert first["metrics"]["excess_error"] == 154.0
    assert second["reference"] is None


def test_nodes_of_the_reference_are_listed(tmp_path: Path) -> None:
    found = three_sides()
    nodes = found.pairs.golden.nodes
    assert found.pairs.reference is not None
    reference = replace(found.pairs.reference, nodes=nodes)
    write_nodes_jsonl(replace(found, pairs=replace(found.pairs, reference=reference)), tmp_path / "n.jsonl")
    sides = [json.loads(line)["side"] for line in (tmp_path / "n.jsonl").read_text().splitlines()]
    assert sides.count("reference") == len(nodes)


def test_the_html_payload_has_three_sides_and_explains_their_metrics() -> None:
    data = payload(three_sides(), run=run_record())
    reference = data["rows"]["sides"]["reference"]

    assert [each["side"] for each in data["dumps"]] == ["target", "golden", "reference"]
    assert reference["max"] == [7.5, None]
    assert data["definitions"]["reference.cosine"]["text"].endswith("Against the reference.")
    assert "r = reference" in data["definitions"]["excess_error"]["text"]
