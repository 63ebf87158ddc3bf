"""Which files of a dump are reduced, by their names."""

from __future__ import annotations

import pytest

from probe_flow.transform.reduce.reducible_files import SourceKind, source_kind

SOURCES = {
    "add_1-aten.add.Tensor.OUTPUT.0.20260101000000000009.npy": SourceKind.ARRAY,
    "anything.npy": SourceKind.ARRAY,
    "1122334455.npy": SourceKind.ARRAY,
    "Add.Add_2.44.6.1706596912161941": SourceKind.DEVICE,
    "Relu.Relu_1.1.2.1767225600000000.0.7.0.0": SourceKind.DEVICE,
    "1122334455": SourceKind.DEVICE,
}
OTHERS = {
    ".Add.Add_2.44.6.1706596912161941": "hidden file",
    ".x_min_max.npz.tmp-17": "hidden file",
    "add_1-aten.add.Tensor.OUTPUT.0.20260101000000000009_min_max.npy": "reduced file",
    "add_1-aten.add.Tensor.OUTPUT.0.20260101000000000009_stats.npy": "reduced file",
    "Add.Add_2.44.6.1706596912161941_min_max.npz": "reduced file",
    "Add.Add_2.44.6.1706596912161941_other.npz": "archive of arrays",
    "Add.Add_2.44.6.1706596912161941.csv": "table",
    "mapping.csv": "table",
    "dump_options_worldsize1_rank0_pid1.json": "file of another kind",
    "dynamo_original_graph_1.txt": "text",
    "Add.Add_2.44.6.1706596912161941.swp": "file of an editor",
    "Opdebug.Node_OpDebug.3.1.1706596912161941": "overflow record",
    "core": "file of another kind",
    "Sub.Sub.14.abc.1706596912161941": "file of another kind",
    "": "file of another kind",
}


@pytest.mark.parametrize(("name", "kind"), [*SOURCES.items(), *OTHERS.items()])
def test_a_name_tells_what_a_file_is(name, kind):
    assert source_kind(name, "_min_max") == kind


def test_the_suffix_is_the_users():
    name = "add_1-aten.add.Tensor.OUTPUT.0.20260101000000000009_small.npy"
    assert source_kind(name, "_small") == "reduced file"
    assert source_kind("x_small.npy", "_min_max") is SourceKind.ARRAY
