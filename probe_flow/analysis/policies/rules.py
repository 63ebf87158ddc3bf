"""Own policies of a workflow file: an ordered list of ``{where, pass, warn}``, the first match judges the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from msgspec import Struct, field

from probe_flow.analysis.plain_values import plain_gap
from probe_flow.analysis.policies.bounds import Bound
from probe_flow.records import Measurement, Status, Verdict
from probe_flow.records.row import Row


class Rule(Struct, frozen=True):
    """One rule; ``where``: ``node``, ``op_type``, ``direction`` or ``dtype`` -> glob patterns of which one must fit."""

    where: Mapping[str, Sequence[str]] = field(default_factory=dict)
    passes: Mapping[str, Bound] = field(default_factory=dict)
    warns: Mapping[str, Bound] | None = None

    def fits(self, row: Row, op_type: str) -> bool:
        """Say whether the rule judges this row."""
        tensor = row.pair.shown
        facts = {
            "node": tensor.node.name,
            "op_type": op_type,
            "direction": tensor.slot.role.value,
            "dtype": tensor.dtype,
        }
        return all(any(fnmatchcase(facts[key], glob) for glob in globs) for key, globs in self.where.items())

    def judge(self, measurement: Measurement) -> Verdict:
        """Return the verdict: every bound of ``passes`` must hold, else every one of ``warns``."""
        missed = _missed(self.passes, measurement)
        if not missed:
            return Verdict(Status.PASS)
        status = Status.WARNING if self.warns is not None and not _missed(self.warns, measurement) else Status.FAIL
        return Verdict(status, tuple(rule for rule, _ in missed), tuple(text for _, text in missed))


def _missed(bounds: Mapping[str, Bound], measurement: Measurement) -> list[tuple[str, str]]:
    missed = []
    for metric, bound in bounds.items():
        value = measurement.metrics.get(metric)
        if not bound.holds(value):
            shown = "not computable" if value is None else f"{value:.6g}"
            missed.append((f"{metric}{bound.symbol}{bound.limit:g}", f"{metric} is {shown}, required {bound}"))
    return missed


def _judge_value(row: Row, gap: float) -> Verdict:
    """Judge plain values (arguments, None) by equality: rules about tensors say nothing of them."""
    if gap == 0.0:
        return Verdict(Status.PASS)
    target, golden = row.pair.target, row.pair.golden
    assert target is not None
    assert golden is not None
    return Verdict(Status.FAIL, ("value",), (f"value is {target.value!r}, golden {golden.value!r}",))


class RulePolicy(Struct, frozen=True):
    """The rules of a workflow file. A row that no rule fits is skipped, and says so; plain values must be equal."""

    rules: tuple[Rule, ...]
    op_types: Mapping[object, str]
    name: str = "own rules"

    @property
    def needs(self) -> tuple[str, ...]:
        """Metrics that the rules ask for."""
        return tuple(dict.fromkeys(metric for rule in self.rules for metric in (*rule.passes, *(rule.warns or {}))))

    def judge(self, rows: Sequence[Row]) -> Sequence[Verdict]:
        """Return one verdict per row."""
        return [self._judge_row(row) for row in rows]

    def _judge_row(self, row: Row) -> Verdict:
        assert row.measurement is not None
        op_type = self.op_types.get(row.node, "")
        for rule in self.rules:
            if rule.fits(row, op_type):
                gap = plain_gap(row)
                if gap is not None and not rule.passes.keys() & row.measurement.metrics.keys():
                    return _judge_value(row, gap)
                return rule.judge(row.measurement)
        return Verdict(Status.SKIPPED, ("no_rule",), ("no rule of the policy fits this row",))
