"""From results to pairs and verdicts: what was found where an API ran is what the comparison says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from api_dumps import backward, forward, read_dump, tensor, write_dump
from msgspec.structs import replace
from raw_pairs import context as in_order

from probe_flow.analysis.policies.base import judged_verdict
from probe_flow.analysis.policies.precheck import PrecheckPolicy
from probe_flow.comparing.asked import Asked
from probe_flow.comparing.steps import compare_pairs
from probe_flow.metrics.brought import measured_text
from probe_flow.precheck.checked import UNSUSPECTED
from probe_flow.precheck.jobs import find_calls
from probe_flow.precheck.pairs import make_pairs
from probe_flow.precheck.results import ApiResult, Direction, Output, Side, Status, of_all
from probe_flow.records import Comparison, FindingKind, Flow, Pair, Pairs, Reason, ReasonKind, Rule
from probe_flow.records import Status as Verdict
from probe_flow.reports.formats import Chosen, Request
from probe_flow.stages.report.formats.pages import HTML
from probe_flow.testing import builders
from probe_flow.testing.builders import ArrayBlocks
from probe_flow.testing.run_records import run_record

GOOD = np.linspace(-1, 1, 6, dtype=np.float32)


def output(error: float = 0.0, message: str = "", *, measured: bool = True) -> Output:
    """A result off by `error` in each element; wrong where a message says why."""
    text = measured_text(ArrayBlocks(GOOD + np.float32(error), "float32"), ArrayBlocks(GOOD, "float64"))
    sides = Side("float32", (6,)), Side("float64", (6,))
    return Output(*sides, not message, 1.0, error, error, message, text if measured else "")


def passed(*outputs: Output, **more: Any) -> Direction:
    return Direction(Status.PASS, outputs or (output(),), ran="mint", **more)


def wrong(message: str = "the largest absolute error 0.5 is not below 0.0001", **more: Any) -> Direction:
    return Direction(Status.ERROR, (output(0.5, message),), ran="mint", **more)


def skipped(reason: str, *, is_expected: bool) -> Direction:
    return Direction(Status.SKIP, reason=reason, is_expected=is_expected)


def tables(folder: Path) -> list[Path]:
    return [folder / "result.csv", folder / "details.csv"]


def pairs_of(folder: Path, *results: ApiResult) -> Pairs:
    data: dict[str, Any] = {}
    for result in results:
        for phase, _ in result.directions():
            data[f"{result.name}.{phase}"] = forward(tensor()) if phase == "forward" else backward()
    source = read_dump(write_dump(folder, data))
    return make_pairs(source, find_calls(source), results, tables(folder))


def compared(pairs: Pairs, **asked: Any) -> Comparison:
    asked = {"policy": "precheck", "gate": "all_pass", **asked}
    return compare_pairs(pairs, Asked(**asked), replace(in_order(), facts=run_record()), None)


def states(found: Comparison) -> list[tuple[str, str]]:
    return [(row.pair.shown.node.name, row.verdict.status.value) for row in found.rows]


def test_each_result_is_a_pair_with_what_was_measured(tmp_path: Path) -> None:
    two = passed(output(), output(1e-6))
    pairs = pairs_of(tmp_path, ApiResult("Mint.exp.0", two, passed()), ApiResult("Mint.sin.3", passed()))
    shown = [
        (pair.shown.node.name, pair.shown.node.call, pair.shown.node.phase.value, str(pair.shown.slot))
        for pair in pairs.pairs
    ]
    assert shown == [
        ("Mint.exp", 0, "forward", "output.0"),
        ("Mint.exp", 0, "forward", "output.1"),
        ("Mint.exp", 0, "backward", "output.0"),
        ("Mint.sin", 3, "forward", "output.0"),
    ]
    assert sorted(pairs.measured) == [0, 1, 2, 3]
    assert pairs.target.flow is pairs.golden.flow is Flow.NONE
    assert (pairs.target.framework.name, pairs.golden.framework.name) == ("mindspore", "pytorch")
    first = pairs.pairs[0]
    assert first.target is not None
    assert first.golden is not None
    assert (first.target.dtype, first.target.stored_dtype, first.golden.dtype) == ("float32", "float32", "float64")
    assert first.target.extents == first.golden.extents == (), "no tensor was written"
    assert pairs.files == tuple(map(str, tables(tmp_path)))


def test_all_pass(tmp_path: Path) -> None:
    found = compared(pairs_of(tmp_path, ApiResult("Mint.exp.0", passed(output(1e-6)))))
    (row,) = found.rows
    assert row.verdict.status is Verdict.PASS
    assert row.measurement is not None
    assert row.measurement.metrics["max_abs_err"] == pytest.approx(1e-6, rel=0.1)
    assert (found.gate_passed, found.incomplete, found.findings) == (True, (), ())
    assert found.coverage["target"].ratio == 1.0


def test_each_wrong_api_is_a_finding_of_its_own(tmp_path: Path) -> None:
    results = [ApiResult(f"Mint.{name}.0", passed(), wrong() if name in "bd" else None) for name in "abcd"]
    found = compared(pairs_of(tmp_path, *results))
    assert not found.gate_passed
    assert {(each.kind, each.node.name) for each in found.findings if each.node} == {
        (FindingKind.FAILURE, "Mint.b"),
        (FindingKind.FAILURE, "Mint.d"),
    }
    failing = [row for row in found.rows if row.verdict.status is Verdict.FAIL]
    assert [row.verdict.rule_ids for row in failing] == [("precheck_error",)] * 2
    assert failing[0].verdict.reasons == ("the largest absolute error 0.5 is not below 0.0001",)
    assert found.incomplete == ()


def test_the_verdict_is_the_one_of_the_check_whatever_the_metrics_say(tmp_path: Path) -> None:
    strict = Direction(Status.ERROR, (output(0.0, "it is wrong in another way"),))
    lax = passed(output(0.5))
    found = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", strict), ApiResult("Mint.b.0", lax)))
    assert states(found) == [("Mint.a", "fail"), ("Mint.b", "pass")]


def test_a_call_that_could_not_be_checked_anywhere_lowers_no_coverage(tmp_path: Path) -> None:
    skip = skipped("calls of kind `Cell` are not checked", is_expected=True)
    found = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", passed()), ApiResult("Cell.b.0", skip, skip)))
    assert states(found) == [("Mint.a", "pass"), ("Cell.b", "unmatched_target"), ("Cell.b", "unmatched_target")]
    assert (found.gate_passed, found.incomplete) == (True, ())
    assert found.coverage["target"].ratio == 1.0
    reason = found.rows[1].pair.reason
    assert reason is not None
    assert (reason.code, reason.text) == ("not_checked", "calls of kind `Cell` are not checked")


def test_a_call_that_should_have_been_checked_makes_the_run_incomplete(tmp_path: Path) -> None:
    skip = skipped("the kernel EluExt is unregistered", is_expected=False)
    found = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", passed()), ApiResult("Mint.elu.0", skip)))
    assert found.coverage["target"].ratio == 0.5
    assert found.incomplete
    assert found.rows[1].pair.reason is not None
    assert found.rows[1].pair.reason.is_gap


def test_a_call_without_recorded_results_is_there_all_the_same(tmp_path: Path) -> None:
    data = {"Mint.a.0.forward": forward(tensor()), "Mint.b.0.forward": forward(tensor(), output=[])}
    source = read_dump(write_dump(tmp_path, data))
    skip = skipped("nothing", is_expected=False)
    pairs = make_pairs(
        source, find_calls(source), [ApiResult("Mint.a.0", passed()), ApiResult("Mint.b.0", skip)], tables(tmp_path)
    )
    assert [pair.shown.node.name for pair in pairs.pairs] == ["Mint.a", "Mint.b"]
    assert compared(pairs).incomplete


def test_a_fallback_says_so_in_each_row(tmp_path: Path) -> None:
    fallback = "torch.elu of torch, for MindSpore has no kernel here"
    pairs = pairs_of(
        tmp_path,
        ApiResult("Mint.a.0", passed(fallback=fallback)),
        ApiResult("Mint.b.0", wrong("bad", fallback=fallback)),
    )
    reasons = [pair.reason for pair in pairs.pairs]
    assert [each and (each.code, each.text) for each in reasons] == [
        ("precheck_fallback", f"ran as {fallback}"),
        ("precheck_error", f"bad (ran as {fallback})"),
    ]
    assert states(compared(pairs)) == [("Mint.a", "pass"), ("Mint.b", "fail")]


def test_a_result_of_another_shape_fails_though_it_cannot_be_measured(tmp_path: Path) -> None:
    bad = Output(Side("float32", (2, 3)), Side("float64", (3, 2)), is_right=False, message="its shape is (2, 3)")
    found = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", Direction(Status.ERROR, (bad,)))))
    assert states(found) == [("Mint.a", "fail")]
    assert found.rows[0].verdict.reasons == ("its shape is (2, 3)",)
    assert not found.gate_passed
    assert found.incomplete == ()


@pytest.mark.parametrize(
    ("tested", "benchmark", "is_right"),
    [
        (Side("int", value=3), Side("int", value=3), True),
        (Side("int", value=3), Side("int", value=4), False),
        (Side("str", value="a"), Side("str", value="a"), True),
        (Side("str", value="a"), Side("str", value="b"), False),
        (Side("bool", value=True), Side("bool", value=True), True),
        (Side("float", value=0.5), Side("float", value=0.5), True),
        (Side("float32", (6,)), Side("float", value=0.5), False),
    ],
)
def test_plain_values_pass_or_fail(tested: Side, benchmark: Side, is_right: bool, tmp_path: Path) -> None:
    each = Output(tested, benchmark, is_right, message="" if is_right else "it is another")
    direction = Direction(Status.PASS if is_right else Status.ERROR, (each,))
    found = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", direction)))
    assert states(found) == [("Mint.a", "pass" if is_right else "fail")]
    assert (found.gate_passed, found.incomplete) == (is_right, ())


def test_a_doubtful_result_warns(tmp_path: Path) -> None:
    doubtful = replace(output(1e-3, "of every thousand one is off"), is_doubtful=True)
    assert doubtful.status is Status.WARNING
    direction = Direction(of_all([output(), doubtful]), (output(), doubtful))
    assert direction.status is Status.WARNING
    found = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", direction)))
    assert states(found) == [("Mint.a", "pass"), ("Mint.a", "warning")]
    assert found.incomplete == ()


def test_empty_tensors_pass_and_alone_test_nothing(tmp_path: Path) -> None:
    text = measured_text(ArrayBlocks([], "float32"), ArrayBlocks([], "float64"))
    empty = Output(Side("float32", (2, 0)), Side("float64", (2, 0)), is_right=True, measured=text)
    found = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", passed(empty))))
    assert states(found) == [("Mint.a", "pass")]
    assert found.incomplete == ("nothing was compared: no tensor that both sides have holds an element",)
    beside = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", passed(empty)), ApiResult("Mint.b.0", passed())))
    assert (beside.gate_passed, beside.incomplete) == (True, ())


def test_calls_that_nobody_suspects_make_the_run_partial_not_incomplete(tmp_path: Path) -> None:
    skip = replace(skipped(UNSUSPECTED, is_expected=True), is_left_out=True)
    found = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", passed()), ApiResult("Mint.b.0", skip)))
    reason = found.rows[1].pair.reason
    assert reason is not None
    assert (reason.code, reason.kind.narrows, reason.is_gap) == ("left_out", True, False)
    assert (found.gate_passed, found.incomplete) == (True, ())
    assert found.caveats != ()


# What the reasons of a judged pair decide.

JUDGED = Rule("judged", is_judged=True)


def pair(rule: Rule = JUDGED, reason: Reason | None = None) -> Pair:
    one = builders.tensor("a")
    return Pair(one, one, "g", rule, reason)


def test_a_judged_pair_has_the_verdict_of_its_reason() -> None:
    assert judged_verdict(pair()).status is Verdict.PASS
    assert judged_verdict(pair(reason=ReasonKind("note").expected("look"))).status is Verdict.PASS
    for status in (Verdict.FAIL, Verdict.ERROR):
        found = judged_verdict(pair(reason=ReasonKind("bad", verdict=status).expected("why")))
        assert (found.status, found.rule_ids, found.reasons) == (status, ("bad",), ("why",))


def test_the_policy_judges_no_other_pairs() -> None:
    one = builders.tensor("a")
    (verdict,) = PrecheckPolicy().judge([builders.row(one, one, measured=builders.measurement())])
    assert verdict.status is Verdict.SKIPPED
    assert verdict.rule_ids == ("not_judged",)


def test_other_policies_judge_prechecks_by_their_metrics(tmp_path: Path) -> None:
    found = compared(pairs_of(tmp_path, ApiResult("Mint.a.0", passed(output(0.5)))), policy="torchair")
    assert states(found) == [("Mint.a", "fail")]


def test_a_page_is_made_of_some_calls_of_a_dump_that_says_what_called_what(tmp_path: Path) -> None:
    names = ["Cell.net.Net.forward.0", "Mint.exp.0.forward", "Mint.sin.0.forward"]
    file = write_dump(tmp_path, {name: forward(tensor()) for name in names})
    (tmp_path / "construct.json").write_text(json.dumps({names[0]: None, names[1]: names[0], names[2]: names[0]}))
    source = read_dump(file)
    assert source.call_order
    found = compared(make_pairs(source, find_calls(source), [ApiResult("Mint.sin.0", wrong())], tables(tmp_path)))
    request = Request(found, run_record(), tmp_path, chosen=(Chosen(HTML, ()),), in_run_folder=False)
    (page,) = HTML.files(request, None)
    page.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 0
