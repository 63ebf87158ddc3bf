"""`compare`: what its options accept, which metrics it measures, and what a failure costs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from pydantic import ValidationError
from raw_pairs import context, pairs_of, raw

from probe_flow.comparing.steps import check_memory, chosen_metrics, compare_pairs
from probe_flow.errors import UsageError
from probe_flow.measure import run as measure_pairs
from probe_flow.metrics.catalogue.metrics import METRIC_SETS
from probe_flow.records import Execution, FindingKind, NodeKey, Role, Status
from probe_flow.stages.compare import Options, Require


def options(**more):
    return Options.model_validate({"uses": "compare", "pairs": "pairs", **more})


def message_of(**more):
    with pytest.raises(ValidationError) as caught:
        options(**more)
    return "\n".join(error["msg"] for error in caught.value.errors())


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ({"policy": "torchiar"}, ["no policy `torchiar`", "did you mean `torchair`?"]),
        ({"policy": []}, ["it has no rules, so that no row would be judged"]),
        ({"policy": "zzz"}, ["policies: torchair, offline, tf_training, dump_json"]),
        ({"policy": [{"pass": {"cosin": ">= 1"}}]}, ["there is no metric `cosin`", "did you mean `cosine`"]),
        ({"policy": [{"pass": {"cosine": "0.99"}}]}, ["`0.99` is no bound", "e.g. `>= 0.99`"]),
        ({"policy": [{"pass": {}, "warn": {"cosine": "~ 1"}}]}, ["`~ 1` is no bound"]),
        ({"policy": [{}]}, ["Field required"]),
        ({"policy": [{"where": {"name": "x"}, "pass": {}}]}, ["Extra inputs are not permitted"]),
        ({"metrics": "torchar"}, ["there is no metric set `torchar`", "did you mean `torchair`"]),
        ({"metrics": ["cosine", "cosin"]}, ["there is no metric `cosin`"]),
        ({"gate": "none"}, ["'findings' or 'all_pass'"]),
        ({"require": {"coverage": 1.1}}, ["less than or equal to 1"]),
        ({"require": {"coverage": True}}, ["valid number"]),
        (
            {"only": {"comparison": "c", "where": {"verdct": "fail"}}},
            ["`verdct` is neither", "did you mean `verdict`?"],
        ),
        ({"only": {"comparison": "c", "where": {"cosine": "bad"}}}, ["`bad` is no bound"]),
        ({"only": {"comparison": "c", "where": {}, "limit": 0}}, ["greater than 0"]),
    ],
)
def test_mistakes_are_told_with_what_would_be_right(given, parts):
    found = message_of(**given)
    for part in parts:
        assert part in found


def test_good_options():
    found = options(
        policy=[{"where": {"op_type": ["MatMul*"]}, "pass": {"cosine": ">= 0.9"}, "warn": {"cosine": "> 0"}}],
        only={"comparison": "c", "where": {"verdict": "fail", "cosine": ["< 0.9", "> 1"]}, "limit": 3},
    )
    assert found.require == Require(coverage=0.9, executions=True, entries=True)
    assert found.gate == "findings"


NOTHING = pairs_of([])


def test_metrics_follow_the_policy_unless_told_otherwise():
    assert chosen_metrics(options().asked(), NOTHING) == METRIC_SETS["torchair"]
    assert chosen_metrics(options(policy="dump_json").asked(), NOTHING) == METRIC_SETS["dump_json"]
    assert set(chosen_metrics(options(metrics="torchair_legacy").asked(), NOTHING)) > set(
        METRIC_SETS["torchair_legacy"]
    )


def test_what_the_policy_needs_is_measured_anyway():
    assert chosen_metrics(options(metrics=["rmse"]).asked(), NOTHING) == ("rmse", "cosine", "max_rel_err_eps")
    rules = [{"pass": {"kl_softmax": "< 1"}, "warn": {"std_target": "< 1"}}]
    assert chosen_metrics(options(policy=rules, metrics=["rmse"]).asked(), NOTHING) == (
        "rmse",
        "kl_softmax",
        "std_target",
    )


def values(count=400, seed=3):
    return np.random.default_rng(seed).standard_normal(count).astype(np.float32)


def three(folder: Path):
    twosomes = []
    for n in range(3):
        golden = values(seed=n)
        twosomes.append(
            (raw(folder, "t", f"n{n}", golden * np.float32(1.5 if n else 1)), raw(folder, "g", f"n{n}", golden))
        )
    return twosomes


def test_rows_come_with_measurements_verdicts_and_roles(tmp_path):
    result = compare_pairs(pairs_of(three(tmp_path)), options().asked(), context(), None)
    assert [row.order for row in result.rows] == [0, 1, 2]
    assert [row.verdict.status for row in result.rows] == [Status.PASS, Status.FAIL, Status.FAIL]
    assert result.rows[0].verdict.role is Role.CLEAN
    first = result.rows[1].measurement
    assert first.metrics["max_rel_err_eps"] == pytest.approx(0.5)
    assert first.metrics["cosine"] == pytest.approx(1.0)
    assert first.worst_index == int(np.abs(values(seed=1)).argmax())
    assert (result.policy, result.gate, result.gate_passed, result.incomplete) == ("torchair", "findings", False, ())
    assert result.findings[0].node.name == "n1"
    assert result.coverage["target"].compared == 3


def test_own_rules_judge_with_metrics_that_nobody_asked_for(tmp_path):
    rules = [{"where": {"node": "n1"}, "pass": {"std_target": "< 100"}}, {"pass": {"rmse": "< 1e-9"}}]
    result = compare_pairs(
        pairs_of(three(tmp_path)), options(policy=rules, metrics=["cosine"]).asked(), context(), None
    )
    assert [row.verdict.status for row in result.rows] == [Status.PASS, Status.PASS, Status.FAIL]


def test_where_nothing_can_be_compared_there_is_no_worst_element(tmp_path):
    nan = np.full(8, np.nan, np.float32)
    pairs = pairs_of([(raw(tmp_path, "t", "a", nan), raw(tmp_path, "g", "a", values(8)))])
    (row,) = compare_pairs(pairs, options().asked(), context(), None).rows
    assert row.measurement.worst_index is None
    assert row.measurement.nonfinite_mismatch == 8
    assert row.verdict.role is Role.ORIGIN


def test_a_network_that_turns_into_nan_fails_its_gate(tmp_path):
    nan = np.full(8, np.nan, np.float32)
    twosomes = [(raw(tmp_path, "t", f"n{n}", nan), raw(tmp_path, "g", f"n{n}", values(8, seed=n))) for n in range(2)]
    result = compare_pairs(pairs_of(twosomes), options().asked(), context(), None)
    assert not result.gate_passed
    kinds = [(finding.kind.value, finding.node.name) for finding in result.findings]
    assert ("nonfinite_origin", "n0") in kinds


def test_equal_masks_of_infinities_pass(tmp_path):
    mask = np.where(np.arange(64) % 2, -np.inf, 0.0).astype(np.float32)
    whole = np.full(64, -np.inf, np.float32)
    twosomes = [
        (raw(tmp_path, "t", name, data), raw(tmp_path, "g", name, data)) for name, data in (("m", mask), ("w", whole))
    ]
    result = compare_pairs(pairs_of(twosomes), options().asked(), context(), None)
    assert [row.verdict.status for row in result.rows] == [Status.PASS, Status.PASS]
    assert result.gate_passed


MASKS = [(np.float16, -np.inf, -3.4028234663852886e38), (np.float16, -np.inf, -1e9), (np.float16, -65504.0, -1e9),
         (np.float16, -65504.0, -np.inf), (np.float32, -1e4, -3.4028234663852886e38)]  # fmt: skip


def masked(tmp_path: Path, dtype, mine: float, theirs: float, scores: np.ndarray):
    """Return the comparison of scores masked by two numbers: ``scores`` of the target, those of a seed as golden."""
    is_masked = np.triu(np.ones((20, 20), bool), 1).ravel()
    with np.errstate(over="ignore"):
        target, golden = (np.where(is_masked, mask + each, each) for mask, each in ((mine, scores), (theirs, values())))
        twosome = raw(tmp_path, "t", "add", target.astype(dtype)), raw(tmp_path, "g", "add", golden.astype(np.float32))
    return compare_pairs(pairs_of([twosome]), options(policy="offline").asked(), context(), None)


@pytest.mark.parametrize(("dtype", "mine", "theirs"), MASKS)
def test_scores_that_are_masked_by_another_number_are_no_finding(tmp_path, dtype, mine, theirs):
    """A decoder whose mask is the least float32, or -1e9, in float16: infinite, or at its end where that saturates."""
    found = masked(tmp_path, dtype, mine, theirs, values())
    assert found.findings == ()
    infinite = "target" if math.isinf(mine) else "golden" if math.isinf(theirs) else ""
    (row,) = found.rows
    told = [note for note in row.measurement.notes if note.startswith("190 places masked")]
    assert [note.split(" holds")[0] for note in told] == ([f"190 places masked: the {infinite}"] if infinite else [])


@pytest.mark.parametrize(("dtype", "mine", "theirs"), [each for each in MASKS if math.inf in map(abs, each[1:])])
def test_wrong_scores_beside_such_a_mask_are_one(tmp_path, dtype, mine, theirs):
    (finding,) = masked(tmp_path, dtype, mine, theirs, values() * np.float32(1.05)).findings
    assert finding.kind is FindingKind.ORIGIN


@pytest.mark.parametrize("beyond", [-70000.0, 70000.0, -1.3e9, 1e9])
def test_what_is_too_large_for_float16_and_no_mask_is_where_infinity_begins(tmp_path, beyond):
    golden = values()
    golden[7] = beyond
    with np.errstate(over="ignore"):
        twosome = raw(tmp_path, "t", "n", golden.astype(np.float16)), raw(tmp_path, "g", "n", golden)
    found = compare_pairs(pairs_of([twosome]), options().asked(), context(), None).findings
    assert FindingKind.NONFINITE_ORIGIN in {finding.kind for finding in found}


def test_a_scalar_that_is_wrong_is_found(tmp_path):
    twosomes = [
        (raw(tmp_path, "t", "loss", np.float32(2.5).reshape(())), raw(tmp_path, "g", "loss", np.float32(2).reshape(())))
    ]
    result = compare_pairs(pairs_of(twosomes), options().asked(), context(), None)
    assert result.findings[0].node.name == "loss"
    assert result.rows[0].measurement.metrics["cosine"] is None


def test_one_unreadable_file_makes_the_run_incomplete_and_costs_one_row(tmp_path):
    twosomes = three(tmp_path)
    Path(twosomes[0][0].extents[0].file).unlink()
    result = compare_pairs(pairs_of(twosomes), options().asked(), context(), None)
    assert [row.verdict.status for row in result.rows] == [Status.ERROR, Status.FAIL, Status.FAIL]
    assert result.incomplete[0] == "1 selected tensor could not be read"


def test_a_metric_that_raises_costs_its_row(tmp_path, monkeypatch):
    original = measure_pairs.measurement_of_record

    def broken(pair, *given, **named):
        if pair.shown.node.name == "n1":
            raise ZeroDivisionError("a defect")
        return original(pair, *given, **named)

    monkeypatch.setattr(measure_pairs, "measurement_of_record", broken)
    result = compare_pairs(pairs_of(three(tmp_path)), options().asked(), context(), None)
    assert [row.verdict.status for row in result.rows] == [Status.PASS, Status.ERROR, Status.FAIL]
    assert result.rows[1].verdict.rule_ids == ("PF9002",)


def test_an_empty_comparison_is_incomplete():
    result = compare_pairs(NOTHING, options().asked(), context(), None)
    assert result.rows == ()
    assert result.incomplete == ("nothing was compared: no target tensor has a golden partner",)


def test_events_tell_what_was_planned_and_judged(tmp_path):
    events = []
    compare_pairs(pairs_of(three(tmp_path)), options().asked(), context(events, batch_bytes=1), None)
    planned = dict(events)["compare.planned"]
    assert (planned["tasks"], planned["batches"]) == (3, 3)
    assert dict(events)["compare.judged"] == {"rows": 3, "policy": "torchair"}


def test_rows_are_the_same_bits_on_any_batch_size(tmp_path):
    pairs = pairs_of(three(tmp_path))
    results = [compare_pairs(pairs, options().asked(), context(batch_bytes=size), None).rows for size in (1, 10**9)]
    assert results[0] == results[1]


def narrowed(folder, where, limit=None):
    """The second comparison of the same pairs, narrowed by the first; returns the nodes that it compared."""
    pairs = pairs_of(three(folder))
    first = compare_pairs(pairs, options().asked(), context(), None)
    only = {"comparison": "c", "where": where, **({"limit": limit} if limit else {})}
    second = compare_pairs(pairs, options(only=only).asked(), context(), first)
    assert all(row.verdict.status is Status.SKIPPED for row in second.rows if row.measurement is None)
    return [row.pair.shown.node.name for row in second.rows if row.measurement is not None], second


@pytest.mark.parametrize(
    ("where", "limit", "nodes"),
    [
        ({"verdict": "fail"}, None, ["n1", "n2"]),
        ({"verdict": "fail"}, 1, ["n1"]),
        ({"verdict": ["fail", "pass"]}, None, ["n0", "n1", "n2"]),
        ({"node": "n[02]"}, None, ["n0", "n2"]),
        ({"node": "n*", "verdict": "p*"}, None, ["n0"]),
        ({"op_type": "Relu"}, 2, ["n0", "n1"]),
        ({"role": "origin"}, 1, ["n1"]),
        ({"max_abs_err": "> 0"}, None, ["n1", "n2"]),
        ({"max_abs_err": ["== 0", "> 1e9"]}, None, ["n0"]),
        ({"kl_softmax": "> 0"}, None, []),
        ({"verdict": "error"}, None, []),
    ],
)
def test_only_what_an_earlier_comparison_suspects(tmp_path, where, limit, nodes):
    assert narrowed(tmp_path, where, limit)[0] == nodes


def test_what_only_leaves_out_is_no_gap(tmp_path):
    _, second = narrowed(tmp_path, {"node": "n1"})
    assert second.incomplete == ()
    assert second.coverage["target"].outside == 2
    assert second.caveats == ("partly: suspects of `c`; 2 target and 2 golden tensors outside the question",)
    _, nothing = narrowed(tmp_path, {"verdict": "error"})
    assert nothing.incomplete == ("nothing was compared: no pair could be measured and judged",)


def test_only_tells_executions_apart(tmp_path):
    twosomes = []
    for step in range(2):
        node, golden = NodeKey(Execution(0, step, 1), "n"), values(seed=step)
        target = golden * np.float32(1 + step)
        twosomes.append(
            (raw(tmp_path, f"t{step}", "n", target, node=node), raw(tmp_path, f"g{step}", "n", golden, node=node))
        )
    pairs = pairs_of(twosomes)
    first = compare_pairs(pairs, options().asked(), context(), None)
    only = {"comparison": "c", "where": {"verdict": "fail"}}
    second = compare_pairs(pairs, options(only=only).asked(), context(), first)
    assert [row.measurement is None for row in second.rows] == [True, False]
    assert second.incomplete == ()
    assert math.isclose(second.rows[1].measurement.metrics["max_rel_err"], 1.0)


def test_more_rows_than_memory_holds_are_refused_before_the_work(tmp_path: Path) -> None:
    data = np.ones(4, np.float32)
    pairs = pairs_of([tuple(raw(tmp_path, side, "a", data) for side in ("target", "golden"))])
    few = replace(pairs, pairs=pairs.pairs * 300)
    with pytest.raises(UsageError) as caught:
        compare_pairs(few, options().asked(None), context(memory_bytes=200_000), None)
    told = caught.value.diagnostic
    assert told.code == "PF6109"
    assert told.message == "300 pairs take 0 MiB at least; `executor.memory_limit` is 0 MiB"


def test_the_memory_of_the_machine_counts_where_no_limit_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe_flow.comparing.steps.memory_of_machine", lambda: 512 * 2**20)
    check_memory(500_000, None)
    with pytest.raises(UsageError, match=r"1,000,000 pairs take 954 MiB at least; this machine gives 512 MiB"):
        check_memory(1_000_000, None)
    check_memory(1_000_000, 2**30)
    monkeypatch.setattr("probe_flow.comparing.steps.memory_of_machine", lambda: None)
    check_memory(10**9, None)
