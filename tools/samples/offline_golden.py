"""What a framework run leaves for comparison: the outputs of all its operators, as files of one folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from offline_layers import Array

FIRST_US = 1_700_000_000_000_000


@dataclass(frozen=True)
class Golden:
    """A framework's run.

    Args:
        outputs: operator -> its output 0, in the order in which the operators ran.
        originals: layer -> the framework's operators that compute it, in order.
        layout: order of the axes of its images.
    """

    outputs: Mapping[str, Array]
    originals: Mapping[str, tuple[str, ...]]
    layout: str = "NCHW"


def write_golden(golden: Golden, folder: Path) -> None:
    """Write ``{operator}.0.{microseconds}.npy`` files, the operators' names cleaned."""
    folder.mkdir(parents=True)
    for place, (name, values) in enumerate(golden.outputs.items(), start=1):
        cleaned = name.replace("/", "_").replace(".", "_")
        np.save(folder / f"{cleaned}.0.{FIRST_US + 1000 * place}.npy", values)
