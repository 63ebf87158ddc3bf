"""Shapes of command lines that run models, the rules beside a dump, and which models can be run here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from probe_flow.cli.peer.offline_model import (
    ModelInputs,
    Variant,
    files_of,
    model_workflow,
    rule_beside,
    template_for,
    variants_of,
    worst_of,
)
from probe_flow.errors import UsageError


def test_one_shape_is_one_run() -> None:
    assert variants_of(ModelInputs()) == [Variant(None)]
    assert variants_of(ModelInputs(shape="x:1,3")) == [Variant("x:1,3")]


def test_ranges_and_lists_become_every_combination() -> None:
    found = variants_of(ModelInputs(shape_range="x:1,200~216~8,5-7;y:2"))

    assert [each.shape for each in found] == [
        f"x:1,{height},{width};y:2" for height in (200, 208, 216) for width in (5, 7)
    ]
    assert found[0].folder == "x-1_200_5-y-2"


def test_a_range_without_step_takes_each_size() -> None:
    assert [each.shape for each in variants_of(ModelInputs(shape_range="x:3~5"))] == ["x:3", "x:4", "x:5"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x:1,5~3", "`5~3` holds nothing"),
        ("x:1,a", "`a` is no size"),
        ("x:1,1~9~0", "holds nothing"),
        ("1,2", "write `x:1,3"),
        (";", "write `x:1,3"),
        ("x:1~100,1~100", "10000 shapes"),
    ],
)
def test_ranges_that_cannot_be_used_are_told(text: str, words: str) -> None:
    with pytest.raises(UsageError) as found:
        variants_of(ModelInputs(shape_range=text))
    assert found.value.diagnostic.code == "PF2141"
    assert words in f"{found.value.diagnostic.message} {found.value.diagnostic.help}"


@pytest.mark.parametrize(("name", "words"), [("net.om", "on the device only"), ("net.bin", "no model that can be run")])
def test_other_models_are_refused(name: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        template_for(Path(name), "-gp")
    assert template_for(Path("net.onnx"), "-gp") == "offline_onnx_oneclick"
    assert template_for(Path("net.pb"), "-gp") == template_for(Path(), "-gp") == "offline_tensorflow_oneclick"


def test_weights_of_a_caffe_model_lie_beside_it(tmp_path: Path) -> None:
    assert files_of(tmp_path / "net.onnx") == {}
    with pytest.raises(UsageError, match=r"no `net\.caffemodel` beside it"):
        files_of(tmp_path / "net.prototxt")

    (tmp_path / "other.caffemodel").touch()
    assert files_of(tmp_path / "net.prototxt") == {"weights": str(tmp_path / "other.caffemodel")}

    (tmp_path / "net.caffemodel").touch()
    assert files_of(tmp_path / "net.prototxt") == {"weights": str(tmp_path / "net.caffemodel")}


def test_rules_are_found_where_the_dumping_tool_leaves_them(tmp_path: Path) -> None:
    dump = tmp_path / "dump_data" / "npu" / "20260101000000" / "0" / "net" / "1" / "0"
    dump.mkdir(parents=True)
    assert rule_beside(dump) is None

    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "net.json").write_text("{}", encoding="utf-8")
    assert rule_beside(dump) == tmp_path / "model" / "net.json"

    (tmp_path / "model" / "other.json").write_text("{}", encoding="utf-8")
    assert rule_beside(dump) is None


def test_the_worst_code_of_several_runs_counts() -> None:
    assert [worst_of(codes) for codes in ([0, 0], [0, 1], [1, 3, 0], [])] == [0, 1, 3, 0]


def selected(folder: Path, target: str, **chosen: list[int]) -> dict[str, Any]:
    """Return the options of the stage `target` that compares a dump with a model."""
    (folder / "net.onnx").touch()
    paths = {"target": folder / target, "golden": folder / "net.onnx"}
    workflow = model_workflow("offline_onnx_oneclick", paths, None, ModelInputs(), Variant(None), cwd=folder, **chosen)
    (stage,) = (stage for stage in workflow.stages if stage.name == "target")
    return stage.options.model_dump(exclude_unset=True)


def test_ranks_and_steps_of_a_dump_are_selected(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()

    options = selected(tmp_path, "dump", ranks=[0, 2], steps=[1])

    assert (options["select"]["ranks"], options["select"]["steps"]) == ([0, 2], [1])
    assert not selected(tmp_path, "dump")["select"]


def test_the_rank_of_an_offline_model_is_its_device(tmp_path: Path) -> None:
    (tmp_path / "net.om").touch()

    assert selected(tmp_path, "net.om", ranks=[3])["device"] == 3
    for chosen in ({"ranks": [0, 1]}, {"steps": [0]}):
        with pytest.raises(UsageError, match="runs once, on one device"):
            selected(tmp_path, "net.om", **chosen)
