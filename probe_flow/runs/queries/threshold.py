"""Which nodes are beyond a threshold, in execution order: those that begin it apart from those that pass it on."""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from msgspec import Struct, field

from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.record.json_values import json_number
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.types.rows import RowRecord
from probe_flow.records import Role, SlotRole, Status, TensorKind
from probe_flow.runs.queries.base import EVERYWHERE, Identity, Scope, identity, metric_of, place

_NUMERIC_KINDS = frozenset({TensorKind.TENSOR, TensorKind.STATISTICS})
_INCOMPARABLE = frozenset({Status.NOT_COMPARABLE, Status.ERROR})
_MAX_LISTED = 12


class Relation(enum.Enum):
    """How a value lies to the bound when its node is listed."""

    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"

    def holds(self, value: float, bound: float) -> bool:
        """Say whether it does; NaN never does."""
        if self is Relation.ABOVE:
            return value > bound
        return value < bound if self is Relation.BELOW else value <= bound


class Part(enum.Enum):
    """What a listed node has to do with the error: it begins there, came in, or that is not known."""

    SUSPECT = "suspect"
    INHERITED = "inherited"
    INPUTS_ONLY = "inputs only"
    UNKNOWN = "unknown"


class Threshold(Struct, frozen=True):
    """A metric and its bound: nodes with a value on the far side are listed."""

    metric: str
    bound: float
    relation: Relation = Relation.BELOW

    def __str__(self) -> str:
        return f"{self.metric} {self.relation.value} {self.bound:g}"

    def meets(self, value: float | None) -> bool:
        """Say whether a value is on the far side."""
        return value is not None and self.relation.holds(value, self.bound)


def parse_threshold(text: str, relation: Relation) -> Threshold:
    """Return the threshold of ``METRIC=VALUE``.

    Raises:
        UsageError: PF7203 when the text is none.
    """
    metric, equals, value = text.partition("=")
    try:
        bound = float(value)
    except ValueError:
        bound = math.nan
    if not equals or not metric.strip() or math.isnan(bound):
        raise UsageError(
            Diagnostic("PF7203", f"`{text}` is no threshold", help="write METRIC=VALUE, e.g. `cosine=0.98`")
        )
    return Threshold(metric.strip(), bound, relation)


class NodeValues(Struct):
    """One call of a node with its values of the metric.

    Args:
        known: which call of which node in which execution.
        name: what it is called in its dump.
        op_type: its type.
        order: that of its first row.
        inputs, outputs: slot as text and value, in the order of rows; None = matched and not computable.
        roles: roles that the analysis gave to its rows.
        reasons: why values are missing.
    """

    known: Identity
    name: str
    op_type: str
    order: int
    inputs: list[tuple[str, float | None]] = field(default_factory=list)
    outputs: list[tuple[str, float | None]] = field(default_factory=list)
    roles: set[Role] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)

    def add(self, row: RowRecord, metric: str) -> None:
        """Take a row of this node."""
        value = metric_of(row, metric)
        slot = f"{row.direction.value} {row.index}"
        (self.outputs if row.direction is SlotRole.OUTPUT else self.inputs).append((slot, value))
        self.roles.add(row.role)
        if (value is None or math.isnan(value)) and row.reason:
            self.reasons.append(row.reason)

    def part(self, threshold: Threshold) -> Part | None:
        """Return what the node has to do with the error; None when nothing of it is beyond the threshold."""
        comes_in = any(threshold.meets(value) for _, value in self.inputs)
        goes_out = any(threshold.meets(value) for _, value in self.outputs)
        if comes_in:
            return Part.INHERITED if goes_out else Part.INPUTS_ONLY
        if not goes_out:
            return None
        if Role.INHERITED in self.roles and Role.ORIGIN not in self.roles:
            return Part.INHERITED
        compared = any(value is not None and not math.isnan(value) for _, value in self.inputs)
        return Part.SUSPECT if compared else Part.UNKNOWN

    @property
    def has_unknown(self) -> bool:
        """Whether an output, or all there is of a node without outputs, has no value that can be judged."""
        judged = self.outputs or self.inputs
        return any(value is None or math.isnan(value) for _, value in judged)

    def data(self, part: Part | None = None) -> dict[str, Any]:
        """Return the node as a record."""
        roles = [role.value for role in (Role.ORIGIN, Role.INHERITED) if role in self.roles]
        return {
            **place(self.known, self.name),
            "op_type": self.op_type,
            "order": self.order,
            **({"part": part.value} if part is not None else {"reason": self.reasons[0] if self.reasons else None}),
            "role": roles[0] if roles else None,
            "inputs": [{"slot": slot, "value": json_number(value)} for slot, value in self.inputs],
            "outputs": [{"slot": slot, "value": json_number(value)} for slot, value in self.outputs],
        }


