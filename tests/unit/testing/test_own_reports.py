"""Our own layouts and file formats pass the tests that packages run on theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from raw_pairs import context, pairs_of, raw

from probe_flow.comparing.steps import compare_pairs
from probe_flow.records import Comparison, Finding, FindingKind
from probe_flow.reports.layout import LAYOUTS
from probe_flow.stages.compare import Options
from probe_flow.stages.report.report import FORMATS
from probe_flow.stages.report.report_detail import Detail
from probe_flow.testing.builders import comparison, key, row, tensor
from probe_flow.testing.reports import FileFormatTests, LayoutTests


@pytest.mark.parametrize("name", [name for name in LAYOUTS.built_in if LAYOUTS[name].table is not None])
class TestLayouts(LayoutTests):
    @pytest.fixture(autouse=True)
    def _named(self, name: str) -> None:
        self.layout = LAYOUTS[name]


def merge_file(folder: Path) -> list[Any]:
    (folder / "merge.yaml").write_text("api: [a]\n")
    return [str(folder / "merge.yaml")]


OPTIONS: Mapping[str, Callable[[Path], list[Any]]] = {
    "csv": lambda _: ["torchair", "dump_json"],
    "xlsx": lambda _: [None, "offline"],
    "annotations": lambda _: [None, "gitlab"],
    "rank_merge": merge_file,
    "detail": lambda _: [Detail(node="*")],
}
"""Word -> options to try; where it is not named, the plain word."""


def of_files(folder: Path) -> Mapping[str, Comparison]:
    """Return what `detail` reads again: a comparison of tensors whose files are there."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    sides = [("target", values + 1), ("golden", values)]
    pairs = pairs_of([tuple(raw(folder, side, name, each) for side, each in sides) for name in ("a", "b")])
    asked = Options.model_validate({"uses": "compare", "pairs": "pairs"}).asked()
    return {"tensors in files": compare_pairs(pairs, asked, context(), None), "nothing": comparison()}


def of_nan() -> Mapping[str, Comparison]:
    """Return what `anomaly_analyze` lists: a comparison in which NaN begins somewhere."""
    made = comparison(row(tensor("a"), tensor("a")))
    found = Finding(FindingKind.NONFINITE_ORIGIN, key("a"), made.rows[0].pair.shown.slot, "NaN", 1.0, row=0)
    return {"NaN": structs.replace(made, findings=(found,)), "nothing": comparison()}


@pytest.mark.parametrize("word", FORMATS.built_in)
class TestFormats(FileFormatTests):
    @pytest.fixture(autouse=True)
    def _named(self, word: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("given")
        self.file_format = FORMATS[word]
        self.options = OPTIONS.get(word, lambda _: [None])(folder)
        if word == "detail":
            self.comparisons = lambda: of_files(folder)  # type: ignore[method-assign]
        elif word == "anomaly_analyze":
            self.comparisons = of_nan  # type: ignore[method-assign]
