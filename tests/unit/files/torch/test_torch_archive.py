"""Torch files written without torch: read back by the zip module, a pickle reader of the test, and torch itself."""

from __future__ import annotations

import collections
import io
import math
import pickle
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch_writer

from probe_flow.files.torch.torch_archive import STORAGES, UNTYPED, TorchArchive
from probe_flow.files.torch.torch_file import read_torch_header

ITEM_BYTES = {**dict.fromkeys(STORAGES, 0), **torch_writer.ITEM_BYTES, "uint32": 4, "uint64": 8}
for one_byte in ("int8", "uint8", "bool", *(name for name in UNTYPED if name.startswith("float8"))):
    ITEM_BYTES[one_byte] = 1


def whole(dtype: str, shape: tuple[int, ...], payload: bytes) -> bytes:
    archive = TorchArchive(dtype, shape, len(payload))
    content = bytearray(archive.head + payload + archive.tail(zlib.crc32(payload)))
    offset, crc = archive.patch(zlib.crc32(payload))
    content[offset : offset + len(crc)] = crc
    return bytes(content)


class Unpickler(pickle.Unpickler):
    """Takes what names torch as names; nothing of torch is needed."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch._utils":
            return lambda *arguments: (name, arguments)
        return f"{module}.{name}"

    def persistent_load(self, pid: Any) -> Any:
        return pid


def described(content: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return Unpickler(io.BytesIO(archive.read("archive/data.pkl"))).load()


@pytest.mark.parametrize("dtype", sorted((*STORAGES, *UNTYPED)))
@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (2, 3, 4)])
def test_archives_describe_a_dense_tensor(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    count = math.prod(shape)
    payload = bytes(range(251))[: count * ITEM_BYTES[dtype]].ljust(count * ITEM_BYTES[dtype], b"\1")
    content = whole(dtype, shape, payload)

    function, (storage, offset, sizes, strides, gradient, hooks, *rest) = described(content)

    if dtype in STORAGES:
        assert function == "_rebuild_tensor_v2"
        assert storage == ("storage", f"torch.{STORAGES[dtype]}", "0", "cpu", count)
        assert rest == []
    else:
        assert function == "_rebuild_tensor_v3"
        assert storage == ("storage", "torch.storage.UntypedStorage", "0", "cpu", len(payload))
        assert rest == [f"torch.{dtype}"]
    assert (offset, sizes, gradient, hooks) == (0, shape, False, {})
    assert strides == torch_writer.c_strides(shape)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.read("archive/data/0") == payload
        assert archive.read("archive/byteorder") == b"little"
        assert archive.read("archive/version").strip().isdigit()
        assert all(info.compress_type == zipfile.ZIP_STORED for info in archive.infolist())
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    header = read_torch_header(path)
    assert (header.dtype, header.shape, header.encoding, header.nbytes) == (dtype, shape, "raw", len(payload))


def test_elements_begin_at_a_multiple_of_64() -> None:
    for shape in ((1,), (7, 3), (123456,)):
        assert len(TorchArchive("float32", shape, 4 * math.prod(shape)).head) % 64 == 0


def test_dimensions_beyond_31_bits_are_written() -> None:
    archive = TorchArchive("int8", (2**33, 0), 0)
    assert described(archive.head + archive.tail(0))[1][2] == (2**33, 0)


def test_an_archive_beyond_4_gib_has_wide_sizes(tmp_path: Path) -> None:
    nbytes = 5 * 2**30
    archive = TorchArchive("uint8", (nbytes,), nbytes)
    path = tmp_path / "large.pt"
    with path.open("wb") as file:
        file.write(archive.head)
        file.truncate(len(archive.head) + nbytes)  # a hole takes no room on the disk
        file.seek(0, 2)
        file.write(archive.tail(0))

    with zipfile.ZipFile(path) as opened:
        assert opened.getinfo("archive/data/0").file_size == nbytes
        assert opened.read("archive/version") == b"3\n"
    header = read_torch_header(path)

    assert (header.shape, header.offset, header.nbytes) == ((nbytes,), len(archive.head), nbytes)


@pytest.mark.frameworks
@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "uint16", "float8_e5m2", "float8_e4m3fn", "bool", "complex64"]
)
def test_torch_loads_what_is_written(dtype: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    payload = np.arange(6 * ITEM_BYTES[dtype], dtype=np.uint8).tobytes()
    if dtype == "bool":
        payload = bytes([0, 1, 1, 0, 0, 1])
    path = tmp_path / "x.pt"
    path.write_bytes(whole(dtype, (2, 3), payload))

    tensor = torch.load(path, weights_only=True)

    assert str(tensor.dtype) == f"torch.{dtype}"
    assert tensor.shape == (2, 3)
    assert tensor.contiguous().view(torch.uint8).numpy().tobytes() == payload
