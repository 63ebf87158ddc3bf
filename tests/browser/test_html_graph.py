"""The graph in the HTML report: calls of target and golden side by side, from dumps through the whole comparison."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from call_builders import compared, node
from call_dumps import Call, write_calls
from graph_dumps import write_dump
from report_builders import catalog, comparison, origin

import probe_flow as pf
from probe_flow.records import Execution, Mode, Node, Phase, Role, Row, SlotRole, Status
from probe_flow.relations.call_tree import ROOT, call_trees
from probe_flow.reports.html.nodes import CallFigures, SideFigures

pytestmark = pytest.mark.browser

LINES = "[...document.querySelectorAll('#graph .call')].sort((one, other) => one.dataset.place - other.dataset.place)"
SIDES = (
    f"{LINES}.map((line) => [...line.querySelectorAll(':scope > .half, :scope > .sign')]"
    ".map((cell) => cell.innerText.replace(/[\\u25b8\\u25be\\s]+/g, ' ').trim()).join(' | '))"
)
SPOKEN = f"{LINES}.map((line) => line.ariaLabel)"
CURRENT = "document.querySelector('#graph .call[aria-selected=true]')?.ariaLabel ?? ''"
TITLE = "document.getElementById('panel-title').innerText"
COUNT = "document.getElementById('graph-count').innerText"
HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>'\"\n\u202eß日"
DOWN, RIGHT, LEFT, ENTER, ESCAPE, END = "\ue015", "\ue014", "\ue012", "\ue007", "\ue00c", "\ue010"

DATA = Path(__file__).parents[1] / "data" / "dump_json"
MLP = "Module.mlp.MLP.forward.0"
BACK = "Module.mlp.MLP.backward.0"
GOLDEN = (
    Call("Functional.linear.0.forward", "Module.mlp.fc1.Linear.forward.0"),
    Call("Module.mlp.fc1.Linear.forward.0", MLP),
    Call("Functional.gelu.0.forward", MLP),
    Call("Functional.linear.1.forward", "Module.mlp.fc2.Linear.forward.0"),
    Call("Module.mlp.fc2.Linear.forward.0", MLP),
    Call(MLP),
    Call("Functional.mse_loss.0.forward"),
    Call("Functional.linear.1.backward", "Module.mlp.fc2.Linear.backward.0"),
    Call("Module.mlp.fc2.Linear.backward.0", BACK),
    Call(BACK),
)


def wrong(calls: Sequence[Call], part: str, factor: float = 3.0) -> list[Call]:
    """The calls where one gives something else, which all that come behind it carry on."""
    first = next(place for place, call in enumerate(calls) if part in call.entry)
    behind = [call._replace(given=1.0 if call.entry == MLP else factor, output=factor) for call in calls[first + 1 :]]
    return [*calls[:first], calls[first]._replace(output=factor), *behind]


@pytest.fixture
def open_graph(open_page: Callable[[Path], Any], tmp_path: Path) -> Callable[..., Any]:
    """Compare two dumps of these calls, or examine one, and open the report."""

    def opened(target: Sequence[Call], golden: Sequence[Call] = (), mapping: Any = None) -> Any:
        one = write_calls(tmp_path / "target", target)
        match: Any = "name"
        if mapping is not None:
            (tmp_path / "mapping.yaml").write_text(yaml.safe_dump(mapping), encoding="utf-8")
            match = {"uses": "match.layer_mapping", "mapping": str(tmp_path / "mapping.yaml")}
        if golden:
            other = write_calls(tmp_path / "golden", golden)
            pf.compare(one, other, match=match, reports="html", output=tmp_path / "run", cache=False)
        else:
            stages = {
                "dump": {"uses": "dump.torch", "path": str(one)},
                "found": {"uses": "analysis.nonfinite", "catalog": "dump"},
                "report": {"uses": "report", "comparison": "found", "formats": ["html"]},
            }
            (tmp_path / "one.yaml").write_text(yaml.safe_dump({"version": 1, "name": "one", "stages": stages}))
            pf.run(tmp_path / "one.yaml", output=tmp_path / "run", cache=False)
        return open_page(tmp_path / "run" / "report.html")

    return opened


Open = Callable[..., Any]


def test_pairs_share_a_line_and_the_origin_is_chosen(open_graph: Open) -> None:
    page = open_graph(wrong(GOLDEN, "gelu"), GOLDEN)
    assert page.js(f"return {SIDES}") == [
        "Forward 7",
        "mlp MLP | = | mlp MLP",
        "fc1 Linear | = | fc1 Linear",
        "Functional.linear | = | Functional.linear",
        "Functional.gelu | = | Functional.gelu",
        "fc2 Linear | = | fc2 Linear",
        "Functional.linear #1 | = | Functional.linear #1",
        "Functional.mse_loss | = | Functional.mse_loss",
        "Backward 3",
        "mlp MLP | = | mlp MLP",
        "fc2 Linear | = | fc2 Linear",
        "Functional.linear #1 | = | Functional.linear #1",
    ]
    assert page.js(f"return {CURRENT}") == "Functional.gelu: wrong here, score 1"
    assert page.js(f"return {COUNT}") == "10 calls"


def renamed(calls: Sequence[Call], **names: str) -> list[Call]:
    """The calls under other names."""
    found = []
    for call in calls:
        entry, caller = call.entry, call.caller
        for old, new in names.items():
            entry, caller = entry.replace(old, new), caller and caller.replace(old, new)
        found.append(call._replace(entry=entry, caller=caller))
    return found


def chosen(page: Any, entry: str, side: str = "target") -> None:
    """Go to a call by the address, and wait until the panel shows it."""
    page.js("location.hash = arguments[0]", f"#graph?call={entry}&side={side}")
    page.wait(f"document.getElementById('panel-entry')?.innerText === 'in the dump {entry}'")


def test_added_missing_and_renamed_calls_have_lines_of_their_own(open_graph: Open) -> None:
    target = renamed(GOLDEN, fc1="up", mse_loss="l1_loss")
    page = open_graph(target, GOLDEN, mapping={"MLP": {"up": "fc1"}})
    assert page.js(f"return {SIDES}")[:10] == [
        "Forward 8",
        "mlp MLP | = | mlp MLP",
        "up Linear | \u2248 | fc1 Linear",
        "Functional.linear | = | Functional.linear",
        "Functional.gelu | = | Functional.gelu",
        "fc2 Linear | = | fc2 Linear",
        "Functional.linear #1 | = | Functional.linear #1",
        "not in the target | \u2212 | Functional.mse_loss",
        "Functional.l1_loss | + | not in the golden",
        "Backward 3",
    ]
    spoken = page.js(f"return {SPOKEN}")
    assert spoken[2] == "up Linear: fine, score 0, renamed"
    assert spoken[7:9] == [
        "Functional.mse_loss: not compared, only in the golden",
        "Functional.l1_loss: not compared, only in the target",
    ]


def test_a_call_that_runs_later_than_in_the_golden_is_moved(open_graph: Open) -> None:
    golden = [*GOLDEN[:5], Call("Tensor.mul.0.forward", MLP), *GOLDEN[5:]]
    gelu = golden[2]
    page = open_graph([*golden[:2], *golden[3:6], gelu, *golden[6:]], golden)
    found = page.js(f"return {SIDES}")
    assert found[4:8] == [
        "fc2 Linear | = | fc2 Linear",
        "Functional.linear #1 | = | Functional.linear #1",
        "Tensor.mul | = | Tensor.mul",
        "Functional.gelu | \u21c4 | Functional.gelu",
    ]
    assert sum("\u21c4" in line for line in found) == 1


def test_a_folded_module_shows_the_worst_inside(open_graph: Open) -> None:
    page = open_graph(wrong(GOLDEN, "gelu"), GOLDEN)
    line = f"{LINES}[1]"
    assert page.js(f"return {line}.querySelector('.severity').innerText").split()[1:] == ["carries", "it", "on"]
    page.js(f"{line}.querySelector('.twisty').click()")
    assert page.js(f"return {line}.querySelector('.severity').innerText").split()[1:] == [
        "wrong",
        "here",
        "inside",
        "3",
    ]
    assert page.js(f"return {SIDES}")[2] == "Functional.mse_loss | = | Functional.mse_loss"
    page.click("#graph-unfold")
    assert len(page.js(f"return {SIDES}")) == 12
    page.click("#graph-fold")
    assert [each.split(" | ")[0] for each in page.js(f"return {SIDES}")] == [
        "Forward 7", "mlp MLP", "Functional.mse_loss", "Backward 3", "mlp MLP",
    ]  # fmt: skip


def test_search_and_filters_show_hits_with_what_is_around_them(open_graph: Open) -> None:
    page = open_graph(renamed(wrong(GOLDEN, "gelu"), mse_loss="l1_loss"), GOLDEN)
    page.keys("linear.1.backw", "#graph-search")
    page.wait(f"{COUNT} === '1 of 11 calls'")
    assert [each.split(" | ")[0] for each in page.js(f"return {SIDES}")] == [
        "Backward 3", "mlp MLP", "fc2 Linear", "Functional.linear #1",
    ]  # fmt: skip
    page.keys("x", "#graph-search")
    page.wait("document.querySelector('#graph .nothing')")
    page.keys(ESCAPE, "#graph-search")
    assert page.js(f"return {COUNT}") == "11 calls"
    assert page.js("return document.querySelector('#graph .nothing')") is None
    page.click("#graph-filters [data-name=target_only]")
    assert page.js(f"return {SIDES}") == ["Forward 8", "Functional.l1_loss | + | not in the golden"]
    page.click("#graph-filters [data-name=origin]")
    assert [each.split(" | ")[0] for each in page.js(f"return {SIDES}")] == [
        "Forward 8", "mlp MLP", "Functional.gelu", "Functional.l1_loss",
    ]  # fmt: skip
    page.click("#graph-reset")
    assert page.js(f"return {COUNT}") == "11 calls"


def test_keys_go_to_what_is_not_fine_and_back(open_graph: Open) -> None:
    target = renamed(wrong(GOLDEN, "gelu"), mse_loss="l1_loss")
    page = open_graph(target, GOLDEN)
    titles = []
    for key in "nnnpp":
        page.keys(key, "#graph-box")
        titles.append(page.js(f"return {TITLE}"))
    assert titles[:3] == ["Module.mlp.fc2.Linear", "Functional.linear #1", "Functional.mse_loss"]
    assert titles[3:] == ["Functional.linear #1", "Module.mlp.fc2.Linear"]


def test_arrow_keys_walk_fold_and_open(open_graph: Open) -> None:
    page = open_graph(GOLDEN, GOLDEN)
    box = "#graph-box"
    page.keys(DOWN + DOWN, box)
    assert page.js(f"return {CURRENT}") == "mlp MLP: fine, score 0"
    page.keys(LEFT, box)
    assert page.js(f"return {LINES}.length") == 7
    page.keys(RIGHT + RIGHT, box)
    assert page.js(f"return {CURRENT}") == "fc1 Linear: fine, score 0"
    page.keys(LEFT + LEFT, box)
    assert page.js(f"return {CURRENT}") == "mlp MLP: fine, score 0"
    page.keys(END + ENTER, box)
    assert page.js(f"return {TITLE}") == "Functional.linear #1 (backward)"
    assert page.js("return document.activeElement.id") == "graph-box"
    assert page.js("return document.getElementById('graph-box').getAttribute('aria-activedescendant')") == page.js(
        "return document.querySelector('#graph .call[aria-selected=true]').id"
    )
    page.keys(ESCAPE, box)
    assert page.js("return document.getElementById('panel').hidden") is True


def test_the_panel_tells_everything_of_a_call(open_graph: Open) -> None:
    page = open_graph(wrong(GOLDEN, "gelu"), GOLDEN)
    chosen(page, "Functional.gelu.0.forward")
    panel = page.text("#panel")
    for text in ("wrong here", "mlp MLP", "demo/model.py:34", "h = self.fc(h) * 1.1", "exact", "100 %"):
        assert text in panel
    assert page.js(
        "return [...document.querySelectorAll('#panel .items tr')].map((tr) => tr.innerText.split(/\\s*\\t\\s*/))"
    ) == [
        ["tensor", "norm rel", "max rel", "mean rel", "role"],
        ["input 0\nfloat32 [4, 8]", "0", "0", "0", "\u25cf\nfine"],
        ["output 0\nfloat32 [4, 8]", "2.00e0", "2.00e0", "2.00e0", "\u25c6\nwrong here"],
    ]
    page.js("document.querySelectorAll('#panel .items button')[1].click()")
    assert page.js(f"return {TITLE}") == "Functional.gelu output 0"
    page.click("#to-graph")
    assert page.js(f"return {TITLE}") == "Functional.gelu"
    chosen(page, "Module.mlp.MLP.forward.0")
    assert "3 calls of 5 are not fine" in page.text("#panel")


def test_a_line_of_a_layer_mapping_is_offered_and_pairs_what_had_no_partner(open_graph: Open, tmp_path: Path) -> None:
    target = renamed(GOLDEN, fc1="up", fc2="down")
    page = open_graph(target, GOLDEN)
    offered: dict[str, dict[str, str]] = {}
    for entry in ("Module.mlp.up.Linear.forward.0", "Module.mlp.down.Linear.forward.0"):
        chosen(page, entry)
        for owner, children in yaml.safe_load(page.text("#panel .candidates .snippet")).items():
            offered.setdefault(owner, {}).update(children)
    assert offered == {"MLP": {"up": "fc1", "down": "fc2"}}
    (tmp_path / "offered.yaml").write_text(yaml.safe_dump(offered), encoding="utf-8")
    run = pf.compare(
        tmp_path / "target",
        tmp_path / "golden",
        match={"uses": "match.layer_mapping", "mapping": str(tmp_path / "offered.yaml")},
    )
    assert run.verdict == "pass"
    assert {row.verdict.value for row in run.rows()} == {"pass"}


FIRST_OFFERS = """
const [done] = arguments;
probeFlow.load().then((store) => {
  const calls = probeFlow.callsOf(store);
  const mapping = new probeFlow.LayerMapping(store, calls);
  const found = [];
  for (const call of calls.lines) {
    if (calls.meeting(call) !== "target_only" || mapping.unknownAround(call) !== null) continue;
    const first = mapping.candidates(call)[0];
    const { yaml } = first === undefined ? {} : mapping.pairing(call.target, first.call.golden);
    if (yaml) found.push(yaml.join("\\n"));
  }
  done(found);
});
"""


def test_the_first_offers_lead_from_a_mindspore_model_to_its_pytorch_twin(open_page: Any, tmp_path: Path) -> None:
    for name in ("ms_tensor_pair", "pt_tensor_twin"):
        with tarfile.open(DATA / f"{name}.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
    offered: dict[str, dict[str, str]] = {}
    match: dict[str, str] = {"uses": "match.layer_mapping"}
    for round_number in range(4):
        out = tmp_path / f"run_{round_number}"
        run = pf.compare(tmp_path / "golden", tmp_path / "twin", match=match, reports="html", output=out, cache=False)
        if run.verdict == "pass":
            break
        page = open_page(out / "report.html")
        for text in page.driver.execute_async_script(FIRST_OFFERS):
            for owner, children in yaml.safe_load(text).items():
                for child, partner in children.items():
                    assert offered.setdefault(owner, {}).setdefault(child, partner) == partner
        (tmp_path / "offered.yaml").write_text(yaml.safe_dump(offered), encoding="utf-8")
        match["mapping"] = str(tmp_path / "offered.yaml")
    assert run.verdict == "pass"
    assert offered == {
        "TopLayer": {"layer": "block"},
        "Layer": {"norm1": "ln1", "attention": "attn", "norm2": "ln2", "up": "fc1", "down": "fc2"},
        "Attention": {"query": "q_proj", "key": "k_proj", "value": "v_proj"},
    }


def test_what_is_inside_a_call_without_partner_waits_for_it(open_graph: Open) -> None:
    page = open_graph(renamed(GOLDEN, mlp="ffn", fc1="up"), GOLDEN)
    chosen(page, "Module.ffn.up.Linear.forward.0")
    assert "Find the partner of what is around it first: ffn MLP" in page.text("#panel")
    page.js("[...document.querySelectorAll('#panel button')].find((each) => each.innerText === 'ffn MLP').click()")
    assert page.text("#panel .candidates .snippet") == "TopLayer:\n  ffn: mlp\n"


def test_what_only_the_golden_has_is_offered_too(open_graph: Open) -> None:
    page = open_graph(renamed(GOLDEN, fc1="up"), GOLDEN)
    chosen(page, "Module.mlp.fc1.Linear.forward.0", side="golden")
    assert page.text("#panel .candidates button") == "Module.mlp.up.Linear"
    assert page.text("#panel .candidates .snippet") == "MLP:\n  up: fc1\n"


def test_an_address_opens_a_call(open_graph: Open, open_page: Any, tmp_path: Path) -> None:
    page = open_graph(GOLDEN, GOLDEN)
    chosen(page, "Functional.linear.1.backward")
    address = page.js("return location.hash")
    assert page.js("return document.getElementById('call-link').getAttribute('href')") == address
    page = open_page(tmp_path / "run" / "report.html", address=address)
    assert page.js(f"return {TITLE}") == "Functional.linear #1 (backward)"
    assert page.js(f"return {CURRENT}").startswith("Functional.linear #1")
    top = page.js("return document.getElementById('graph').getBoundingClientRect().top")
    assert 0 <= top < 200


def test_one_dump_alone_has_a_graph_too(open_graph: Open) -> None:
    dump = wrong(GOLDEN, "gelu", float("inf"))
    page = open_graph(dump)
    assert page.js(f"return {SIDES}")[:5] == [
        "Forward 7",
        "mlp MLP",
        "fc1 Linear",
        "Functional.linear",
        "Functional.gelu",
    ]
    assert page.js(f"return {CURRENT}").startswith("Functional.gelu: wrong here")
    chosen(page, "Functional.gelu.0.forward")
    assert {"Place", "overflow critical (target)"} <= set(page.text("#panel").split("\n"))
    assert page.js("return document.querySelector('#graph .graph-head').innerText").split() == [
        "call",
        "overflow",
        "largest",
        "severity",
    ]


def test_a_call_that_construct_json_alone_names_has_a_line(open_graph: Open) -> None:
    calls = [*GOLDEN[:2], Call("Functional.dropout.0.forward", MLP, None), *GOLDEN[2:]]
    page = open_graph(calls, calls)
    assert page.js(f"return {SIDES}")[3:6] == [
        "Functional.linear | = | Functional.linear",
        "Functional.dropout | = | Functional.dropout",
        "Functional.gelu | = | Functional.gelu",
    ]
    assert page.js(f"return {SPOKEN}")[4] == "Functional.dropout: no tensors"


def test_hostile_names_are_text(open_graph: Open) -> None:
    name = f"Module.{HOSTILE.replace('.', '')}.MLP.forward.0"
    calls = [Call("Functional.gelu.0.forward", name, 3.0), Call(name)]
    page = open_graph(calls, [call._replace(output=1.0) for call in calls])
    assert "\\u202e\u00df\u65e5" in page.js(f"return {SIDES}")[1]
    page.keys("window", "#graph-search")
    page.wait(f"{COUNT} === '1 of 2 calls'")
    page.js(f"{LINES}[1].click()")
    assert "<script>" in page.js(f"return {TITLE}")
    assert page.js("return location.hash").startswith("#graph?call=Module.%3C%2Fscript%3E")
    assert page.js("return window.hacked") is None
    assert page.js("return document.images.length + document.querySelectorAll('#app script').length") == 0


def test_a_dump_without_callers_has_no_graph(open_graph: Open) -> None:
    calls = [Call("Torch.add.0.forward"), Call("Torch.mul.0.forward")]
    page = open_graph(calls, calls)
    assert page.js("return document.getElementById('graph').hidden") is True
    assert page.js("return document.getElementById('graph-jump').hidden") is True


CALLS_OF = """
const [done] = arguments;
probeFlow.load().then((store) => {
  const { lines } = probeFlow.callsOf(store);
  const name = (node) => (node === null ? null : store.entry(node) ?? store.nodeName(node));
  const words = (node) => [name(node), name(store.node.above(node))];
  const of = (side) => lines.filter((call) => call[side] !== null).map((call) => words(call[side]));
  done([of("target"), of("golden")]);
});
"""


REAL = [("pt_stat_bug", "pt_stat_base"), ("pt_tensorL0_bug", "pt_tensorL0_base")]


@pytest.mark.parametrize(("target", "golden"), REAL)
def test_every_call_of_real_dumps_has_a_line_below_its_caller(
    open_page: Any, tmp_path: Path, target: str, golden: str
) -> None:
    pf.compare(DATA / target, DATA / golden, match="name", reports="html", output=tmp_path / "run", cache=False)
    page = open_page(tmp_path / "run" / "report.html")
    shown = page.driver.execute_async_script(CALLS_OF)
    for name, lines in zip((target, golden), shown, strict=True):
        (tree,) = call_trees(pf.read_dump(DATA / name)).values()
        callers = [None if caller == ROOT else tree.calls[caller].entry for caller in tree.callers]
        assert sorted(map(str, lines)) == sorted(
            str([call.entry, caller]) for call, caller in zip(tree.calls, callers, strict=True)
        )


GROUPS_OF = """
const [done] = arguments;
probeFlow.load().then((store) => done(Array.from({ length: store.count }, (_, row) => store.group(row))));
"""


@pytest.mark.parametrize(("target", "golden"), REAL)
def test_every_row_is_of_the_group_that_its_record_names(
    open_page: Any, tmp_path: Path, target: str, golden: str
) -> None:
    reports = ("html", "jsonl")
    pf.compare(DATA / target, DATA / golden, match="name", reports=reports, output=tmp_path / "run", cache=False)
    lines = (tmp_path / "run" / "comparison.jsonl").read_text(encoding="utf-8").splitlines()
    page = open_page(tmp_path / "run" / "report.html")
    assert page.driver.execute_async_script(GROUPS_OF) == [json.loads(line)["group"] for line in lines]


def rows_of(nodes: Sequence[Node], wrong: int | None = None) -> list[Row]:
    """A row for each call; what is called behind ``wrong`` carries its error on."""
    roles = [
        Role.CLEAN if wrong is None or n < wrong else Role.INHERITED if n > wrong else Role.ORIGIN
        for n in range(len(nodes))
    ]
    return [
        compared(n, each, SlotRole.OUTPUT, role=role, error=0.0 if role is Role.CLEAN else 0.5)
        for n, (each, role) in enumerate(zip(nodes, roles, strict=True))
    ]


def graph_of(nodes: Sequence[Node], rows: Sequence[Row], **more: Any) -> Any:
    sides = {side: catalog(side, [], nodes={each.key: each for each in nodes}) for side in ("target", "golden")}
    return comparison(*rows, **sides, **more)


def test_scores_and_levels_are_shown_where_they_are_given(open_report: Open) -> None:
    outer, inner = node("Module.mlp.MLP", "module"), node("Functional.gelu", "api", above="Module.mlp.MLP.forward.0")
    levels = {
        "target": SideFigures(levels={inner.key: "critical"}),
        "golden": SideFigures(levels={outer.key: "medium"}),
    }
    figures = CallFigures({inner.key: 0.8125}, levels)
    page = open_report(graph_of((inner, outer), rows_of((inner, outer))), figures=figures)
    of_line = "[...line.querySelectorAll('.figure, .level')].map((cell) => cell.innerText).filter(Boolean)"
    cells = f"{LINES}.map((line) => {of_line})"
    assert page.js(f"return {cells}") == [[], ["medium"], ["critical", "0.8125"]]
    assert page.js("return document.querySelector('#graph .graph-head .figure').innerText") == "score"
    page.js(f"{LINES}[2].click()")
    assert {"overflow critical (target)", "score 0.8125 of 1, where 0 is equal"} <= set(page.text("#panel").split("\n"))


def test_figures_of_calls_keep_to_their_line_on_narrow_pages(open_report: Open) -> None:
    outer, inner = node("Module.mlp.MLP", "module"), node("Functional.gelu", "api", above="Module.mlp.MLP.forward.0")
    page = open_report(graph_of((inner, outer), rows_of((inner, outer))), figures=CallFigures({inner.key: 1.9354e-5}))
    size = {"width": 600, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        page.js("return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        figure = f"{LINES}[2].querySelector('.figure')"
        text, height, over = page.js(
            f"return [{figure}.innerText, {figure}.offsetHeight, {figure}.scrollWidth - {figure}.clientWidth]"
        )
        assert text.startswith("1.935e")
        assert height < 28
        assert over <= 0
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_each_execution_has_a_graph_and_keys_go_through_all(open_report: Open) -> None:
    nodes = [
        node(
            "Functional.gelu",
            "api",
            above="Module.mlp.MLP.forward.0",
            parent="Module.mlp.MLP",
            execution=Execution(rank, 0),
        )
        for rank in (0, 1)
    ]
    rows = rows_of(nodes, wrong=1)
    page = open_report(
        graph_of(nodes, rows, findings=(origin(1, "Functional.gelu", node=nodes[1].key),), gate_passed=False)
    )
    assert page.js("return document.getElementById('graph-execution').selectedOptions[0].innerText") == "rank 1 step 0"
    assert page.js(f"return {SPOKEN}") == [
        "Forward: 2 calls",
        "mlp MLP: no tensors",
        "Functional.gelu: wrong here, error 5.00e\u22121",
    ]
    select = "const select = document.getElementById('graph-execution'); select.selectedIndex = 0;"
    page.js(f"{select} select.dispatchEvent(new Event('change'))")
    assert page.js(f"return {SPOKEN}")[2] == "Functional.gelu: fine, error 0"
    assert page.js("return document.querySelector('#graph-filters [data-name=origin]').hidden") is True
    page.js("document.querySelector('#graph .call').click()")
    page.click("#graph-previous")
    assert page.js("return document.getElementById('graph-execution').selectedOptions[0].innerText") == "rank 0 step 0"
    page.click("#graph-next")
    assert page.js("return document.getElementById('graph-execution').selectedOptions[0].innerText") == "rank 1 step 0"


def test_two_calls_with_one_partner_keep_their_lines(open_report: Open) -> None:
    outer = node("Module.mlp.MLP", "module")
    one, other, golden = (node(name, "api", above=outer.entry) for name in ("Torch.mul", "Torch.add", "Torch.addcmul"))
    rows = [compared(n, each, SlotRole.OUTPUT, golden_more={"node": golden.key}) for n, each in enumerate((one, other))]
    sides = {
        "target": catalog("target", [], nodes={each.key: each for each in (one, other, outer)}),
        "golden": catalog("golden", [], nodes={each.key: each for each in (golden, outer)}),
    }
    page = open_report(comparison(*rows, compared(2, outer, SlotRole.OUTPUT), **sides))
    assert page.js(f"return {SIDES}")[2:] == [
        "Torch.mul | \u2248 | Torch.addcmul",
        "Torch.add | \u2248 | Torch.addcmul",
    ]
    page.js(f"{LINES}[3].click()")
    assert "also with\nTorch.mul" in page.text("#panel")


def test_a_call_with_two_partners_names_both(open_report: Open) -> None:
    outer = node("Module.mlp.MLP", "module")
    target, one, other = (node(name, "api", above=outer.entry) for name in ("Torch.addcmul", "Torch.mul", "Torch.add"))
    wrong = {"role": Role.ORIGIN, "error": 0.5}
    rows = [
        compared(0, target, SlotRole.OUTPUT, golden_more={"node": one.key}),
        compared(1, target, SlotRole.INPUT, golden_more={"node": other.key}, **wrong),
        compared(2, outer, SlotRole.OUTPUT),
    ]
    sides = {
        "target": catalog("target", [], nodes={each.key: each for each in (target, outer)}),
        "golden": catalog("golden", [], nodes={each.key: each for each in (one, other, outer)}),
    }
    page = open_report(comparison(*rows, **sides))
    assert page.js(f"return {SIDES}")[2:] == [
        "Torch.addcmul | \u2248 | Torch.mul",
        "compared with another line | \u222a | Torch.add",
    ]
    assert (
        page.js(f"return {SPOKEN}")[3]
        == "Torch.add: wrong here, error 5.00e\u22121, compared together with another call"
    )


def test_a_very_deep_model_opens(open_report: Open) -> None:
    names = [f"Module.{'.'.join('m' * (depth + 1))}.Net" for depth in range(2000)]
    nodes = [
        node(name, "module", above=None if depth == 0 else f"{names[depth - 1]}.forward.0")
        for depth, name in enumerate(names)
    ]
    page = open_report(graph_of(nodes[::-1], rows_of(nodes[::-1])))
    page.click("#graph-unfold")
    page.keys(END, "#graph-box")
    assert page.js(f"return {CURRENT}").startswith("m Net: fine")
    assert page.js(f"return {COUNT}") == "2,000 calls"


MOST_BYTES = 3_000_000
AT_ONCE_MS = 1000
"""What a person waits for; some 60 on an idle machine."""


def blocks(count: int) -> list[Node]:
    """Blocks of 8 modules with a call each, forward and backward: 34 calls a block."""
    found: list[Node] = []
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        for block in range(count):
            outer = f"Module.layers.{block}.Block"
            for n in range(8):
                inner = f"Module.layers.{block}.linear{n}.Linear"
                entry, around = (f"{name}.{phase.value}.0" for name in (inner, outer))
                found.append(node("Functional.linear", "api", call=8 * block + n, above=entry, phase=phase))
                found.append(node(inner, "module", above=around, phase=phase))
            found.append(node(outer, "module", phase=phase))
    return found


def test_five_thousand_calls_take_three_megabytes_at_most(open_report: Open, tmp_path: Path) -> None:
    nodes = blocks(147)
    rows = [
        compared(order, each, role, error=order / 7, status=Status.FAIL, mode=Mode.STATISTICS)
        for order, (each, role) in enumerate(
            (each, role) for each in nodes for role in (SlotRole.INPUT, SlotRole.OUTPUT)
        )
    ]
    page = open_report(graph_of(nodes, rows))
    assert page.js(f"return {COUNT}") == "4,998 calls"
    assert (tmp_path / "report.html").stat().st_size < MOST_BYTES


def test_fifty_thousand_calls_are_fluid(open_report: Open) -> None:
    nodes = blocks(1470)
    wrong = 30_000
    finding = origin(wrong, nodes[wrong].key.name, node=nodes[wrong].key)
    page = open_report(graph_of(nodes, rows_of(nodes, wrong), findings=(finding,), gate_passed=False))
    assert page.js(f"return {COUNT}") == "49,980 calls"
    assert "wrong here" in page.js(f"return {CURRENT}")
    timed = "const t = performance.now(); {}; document.body.offsetHeight; return performance.now() - t"
    assert page.js(timed.format("document.getElementById('graph-unfold').click()")) < AT_ONCE_MS
    assert page.js("return document.getElementById('graph-box').getAttribute('aria-rowcount')") == "49982"
    page.js("const box = document.getElementById('graph-box'); box.scrollTop = box.scrollHeight / 2")
    page.wait(f"{LINES}.some((line) => Math.abs(line.getAttribute('aria-rowindex') - 24991) < 30)")
    assert page.js(f"return {LINES}.length") < 60
    page.keys("layers.77.linear3", "#graph-search")
    page.wait(f"{COUNT} === '2 of 49,980 calls'")
    page.keys(ESCAPE, "#graph-search")
    assert page.js(timed.format("document.getElementById('graph-next').click()")) < AT_ONCE_MS
    assert page.js(f"return {CURRENT}").split(": ")[1].startswith("carries it on")


def test_damaged_callers_leave_every_call_in_the_graph(open_graph: Open) -> None:
    outer, inner = "Module.a.Net.forward.0", "Module.a.b.Net.forward.0"
    calls = [
        Call("Functional.gelu.0.forward", inner),
        Call(inner, outer),
        Call(outer, inner),  # a circle
        Call("Functional.relu.0.forward", "Module.gone.Net.forward.3"),  # nowhere else
        Call("Functional.relu.1.forward", ""),
    ]
    page = open_graph(calls, calls)
    spoken = page.js(f"return {SPOKEN}")
    assert sorted(text.split(":")[0] for text in spoken[1:]) == [
        "Functional.gelu", "Functional.relu", "Functional.relu #1", "a Net", "b Net", "gone Net #3",
    ]  # fmt: skip
    assert page.js(f"return {COUNT}") == "6 calls"


def test_micro_steps_stand_under_headings_of_their_own(open_graph: Open) -> None:
    """Position tells them where the dump does not: a forward pass behind a backward one begins the next."""
    both = (Call("Functional.gelu.0.forward", MLP), Call(MLP), Call("Functional.gelu.0.backward", BACK), Call(BACK))
    again = [Call(*(part and part.replace("d.0", "d.1").replace("u.0", "u.1") for part in call[:2])) for call in both]
    page = open_graph([*both, *again], [*both, *again])
    assert [each for each in page.js(f"return {SPOKEN}") if "calls" in each] == [
        "Micro step 0: Forward: 2 calls",
        "Micro step 0: Backward: 2 calls",
        "Micro step 1: Forward: 2 calls",
        "Micro step 1: Backward: 2 calls",
    ]


def test_a_call_leads_to_those_of_other_ranks_that_it_talks_to(
    open_page: Callable[[Path], Any], tmp_path: Path
) -> None:
    reduce = "Distributed.all_reduce.0.forward"
    calls = {reduce: "Module.net.Net.forward.0", "Module.net.Net.forward.0": None}
    for side, given in (("target", 4.0), ("golden", 1.0)):
        write_dump(tmp_path / side / "step0" / "rank0", construct=calls)
        write_dump(tmp_path / side / "step0" / "rank1", construct=calls, values={reduce: given})
    sides = (str(tmp_path / side) for side in ("target", "golden"))
    pf.compare(*sides, match="name", reports="html", output=tmp_path / "run", cache=False)
    page = open_page(tmp_path / "run" / "report.html")
    page.js("location.hash = arguments[0]", f"#graph?call={reduce}&side=target&execution=rank 0 step 0")
    page.wait("document.querySelector('.links.ranks li')")
    line = "document.querySelector('.links.ranks li').innerText.split('\\n').map((text) => text.trim()).filter(Boolean)"
    assert page.js(f"return {line}")[:2] == ["exchanges with rank 1 step 0", "Distributed.all_reduce"]
    assert "wrong here" in page.js(f"return {line}.join(' ')")
    page.js("document.querySelector('.links.ranks button').click()")
    page.wait("document.getElementById('graph-execution').selectedOptions[0].innerText === 'rank 1 step 0'")
    assert page.js(f"return {CURRENT}").startswith("Distributed.all_reduce: wrong here")
