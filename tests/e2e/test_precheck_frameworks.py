"""Pre-checks in MindSpore and torch themselves, on the processor."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from precheck_dumps import Tables, backward, forward, one, tables_in, tensor, write_dump

from e2e.projects import WORKFLOWS
from probe_flow.cli.main import main

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="mindspore is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

DATA = Path(__file__).parents[1] / "data" / "precheck"
FIGURE = 1e-6
"""What figures of two machines may differ by, relative to 1 or to themselves."""

UNCHECKED = "Tensor.__"
"""Beginning of the names that msprobe leaves out without a word."""

GRADIENTS = {"Mint.cat.0", "Mint.max.0"}
"""Calls whose backward pass msprobe cannot run: of a list of tensors, and with a null gradient."""


def check(dump: Path, out: Path, *options: str) -> tuple[int, Tables]:
    code = main(["acc_check", "-api_info", str(dump), "-o", str(out), *options])
    return code, tables_in(out)


@pytest.fixture
def net() -> Path:
    """The folder of the stored dump and of msprobe's tables."""
    return DATA


def test_a_dump_of_a_network_gives_the_rows_that_msprobe_gives(net: Path, tmp_path: Path):
    code, ours = check(net / "net_dump_statistics.json", tmp_path / "out", "--profile", "msprobe")
    theirs = Tables(net / "net_result.csv", net / "net_details.csv")
    assert code == 0
    more = {name for name in ours.outputs if name not in theirs.outputs}
    assert {name.partition(".backward")[0] for name in more} == GRADIENTS
    for name, row in theirs.outputs.items():
        cells = ours.outputs[name]
        assert (cells[:3], cells[6]) == (row[:3], row[6]), name
        for mine, other in zip(cells[3:6], row[3:6], strict=True):
            assert float(mine) == pytest.approx(float(other), rel=FIGURE, abs=FIGURE), name
    for name, states in ours.states.items():
        if name in theirs.states and name not in GRADIENTS:
            assert states == theirs.states[name], name
        else:
            assert name.startswith(UNCHECKED) or states == ("pass", "pass"), name
    assert set(theirs.states) <= set(ours.states)


