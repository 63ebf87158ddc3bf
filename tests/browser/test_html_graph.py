"""The graph in the HTML report: calls of target and golden side by side, from dumps through the whole comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from graph_dumps import Call, write_calls

import probe_flow as pf

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
    assert page.js(f"return {CURRENT}") == "Functional.gelu: wrong here, error 2.00e0"
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
    assert spoken[2] == "up Linear: fine, error 0, renamed"
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
    assert page.js(f"return {CURRENT}") == "mlp MLP: fine, error 0"
    page.keys(LEFT, box)
    assert page.js(f"return {LINES}.length") == 7
    page.keys(RIGHT + RIGHT, box)
    assert page.js(f"return {CURRENT}") == "fc1 Linear: fine, error 0"
    page.keys(LEFT + LEFT, box)
    assert page.js(f"return {CURRENT}") == "mlp MLP: fine, error 0"
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
    assert "Place" in page.text("#panel")
    assert page.js("return document.querySelector('#graph .graph-head').innerText").split() == [
        "call",
        "error",
        "severity",
    ]


def test_a_call_that_construct_json_alone_names_has_a_line(open_graph: Open) -> None:
    calls = [*GOLDEN[:3], Call("Functional.dropout.0.forward", MLP, None), *GOLDEN[3:]]
    page = open_graph(calls, calls)
    assert page.js(f"return {SIDES}")[5] == "Functional.dropout | = | Functional.dropout"
    assert page.js(f"return {SPOKEN}")[5] == "Functional.dropout: no tensors"


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
