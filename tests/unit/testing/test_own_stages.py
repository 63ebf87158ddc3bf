"""Our own stages pass the tests that packages run on theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import graph_text_writer
import numpy as np
import pytest
import small_dumps
from graph_dumps import write_dump
from om_writer import OmFolder
from raw_pairs import pairs_of, raw
from rule_builders import attr, model, op

from probe_flow.dumpers.arrays.array_folder import ArrayFolder, ArrayOptions
from probe_flow.dumps.manifest import ManifestNode
from probe_flow.dumps.registry import READERS
from probe_flow.stages.registry import STAGES
from probe_flow.testing.builders import catalog, comparison, row, tensor
from probe_flow.testing.stages import StageTests

Inputs = Mapping[str, Any]


def nothing(_: Path) -> Inputs:
    return {}


@dataclass(frozen=True)
class Case:
    """What a stage is run with: its options, whose files are written into a folder, and results of earlier stages."""

    options: Callable[[Path], Inputs]
    inputs: Callable[[Path], Inputs] = nothing


def path_of(kind: str) -> Callable[[Path], Inputs]:
    def write(folder: Path) -> Inputs:
        small_dumps.WRITERS[kind](folder / kind)
        return {"path": str(folder / kind)}

    return write


def read(kind: str) -> Callable[[Path], Inputs]:
    """Return the result of a stage that read a dump, for options whose name is `dump`."""
    return lambda folder: {"dump": [READERS[kind].catalog(**path_of(kind)(folder / "input"), side="target")]}


def by_hand(_: Path) -> Inputs:
    return {side: [catalog([tensor("a")], side=side)] for side in ("target", "golden")}


def api_dump(folder: Path) -> Inputs:
    return {"source": [READERS["dump_json"].catalog(**path_of("dump_json")(folder / "input"), side="dump")]}


def of_dumps(target: str, golden: str) -> Callable[[Path], Inputs]:
    def sides(folder: Path) -> Inputs:
        given = {"target": target, "golden": golden}
        return {
            side: [READERS[kind].catalog(**path_of(kind)(folder / side), side=side)] for side, kind in given.items()
        }

    return sides


def measurable(folder: Path) -> Inputs:
    values = np.arange(6, dtype=np.float32)
    return {"pairs": [pairs_of([(raw(folder, "target", "a", values + 1), raw(folder, "golden", "a", values))])]}


def options(**given: Any) -> Callable[[Path], Inputs]:
    return lambda _: given


def with_file(option: str, text: str, **given: Any) -> Callable[[Path], Inputs]:
    def write(folder: Path) -> Inputs:
        (folder / f"{option}.yaml").write_text(text)
        return {option: str(folder / f"{option}.yaml"), **given}

    return write


def arrays_of_a_model(folder: Path) -> Inputs:
    """Return both sides of a model of one operator, with its graph in their manifests."""
    found = {}
    for side in ("target", "golden"):
        made = ArrayFolder(folder / side, ArrayOptions())
        made.write("conv", "Conv", 0, np.ones(2, np.float32), value="y")
        made.finish({}, [ManifestNode("conv", "Conv", ("x",), ("y",))])
        found[side] = [READERS["npy"].catalog(path=str(folder / side), side=side)]
    return found


def overflow_run(folder: Path) -> Inputs:
    OmFolder(folder / "overflow").op("Relu", "relu", at=1, outputs=[np.ones(2, np.float32)])
    return {"path": str(folder / "overflow")}


def graph_text(folder: Path) -> Inputs:
    return {
        "graph": str(graph_text_writer.write(folder / "graph.txt", model(op("x", "Data", attrs=[attr("index", i=0)]))))
    }


def converted(**given: Any) -> Case:
    return Case(options(dump="target", **given), read("om"))


SIDES = {"target": "target", "golden": "golden"}
JSON_SIDES = of_dumps("dump_json", "dump_json")
ITEM = "Torch.add.0.forward.output.0"

CASES: Mapping[str, Case] = {
    "dump.auto": Case(path_of("npy")),
    "dump.torch": Case(path_of("dump_json")),
    "dump.mindspore": Case(path_of("dump_json")),
    **{f"dump.{kind}": Case(path_of(kind)) for kind in small_dumps.WRITERS if kind != "dump_json"},
    "dump.tensorflow_training": Case(path_of("tfdbg")),
    **{f"dump.{framework}": Case(path_of("npy")) for framework in ("caffe", "onnx", "tensorflow")},
    **{f"reduce.{what}": Case(path_of("torchair_fx")) for what in ("minmax", "statistics", "checksum")},
    "convert.layout": converted(layout="NHWC"),
    "convert.npy": converted(),
    "convert.pt": converted(),
    # Nothing is on the list, so that nothing runs: the frameworks need not be there.
    "precheck": Case(options(source="dump", white_list=["nothing"]), api_dump),
    # Nothing is suspected, so that nothing is written: scripts are tested where there are suspects.
    "repro": Case(options(comparison="result"), lambda _: {"comparison": [comparison(row(tensor("a"), tensor("a")))]}),
    "op_generate": Case(options(source="dump", api_name="Torch.add.0"), api_dump),
    "match.torchair": Case(options(**SIDES), of_dumps("torchair_ge", "torchair_fx")),
    "match.name": Case(options(**SIDES), by_hand),
    "match.structure": Case(options(**SIDES), JSON_SIDES),
    "match.cell_mapping": Case(options(**SIDES), JSON_SIDES),
    "match.api_mapping": Case(options(**SIDES), JSON_SIDES),
    "match.layer_mapping": Case(with_file("mapping", "TopLayer:\n  layer: layer\n", **SIDES), JSON_SIDES),
    "match.data_mapping": Case(with_file("mapping", f"{ITEM}: {ITEM}\n", **SIDES), JSON_SIDES),
    "match.model_graph": Case(options(**SIDES), arrays_of_a_model),
    "match.fusion_rule": Case(options(**SIDES), of_dumps("om", "npy")),
    "compare": Case(options(pairs="pairs"), measurable),
    "analysis.nonfinite": Case(
        options(catalog="dump"),
        lambda folder: {"catalog": [READERS["npy"].catalog(**path_of("npy")(folder / "input"), side="dump")]},
    ),
    "analysis.overflow": Case(
        options(catalog="dump"),
        lambda folder: {"catalog": [READERS["npy"].catalog(**path_of("npy")(folder / "input"), side="dump")]},
    ),
    "analysis.op_debug": Case(overflow_run),
    "analysis.graph": Case(graph_text),
    "analysis.fusion": Case(
        options(comparison="result"), lambda _: {"comparison": [comparison(row(tensor("a"), tensor("a")))]}
    ),
    "report": Case(
        options(comparison="result", formats=["junit"]),
        lambda _: {"comparison": [comparison(row(tensor("a"), tensor("a")))]},
    ),
    "report.pairs": Case(options(pairs="pairs"), measurable),
    "report.graph": Case(
        options(catalog="dump", formats=["vis"]),
        lambda folder: {"catalog": [READERS["dump_json"].catalog(path=write_dump(folder / "dump"), side="dump")]},
    ),
}


@pytest.mark.parametrize("uses", STAGES.built_in)
class TestStages(StageTests):
    @pytest.fixture(autouse=True)
    def _named(self, uses: str) -> None:
        assert uses in CASES, f"the stage `{uses}` is run by no test of this kind: add it to CASES"
        self.stage, case = STAGES[uses], CASES[uses]
        self.options, self.inputs = case.options, case.inputs  # type: ignore[method-assign]

    def options(self, folder: Path) -> Inputs:
        raise NotImplementedError


def test_every_case_is_of_a_stage() -> None:
    assert set(CASES) == set(STAGES.built_in)
