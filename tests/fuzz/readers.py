"""Readers of dumps, of their files, and of the files that say how dumps belong together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fuzz import seeds
from fuzz.target import (
    Target,
    catalog_target,
    check_catalog,
    check_diagnostics,
    check_elements,
    file_target,
)
from probe_flow.dumps.device.dumped_file import read_dumped_file
from probe_flow.dumps.device.overflow_records import op_debug_json, read_op_debug
from probe_flow.dumps.device.statistics_csv import read_device_statistics
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.dumps.graph.graph_text import read_ge_graph
from probe_flow.dumps.mindspore_graph.reader import read_mindspore_graph
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.dumps.offline.om_dump import read_om
from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedDevice
from probe_flow.dumps.registry import READERS
from probe_flow.dumps.rules.rule_file import read_rule_file, read_rule_files
from probe_flow.dumps.sniff import kind_of_dump
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.dumps.torchair.graph_files import read_source_lines
from probe_flow.errors import FormatError
from probe_flow.files.torch.torch_file import read_torch_header
from probe_flow.mappings.api_mapping_file import read_api_mapping
from probe_flow.mappings.mapping_file import read_flat_mapping, read_layer_mapping
from probe_flow.precheck.precision_compare import judge
from probe_flow.precheck.precision_tables import read_details
from probe_flow.record.baseline_file import read_baseline
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef
from probe_flow.runs.baseline.file_text import baseline_text
from probe_flow.tensors.encoding import TORCH

_NODE = NodeKey(Execution(), "node")


def _dumped(path: Path) -> None:
    found = read_dumped_file(path)
    check_diagnostics(found.problems)
    for ref in found.tensors:
        if ref.kind is TensorKind.TENSOR:
            check_elements(ref)
    size = path.stat().st_size
    for section in found.sections:
        assert section.extent.offset + section.extent.nbytes <= size


def _op_debug(path: Path) -> None:
    for record in read_op_debug(path):
        assert op_debug_json(record)


def _torch(path: Path) -> None:
    header = read_torch_header(path)
    if header.encoding == TORCH:
        return
    assert header.dtype is not None
    assert header.offset + header.nbytes <= path.stat().st_size
    extent = Extent(str(path), header.offset, header.nbytes, header.encoding)
    ref = TensorRef.of(
        _NODE, Slot(SlotRole.OUTPUT), TensorKind.TENSOR, header.dtype, shape=header.shape, extents=(extent,)
    )
    check_elements(ref)


def _reduced_array(path: Path) -> None:
    found = ReducedArray.read(path)
    assert len(found.names) == len(found.tensor.figures)


def _reduced_device(path: Path) -> None:
    found = ReducedDevice.read(path)
    assert {len(tensor.figures) for tensor in (*found.inputs, *found.outputs)} <= {len(found.names)}


def _device_statistics(path: Path) -> None:
    assert read_device_statistics(path, _NODE)


def _graph_text(path: Path) -> None:
    found = read_ge_graph(path, label="graph.txt")
    check_diagnostics([] if found.problem is None else [found.problem])
    if found.problem is not None:
        raise FormatError(found.problem)


def _source_text(path: Path) -> None:
    assert all(isinstance(line, str) for line in read_source_lines(path).values())


def _rules(path: Path) -> None:
    read_rule_file(path)


def _baseline(path: Path) -> None:
    found = read_baseline(path)
    assert baseline_text(found)


def _mapping(read: Callable[[Path], Sequence[object]]) -> Callable[[Path], None]:
    def check(path: Path) -> None:
        read(path)

    return check


def _checked_details(path: Path) -> None:
    for row in read_details(path).values():
        for other in (row, None):
            assert judge(row, other).status


def _any(folder: Path) -> None:
    check_catalog(READERS[kind_of_dump(str(folder))].catalog(str(folder), side="target"))


def _all_dumps() -> Sequence[seeds.Tree]:
    makers = (seeds.device_dumps, seeds.fx_dumps, seeds.offline_dumps, seeds.golden_folders, seeds.mindspore_graphs)
    return [tree for make in makers for tree in make()]


def _slices_apart(folder: Path) -> None:
    check_catalog(read_om(folder, side="target", slices="separate", duplicates="first", last_step=True))


TARGETS = (
    file_target("npy", seeds.arrays, _dumped),
    file_target("device_file", seeds.device_files, _dumped),
    file_target("op_debug", seeds.op_debug_files, _op_debug),
    file_target("torch_file", seeds.torch_files, _torch),
    file_target("reduced_array", seeds.reduced_arrays, _reduced_array),
    file_target("reduced_device", seeds.reduced_devices, _reduced_device),
    file_target("device_statistics", seeds.statistics_tables, _device_statistics),
    file_target("graph_text", seeds.graph_texts, _graph_text),
    file_target("source_text", seeds.source_texts, _source_text),
    file_target("rule_file", seeds.rule_files, _rules),
    file_target(
        "cell_mapping", seeds.mapping_files, _mapping(lambda path: read_flat_mapping(path, what="cell mapping"))
    ),
    file_target(
        "data_mapping", seeds.mapping_files, _mapping(lambda path: read_flat_mapping(path, what="data mapping"))
    ),
    file_target("layer_mapping", seeds.mapping_files, _mapping(read_layer_mapping)),
    file_target("api_mapping", seeds.mapping_files, _mapping(read_api_mapping)),
    file_target("baseline", seeds.baselines, _baseline),
    file_target("checked_details", seeds.checked_details, _checked_details),
    Target("rule_folder", seeds.rule_folders, read_rule_files),
    catalog_target("dump_json", seeds.eager_dumps, read_dump_json),
    catalog_target("mindspore_graph", seeds.mindspore_graphs, read_mindspore_graph),
    catalog_target("torchair_ge", seeds.device_dumps, read_torchair_ge),
    catalog_target("torchair_fx", seeds.fx_dumps, read_torchair_fx),
    catalog_target("om", seeds.offline_dumps, read_om),
    catalog_target("npy_folder", seeds.golden_folders, read_npy_folder),
    Target("om_slices", seeds.offline_dumps, _slices_apart),
    Target("any_dump", _all_dumps, _any),
)
