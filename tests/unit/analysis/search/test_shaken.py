"""Decisions that scores near a tie may turn: what is made of them is other data, and accuses nobody."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, argument, edge, pairs_of, passes, row, tensor
from msgspec.structs import replace

from probe_flow.analysis.search.conclude import conclude
from probe_flow.analysis.search.near_misses import near_ties
from probe_flow.analysis.search.origin import diagnose
from probe_flow.records import FindingKind, Flow, Measurement, Mode, SideSummary, Statistics, TensorKind
from probe_flow.testing import builders

TYPES = {"score": "linear", "pick": "topk", "take": "index_select", "norm": "layer_norm"}
EDGES = [edge("nowhere", "score", 9), edge("score", "pick"), edge("pick", "take", 1), edge("take", "norm")]


def routed(scores: float, index: float, taken: float, *, pick: str = "topk", dtype: str = "float16"):
    """Scores, which expert they pick, what it gives and the norm of that; the relative errors of each."""
    exact = {"dtype": "int64", "relative": index, "size": 2.0}
    rows = [
        row("score", IN, relative=0.0, dtype=dtype), row("score", relative=scores, dtype=dtype),
        row("pick", IN, relative=scores, dtype=dtype), row("pick", **exact),
        row("take", IN, 0, relative=scores, dtype=dtype), row("take", IN, 1, **exact),
        row("take", relative=taken, dtype=dtype), row("norm", IN, relative=taken, dtype=dtype),
        row("norm", relative=taken, dtype=dtype),
    ]  # fmt: skip
    return rows, pairs_of(rows, {**TYPES, "pick": pick}, EDGES)


def by_statistics(rows):
    """The same rows as their recorded statistics show them: norms are off by the error, of indices nothing shows."""

    def shown(each):
        error = each.measurement.metrics["relative_euclidean_distance"] if "float" in each.pair.target.dtype else 0.0
        golden = Statistics(min=-3.0, max=3.0, mean=0.1, l2norm=10.0)
        target = Statistics(min=-3.0, max=3.0, mean=0.1 * (1 + error), l2norm=10.0 * (1 + error))
        sides = SideSummary(target), SideSummary(golden)
        return replace(each, measurement=Measurement.of(Mode.STATISTICS, {}, *sides, count=100))

    return [shown(each) for each in rows]


def named(rows, pairs):
    found, _ = conclude(rows, pairs, passes(rows))
    return [each.node.name for each in found if each.kind in (FindingKind.ORIGIN, FindingKind.DRIFT) and each.fails]


def test_rows_that_another_expert_gave_are_no_fault_and_no_drift():
    rows, pairs = routed(2e-4, 0.2, 0.6)
    assert named(rows, pairs) == []
    assert 6 in diagnose(rows, pairs).unjudged  # recomputing is asked, which needs no allowance


def test_where_the_indices_agree_the_same_rows_are_a_fault():
    assert named(*routed(2e-4, 0.0, 0.6)) == ["take"]


@pytest.mark.parametrize(("index", "norm", "due"), [(0.2, 1.0, []), (0.0, 1.0, ["send"]), (0.2, 1.1, ["send"])])
def test_tokens_that_are_sent_in_the_order_of_a_near_tie_are_no_fault(index, norm, due):
    """What makes them of the tokens (`tokens[index]`) is in no dump. A norm that is off by a tenth is of other ones."""
    rows, _ = routed(2e-4, index, 0.0)
    sent = row("send", IN, relative=0.3, mark=9.5)
    mine, other = sent.measurement.target_statistics, sent.measurement.golden_statistics
    sides = SideSummary(replace(mine, l2norm=norm * mine.l2norm)), SideSummary(other)
    metrics = sent.measurement.metrics
    sent = replace(sent, measurement=Measurement.of(Mode.TENSOR, metrics, *sides, count=100, backend="hand"))
    rows = [*rows[:4], sent, row("send", relative=0.3, mark=9.5)]
    types = {"score": "linear", "pick": "topk", "send": "all_to_all_single"}
    assert named(rows, pairs_of(rows, types, flow=Flow.ORDER)) == due


def sent(counts: tuple[int, int], index: float, *, length: int | None = None, wrong: object = None):
    """Rows sent to two experts, of which each takes so many; the golden sends 27 and 32."""
    rows, _ = routed(2e-4, index, 0.0)
    numbers = [(mine, other) for mine, other in zip(counts, (27, 32), strict=True)]
    splits = [argument("send", *each, place=2) for each in numbers]
    for number, (each, both) in enumerate(zip(splits, numbers, strict=True)):
        sides = [
            builders.tensor("send", IN, (2, number), kind=TensorKind.SCALAR, value=value, shape=()) for value in both
        ]
        splits[number] = replace(each, pair=replace(each.pair, target=sides[0], golden=sides[1]))
    of_rows = [tensor("send", OUT, shape=(rows, 8)) for rows in (sum(counts) if length is None else length, 59)]
    made = replace(row("send"), pair=replace(row("send").pair, target=of_rows[0], golden=of_rows[1]), measurement=None)
    other = [] if wrong is None else [argument("send", wrong, 1, place=3)]
    rows = [*rows[:4], *splits, *other, made]
    types = {"score": "linear", "pick": "topk", "send": "all_to_all_single"}
    return rows, pairs_of(rows, types, flow=Flow.ORDER)


def test_counts_of_rows_that_near_ties_sent_elsewhere_are_no_wrong_arguments():
    assert named(*sent((27, 33), 0.2)) == []
    assert named(*sent((27, 33), 0.0)) == ["send"]  # nothing was decided otherwise
    assert named(*sent((27, 33), 0.2, length=59)) == ["send"]  # they are not the rows that are sent
    assert named(*sent((27, 32), 0.2, wrong=2)) == ["send"]  # a number of its own


def test_an_operator_that_decides_nothing_excuses_nothing():
    assert named(*routed(2e-4, 0.0, 0.6, pick="relu")) == ["take"]


def test_of_statistics_near_ties_explain_some_per_cent_and_no_more():
    rows, pairs = routed(4e-4, 0.2, 0.05, pick="Greater")
    assert named(by_statistics(rows), pairs) == []
    rows, pairs = routed(4e-4, 0.2, 9.0, pick="Greater")
    assert named(by_statistics(rows), pairs) == ["take"]


@pytest.mark.parametrize(("taken", "told"), [(0.05, [("take", False)]), (2e-4, [])])
def test_what_near_ties_may_explain_is_undecided_and_told(taken, told):
    rows, pairs = routed(4e-4, 0.2, taken, pick="Greater")
    found, _ = conclude(by_statistics(rows), pairs, passes(rows))
    undecided = [each for each in found if each.evidence.startswith("undecided: ")]
    assert [(each.node.name, each.fails) for each in undecided] == told
    assert near_ties(found) == tuple(f"undecided from `{name}` output.0 on, behind near ties" for name, _ in told)
    assert near_ties([replace(each, fails=True) for each in undecided]) == ()


def test_of_statistics_masks_that_are_made_of_turned_indices_accuse_nobody():
    """No row went to an expert on one side: the mask of its rows is all false there."""
    mask = {"dtype": "bool", "relative": 0.0, "size": 1.0}
    found, _ = routed(4e-4, 0.2, 0.0, pick="Greater")
    found = by_statistics(found)
    some, none = Statistics(min=0.0, max=1.0), Statistics(min=0.0, max=0.0)
    sides = SideSummary(none), SideSummary(some)
    found += [row("mask", IN, dtype="int64", relative=0.0, measurement=found[3].measurement)]
    found += [row("mask", **mask, measurement=Measurement.of(Mode.STATISTICS, {}, *sides, count=100))]
    pairs = pairs_of(found, {**TYPES, "pick": "Greater", "mask": "Equal"}, [*EDGES, edge("pick", "mask")])
    assert named(found, pairs) == []
    exact = by_statistics(routed(0.0, 0.0, 0.0, pick="Greater")[0]) + found[-2:]
    assert named(exact, pairs) == ["mask"]


@pytest.mark.parametrize("pick", ["topk", "argsort", "aten.argmax.default", "Greater"])
def test_equal_scores_turn_no_decision(pick):
    rows, pairs = routed(0.0, 0.0, 0.05, pick=pick)
    assert named(by_statistics(rows), pairs) == ["take"]


def test_float32_turns_no_decision():
    rows, pairs = routed(1e-7, 0.0, 0.05, dtype="float32")
    assert named(by_statistics(rows), pairs) == ["take"]


def test_results_that_stand_out_are_asked_about_the_most_striking_first():
    rows, pairs = routed(0.0, 0.0, 0.0)
    rows[1] = row("score", relative=2.5 * 2.0**-11 * 0.7)
    rows[8] = row("norm", relative=2.5 * 2.0**-11 * 0.9)
    assert [*diagnose(rows, pairs).asked] == [8, 1]
    rows[8] = row("norm", relative=2.5 * 2.0**-11 * 0.3)
    rows[1] = row("score", relative=2.5 * 2.0**-11 * 0.3)
    assert not diagnose(rows, pairs).asked


def test_of_few_rows_that_were_picked_a_few_more_are_many_by_statistics():
    rows, pairs = routed(3e-3, 0.2, 0.35, dtype="bfloat16")
    rows = by_statistics(rows)
    index = {"role": IN, "place": 1, "dtype": "int64"}
    sides = [tensor("take", shape=(count,), **index) for count in (13, 10)]
    few = replace(rows[5], pair=replace(rows[5].pair, target=sides[0], golden=sides[1]))
    assert named(rows, pairs) == ["take"]  # as many rows as in the golden
    assert named([*rows[:5], few, *rows[6:]], pairs) == []


def test_what_is_drawn_otherwise_goes_on_through_statistics_that_agree_by_chance():
    types = {"drop": "dropout", "mask": "add", "soft": "softmax"}
    edges = [edge("nowhere", "drop", 9), edge("drop", "mask"), edge("mask", "soft")]
    errors = ("drop", IN, 0.0), ("drop", None, 0.03), ("mask", IN, 0.03), ("mask", None, 0.0), ("soft", IN, 0.0)
    rows = [row(name, *([role] if role else []), relative=error, dtype="float32") for name, role, error in errors]
    rows = by_statistics([*rows, row("soft", relative=1e-2, dtype="float32")])
    assert named(rows, pairs_of(rows, types, edges)) == []
    assert named(rows, pairs_of(rows, {**types, "drop": "relu"}, edges)) == ["drop", "soft"]


def test_a_mask_that_float32_scores_cannot_turn_is_an_origin_of_statistics():
    """Masks have a mean, which shows one element; of scores that are off by 1e-7 none of 100 turns."""
    rows, pairs = routed(1e-7, 0.0, 0.0, dtype="float32", pick="Greater")
    shown = by_statistics(rows)
    sides = [SideSummary(Statistics(min=0.0, max=1.0, mean=mean, l2norm=5.0)) for mean in (0.26, 0.25)]
    mask = replace(shown[3], measurement=Measurement.of(Mode.STATISTICS, {}, *sides, count=100))
    assert named([*shown[:3], mask, *shown[4:]], pairs) == ["pick"]
    rows, pairs = routed(2e-4, 0.0, 0.0, dtype="float16", pick="Greater")
    shown = by_statistics(rows)
    assert named([*shown[:3], mask, *shown[4:]], pairs) == []


def test_where_sizes_part_is_named_in_place_of_what_reads_them():
    """Without edges: a list of rows that were picked is one longer, and what adds them up is off."""
    picked = {"role": IN, "place": 1, "dtype": "float32"}
    lists = [tensor("list", shape=(count, 1), dtype="int64") for count in (13, 12)]
    read = [tensor("add", shape=(count, 8), **picked) for count in (13, 12)]
    found = [
        row("score", IN, relative=0.0, dtype="float32"), row("score", relative=0.0, dtype="float32"),
        row("list", IN, relative=0.0, dtype="bool"), row("list", dtype="int64"), row("add", IN, relative=0.0),
        row("add", IN, 1), row("add", relative=0.05, dtype="float32"),
    ]  # fmt: skip
    for number, sides in ((3, lists), (5, read)):
        pair = replace(found[number].pair, target=sides[0], golden=sides[1])
        found[number] = replace(found[number], pair=pair, measurement=None)
    pairs = pairs_of(found, {"score": "linear", "list": "nonzero", "add": "index_add"})
    assert named(found, pairs) == ["list"]
    found[5] = row("add", IN, 1, relative=0.0, dtype="float32")
    assert named(found, pairs_of(found, {"score": "linear", "list": "nonzero", "add": "index_add"})) == ["add"]


@pytest.mark.parametrize(("count", "due"), [(12, []), (1200, ["loss"])])
def test_the_loss_of_few_rows_with_other_labels_is_another_number(count, due):
    """26 % of a loss: of 12 rows any label that turned makes as much, the mean of 1,200 stays where it was."""
    rows, _ = routed(3e-3, 0.2, 0.0, dtype="bfloat16")
    rows = by_statistics(rows[:4])
    labels = {"role": IN, "place": 1, "dtype": "int64", "shape": (count,)}
    read = replace(
        rows[3], pair=replace(rows[3].pair, target=tensor("loss", **labels), golden=tensor("loss", **labels))
    )
    sides = [SideSummary(Statistics(min=each, max=each, mean=each, l2norm=each)) for each in (2.18, 1.73)]
    one = Measurement.of(Mode.STATISTICS, {}, *sides, count=1)
    rows += [read, row("loss", dtype="float32", measurement=one)]
    pairs = pairs_of(rows, {**TYPES, "loss": "cross_entropy"}, [*EDGES[:2], edge("pick", "loss", 1)])
    assert named(rows, pairs) == due


@pytest.mark.parametrize(("top", "accused"), [(3.0, []), (3.5, ["count"])])
def test_experts_that_are_cast_to_be_counted_may_be_others(top, accused):
    """Qwen2-MoE gives `histc` the indices of `topk` as floats; of the indices themselves no mean is recorded."""

    def seen(name, role, target, golden, dtype):
        sides = SideSummary(target), SideSummary(golden)
        return row(name, role, measurement=Measurement.of(Mode.STATISTICS, {}, *sides, count=64), dtype=dtype)

    scores = Statistics(0.17, 0.371, 0.25, 2.0156), Statistics(0.169, 0.37, 0.25, 2.01)
    experts = (Statistics(0, 3, None, None),) * 2
    casts = Statistics(0.0, top, 1.609, 15.72), Statistics(0.0, top, 1.578, 15.59)
    rows = [
        seen("linear", OUT, *scores, "bfloat16"), seen("topk", IN, *scores, "bfloat16"),
        seen("topk", OUT, *experts, "int64"), seen("count", IN, *casts, "float32"),
    ]  # fmt: skip
    assert named(rows, pairs_of(rows, {"linear": "linear", "topk": "topk", "count": "histc"})) == accused


@pytest.mark.parametrize(("norm", "accused"), [(10.0, []), (8.0, ["mul"])])
def test_rows_that_lie_in_another_order_behind_a_decision_are_no_fault(norm, accused):
    """Gradients of tokens that Mixtral sorts by their expert: the same elements, found by the same statistics."""
    rows, _ = routed(2e-4, 0.2, 0.6)
    golden, target = Statistics(-3.0, 3.0, 0.0, 10.0), Statistics(-3.0, 3.0, 0.0, norm)
    metrics = {"euclidean_distance": 8.0, "max_abs_err": 5.0, "cosine": 0.66}
    moved = Measurement.of(Mode.TENSOR, metrics, SideSummary(target), SideSummary(golden), count=100)
    rows += [row("sum", relative=1e-3, mark=1.5), row("mul", IN, measurement=moved)]
    edges = [*EDGES, edge("sum", "mul")]
    assert named(rows, pairs_of(rows, {**TYPES, "sum": "sum", "mul": "mul"}, edges)) == accused
