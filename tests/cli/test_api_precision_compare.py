"""`probe-flow api_precision_compare`: the syntax of msprobe, exit codes, and what its mistakes cost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data" / "precheck"
GOOD = "Torch.exp.4.forward.output.0"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with the tables of two devices, and with those of one call that passes."""
    for side in ("npu", "gpu"):
        source = DATA / f"precision_newest_{side}.csv"
        shutil.copy(source, tmp_path / f"{side}.csv")
        lines = source.read_bytes().splitlines(keepends=True)
        (tmp_path / f"good_{side}.csv").write_bytes(lines[0] + b"".join(one for one in lines if GOOD.encode() in one))
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("-npu", "good_npu.csv", "-gpu", "good_gpu.csv", "-o", "out"),
        ("--npu_csv_path", "good_npu.csv", "--gpu_csv_path", "good_gpu.csv", "--out_path", "out"),
        ("--npu-csv-path=good_npu.csv", "--gpu=good_gpu.csv", "--out=out"),
    ],
)
@pytest.mark.usefixtures("tables")
def test_calls_that_are_no_worse_are_exit_code_0(
    probe_flow: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    outcome = probe_flow("api_precision_compare", *arguments)
    assert outcome.code == 0, outcome.err
    details, result = sorted((tmp_path / "out").iterdir())
    assert outcome.out.splitlines() == [
        f"written: out/{result.name}",
        f"written: out/{details.name}",
        "0 of 1 calls are wrong",
    ]
    assert result.read_text("utf-8-sig").splitlines()[1] == "Torch.exp.4,pass, ,"


@pytest.mark.usefixtures("tables")
def test_the_framework_before_the_command_is_pytorch(probe_flow: Callable[..., Any]) -> None:
    arguments = ("api_precision_compare", "-npu", "good_npu.csv", "-gpu", "good_gpu.csv")
    assert probe_flow("-f", "pytorch", *arguments).code == 0
    assert probe_flow("-f", "mindspore", *arguments).code == 2


def test_a_wrong_call_is_exit_code_1(probe_flow: Callable[..., Any], tables: Path) -> None:
    for side in ("npu", "gpu"):
        lines = (tables / f"{side}.csv").read_bytes().splitlines(keepends=True)
        (tables / f"{side}.csv").write_bytes(b"".join(each for each in lines if b"only_npu" not in each))
    outcome = probe_flow("api_precision_compare", "-npu", "npu.csv", "-gpu", "gpu.csv", "-o", "out")
    assert outcome.code == 1, outcome.err
    assert outcome.out.splitlines()[-1] == "14 of 26 calls are wrong"


@pytest.mark.usefixtures("tables")
def test_an_output_that_could_not_be_judged_outranks_a_wrong_call(probe_flow: Callable[..., Any]) -> None:
    outcome = probe_flow("api_precision_compare", "-npu", "npu.csv", "-gpu", "gpu.csv", "-o", "out")
    assert outcome.code == 3
    assert "error[PF6625]: 1 outputs could not be judged" in outcome.err
    assert "`Torch.only_npu.0.forward.output.0`: the other device has no such output" in outcome.err


def test_a_table_of_calls_is_a_usage_error_and_nothing_is_written(probe_flow: Callable[..., Any], tables: Path) -> None:
    shutil.copy(DATA / "precision_newest_result.csv", tables / "result.csv")
    outcome = probe_flow("api_precision_compare", "-npu", "result.csv", "-gpu", "gpu.csv", "-o", "out")
    assert outcome.code == 2
    assert "error[PF6621]: `result.csv` lacks 13 of 14 columns" in outcome.err
    assert not (tables / "out").exists()


@pytest.mark.usefixtures("tables")
def test_a_table_that_is_not_there_is_a_usage_error(probe_flow: Callable[..., Any]) -> None:
    outcome = probe_flow("api_precision_compare", "-npu", "none.csv", "-gpu", "gpu.csv")
    assert outcome.code == 2
    assert "error[PF2101]: `-npu`: `none.csv` does not exist" in outcome.err
    assert probe_flow("api_precision_compare", "-npu", "npu.csv").code == 2


def test_a_folder_is_no_table(probe_flow: Callable[..., Any], tables: Path) -> None:
    (tables / "folder").mkdir()
    outcome = probe_flow("api_precision_compare", "-npu", "folder", "-gpu", "gpu.csv")
    assert outcome.code == 2
    assert "error[PF6620]: `folder` is no table of comma-separated text: Is a directory" in outcome.err


def test_a_folder_that_cannot_be_written_is_exit_code_3(probe_flow: Callable[..., Any], tables: Path) -> None:
    (tables / "out").write_text("a file")
    outcome = probe_flow("api_precision_compare", "-npu", "good_npu.csv", "-gpu", "good_gpu.csv", "-o", "out")
    assert outcome.code == 3
    assert "error[PF7001]" in outcome.err
