"""`anomaly_analyze` of dumps of any kind, of several steps, of gradients, and of dumps that are gone."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_dumps import WRITERS

import probe_flow as pf
from probe_flow.cli.main import main


def examined(dump: Path, folder: Path) -> pf.Run:
    stages = {
        "dump": {"uses": "dump.auto", "path": str(dump)},
        "overflow": {"uses": "analysis.overflow", "catalog": "dump"},
        "report": {"uses": "report", "comparison": "overflow", "formats": ["anomaly_analyze"]},
    }
    folder.mkdir(exist_ok=True)
    (folder / "w.yaml").write_text(json.dumps({"version": 1, "name": "overflow", "stages": stages}))
    return pf.run(folder / "w.yaml", output=folder / "run")


def written(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("anomaly_analyze_*.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def leaf(high: float = 1.0) -> dict[str, Any]:
    figures = {"Max": high, "Min": -1.0, "Mean": 0.0, "Norm": 2.0}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], **figures}


def dump(folder: Path, data: dict[str, Any], construct: dict[str, Any] | None = None) -> Path:
    folder.mkdir(parents=True)
    whole = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(whole))
    (folder / "construct.json").write_text(json.dumps(construct or {}))
    return folder


CALL = {"input_args": [leaf()], "input_kwargs": {}, "output": [leaf(math.inf)]}


@pytest.mark.parametrize("format_", ["torchair_fx", "mindspore_graph", "npy", "arrays"])
def test_dumps_of_other_kinds_are_listed_by_what_is_known_of_their_tensors(format_: str, tmp_path: Path) -> None:
    WRITERS[format_](tmp_path / "dump")
    path = sorted((tmp_path / "dump").rglob("*.npy"))[-1]
    values = np.load(path)
    values.reshape(-1)[1] = np.nan
    np.save(path, values)
    done = examined(tmp_path / "dump", tmp_path / "out")
    assert done.exit_code == 1
    ((found,),) = written(done.folder).values()
    assert found["construct_info"] == [found["op_name"]]
    assert found["stack_info"] == {}
    assert {"dtype", "shape"} <= found["data_info"]["output"][0].keys()


def test_of_several_steps_each_entry_names_its_own(tmp_path: Path) -> None:
    for step in (0, 1):
        for rank in (0, 2):
            dump(tmp_path / "dump" / f"step{step}" / f"rank{rank}", {f"Torch.exp.{step}.forward": CALL})
    found = written(examined(tmp_path / "dump", tmp_path / "out").folder)
    assert {rank: [(each["op_name"], each["step"]) for each in entries] for rank, entries in found.items()} == {
        key: [("Torch.exp.0.forward", 0), ("Torch.exp.1.forward", 1)] for key in ("rank_0", "rank_2")
    }


def test_a_gradient_and_a_backward_call_show_what_they_hold(tmp_path: Path) -> None:
    grads = {"weight": [leaf(math.nan)]}
    data = {
        "Torch.exp.0.backward": {"input": [leaf()], "output": [leaf(math.inf)]},
        "Module.fc.Linear.parameters_grad": grads,
    }
    construct = {"Torch.exp.0.backward": "Module.fc.Linear.backward.0", "Module.fc.Linear.backward.0": None}
    (one, two) = written(examined(dump(tmp_path / "dump", data, construct), tmp_path / "out").folder)["rank_0"]
    shown = {each["op_name"]: each for each in (one, two)}
    backward = shown["Torch.exp.0.backward"]
    assert [*backward["data_info"]] == ["input", "output"]
    assert backward["construct_info"] == ["Module.fc.Linear.backward.0", "Torch.exp.0.backward"]
    (gradient,) = (each for name, each in shown.items() if "parameters_grad" in name)
    assert math.isnan(gradient["data_info"]["parameters_grad"]["weight"][0]["Max"])


def test_a_dump_that_is_gone_is_listed_by_its_record(tmp_path: Path) -> None:
    done = examined(dump(tmp_path / "dump", {"Torch.exp.0.forward": CALL}), tmp_path / "out")
    first = written(done.folder)["rank_0"][0]
    assert first["data_info"] == CALL
    shutil.rmtree(tmp_path / "dump")
    assert main(["report", str(done.folder), "--format", "anomaly_analyze", "--output", str(tmp_path / "again")]) == 0
    found = written(tmp_path / "again")["rank_0"][0]
    assert (found["op_name"], found["construct_info"]) == (first["op_name"], first["construct_info"])
    assert found["data_info"]["output"][0]["Max"] == math.inf
