"""A tensor in memory, as the kernel reads it; reads come from read-only memory."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

NUMPY_TYPES: dict[str, Any] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "int4": ml_dtypes.int4,
}


class ArrayBlocks:
    def __init__(self, values: Any, dtype: str) -> None:
        with np.errstate(all="ignore"):
            array: NDArray[Any] = np.array(values, dtype=NUMPY_TYPES.get(dtype) or np.dtype(dtype)).reshape(-1)
        array.flags.writeable = False
        self.array, self.dtype, self.numel = array, dtype, array.size

    def read(self, start: int, stop: int) -> NDArray[Any]:
        return self.array[start:stop]

    def exact(self) -> list[Any]:
        """Return the elements as Python numbers, without rounding."""
        array = self.array
        if array.dtype.kind in "biufc" and array.dtype.itemsize > 1:
            return list(array.tolist())
        if array.dtype.kind in "biu":
            return [int(value) for value in array]
        return [float(value) for value in array]
