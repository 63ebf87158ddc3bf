"""HDF5 files of our own on a disk that is full: one error in the words of the system, and nothing beside it."""

from __future__ import annotations

import os
import subprocess
import sys

import h5py
import numpy as np
import pytest

from probe_flow.files.hdf5_files import SEAL_BYTES, new_file, plain_dataset, sealed_file

CHILD = """
import resource, sys
from pathlib import Path
{imports}

for limit in map(int, sys.argv[2:]):  # a file that may not grow is like a disk that is full
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        {write}
    except Exception as error:
        print(repr(error))
    else:
        print("written")
"""

SHARD = """
from probe_flow.files.shards import Entry, ShardStore
store = ShardStore(Path(sys.argv[1]))
entries = {f"{n:032x}": Entry("text " * 20, "label") for n in range(200)}
"""

TENSOR = """
import numpy as np
from probe_flow.elements.tensor_store import _convert
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.records import Execution, NodeKey, Slot, SlotRole
folder = Path(sys.argv[1])
np.save(folder / "a.npy", np.arange(40_000, dtype=np.float32))
ref = npy_tensor_ref(folder / "a.npy", NodeKey(Execution(), "a"), Slot(SlotRole.OUTPUT))
"""

LIMITS = (0, 90, 600, 1500, 2100, 5000, 20_000)


@pytest.mark.parametrize(
    ("imports", "write"),
    [(SHARD, "store.add(entries)"), (TENSOR, "_convert(ref, folder / 'a.h5', 'auto')")],
    ids=["results", "a converted tensor"],
)
def test_a_full_disk_is_told_once_and_leaves_nothing(tmp_path, imports, write):
    code = CHILD.format(imports=imports, write=write)
    command = [sys.executable, "-c", code, str(tmp_path), *map(str, LIMITS), str(1 << 20)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["OSError(27, 'File too large')"] * len(LIMITS) + ["written"]
    assert len([path for path in tmp_path.iterdir() if path.suffix != ".npy"]) == 1


def test_a_new_file_is_an_ordinary_one(tmp_path):
    values = np.arange(3_000_000, dtype=np.uint32).view(np.uint8)
    for name in "ab":
        with new_file(tmp_path / name) as file:
            file.create_dataset("values", data=values, track_times=False)
            file.create_dataset("nothing", data=values[:0], track_times=False)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    with h5py.File(tmp_path / "a") as file:
        size = (tmp_path / "a").stat().st_size
        np.testing.assert_array_equal(plain_dataset(file, "values", values.dtype, size), values)
        assert plain_dataset(file, "nothing", values.dtype, size).shape == (0,)
        with pytest.raises(ValueError, match="not there"):
            plain_dataset(file, "values", values.dtype, size - 1000)
    with pytest.raises(FileExistsError), new_file(tmp_path / "a"):
        pass


def test_a_file_with_any_byte_changed_is_refused_before_hdf5_sees_it(tmp_path, monkeypatch):
    """HDF5 2.0 crashes of some damaged files: of an attribute, for one, whose text lies elsewhere."""
    path = tmp_path / "a.h5"
    with new_file(path, data="values") as file:
        file.create_dataset("values", data=np.arange(256, dtype=np.uint8), track_times=False)
        file.attrs.update({"format": 1, "dtype": "float16"})
    with sealed_file(path) as file:
        assert file.attrs["dtype"] == "float16"
    whole = path.read_bytes()
    start = whole.index(bytes(range(256)))
    monkeypatch.setattr(h5py, "File", None)
    for place in (0, 24, 32, 40, *range(SEAL_BYTES, start), *range(start + 256, len(whole))):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"checksum|begin|end"), sealed_file(path):
            pass
    path.write_bytes(whole[:-1])
    with pytest.raises(ValueError, match=r"checksum|end"), sealed_file(path):
        pass


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.h5")
    with pytest.raises(OSError, match="a pipe, not a regular file"), sealed_file(tmp_path / "a.h5"):
        pass
