"""What the pictures of the HTML report say: they agree with the verdict, and an origin is what the eye sees first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace
from report_builders import comparison, key, measurement, missing_golden, origin, row, tensor
from report_pictures import COLOURS, MARKS, WRITTEN

from probe_flow.records import (
    Comparison,
    Excuse,
    ExcuseKind,
    FindingKind,
    NodeKey,
    Role,
    Row,
    Status,
)

pytestmark = pytest.mark.browser

Open = Callable[..., Any]

BOTH_THEMES = pytest.mark.parametrize("scheme", ["light", "dark"])

CELLS = (
    COLOURS
    + """
// The prominence of every cell of the heat map, by its operator and its column: the contrast to the background.
const canvas = document.querySelector('#heat-map canvas');
const {width, height} = canvas;
const {data} = canvas.getContext('2d').getImageData(0, 0, width, height);
const [label, column, head, line] = arguments;
const surface = getComputedStyle(document.querySelector('.card')).backgroundColor;
const rows = [];
for (let y = head + 4; y < height - 2; y += line) {
  const cells = [];
  for (let x = label + 3; x < width - 2; x += column) {
    const [r, g, b, a] = data.slice(4 * (y * width + x), 4 * (y * width + x) + 4);
    cells.push(a === 255 ? contrast(`${r} ${g} ${b}`, surface) : 1);
  }
  rows.push(cells);
}
return rows;
"""
)
BADGES = "[...document.querySelectorAll('#table .tabulator-row .badge')].map((badge) => badge.classList[1])"
PARTS = "[...document.querySelectorAll('#verdict .counts li')].map((each) => each.innerText.replace(/\\s+/g, ' '))"
LEGEND = "[...document.querySelectorAll('#legend li')].map((each) => each.innerText)"
SAID = "document.getElementById('said').textContent"
DOWN, HOME, RIGHT = "\ue015", "\ue011", "\ue014"
MAP = "#heat-map"


def found(
    order: int,
    name: str,
    status: Status = Status.PASS,
    role: Role = Role.CLEAN,
    *,
    error: float | None = 1e-4,
    excess: float | None = 0.2,
    node: NodeKey | None = None,
    golden: NodeKey | None = None,
) -> Row:
    metrics: dict[str, Any] = {} if error is None else {"relative_euclidean_distance": error, "cosine": 1.0}
    made = row(
        order,
        target=tensor(node=node or key(name)),
        golden=tensor(side="golden", node=golden or key(name.lower())),
        measured=measurement(metrics),
        status=status,
        role=role,
    )
    return replace(made, verdict=replace(made.verdict, excess=excess))


def apart(order: int, name: str, *, node: NodeKey | None = None) -> Row:
    """An origin that only the target has: nothing was measured of it."""
    made = missing_golden(order, name)
    target = tensor(node=node or key(name))
    return replace(
        made, pair=replace(made.pair, target=target), verdict=replace(made.verdict, role=Role.ORIGIN, excess=None)
    )


def published_against_verdict() -> Comparison:
    """Healthy rows fail the published rule; what is wrong, and all that carries it on, pass it."""
    rows = [found(place, f"Healthy_{place}", Status.FAIL) for place in range(6)]
    rows.append(found(6, "Wrong_6", Status.PASS, Role.ORIGIN, error=0.3, excess=25.0))
    rows += [found(7 + place, f"Heir_{place}", Status.PASS, Role.INHERITED, error=0.4) for place in range(6)]
    return comparison(*rows, findings=(origin(6, "Wrong_6"),), gate_passed=False, policy="dump_json")


def without_counterpart() -> Comparison:
    rows = [
        found(0, "Fine_0"),
        apart(1, "Extra_1"),
        *(found(2 + n, f"Heir_{n}", Status.PASS, Role.INHERITED, error=0.4) for n in range(4)),
    ]
    return comparison(*rows, findings=(replace(origin(1, "Extra_1"), severity=66.0),), gate_passed=False)


@BOTH_THEMES
def test_the_most_prominent_mark_of_the_plot_is_the_origin(open_report: Open, scheme: str) -> None:
    page = open_report(published_against_verdict(), scheme=scheme)
    marks = page.js(MARKS)
    others = 6 * 6
    assert marks["origin"]["count"] > 100  # a diamond of 20 pixels, not counting its name
    assert 0 < marks["fine"]["count"] <= 6 * others
    contrasts = page.js(
        COLOURS + "const surface = getComputedStyle(document.querySelector('.card')).backgroundColor;"
        "const names = ['origin', 'inherited', 'over', 'fine', 'missing', 'gap'];"
        "return names.map((name) => contrast(tone(`${name}-mark`), surface))"
    )
    assert max(contrasts) == contrasts[0]
    assert page.js(f"return {LEGEND}") == ["wrong here", "carries it on", "fine"]


def test_what_carries_an_error_on_never_looks_fine(open_report: Open) -> None:
    rows = published_against_verdict().rows[6:]
    page = open_report(comparison(*rows, findings=(origin(6, "Wrong_6"),), gate_passed=False))
    marks = page.js(MARKS)
    assert marks["fine"]["count"] == 0
    assert marks["inherited"]["count"] > 0
    assert page.js(f"return {BADGES}") == ["origin", *["inherited"] * 6]
    assert page.js(f"return {LEGEND}") == ["wrong here", "carries it on"]


def test_healthy_rows_look_fine_though_the_row_rule_fails_them(open_report: Open) -> None:
    page = open_report(comparison(*published_against_verdict().rows[:6], policy="dump_json"))
    marks = page.js(MARKS)
    assert [name for name, mark in marks.items() if mark["count"]] == ["fine"]
    assert page.text("#verdict .word") == "PASS"
    assert page.js(f"return {PARTS}") == ["6 \u25cf fine"]
    assert page.text("#row-rule").startswith("Row rule dump_json: 6 fail. ")
    assert page.js(f"return {BADGES}") == ["fine"] * 6
    rules = page.js("return [...document.querySelectorAll('#table [tabulator-field=status]')].map((c) => c.innerText)")
    assert rules[-6:] == ["fail"] * 6
    accusing = page.js(
        COLOURS + "const tones = ['origin-1', 'origin-2', 'origin-3', 'origin-mark'].map(tone);"
        "return [...document.querySelectorAll('main *')].filter((each) => {"
        " const {color, backgroundColor} = getComputedStyle(each);"
        " const plain = [color, backgroundColor].map((text) => text.match(/\\d+/g)?.slice(0, 3).join(' '));"
        " return plain.some((text) => tones.includes(text)); })"
        ".map((each) => each.outerHTML)"
    )
    assert accusing == []


def test_the_counts_are_by_role_and_agree_with_the_headline(open_report: Open) -> None:
    rows = (*published_against_verdict().rows, missing_golden(13), missing_golden(14, "Cast_1", expected=True))
    page = open_report(comparison(*rows, findings=(origin(6, "Wrong_6"),), gate_passed=False, policy="dump_json"))
    assert page.text("#verdict .word") == "FAIL"
    assert page.js(f"return {PARTS}") == [
        "1 \u25c6 wrong here",
        "6 \u21b3 carries it on",
        "1 \u25d0 missing",
        "6 \u25cf fine",
        "1 \u2013 not compared",
    ]
    chips = page.js(
        "return [...document.querySelectorAll('#filters .chip[data-role]')].map((chip) => chip.dataset.role)"
    )
    assert chips == ["origin", "inherited", "missing", "fine", "gap"]
    page.click("#filters .chip[data-role=missing]")
    assert page.js(f"return {BADGES}") == ["missing"]
    assert page.text("#row-rule").startswith("Row rule dump_json: 7 pass, 6 fail, 2 unmatched target")
    sizes = page.js(
        "return ['.counts b', '#row-rule'].map((s) => parseFloat(getComputedStyle(document.querySelector(s)).fontSize))"
    )
    assert page.js("return document.querySelector('#row-rule').classList.contains('muted')")
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize(
    ("incomplete", "passed", "said"),
    [
        ((), True, "Gate findings passed, policy"),
        ((), False, "Gate findings failed, policy"),
        (("rank 3 has no pair",), True, "Gate findings not decided: the run is incomplete, policy"),
        (("rank 3 has no pair",), False, "Gate findings failed, policy"),
    ],
)
def test_a_gate_passes_complete_runs_only(
    open_report: Open, incomplete: tuple[str, ...], passed: bool, said: str
) -> None:
    page = open_report(comparison(found(0, "Add_0"), gate_passed=passed, incomplete=incomplete, policy="dump_json"))
    assert page.text("#next").split("\n")[-1].startswith(said)


@BOTH_THEMES
def test_an_origin_without_counterpart_stands_at_the_edge_of_the_plot_with_a_word(
    open_report: Open, scheme: str
) -> None:
    page = open_report(without_counterpart(), scheme=scheme)
    marks = page.js(MARKS)
    assert marks["origin"]["count"] > 100
    middle = (marks["inherited"]["top"] + marks["inherited"]["bottom"]) / 2
    assert marks["origin"]["top"] < middle - 40
    texts = page.driver.execute_async_script(WRITTEN)
    assert "no figure" in [text for text, _ in texts]
    named = [tone for text, tone in texts if text == "wrong here: Extra_1 (no counterpart)"]
    assert named == [page.js("return probeFlow.cssColor('origin-mark')")]


def test_an_origin_is_drawn_where_no_row_has_any_figure(open_report: Open) -> None:
    page = open_report(comparison(apart(0, "Extra_0"), findings=(origin(0, "Extra_0"),), gate_passed=False))
    assert page.js(MARKS)["origin"]["count"] > 100
    assert "None of these rows" not in page.text("#plot")


def test_an_origin_of_nan_is_drawn_above_every_number(open_report: Open) -> None:
    wrong = found(1, "Log_1", Status.FAIL, Role.ORIGIN, error=math.nan, excess=math.inf)
    heirs = [found(2 + n, f"Heir_{n}", Status.FAIL, Role.INHERITED, error=0.5, excess=0.0) for n in range(3)]
    finding = replace(origin(1, "Log_1"), kind=FindingKind.NONFINITE_ORIGIN, severity=math.inf)
    page = open_report(comparison(found(0, "Fine_0"), wrong, *heirs, findings=(finding,), gate_passed=False))
    marks = page.js(MARKS)
    assert marks["origin"]["count"] > 100
    assert marks["origin"]["top"] < marks["inherited"]["top"]
    assert "\u221e, NaN" in [text for text, _ in page.driver.execute_async_script(WRITTEN)]


def test_long_names_of_origins_keep_both_ends(open_report: Open) -> None:
    name = "Module." + "layers.0." * 20 + "Linear_7"
    page = open_report(comparison(apart(0, name), findings=(origin(0, name),), gate_passed=False))
    (text,) = [text for text, _ in page.driver.execute_async_script(WRITTEN) if text.startswith("wrong here")]
    assert text.startswith("wrong here: Module.")
    assert text.endswith("Linear_7 (no counterpart)")
    assert len(text) < 80


def test_of_very_many_origins_every_one_has_a_mark(open_report: Open) -> None:
    rows = [found(place, f"Op_{place}", Status.PASS, Role.ORIGIN, error=0.3, excess=3.0) for place in range(400)]
    findings = tuple(origin(each.order, each.pair.shown.node.name) for each in rows)
    page = open_report(comparison(*rows, findings=findings, gate_passed=False))
    marks = page.js(MARKS)
    assert marks["fine"]["count"] == marks["inherited"]["count"] == 0
    assert marks["origin"]["right"] - marks["origin"]["left"] > 1000
    assert page.js(f"return {PARTS}") == ["400 \u25c6 wrong here"]


def test_drift_and_a_gate_on_all_rows_have_marks_that_agree_with_a_fail(open_report: Open) -> None:
    rows = [found(place, f"Op_{place}", error=0.01 * (1 + place), excess=0.8) for place in range(5)]
    drift = replace(origin(4, "Op_4"), kind=FindingKind.DRIFT, evidence="relative error grows")
    page = open_report(comparison(*rows, findings=(drift,), gate_passed=False))
    assert page.text("#headline").startswith("The error grows step by step")
    assert page.js(f"return {PARTS}") == ["1 \u25c9 drifted", "4 \u25cf fine"]
    assert page.js(MARKS)["origin"]["count"] > 60
    failing = [replace(each, verdict=replace(each.verdict, status=Status.FAIL)) for each in rows[:2]]
    page = open_report(comparison(*failing, *rows[2:], gate="all_pass", gate_passed=False))
    assert page.js(f"return {PARTS}") == ["2 \u2715 over its limit", "3 \u25cf fine"]
    assert page.js(MARKS)["over"]["count"] > 0


def test_what_fails_without_a_beginning_is_named_in_the_plot_the_worst_first(open_report: Open) -> None:
    errors = [1e-4, 0.05, 0.1, 0.2, 0.3, 0.4, 1e-4]
    rows = [
        found(at, f"array_{at}", Status.FAIL if error > 0.01 else Status.PASS, error=error)
        for at, error in enumerate(errors)
    ]
    failing = sorted(
        (each for each in rows if each.verdict.status is Status.FAIL), key=lambda each: -errors[each.order]
    )
    findings = tuple(origin(each.order, f"array_{each.order}", kind=FindingKind.FAILURE) for each in failing)
    page = open_report(comparison(*rows, findings=findings, gate="all_pass", gate_passed=False))
    written = page.driver.execute_async_script(WRITTEN)
    named = [text for text, _ in written if text.startswith("over its limit: ")]
    assert named == [f"over its limit: array_{at}" for at in (5, 4, 3, 2)]
    tone = page.js("return probeFlow.cssColor('over-mark')")
    assert {colour for text, colour in written if text in named} == {tone}
    assert page.js(f"return {LEGEND}") == ["over its limit", "fine"]


def test_what_is_waived_stays_marked_and_says_so(open_report: Open) -> None:
    wrong = found(0, "Gelu_1", Status.FAIL, Role.ORIGIN, error=0.3, excess=4.0)
    excuse = Excuse(ExcuseKind.WAIVED, "waived until 2027-01-01 by kim: known")
    wrong = replace(wrong, verdict=replace(wrong.verdict, excuse=excuse))
    finding = replace(origin(0, "Gelu_1"), fails=False, excuse=excuse)
    page = open_report(comparison(wrong, findings=(finding,)))
    assert page.text("#verdict .word") == "PASS"
    assert page.js(f"return {PARTS}") == ["1 \u25c6 wrong here (1 waived or accepted)"]


def rank_rows(rank: int, calls: Sequence[tuple[str, int, int | None]], start: int) -> list[Row]:
    """Calls of one rank as (name, call, call of the golden); without a golden call the rank alone makes it."""
    rows = []
    for name, call, golden in calls:
        node = key(name, rank=rank, call=call)
        order = start + len(rows)
        if golden is None:
            rows.append(apart(order, name, node=node))
            continue
        is_late = name != "relu"
        role = Role.INHERITED if is_late else Role.CLEAN
        # The input of the collective is what shows the error first: hugely more than it may be, and yet no origin.
        excess = 3e6 if (name, rank) == ("all_reduce", 1) else 0.3
        partner = key(name, rank=rank, call=golden)
        rows.append(found(order, name, Status.PASS, role, node=node, golden=partner, error=0.5, excess=excess))
    return rows


def ranks() -> Comparison:
    """Rank 1 alone adds something before a collective; its later addition is then call 1, of rank 0 call 0."""
    first = rank_rows(0, [("relu", 0, 0), ("all_reduce", 0, 0), ("add", 0, 0), ("mul", 0, 0)], 0)
    second = rank_rows(
        1, [("relu", 0, 0), ("add", 0, None), ("all_reduce", 0, 0), ("add", 1, 0), ("mul", 0, 0)], len(first)
    )
    wrong = second[1]
    finding = replace(origin(wrong.order, "add", node=wrong.pair.shown.node), severity=66.0)
    return comparison(*first, *second, findings=(finding,), gate_passed=False)


def heat(open_report: Open, what: Comparison, **more: Any) -> Any:
    page = open_report(what, **more)
    page.js("document.getElementById('executions').scrollIntoView({behavior: 'instant'})")
    page.wait("document.querySelector('#heat-map').ariaLabel")
    page.wait("document.querySelector('#heat-map canvas').width !== 300")
    page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return page


def walked(page: Any, count: int) -> list[str]:
    """What is said of the cells of the second column, from top to bottom."""
    page.js("document.querySelector('#heat-map').focus()")
    said = []
    for keys in (HOME, *[DOWN] * (count - 1)):
        page.keys(keys, MAP)
        if keys == HOME:
            page.keys(RIGHT, MAP)
        said.append(page.js(f"return {SAID}"))
    return said


def test_an_origin_comes_before_what_it_feeds_though_it_shifts_the_numbers_of_calls(open_report: Open) -> None:
    page = heat(open_report, ranks())
    assert walked(page, 5) == [
        "relu, rank 1: fine, 0.3 times its limit",
        "add (no counterpart), rank 1: wrong here, 66 times its limit",
        "all_reduce, rank 1: carries it on, 3000000 times its limit",
        "add, rank 1 as add #1: carries it on, 0.3 times its limit",
        "mul, rank 1: carries it on, 0.3 times its limit",
    ]


@BOTH_THEMES
@pytest.mark.parametrize("mode", ["excess", "error", "role"])
def test_the_most_prominent_cell_is_the_origins(open_report: Open, scheme: str, mode: str) -> None:
    page = heat(open_report, ranks(), scheme=scheme)
    script = (
        "const s = document.getElementById('heat-mode'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))"
    )
    page.js(script, mode)
    page.js("document.activeElement.blur()")
    page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    width = page.js("return document.querySelector('#heat-map .heat-space').offsetWidth") - 2 * 56
    cells = page.js(CELLS, width, 56, 22, 18)
    assert len(cells) == 5
    assert [len(line) for line in cells] == [2] * 5
    prominent = {(line, column): value for line, each in enumerate(cells) for column, value in enumerate(each)}
    first = max(prominent, key=prominent.__getitem__)
    assert first == (1, 1)
    rest = [value for place, value in prominent.items() if place != first]
    assert prominent[first] > 1.5 * max(rest)
    assert cells[1][0] == 1  # rank 0 makes no such call


def test_the_execution_of_the_first_finding_sets_the_order_of_operators(open_report: Open) -> None:
    """Ranks may run in another order: where the error begins, what feeds comes before what is fed."""
    first = rank_rows(0, [("relu", 0, 0), ("mul", 0, 0), ("add", 0, 0)], 0)
    second = rank_rows(1, [("relu", 0, 0), ("add", 0, 0), ("mul", 0, 0)], 3)
    wrong = replace(second[1], verdict=replace(second[1].verdict, role=Role.ORIGIN, excess=7.0))
    rows = (*first, second[0], wrong, second[2])
    finding = origin(4, "add", node=wrong.pair.shown.node)
    page = heat(open_report, comparison(*rows, findings=(finding,), gate_passed=False))
    assert [each.partition(",")[0] for each in walked(page, 3)] == ["relu", "add", "mul"]


@BOTH_THEMES
def test_texts_of_badges_can_be_read_and_the_origins_row_stands_out(open_report: Open, scheme: str) -> None:
    rows = [*published_against_verdict().rows, missing_golden(13), missing_golden(14, "Cast_1", expected=True)]
    odd = found(15, "Odd_1", Status.FAIL, Role.UNKNOWN, excess=None)
    page = open_report(comparison(*rows, odd, findings=(origin(6, "Wrong_6"),), gate_passed=False), scheme=scheme)
    contrasts = page.js(
        COLOURS + "const under = (each) => { for (let at = each; at; at = at.parentElement) {"
        " const {backgroundColor} = getComputedStyle(at);"
        " if (!/, 0\\)|transparent/.test(backgroundColor)) return backgroundColor; } return 'rgb(255, 255, 255)'; };"
        "return Object.fromEntries([...document.querySelectorAll('#table .badge')]"
        ".map((badge) => [badge.classList[1], contrast(getComputedStyle(badge).color, under(badge))]))"
    )
    assert set(contrasts) == {"origin", "inherited", "fine", "missing", "gap", "over"}
    assert min(contrasts.values()) >= 4.5, contrasts
    bars = page.js(
        "return [...document.querySelectorAll('#table .tabulator-row')]"
        ".map((each) => [each.dataset.role, getComputedStyle(each).boxShadow])"
    )
    assert {role for role, shadow in bars if shadow != "none"} == {"origin", "inherited", "over"}
