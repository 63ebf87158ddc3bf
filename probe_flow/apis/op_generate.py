"""Constants that msprobe's single-API scripts (`op_generate`) judge by: those of its pre-check before generation 1.2.

Source: the scripts that `op_generate` of msprobe 1.2.1 wrote, and `api_precision_threshold.yaml`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from probe_flow.apis.standards import LIMITS, Constants
from probe_flow.apis.values import Values


def _spacing(_dtype: str, benchmark: Values) -> float:
    return float(np.finfo(np.float64 if benchmark.dtype == np.float64 else np.float32).eps)


def normal_rmse(squares: float, count: int, _size: int) -> float:
    """Return the root mean square of the normal values; 0 where there are none."""
    return math.sqrt(squares / count) if count else 0.0


OP_GENERATE = Constants(
    "op_generate",
    {
        dtype: replace(LIMITS[dtype], rtol=rtol, small=small, absolute_atol=atol, benchmark_atol=atol)
        for dtype, rtol, small, atol in (
            ("float16", 1e-3, 1e-3, 1e-5),
            ("bfloat16", 4e-3, 1e-3, 1e-5),
            ("float32", 1e-6, 1e-6, 1e-9),
        )
    },
    spacing=_spacing,
    rmse=normal_rmse,
)
"""Where they differ from `ACC_CHECK`: limits, the spacing of bfloat16, and the root mean square error."""
