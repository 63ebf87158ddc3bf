"""What the table of a whole model says beyond the figures: overflow, device-only operators, model outputs, errors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from probe_flow.records import Mode, Pairs, Row
from probe_flow.records.figure_columns import statistics_of
from probe_flow.reports.tables.offline.groups import (
    DEVICE_ONLY,
    NOT_COMPUTED,
    OfflineGroup,
    Operators,
    clean_name,
    golden_names,
)

YES, NO = "YES", "NO"

FLAG_COLUMNS = ("IsNpuOps", "IsOutputNode", "IsPrecisionError")

MODEL_OUTPUTS = "model_outputs"
"""Attribute of the target catalog: original operators whose outputs are those of the model, ``name`` or ``name:0``."""

HALF_LIMIT = 65504.0
"""The largest float16."""

COSINE_LIMIT = 0.99
LIMITS: Mapping[str, float] = MappingProxyType(
    {"relative_euclidean_distance": 0.05, "kl_minmax": 0.005, "rmse": 1.0, "mean_rel_err_masked": 1.0}
)
"""Errors beyond these are precision errors of the published one-click comparison."""

_NEVER_WRONG = frozenset({"Data", "TransData", "PartitionCall"})
_END = "NetOutput"


def overflow(row: Row | None) -> str:
    """Return YES when a float16 tensor of the target reached the largest float16 or infinity, NO when it did not.

    ``NaN`` for other dtypes, and where the elements were not read.
    """
    target = row.pair.target if row is not None else None
    if row is None or target is None or target.dtype != "float16":
        return NOT_COMPUTED
    known = statistics_of(target, row.measurement.target if row.measurement is not None else None)
    if known.inf:
        return YES
    extremes = [abs(float(value)) for value in (known.min, known.max) if value is not None]
    if not extremes:
        return NOT_COMPUTED
    return YES if any(value >= HALF_LIMIT for value in extremes) else NO


def is_precision_error(row: Row, op_type: str) -> bool:
    """Say whether the figures of a row are beyond the limits of the one-click comparison."""
    measured = row.measurement
    if measured is None or measured.mode is not Mode.TENSOR or op_type in _NEVER_WRONG:
        return False
    cosine = measured.metrics.get("cosine")
    if cosine is None and measured.count == 1:
        cosine = 1.0
    if cosine is None or math.isnan(cosine):
        return False
    errors = ((measured.metrics.get(name), limit) for name, limit in LIMITS.items())
    return cosine < COSINE_LIMIT or any(error is not None and error > limit for error, limit in errors)


class ModelOutputs:
    """Which original operators end the model.

    Args:
        pairs: what the matcher decided; without the model's own list, what the operator ``NetOutput`` reads.
        operators: of both sides.
    """

    def __init__(self, pairs: Pairs, operators: Operators) -> None:
        listed = pairs.target.attrs.get(MODEL_OUTPUTS)
        if isinstance(listed, (tuple, list)):
            self._names = frozenset(_plain_name(str(name)) for name in listed)
        else:
            self._names = frozenset(_read_at_the_end(pairs, operators))

    def __bool__(self) -> bool:
        return bool(self._names)

    def has(self, originals: tuple[str, ...]) -> bool:
        """Say whether one of these operators ends the model."""
        return any(name in self._names or clean_name(name) in self._names for name in originals)


def flags(group: OfflineGroup, row: Row | None, op_type: str, operators: Operators, outputs: ModelOutputs) -> list[str]:
    """Return the three flags of a row; ``NaN`` where nothing tells which operators end the model."""
    is_device_only = golden_names(group, operators) == DEVICE_ONLY
    is_output = outputs.has(operators.originals(group)) if outputs else None
    is_wrong = row is not None and is_precision_error(row, op_type)
    return [NOT_COMPUTED if flag is None else YES if flag else NO for flag in (is_device_only, is_output, is_wrong)]


def _read_at_the_end(pairs: Pairs, operators: Operators) -> Iterator[str]:
    """Yield what the operator ``NetOutput`` reads: golden tensors it is compared with, originals of what feeds it."""
    for pair in pairs.pairs:
        if pair.target is not None and pair.golden is not None and operators.op_type(pair.target.node) == _END:
            yield operators.name(pair.golden.node)
    for edge in pairs.target.edges:
        if operators.op_type(edge.consumer) == _END and edge.producer in pairs.target.nodes:
            yield from filter(None, pairs.target.nodes[edge.producer].originals)


def _plain_name(name: str) -> str:
    head, _, tail = name.rpartition(":")
    return head if head and tail.isdigit() else name
