"""What is asked of a comparison: plain values, whoever made them (a workflow file, or a program)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from probe_flow.analysis.coverage import Required

if TYPE_CHECKING:
    from probe_flow.analysis.policies.rules import Rule
    from probe_flow.analysis.search.diagnosis import Diagnosis
    from probe_flow.analysis.suppressions.waivers import Waiver
    from probe_flow.records import Comparison, NodeKey, Pair, Row


class Only(Struct, frozen=True):
    """Narrows a comparison to the nodes that an earlier one suspects.

    Args:
        comparison: name of the stage whose rows are searched.
        where: fact of a row or metric id -> patterns or bounds of which one must hold; all keys must.
        limit: at most so many nodes, in execution order; None = all.
    """

    comparison: str
    where: Mapping[str, Sequence[str]]
    limit: int | None = None


class Recompute(Struct, frozen=True):
    """How many calls are computed again from their own inputs.

    Args:
        mode: ``never``; ``auto``: what is suspect, or what nothing else judges, while it costs little; ``all``: every
            call.
        limit: calls at most; None = 256, or no limit where all are asked for.
    """

    mode: Literal["auto", "all", "never"] = "auto"
    limit: int | None = None

    def candidates(self, rows: Sequence[Row], diagnosis: Diagnosis) -> Iterator[int]:
        """Yield rows of results that are asked about, the most important first, some of them twice."""
        if self.mode == "all":
            yield from (number for number in diagnosis.order if rows[number].is_produced)
            return
        is_open = bool(diagnosis.suspects or diagnosis.random or diagnosis.decided)
        if self.mode == "never" or not (is_open or diagnosis.asked or diagnosis.unjudged or diagnosis.updated):
            return
        suspects = [suspect.row for suspect in diagnosis.suspects]
        yield from suspects
        yield from diagnosis.random
        yield from diagnosis.decided
        for number in suspects:
            yield from diagnosis.fed_by.get(number, ())
        yield from diagnosis.unseen
        yield from diagnosis.near
        in_turn = zip_longest(diagnosis.asked, diagnosis.unjudged)  # of a deep model either may be more than the limit
        yield from (number for pair in in_turn for number in pair if number is not None)
        for number in diagnosis.near:
            yield from diagnosis.fed_by.get(number, ())
        yield from diagnosis.updated
        yield from (number for number in diagnosis.order if number in diagnosis.tainted)


class Asked(Struct, frozen=True):
    """What to measure, by what to judge it, and what the gate leaves out.

    Args:
        policy: name of a registered policy, or rules of which the first that fits a row judges it.
        metrics: name of a registered set, or metric ids; None: the set of the policy's name, or the default one.
        metric_args: metric id -> arguments.
        max_elements: only so many elements of each pair, from the first on; 0 = all.
        gate: what fails the run: ``findings`` or ``all_pass``.
        waivers: known deviations; the first that covers a row counts.
        baseline: path of a baseline file.
        baseline_tolerance: how much larger than accepted an error may be, relative to it.
        required: what the run needs to count as complete.
        only: the nodes to compare; None = all.
        recompute: what is computed again.
    """

    policy: str | tuple[Rule, ...] = "torchair"
    metrics: str | Sequence[str] | None = None
    metric_args: Mapping[str, Mapping[str, str | int | float | bool]] = field(default_factory=dict)
    max_elements: int = 0
    gate: Literal["findings", "all_pass"] = "findings"
    waivers: tuple[Waiver, ...] = ()
    baseline: str | None = None
    baseline_tolerance: float = 0.1
    required: Required = field(default_factory=Required)
    only: Only | None = None
    recompute: Recompute = Recompute()


def only_suspects(pairs: Sequence[Pair], earlier: Comparison, only: Only) -> set[int]:
    """Return the numbers of the pairs whose node has a row in ``earlier`` that meets every condition of ``only``."""
    kept = suspect_nodes(earlier, only)
    return {
        number
        for number, pair in enumerate(pairs)
        if (pair.shown.node.execution.identity, pair.shown.node.name) in kept
    }


def suspect_nodes(earlier: Comparison, only: Only) -> set[tuple[object, str]]:
    """Return the nodes with a row that meets every condition, by the identity of their execution and their name."""
    nodes = dict.fromkeys((key.execution.identity, key.name) for key in suspect_calls(earlier, only))
    return set(list(nodes)[: only.limit])


def suspect_calls(earlier: Comparison, only: Only) -> list[NodeKey]:
    """Return the calls with a row that meets every condition, in execution order, each once; `limit` does not count."""
    found: dict[NodeKey, None] = {}
    for row in earlier.rows:
        if all(_meets(row, key, wanted, earlier) for key, wanted in only.where.items()):
            found.setdefault(row.pair.shown.node)
    return list(found)


def _meets(row: Row, key: str, globs: Sequence[str], earlier: Comparison) -> bool:
    from probe_flow.analysis.policies.bounds import parse_bound

    node = row.pair.shown.node
    record = earlier.pairs.target.nodes.get(node) or earlier.pairs.golden.nodes.get(node)
    facts = {
        "verdict": row.verdict.status.value,
        "role": row.verdict.role.value,
        "node": node.name,
        "op_type": record.op_type if record else "",
    }
    if key in facts:
        return any(fnmatchcase(facts[key], glob) for glob in globs)
    value = row.measurement.metrics.get(key) if row.measurement else None
    return any(bound is not None and bound.holds(value) for bound in map(parse_bound, globs))
