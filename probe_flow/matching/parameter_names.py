"""Parameters that MindSpore and PyTorch call by different names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PARAMETER_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "gamma": "weight",
        "beta": "bias",
        "moving_mean": "running_mean",
        "moving_variance": "running_var",
        "embedding_table": "weight",
    }
)
"""Other name -> the name that both sides understand; it counts only where the other side lacks the own name."""
