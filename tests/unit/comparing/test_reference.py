"""Measuring against a reference: which figures, how often, what is kept, and what a reference that fails costs."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from raw_pairs import context, pairs_of, raw

from probe_flow.comparing.reference import with_reference_texts
from probe_flow.comparing.steps import chosen_metrics, compare_pairs
from probe_flow.records import Catalog, Framework, Node, Pair, Pairs, Rule, Slot, SlotRole, Statistics, TensorKind
from probe_flow.stages.compare import Options

EXACT = np.linspace(-1.0, 1.0, 200)
GOLDEN = (EXACT + 1e-5).astype(np.float32)
TARGET = (EXACT * 1.2).astype(np.float16)


def compare(pairs: Pairs, events=None, **options):
    chosen = Options.model_validate({"uses": "compare", "pairs": "pairs", **options})
    return compare_pairs(pairs, chosen.asked(), context(events), None)


def three(folder, reference=EXACT, *, name: str = "a", **more) -> Pairs:
    two = raw(folder, "target", name, TARGET), raw(folder, "golden", name, GOLDEN)
    third = raw(folder, "reference", name, reference, **more)
    pairs = pairs_of([two])
    catalog = Catalog("exact", Framework("test"), "tensor", "", {third.node: Node(third.node, "Relu")}, (third,))
    return replace(pairs, pairs=(pairs.pairs[0].judged_by(third),), reference=catalog)


def test_both_errors_against_the_reference_are_measured(tmp_path):
    (row,) = compare(three(tmp_path / "d")).rows
    found = row.measurement.metrics
    target, golden = TARGET.astype(np.float64) - EXACT, GOLDEN.astype(np.float64) - EXACT
    floor = 2.0**-11 * np.linalg.norm(EXACT)

    assert found["reference.euclidean_distance"] == pytest.approx(np.linalg.norm(target), rel=1e-12)
    assert found["reference.max_abs_err"] == pytest.approx(np.abs(target).max(), rel=1e-12)
    assert found["golden_error"] == pytest.approx(np.linalg.norm(golden) / np.linalg.norm(EXACT), rel=1e-9)
    assert found["excess_error"] == pytest.approx(np.linalg.norm(target) / floor, rel=1e-9)
    assert found["euclidean_distance"] == pytest.approx(np.linalg.norm(TARGET.astype(np.float64) - GOLDEN), rel=1e-12)
    assert row.measurement.reference.statistics.max == 1.0


def test_every_metric_that_is_asked_for_has_one_against_the_reference(tmp_path):
    (row,) = compare(three(tmp_path / "d"), metrics=["rmse", "std_golden", "reference.mean_abs_err"]).rows
    assert {"reference.rmse", "reference.std_golden", "reference.mean_abs_err"} <= set(row.measurement.metrics)


def test_an_own_rule_may_ask_for_what_three_sides_give(tmp_path):
    rule = {"pass": {"excess_error": "<= 2", "reference.cosine": ">= 0.9"}}
    (row,) = compare(three(tmp_path / "d"), policy=[rule]).rows
    assert row.verdict.status.value == "fail"
    assert [name.partition("<")[0] for name in row.verdict.rule_ids] == ["excess_error"]


def test_a_golden_tensor_of_many_pairs_is_measured_against_the_reference_once(tmp_path):
    pairs = three(tmp_path / "d")
    (pair,) = pairs.pairs
    reader = pair.target.changed(slot=Slot(SlotRole.INPUT, (0,)))
    pairs = replace(pairs, pairs=(pair, replace(pair, target=reader)))
    pairs = replace(pairs, target=replace(pairs.target, tensors=(pair.target, reader)))
    events: list = []
    compare(pairs, events)

    planned = [fields["tasks"] for event, fields in events if event == "compare.planned"]
    assert planned == [2, 3]


def test_without_a_reference_nothing_more_is_planned_or_measured(tmp_path):
    pairs = three(tmp_path / "d")
    pairs = replace(pairs, pairs=(pairs.pairs[0].judged_by(None),), reference=None)
    events: list = []
    found = compare(pairs, events)

    assert len([event for event, _ in events if event == "compare.planned"]) == 1
    assert not [name for name in found.rows[0].measurement.metrics if name.startswith("reference.")]
    assert found.rows[0].measurement.reference is None


@pytest.mark.parametrize(
    ("reference", "more", "reason"),
    [
        (EXACT[:50], {}, "the reference has 50 elements, the golden 200"),
        (EXACT, {"kind": TensorKind.UNREADABLE, "reason": "cut off"}, "the reference is unreadable: cut off"),
        (EXACT, {"extents": ()}, "the reference cannot be measured [PF"),
        (EXACT, {"kind": TensorKind.OPAQUE}, "the reference is a opaque"),
    ],
    ids=["shape", "unreadable", "no bytes", "opaque"],
)
def test_a_reference_that_fails_costs_its_judgement_and_nothing_else(tmp_path, reference, more, reason):
    kind = more.pop("kind", None)
    pairs = three(tmp_path / "d", reference, **more)
    if kind is not None:
        (pair,) = pairs.pairs
        pairs = replace(pairs, pairs=(pair.judged_by(pair.reference.changed(kind=kind)),))
    found = compare(pairs)
    (row,) = found.rows

    assert any(note.startswith(reason) for note in row.measurement.notes)
    assert "excess_error" not in row.measurement.metrics
    assert found.coverage["golden"].compared == 1
    assert found.incomplete == ()
    assert [problem.code for problem in found.problems] == ["PF5130"]


def test_a_reference_that_is_another_model_is_told(tmp_path):
    found = compare(three(tmp_path / "d", np.cos(7.0 * EXACT) * 5.0))
    assert [problem.code for problem in found.problems] == ["PF5131"]


def test_coverage_does_not_count_the_reference(tmp_path):
    assert set(compare(three(tmp_path / "d")).coverage) == {"target", "golden"}


@pytest.mark.usefixtures("all_kept")
def test_planned_results_are_those_of_all_sides(tmp_path):
    pairs = three(tmp_path / "d")
    ids = chosen_metrics(Options.model_validate({"uses": "compare", "pairs": "pairs"}).asked(), pairs)
    found = list(with_reference_texts(pairs, ids, by="content"))
    assert len({text for _, _, text in found}) == 3
    assert len({identity for _, identity, _ in found}) == 3


def test_recorded_statistics_are_judged_by_those_of_the_reference(tmp_path):
    pairs = three(tmp_path / "d")
    (pair,) = pairs.pairs

    def recorded(ref, values):
        norm = float(np.linalg.norm(values.astype(np.float64)))
        found = Statistics(min=float(values.min()), max=float(values.max()), mean=float(values.mean()), l2norm=norm)
        return ref.changed(kind=TensorKind.STATISTICS, recorded=found, extents=())

    sides = recorded(pair.target, TARGET), recorded(pair.golden, GOLDEN), recorded(pair.reference, EXACT)
    pairs = replace(pairs, pairs=(Pair(*sides[:2], "g", Rule("exact")).judged_by(sides[2]),))
    (row,) = compare(pairs).rows

    assert row.measurement.metrics["reference.max_diff"] == pytest.approx(TARGET.max() - 1.0, rel=1e-3)
    assert row.measurement.metrics["excess_error"] > 100.0
    assert row.measurement.reference.statistics.max == 1.0


def test_elements_are_judged_by_recorded_statistics_too(tmp_path):
    pairs = three(tmp_path / "d")
    (pair,) = pairs.pairs
    figures = Statistics(min=-1.0, max=1.0, mean=0.0, l2norm=float(np.linalg.norm(EXACT)))
    reference = pair.reference.changed(kind=TensorKind.STATISTICS, recorded=figures, extents=())
    (row,) = compare(replace(pairs, pairs=(pair.judged_by(reference),))).rows
    assert row.measurement.metrics["reference.max_diff"] == pytest.approx(0.2, abs=1e-3)
