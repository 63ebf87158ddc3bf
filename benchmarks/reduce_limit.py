"""Read arrays and find extremes as fast as numpy can: ``python -m benchmarks.reduce_limit FOLDER THREADS``.

What a reducer that did nothing else could reach on this machine: each file read from front to back into one buffer that
the processor's cache holds, minimum and maximum taken of each filled buffer, as integers of the elements' width: numpy
takes a hundred times as long for the values of float16.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

BUFFER_BYTES = 2**19


def extremes(path: Path) -> tuple[int, int]:
    width = np.load(path, mmap_mode="r").dtype.itemsize
    size = path.stat().st_size
    data = size // BUFFER_BYTES * BUFFER_BYTES
    start = size - data
    buffer = np.empty(BUFFER_BYTES, np.uint8)
    values = buffer.view(f"i{width}")
    low, high = 0, 0
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for offset in range(start, start + data, BUFFER_BYTES):
            os.preadv(descriptor, [memoryview(buffer)], offset)
            low, high = min(low, int(values.min())), max(high, int(values.max()))
    finally:
        os.close(descriptor)
    return low, high


def main() -> None:
    paths = [path for path in sorted(Path(sys.argv[1]).iterdir()) if not path.stem.endswith("_min_max")]
    with ThreadPoolExecutor(int(sys.argv[2])) as pool:
        print(len(list(pool.map(extremes, paths))))


if __name__ == "__main__":
    main()
