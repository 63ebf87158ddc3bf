"""`acc_check` of dumps of MSAdapter, with stand-ins: two packages named `torch`, each in a process of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from precheck_dumps import STAND_INS, backward, forward, tables_in, tensor, write_dump

MSADAPTER = STAND_INS.with_name("stand_in_msadapter")


@pytest.fixture
def adapter(stand_ins: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers find the stand-in for MSAdapter first, as programs that use it do."""
    monkeypatch.syspath_prepend(str(MSADAPTER))


def run(check: Any, entries: dict[str, Any], *options: object, **fields: Any) -> Any:
    return check(entries, *options, framework="mindtorch", **fields)


@pytest.mark.usefixtures("adapter")
def test_functions_methods_and_functionals_run_in_msadapter_and_in_pytorch(check, tmp_path: Path):
    x, square = tensor(4), tensor(3, 3)
    done, tables = run(
        check,
        {
            "Torch.matmul.0.forward": forward(square, square, outputs=[square]),
            "Torch.matmul.0.backward": backward([square], [square, square]),
            "Tensor.mul.0.forward": forward(x, x),
            "Functional.relu.0.forward": forward(x),
            "Functional.relu.0.backward": backward([x], [x]),
            "Torch.max.0.forward": forward(square, dim={"type": "int", "value": 1}, outputs=[x, x]),
            "Torch.wrong.0.forward": forward(x),
            "Mint.exp.0.forward": forward(x),
            "Torch.empty.0.forward": forward(x),
        },
    )
    assert tables.states == {
        "Torch.matmul.0": ("pass", "pass"),
        "Tensor.mul.0": ("pass", ""),
        "Functional.relu.0": ("pass", "pass"),
        "Torch.max.0": ("pass", ""),
        "Torch.wrong.0": ("error", ""),
        "Mint.exp.0": ("SKIP", ""),
        "Torch.empty.0": ("SKIP", ""),
    }
    assert done.code == 1
    record = next((tmp_path / "out").glob("*.jsonl")).read_text().splitlines()[1:]
    ran = {json.loads(line)["name"]: json.loads(line)["forward"].get("ran", "") for line in record}
    assert ran["Functional.relu.0"] == "torch.nn.functional.relu of MSAdapter, mindspore on CPU"
    # Columns of MindSpore, whose element types these are; the benchmark is float64.
    assert tables.outputs["Torch.matmul.0.forward.output.0"][:3] == ["Float64", "Float32", "(3, 3)"]


@pytest.mark.usefixtures("adapter")
def test_a_call_without_a_kernel_runs_in_pytorch_in_the_recorded_type_and_says_so(check):
    done, tables = run(check, {"Torch.no_kernel.0.forward": forward(tensor(4, dtype="Float16"))})
    assert tables.states == {"Torch.no_kernel.0": ("pass", "")}
    assert "PF6610" in done.err
    assert tables.outputs["Torch.no_kernel.0.forward.output.0"][1] == "Float16"


@pytest.mark.usefixtures("adapter")
def test_a_crash_costs_its_call_alone(check):
    x = tensor(4)
    _, tables = run(check, {"Torch.crash.0.forward": forward(x), "Torch.exp.0.forward": forward(x)})
    assert tables.states == {"Torch.crash.0": ("SKIP", ""), "Torch.exp.0": ("pass", "")}
    assert "SIGSEGV" in tables.messages["Torch.crash.0"]


@pytest.mark.usefixtures("adapter")
def test_a_benchmark_that_ends_its_process_costs_its_call_alone(check):
    x = tensor(4)
    done, tables = run(check, {"Torch.ends.0.forward": forward(x), "Torch.exp.0.forward": forward(x)})
    assert tables.states == {"Torch.ends.0": ("SKIP", ""), "Torch.exp.0": ("pass", "")}
    assert "the process of the benchmark ended: exit code 7" in tables.messages["Torch.ends.0"]
    assert done.code == 3


@pytest.mark.usefixtures("adapter")
def test_dumped_results_are_compared_with_pytorch_without_msadapter(check, tmp_path: Path):
    folder = tmp_path / "dump" / "dump_tensor_data"
    folder.mkdir(parents=True)
    values = np.linspace(-1, 1, 4, dtype=np.float32)
    for name, array in (("x", values), ("right", np.exp(values)), ("wrong", np.exp(values) * 1.01)):
        np.save(folder / f"{name}.npy", array)
    x = tensor(4, data_name="x.npy")
    done, tables = run(
        check,
        {
            f"Torch.exp.{number}.forward": forward(x, outputs=[tensor(4, data_name=f"{name}.npy")])
            for number, name in enumerate(("right", "wrong"))
        },
        task="tensor",
        dump_data_dir=str(folder),
    )
    assert tables.states == {"Torch.exp.0": ("pass", ""), "Torch.exp.1": ("error", "")}
    assert done.code == 1


@pytest.mark.usefixtures("stand_ins")
def test_without_msadapter_or_without_pytorch_the_command_says_which_is_missing(
    probe_flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    dump = write_dump(tmp_path / "dump", {"Torch.exp.0.forward": forward(tensor(4))}, framework="mindtorch")
    monkeypatch.setattr("sys.path", [str(STAND_INS), *_without_torch()])
    alone = probe_flow("acc_check", "-api_info", dump, "-o", "alone")
    assert alone.code == 2
    assert "PF6604" in alone.err
    assert "MSAdapter and PyTorch" in alone.err
    assert str(STAND_INS) in alone.err

    # Two that both are PyTorch.
    other = tmp_path / "other"
    other.mkdir()
    (other / "torch").symlink_to(STAND_INS / "torch")
    monkeypatch.setattr("sys.path", [str(STAND_INS), str(other), *_without_torch()])
    twice = probe_flow("acc_check", "-api_info", dump, "-o", "twice")
    assert twice.code == 3
    assert "is not MSAdapter" in tables_in(tmp_path / "twice").messages["Torch.exp.0"]


@pytest.mark.usefixtures("adapter")
def test_further_copies_of_msadapter_are_passed_over(check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "torch").symlink_to(MSADAPTER / "torch")
    monkeypatch.syspath_prepend(str(copy))
    _, tables = run(check, {"Torch.exp.0.forward": forward(tensor(4))})
    assert tables.states == {"Torch.exp.0": ("pass", "")}


def _without_torch() -> list[str]:
    import sys

    return [entry for entry in sys.path if not (Path(entry) / "torch").exists()]
