"""Which step of the decision guide a finding leads to."""

from __future__ import annotations

from typing import Any

import pytest
from html_data import payload
from msgspec.structs import replace
from report_builders import catalog, comparison, good_row, key, missing_golden, origin, row, tensor

from probe_flow.engine.run.record import with_summaries
from probe_flow.errors import CODES
from probe_flow.record.advice import advise
from probe_flow.record.conclusion import last_line
from probe_flow.record.facts import advice_texts
from probe_flow.record.run_json import comparison_summary
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.run import RunRecord
from probe_flow.records import (
    CallFacts,
    Comparison,
    Edge,
    ErrorShape,
    Finding,
    FindingKind,
    Node,
    NodeKind,
    RuleFacts,
    Slot,
    SlotRole,
    Statistics,
    TensorKind,
)
from probe_flow.records.frameworks import PYTORCH
from probe_flow.testing.run_records import run_record


def codes(finding: Finding, given: Comparison) -> list[str]:
    (steps,) = advise([finding], given)
    assert all(step.code in CODES for step in steps)
    return [step.code for step in steps]


def compared(
    target: str = "float32", *, node: dict[str, Any] | None = None, golden_type: str = "aten.add.Tensor", **more: Any
) -> Comparison:
    """One row of `Add_1` whose output is wrong."""
    wrong = good_row(0, target=tensor(dtype=target))
    described = Node(key("Add_1"), **{"op_type": "AddV2", **(node or {})})
    target_side = catalog("target", [wrong.pair.target], nodes={described.key: described}, **more)
    twin = Node(key("add_1"), golden_type)
    golden_side = catalog("golden", [tensor("add_1", side="golden")], nodes={twin.key: twin})
    return comparison(wrong, target=target_side, golden=golden_side, findings=(origin(0, "Add_1", severity=8.0),))


@pytest.mark.parametrize(
    ("dtype", "node", "golden_type", "expected"),
    [
        ("float32", {}, "aten.add.Tensor", ["PF7414"]),
        ("float16", {}, "aten.add.Tensor", ["PF7413"]),
        ("bfloat16", {}, "aten.add.Tensor", ["PF7413"]),
        ("float32", {"originals": ("Mul_1", "Add_1")}, "aten.add.Tensor", ["PF7411", "PF7414"]),
        ("float16", {"originals": ("Mul_1", "Add_1")}, "aten.add.Tensor", ["PF7411", "PF7413"]),
        ("float16", {"originals": ("Add_1",)}, "aten.add.Tensor", ["PF7413"]),
        # A custom kernel is looked at before its precision is.
        ("float16", {"rules": RuleFacts("Add_1", 0, kernel=(("_is_custom_op", "True"),))}, "Add", ["PF7412"]),
        ("float16", {"rules": RuleFacts("Add_1", 0, kernel=(("_is_custom_op", "False"),))}, "Add", ["PF7413"]),
        ("float32", {"rules": RuleFacts("Add_1", 0, kernel=(("_fe_imply_type", "2"),))}, "Add", ["PF7412"]),
        ("float32", {"rules": RuleFacts("Add_1", 0, kernel=(("_fe_imply_type", "6"),))}, "Add", ["PF7414"]),
        ("float32", {}, "acme.fancy_add.default", ["PF7412"]),
        ("float32", {}, "npu.npu_rms_norm.default", ["PF7414"]),
        ("float32", {}, "torch.nn.Linear.forward", ["PF7414"]),
    ],
)
def test_a_wrong_output_leads_to_what_kind_of_operator_it_is(
    dtype: str, node: dict[str, Any], golden_type: str, expected: list[str]
) -> None:
    given = compared(dtype, node=node, golden_type=golden_type)
    assert codes(given.findings[0], given) == expected


@pytest.mark.parametrize(
    ("severity", "kind", "expected"),
    [
        (1.1, FindingKind.ORIGIN, ["PF7413"]),
        (19.9, FindingKind.ORIGIN, ["PF7413"]),
        (20.0, FindingKind.ORIGIN, ["PF7414"]),
        (float("inf"), FindingKind.ORIGIN, ["PF7414"]),
        # A float16 that overflows is cured by precision, however many elements do.
        (390.0, FindingKind.NONFINITE_ORIGIN, ["PF7416", "PF7413"]),
    ],
)
def test_an_error_that_no_precision_explains_does_not_lead_to_more_precision(
    severity: float, kind: FindingKind, expected: list[str]
) -> None:
    given = compared("float16")
    finding = origin(0, "Add_1", severity=severity, kind=kind)
    assert codes(finding, given) == expected
    if expected == ["PF7414"]:
        ((step,),) = advise([finding], given)
        assert step.text == (
            "`Add_1` (AddV2) is off by far more than float16 explains: "
            "reproduce it alone on the dumped inputs and report it"
        )


