"""Dumps of an independent generator: our readers against what the peer tool printed for the same files."""

from __future__ import annotations

import ast
import csv
from pathlib import Path

import numpy as np
import pytest

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements.blocks import open_tensor
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.records import Execution, NodeKey, Slot, SlotRole, TensorKind

KEY = NodeKey(Execution(), "op")
TABLES = Path(__file__).parents[3] / "data" / "torchair"
ROLES = {"inputs": SlotRole.INPUT, "outputs": SlotRole.OUTPUT}
ROWS = {"healthy": 123, "new_layout": 246, "ge_fx_old": 129, "fusion_pair": 177}
WIDENED = {"bfloat16": "float32"}
"""The peer widens before it prints."""
DEVICE_FILES = {"healthy": 55, "new_layout": 110, "ge_fx_old": 57, "fusion_pair": 112}


def device_files(root):
    return [path for path in sorted(root.rglob("*")) if path.is_file() and path.suffix not in (".npy", ".txt", ".json")]


def device_refs(root):
    refs = {}
    for path in device_files(root):
        dump = read_ge_header(path)
        assert dump.problems == ()
        for ref in tensor_refs(dump, path, KEY):
            refs[str(path.relative_to(root.parent)), ref.slot] = ref
    return refs


def check(ref, row, side):
    assert list(ref.logical_shape) == ast.literal_eval(row[f"{side}_shape"])
    assert row[f"{side}_dtype"] == f"torch.{WIDENED.get(ref.dtype, ref.dtype)}"
    with open_tensor(ref) as blocks:
        values = blocks.read(0, blocks.numel).astype(np.float64)
    printed = {name: float(row[f"{side}_{name}_value"]) for name in ("min", "max", "mean")}
    assert values.min() == pytest.approx(printed["min"], rel=1e-6)
    assert values.max() == pytest.approx(printed["max"], rel=1e-6)
    # The peer adds in float32, so a mean near zero keeps an error in the size of the terms.
    assert values.mean() == pytest.approx(printed["mean"], rel=1e-6, abs=1e-7 * np.abs(values).mean())


@pytest.mark.parametrize("case", ROWS)
def test_every_tensor_has_the_values_that_the_peer_prints(torchair_case, case):
    root = torchair_case(case)
    refs = device_refs(root)
    assert len(device_files(root)) == DEVICE_FILES[case]
    assert all(ref.kind is TensorKind.TENSOR for ref in refs.values())
    with (TABLES / f"{case}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == ROWS[case]
    for row in rows:
        name, role, index = row["my_data_path"].rsplit(",", 2)
        check(refs[name, Slot(ROLES[role], (int(index),))], row, "my")
        # Of a device file on the golden side the peer does not print which slot it took.
        if row["golden_data_path"].endswith(".npy"):
            check(npy_tensor_ref(root.parent / row["golden_data_path"], KEY, Slot(SlotRole.INPUT)), row, "golden")


def test_private_layouts_occur_in_the_archives(torchair_case):
    layouts = {ref.layout for ref in device_refs(torchair_case("healthy")).values()}
    assert {"ND", "FRACTAL_NZ", "NC1HWC0", "FRACTAL_Z"} <= layouts


@pytest.mark.parametrize("case", [*ROWS, "minmax"])
def test_every_array_of_the_archives_has_a_kind(torchair_case, case):
    paths = sorted(torchair_case(case).rglob("*.npy"))
    kinds = {npy_tensor_ref(path, KEY, Slot(SlotRole.INPUT)).kind for path in paths}
    assert kinds <= {TensorKind.TENSOR, TensorKind.OPAQUE}
    assert (TensorKind.TENSOR in kinds) == bool(paths)