def replaced(monkeypatch: pytest.MonkeyPatch, folder: Path, *lines: str) -> None:
    """Let Python load a hook at the start of each worker that runs these lines when `mindspore.mint` is asked for."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import importlib\n"
        "plain = importlib.import_module\n"
        "def import_module(name, package=None):\n"
        "    module = plain(name, package)\n"
        "    if name == 'mindspore.mint' and not hasattr(module, 'right_exp'):\n"
        "        module.right_exp = module.exp\n"
        + "".join(f"        {line}\n" for line in lines)
        + "    return module\n"
        "importlib.import_module = import_module\n"
    )
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *([before] if before else [])]))


def test_a_kernel_that_is_wrong_by_one_percent_is_found_and_nothing_else(net: Path, tmp_path: Path, monkeypatch):
    wrong = "module.exp = lambda *args, **kwargs: module.right_exp(*args, **kwargs) * 1.01"
    replaced(monkeypatch, tmp_path / "hook", wrong, "module.exp.__module__ = name")
    code, tables = check(net / "net_dump_statistics.json", tmp_path / "out", "--profile", "msprobe")
    assert code == 1
    # The gradients are so small there that 1 % of them is below the limit.
    assert {name: states for name, states in tables.states.items() if "error" in states} == {
        "Mint.exp.0": ("error", "pass")
    }


def test_a_function_that_somebody_put_in_place_of_an_operator_is_not_run_and_not_green(
    net: Path, tmp_path: Path, monkeypatch
):
    trace = tmp_path / "ran"
    replaced(monkeypatch, tmp_path / "hook", f"module.exp = lambda *args, **kwargs: open({str(trace)!r}, 'w')")
    code, tables = check(net / "net_dump_statistics.json", tmp_path / "out", "--profile", "msprobe")
    assert code == 3
    assert tables.states["Mint.exp.0"][0] == "SKIP"
    assert not trace.exists()


def test_what_msprobe_cannot_run_and_what_mindspore_has_no_kernel_for(tmp_path: Path, capsys):
    x, grid = tensor(2, 3), tensor(4, 3)
    numbers = tensor(2, dtype="Int64", low=0, high=2)
    code, tables = check(
        write_dump(
            tmp_path / "dump",
            {
                "Mint.where.0.forward": forward(
                    tensor(1, 4096, dtype="Bool", low=False, high=False),
                    one(0),
                    one(1),
                    outputs=[tensor(1, 4096, dtype="Int64", low=1, high=1)],
                ),
                "Mint.cat.0.forward": forward([x, x], dim=one(0), outputs=[grid]),
                "Mint.cat.0.backward": backward([grid], [x, x]),
                "Mint.max.0.forward": forward(x, one(1), outputs=[tensor(2), numbers]),
                "Mint.max.0.backward": backward([tensor(2), None], [x]),
                "Mint.split.0.forward": forward(grid, one(2), outputs=[x, x]),
                "Mint.split.0.backward": backward([x, None], [grid]),
                "Mint.mul.0.forward": forward(x, other=x, outputs=[x]),
                "Mint.mul.0.backward": backward([x], [x, x]),
                "Tensor.add_.0.forward": forward(x, x, outputs=[x]),
                "Tensor.add_.0.backward": backward([x], [x, x]),
                "Mint.argmax.0.forward": forward(x, outputs=[tensor(dtype="Int64", low=0, high=5)]),
                "Mint.exp.0.forward": forward(x),
                "Mint.sqrt.0.forward": forward(tensor(4, low=-2.0, high=1.0)),
                "Mint.add.0.forward": forward(tensor(0, 3, low=None, high=None), one(1)),
                "Tensor.item.0.forward": forward(tensor(1), outputs=[one(0.5)]),
                "Mint.sum.0.forward": forward(tensor(4, dtype="BFloat16")),
            },
        ),
        tmp_path / "out",
    )
    assert set(tables.states.values()) <= {("pass", "pass"), ("pass", "")}, (tables.states, tables.messages)
    assert code == 0
    assert [name for name in tables.outputs if ".mul.0.backward" in name][-1].endswith("output.1")
    error = capsys.readouterr().err
    assert "warning[PF6610]" in error
    assert "`Mint.argmax.0`" in error


def test_what_the_two_frameworks_say_in_their_own_words(tmp_path: Path):
    half, likelihoods = tensor(4, dtype="BFloat16"), tensor(3, 4, low=-3.0, high=-0.1)
    classes = tensor(3, dtype="Int32", low=-100, high=3)
    code, tables = check(
        write_dump(
            tmp_path / "dump",
            {
                "Tensor.type.0.forward": forward(half, outputs=[one("BFloat16")]),
                "Mint.sqrt.0.forward": forward(tensor(4, dtype="BFloat16", low=0.0)),
                "Tensor.expand_as.0.forward": forward(tensor(4), tensor(3, 4), outputs=[tensor(3, 4)]),
                "Tensor.expand_as.0.backward": backward([tensor(3, 4)], [tensor(4), tensor(3, 4)]),
                "MintFunctional.nll_loss.0.forward": forward(likelihoods, classes, outputs=[tensor()]),
                "MintFunctional.nll_loss.0.backward": backward([tensor()], [likelihoods]),
                "Mint.einsum.0.forward": forward(one("ij,jk->ik"), tensor(2, 3), tensor(3, 2), outputs=[tensor(2, 2)]),
            },
        ),
        tmp_path / "out",
    )
    assert set(tables.states.values()) <= {("pass", "pass"), ("pass", "")}, (tables.states, tables.messages)
    assert code == 0


def test_one_changed_result_of_a_dump_with_tensors_is_found_alone(tmp_path: Path):
    dump = write_tensors(tmp_path / "dump")
    code, tables = check(dump, tmp_path / "right")
    assert code == 0, tables.messages
    assert set(tables.states.values()) == {("pass", "pass")}
    changed = dump.parent / "dump_tensor_data" / "Mint.matmul.0.backward.output.1.npy"
    values = np.load(changed)
    values.flat[3] += 1e-3
    np.save(changed, values)
    code, tables = check(dump, tmp_path / "wrong")
    assert code == 1
    assert {name: states for name, states in tables.states.items() if states != ("pass", "pass")} == {
        "Mint.matmul.0": ("pass", "error")
    }
    assert [name for name, row in tables.outputs.items() if row[6] != "pass"] == ["Mint.matmul.0.backward.output.1"]


def write_tensors(folder: Path) -> Path:
    """Run calls in MindSpore, and write their tensors as its collector does."""
    import mindspore
    from mindspore import mint

    data = folder / "dump_tensor_data"
    data.mkdir(parents=True)
    draw = np.random.default_rng(19)
    calls = {"matmul": mint.matmul, "add": mint.add, "exp": mint.exp, "relu": mint.nn.functional.relu}
    entries: dict[str, Any] = {}
    for name, function in calls.items():
        count = 2 if name in ("matmul", "add") else 1
        given = [mindspore.Tensor(draw.standard_normal((4, 4)).astype(np.float32)) for _ in range(count)]
        incoming = mindspore.Tensor(draw.standard_normal((4, 4)).astype(np.float32))
        result = function(*given)
        gradients = mindspore.ops.GradOperation(get_all=True, sens_param=True)(function)(*given, incoming)
        base = f"{'MintFunctional' if name == 'relu' else 'Mint'}.{name}.0"

        def saved(place: str, value: Any, base: str = base) -> dict[str, Any]:
            values = value.asnumpy()
            np.save(data / f"{base}.{place}.npy", values)
            low, high = float(values.min()), float(values.max())
            return tensor(*values.shape, low=low, high=high, data_name=f"{base}.{place}.npy")

        entries[f"{base}.forward"] = forward(
            *(saved(f"forward.input.{number}", each) for number, each in enumerate(given)),
            outputs=[saved("forward.output.0", result)],
        )
        entries[f"{base}.backward"] = backward(
            [saved("backward.input.0", incoming)],
            [saved(f"backward.output.{number}", each) for number, each in enumerate(gradients)],
        )
    return write_dump(folder, entries, task="tensor", dump_data_dir=str(data))


@pytest.mark.parametrize(("name", "code"), [("mindspore_precheck", 0), ("compare_then_precheck", 1)])
def test_the_packaged_workflows_run_as_they_stand(tmp_path: Path, name: str, code: int):
    assert main(["run", str(WORKFLOWS / f"{name}.yaml"), "--output", str(tmp_path / "out")]) == code
    states = {states for states in tables_in(tmp_path / "out").states.values() if states != ("SKIP", "")}
    assert states == {("pass", "")}


def test_the_fused_attention_has_a_benchmark_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    x = tensor(2, 4, 32, dtype="Float16")
    facts = {"scalar_value": one(0.25), "outputs": [x]}
    dump = write_dump(
        tmp_path / "dump",
        {
            "Functional.flash_attention_score.0.forward": forward(x, x, x, one(2), input_layout=one("BSH"), **facts),
            "Functional.flash_attention_score.0.backward": backward([x], [x, x, x]),
            "Functional.flash_attention_score.1.forward": forward(x, x, x, one(2), input_layout=one("TND"), **facts),
        },
    )
    code, tables = check(dump, tmp_path / "out")
    assert code == 0
    assert list(tables.states.values()) == [("pass", "pass"), ("SKIP", "")]
    assert tables.messages["Functional.flash_attention_score.1"] == "an attention of layout `TND` has no benchmark"
    assert "PF6610" in capsys.readouterr().err, "its kernel is of the NPU"
    assert {tuple(row[:2]) for row in tables.outputs.values()} == {("Float64", "Float16")}


def test_a_network_is_right_by_the_standards_too(net: Path, tmp_path: Path):
    code, tables = check(net / "net_dump_statistics.json", tmp_path / "out", "--judge", "standard")
    assert code == 0
    assert {state for states in tables.states.values() for state in states} == {"pass", "SKIP", ""}


def test_a_script_knows_an_element_type_by_both_names(tmp_path: Path):
    dump = write_dump(tmp_path, {"Tensor.type.0.forward": forward(tensor(4), outputs=[one("Float32")])})
    config = {"dump_json_path": str(dump), "api_name": "Tensor.type.0", "extract_api_path": str(tmp_path / "type.json")}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["op_generate", "-i", str(tmp_path / "config.json"), "-o", str(tmp_path)]) == 0
    script = [sys.executable, "Tensor.type.0.forward.py", "--device", "cpu"]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