@pytest.mark.parametrize(
    ("rules", "severity", "expected"),
    [
        (["self"], 3000.0, ["PF7437", "PF7414"]),
        (["self"], 8.0, ["PF7413"]),
        (["self", "exact"], 3000.0, ["PF7414"]),
        ([], 3000.0, ["PF7414"]),
    ],
)
def test_the_first_operator_behind_an_input_that_the_golden_lacks_leads_to_that_input(
    rules: list[str], severity: float, expected: list[str]
) -> None:
    wrong = good_row(0, target=tensor(dtype="float16"))
    read = [
        good_row(number, target=tensor("Add_1", role=SlotRole.INPUT, path=(number,)), rule=rule)
        for number, rule in enumerate(rules, start=1)
    ]
    described = Node(key("Add_1"), "AddV2")
    side = catalog("target", [each.pair.target for each in (wrong, *read)], nodes={described.key: described})
    assert codes(origin(0, "Add_1", severity=severity), comparison(wrong, *read, target=side)) == expected


def test_the_text_has_names_and_types_to_paste() -> None:
    parts = tuple(f"Part_{number}" for number in range(6))
    given = compared("float16", node={"originals": parts})
    ((fused, half),) = advise(given.findings, given)
    assert fused.text == (
        "`Add_1` (AddV2) is fused of `Part_0` + `Part_1` + `Part_2` + `Part_3` and 2 more: "
        "compare with a dump made with fusion switched off"
    )
    assert half.text == "`Add_1` (AddV2) computes in float16: let it compute in float32 and compare again"


def test_against_the_same_device_without_fusion_the_fusion_is_named() -> None:
    given = compared("float16", node={"originals": ("Mul_1", "Add_1")})
    pairs = replace(given.pairs, golden=replace(given.pairs.golden, framework=given.pairs.target.framework))
    ((step,),) = advise(given.findings, replace(given, pairs=pairs))
    assert step.code == "PF7411"
    assert step.text.endswith(
        "fused of `Mul_1` + `Add_1`, and the golden ran them apart: keep this fusion off and report it"
    )


def of_input(role: SlotRole = SlotRole.INPUT, **more: Any) -> tuple[Finding, Comparison]:
    sides = {side: tensor("Add_1", side=side, role=role, **more) for side in ("target", "golden")}
    return origin(0, "Add_1", slot=Slot(role, (0,))), comparison(row(0, **sides))


def test_an_input_that_nothing_feeds_leads_to_what_the_sides_were_given() -> None:
    assert codes(*of_input()) == ["PF7410"]
    finding, given = of_input(SlotRole.PARAMETER)
    ((step,),) = advise([finding], given)
    assert step.code == "PF7410"
    assert "checkpoint" in step.text


def test_an_argument_that_differs_leads_to_the_programs() -> None:
    assert codes(*of_input(kind=TensorKind.SCALAR)) == ["PF7417"]


def test_an_operator_that_ran_between_two_and_that_only_the_target_has_is_named() -> None:
    finding, given = of_input()
    edge = Edge(key("Mul_0"), 0, key("Add_1"), 0)
    # `Neg_2` feeds another operator, `Abs_3` was compared, `Late_4` ran later: none of them can be what lies between.
    orders = {"Mul_0": 1, "fusion_7": 2, "Neg_2": 3, "Abs_3": 4, "Add_1": 5, "Late_4": 6}
    nodes = {key(name): Node(key(name), "Fused", order=order) for name, order in orders.items()}
    side = replace(given.pairs.target, nodes=nodes, edges=(edge, Edge(key("Neg_2"), 0, key("Late_4"), 0)))
    rows = (*given.rows, good_row(1, "Mul_0"), missing_golden(2, "fusion_7"), good_row(3, "Abs_3"))
    ((step,),) = advise([finding], replace(given, pairs=replace(given.pairs, target=side), rows=rows))
    assert step.text == (
        "`Add_1` reads another value than `Mul_0` wrote: look at `fusion_7` (Fused), which ran between the two and was "
        "not compared"
    )


