"""Files of the cache that other programs could have made: any HDF5 content, with a user block that fits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py

from probe_flow.files.hdf5_files import SEAL_BYTES, seal


@contextmanager
def sealed(path: Path, mode: str = "w") -> Iterator[h5py.File]:
    """Open a file for writing (``w``) or for changes (``a``), and seal it at the end."""
    with h5py.File(path, mode, libver="earliest", userblock_size=SEAL_BYTES if mode == "w" else None) as file:
        yield file
    with path.open("r+b") as raw:
        seal(raw)
