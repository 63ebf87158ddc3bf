"""The stored kernel dumps are what MindSpore writes: made again by the real thing, and read back."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from mindspore_graph_builders import DATA, read_array, unpack

from probe_flow.dumps.mindspore_graph.reader import read_mindspore_graph
from probe_flow.records import Catalog

SCRIPT = Path(__file__).parents[2] / "generate" / "mindspore_graph.py"
VARIANTS = ("base", "scaled", "epsilon", "rounded", "loop", "long")


def test_every_variant_is_stored() -> None:
    assert sorted(file.name.removesuffix(".tar.xz") for file in DATA.glob("*.tar.xz")) == sorted(VARIANTS)


@pytest.mark.frameworks
@pytest.mark.skipif(importlib.util.find_spec("mindspore") is None, reason="mindspore is not installed")
@pytest.mark.parametrize("variant", VARIANTS)
def test_mindspore_writes_the_stored_dump(tmp_path: Path, variant: str) -> None:
    made = tmp_path / "made"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(made), variant], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    stored = unpack(variant, tmp_path / "stored")
    ours, theirs = (read_mindspore_graph(folder, side="target") for folder in (made, stored))
    assert ours.problems == ()
    assert _structure(ours) == _structure(theirs)
    assert Counter(_edges(ours)) == Counter(_edges(theirs))
    values = {(tensor.node, tensor.slot): tensor for tensor in theirs.tensors}
    for tensor in ours.tensors:
        other = values[tensor.node, tensor.slot]
        np.testing.assert_allclose(
            read_array(Path(str(tensor.source))),
            read_array(Path(str(other.source))),
            rtol=1e-2 if tensor.dtype == "bfloat16" else 1e-3,
            atol=1e-4,
        )


def _structure(catalog: Catalog) -> set[tuple[object, ...]]:
    return {(tensor.node, tensor.slot, tensor.dtype, tensor.shape) for tensor in catalog.tensors}


def _edges(catalog: Catalog) -> list[tuple[object, ...]]:
    return [(edge.producer, edge.output, edge.consumer, edge.input) for edge in catalog.edges]
