"""Random operators whose results differ: nobody is blamed, what follows is judged locally, drift does not count."""

from __future__ import annotations

import math

import pytest
from comparison_rows import IN, OUT, argument, edge, pairs_of, passes, row, tensor
from msgspec.structs import replace

from probe_flow.analysis.flow.calls import Calls, draws
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind, Measurement, Mode, Role, SideSummary, Statistics
from probe_flow.records.row import Recomputed


def network(*errors, types):
    """Nodes n0, n1 ... each reading its predecessor's output, with these relative errors of their outputs."""
    rows, edges = [row("n0", IN, relative=0.0)], [edge("nowhere", "n0", 9)]
    for number, error in enumerate(errors):
        if number:
            rows.append(row(f"n{number}", IN, relative=errors[number - 1]))
            edges.append(edge(f"n{number - 1}", f"n{number}"))
        rows.append(row(f"n{number}", relative=error))
    return rows, pairs_of(rows, types, edges)


def concluded(rows, pairs):
    findings, verdicts = conclude(rows, pairs, passes(rows))
    return [(each.kind, each.node.name, each.fails) for each in findings], verdicts


def test_a_mask_drawn_otherwise_is_told_and_fails_nothing():
    rows, pairs = network(1e-5, 0.5, 0.5, 0.5, types={"n1": "dropout"})
    found, verdicts = concluded(rows, pairs)
    assert found == [(FindingKind.RANDOM_STATE, "n1", False)]
    assert Role.ORIGIN not in [verdict.role for verdict in verdicts]


def test_the_same_figures_of_another_operator_are_an_origin():
    found, _ = concluded(*network(1e-5, 0.5, 0.5, 0.5, types={"n1": "relu"}))
    assert found == [(FindingKind.ORIGIN, "n1", True)]


def test_what_follows_is_judged_by_its_own_inputs():
    rows, pairs = network(1e-5, 0.05, 0.9, 0.9, types={"n1": "dropout", "n2": "add"})
    found, _ = concluded(rows, pairs)
    assert (FindingKind.ORIGIN, "n2", True) in found
    assert (FindingKind.RANDOM_STATE, "n1", False) in found


def test_of_statistics_behind_other_random_values_only_gross_errors_accuse():
    def named(error: float) -> list[str]:
        types = {"n1": "dropout", "n2": "add"}
        rows, pairs = network(0.0, 0.03, error, types=types)
        found = [
            replace(
                each, measurement=statistics_of(each, error if each.node.name == "n2" and each.is_produced else 0.03)
            )
            if each.node.name in types and not (each.node.name == "n1" and not each.is_produced)
            else each
            for each in rows
        ]
        findings, _ = conclude(found, pairs, passes(found))
        return [each.node.name for each in findings if each.kind is FindingKind.ORIGIN]

    assert named(0.15) == []
    assert named(9.0) == ["n2"]


def statistics_of(row, factor):
    """Return a measurement of statistics alone whose norm and mean are off by a factor."""
    golden = Statistics(min=-3.0, max=3.0, mean=0.1, l2norm=10.0)
    target = Statistics(min=-3.0, max=3.0, mean=0.1 * (1 + factor), l2norm=10.0 * (1 + factor))
    return Measurement.of(Mode.STATISTICS, {}, SideSummary(target), SideSummary(golden), count=row.measurement.count)


@pytest.mark.parametrize(
    ("kind", "shape", "error", "is_named"),
    [
        ("dropout", (30, 24), 0.25, True),
        ("dropout", (30, 24), 0.1, False),
        ("dropout", (30, 3), 0.2, False),  # three elements average out little: rows count as 13, which leave 0.22
        ("dropout", (30, 3), 0.25, True),
        ("bernoulli", (30, 24), 0.25, False),
    ],
)
def test_elements_that_drop_one_by_one_leave_little_of_many_rows(kind, shape, error, is_named):
    """30 rows of 24 count as 26: 0.8 over the root of that is 0.158. Of other draws whole rows may be others."""
    types = {"n1": kind, "n2": "add"}
    rows, _ = network(0.0, 0.03, 0.03, types=types)
    found = []
    for each in rows:
        is_last = each.node.name == "n2" and each.is_produced
        is_before = each.node.name == "n0" or (each.node.name == "n1" and not each.is_produced)
        off = error if is_last else 0.0 if is_before else 0.03
        measured = statistics_of(each, off)
        shaped = tensor(each.node, each.pair.shown.slot.role, shape=shape)
        found.append(replace(each, measurement=measured, pair=replace(each.pair, target=shaped)))
    edges = [edge("n0", "n1"), edge("n1", "n2")]
    named = [node for what, node, fails in concluded(found, pairs_of(found, types, edges))[0] if fails]
    assert named == (["n2"] if is_named else [])


