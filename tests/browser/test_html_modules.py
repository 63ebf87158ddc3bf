"""The HTML report of dynamic-graph dumps in a browser: the tree of modules, source lines, forward beside backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from call_builders import compared, node
from report_builders import catalog, comparison, key, missing_golden, origin, row, tensor

from probe_flow.records import (
    CallFacts,
    Comparison,
    Execution,
    Mode,
    Node,
    NodeKey,
    NodeKind,
    Phase,
    Role,
    Row,
    SlotRole,
    Status,
)

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

LABELS = "[...document.querySelectorAll('#tree [role=treeitem] > .line .label')].map((each) => each.innerText)"
PICKED = "document.querySelector('#tree [aria-selected=true]')?.ariaLabel ?? ''"
FOCUSED = "document.activeElement.ariaLabel"
SHOWN = "[...document.querySelectorAll('#table .tabulator-row [tabulator-field=name]')].map((cell) => cell.innerText)"
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
DOWN, RIGHT, LEFT, ENTER, ESCAPE, END = "\ue015", "\ue014", "\ue012", "\ue007", "\ue00c", "\ue010"
FRAMES = (
    "File /venv/site-packages/torch/nn/functional.py, line 7, in linear, \n return _C.linear(x)",
    "File demo/model.py, line 34, in forward, \n h = self.fc(h) * 1.1",
    "File demo/train.py, line 9, in <module>, \n model(x)",
)


def model(execution: Execution) -> tuple[Node, ...]:
    """A module ``mlp`` with two layers, forward and backward, and a loss outside of it."""
    mlp = "Module.mlp.MLP"
    inner = {"above": f"{mlp}.forward.0", "execution": execution}
    outer = {"above": f"{mlp}.backward.0", "execution": execution, "phase": Phase.BACKWARD}
    return (
        node("Module.mlp.fc1.Linear", "module", **inner),
        node("Functional.gelu", "api", **inner, stack_id="0"),
        node("Module.mlp.fc2.Linear", "module", **inner),
        node(mlp, "module", execution=execution),
        node("Functional.mse_loss", "api", execution=execution),
        node("Module.mlp.fc2.Linear", "module", **outer),
        node(mlp, "module", phase=Phase.BACKWARD, execution=execution),
        Node(
            NodeKey(execution, "Module.mlp.fc2.Linear.parameters_grad", 0, Phase.NONE),
            "Linear",
            parent="Module.mlp.fc2.Linear",
            facts=CallFacts(NodeKind.PARAMETERS_GRAD),
        ),
    )


def rows_of(nodes: tuple[Node, ...], start: int = 0) -> list[Row]:
    fc1, gelu, fc2, mlp, loss, fc2_back, mlp_back, grad = nodes
    wrong = {"status": Status.FAIL, "role": Role.ORIGIN, "error": 0.5}
    passed_on = {"status": Status.FAIL, "role": Role.INHERITED, "error": 0.25}
    found = (
        (fc1, SlotRole.OUTPUT, 0, {}),
        (gelu, SlotRole.OUTPUT, 0, wrong),
        (fc2, SlotRole.INPUT, 0, passed_on),
        (fc2, SlotRole.PARAMETER, "weight", {}),
        (fc2, SlotRole.OUTPUT, 0, passed_on),
        (mlp, SlotRole.OUTPUT, 0, passed_on),
        (loss, SlotRole.OUTPUT, 0, {}),
        (fc2_back, SlotRole.INPUT, 0, {}),
        (fc2_back, SlotRole.OUTPUT, 0, {"error": 0.125}),
        (mlp_back, SlotRole.OUTPUT, 0, {}),
        (grad, SlotRole.PARAMETER_GRAD, "weight", {"error": 0.0625}),
    )
    return [
        compared(start + n, owner, direction, index, **more) for n, (owner, direction, index, more) in enumerate(found)
    ]


def sample(*executions: Execution) -> Comparison:
    nodes = [model(each) for each in executions or (Execution(0, 0),)]
    rows = [each for n, group in enumerate(nodes) for each in rows_of(group, 11 * n)]
    sides = {
        side: catalog(
            side,
            [getattr(each.pair, side) for each in rows],
            nodes={each.key: each for group in nodes for each in group},
            stacks={"0": FRAMES},
        )
        for side in ("target", "golden")
    }
    found = origin(1, "Functional.gelu", node=nodes[0][1].key)
    return comparison(*rows, **sides, findings=(found,), gate_passed=False, policy="dump_json")


def test_the_tree_opens_at_the_origin_with_the_worst_below_each_module(open_report: Open) -> None:
    page = open_report(sample())
    assert page.js(f"return {LABELS}") == [
        "Forward",
        "mlp MLP",
        "fc1 Linear",
        "Functional.gelu",
        "fc2 Linear",
        "Functional.mse_loss",
        "Backward",
        "mlp MLP",
    ]
    spoken = page.js("return [...document.querySelectorAll('#tree [role=treeitem]')].map((each) => each.ariaLabel)")
    assert spoken[1] == "mlp MLP: wrong here, 1 of 6 tensors"
    assert spoken[2] == "fc1 Linear: fine, 1 tensor"
    assert spoken[4] == "fc2 Linear: carries it on, 2 of 3 tensors"


def test_a_click_on_a_module_shows_its_rows_alone_and_a_second_one_all_again(open_report: Open) -> None:
    page = open_report(sample())
    fc2 = "#tree [aria-level='3']:nth-child(3) > .line"
    page.click(fc2)
    assert page.text("#row-count") == "3 of 11 rows"
    assert page.text("#subtree").split()[:2] == ["in", "fc2"]
    assert all("fc2" in name for name in page.js(f"return {SHOWN}"))
    page.click(fc2)
    assert page.text("#row-count") == "11 rows"
    assert page.js("return document.getElementById('subtree').hidden") is True


def test_reset_and_its_own_button_give_the_module_up(open_report: Open) -> None:
    page = open_report(sample())
    for button in ("#subtree", "#reset"):
        page.click("#tree [aria-level='2'] > .line")
        assert page.text("#row-count") == "6 of 11 rows"
        page.click(button)
        assert page.text("#row-count") == "11 rows"
        assert page.js(f"return {PICKED}") == ""


def test_arrow_keys_walk_the_tree_and_enter_picks(open_report: Open) -> None:
    page = open_report(sample())
    page.js("document.querySelector('#tree [role=treeitem]').focus()")
    item = "#tree [tabindex='0']"
    page.keys(DOWN, item)
    assert page.js(f"return {FOCUSED}").startswith("mlp MLP: wrong here")
    page.keys(LEFT, item)
    assert "fc1 Linear" not in page.js(f"return {LABELS}")
    page.keys(RIGHT, item)
    page.keys(RIGHT, item)
    assert page.js(f"return {FOCUSED}").startswith("fc1 Linear")
    page.keys(LEFT, item)
    page.keys(ENTER, item)
    assert page.js(f"return {PICKED}").startswith("mlp MLP")
    assert page.text("#row-count") == "6 of 11 rows"
    page.keys(END, item)
    assert page.js(f"return {FOCUSED}").startswith("mlp MLP: fine")


def test_calls_inside_a_module_are_put_into_the_page_when_it_is_opened(open_report: Open) -> None:
    page = open_report(sample())
    assert page.js("return document.querySelectorAll('#tree [role=treeitem]').length") == 8
    page.js("[...document.querySelectorAll('#tree [aria-level=\"2\"] .twisty')].pop().click()")
    assert page.js(f"return {LABELS}")[-1] == "fc2 Linear"
    assert page.text("#row-count") == "11 rows"


def test_the_search_of_the_tree_shows_hits_with_the_modules_around_them(open_report: Open) -> None:
    page = open_report(sample())
    page.keys("parameters_grad", "#tree-search")
    page.wait(f"{LABELS}.length === 4")
    assert page.js(f"return {LABELS}") == ["Backward", "mlp MLP", "fc2 Linear", "parameter gradients"]
    page.keys("x", "#tree-search")
    page.wait("document.querySelector('#tree .nothing')")
    page.keys(ESCAPE, "#tree-search")
    assert len(page.js(f"return {LABELS}")) == 8


def test_what_the_dump_calls_a_node_is_found_and_shown(open_report: Open) -> None:
    page = open_report(sample())
    assert "in the dump Functional.gelu.0.forward" in page.text("#verdict .place").split("\n")
    page.keys("fc2.linear.backw", "#search")
    page.wait("document.getElementById('row-count').textContent === '2 of 11 rows'")
    cells = SHOWN.replace("=name]", "=entry]")
    assert page.js(f"return {cells}") == ["Module.mlp.fc2.Linear.backward.0"] * 2
    page.js("document.querySelector('#table .tabulator-row').click()")
    assert page.text("#panel-entry") == "in the dump Module.mlp.fc2.Linear.backward.0"
    lines = page.js(
        "return [...document.querySelectorAll('#panel .sides tr')].map((each) => each.innerText.split('\\t'))"
    )
    assert ["in the dump", *["Module.mlp.fc2.Linear.backward.0"] * 2] in [line[:3] for line in lines]
    page.keys("gelu.0.f", "#tree-search")
    page.wait(f"{LABELS}.length === 3")
    assert page.js(f"return {LABELS}") == ["Forward", "mlp MLP", "Functional.gelu"]
    titles = "[...document.querySelectorAll('#tree .line[title]')].map((each) => each.title)"
    assert page.js(f"return {titles}")[-1] == "Functional.gelu.0.forward"


def test_the_own_source_line_stands_out_of_the_stack(open_report: Open) -> None:
    page = open_report(sample())
    page.click("#open-origin")
    assert page.text("#panel .frame.own").split("\n")[::2] == ["demo/model.py:34 in forward", "h = self.fc(h) * 1.1"]
    page.click("#panel .frames summary")
    assert page.js("return [...document.querySelectorAll('#panel .stack .path')].map((each) => each.innerText)") == [
        "/venv/site-packages/torch/nn/functional.py:7",
        "demo/model.py:34",
        "demo/train.py:9",
    ]


def test_forward_stands_beside_backward_and_the_gradients_of_parameters(open_report: Open) -> None:
    page = open_report(sample())
    page.keys("fc2", "#search")
    page.wait("document.getElementById('row-count').textContent === '6 of 11 rows'")
    page.js("document.querySelector('#table .tabulator-row').click()")
    minus = "\N{MINUS SIGN}"
    cells = (
        "[...document.querySelectorAll('#panel .passes tbody tr')].map((each) => each.innerText.split(/\\s*\\t\\s*/))"
    )
    assert [[cell.replace("\n", " ") for cell in line] for line in page.js(f"return {cells}")] == [
        ["input 0", f"\u21b3 carries it on 2.50e{minus}1", f"\u25cf fine 1.25e{minus}1"],
        ["weight", "\u25cf fine 0", f"\u25cf fine 6.25e{minus}2"],
        ["output 0", f"\u21b3 carries it on 2.50e{minus}1", "\u25cf fine 0"],
    ]
    page.js("document.querySelectorAll('#panel .passes button')[3].click()")
    assert page.text("#panel-title") == "Module.mlp.fc2.Linear.parameters_grad parameter_grad weight"
    assert page.js("return document.querySelectorAll('#panel .passes button').length") == 6


def test_the_modules_around_a_call_lead_into_the_tree(open_report: Open) -> None:
    page = open_report(sample())
    page.click("#open-origin")
    assert page.text("#panel .callers") == "mlp"
    page.click("#panel .callers button")
    assert page.js(f"return {PICKED}").startswith("mlp MLP")
    assert page.text("#row-count") == "6 of 11 rows"


def test_rows_are_filtered_by_phase(open_report: Open) -> None:
    page = open_report(sample())
    select = "const select = document.getElementById('filter-phase')"
    choose = f"{select}; select.value = arguments[0]; select.dispatchEvent(new Event('change'))"
    counts = []
    for phase in ("forward", "backward", "parameter gradients"):
        page.js(choose, phase)
        counts.append(page.text("#row-count"))
    assert counts == ["7 of 11 rows", "3 of 11 rows", "1 of 11 rows"]


def test_statistics_show_both_sides_with_their_differences(open_report: Open) -> None:
    page = open_report(sample())
    page.click("#open-origin")
    lines = page.js(
        "return [...document.querySelectorAll('#panel .sides tr')].map((each) => each.innerText.split('\\t'))"
    )
    assert lines[0] == ["", "target", "golden", "difference", "relative"]
    assert ["max", "2.5", "2", "0.5", "2.50e\N{MINUS SIGN}1"] in lines
    heads = page.js(
        "return [...document.querySelectorAll('#table .tabulator-col-title')].map((each) => each.innerText)"
    )
    assert {"norm rel", "max rel"} <= set(heads)


def test_checksums_of_both_sides_stand_in_the_table(open_report: Open) -> None:
    owner = node("Functional.gelu", "api")
    more = {"mode": Mode.CHECKSUM}
    rows = (
        compared(0, owner, SlotRole.INPUT, metrics={"checksum_equal": True}, **more),
        compared(
            1,
            owner,
            SlotRole.OUTPUT,
            metrics={"checksum_equal": False},
            status=Status.FAIL,
            target_more={"checksum": "0badcafe"},
            golden_more={"checksum": "1badcafe"},
            **more,
        ),
    )
    page = open_report(comparison(*rows))
    cells = "[...document.querySelectorAll('#table .tabulator-row [tabulator-field=checksum]')]"
    assert page.js(f"return {cells}.map((cell) => cell.innerText)") == ["", "0badcafe \u2260 1badcafe"]
    assert page.js("return document.getElementById('plot-metric').selectedOptions[0].innerText") == "checksum differs"


def test_each_rank_has_a_tree_and_the_selector_shows_one(open_report: Open) -> None:
    page = open_report(sample(Execution(0, 0), Execution(1, 0)))
    assert page.js(f"return {LABELS}")[0] == "rank 0 step 0"
    assert page.js(f"return {LABELS}")[-1] == "rank 1 step 0"
    page.js("const s = document.getElementById('filter-rank'); s.value = '1'; s.dispatchEvent(new Event('change'))")
    assert page.js(f"return {LABELS}") == ["rank 1 step 0"]
    assert page.text("#row-count") == "11 of 22 rows"


def test_what_only_the_golden_has_stands_in_the_module_of_its_partner(open_report: Open) -> None:
    outer = node("Module.mlp.MLP", "module")
    lone = node("Functional.dropout", "api", above="Module.mlp.MLP.forward.0")
    golden = tensor("dropout", side="golden", node=lone.key)
    rows = (compared(0, outer, SlotRole.OUTPUT), row(1, golden=golden, status=Status.UNMATCHED_GOLDEN, rule="none"))
    sides = {
        "target": catalog("target", [], nodes={outer.key: outer}),
        "golden": catalog("golden", [golden], nodes={outer.key: outer, lone.key: lone}),
    }
    page = open_report(comparison(*rows, **sides))
    assert page.js(f"return {LABELS}") == ["Forward", "mlp MLP"]
    page.click("#tree [aria-level='2'] .twisty")
    assert page.js(f"return {LABELS}") == ["Forward", "mlp MLP", "Functional.dropout"]


def test_hostile_names_of_modules_are_text(open_report: Open) -> None:
    outer = node(f"Module.{HOSTILE}.MLP", "module", stack_id="0")
    inner = node("Functional.gelu", "api", above=outer.entry)
    rows = (compared(0, inner, SlotRole.OUTPUT, status=Status.FAIL), compared(1, outer, SlotRole.OUTPUT))
    nodes = {each.key: each for each in (outer, inner)}
    stacks = {"0": (f"File demo/{HOSTILE}, line 1, in {HOSTILE}, \n {HOSTILE}",)}
    sides = {side: catalog(side, [], nodes=nodes, stacks=stacks) for side in ("target", "golden")}
    page = open_report(comparison(*rows, **sides))
    page.keys("script", "#tree-search")
    page.wait(f"{LABELS}.length === 2")
    page.click("#tree [aria-level='2'] > .line")
    page.js("document.querySelectorAll('#table .tabulator-row')[1].click()")
    assert HOSTILE in page.text("#panel .frame")
    assert page.js("return window.hacked") is None
    assert page.js("return document.images.length + document.querySelectorAll('#app script').length") == 0


def test_a_dump_without_callers_shows_no_tree(open_report: Open) -> None:
    page = open_report(comparison(missing_golden(0), row(1, target=tensor(node=key("Add_1")), rule="none")))
    assert page.js("return document.getElementById('tree').hidden") is True
    assert page.js("return document.getElementById('tree-jump').hidden") is True


def test_a_module_with_thousands_of_calls_shows_some_and_more_on_demand(open_report: Open) -> None:
    outer = node("Module.mlp.MLP", "module")
    calls = [node("Functional.gelu", "api", call=n, above="Module.mlp.MLP.forward.0") for n in range(5000)]
    rows = [compared(n, each, SlotRole.OUTPUT) for n, each in enumerate([*calls, outer])]
    nodes = {each.key: each for each in (*calls, outer)}
    sides = {side: catalog(side, [], nodes=nodes) for side in ("target", "golden")}
    page = open_report(comparison(*rows, **sides))
    page.click("#tree [aria-level='2'] .twisty")
    assert page.js(f"return {LABELS}.length") == 202
    assert page.text("#tree .more") == "show 200 more of 4,800"
    page.click("#tree .more")
    assert page.js(f"return {LABELS}.length") == 402


def test_the_tree_keeps_the_selected_call_in_sight_when_the_panel_narrows_the_page(open_report: Open) -> None:
    outer = node("Module.mlp.MLP", "module")
    calls = [node("Functional.gelu", "api", call=n, above="Module.mlp.MLP.forward.0") for n in range(100)]
    rows = [compared(n, each, SlotRole.OUTPUT) for n, each in enumerate([*calls, outer])]
    nodes = {each.key: each for each in (*calls, outer)}
    sides = {side: catalog(side, [], nodes=nodes) for side in ("target", "golden")}
    found = origin(70, "Functional.gelu", node=calls[70].key)
    page = open_report(comparison(*rows, **sides, findings=(found,), gate_passed=False))
    page.click("#open-origin")
    page.wait(
        "(() => { const list = document.querySelector('#tree .items').getBoundingClientRect();"
        " const line = document.querySelector('#tree .line.current').getBoundingClientRect();"
        " return line.top >= list.top && line.bottom <= list.bottom; })()"
    )
