"""Pre-checks of PyTorch dumps in torch itself, on the processor."""

from __future__ import annotations

import csv
import importlib.util
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.projects import WORKFLOWS
from probe_flow.cli.main import main

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

DATA = Path(__file__).parents[1] / "data" / "precheck" / "torch_net.tar.xz"
FIGURE = 1e-6
"""What figures of two machines may differ by, relative to 1 or to themselves."""

BALANCE = "误差均衡性"
"""By how much more often an error has one sign: it changes with the order in which a machine adds."""

RELATIVE = ("相对误差最大值", "相对误差平均值", "ULP误差最大值", "ULP误差平均值", "ULP误差大于阈值占比")
"""Figures of the elements nearest to zero, of which the processor's own products make the last bits."""

WORDS = ("API Name", "Bench Dtype", "DEVICE Dtype", "Shape", "Status")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """The folder of a dump with tensors, of eight calls forward and backward, and of msprobe's tables of it."""
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path / "net", filter="data")
    return tmp_path / "net"


def rows(path: Path) -> dict[str, dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row["API Name" if "API Name" in row else "API name"]: row for row in csv.DictReader(file)}


def check(dump: Path, out: Path, *options: str) -> tuple[int, dict[str, Any], dict[str, Any]]:
    code = main(["acc_check", "-api_info", str(dump), "-o", str(out), *options])
    (result,), (details,) = (list(out.glob(f"accuracy_checking_{kind}_*.csv")) for kind in ("result", "details"))
    return code, rows(result), rows(details)


def test_statuses_and_figures_are_those_of_msprobe(net: Path, tmp_path: Path) -> None:
    code, calls, outputs = check(net / "dump.json", tmp_path / "out", "--standards", "benchmark_only")
    assert code == 0
    theirs = rows(net / "torch_details.csv")
    assert list(outputs) == list(theirs)
    for name, other in theirs.items():
        mine = outputs[name]
        assert [mine[word] for word in WORDS] == [other[word] for word in WORDS], name
        for column in other.keys() - {*WORDS, BALANCE}:
            if other[column].strip() and column in RELATIVE and "linear" in name:
                due = float(other[column])
                assert 0.1 * due - FIGURE <= float(mine[column]) <= max(10.0 * due, FIGURE), (name, column)
            elif other[column].strip():
                assert float(mine[column]) == pytest.approx(float(other[column]), rel=FIGURE, abs=FIGURE), (
                    name,
                    column,
                )
            else:
                assert mine[column] == other[column], (name, column)
    for name, other in rows(net / "torch_result.csv").items():
        states = ("Forward Test Success", "Backward Test Success")
        assert [calls[name][state] for state in states] == [other[state] for state in states], name


def test_made_inputs_pass_and_each_standard_has_its_figures(net: Path, tmp_path: Path) -> None:
    dump = json.loads((net / "dump.json").read_text(encoding="utf-8"))
    folder = tmp_path / "statistics"
    folder.mkdir()
    (folder / "dump.json").write_text(json.dumps({**dump, "task": "statistics"} | {"data": _unsaved(dump["data"])}))
    code, _, outputs = check(folder / "dump.json", tmp_path / "out")
    assert code == 0
    product = outputs["Functional.linear.0.forward.output.0"]
    assert float(product["ULP误差平均值"]) < 64
    assert not product["均方根误差"].strip()
    assert outputs["Functional.relu.0.forward.output.0"]["二进制一致错误率"] == f"{0:.14f}"
    assert float(outputs["Functional.layer_norm.0.forward.output.0"]["均方根误差"]) < 1e-5


def test_an_input_of_another_shape_costs_its_call_alone(net: Path, tmp_path: Path) -> None:
    dump = json.loads((net / "dump.json").read_text(encoding="utf-8"))
    dump["data"]["Functional.linear.1.forward"]["input_args"][0]["shape"] = [3, 3]
    (net / "dump.json").write_text(json.dumps(dump), encoding="utf-8")
    code, calls, _ = check(net / "dump.json", tmp_path / "out")
    assert code == 3
    skipped = {name for name, row in calls.items() if row["Forward Test Success"] == "SKIP"}
    assert skipped == {"Functional.linear.1"}
    assert "the dump says (3, 3)" in calls["Functional.linear.1"]["Message"]


def test_only_what_is_listed_is_checked(net: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"white_list": ["linear", "relu"], "black_list": ["relu"]}')
    code, calls, outputs = check(net / "dump.json", tmp_path / "out", "-config", str(config))
    assert code == 0
    checked = {name for name, row in calls.items() if row["Forward Test Success"] == "pass"}
    assert checked == {f"Functional.linear.{number}" for number in range(4)}
    assert calls["Functional.relu.0"]["Message"] == "`relu` is on the black list"
    assert calls["Functional.layer_norm.0"]["Message"] == "`layer_norm` is not on the white list"
    assert all(name.startswith("Functional.linear.") for name in outputs)


def test_the_packaged_workflow_finds_nothing_wrong_in_its_sample(tmp_path: Path) -> None:
    code = main(["run", str(WORKFLOWS / "pytorch_precheck.yaml"), "--output", str(tmp_path / "run"), "--quiet"])
    assert code == 0
    (result,) = (tmp_path / "run").glob("accuracy_checking_result_*.csv")
    assert {row["Forward Test Success"] for row in rows(result).values()} == {"pass"}


def test_overflows_of_float16_are_normal_where_the_result_does_not_fit(tmp_path: Path) -> None:
    def tensor(low: float, high: float) -> dict[str, Any]:
        return {"type": "torch.Tensor", "dtype": "torch.float16", "shape": [8], "Max": high, "Min": low}

    def call(given: dict[str, Any], found: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"input_args": [given], "input_kwargs": more, "output": [found]}

    infinite = tensor(1.0, float("inf"))
    data = {
        "Torch.exp.0.forward": call(tensor(0.0, 20.0), infinite),  # exp(11.1) is the largest number
        "Torch.exp.1.forward": call(tensor(0.0, 1.0), tensor(1.0, 2.8)),
        "Torch.neg.0.forward": call(infinite, infinite),
    }
    top = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (tmp_path / "dump.json").write_text(json.dumps(top), encoding="utf-8")
    out = tmp_path / "out"
    assert main(["run_overflow_check", "-api_info", str(tmp_path / "dump.json"), "-o", str(out)]) == 0
    (result,) = out.glob("accuracy_checking_result_*.csv")
    states = {name: (row["Forward Test Success"], row["Message"]) for name, row in rows(result).items()}
    assert states == {
        "Torch.exp.0": ("pass", "normal: it overflows on the benchmark too;"),
        "Torch.exp.1": ("SKIP", "its recorded results are finite"),
        "Torch.neg.0": ("pass", "normal: it overflows on the benchmark too;"),
    }


def _unsaved(value: Any) -> Any:
    """Return entries without the names of tensor files."""
    if isinstance(value, dict):
        return {key: _unsaved(each) for key, each in value.items() if key != "data_name"}
    return [_unsaved(each) for each in value] if isinstance(value, list) else value