class ThresholdAnswer(Struct):
    """What a run has on the far side of a threshold.

    Args:
        threshold: what was asked.
        nodes: the first of the listed nodes, in execution order, with what they have to do with the error.
        counts: all listed nodes by that, however many are shown.
        unknown: the first of the nodes whose value is NaN or could not be computed.
        unknown_count: how many of those there are.
        checked: nodes with at least one matched tensor.
        alone: rows without a counterpart on the other side.
    """

    threshold: Threshold
    nodes: list[tuple[NodeValues, Part]] = field(default_factory=list)
    counts: Counter[Part] = field(default_factory=Counter)
    unknown: list[NodeValues] = field(default_factory=list)
    unknown_count: int = 0
    checked: int = 0
    alone: int = 0

    @property
    def found(self) -> int:
        """How many nodes are beyond the threshold."""
        return self.counts.total()

    def data(self) -> dict[str, Any]:
        """Return the answer as JSON."""
        return {
            "threshold": {
                "metric": self.threshold.metric,
                "relation": self.threshold.relation.value,
                "bound": json_number(self.threshold.bound),
            },
            "found": self.found,
            "counts": {part.value: self.counts[part] for part in Part},
            "nodes": [node.data(part) for node, part in self.nodes],
            "not_comparable": self.unknown_count,
            "not_comparable_nodes": [node.data() for node in self.unknown],
            "checked": self.checked,
            "rows_without_counterpart": self.alone,
        }


def beyond(run: StoredRun, threshold: Threshold, *, limit: int | None, scope: Scope = EVERYWHERE) -> ThresholdAnswer:
    """Return the nodes of a run beyond a threshold.

    A node is listed when any of its tensors is: as *suspect* when an output is and every comparable input is not, as
    *inherited* when an input is too or the analysis found the error upstream (the input itself may be unmatched), as
    *inputs only* when no output is, as *unknown* without comparable inputs. Nodes with outputs that cannot be judged
    (NaN, not computable) are counted apart.

    Args:
        run: the run.
        threshold: metric and bound.
        limit: nodes that are kept of each list; None = all. Counts are always of all.
        scope: where to look.

    Raises:
        UsageError: PF7202 when no row of the run has the metric.
    """
    search = _Search(threshold, limit)
    for row in run.rows(comparison=scope.comparison):
        if scope.keeps(row):
            search.take(row)
    search.end_node()
    if threshold.metric not in search.metrics:
        raise _not_measured(threshold.metric, search.metrics, run)
    return search.answer


class _Search:
    """Holds one node at a time, so that a run of any size fits; rows come node by node."""

    def __init__(self, threshold: Threshold, limit: int | None) -> None:
        self.answer = ThresholdAnswer(threshold)
        self.metrics: dict[str, None] = {}
        self._limit = limit
        self._node: NodeValues | None = None
        self._ended: set[Identity] = set()

    def take(self, row: RowRecord) -> None:
        if row.target is None or row.golden is None:
            self.answer.alone += 1
            return
        measured = row.metrics
        for name in measured:
            self.metrics.setdefault(name)
        metric = self.answer.threshold.metric
        lacks = metric not in measured
        # Another mode of measuring knows no such metric; that is no gap of this row.
        if lacks and (row.kind not in _NUMERIC_KINDS or (measured and row.verdict not in _INCOMPARABLE)):
            return
        known = identity(row)
        if self._node is None or self._node.known != known:
            self.end_node()
            self._node = NodeValues(known, row.name, row.op_type, row.order)
        self._node.add(row, metric)

    def end_node(self) -> None:
        node, self._node = self._node, None
        if node is None:
            return
        answer = self.answer
        if node.known not in self._ended:
            self._ended.add(node.known)
            answer.checked += 1
        part = node.part(answer.threshold)
        if part is not None:
            answer.counts[part] += 1
            if self._limit is None or len(answer.nodes) < self._limit:
                answer.nodes.append((node, part))
        elif node.has_unknown:
            answer.unknown_count += 1
            if self._limit is None or len(answer.unknown) < self._limit:
                answer.unknown.append(node)


def _not_measured(metric: str, measured: Iterable[str], run: StoredRun) -> UsageError:
    from probe_flow.metrics.catalogue.registry import find_metric

    names = sorted(measured)
    listed = ", ".join(names[:_MAX_LISTED]) + (" ..." if len(names) > _MAX_LISTED else "")
    try:
        find_metric(metric)
        known, why = True, "was not measured in this run"
    except UsageError:
        known, why = False, "is no metric"
    return UsageError(
        Diagnostic(
            "PF7202",
            f"`{metric}` {why}",
            path=str(run.folder),
            help=(None if known else did_you_mean(metric, names)) or f"measured: {listed or 'nothing'}",
            notes=() if not known else ("`metrics:` of the compare stage chooses what is measured",),
        )
    )
