"""What a team accepted of a run, and how a later run stands against it: the rules, without files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias

from msgspec import Struct

FAILING_ROW = "fail"
"""`Deviant.kind` of a row that fails; with `NONFINITE_ROW` what the gate ``all_pass`` looks at."""

NONFINITE_ROW = "nonfinite"
"""`Deviant.kind` of a failing row whose sides have different numbers of NaN or infinities."""

ROUNDING = 1e-3 * (1.0 + 1e-9)
"""Share by which the figures of a baseline file may lie above those of its run: they have four digits, rounded up, and
the last bits of a float64 come on top."""

NodePlace: TypeAlias = tuple[int | str | None, str | None, int, str]
"""Graph, node, call and phase. Ranks and steps are not told apart: a run with more of them has no new operators."""


class Deviant(Struct, frozen=True, gc=False):
    """One thing that would fail the gate.

    Args:
        graph, node, call, phase, op_type: the node, in the target's names.
        kind: kind of the finding, or one of the constants above for a row.
        slot: tensor of the node, e.g. ``output.0``; empty where there is none.
        figure: its size, larger is worse; None where there is no number for it.
    """

    graph: int | str | None
    node: str | None
    call: int
    phase: str
    op_type: str
    kind: str
    slot: str
    figure: float | None

    @property
    def at(self) -> NodePlace:
        """The node."""
        return self.graph, self.node, self.call, self.phase

    @property
    def place(self) -> tuple[NodePlace, str, str]:
        """What it is compared by: two of one place are the same deviation."""
        return self.at, self.kind, self.slot

    def __str__(self) -> str:
        call = f"#{self.call}" if self.call else ""
        phase = ".backward" if self.phase == "backward" else ""
        slot = f".{self.slot}" if self.slot else ""
        return f"{self.node or 'the whole run'}{call}{phase}{slot}"


class Baseline(Struct, frozen=True, gc=False):
    """What was accepted of one comparison.

    Args:
        workflow, comparison: name of the workflow and of its stage.
        gate, policy: what judged the run that was accepted.
        compared: side -> tensors that were compared.
        deviants: what failed, one per place, sorted by it.
        path: the file, for messages.
    """

    workflow: str
    comparison: str
    gate: str
    policy: str
    compared: Mapping[str, int]
    deviants: tuple[Deviant, ...] = ()
    path: str = ""


class Change(Struct, frozen=True, gc=False):
    """A deviation now and in the baseline: ``accepted`` is None for a new one, ``now`` for one that is gone."""

    deviant: Deviant
    accepted: float | None = None
    now: float | None = None
    is_new: bool = False


class BaselineUse(Struct, frozen=True, gc=False):
    """How a run stands against its baseline.

    Args:
        path: the file.
        tolerance: how much larger than accepted a figure may be, relative to it.
        accepted: places of the baseline that deviate now, and not more than accepted.
        worse: what is new, or larger than accepted.
        better: what was accepted and is smaller now, or does not fail any more.
        absent: what was accepted at nodes that this run does not have.
    """

    path: str
    tolerance: float
    accepted: int
    worse: tuple[Change, ...] = ()
    better: tuple[Change, ...] = ()
    absent: tuple[Change, ...] = ()


def plain_name(text: str) -> str:
    """Return a name as a baseline file can hold it: lone surrogates, of file names that are not UTF-8, as escapes."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def largest(deviants: Sequence[Deviant]) -> list[Deviant]:
    """Return one deviant per place, that with the largest figure, sorted by place."""
    found: dict[tuple[NodePlace, str, str], Deviant] = {}
    for each in deviants:
        known = found.get(each.place)
        if known is None or _rank(each.figure) > _rank(known.figure):
            found[each.place] = each
    return sorted(found.values(), key=_order)


def is_within(now: float | None, accepted: float | None, *, tolerance: float) -> bool:
    """Say whether a figure is not worse than accepted. What has no number now is only as good as no number then."""
    if now is None or accepted is None:
        return now is None and accepted is None
    return _rank(now) <= _rank(accepted) or now <= accepted * (1.0 + tolerance)


def stand(
    baseline: Baseline,
    found: Sequence[Deviant],
    *,
    tolerance: float,
    nodes: AbstractSet[NodePlace],
    waived: Sequence[Deviant] = (),
) -> BaselineUse:
    """Return how what was found stands against the baseline.

    Args:
        baseline: what was accepted.
        found: what would fail the gate of the run.
        tolerance: how much larger than accepted a figure may be, relative to it.
        nodes: every node that the run compared.
        waived: what waivers of the workflow cover: neither worse nor gone.
    """
    known = {each.place: each for each in baseline.deviants}
    still = {each.place for each in waived}
    worse, better = [], []
    accepted = 0
    for each in largest(found):
        still.add(each.place)
        before = known.get(each.place)
        if before is None:
            worse.append(Change(each, now=each.figure, is_new=True))
        elif not is_within(each.figure, before.figure, tolerance=tolerance):
            worse.append(Change(each, before.figure, each.figure))
        else:
            accepted += 1
            if not is_within(before.figure, each.figure, tolerance=max(tolerance, ROUNDING)):
                better.append(Change(each, before.figure, each.figure))
    lost = [Change(each, each.figure) for each in baseline.deviants if each.place not in still]
    better += [change for change in lost if change.deviant.node is None or change.deviant.at in nodes]
    absent = [change for change in lost if change.deviant.node is not None and change.deviant.at not in nodes]
    return BaselineUse(baseline.path, tolerance, accepted, tuple(worse), tuple(better), tuple(absent))


def _rank(figure: float | None) -> tuple[int, float]:
    """Order figures: none, numbers, then NaN."""
    if figure is None:
        return 0, 0.0
    return (2, 0.0) if math.isnan(figure) else (1, figure)


def _order(each: Deviant) -> tuple[object, ...]:
    graph = each.graph
    of_graph = (0, 0, "") if graph is None else (1, graph, "") if isinstance(graph, int) else (2, 0, graph)
    return of_graph, each.node is not None, each.node or "", each.call, each.phase, each.kind, each.slot
