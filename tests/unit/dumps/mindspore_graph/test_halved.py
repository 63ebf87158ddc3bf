"""Files that are called Float16 and hold the first half of their elements in float32, as MindSpore leaves on a CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from probe_flow.dumps.mindspore_graph.reader import read_mindspore_graph
from probe_flow.records import Catalog, TensorKind

RANDOM = np.random.default_rng(16)
NORMAL = RANDOM.standard_normal((12, 32)).astype(np.float32)


def halved(values: np.ndarray) -> np.ndarray:
    """As many bytes as elements of float16 take, of float32."""
    return np.frombuffer(values.tobytes()[: 2 * values.size], np.float16).reshape(values.shape)


def dumped(folder: Path, **outputs: np.ndarray) -> Catalog:
    place = folder / "rank_0" / "Net" / "0" / "0"
    place.mkdir(parents=True)
    for number, (name, values) in enumerate(outputs.items()):
        word = {"float16": "Float16", "float32": "Float32"}[values.dtype.name]
        kind = "Add" if name == "Add" else "MatMul"
        file = f"{kind}.Default_{name}-op{number}.0.0.{100 + number}.output.0.DefaultFormat.{word}.npy"
        np.save(place / file, values)
    return read_mindspore_graph(folder, side="golden")


def kinds(catalog: Catalog) -> dict[str, TensorKind]:
    return {tensor.node.name.removeprefix("Default_"): tensor.kind for tensor in catalog.tensors}


@pytest.mark.parametrize("scale", [1.0, 1e-3, 300.0])
def test_they_are_left_out_with_what_is_too_small_to_tell(tmp_path, scale):
    found = dumped(
        tmp_path,
        product=halved(scale * NORMAL),
        few=halved(NORMAL[0, :8]),
        Add=NORMAL.astype(np.float16),
        wide=NORMAL,
    )
    left, kept = TensorKind.UNREADABLE, TensorKind.TENSOR
    assert kinds(found) == {"product": left, "few": left, "Add": kept, "wide": kept}
    (problem,) = [each for each in found.problems if each.code == "PF3458"]
    assert "2 files are called Float16 and hold the first half of their elements in float32" in problem.message


def test_so_are_casts_and_other_results_of_their_type(tmp_path):
    """Of 12 random numbers none may have the size that tells; what was float16 has three more bits, and zeros."""
    cast = NORMAL.astype(np.float16).astype(np.float32)
    alike = np.ones(64, np.float16)
    assert set(kinds(dumped(tmp_path, cast=halved(cast), alike=alike)).values()) == {TensorKind.UNREADABLE}


@pytest.mark.parametrize(
    "values",
    [
        NORMAL,
        np.abs(NORMAL) + 1.0,
        np.tile([0.0, 1.0], 64),
        np.tile([60000.0, 1.0], 64),
        np.ravel(np.column_stack([np.exp(12 * NORMAL[0]), np.ones(32)])),
        np.ravel(np.column_stack([np.full(32, np.nan), np.ones(32)])),
        np.zeros(64),
        10.0 ** RANDOM.uniform(-7, 4, 256),
    ],
)
def test_float16_is_not(tmp_path, values):
    with np.errstate(over="ignore"):
        found = dumped(tmp_path, product=values.astype(np.float16), few=np.ones(4, np.float16))
    assert set(kinds(found).values()) == {TensorKind.TENSOR}
    assert found.problems == ()


def test_one_that_is_cut_off_is_told_as_that(tmp_path):
    dumped(tmp_path / "x", product=halved(NORMAL))
    (file,) = (tmp_path / "x").rglob("*.npy")
    file.write_bytes(file.read_bytes()[:200])
    found = read_mindspore_graph(tmp_path / "x", side="golden")
    assert kinds(found) == {"product": TensorKind.UNREADABLE}
    assert "PF3458" not in {each.code for each in found.problems}