def attention(error: float, value: float):
    """Rows of attention behind a dropout: averages of 10 values of a size each, which leave 0.3 of it."""

    def shown(name, role, place, shape, size, mean, off=0.005):
        count = math.prod(shape)
        golden = Statistics(min=0.0 if mean else -1.0, max=1.0, mean=mean, l2norm=size * math.sqrt(count))
        target = replace(golden, mean=mean * (1 + off), l2norm=golden.l2norm * (1 + off))
        measured = Measurement.of(Mode.STATISTICS, {}, SideSummary(target), SideSummary(golden), count=count)
        found = row(name, role, place, measurement=measured)
        return replace(found, pair=replace(found.pair, target=tensor(name, role, place, shape=shape)))

    weights, values = (3, 10, 10), (3, 10, 8)
    rows = [
        shown("drop", IN, 0, values, value, 0.0, off=0.0), shown("drop", OUT, 0, values, value, 0.0),
        shown("soft", IN, 0, weights, 1.0, 0.0), shown("soft", OUT, 0, weights, 0.2, 0.1),
        shown("mix", IN, 0, weights, 0.2, 0.1), shown("mix", IN, 1, values, value, 0.0),
        shown("mix", OUT, 0, values, 0.3, 0.0, off=error), shown("out", IN, 0, values, 0.3, 0.0, off=error),
        shown("out", OUT, 0, values, 0.3, 0.0, off=error),
    ]  # fmt: skip
    edges = [edge("drop", "soft"), edge("soft", "mix"), edge("drop", "mix", 1), edge("mix", "out")]
    types = {"drop": "dropout", "soft": "softmax", "mix": "matmul", "out": "linear"}
    return [node for _, node, fails in concluded(rows, pairs_of(rows, types, edges))[0] if fails]


@pytest.mark.parametrize(
    ("value", "error", "due"), [(0.3, 0.2, ["mix"]), (0.6, 0.2, []), (0.6, 0.4, ["mix"]), (0.3, 0.1, [])]
)
def test_rows_of_attention_that_share_their_values_change_as_one(value, error, due):
    """24 rows: 0.8 over their root is 0.163. Averages of half the size of their values are of 4, which leaves 0.327."""
    assert attention(error, value) == due


def test_a_fault_before_the_random_operator_is_found_as_ever():
    found, _ = concluded(*network(0.3, 0.6, 0.6, types={"n1": "dropout"}))
    assert found[0] == (FindingKind.ORIGIN, "n0", True)


def test_a_dropout_that_is_proven_wrong_is_an_origin_and_one_that_is_right_says_so():
    for own, due in (
        (Recomputed("rms", 0.05, 5e-4, 50.0, golden=0.2), FindingKind.ORIGIN),
        (Recomputed("rms", 2e-4, 5e-4, 0.4), FindingKind.RANDOM_STATE),
    ):
        rows, pairs = network(1e-5, 0.5, 0.5, types={"n1": "dropout"})
        place = next(n for n, each in enumerate(rows) if each.node.name == "n1" and each.is_produced)
        rows[place] = rows[place].with_aside(recomputed=own)
        findings, _ = conclude(rows, pairs, passes(rows))
        assert findings[0].kind is due
        assert ("as it should" in findings[0].evidence) == (due is FindingKind.RANDOM_STATE)


@pytest.mark.parametrize(
    "name",
    [
        "dropout", "Dropout", "dropout2d", "alpha_dropout", "aten.native_dropout.default", "DropOutGenMask",
        "StatelessDropOutGenMask", "bernoulli_", "multinomial", "rand", "randn_like", "randint",
        "RandomStandardNormal", "RandomUniformLike", "normal_", "uniform_", "aten.bernoulli.p", "randperm",
        "log_normal_", "StandardNormal", "TruncatedNormal",
    ],
)  # fmt: skip
def test_random_operators_are_known_by_their_names(name):
    assert draws(name)


@pytest.mark.parametrize(
    "name",
    [
        "normalize", "LayerNorm", "norm", "DropOutDoMask", "random_projection", "GeneralizedLinear", "uniform_filter",
        "operand", "rank", "Linear", "brand_embedding", "aten.add.Tensor", "shuffle_channel_conv", "PixelShuffle",
        "channel_shuffle",
    ],
)  # fmt: skip
def test_names_that_only_look_alike_are_not(name):
    assert not draws(name)


@pytest.mark.parametrize("kept", [True, False])
def test_a_dropout_that_gives_what_it_got_is_no_random_operator(kept):
    """Of a module no argument says that it is not in training; its result and what it read have the same statistics."""
    given = Statistics(-3.0, 3.0, 0.1, 10.0)
    dropped = given if kept else Statistics(-6.0, 6.0, 0.1, 14.0)

    def seen(role, shown):
        measured = Measurement.of(Mode.STATISTICS, {}, SideSummary(shown), SideSummary(shown), count=100)
        return row("n0", role, measurement=measured)

    rows = [seen(IN, given), seen(OUT, dropped)]
    (call,) = Calls(rows, pairs_of(rows, {"n0": "Dropout"}))
    assert call.is_random(rows) is not kept


@pytest.mark.parametrize(("training", "named"), [(False, ["n0"]), (True, [])])
def test_a_dropout_that_is_turned_off_is_judged_as_any_operator(training, named):
    rows = [row("n0", IN, relative=0.0), argument("n0", training, training, place=2), row("n0", relative=0.5)]
    found, _ = concluded(rows, pairs_of(rows, {"n0": "dropout"}))
    assert [name for kind, name, _ in found if kind is FindingKind.ORIGIN] == named


@pytest.mark.parametrize(("relative", "gain", "is_named"), [(0.3, -0.3, True), (0.3, -0.2, False), (1e-5, 0.0, False)])
def test_what_both_sides_drew_alike_is_judged_as_ever(relative, gain, is_named):
    """A dropout of one seed that scales by another factor: nothing but that factor lies between the two."""
    rows, _ = network(1e-5, relative, relative, types={"n1": "dropout"})
    found = [
        row(each.node, each.pair.shown.slot.role, relative=relative, gain=gain)
        if each.node.name == "n2" or (each.node.name == "n1" and each.is_produced)
        else each
        for each in rows
    ]
    pairs = pairs_of(found, {"n1": "dropout"}, [edge("nowhere", "n0", 9), edge("n0", "n1"), edge("n1", "n2")])
    named = [node for what, node, fails in concluded(found, pairs)[0] if fails]
    assert named == (["n1"] if is_named else [])