@pytest.mark.parametrize(
    ("edge", "code"),
    [
        (Edge(key("Mul_0"), 0, key("Add_1"), 0), "PF7418"),
        (Edge(key("Mul_0"), 1, key("Add_1"), 0), "PF7420"),  # another output than the one that was compared
        (Edge(key("Sub_0"), 0, key("Add_1"), 0), "PF7420"),
        (Edge(key("Mul_0"), 0, key("Add_1"), 1), "PF7410"),  # feeds another input
    ],
)
def test_an_input_that_an_operator_feeds_leads_to_that_operator(edge: Edge, code: str) -> None:
    finding, given = of_input()
    rows = (*given.rows, good_row(1, "Mul_0"))
    pairs = replace(given.pairs, target=replace(given.pairs.target, edges=(edge,)))
    ((step,),) = advise([finding], replace(given, pairs=pairs, rows=rows))
    assert step.code == code
    assert (f"`{edge.producer.name}` wrote" in step.text) is (code != "PF7410")


def test_what_only_the_target_executes_leads_to_the_programs() -> None:
    given = comparison(missing_golden(0, "Mul_9"))
    assert codes(origin(0, "Mul_9"), given) == ["PF7419"]


def test_a_part_of_what_the_golden_makes_in_one_call_is_looked_at_itself() -> None:
    given = comparison(missing_golden(0, "Mul_9"), good_row(1, "Mul_9"))
    assert "PF7419" not in codes(origin(0, "Mul_9"), given)


def test_what_only_the_golden_executes_before_a_wrong_input_leads_to_the_programs() -> None:
    def at(name: str, side: str, **more: Any) -> Any:
        return tensor(name, side=side, **more).changed(recorded=Statistics(min=1.0, max=2.0, l2norm=3.0))

    finding, role = of_input()[0], SlotRole.INPUT
    read = row(2, target=tensor("Add_1", role=role), golden=at("Add_1", "golden", role=role))
    halved = replace(row(0), pair=replace(row(0).pair, target=None, golden=at("Div_0", "golden")))
    nodes = {key(name): Node(key(name), "Any", order=order) for order, name in enumerate(("Div_0", "Mul_0", "Add_1"))}
    golden = catalog("golden", [halved.pair.golden, read.pair.golden], nodes=nodes)
    alone = comparison(halved, replace(read, order=0), golden=golden)
    ((step,),) = advise([finding], alone)
    assert step.code == "PF7419"
    assert "only the golden executes `Div_0` whose result `Add_1` reads there" in step.text
    # Where a call that both sides make wrote the same later, it is that one's result.
    both = row(1, target=tensor("Mul_0"), golden=at("Mul_0", "golden"))
    assert codes(finding, comparison(halved, both, replace(read, order=0), golden=golden)) == ["PF7410"]


def test_nan_and_drift_have_steps_of_their_own() -> None:
    given = compared("float16")
    assert codes(origin(0, "Add_1", kind=FindingKind.NONFINITE_ORIGIN), given) == ["PF7416", "PF7413"]
    assert codes(Finding(FindingKind.DRIFT, None, None, "grows", 2.0), given) == ["PF7415"]
    assert codes(origin(0, "Add_1", kind=FindingKind.GOLDEN_ERROR, fails=False), given) == []
    assert codes(origin(0, "Add_1", kind=FindingKind.NOT_DETERMINISTIC, fails=False), given) == []


def test_a_finding_without_its_row_is_judged_by_its_node_alone() -> None:
    assert codes(origin(99, "Unheard_of"), comparison(good_row(0))) == ["PF7414"]
    assert advise([], comparison(good_row(0))) == []


def test_run_json_has_the_steps() -> None:
    (finding,) = comparison_summary(compared("float16")).findings
    assert [step.code for step in finding.advice] == ["PF7413"]


def test_the_html_report_has_the_steps_of_a_run_that_fails() -> None:
    run = run_record(workflow={"name": "w"})
    failing = replace(compared("float16"), gate_passed=False)
    (text,) = payload(failing, run=run)["summary"]["advice"]
    assert text == "`Add_1` (AddV2) computes in float16: let it compute in float32 and compare again (PF7413)"
    assert payload(replace(failing, gate_passed=True), run=run)["summary"]["advice"] == []


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (ErrorShape.FACTOR, ["PF7421", "PF7414"]),
        (ErrorShape.OFFSET, ["PF7422", "PF7414"]),
        (ErrorShape.PART, ["PF7423", "PF7414"]),
        (ErrorShape.CHOICE, ["PF7424", "PF7414"]),
        (ErrorShape.NOISE, ["PF7413"]),
    ],
)
def test_the_shape_of_an_error_says_what_to_do_before_its_size_does(shape: ErrorShape, expected: list[str]) -> None:
    given = compared("bfloat16")
    finding = replace(given.findings[0], shape=shape)
    assert codes(finding, given) == expected


