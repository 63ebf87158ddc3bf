"""What the tables of dump.json comparison call their columns and what they say in them, as the 26.x result files do."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from probe_flow.records import Status

ABSENT = "N/A"
NOT_A_NUMBER = "Nan"

PREFIX = (
    "NPU Name",
    "Bench Name",
    "NPU Dtype",
    "Bench Dtype",
    "NPU Tensor Shape",
    "Bench Tensor Shape",
    "NPU Requires_grad",
    "Bench Requires_grad",
)
DIFFERENCES = (
    "Max diff",
    "Min diff",
    "Mean diff",
    "L2norm diff",
    "MaxRelativeErr",
    "MinRelativeErr",
    "MeanRelativeErr",
    "NormRelativeErr",
)
METRICS = (
    "Cosine",
    "EucDist",
    "MaxAbsErr",
    "MaxRelativeErr",
    "One Thousandth Err Ratio",
    "Five Thousandths Err Ratio",
)
STATISTICS = (
    "NPU max",
    "NPU min",
    "NPU mean",
    "NPU l2norm",
    "Bench max",
    "Bench min",
    "Bench mean",
    "Bench l2norm",
)
CHECKSUMS = ("NPU MD5", "BENCH MD5")
CONSISTENT = "Requires_grad Consistent"
JUDGEMENT = (CONSISTENT, "Result", "Err_message")
STACK = "NPU_Stack_Info"
FILES = "Data_name"
ROLE = "Role"

RESULTS: Mapping[Status, str] = MappingProxyType(
    {
        Status.PASS: "pass",
        Status.WARNING: "warning",
        Status.FAIL: "error",
        Status.ERROR: "error",
        Status.UNMATCHED_TARGET: "unmatched_target",
        Status.UNMATCHED_GOLDEN: "unmatched_golden",
        Status.NOT_COMPARABLE: "not_comparable",
        Status.SKIPPED: "skipped",
    }
)
"""Our verdicts in the words of this layout. What was not judged is never called a pass."""


class Layout(enum.Enum):
    """What the tables show, by what both dumps hold."""

    TENSOR = "tensor"
    STATISTICS = "statistics"
    CHECKSUM = "md5"
    STRUCTURE = "structure"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns between the prefix and the judgement."""
        if self is Layout.CHECKSUM:
            return CHECKSUMS
        if self is Layout.STRUCTURE:
            return ()
        return (*(METRICS if self is Layout.TENSOR else DIFFERENCES), *STATISTICS)
