"""`dump.om` with a model: the tool is asked as its guide says, and what it leaves is read; no CANN, no run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_file_writer import write_om
from rule_builders import attr, desc, model, op

from probe_flow.dumpers.om.model import read_om_model

TOOL = Path(__file__).resolve().parents[1] / "support" / "stand_in_ais_bench.py"
X = np.array([[1.5, -2.0, 4.0]], "f4")


def net(*, shape: tuple[int, ...] = (1, 3), atc: str = "", aipp: bool = False) -> dict[str, Any]:
    data = desc(dtype="DT_FLOAT", layout="ND", shape=shape)
    return model(
        op("x", "AippData" if aipp else "Data", outputs=(data,)),
        op(
            "scale",
            "Mul",
            number=1,
            inputs=("x:0",),
            originals=("scale",),
            outputs=(desc("scale", 0, dtype="DT_FLOAT"),),
        ),
        op("branch", "If", number=2, inputs=("scale:0",), subgraphs=("then_graph",)),
        op("out", "NetOutput", number=3, inputs=("branch:0",)),
        attrs=[
            *([attr("atc_cmdline", s=atc)] if atc else []),
            attr("attr_model_out_nodes_name", list={"val_type": "VT_LIST_STRING", "s": ["scale:0"]}),
        ],
        more=({"name": "then_graph", "op": [op("inner", "Relu", outputs=(desc("inner", 0),))]},),
    )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder to work in, on a machine with CANN and a tool on the path."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "cann").mkdir()
    tool = tmp_path / "bin" / "run_om"
    tool.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(TOOL))} "$@"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(tmp_path / "cann"))
    write_om(tmp_path / "net.om", net())
    np.save(tmp_path / "x.npy", X)
    return tmp_path


def workflow(folder: Path, **options: Any) -> str:
    stage = {"uses": "dump.om", "model": "net.om", "tool": ["run_om"], "inputs": {"files": ["x.npy"]}, "output": "made"}
    stages = {"target": {name: value for name, value in {**stage, **options}.items() if value is not None}}
    (folder / "w.yaml").write_text(json.dumps({"version": 1, "name": "w", "stages": stages}))
    return "w.yaml"


def arguments(folder: Path) -> dict[str, str]:
    return json.loads((folder / "made" / "om_dump" / "results" / "arguments.json").read_text())


def test_the_tool_runs_the_model_and_its_dump_is_read(machine: Path, probe_flow: Callable[..., Any]) -> None:
    done = probe_flow("run", workflow(machine, device=3))

    assert done.code == 0, done.err
    made = machine / "made" / "om_dump"
    given = arguments(machine)
    assert given["model"] == str(machine / "net.om")
    assert given["input"] == str(made / "input" / "input_0.bin")
    assert (given["device"], given["warmup_count"]) == ("3", "0")
    assert (given["acl_json_path"], given["output"]) == (str(made / "acl.json"), str(made / "results"))
    assert json.loads((made / "acl.json").read_text()) == {
        "dump": {
            "dump_list": [{"model_name": "net"}, {"model_name": "then_graph"}],
            "dump_path": str(made / "dump_data"),
            "dump_mode": "all",
            "dump_op_switch": "off",
        }
    }
    assert np.fromfile(made / "input" / "input_0.bin", "<f4").tolist() == X.ravel().tolist()
    assert "acl init success, device 3" in (machine / "made" / "model.log").read_text()
    manifest = json.loads((made / "dump_data" / "dump_manifest.json").read_text())
    assert manifest["is_complete"] is True
    assert (manifest["expected"], manifest["written"]) == (4, 2)
    assert [(each["node"], each["slot"], each["op_type"]) for each in manifest["tensors"]] == [
        ("scale", "input", "Mul"),
        ("scale", "output", "Mul"),
    ]
    assert {each["name"] for each in manifest["skipped"]} == {"branch", "inner"}
    assert manifest["model"]["sha256"]


def test_a_dump_that_lost_a_file_is_warned_of_when_it_is_adopted(machine: Path, probe_flow: Callable[..., Any]) -> None:
    assert probe_flow("run", workflow(machine)).code == 0
    data = machine / "made" / "om_dump" / "dump_data"
    adopted = {"target": {"uses": "dump.om", "path": str(data)}}
    (machine / "a.yaml").write_text(json.dumps({"version": 1, "name": "a", "stages": adopted}))
    assert "PF6340" not in probe_flow("run", "a.yaml").err
    (path,) = data.rglob("Mul.*")
    path.rename(path.with_name(path.name.replace("scale", "other")))

    done = probe_flow("run", "a.yaml", "--no-cache")

    assert "PF6340" in done.err
    assert "lacks 2 of the 2 files" in done.err


def test_inputs_that_are_not_given_are_drawn_as_the_model_takes_them(
    machine: Path, probe_flow: Callable[..., Any]
) -> None:
    done = probe_flow("run", workflow(machine, inputs=None, seed=4))

    assert done.code == 0, done.err
    raw = (machine / "made" / "om_dump" / "input" / "input_0.bin").read_bytes()
    assert raw == np.load(machine / "made" / "input" / "0" / "x.npy").tobytes()
    assert len(raw) == 12


def test_an_input_of_another_shape_is_refused_before_the_tool_runs(
    machine: Path, probe_flow: Callable[..., Any]
) -> None:
    np.save(machine / "x.npy", np.zeros((1, 4), "f4"))

    done = probe_flow("run", workflow(machine))

    assert done.code == 2
    assert "PF6323" in done.err
    assert "(1, 4)" in done.err
    assert not (machine / "made" / "om_dump" / "results" / "arguments.json").exists()


@pytest.mark.parametrize(
    ("atc", "shape", "expected"),
    [
        ("atc --input_shape=x:-1,3 --dynamic_batch_size=1,2", "x:2,3", {"dymBatch": "2", "outputSize": None}),
        ("atc --input_shape x:-1,-1 --dynamic_dims 2,3;4,6", "x:2,3", {"dymDims": "x:2,3", "outputSize": None}),
        ('atc --input_shape="x:-1,3"', "x:2,3", {"dymShape": "x:2,3", "outputSize": "90000000"}),
        ("atc --input_shape_range=x:[1~8,3]", "x:2,3", {"dymShape": "x:2,3", "outputSize": "90000000"}),
    ],
)
def test_sizes_that_atc_left_open_are_told_to_the_tool(
    machine: Path, probe_flow: Callable[..., Any], atc: str, shape: str, expected: dict[str, str | None]
) -> None:
    write_om(machine / "net.om", net(shape=(2, 3), atc=atc))
    np.save(machine / "x.npy", np.ones((2, 3), "f4"))

    done = probe_flow("run", workflow(machine, input_shape=shape))

    assert done.code == 0, done.err
    assert expected.items() <= arguments(machine).items()


def test_sizes_of_images_are_height_and_width(tmp_path: Path) -> None:
    tree = net(shape=(1, 3, 8, 6), atc="atc --input_shape=x:1,3,-1,-1 --dynamic_image_size=8,6;4,4")

    found = read_om_model(write_om(tmp_path / "net.om", tree))

    assert found.size_options({"x": (1, 3, 8, 6)}, None) == ["--dymHW", "8,6"]
    assert found.size_options({"x": (1, 3, 8, 6)}, "100") == ["--dymHW", "8,6", "--outputSize", "100"]


def test_open_sizes_without_a_shape_are_named(machine: Path, probe_flow: Callable[..., Any]) -> None:
    write_om(machine / "net.om", net(atc="atc --input_shape=x:-1,3"))

    done = probe_flow("run", workflow(machine, inputs=None))

    assert done.code == 2
    assert "PF6323" in done.err
    assert "leaves sizes open" in done.err


def test_raw_bytes_for_a_model_that_changes_its_inputs_are_taken_as_they_are(
    machine: Path, probe_flow: Callable[..., Any]
) -> None:
    write_om(machine / "net.om", net(aipp=True))
    (machine / "image.bin").write_bytes(X.tobytes())

    assert probe_flow("run", workflow(machine, inputs={"files": ["image.bin"]})).code == 0
    assert (machine / "made" / "om_dump" / "input" / "input_0.bin").read_bytes() == X.tobytes()
    refused = probe_flow("run", workflow(machine, inputs=None, output="other"))
    assert refused.code == 2
    assert "AIPP" in refused.err


def test_a_tool_that_fails_shows_its_words(
    machine: Path, probe_flow: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_FAILS", "3")

    done = probe_flow("run", workflow(machine))

    assert done.code == 3
    assert "PF6324" in done.err
    assert "exit code 3" in done.err
    assert "load model failed" in done.err
    manifest = json.loads((machine / "made" / "om_dump" / "dump_data" / "dump_manifest.json").read_text())
    assert manifest["is_complete"] is False


def test_a_tool_that_leaves_no_dump_is_not_taken_for_one_that_did(
    machine: Path, probe_flow: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_IS_SILENT", "1")

    done = probe_flow("run", workflow(machine))

    assert done.code == 3
    assert "PF6327" in done.err


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_without_cann_both_say_so_and_what_to_do(
    machine: Path, probe_flow: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.delenv("ASCEND_TOOLKIT_HOME")

    done = probe_flow(verb, workflow(machine))

    text = done.out + done.err
    assert "PF6328" in text
    assert "`ASCEND_TOOLKIT_HOME` is not set" in text
    assert "init --snippet om" in text
    assert "path:" in text
    if verb == "run":
        assert done.code == 2
        assert not list((machine / "made").rglob("Mul.*"))


def test_a_tool_that_is_not_there_is_named_by_the_plan(machine: Path, probe_flow: Callable[..., Any]) -> None:
    done = probe_flow("plan", workflow(machine, tool=["no_such_tool"]))

    assert "`no_such_tool` is no program" in done.out + done.err
    own = probe_flow("plan", workflow(machine, tool=None))
    assert "`ais_bench` is not installed" in own.out + own.err


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "no offline model"), (b"{}", "no offline model"), (b"IMOD" + b"\0" * 20, "header alone has 256")],
)
def test_a_file_that_is_no_model_is_refused(
    machine: Path, probe_flow: Callable[..., Any], content: bytes, words: str
) -> None:
    (machine / "net.om").write_bytes(content)

    done = probe_flow("run", workflow(machine))

    assert done.code == 2
    assert "PF6322" in done.err
    assert words in done.err


def test_options_of_a_run_need_a_model(tmp_path: Path, probe_flow: Callable[..., Any]) -> None:
    (tmp_path / "dump").mkdir()
    stages = {"target": {"uses": "dump.om", "path": "dump", "device": 1}}
    (tmp_path / "w.yaml").write_text(json.dumps({"version": 1, "name": "w", "stages": stages}))

    done = probe_flow("validate", "w.yaml")

    assert done.code == 2
    assert "only a stage that runs a `model` takes it" in done.err


@pytest.fixture
def ais_bench(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the machine, on which the running interpreter has the module ais_bench."""
    (machine / "packages").mkdir()
    (machine / "packages" / "ais_bench.py").write_text(
        f"import runpy\nrunpy.run_path({str(TOOL)!r}, None, '__main__')\n"
    )
    monkeypatch.syspath_prepend(str(machine / "packages"))
    return machine


