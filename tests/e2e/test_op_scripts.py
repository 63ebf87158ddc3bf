"""Scripts of `op_generate`, run alone: in another folder, by an interpreter that has torch and nothing of ours."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from probe_flow.cli.main import main

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

DATA = Path(__file__).parents[1] / "data" / "op_generate"


def written(tmp_path: Path, entries: dict[str, object], **config: object) -> Path:
    """Write a script and move it away; return it."""
    for name in ("made", "moved"):
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / "api.json").write_text(json.dumps(entries))
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"extract_api_path": str(tmp_path / "api.json"), **config}))
    assert main(["op_generate", "-i", str(file), "-o", str(tmp_path / "made")]) == 0
    (script,) = (tmp_path / "made").iterdir()
    return Path(shutil.move(script, tmp_path / "moved" / script.name))


def run(script: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-I", script.name, *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=script.parent, env=environ, timeout=300
    )


def cells(text: str) -> list[tuple[str, str]]:
    """Return the rows of the tables that a script prints, and the lines between them."""
    found = []
    for line in text.splitlines():
        row = re.fullmatch(r"\| (.*?) +\| (.*?) +\|", line)
        if row is not None:
            found.append((row[1].strip(), row[2].strip()))
        elif not line.startswith("+"):
            found.append((line, ""))
    return found


OF_A_KERNEL = ("Maximum ULP Error", "Mean ULP Error")
"""What a product in float32 is off by: each processor has a kernel of its own, which sums in another order."""


@pytest.mark.parametrize(("name", "propagation"), [("Functional.softmax.0", "forward"), ("Torch.matmul.0", "backward")])
def test_rows_are_those_of_msprobe_scripts(tmp_path, name, propagation):
    entries = json.loads((DATA / f"extracted_{name}.json").read_text())
    done = run(written(tmp_path, entries, propagation=propagation, iter_times=2))
    assert (done.returncode, done.stderr) == (0, "")
    expected = cells((DATA / f"{name}.{propagation}.out.txt").read_text())
    found = [row for row in cells(done.stdout) if "判定结果" not in row[0]]
    assert [row[0] for row in found] == [row[0] for row in expected]
    for (row, value), (_, known) in zip(found, expected, strict=True):
        if row in OF_A_KERNEL:
            assert float(known) / 10.0 < float(value) < 10.0 * float(known), row
        elif re.fullmatch(r"[\d.e+-]+", known):
            assert float(value) == pytest.approx(float(known), rel=1e-6, abs=1e-12), row
        else:
            assert value == known, row


def tensor(shape: list[int], dtype: str = "torch.float32", low: object = -1.0, high: object = 1.0) -> dict[str, object]:
    kind = "torch.Tensor" if dtype.startswith("torch.") else "mindspore.Tensor"
    return {"type": kind, "dtype": dtype, "shape": shape, "Min": low, "Max": high, "requires_grad": True}


CALLS = {
    "Torch.cat": ([[tensor([2, 3]), tensor([4, 3])]], {}),
    "Tensor.add_": ([tensor([3]), tensor([3])], {}),
    "Torch.linalg.inv": ([tensor([3, 3], low=1.0, high=9.0)], {}),
    "Torch.zeros_like": ([tensor([3])], {"dtype": {"type": "torch.dtype", "value": "torch.float16"}}),
    "Functional.relu": ([tensor([0, 3])], {}),
    "Torch.exp": ([tensor([4], low="-inf", high="inf")], {}),
    "Torch.argmax": ([tensor([5])], {}),
    "Torch.gt": ([tensor([5]), tensor([5])], {}),
    "Functional.conv1d": ([tensor([1, 2, 8]), tensor([3, 2, 3])], {}),
    "Tensor.mul": ([tensor([5], "torch.bfloat16"), {"type": "float", "value": 0.5}], {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_every_form_run(tmp_path, name):
    args, kwargs = CALLS[name]
    text = json.dumps({f"{name}.0.forward": {"input_args": args, "input_kwargs": kwargs, "output": [tensor([1])]}})
    entries = json.loads(text.replace('"-inf"', "-Infinity").replace('"inf"', "Infinity"))
    done = run(written(tmp_path, entries))
    assert done.stderr == ""
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("Compare finished.\n")
    if name == "Torch.cat":
        assert run(tmp_path / "moved" / f"{name}.0.forward.py").stdout == done.stdout, "two runs print the same"


def test_a_wrong_kernel_is_an_error(tmp_path):
    entries = {"Torch.mul.0.forward": {"input_args": [tensor([64]), tensor([64])], "input_kwargs": {}, "output": []}}
    script = written(tmp_path, entries)
    assert run(script).returncode == 0
    broken = (
        "import torch as wrong\nright = wrong.mul\n"
        "wrong.mul = lambda a, b: right(a, b) * (1.001 if a.dtype == wrong.float32 else 1)\n"
        "wrong.mul.__module__ = 'torch._C'\n"  # a script runs operators of the framework only
    )
    text = script.read_text()
    at = text.index("import json")
    script.write_text(text[:at] + broken + text[at:])
    done = run(script)
    assert done.returncode == 1
    assert ("相对误差判定结果", "error") in cells(done.stdout)


def test_errors_are_held_against_those_of_another_run(tmp_path):
    entries = json.loads((DATA / "extracted_Functional.softmax.0.json").read_text())
    script = written(tmp_path, entries)
    assert run(script, "--json", "own.json").returncode == 0
    own = json.loads((script.parent / "own.json").read_text())
    assert set(own["outputs"][0]["verdicts"].values()) == {"n/a"}
    for factor, verdict, code in ((1.0, "pass", 0), (1e-4, "error", 1)):
        for output in own["outputs"]:
            output["figures"] = {"Error Balance": 0.5625 * factor}
        (script.parent / "other.json").write_text(json.dumps(own))
        done = run(script, "--reference", "other.json")
        assert done.returncode == code
        assert ("误差均衡性判定结果", verdict) in cells(done.stdout)
    assert run(script, "--reference", "none.json").returncode == 2


def test_a_gradient_that_the_dump_lacks_is_left_out(tmp_path):
    forward = {"input_args": [tensor([4, 3])], "input_kwargs": {"dim": {"type": "int", "value": 1}}, "output": []}
    entries = {"Torch.max.0.forward": forward, "Torch.max.0.backward": {"input": [tensor([4]), None], "output": []}}
    done = run(written(tmp_path, entries, propagation="backward"))
    assert (done.returncode, done.stderr) == (0, "")
    assert ("Shape", "torch.Size([4, 3])") in cells(done.stdout)


def test_what_torch_lacks_is_said(tmp_path):
    entries = {"Torch.no_such_api.0.forward": {"input_args": [tensor([2])], "input_kwargs": {}, "output": []}}
    done = run(written(tmp_path, entries))
    assert done.returncode == 3
    assert "ERROR: torch has no `torch.no_such_api`" in done.stdout


@pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="MindSpore is not installed")
@pytest.mark.parametrize(("propagation", "tables"), [("forward", 2), ("backward", 4)])
def test_mindspore_is_run_against_torch(tmp_path, propagation, tables):
    two = [tensor([3, 4], "Float32"), tensor([3, 4], "Float32")]
    entries = {
        "Mint.mul.0.forward": {"input_args": two, "input_kwargs": {}, "output": two[:1]},
        "Mint.mul.0.backward": {"input": two[:1], "output": two},
    }
    done = run(written(tmp_path, entries, propagation=propagation, iter_times=2))
    assert (done.returncode, done.stdout.count("Absolute Threshold Standard")) == (0, tables)
    assert ("Dtype of out_device", "float32") in cells(done.stdout)
    files = sorted(path.name for path in (tmp_path / "moved" / "op_result_output").iterdir())
    assert [name.rpartition("_")[0] for name in files] == ["accuracy_checking_details", "accuracy_checking_result"]
    details, result = ((tmp_path / "moved" / "op_result_output" / name).read_text("utf-8-sig") for name in files)
    state = "pass,," if propagation == "forward" else ",pass,"
    assert result.splitlines()[1:] == [f"Mint.mul.0,{state}"] * 2
    assert details.count(f"Mint.mul.0.{propagation}.output.") == tables
