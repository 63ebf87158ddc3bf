"""Runs that TensorFlow itself wrote: every tensor is the one that the session returns."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from catalog_looks import codes, values

from probe_flow.dumps.sniff import kind_of_dump
from probe_flow.dumps.tfdbg.reader import read_tfdbg
from probe_flow.records import TensorKind

ROOT = Path(__file__).parents[4]
STEPS = ROOT / "tests" / "support" / "tensorflow_steps.py"


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("tfdbg")
    with tarfile.open(ROOT / "tests" / "data" / "tfdbg" / "training_step.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module", params=["two_runs", "loop_v2", "events"])
def live(request, tmp_path_factory) -> Path:
    if find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed")
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, str(STEPS), str(folder), request.param], check=True, timeout=300)
    return folder


def check_every_value(folder: Path) -> int:
    """Compare the first run with what the session returned, both ways; return the number of tensors."""
    catalog = read_tfdbg(folder / "runs", side="golden", run=0)
    returned = np.load(folder / "values.npz")
    found = {f"{ref.node.name}:{ref.slot.index}": ref for ref in catalog.tensors if ref.node.call == 0}
    assert set(returned.files) - set(found) == set()
    for name in returned.files:
        mine, wanted = values(found[name]), returned[name]
        mine = mine.view(np.uint16) if found[name].dtype == "bfloat16" else mine
        assert (mine.dtype, mine.shape) == (wanted.dtype, wanted.shape), name
        assert mine.tobytes() == wanted.tobytes(), name
    return len(returned.files)


def test_every_tensor_of_the_kept_run_is_what_the_session_returned(kept):
    assert check_every_value(kept) >= 60


@pytest.mark.frameworks
def test_every_tensor_of_a_new_run_is_what_the_session_returned(live):
    assert check_every_value(live) >= 5


def test_a_placeholder_has_its_own_name_and_strings_are_listed(kept):
    catalog = read_tfdbg(kept / "runs", side="golden", run=0)
    by_name = {(ref.node.name, ref.node.call): ref for ref in catalog.tensors}

    assert by_name["input/x", 0].facts.item == "_arg_input/x_0_0:0"
    assert by_name["text", 0].kind is TensorKind.OPAQUE
    assert codes(catalog) == {"PF3443": 1, "PF3444": 1}
    assert catalog.nodes[by_name["dense/MatMul", 0].node].op_type == "MatMul"
    assert {ref.dtype for ref in catalog.tensors} >= {
        "bfloat16",
        "float16",
        "complex64",
        "complex128",
        "bool",
        "uint64",
    }


def test_the_turns_of_a_loop_are_calls_in_their_order(kept):
    catalog = read_tfdbg(kept / "runs", side="golden", run=0)
    turns = [ref for ref in catalog.tensors if ref.node.name == "loop/mul"]

    assert [ref.node.call for ref in turns] == [0, 1, 2]
    first = values(turns[0])
    assert [float(values(ref) / first) for ref in turns] == [1.0, 2.0, 4.0]


def test_the_graph_gives_data_flow_between_what_was_dumped(kept):
    catalog = read_tfdbg(kept / "runs", side="golden", run=0)
    flow = {(edge.producer.name, edge.output, edge.consumer.name, edge.input) for edge in catalog.edges}

    assert {("input/x", 0, "dense/MatMul", 0), ("dense/MatMul", 0, "dense/BiasAdd", 0)} <= flow
    assert ("dense/Relu", 0, "s.c/split", 0) in flow


def test_the_last_run_is_read_unless_another_is_named(kept):
    last, first = (read_tfdbg(kept / "runs", side="golden", run=run) for run in ("last", 0))
    assert len(last.tensors) < len(first.tensors)
    assert "run 1 (`run_" in last.problems[0].message

    both = read_tfdbg(kept / "runs", side="golden", run="all")
    assert [execution.step for execution in both.executions] == [0, 1]
    assert len(both.tensors) == len(first.tensors) + len(last.tensors)


def test_a_run_is_known_as_such(kept):
    (run, *_) = sorted((kept / "runs").iterdir())
    assert {kind_of_dump(str(path)) for path in (kept / "runs", run)} == {"tfdbg"}