def test_the_command_dumps_an_offline_model(ais_bench: Path, probe_flow: Callable[..., Any]) -> None:
    done = probe_flow("offline_dump", "--model_path", "net.om", "--input_data", "x.npy", "--rank", "2", "-o", "out")

    assert done.code == 0, done.err
    (found,) = ais_bench.glob("out/*/dump_data/om_dump/dump_data/2/net/1/0/Mul.scale.*")
    assert json.loads((found.parents[4] / "dump_manifest.json").read_text())["is_complete"] is True


def test_an_offline_model_is_the_target_of_a_comparison(
    ais_bench: Path, probe_flow: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from probe_flow.cli.peer import offline_model
    from probe_flow.workflow.model import Workflow

    seen: list[Workflow] = []

    def shown(workflow: Workflow, *_: object) -> int:
        seen.append(workflow)
        return 0

    monkeypatch.setattr(offline_model, "show_variant", shown)
    (ais_bench / "net.onnx").write_bytes(b"")
    given = ("compare", "-m", "offline_model", "-tp", "net.om", "-gp", "net.onnx", "-o", "out")

    done = probe_flow(*given, "--input_data", "x.npy", "--rank", "1", "--output_size", "64")

    assert done.code == 0, done.err
    target, golden, pairs, *_ = seen[0].stages
    om, files = str(ais_bench / "net.om"), {"files": [str(ais_bench / "x.npy")]}
    assert target.options.model_dump(exclude_unset=True) == {
        "uses": "dump.om", "model": om, "inputs": files, "device": 1, "output_size": "64",
    }  # fmt: skip
    assert golden.options.model_dump(include={"recorded_by", "inputs"}, exclude_none=True) == {
        "recorded_by": "target",
        "inputs": files,
    }
    assert pairs.options.model_dump()["fusion_rule"] == om
    several = probe_flow(*given, "--rank", "0,1")
    assert several.code == 2
    assert "PF2140" in several.err
    assert probe_flow("compare", "-m", "offline_model", "-tp", "x.npy", "-gp", "net.om").code == 2
