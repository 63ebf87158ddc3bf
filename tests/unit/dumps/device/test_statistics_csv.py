"""Device statistics: the table that a device writes instead of tensors, and what the graph adds to it."""

from __future__ import annotations

import math

import pytest
from torchair_builders import FIRST_US, GeDump, Op

from probe_flow.dumps.device.statistics_csv import read_device_statistics
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.errors import FormatError
from probe_flow.records import Execution, NodeKey, Statistics, TensorKind

HEADER = (
    "Input/Output,Index,Data Size,Data Type,Format,Shape,Max Value,Min Value,Avg Value,Count,Nan Count,"
    "Negative Inf Count,Positive Inf Count"
)
KEY = NodeKey(Execution(), "Add")


def read(tmp_path, text):
    path = tmp_path / "Add.Add_1.44.6.1706596912161941.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_device_statistics(path, KEY)


def test_the_published_row_is_read(tmp_path):
    (ref,) = read(tmp_path, f"{HEADER}\nInput,0,268435456,DT_INT64,ND,100x20x40,100,200,10.1,80000,400,500,600\n")
    assert (ref.id, ref.kind, ref.dtype, ref.stored_dtype) == (
        "Add.input.0",
        TensorKind.STATISTICS,
        "int64",
        "DT_INT64",
    )
    assert (ref.shape, ref.logical_shape, ref.layout) == ((100, 20, 40), (100, 20, 40), "ND")
    assert ref.recorded == Statistics(min=200, max=100, mean=10.1, nan=400, inf=1100)
    assert ref.facts.digits == 6


def test_only_the_columns_that_were_asked_for_are_there(tmp_path):
    text = "Input/Output,Index,Data Type,Format,Shape,Max Value,l2norm\nOutput,0,DT_FLOAT16,ND,2x3,5,7.5\n"
    (ref,) = read(tmp_path, text)
    assert ref.recorded == Statistics(max=5.0, l2norm=7.5)
    assert ref.checksum is None


def test_inputs_come_before_outputs_by_number(tmp_path):
    rows = ["Output,0", "Input,10", "Input,2", "Output,1"]
    text = "Input/Output,Index,Max Value\r\n" + "".join(f"{row},1\r\n" for row in rows)
    refs = read(tmp_path, text)
    assert [str(ref.slot) for ref in refs] == ["input.2", "input.10", "output.0", "output.1"]
    assert {(ref.dtype, ref.shape, ref.layout) for ref in refs} == {("", None, "ND")}


def test_nan_and_infinities_are_values(tmp_path):
    text = "Input/Output,Index,Data Type,Max Value,Min Value\nOutput,0,DT_FLOAT,inf,-nan\n"
    (ref,) = read(tmp_path, text)
    assert ref.recorded.max == math.inf
    assert math.isnan(ref.recorded.min)


@pytest.mark.parametrize("cell", ["", "N/A", "1,0"])
def test_a_tensor_without_any_number_stays_visible(tmp_path, cell):
    text = f'Input/Output,Index,Max Value\nOutput,0,"{cell}"\n'
    (ref,) = read(tmp_path, text)
    assert ref.kind is TensorKind.UNREADABLE
    assert "no statistic" in ref.reason


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "hello\n", "Input/Output,Max Value\nInput,1\n", f"{HEADER}\n", f"{HEADER}\nInput,0,1\n",
        "Input/Output,Index,Max Value\nWorkspace,0,1\n", "Input/Output,Index,Max Value\nInput,-1,1\n",
        "Input/Output,Index,Max Value\nInput,0,1\nInput,0,2\n", b"\xff\xfe\x00\x01", b"PK\x03\x04" * 20,
        'Input/Output,Index,Max Value\nInput,0,"1',
    ],
)  # fmt: skip
def test_other_files_are_refused(tmp_path, text):
    if text == 'Input/Output,Index,Max Value\nInput,0,"1':
        assert read(tmp_path, text)[0].recorded.max == 1.0
        return
    with pytest.raises(FormatError) as caught:
        read(tmp_path, text)
    assert caught.value.diagnostic.code == "PF3251"
    assert caught.value.diagnostic.help


def test_a_file_of_absurd_size_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("probe_flow.dumps.device.statistics_csv.MAX_STATISTICS_BYTES", 10)
    with pytest.raises(FormatError, match="PF3251"):
        read(tmp_path, f"{HEADER}\n")


@pytest.mark.parametrize("shape", ["0x3", "9x9", "-1x3", "axb", "9999999999999999999x2", "x".join(["2"] * 65)])
def test_shapes_that_say_nothing_are_unknown(tmp_path, shape):
    (ref,) = read(tmp_path, f"Input/Output,Index,Shape,Max Value\nOutput,0,{shape},1\n")
    assert ref.shape == {"0x3": (0, 3), "9x9": (9, 9)}.get(shape)


def device(tmp_path, row, shape=(2, 3)):
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    dump.graph([Op("x", "Data", (), [(None, shape)]), Op("Neg", "Neg", ("x:0",), [("neg-a.OUTPUT.0", shape)])])
    (dump.token(0) / f"Neg.Neg.10.7.{FIRST_US}.csv").write_text(f"{HEADER}\n{row}\n")
    return read_torchair_ge(dump.root, side="target")


def test_an_operator_of_a_device_dump_has_its_statistics(tmp_path):
    catalog = device(tmp_path, "Output,0,24,DT_FLOAT,ND,2x3,5,-1,2.5,6,0,0,0")
    assert (catalog.task, catalog.problems) == ("statistics", ())
    (ref,) = catalog.tensors
    assert (ref.id, ref.logical_shape) == ("Neg.output.0", (2, 3))
    assert ref.recorded == Statistics(min=-1.0, max=5.0, mean=2.5, nan=0, inf=0)


def test_padding_of_a_private_layout_is_taken_out_of_the_mean_and_may_be_an_extreme(tmp_path):
    catalog = device(tmp_path, "Output,0,512,DT_FLOAT16,FRACTAL_NZ,1x1x16x16,5,0,0.05,256,0,0,0")
    (ref,) = catalog.tensors
    assert (ref.shape, ref.logical_shape, ref.layout) == ((1, 1, 16, 16), (2, 3), "FRACTAL_NZ")
    assert ref.recorded == Statistics(min=None, max=5.0, mean=0.05 * 256 / 6, nan=0, inf=0)
    assert "FRACTAL_NZ" in ref.reason
    assert ref.facts.count is None


def test_a_private_layout_smaller_than_the_graph_says_keeps_what_the_device_wrote(tmp_path):
    catalog = device(tmp_path, "Output,0,512,DT_FLOAT16,FRACTAL_NZ,1x1x1x1,5,0,0.05,1,0,0,0")
    assert catalog.tensors[0].logical_shape is None
    assert catalog.tensors[0].recorded.min == 0.0
