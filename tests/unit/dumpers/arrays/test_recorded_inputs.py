"""The inputs that a device dump recorded: in a folder beside it, or in the operators that read them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from offline_builders import Case
from om_writer import tensor
from rule_builders import attr, desc, op

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


IMAGE = np.arange(48, dtype=np.uint8).reshape(1, 3, 4, 4)
MADE = (IMAGE.astype(np.float32) - 20) / 8


def fed(origin: str) -> dict[str, object]:
    return desc(origin, 0, dtype="DT_UINT8", shape=IMAGE.shape)


@pytest.mark.parametrize("dumped", ["aipp", "conv"])
def test_a_model_whose_device_is_fed_images_gets_what_that_makes_of_them(tmp_path: Path, dumped: str) -> None:
    """Bytes are what the device read, numbers what the original model reads: from the file of either operator."""
    case = Case(tmp_path)
    if dumped == "aipp":
        case.device("Aipp", "aipp", inputs=[IMAGE], outputs=[tensor(MADE, layout="NC1HWC0")])
    case.device("Conv2D", "conv", inputs=[tensor(MADE, layout="NC1HWC0")], outputs=[IMAGE])
    rule = case.rule(
        op("data", "Data", number=1, outputs=[fed("data")]),
        op("aipp", "Aipp", number=2, inputs=["data:0"], originals=["data"], outputs=[fed("data")]),
        op("conv", "Conv2D", number=3, inputs=["aipp:0"], originals=["conv"], outputs=[desc("conv", 0)]),
    )
    (found,) = recorded_inputs(read_om(case.target.path, side="target"), rule, tmp_path / "inputs")
    np.testing.assert_array_equal(np.load(found.file), MADE)


def test_images_of_which_no_file_shows_what_the_device_makes_are_refused(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.device("Conv2D", "conv", inputs=[IMAGE], outputs=[MADE])
    rule = case.rule(
        op("data", "AippData", number=1, outputs=[fed("data")]),
        op("conv", "Conv2D", number=2, inputs=["data:0"], originals=["conv"], outputs=[desc("conv", 0)]),
    )
    with pytest.raises(UsageError, match="the device makes the input `data` of the model"):
        recorded_inputs(read_om(case.target.path, side="target"), rule, tmp_path / "inputs")


@pytest.mark.parametrize("is_read_outside", [True, False])
def test_what_stands_for_an_input_in_a_subgraph_is_none_of_the_model(tmp_path: Path, *, is_read_outside: bool) -> None:
    case = Case(tmp_path)
    if is_read_outside:
        case.device("Relu", "act", inputs=[MADE], outputs=[MADE])
    case.device("Tanh", "then/tanh", inputs=[MADE], outputs=[MADE])
    inner = {"name": "then", "op": [
        op("then/x", "Data", number=3, attrs=[attr("_parent_node_index", i=1)], outputs=[desc()]),
        op("then/tanh", "Tanh", number=4, inputs=["then/x:0"], outputs=[desc("tanh", 0)]),
    ]}  # fmt: skip
    rule = case.rule(
        op("x", "Data", number=1, outputs=[desc("x", 0, shape=MADE.shape)]),
        op("act", "Relu", number=2, inputs=["x:0"], outputs=[desc("act", 0)]),
        op("choose", "If", number=5, inputs=["act:0", "x:0"], originals=["choose"], subgraphs=["then"]),
        more=[inner],
    )
    (found,) = recorded_inputs(read_om(case.target.path, side="target"), rule, tmp_path / "inputs")
    assert found.name == "x"
    np.testing.assert_array_equal(np.load(found.file), MADE)
