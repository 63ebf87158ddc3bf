"""`probe-flow parse`: the syntax of msprobe, exit codes, and what is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ge_writer import DumpTensor
from om_writer import OmFolder

X = np.arange(24, dtype=np.float16).reshape(1, 3, 4, 2)
NAME = "Add.net_a.7.3.1700000000000001"


@pytest.fixture
def dump(tmp_path: Path) -> OmFolder:
    folder = OmFolder(tmp_path / "dump")
    folder.op("Add", "net/a", at=1, inputs=[X], outputs=[DumpTensor(X, "float16", "NC1HWC0")])
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("words", "folder"),
    [
        (("-d", "dump"), "output"),
        (("--dump_path", "dump", "--output_path", "out"), "out"),
        (("--dump-path=dump", "--output=out"), "out"),
        (("-d", f"dump/{NAME}", "-o", "out"), "out"),
        (("-d", f"dump/{NAME},dump/{NAME}", "-out", "out"), "out"),
        (("-d", ",".join([f"dump/{NAME}"] * 200), "-o", "out"), "out"),  # longer than any path may be
    ],
)
@pytest.mark.usefixtures("dump")
def test_torch_files_are_written_to_the_output_folder(
    probe_flow: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], folder: str
) -> None:
    done = probe_flow("parse", *words)
    assert done.code == 0, done.err
    assert names(tmp_path / folder) == [f"{NAME}.input.0.pt", f"{NAME}.output.0.pt"]
    assert done.last_line == f"1 dumped files: 2 files written to `{folder}` (0.0 MB)"


@pytest.mark.usefixtures("dump")
def test_layout_shape_and_numbers_are_taken(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    words = ("-t", "npy", "-f", "NHWC", "-s", "1,3,4,2", "--output_index", "0", "-o", "out")
    done = probe_flow("parse", "-d", "dump", *words)
    assert done.code == 0, done.err
    assert names(tmp_path / "out") == [f"{NAME}.output.0.1x4x2x3.npy"]
    np.testing.assert_array_equal(np.load(tmp_path / "out" / f"{NAME}.output.0.1x4x2x3.npy"), X.transpose(0, 2, 3, 1))


def test_what_fails_is_named_and_costs_the_exit_code(
    probe_flow: Callable[..., Any], dump: OmFolder, tmp_path: Path
) -> None:
    for number in range(25):
        dump.file(f"Bad.b{number}.7.3.17000000000000{number:02d}", b"")
    done = probe_flow("parse", "-d", "dump", "-o", "out")
    assert done.code == 3
    assert done.err.count("error[PF3010]") == 20
    assert "25 dumped files not converted as a whole, see `out/convert_failed_file_list.txt`" in done.last_line
    assert "; 5 more problems" in done.last_line
    assert len((tmp_path / "out" / "convert_failed_file_list.txt").read_text().splitlines()) == 25
    assert len(names(tmp_path / "out")) == 3
    quiet = probe_flow("parse", "-d", "dump", "-o", "out", "--quiet")
    assert (quiet.code, quiet.err) == (3, "")


@pytest.mark.usefixtures("dump")
def test_other_files_go_only_when_that_is_said(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    mine = tmp_path / "out" / f"{NAME}.input.0.npy"
    mine.write_text("mine")
    done = probe_flow("parse", "-d", "dump", "-t", "npy", "-o", "out")
    assert done.code == 3
    assert "error[PF6503]" in done.err
    assert mine.read_text() == "mine"
    assert probe_flow("parse", "-d", "dump", "-t", "npy", "-o", "out", "--replace").code == 0
    np.testing.assert_array_equal(np.load(mine), X)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Missing option"),
        (("-d", "absent"), "error[PF2101]: `absent` does not exist"),
        (("-d", "a" * 5000), "does not exist"),
        (("-d", ",,"), "`--dump_path` names no dumped file and no folder"),
        (("-d", "dump", "-o", "dump"), "error[PF6501]"),
        (("-d", "dump", "-f", "NHCW"), "did you mean"),
        (("-d", "dump", "-f", "BN_WEIGHT"), "there are"),
        (("-d", "dump", "-s", "1,2"), "`--shape` is of use with `--format` only"),
        (("-d", "dump", "-f", "ND", "-s", "1,0"), "`1,0` is no shape"),
        (("-d", "dump", "-f", "ND", "-s", "3,224,224x"), "is no shape such as"),
        (("-d", "dump", "-t", "txt"), "is not one of"),
        (("-d", "dump", "-x", "1"), "No such option"),
        (("-d", "dump", "--output_index", "-1"), "-1 is not in the range"),
    ],
)
@pytest.mark.usefixtures("dump")
def test_mistakes_are_usage_errors(
    probe_flow: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    done = probe_flow("parse", *words)
    assert done.code == 2
    assert told in done.err
    assert names(tmp_path) == ["dump"]


@pytest.mark.parametrize(
    ("words", "code"), [(("-d", "empty"), "PF6507"), (("-d", "dump", "--input_index", "3"), "PF6506")]
)
@pytest.mark.usefixtures("dump")
def test_nothing_to_convert_is_not_green(
    probe_flow: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], code: str
) -> None:
    (tmp_path / "empty").mkdir()
    done = probe_flow("parse", *words)
    assert done.code == 3
    assert f"error[{code}]" in done.err


def test_a_path_with_a_comma_is_one_path(probe_flow: Callable[..., Any], tmp_path: Path) -> None:
    OmFolder(tmp_path / "a,b").op("Add", "a", at=1, outputs=[X])
    assert probe_flow("parse", "-d", "a,b").code == 0


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_every_scheduler_writes_the_same_bytes(
    probe_flow: Callable[..., Any], dump: OmFolder, tmp_path: Path, scheduler: str
) -> None:
    for number in range(2, 70):
        dump.op("Add", f"n{number}", at=number, outputs=[X + np.float16(number)])
    probe_flow("parse", "-d", "dump", "-t", "npy", "-o", "first", "--scheduler", "sync")
    done = probe_flow("parse", "-d", "dump", "-t", "npy", "-o", "out", "--scheduler", scheduler, "--workers", "2")
    assert done.code == 0, done.err
    for path in (tmp_path / "first").iterdir():
        assert (tmp_path / "out" / path.name).read_bytes() == path.read_bytes()
