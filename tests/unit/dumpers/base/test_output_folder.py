"""The folder that a run of a model writes to."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy_framework import TOY

from probe_flow.dumpers.base import process
from probe_flow.dumpers.registry import RUNNERS
from probe_flow.errors import UsageError


def prepare_output(folder: Path, *, may_replace: bool) -> None:
    process.prepare_output(folder, [*RUNNERS.values(), TOY], may_replace=may_replace)


def earlier_run(folder: Path) -> Path:
    for name in ("msprobe_fx_dump", "toy_dump", "toy_cache", "input", "repeat_2"):
        (folder / name).mkdir(parents=True)
    for name in ("model_job.json", "model_run.json", "model.log"):
        (folder / name).write_text("{}", encoding="utf-8")
    return folder


def test_new_folder_is_made(tmp_path: Path) -> None:
    prepare_output(tmp_path / "a" / "b", may_replace=False)

    assert (tmp_path / "a" / "b").is_dir()


def test_earlier_run_is_removed_only_when_it_may_be(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "out")

    with pytest.raises(UsageError, match="holds an earlier dump"):
        prepare_output(folder, may_replace=False)
    assert (folder / "msprobe_fx_dump").is_dir()

    prepare_output(folder, may_replace=True)
    assert list(folder.iterdir()) == []


def test_what_a_link_leads_to_is_not_removed(tmp_path: Path) -> None:
    folder = earlier_run(tmp_path / "out")
    kept = tmp_path / "kept"
    kept.mkdir()
    (folder / "repeat_3").symlink_to(kept)

    prepare_output(folder, may_replace=True)

    assert kept.is_dir()


@pytest.mark.parametrize("name", ["notes.txt", "worldsize1_global_rank0"])
def test_other_things_are_never_removed(tmp_path: Path, name: str) -> None:
    folder = earlier_run(tmp_path / "out")
    (folder / name).write_text("", encoding="utf-8")

    with pytest.raises(UsageError, match=name):
        prepare_output(folder, may_replace=True)
    assert (folder / "model.log").is_file()


def test_dump_that_no_run_of_ours_made_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "out" / "msprobe_fx_dump").mkdir(parents=True)

    with pytest.raises(UsageError, match="another program"):
        prepare_output(tmp_path / "out", may_replace=True)


def test_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("", encoding="utf-8")

    with pytest.raises(UsageError, match="is a file"):
        prepare_output(tmp_path / "out", may_replace=True)
