"""What an operator in place reads is shown as it left it: devices write a dump when the operator is over."""

from __future__ import annotations

from itertools import pairwise

import pytest

from probe_flow.analysis.model.hidden_errors import RECENT
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Measurement, Mode, SideSummary, Statistics
from tests.support.comparison_rows import (
    IN,
    OUT,
    argument,
    edge,
    pairs_of,
    passes,
    row,
    statistics,
    target_only,
    tensor,
)

CACHE, FILLED, WRONG = (statistics(max=value, l2norm=norm) for value, norm in ((1.0, 2.0), (3.0, 10.0), (5.0, 17.0)))


def measured(target: Statistics, golden: Statistics, relative: float) -> Measurement:
    return Measurement.of(
        Mode.TENSOR,
        {"cosine": 1.0, "euclidean_distance": 10.0 * relative, "relative_euclidean_distance": relative,
         "max_abs_err": 3.0 * relative},
        SideSummary(target), SideSummary(golden), count=100, backend="hand",
    )  # fmt: skip


def named(
    before: Statistics, after: Statistics, *, edges: bool = True, kind: str = "ScatterNdUpdate"
) -> list[tuple[str, object]]:
    """The origins where an operator read and wrote this on the target; the golden has a cache, and it filled."""
    rows = [
        row("update", IN, 0, measurement=measured(before, CACHE, 0.0 if before == CACHE else 4.0)),
        row("update", IN, 1),
        row("update", measurement=measured(after, FILLED, 0.0 if after == FILLED else 0.7)),
        row("next", IN, 0, measurement=measured(after, FILLED, 0.0 if after == FILLED else 0.7)),
    ]
    links = [edge("update", "next")] if edges else []
    found, _ = conclude(rows, pairs_of(rows, {"update": kind}, links), passes(rows))
    return [(each.node.name, each.slot.role) for each in found]


def test_a_cache_that_was_written_in_place_is_no_wrong_input():
    assert named(FILLED, FILLED) == []


@pytest.mark.parametrize(
    "kind", ["Assign", "ApplyAdamD", "IndexPutV2", "aten.index_copy_.default", "InplaceAdd", "KvRmsNormRopeCache"]
)
def test_operators_that_write_in_place_are_known_by_a_word_of_their_type(kind):
    assert named(FILLED, FILLED, kind=kind) == []


@pytest.mark.parametrize("kind", ["Mul", "IndexSelect", "Reapplying", "Cachet"])
def test_others_that_give_what_they_read_are_not_excused(kind):
    assert ("update", IN) in named(FILLED, FILLED, kind=kind)


def test_the_operator_is_blamed_where_what_it_left_is_wrong():
    assert [name for name, _ in named(WRONG, WRONG)] == ["update"]
    assert all(role is not IN for _, role in named(WRONG, WRONG))


@pytest.mark.parametrize(("before", "after"), [(WRONG, FILLED), (FILLED, WRONG)])
def test_another_tensor_than_its_result_is_a_wrong_input(before, after):
    assert ("update", IN) in named(before, after)


@pytest.mark.parametrize(("name", "accused"), [("__setitem__", []), ("index_select", ["index_select"])])
def test_memory_that_items_are_put_into_is_no_wrong_input(name, accused):
    """`inverse = empty_like(order); inverse[order] = ...`: collectors record neither `empty_like` nor a result."""
    rows = [
        row("order", dtype="int64"),
        row(name, IN, 0, dtype="int64", relative=0.25, peak=5e18),
        row(name, IN, 1, dtype="int64"),
        argument(name, None, None, 0, OUT),
    ]
    found, _ = conclude(rows, pairs_of(rows, {name: name}), passes(rows))
    assert [each.node.name for each in found] == accused


@pytest.mark.parametrize("golden", ["varied", "zeros"])
@pytest.mark.parametrize("reader", [None, "linear", "view"])
def test_a_view_of_memory_that_nobody_wrote_or_reads_is_no_wrong_input(golden, reader):
    """FSDP hands out a buffer, and views of it, which a copy that no collector records then fills."""
    junk = Statistics(min=-127.0, max=1.9e37, mean=1e33, l2norm=4e38)
    zeros = Statistics(min=0.0, max=0.0, mean=0.0, l2norm=0.0)
    varied = Statistics(min=-3.0, max=3.0, l2norm=10.0)
    known = varied if golden == "varied" else zeros
    shown = Measurement.of(
        Mode.TENSOR,
        {"cosine": 0.0, "relative_euclidean_distance": 9e36, "max_abs_err": 1e37, "euclidean_distance": 9e37},
        SideSummary(junk), SideSummary(known), count=100, backend="hand",
    )  # fmt: skip
    rows = [row("narrow", IN, 0, measurement=shown), argument("narrow", 0, 0), row("narrow", measurement=shown)]
    if reader:
        rows += [row(reader, IN, 0, measurement=shown), row(reader, mark=3.0)]
        kinds = {"narrow": "narrow", reader: reader}
    else:
        kinds = {"narrow": "narrow"}
    found, _ = conclude(rows, pairs_of(rows, kinds), passes(rows))
    assert [each.node.name for each in found if each.fails][:1] == (["narrow"] if reader == "linear" else [])


