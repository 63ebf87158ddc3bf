"""The inputs that a device dump recorded: in a folder beside it, or in the operators that read them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from probe_flow.dumpers.arrays.recorded_inputs import recorded_inputs
from probe_flow.dumps.offline.om_dump import read_om
from probe_flow.errors import UsageError

SAMPLES = Path(__file__).resolve().parents[4] / "examples" / "offline" / "samples.zip"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """Return the folder of the sample that has an ONNX model as golden."""
    with zipfile.ZipFile(SAMPLES) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("onnx/")])
    return tmp_path / "onnx"


def test_inputs_of_the_first_operators_are_those_of_the_network(sample: Path, tmp_path: Path) -> None:
    catalog = read_om(sample / "target", side="target")

    (found,) = recorded_inputs(catalog, sample / "fusion_rule.json", tmp_path / "inputs")

    assert found.name == "x"
    array = np.load(found.file)
    assert (array.dtype, array.shape) == (np.float32, (1, 3, 8, 8))
    conv = next(path for path in (sample / "golden").glob("conv1.0.*.npy"))
    assert np.load(conv).shape[0] == array.shape[0]
    assert 0.0 < array.std() < 1.0


def test_files_beside_the_dump_come_first_and_in_order(sample: Path, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    for number in (10, 2, 0):
        (tmp_path / "input" / f"input_{number}.bin").write_bytes(bytes(number))
    (tmp_path / "input" / "notes.txt").write_text("", encoding="utf-8")
    catalog = read_om(sample / "target", side="target")

    found = recorded_inputs(catalog, None, tmp_path / "inputs")

    assert [each.file.name for each in found] == ["input_0.bin", "input_2.bin", "input_10.bin"]


def test_dump_without_them_says_what_to_do(sample: Path, tmp_path: Path) -> None:
    catalog = read_om(sample / "target", side="target")

    with pytest.raises(UsageError, match="recorded no inputs") as found:
        recorded_inputs(catalog, None, tmp_path / "inputs")
    assert found.value.diagnostic.code == "PF6323"
    assert "`-fr`" in (found.value.diagnostic.help or "")


def test_operator_that_read_them_may_be_missing(sample: Path, tmp_path: Path) -> None:
    for path in (sample / "target").glob("TransData.*"):
        path.unlink()
    catalog = read_om(sample / "target", side="target")

    with pytest.raises(UsageError, match="holds no operator that reads the input `x`"):
        recorded_inputs(catalog, sample / "fusion_rule.json", tmp_path / "inputs")
