"""The folder of an FX dump: never mixed with anything, replaced only when asked for and ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from probe_flow.dumpers.torchair.fx_folder import open_fx_folder
from probe_flow.errors import UsageError


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)


def open_one(path: Path, *, overwrite: bool = False) -> Path:
    return open_fx_folder(path, {"data": "tensor"}, overwrite=overwrite)


def refusal(path: Path, *, overwrite: bool = False) -> str:
    with pytest.raises(UsageError) as raised:
        open_one(path, overwrite=overwrite)
    assert raised.value.diagnostic.code == "PF6321"
    return raised.value.diagnostic.message


def test_new_folder_gets_a_manifest_with_versions_and_options(tmp_path: Path) -> None:
    folder = open_one(tmp_path / "dump")

    content = json.loads((folder / "dump_manifest.json").read_text(encoding="utf-8"))
    assert folder.name == "worldsize1_global_rank0"
    assert content["schema"] == "probe_flow/fx_dump/1"
    assert content["options"] == {"data": "tensor"}
    assert {"probe_flow", "python", "numpy"} <= set(content["versions"])


def test_rank_is_taken_from_the_launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "2")

    assert open_one(tmp_path / "dump").name == "worldsize4_global_rank2"


def test_ranks_of_one_world_share_a_folder_and_others_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_one(tmp_path)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    assert "worldsize1_global_rank0" in refusal(tmp_path)

    open_one(tmp_path / "two")
    monkeypatch.setenv("RANK", "1")
    assert open_one(tmp_path / "two").name == "worldsize2_global_rank1"


def test_folder_with_other_things_is_refused_even_to_overwrite(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")

    assert "notes.txt" in refusal(tmp_path, overwrite=True)


def test_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dump").write_text("", encoding="utf-8")

    assert "is a file" in refusal(tmp_path / "dump")


def test_dump_is_replaced_only_when_asked_for(tmp_path: Path) -> None:
    old = open_one(tmp_path)
    (old / "graph_1").mkdir()
    assert "not empty" in refusal(tmp_path)

    assert sorted(path.name for path in open_one(tmp_path, overwrite=True).iterdir()) == ["dump_manifest.json"]


@pytest.mark.parametrize("manifest", [None, "{", "[]", '{"schema": "other"}'])
def test_dump_of_another_program_is_never_replaced(tmp_path: Path, manifest: str | None) -> None:
    folder = tmp_path / "worldsize1_global_rank0"
    (folder / "graph_1").mkdir(parents=True)
    if manifest is not None:
        (folder / "dump_manifest.json").write_text(manifest, encoding="utf-8")

    assert "not replaced" in refusal(tmp_path, overwrite=True)
    assert (folder / "graph_1").is_dir()
