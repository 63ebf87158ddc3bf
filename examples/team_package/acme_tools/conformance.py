"""What probe_flow asks of the things of this package: ``python -m acme_tools.conformance``, or pytest."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acme_tools import accumulator
from acme_tools.file_format import FORMAT
from acme_tools.layout import LAYOUT
from acme_tools.metric import METRIC
from acme_tools.reader import READER
from acme_tools.stage import STAGE
from probe_flow.testing.expect import failures
from probe_flow.testing.metrics import Floats, MetricTests
from probe_flow.testing.readers import ReaderTests
from probe_flow.testing.reports import FileFormatTests, LayoutTests
from probe_flow.testing.stages import StageTests


def write_dump(folder: Path) -> dict[str, Any]:
    """Write a dump of two tensors, and return their values by id."""
    values = {"conv": np.arange(6, dtype="<f4").reshape(2, 3), "relu": np.array([0.5, -1.0], "<f4")}
    for name, array in values.items():
        (folder / f"{name}.raw").write_bytes(array.tobytes())
    (folder / "index.json").write_text(json.dumps({name: array.shape for name, array in values.items()}))
    return {f"{name}.output.0": array for name, array in values.items()}


class TestReader(ReaderTests):
    """The dump format."""

    reader = READER

    def write_dump(self, folder: Path) -> Mapping[str, object]:
        """Write a dump, as the description says."""
        return write_dump(folder)


class TestMetric(MetricTests):
    """The metric."""

    metric = METRIC

    def oracle(self, target: Floats, golden: Floats) -> float:
        """Return the ratio of two norms, squared."""
        return float((np.linalg.norm(target) / np.linalg.norm(golden)) ** 2)


class TestMetricOfSum(MetricTests):
    """The metric with a sum of its own."""

    metric = accumulator.METRIC

    def oracle(self, target: Floats, golden: Floats) -> float:
        """Return the share of elements above."""
        return float(np.mean(target > golden))


class TestLayout(LayoutTests):
    """The layout."""

    layout = LAYOUT


class TestFileFormat(FileFormatTests):
    """The file format."""

    file_format = FORMAT
    options = (None, "german")


class TestStage(StageTests):
    """The stage."""

    stage = STAGE

    def options(self, folder: Path) -> Mapping[str, Any]:
        """Return options, and write the dump that they name."""
        (folder / "dump").mkdir()
        write_dump(folder / "dump")
        return {"path": str(folder / "dump")}


def main() -> int:
    """Print what fails, and return 1 if anything does."""
    found = {}
    for tests in (TestReader, TestMetric, TestMetricOfSum, TestLayout, TestFileFormat, TestStage):
        with tempfile.TemporaryDirectory() as folder:
            found |= {f"{tests.__name__}.{name}": why for name, why in failures(tests, Path(folder)).items()}
    for name, why in found.items():
        sys.stdout.write(f"{name}: {why}\n")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