def test_a_call_of_one_side_is_told_with_its_source_line() -> None:
    extra = missing_golden(0, "Mul_9").pair.target
    node = Node(extra.node, "Mul", stack_id="7")
    frames = {
        "7": ("File /x/site-packages/torch/f.py, line 3, in mul", "File train.py, line 41, in step, \n y = x * 2")
    }
    wrong = missing_golden(0, "Mul_9")
    given = comparison(wrong, target=catalog("target", [extra], nodes={node.key: node}, stacks=frames))
    (steps,) = advise([origin(0, "Mul_9")], given)
    assert [step.code for step in steps] == ["PF7419"]
    assert "called at train.py:41: take it out there" in steps[0].text
    found = comparison_summary(replace(given, findings=(origin(0, "Mul_9"),)))
    assert found.findings[0].source == "train.py:41"
    run = with_summaries(run_record(verdict="fail", exit_code=1), {"result": found})
    assert ", called at train.py:41" in last_line(run)


def of_calls(task: str = "tensor", fmt: str = "dump_json", kind: NodeKind = NodeKind.API) -> Comparison:
    """One call of a dump.json whose output is wrong."""
    node = {"op_type": "gelu", "facts": CallFacts(kind)}
    return compared(node=node, task=task, attrs={"format": fmt}, framework=PYTORCH)


@pytest.mark.parametrize(
    ("given", "is_offered"),
    [
        (of_calls(), True),
        (of_calls(kind=NodeKind.MODULE), True),
        (of_calls(kind=NodeKind.PARAMETERS_GRAD), False),
        (of_calls(task="md5"), False),
        (of_calls(fmt="om"), False),
    ],
)
def test_what_can_be_computed_again_is_offered_first(given: Comparison, *, is_offered: bool) -> None:
    assert codes(given.findings[0], given) == (["PF7425", "PF7414"] if is_offered else ["PF7414"])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"status": "reproduced", "why": "off by 2 %"}, ["PF7426"]),
        ({"status": "not_reproduced", "why": "as dumped", "differs": "input 0 differs"}, ["PF7427"]),
        ({"status": "undecided", "why": "its result is random"}, ["PF7428", "PF7414"]),
        ({"status": "not_run", "why": "no torch"}, ["PF7428", "PF7414"]),
    ],
)
def test_what_came_of_computing_it_again_takes_the_place_of_the_offer(
    found: dict[str, str], expected: list[str]
) -> None:
    run = with_summaries(run_record(), {"result": comparison_summary(of_calls())})
    (first,) = run.findings
    own = {"entry": first.name, "suspect": first.name, "rank": first.rank, "step": first.step, "script": "a.py"}
    after = run.with_reproductions([{**own, "status": "not_run", "why": "earlier"}, {**own, **found}])
    assert len(after.reproductions) == 1
    assert [each.code for each in after.steps_for(first)] == expected
    assert found["why"] in advice_texts(after)[0]
    assert found.get("differs", "") in advice_texts(after)[0]
    elsewhere = run.with_reproductions([{**own, **found, "step": 7}])
    assert [each.code for each in elsewhere.steps_for(first)] == ["PF7425", "PF7414"]


def test_the_step_names_the_run_and_the_suspect_as_the_command_takes_them() -> None:
    run = with_summaries(run_record(), {"result": comparison_summary(of_calls())})
    (first,) = run.findings
    assert "`probe-flow repro RUN` computes" in first.advice[0].text
    assert "`probe-flow repro 'my run'` computes" in run.steps_for(first, "my run")[0].text
    assert "`probe-flow repro out` computes" in advice_texts(run, "out")[0]
    second = replace(first, name="gelu_2")
    two = replace(run, findings=(first, second), suspects=(0, 1))
    assert "`probe-flow repro out --suspect 2` computes" in two.steps_for(second, "out")[0].text
    none = replace(two, suspects=(0,))
    assert "`probe-flow repro out --node gelu_2` computes" in none.steps_for(second, "out")[0].text


def test_of_many_suspects_only_those_before_a_finding_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    run = with_summaries(run_record(), {"result": comparison_summary(of_calls())})
    first = run.findings[0]
    many = replace(
        run, findings=tuple(replace(first, name=f"gelu_{n}") for n in range(100)), suspects=tuple(range(100))
    )
    looked_at: list[int | None] = []
    at = RunRecord.at

    def noting(self: RunRecord, position: int | None) -> FindingRecord | None:
        looked_at.append(position)
        return at(self, position)

    monkeypatch.setattr(RunRecord, "at", noting)
    assert "--suspect 3`" in many.steps_for(many.findings[2])[0].text
    assert looked_at == [0, 1, 2]
