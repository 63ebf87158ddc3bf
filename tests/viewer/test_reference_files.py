"""The viewer shows the files of msprobe as they are: what the tests of our own files take for granted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from graph_viewer import Viewer

DATA = Path(__file__).parents[1] / "data" / "visualization"
HEAD = "Module.head.Linear.{}.0"


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    (found,) = DATA.glob(f"gen*/{name}.gz")
    path.write_bytes(gzip.decompress(found.read_bytes()))
    path.chmod(0o640)
    return path


def test_lists_every_kind_of_file(serve: Callable[..., Viewer], tmp_path: Path) -> None:
    files = {"alone": "build_stat.vis", "two": "cmp_stat.vis", "database": "cmp_stat.vis.db"}
    viewer = serve(**{run: unpacked(name, tmp_path) for run, name in files.items()})

    assert viewer.listed() == {
        "alone": {"type": "json", "tags": ["build_stat"]},
        "two": {"type": "json", "tags": ["cmp_stat"]},
        "database": {"type": "db", "tags": ["cmp_stat"]},
    }


def test_draws_what_the_json_file_holds(
    serve: Callable[..., Viewer], colours: Callable[[Viewer], dict[str, str]], tmp_path: Path
) -> None:
    path = unpacked("cmp_stat.vis", tmp_path)
    stored: dict[str, Any] = json.loads(path.read_text())["NPU"]["node"]
    viewer = serve(two=path)
    shown = viewer.open("two")

    assert shown.config["task"] == "summary"
    assert sorted(shown.names()["npuNodeList"]) == sorted(stored)
    drawn = shown.expanded()
    assert {name: node["precisionIndex"] for name, node in drawn.items() if name != "DefaultModel"} == {
        name: stored[name]["data"]["precision_index"] for name in stored["DefaultModel"]["subnodes"]
    }
    assert shown.node(HEAD.format("forward"))["bench"]["id"] == HEAD.format("forward")
    fills = colours(viewer)
    assert fills["N___Module.layers.1.Block.forward.0"] == "#FF704D"
    assert fills["N___" + HEAD.format("forward")] == "#FFEDBE"
    assert fills["N___" + HEAD.format("backward")] == "#FFC62E"
    assert fills["N___Module.emb.Embedding.forward.0"] == "#FFFCF3"
    assert fills["B___" + HEAD.format("forward")] == "rgba(255, 255, 255, 1)"


def test_draws_what_the_database_holds(
    serve: Callable[..., Viewer], colours: Callable[[Viewer], dict[str, str]], tmp_path: Path
) -> None:
    viewer = serve(database=unpacked("cmp_stat.vis.db", tmp_path))
    shown = viewer.open("database")

    assert (shown.config["ranks"], shown.config["steps"]) == ([0], [0])
    assert shown.in_bands([0.6, 1]) == ["Functional.leaky_relu.1.forward"]
    fills = colours(viewer)
    assert {name for name, fill in fills.items() if name.startswith("N___") and fill == "#FFDC7F"} == {
        "N___Module.layers.1.Block.forward.0"
    }


def test_omits_scores_of_exactly_one(serve: Callable[..., Viewer], tmp_path: Path) -> None:
    path = unpacked("cmp_stat.vis", tmp_path)
    nodes = json.loads(path.read_text())["NPU"]["node"]
    worst = [name for name, node in nodes.items() if node["data"].get("precision_index") == 1 and not node["subnodes"]]
    shown = serve(two=path).open("two")

    assert worst
    assert not set(worst) & set(shown.in_bands([0.8, 1]))
    assert set(worst) <= set(shown.in_bands([0.8, 1.1]))


@pytest.mark.parametrize("mode", [0o660, 0o606])
def test_refuses_files_that_others_may_write(serve: Callable[..., Viewer], tmp_path: Path, mode: int) -> None:
    path = unpacked("build_stat.vis", tmp_path)
    path.chmod(mode)
    viewer = serve(alone=path)

    with pytest.raises(AssertionError, match="group or others have write access"):
        viewer.listed()