def test_a_move_that_nothing_reads_is_wrong_where_what_it_read_agrees():
    """A dump of one API holds no call that reads the result."""
    rows = [row("permute", IN, 0), argument("permute", 0, 0), row("permute", relative=0.3, mark=1.0)]
    found, _ = conclude(rows, pairs_of(rows, {"permute": "permute"}), passes(rows))
    assert [each.node.name for each in found if each.fails] == ["permute"]


def unwritten(*relative: float, last: str = "MatMul") -> list[tuple[str, object]]:
    """The origins of memory, a part of which is written, then the rest, and what computes with it."""
    names = ["memory", "part", "whole", "next"]
    rows = []
    for name, before, after in zip(names, (None, *relative), relative, strict=False):
        rows += [] if before is None else [row(name, IN, 0, relative=before), row(name, IN, 1)]
        rows.append(row(name, relative=after))
    kinds = dict(zip(names, ("Empty", "TensorScatterUpdate", "TensorScatterUpdate", last), strict=True))
    links = [edge(one, other) for one, other in pairwise(names)]
    found, _ = conclude(rows, pairs_of(rows, kinds, links), passes(rows))
    return [(each.node.name, each.slot.role) for each in found if each.fails]


def test_memory_that_a_graph_hands_out_is_nobodys_fault_until_it_is_computed_with():
    assert unwritten(9.0, 4.0, 0.0, 0.0) == []
    assert unwritten(9.0, 4.0, 0.0, 0.5) == [("next", OUT)]
    assert unwritten(9.0, 4.0, 4.0, 4.0) == [("next", IN)]


GROWN = 0.0012, 0.0025, 0.004
"""Errors of products, one behind another: none of them is beyond what it was given, and the last one is by itself."""


def filled(*, whole: float, last: float) -> list[tuple[str, object]]:
    """The origins where results of products fill memory, which is then moved and multiplied with."""
    names = [f"product_{number}" for number in range(len(GROWN))]
    rows = []
    for name, before, after in zip(names, (0.0, *GROWN), GROWN, strict=False):
        rows += [row(name, IN, 0, relative=before), row(name, relative=after)]
    rows += [row(f"quiet_{number}", place=0, relative=1e-5) for number in range(RECENT)]  # what lies near says nothing
    rows += [row("memory", relative=9.0)]
    for name, before, after in (("part", 9.0, 4.0), ("whole", 4.0, whole)):
        rows += [row(name, IN, 0, relative=before), row(name, IN, 1, relative=GROWN[-1]), row(name, relative=after)]
    for name, after in (("moved", whole), ("last", last)):
        rows += [row(name, IN, 0, relative=whole), row(name, relative=after)]
    kinds = dict.fromkeys([*names, "last"], "MatMul") | dict.fromkeys(("part", "whole"), "TensorScatterUpdate")
    links = [
        edge(one, other) for one, other in (*pairwise(names), *pairwise(["memory", "part", "whole", "moved", "last"]))
    ]
    links += [edge(names[-1], name, 1) for name in ("part", "whole")]
    pairs = pairs_of(rows, {**kinds, "memory": "Empty", "moved": "Transpose"}, links)
    found, _ = conclude(rows, pairs, passes(rows))
    return [(each.node.name, each.slot.role) for each in found if each.fails]


def test_memory_that_was_filled_is_judged_by_what_it_was_filled_with():
    assert filled(whole=GROWN[-1], last=GROWN[-1]) == []
    assert filled(whole=GROWN[-1], last=0.5) == [("last", OUT)]
    assert filled(whole=0.5, last=0.5) == [("last", IN)]


def updated(
    state: float, variable: float, *, kind: str = "ApplyMomentumD", is_given: bool = True, nan: int = 0
) -> set[str]:
    """The origins where an optimizer read a state that is off by so much, and gave a variable that is."""
    rows = [
        row("step", IN, 0, relative=0.0), row("step", IN, 1, relative=state, nonfinite=nan),
        row("step", relative=variable), row("next", IN, 0, relative=variable),
    ]  # fmt: skip
    rows += [target_only(tensor("step", OUT, 1, shape=(100,)), expected=True)] if is_given else []
    found, _ = conclude(rows, pairs_of(rows, {"step": kind}, [edge("step", "next")]), passes(rows))
    return {f"{each.node.name} {each.slot}" for each in found if each.fails}


def test_a_state_that_an_optimizer_left_is_no_wrong_input():
    assert updated(0.9, 0.0) == set()
    assert updated(0.9, 0.5) == {"step output.0"}
    assert updated(0.9, 0.0, nan=1) == {"step input.1"}


@pytest.mark.parametrize("how", [{"kind": "Mul"}, {"is_given": False}])
def test_what_no_optimizer_left_is_one(how):
    assert updated(0.9, 0.0, **how) == {"step input.1"}
