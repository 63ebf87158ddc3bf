"""Torch files against torch itself: the same values with and without it, and what it loads for us."""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_writer import STORAGES, named, torch_file

from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import FormatError
from probe_flow.files.torch.torch_file import read_torch_header
from probe_flow.files.torch.torch_load import load_with_torch
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef

FLOAT8 = ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz")


def test_without_torch_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(FormatError) as caught:
        load_with_torch(str(tmp_path / "x.pt"), "float32", (1,))

    assert caught.value.diagnostic.code == "PF3424"
    assert "probe-flow[torch]" in str(caught.value.diagnostic.help)


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def saved(torch: Any, folder: Path, value: Any, **options: Any) -> Path:
    path = folder / "x.pt"
    torch.save(value, path, **options)
    return path


def read(path: Path, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return the values of a file as a run reads them, plain or by torch."""
    header = read_torch_header(path)
    assert header.dtype in (None, dtype)
    assert header.shape in (None, shape)
    extent = Extent(str(path), header.offset, header.nbytes, header.encoding)
    key, slot, kind = NodeKey(Execution(), "n"), Slot(SlotRole.INPUT), TensorKind.TENSOR
    with open_tensor(TensorRef.of(key, slot, kind, dtype, dtype, shape, shape, extents=(extent,))) as blocks:
        return blocks.read(0, blocks.numel).reshape(shape)


@pytest.mark.frameworks
@pytest.mark.parametrize("name", [*STORAGES, "uint16", "uint32", *(f"float8_{form}" for form in FLOAT8)])
@pytest.mark.parametrize("form", ["plain", "transposed", "part", "parameter", "old"])
def test_plain_tensors_have_the_values_that_torch_gives(tmp_path: Path, torch: Any, name: str, form: str) -> None:
    if form == "old" and name not in STORAGES:
        pytest.skip("torch itself cannot load these from the old format")
    value = torch.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 0.0]]).to(getattr(torch, name))
    if form == "transposed":
        value = value.t()
    elif form == "part":
        value = value[:, 1:]
    elif form == "parameter":
        value = torch.nn.Parameter(value, requires_grad=False)
    options = {"_use_new_zipfile_serialization": False} if form == "old" else {}
    path = saved(torch, tmp_path, value, **options)
    wide = torch.complex128 if value.is_complex() else torch.float64

    assert (read_torch_header(path).encoding == "torch") is (form == "old")
    np.testing.assert_array_equal(
        read(path, name, tuple(value.shape)).astype(str(wide).removeprefix("torch.")), value.detach().to(wide).numpy()
    )


@pytest.mark.frameworks
def test_sparse_conjugated_and_quantised_tensors_are_loaded_by_torch(tmp_path: Path, torch: Any) -> None:
    dense = torch.tensor([[0.0, 1.5], [0.0, -2.0]])
    np.testing.assert_array_equal(read(saved(torch, tmp_path, dense.to_sparse()), "float32", (2, 2)), dense.numpy())
    conjugated = torch.tensor([1 + 2j]).conj()
    np.testing.assert_array_equal(read(saved(torch, tmp_path, conjugated), "complex64", (1,)), [1 - 2j])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantised = torch.quantize_per_tensor(dense, 0.5, 0, torch.qint8)
    np.testing.assert_array_equal(read(saved(torch, tmp_path, quantised), "float32", (2, 2)), dense.numpy())


@pytest.mark.frameworks
def test_another_tensor_than_announced_is_an_error(tmp_path: Path, torch: Any) -> None:
    path = saved(torch, tmp_path, torch.zeros(2, 2).to_sparse())
    for dtype, shape in (("float64", (2, 2)), ("float32", (4,))):
        with pytest.raises(FormatError) as caught:
            read(path, dtype, shape)
        assert caught.value.diagnostic.code == "PF3425"


class Attack:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


@pytest.mark.frameworks
def test_torch_itself_refuses_what_we_would_have_refused(tmp_path: Path, torch: Any) -> None:
    mark = tmp_path / "ran"
    pickled = tmp_path / "attack.pt"
    pickled.write_bytes(pickle.dumps(Attack(mark), protocol=2))
    archive = saved(torch, tmp_path, Attack(mark))
    for path in (pickled, archive):
        with pytest.raises(FormatError) as caught:
            load_with_torch(str(path), "float32", (1,))
        assert caught.value.diagnostic.code in ("PF3423", "PF3425")
        with pytest.raises(FormatError) as caught:
            read_torch_header(path)
        assert caught.value.diagnostic.code == "PF3423"
    assert not mark.exists()


@pytest.mark.frameworks
@pytest.mark.parametrize(
    "content", [b"", b"PK\3\4", torch_file(named("torch._utils", "_rebuild_sparse_tensor") + b")R")]
)
def test_files_that_torch_cannot_load_are_errors(tmp_path: Path, torch: Any, content: bytes) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        load_with_torch(str(path), "float32", (1,))

    assert caught.value.diagnostic.code in ("PF3423", "PF3425")


@pytest.mark.frameworks
def test_something_other_than_a_tensor_is_an_error(tmp_path: Path, torch: Any) -> None:
    with pytest.raises(FormatError) as caught:
        load_with_torch(str(saved(torch, tmp_path, {"a": torch.zeros(1)})), "float32", (1,))

    assert caught.value.diagnostic.code == "PF3425"
