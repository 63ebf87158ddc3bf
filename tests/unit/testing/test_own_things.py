"""Our own readers, metrics, layouts, file formats and stages pass the tests that packages run on theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_writer import GoldenFolder, OmFolder

from probe_flow.dumps.registry import READERS
from probe_flow.metrics.catalogue.registry import METRICS
from probe_flow.reports.registry import LAYOUTS
from probe_flow.stages.registry import STAGES
from probe_flow.stages.report.registry import FORMATS
from probe_flow.testing.builders import catalog, comparison, pairs_of, row, tensor
from probe_flow.testing.metrics import Floats, MetricTests
from probe_flow.testing.readers import ReaderTests
from probe_flow.testing.reports import FileFormatTests, LayoutTests
from probe_flow.testing.stages import StageTests

ARRAY = np.arange(6, dtype="f4").reshape(2, 3)


class TestNpy(ReaderTests):
    reader = READERS["npy"]

    def write_dump(self, folder: Path) -> Mapping[str, object]:
        golden = GoldenFolder(folder)
        golden.output("conv", 0, ARRAY)
        golden.output("relu", 0, -ARRAY)
        return {"conv.output.0": ARRAY, "relu.output.0": -ARRAY}


class TestOm(ReaderTests):
    reader = READERS["om"]

    def write_dump(self, folder: Path) -> Mapping[str, object]:
        device = OmFolder(folder)
        device.op("Conv2D", "conv", at=1, inputs=[ARRAY], outputs=[2 * ARRAY])
        device.op("Relu", "relu", at=2, outputs=[-ARRAY])
        return {"conv.input.0": ARRAY, "conv.output.0": 2 * ARRAY, "relu.output.0": -ARRAY}


class TestTorchairFx(ReaderTests):
    reader = READERS["torchair_fx"]

    def write_dump(self, folder: Path) -> Mapping[str, object]:
        at = "20260101000000000185"
        np.save(folder / f"add_1-aten.add.Tensor.INPUT.0.{at}.npy", ARRAY)
        np.save(folder / f"add_1-aten.add.Tensor.OUTPUT.0.{at}.npy", -ARRAY)
        return {"add_1.input.0": ARRAY, "add_1.output.0": -ARRAY}


class TestDumpJson(ReaderTests):
    reader = READERS["dump_json"]

    def write_dump(self, folder: Path) -> Mapping[str, object]:
        (folder / "dump_tensor_data").mkdir()
        name = "Torch.add.0.forward.output.0.npy"
        np.save(folder / "dump_tensor_data" / name, ARRAY)
        figures = {"Max": 5.0, "Min": 0.0, "Mean": 2.5, "Norm": float(np.linalg.norm(ARRAY))}
        of_tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], **figures}
        entry = {"input_args": [], "input_kwargs": {}, "output": [{**of_tensor, "data_name": name}]}
        dump = {"task": "tensor", "level": "L1", "dump_data_dir": str(folder / "dump_tensor_data")}
        (folder / "dump.json").write_text(json.dumps({**dump, "data": {"Torch.add.0.forward": entry}}))
        return {"Torch.add.output.0": ARRAY}


class TestRmse(MetricTests):
    metric = METRICS["rmse"]

    def oracle(self, target: Floats, golden: Floats) -> float:
        return float(np.sqrt(np.mean((target - golden) ** 2)))


class TestMaxAbsErr(MetricTests):
    metric = METRICS["max_abs_err"]

    def oracle(self, target: Floats, golden: Floats) -> float:
        return float(np.max(np.abs(target - golden)))


class TestMeanOfTarget(MetricTests):
    """One that an accumulator computes, if there is one."""

    metric = METRICS["std_target"]

    def oracle(self, target: Floats, golden: Floats) -> float:
        return float(np.std(target))


@pytest.mark.parametrize("name", LAYOUTS.built_in)
class TestLayouts(LayoutTests):
    @pytest.fixture(autouse=True)
    def _named(self, name: str) -> None:
        self.layout = LAYOUTS[name]


OPTIONS: dict[str, list[Any]] = {
    "csv": ["torchair", "dump_json"],
    "xlsx": [None, "offline"],
    "annotations": [None, "gitlab"],
}


@pytest.mark.parametrize("word", [word for word in FORMATS.built_in if word not in ("rank_merge", "detail")])
class TestFormats(FileFormatTests):
    """Without those that need further files, or the dumps."""

    @pytest.fixture(autouse=True)
    def _named(self, word: str) -> None:
        self.file_format = FORMATS[word]
        self.options = OPTIONS.get(word, [None])


class TestDumpAuto(StageTests):
    stage = STAGES["dump.auto"]

    def options(self, folder: Path) -> Mapping[str, Any]:
        GoldenFolder(folder / "golden").output("conv", 0, ARRAY)
        return {"path": str(folder / "golden")}


class TestMatchName(StageTests):
    stage = STAGES["match.name"]

    def options(self, folder: Path) -> Mapping[str, Any]:
        return {"target": "target", "golden": "golden"}

    def inputs(self, folder: Path) -> Mapping[str, Any]:
        return {side: [catalog([tensor("a")], side=side)] for side in ("target", "golden")}


class TestReport(StageTests):
    stage = STAGES["report"]

    def options(self, folder: Path) -> Mapping[str, Any]:
        return {"comparison": "result", "formats": ["junit"]}

    def inputs(self, folder: Path) -> Mapping[str, Any]:
        return {"comparison": [comparison(row(tensor("a"), tensor("a")))]}


class TestReportPairs(StageTests):
    stage = STAGES["report.pairs"]

    def options(self, folder: Path) -> Mapping[str, Any]:
        return {"pairs": "pairs"}

    def inputs(self, folder: Path) -> Mapping[str, Any]:
        return {"pairs": [pairs_of([row(tensor("a"), tensor("a")).pair])]}


@pytest.mark.parametrize("uses", STAGES.built_in)
def test_every_stage_of_ours_has_form_descriptions_and_schema(uses: str) -> None:
    tests = StageTests()
    tests.stage = STAGES[uses]
    tests.test_it_has_the_form_of_a_stage()
    tests.test_every_option_is_described()
    tests.test_its_options_have_a_schema()
