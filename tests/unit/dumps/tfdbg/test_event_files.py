"""Reading the files of TensorFlow 2's debugger, on files from a writer that shares no code with the reader."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from catalog_looks import codes, values
from hypothesis import given
from hypothesis import strategies as st
from model_file_writer import block, whole
from tfdbg_writer import graph_record, record, shape_message, tensor_message, trace_record, write_events

from probe_flow.dumps.sniff import kind_of_dump
from probe_flow.dumps.tfdbg.reader import read_tfdbg
from probe_flow.errors import IncompleteError, ProbeFlowError

X = np.arange(6, dtype="f4").reshape(2, 3)


def read(path, **options):
    return read_tfdbg(path, side="golden", **options)


def test_tensors_have_types_flow_and_calls_in_their_order(tmp_path):
    traces = [
        trace_record("mm", tensor_message(X), at=1.0),
        trace_record("split", tensor_message(X + 1), slot=1, at=2.0),
        trace_record("split", tensor_message(X + 2), slot=0, at=2.0),
        trace_record("mm", tensor_message(X + 9), at=3.0),
    ]
    graphs = [
        graph_record("x", "Placeholder"),
        graph_record("mm", "MatMul", ["x:0"]),
        graph_record("split", "Split", ["mm:0"]),
    ]
    write_events(tmp_path, traces, graphs)
    catalog = read(tmp_path)

    assert [(ref.node.name, ref.node.call, ref.slot.index) for ref in catalog.tensors] == [
        ("mm", 0, "0"),
        ("split", 0, "0"),
        ("split", 0, "1"),
        ("mm", 1, "0"),
    ]
    assert [float(values(ref)[0, 0]) for ref in catalog.tensors] == [0.0, 2.0, 1.0, 9.0]
    assert [node.op_type for node in catalog.nodes.values()] == ["MatMul", "Split", "MatMul"]
    assert [(edge.producer.name, edge.consumer.name) for edge in catalog.edges] == [("mm", "split")]
    assert (catalog.problems, kind_of_dump(str(tmp_path))) == ((), "tfdbg")


def test_a_file_that_ends_inside_a_record_gives_the_tensors_before(tmp_path):
    path = write_events(tmp_path, [trace_record("a", tensor_message(X)), trace_record("b", tensor_message(X))])
    path.write_bytes(path.read_bytes()[:-20])
    catalog = read(tmp_path)

    assert [key.name for key in catalog.nodes] == ["a"]
    assert codes(catalog) == {"PF3448": 1}


def test_a_link_that_leads_out_is_no_file_of_tensors(tmp_path):
    path = write_events(tmp_path / "dump", [trace_record("a", tensor_message(X))])
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(IncompleteError, match="no tensor") as raised:
        read(tmp_path / "dump")
    assert "leads out of the dump" in str(raised.value.diagnostic.notes)


def test_a_record_that_claims_more_than_there_is_allocates_nothing(tmp_path):
    path = write_events(tmp_path, [trace_record("a", tensor_message(X))])
    path.write_bytes(path.read_bytes() + b"\xff" * 12)
    assert codes(read(tmp_path)) == {"PF3448": 1}


def test_figures_and_wrong_sizes_are_told(tmp_path):
    short = whole(1, 1) + block(2, shape_message([2, 3])) + block(4, b"1234")
    traces = [
        trace_record("a", tensor_message(X)),
        trace_record("n", tensor_message(X), mode=2),
        trace_record("s", short),
    ]
    write_events(tmp_path, traces)
    catalog = read(tmp_path)

    assert [key.name for key in catalog.nodes] == ["a"]
    assert codes(catalog) == {"PF3445": 1, "PF3441": 1}


def test_a_name_in_several_functions_counts_for_the_first(tmp_path):
    write_events(tmp_path, [trace_record("a", tensor_message(X)), trace_record("a", tensor_message(-X), context="g2")])
    catalog = read(tmp_path)
    assert np.array_equal(values(catalog.tensors[0]), X)
    assert (len(catalog.tensors), codes(catalog)) == (1, {"PF3446": 1})


def test_the_newest_run_of_a_folder_is_read(tmp_path):
    for time, sign in ((999, -1.0), (1000, 1.0)):
        write_events(tmp_path, [trace_record("a", tensor_message(X * np.float32(sign)))], time=time)
    catalog = read(tmp_path)
    assert float(values(catalog.tensors[0])[1, 2]) == 5.0
    assert "tfdbg_events.1000.host" in catalog.problems[0].message


def test_a_run_without_tensors_is_not_green(tmp_path):
    write_events(tmp_path, [record(b"")])
    with pytest.raises(IncompleteError, match="no tensor in"):
        read(tmp_path)


@given(st.binary(max_size=200), st.integers(0, 300), st.integers(0, 100))
def test_no_bytes_break_the_reader(tmp_path_factory, noise, at, cut):
    raw = trace_record("a", tensor_message(X)) + trace_record("b", tensor_message(X))
    folder = tmp_path_factory.mktemp("events")
    path = write_events(folder, [raw[:at] + noise + raw[at + cut :]], [graph_record("a", "Add") + noise])
    assert path.is_file()
    with suppress(ProbeFlowError):
        read(folder)
