"""The HTML report as a file: what its data says, and that no text from a dump gets out of it."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from html_data import page_of, payload
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from report_builders import (
    call_comparison,
    catalog,
    comparison,
    good_row,
    key,
    measurement,
    missing_golden,
    missing_target,
    origin,
    row,
    stats,
    tensor,
)

from probe_flow.errors import Diagnostic, IncompleteError, Severity
from probe_flow.records import (
    CallFacts,
    Catalog,
    Comparison,
    Coverage,
    Edge,
    ErrorMap,
    Execution,
    Node,
    NodeKey,
    NodeKind,
    Phase,
    Role,
    SlotRole,
    Status,
    TensorDetail,
)
from probe_flow.records.frameworks import PYTORCH, TORCHAIR_GE
from probe_flow.reports.html import packing
from probe_flow.reports.html import page as html
from probe_flow.reports.html.columns import NO_PLACE, Alike, Column, PlaceColumn
from probe_flow.reports.html.nodes import CallFigures, CallLink, SideFigures
from probe_flow.reports.html.numbers import short_number, short_numbers
from probe_flow.reports.html.page import write_html
from probe_flow.reports.html.payload import Payload
from probe_flow.reports.numbering import Numbering
from probe_flow.testing.run_records import run_record

RUN = run_record(workflow={"name": "ge-vs-fx"}, params={"target": "/dumps/npu"}, versions={"probe_flow": "1.0"})
HOSTILE = "</script><script>alert(1)</script><!--\u202e\x00\x1b[31m'\"&\u2028\ud800`${x}"


def data_of(page: str) -> dict[str, Any]:
    """The payload as the browser reads it."""
    kind, text = re.search(r'<script type="([a-z/]+)" id="data">(.*?)</script>', page, re.DOTALL).groups()
    raw = text if kind == "application/json" else zlib.decompress(base64.b64decode(text)).decode()
    found: dict[str, Any] = json.loads(raw)
    return found


def column(data: dict[str, Any], column: Any) -> list[Any]:
    """The cells of a column, decoded by its description."""
    if isinstance(column, dict):
        cells, place = [], 0
        for step in column["steps"]:
            place += step or 0
            cells.append(None if step is None else place)
        return cells
    return column if isinstance(column, list) else [column] * data["count"]


def texts(data: dict[str, Any], places: Any) -> list[str | None]:
    return [None if place is None else data["strings"][place] for place in column(data, places)]


def failing(**more: Any) -> Comparison:
    wrong = row(
        1,
        target=tensor("Gelu_1"),
        golden=tensor("gelu_1", side="golden"),
        measured=measurement({"relative_euclidean_distance": 0.08, "cosine": 0.9871}),
        status=Status.FAIL,
        role=Role.ORIGIN,
        reasons=("cosine is 0.9871, required above 0.99",),
    )
    return comparison(good_row(0), wrong, missing_golden(2), findings=(origin(1, "Gelu_1"),), gate_passed=False, **more)


def test_every_row_is_in_the_data_with_its_verdict_and_role() -> None:
    data = payload(failing(), run=RUN)
    assert data["count"] == 3
    assert [data["statuses"][place] for place in column(data, data["rows"]["status"])] == [
        "pass",
        "fail",
        "unmatched_target",
    ]
    assert [data["roles"][place] for place in column(data, data["rows"]["role"])] == ["clean", "origin", "clean"]
    assert texts(data, data["rows"]["reasons"])[1] == "cosine is 0.9871, required above 0.99"


def test_metrics_stand_in_columns_with_gaps_where_nothing_was_measured() -> None:
    metrics = payload(failing(), run=RUN)["rows"]["metrics"]
    assert metrics["relative_euclidean_distance"] == [0.001, 0.08, None]
    assert metrics["max_abs_err"] == [0.0999999, None, None]


def test_a_row_says_how_much_of_its_error_is_explained() -> None:
    rows = [good_row(place) for place in range(4)]
    shares = (0.1234, 41.0, None, math.inf)
    found = [replace(row, verdict=replace(row.verdict, excess=share)) for row, share in zip(rows, shares, strict=True)]
    assert payload(comparison(*found), run=RUN)["rows"]["excess"] == [0.12, 41, None, "inf"]
    assert "excess" not in payload(comparison(*rows), run=RUN)["rows"]


def test_an_unmatched_row_says_why_and_whether_it_is_expected() -> None:
    data = payload(comparison(missing_golden(0), missing_target(1)), run=RUN)
    assert texts(data, data["rows"]["reason"]) == [
        "no golden operator corresponds to `Mul_9`",
        "`sub_3` is part of a fused operator",
    ]
    assert data["rows"]["expectation"] == ["missing", "expected"]


def test_both_sides_are_described_with_files_relative_to_their_dumps() -> None:
    data = payload(comparison(good_row(0)), run=RUN)
    target, golden = data["rows"]["sides"]["target"], data["rows"]["sides"]["golden"]
    assert texts(data, target["dtype"]) == ["float16"]
    assert texts(data, golden["dtype"]) == ["float32"]
    assert texts(data, target["shape"]) == ["[2, 2]"]
    assert column(data, golden["file"]) == ["add_1.OUTPUT.0.npy"]
    assert (target["max"], golden["max"]) == (2.5, 2)


def test_the_summary_names_the_origin_and_its_row() -> None:
    summary = payload(failing(), run=RUN)["summary"]
    assert (summary["verdict"], summary["word"]) == ("fail", "FAIL")
    assert summary["headline"] == "The target first goes wrong at Gelu_1 (AddV2)."
    assert summary["findings"][0]["row"] == 1
    assert summary["next"] == "Look at the inputs and outputs of Gelu_1 (AddV2)."


def test_an_incomplete_comparison_is_never_a_pass() -> None:
    summary = payload(comparison(good_row(), incomplete=("rank 3 has no pair",)), run=RUN)["summary"]
    assert (summary["verdict"], summary["word"]) == ("incomplete", "INCOMPLETE")
    assert summary["incomplete"] == ["rank 3 has no pair"]


def test_an_error_while_reading_makes_the_report_incomplete() -> None:
    problem = Diagnostic("PF3001", "`a.npy` is cut short", severity=Severity.ERROR)
    target = Catalog("target", TORCHAIR_GE, "tensor", "/dumps/npu", {}, (), problems=(problem,))
    data = payload(comparison(good_row(), target=target, problems=(problem,)), run=RUN)
    assert data["summary"]["verdict"] == "incomplete"
    assert data["summary"]["incomplete"] == ["[PF3001] `a.npy` is cut short"]


def test_a_pass_with_tensors_without_counterpart_speaks_of_what_was_compared_only() -> None:
    given = replace(comparison(good_row()), coverage={"target": Coverage(tensors=3, compared=1, missing=2)})
    summary = payload(given, run=RUN)["summary"]
    assert summary["headline"] == "No operator that was compared goes wrong."
    assert summary["next"] == "See why 2 tensors had no counterpart; what was compared is right."


def test_an_error_that_the_comparison_tells_of_is_told_once() -> None:
    problems = tuple(Diagnostic("PF3015", f"`{name}` is cut off", severity=Severity.ERROR) for name in "ab")
    target = Catalog("target", TORCHAIR_GE, "tensor", "/dumps/npu", {}, (), problems=problems)
    told = ("[PF3015] `a` is cut off (and 1 more)",)
    data = payload(comparison(good_row(), target=target, incomplete=told), run=RUN)
    assert data["summary"]["incomplete"] == list(told)


def test_a_problem_that_later_stages_repeat_is_listed_once() -> None:
    problem = Diagnostic("PF3011", "two files for one tensor", severity=Severity.WARNING, help="remove one")
    target = Catalog("target", TORCHAIR_GE, "tensor", "/dumps/npu", {}, (), problems=(problem,))
    problems = payload(comparison(good_row(), target=target, problems=(problem,)), run=RUN)["problems"]
    assert problems["count"] == 1
    assert problems["shown"][0]["origin"] == "target"


def test_edges_link_nodes_by_number() -> None:
    nodes = {each: Node(each, "Add", order=place) for place, each in enumerate((key("A"), key("B")))}
    target = Catalog("target", TORCHAIR_GE, "tensor", "/dumps/npu", nodes, (), edges=(Edge(key("A"), 0, key("B"), 1),))
    data = payload(comparison(good_row(0, "A"), good_row(1, "B"), target=target), run=RUN)
    names = [data["strings"][place] for place in column({"count": 4}, data["nodes"]["name"])]
    edges = data["edges"]
    assert edges["count"] == 1
    assert (names[edges["producer"]], edges["output"], names[edges["consumer"]], edges["input"]) == ("A", 0, "B", 1)


def test_a_node_has_the_name_of_its_entry_where_that_is_another() -> None:
    rows = [good_row(call, target=tensor("Add", node=key("Add", call=call))) for call in (0, 2)]
    found = (origin(2, "Add", node=key("Add", call=2)),)
    data = payload(call_comparison(*rows, findings=found, gate_passed=False), run=RUN)
    assert data["nodes"]["named"] is True  # the page makes `Add.2.forward` of name, call and phase
    assert "entry" not in data["nodes"]
    assert data["summary"]["findings"][0]["entry"] == "Add.2.forward"
    page = page_of(call_comparison(*rows, findings=found, gate_passed=False), RUN)
    assert "Add (AddV2), output 0, rank 0, graph 1, step 0, call 2, in the dump Add.2.forward: " in page
    alike = payload(comparison(*rows, findings=found, gate_passed=False), run=RUN)
    assert not {"entry", "named"} & alike["nodes"].keys()
    assert alike["summary"]["findings"][0]["entry"] == ""


def test_an_entry_that_no_grammar_names_and_its_group_stand_as_text() -> None:
    name = key("Add", call=2)
    nodes = {name: Node(name, "AddV2", facts=CallFacts(NodeKind.API, entry="Add.again"))}
    rows = (good_row(0, target=tensor("Add", node=name)),)
    data = payload(comparison(*rows, target=catalog("target", [rows[0].pair.target], nodes=nodes)), run=RUN)
    assert "Add.again" in texts({**data, "count": data["nodes"]["count"]}, data["nodes"]["entry"])
    assert "named" not in data["nodes"]
    assert texts(data, data["rows"]["group"]) == [rows[0].pair.group]
    assert "group_by_entry" not in data["rows"]


def test_a_closer_look_stands_with_the_place_of_its_row() -> None:
    detail = TensorDetail(2, (1.0, math.nan), (1.5, math.inf), (1e-3, 1.0), (7,), 3)
    found = payload(comparison(good_row(40), details={40: detail}), run=RUN)
    assert found["order"] == [40]
    assert found["details"] == {
        "0": {
            "start": 2,
            "target": [1, "nan"],
            "golden": [1.5, "inf"],
            "edges": [0.001, 1],
            "counts": [7],
            "equal": 3,
        }
    }


def test_a_closer_look_has_maps_of_its_errors() -> None:
    maps = (ErrorMap((3, 130), (0,), (1,), (1, 3), (0.25,) * 132, mismatch=(7,)),)
    found = payload(comparison(good_row(0), details={0: TensorDetail(0, (), (), (0.0, 1.0), (0,), 0, maps)}), run=RUN)
    assert found["details"]["0"]["maps"] == [
        {
            "shape": [3, 130],
            "down": [0],
            "across": [1],
            "cell": [1, 3],
            "rows": 3,
            "columns": 44,
            "errors": [0.25] * 132,
            "alike": [],
            "mismatch": [7],
        }
    ]


def test_only_used_metrics_are_defined() -> None:
    definitions = payload(failing(), run=RUN)["definitions"]
    assert definitions["cosine"]["better"] == "higher"
    assert "rmse" not in definitions


def test_the_same_comparison_gives_the_same_page() -> None:
    assert page_of(failing(), RUN) == page_of(failing(), RUN)


def test_hostile_texts_stay_inside_the_data() -> None:
    wrong = row(
        0,
        target=tensor(HOSTILE, node=key(HOSTILE)),
        golden=tensor("gelu_1", side="golden"),
        measured=measurement(),
        status=Status.FAIL,
        role=Role.ORIGIN,
        reasons=(HOSTILE,),
    )
    found = comparison(wrong, findings=(origin(0, HOSTILE, evidence=HOSTILE),), gate_passed=False)
    page = page_of(found, run_record(workflow={"name": HOSTILE}, params={HOSTILE: HOSTILE}))
    clean = page.encode("utf-8").decode("utf-8")  # no lone surrogate is left outside an escape
    assert "alert(1)" in clean
    assert not re.search(r"alert\(1\)<|<script>alert", clean)
    without_scripts = re.search(r"<noscript>(.*?)</noscript>", clean, re.DOTALL)[1]
    assert not set(without_scripts) & set("\u202e\x00\x1b\u2028")
    data = data_of(page)
    assert HOSTILE in data["strings"]
    assert data["run"]["params"] == {HOSTILE: HOSTILE}


@pytest.mark.parametrize("limit", [0, 10**9])
def test_plain_and_packed_data_say_the_same(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "PLAIN_CHARACTERS", limit)
    assert data_of(page_of(failing(), RUN)) == payload(failing(), run=RUN)


def test_both_dumps_and_what_has_to_be_said_beside_the_verdict_are_given() -> None:
    given = replace(comparison(good_row()), caveats=("partly: 3 target tensors missing",))
    found = payload(given, run=run_record(workflow={"name": "demo", "sample": True}))["summary"]
    assert found["dumps"].startswith("target torchair_ge dump `/dumps/npu`, 1 tensor | golden torchair_fx dump ")
    assert found["caveats"] == ["partly: 3 target tensors missing", "bundled sample"]
    assert found["conclusion"].endswith(" | partly: 3 target tensors missing | bundled sample")


def test_the_page_without_scripts_states_verdict_origin_and_failing_rows() -> None:
    page = page_of(failing(), RUN)
    plain = re.search(r"<noscript>(.*?)</noscript>", page, re.DOTALL)[1]
    assert "FAIL" in plain
    assert "FAIL Gelu_1 (AddV2) output 0, rank 0, graph 1, step 0: 390 x rounding" in plain
    assert plain.index("target torchair_ge dump") < plain.index("FAIL")
    assert "390 times what its inputs explain" in plain
    assert "<td>Gelu_1.output.0</td><td>\u25c6 wrong here</td><td>0.08</td><td>fail</td>" in plain


@pytest.mark.parametrize("status", [Status.FAIL, Status.PASS, Status.UNMATCHED_TARGET])
def test_without_scripts_origins_are_listed_even_after_many_others_whatever_their_verdict(status: Status) -> None:
    rows = [good_row(place, f"Add_{place}", status=Status.FAIL, role=Role.INHERITED) for place in range(40)]
    last = good_row(40, "Gelu_1", status=status, role=Role.ORIGIN)
    plain = re.search(r"<noscript>(.*?)</noscript>", page_of(comparison(*rows, last), RUN), re.DOTALL)[1]
    assert "Gelu_1.output.0" in plain
    assert plain.count("<tr>") == 1 + html.ROWS_WITHOUT_SCRIPTS


def test_without_scripts_a_healthy_run_lists_no_row_that_misses_the_row_rule() -> None:
    rows = [good_row(place, f"Add_{place}", status=Status.FAIL, role=Role.CLEAN) for place in range(40)]
    plain = re.search(r"<noscript>(.*?)</noscript>", page_of(comparison(*rows), RUN), re.DOTALL)[1]
    assert "<p>Tensors: 40 fine</p>" in plain
    assert "<table>" not in plain


def test_an_empty_comparison_gives_a_report() -> None:
    page = page_of(comparison(coverage={"target": Coverage(), "golden": Coverage()}), run_record())
    assert data_of(page)["count"] == 0


def test_the_file_is_written_whole(tmp_path: Path) -> None:
    write_html(failing(), tmp_path / "report.html", run=RUN)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page_of(failing(), RUN)
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_file_that_cannot_be_written_is_a_diagnostic(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(IncompleteError) as raised:
        write_html(failing(), tmp_path / "report.html", run=RUN)
    assert raised.value.diagnostic.code == "PF7001"


def test_a_third_side_has_columns_of_its_own() -> None:
    assert set(payload(failing(), run=RUN)["rows"]["sides"]) == {"target", "golden"}


def test_statistics_of_unmeasured_rows_come_from_the_dump() -> None:
    lone = row(
        0,
        target=tensor("Add_1", recorded=stats(max=9.0).statistics, role=SlotRole.INPUT),
        status=Status.UNMATCHED_TARGET,
        rule="none",
    )
    assert payload(comparison(lone), run=RUN)["rows"]["sides"]["target"]["max"] == 9


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (0.0, 0),
        (-0.07531320842895445, -0.0753132),
        (1234567.0, 1234570),
        (2**53, 2**53),
        (2**53 + 1, 9.0072e15),
        (0.9975130604725289, 0.997513),
        (0.9999999830743754, 0.9999999831),
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (5e-324, 5e-324),
        (1.7976931348623157e308, 1.79769e308),
    ],
)
def test_numbers_are_shortened(value: float | None, expected: object) -> None:
    assert short_number(value) == expected


@given(st.floats(min_value=0.99, max_value=1.0, exclude_max=True))
@settings(max_examples=60, deadline=None)
def test_what_is_below_one_stays_below_one_unless_it_cannot_be_told(value: float) -> None:
    short = short_number(value)
    assert short == pytest.approx(value, abs=5e-7)
    assert short < 1.0 or 1.0 - value < 5e-15


PLACES = st.none() | st.integers(-1, 10**6)
"""Places, and numbers of an order of execution, which begin below 0."""


@given(st.lists(st.lists(PLACES, max_size=9), max_size=5))
@settings(max_examples=100, deadline=None)
def test_places_come_back_from_their_steps(stretches: list[list[int | None]]) -> None:
    cells = [cell for stretch in stretches for cell in stretch]
    assert column({"count": len(cells)}, value_of(PlaceColumn(), map(places, stretches))) == cells


@given(st.lists(st.lists(st.sampled_from([None, 0, 1, True, False, "a"]), max_size=4), max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_column_is_a_list_or_the_one_value_of_all_cells_wherever_it_is_cut(stretches: list[list[Any]]) -> None:
    cells = [cell for stretch in stretches for cell in stretch]
    kinds = {(type(cell), cell) for cell in cells}
    expected = cells if len(kinds) > 1 else cells[0] if cells else None
    assert repr(value_of(Column(), stretches)) == repr(expected)


def test_a_column_of_one_value_is_that_value() -> None:
    assert value_of(Column(), [[3, 3], [3]]) == 3
    assert value_of(Column(), [[1], [True]]) == [1, True]
    assert value_of(Column(), []) is None
    assert value_of(Column(), [[None], [None]]) is None


def test_cells_after_many_equal_ones_are_all_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe_flow.reports.html.columns.ROWS_AT_ONCE", 3)
    assert value_of(Column(), [[7] * 7, [8]]) == [*[7] * 7, 8]
    assert column({}, value_of(PlaceColumn(), [places([7] * 7), places([None, 8])])) == [*[7] * 7, None, 8]


def value_of(made: Column, stretches: Iterable[Any]) -> Any:
    """What the browser reads of a column."""
    for stretch in stretches:
        made.add(stretch)
    found = made.pieces()
    return None if found is None else json.loads(b"".join(packing.plain(found)))


def places(cells: list[int | None]) -> np.ndarray[Any, Any]:
    return np.array([NO_PLACE if cell is None else cell for cell in cells], dtype=np.intp)


@given(st.lists(st.sampled_from("abcd")))
@settings(max_examples=50, deadline=None)
def test_things_that_are_alike_are_asked_once(keys: list[str]) -> None:
    asked: list[str] = []
    found = Alike(keys, keys).cells(lambda key: asked.append(key) or key.upper())
    assert found == [key.upper() for key in keys]
    assert asked == list(dict.fromkeys(keys))
    assert Alike(keys, keys).places(ord).tolist() == [ord(key) for key in keys]


@given(st.lists(st.tuples(st.binary(max_size=9), st.booleans(), st.sampled_from([1, 200]))))
@settings(max_examples=100, deadline=None)
def test_data_in_any_pieces_are_one_text(pieces: list[tuple[bytes, bool, int]]) -> None:
    raw = b"".join(text * times for text, _, times in pieces)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(html, "PLAIN_CHARACTERS", -1)
        patched.setattr(packing, "LEAST_BYTES", 4)
        mixed = [packing.compressed(text * times) if is_packed else text * times for text, is_packed, times in pieces]
        block = b"".join(html.data_block(iter([*mixed, b""]))).decode()
    text = re.fullmatch(r'<script type="text/plain" id="data">([A-Za-z0-9+/]+=*)</script>', block)[1]
    assert zlib.decompress(base64.b64decode(text, validate=True)) == raw


def test_compressed_pieces_are_plain_text_in_a_small_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "LEAST_BYTES", 0)
    assert data_of(page_of(failing(), RUN)) == payload(failing(), run=RUN)


@given(st.lists(st.integers(0, 40).map(lambda number: Colliding(number % 20))))
@settings(max_examples=100, deadline=None)
def test_things_are_numbered_in_order_of_appearance_equal_ones_alike(things: list[Colliding]) -> None:
    found, known = Numbering[Colliding](), dict[Colliding, int]()
    assert [found.number(each) for each in things] == [known.setdefault(each, len(known)) for each in things]
    assert found.things == list(known)


def test_numbers_stay_when_the_table_grows() -> None:
    texts = [f"operator {number}" for number in range(5000)]
    found = Numbering[str]()
    assert [found.number(text) for text in texts] == list(range(5000))
    assert [found.number("".join(text)) for text in texts] == list(range(5000))


@dataclass(frozen=True)
class Colliding:
    """Things of which many have one hash."""

    number: int

    def __hash__(self) -> int:
        return self.number % 3


@given(st.lists(st.none() | st.booleans() | st.integers() | st.floats(), max_size=40))
@settings(max_examples=150, deadline=None)
def test_a_column_of_numbers_is_shortened_like_each_of_them(cells: list[float | None]) -> None:
    many = [*cells, *[0.1234565] * 64]  # enough for the fast way
    assert [repr(cell) for cell in short_numbers(many)] == [repr(short_number(cell)) for cell in many]


def test_frames_stand_once_and_keep_their_line_ends() -> None:
    frames = ("File model.py, line 3, in forward, \n x = self.fc(x)", "File train.py, line 9, in <module>")
    nodes = {each: Node(each, "Add", stack_id="0") for each in (key("A"), key("B"))}
    target = Catalog("target", PYTORCH, "statistics", "/dumps/npu", nodes, (), stacks={"0": frames})
    data = payload(comparison(good_row(0, "A"), good_row(1, "B"), target=target), run=RUN)
    assert [[data["strings"][place] for place in stack] for stack in data["stacks"]] == [list(frames)]
    assert column(data["nodes"], data["nodes"]["stack"]) == [0, 0, None]


def callers(data: dict[str, Any]) -> dict[str, str | None]:
    """The caller of each of the target's nodes, by name and phase."""
    nodes = data["nodes"]
    names, phases = texts(nodes | {"strings": data["strings"]}, nodes["name"]), column(nodes, nodes["phase"])
    shown = [f"{name} {data['strings'][phase]}" for name, phase in zip(names, phases, strict=True)]
    above = column(nodes, nodes["above"]) if "above" in nodes else [None] * nodes["count"]
    return {name: None if place is None else shown[place] for name, place in zip(shown, above, strict=True)}


def called(node: NodeKey, entry: str, parent: str | None = None, parent_entry: str | None = None) -> Node:
    return Node(node, "Linear", parent=parent, facts=CallFacts(NodeKind.MODULE, parent_entry, entry=entry))


def tree_of(*nodes: Node) -> dict[str, str | None]:
    catalog = Catalog("target", PYTORCH, "statistics", "/dumps/npu", {each.key: each for each in nodes}, ())
    rows = [row(n, target=tensor(node=each.key), rule="none") for n, each in enumerate(nodes)]
    return callers(payload(comparison(*rows, target=catalog), run=RUN))


def test_calls_stand_below_the_call_of_the_module_that_made_them() -> None:
    linear, layer = key("Functional.linear", call=3), key("Module.fc.Linear", call=1)
    other = key("Module.fc.Linear")
    entry = "Module.fc.Linear.forward.1"
    found = tree_of(
        called(linear, "Functional.linear.3.forward", "Module.fc.Linear", entry),
        called(other, "Module.fc.Linear.forward.0"),
        called(layer, entry),
    )
    assert found == {
        "Functional.linear forward": "Module.fc.Linear forward",
        "Module.fc.Linear forward": None,
    }


def test_a_module_that_was_not_dumped_still_holds_what_it_called() -> None:
    found = tree_of(
        called(
            key("Functional.linear"), "Functional.linear.0.forward", "Module.fc.Linear", "Module.fc.Linear.forward.0"
        )
    )
    assert found == {"Functional.linear forward": "Module.fc.Linear forward", "Module.fc.Linear forward": None}


def test_gradients_of_parameters_stand_below_the_backward_of_their_module() -> None:
    gradient = NodeKey(Execution(0, 0, 1), "Module.fc.Linear.parameters_grad", 0, Phase.NONE)
    backward = NodeKey(Execution(0, 0, 1), "Module.fc.Linear", 0, Phase.BACKWARD)
    found = tree_of(called(gradient, "Module.fc.Linear.parameters_grad.0", "Module.fc.Linear"), called(backward, "b"))
    assert found["Module.fc.Linear.parameters_grad none"] == "Module.fc.Linear backward"


def test_a_circle_of_callers_is_cut() -> None:
    found = tree_of(called(key("A"), "a", "B", "b"), called(key("B"), "b", "C", "c"), called(key("C"), "c", "A", "a"))
    assert sum(caller is None for caller in found.values()) == 1
    assert set(found) == {"A forward", "B forward", "C forward"}


def test_a_dump_without_callers_has_no_tree() -> None:
    assert "above" not in payload(comparison(good_row(0)), run=RUN)["nodes"]


def test_calls_without_tensors_are_nodes_where_their_execution_has_rows_and_callers() -> None:
    silent, later = key("Functional.dropout"), Execution(0, 1, 1)
    linear = called(key("Functional.linear"), "l", "Module.fc.Linear", "m")
    undumped = (
        Node(silent, "dropout", order=1, facts=CallFacts(NodeKind.API, "m")),
        Node(NodeKey(later, "Functional.dropout", 0), "dropout", facts=CallFacts(NodeKind.API, "m")),
    )
    layer = replace(called(key("Module.fc.Linear"), "m"), order=1)
    nodes = {each.key: each for each in (linear, layer)}
    catalog = Catalog("target", PYTORCH, "statistics", "/dumps/npu", nodes, (), undumped=undumped)
    data = payload(comparison(row(0, target=tensor(node=linear.key), rule="none"), target=catalog), run=RUN)
    assert callers(data) == {
        "Functional.linear forward": "Module.fc.Linear forward",
        "Module.fc.Linear forward": None,
        "Functional.dropout forward": "Module.fc.Linear forward",
    }
    assert column(data["nodes"], data["nodes"]["order"]) == [0, 2, 1]
    assert texts(data["nodes"] | {"strings": data["strings"]}, data["nodes"]["kind"]) == ["module", "module", "api"]


def test_what_graphs_say_of_calls_is_in_columns_by_side() -> None:
    both = good_row(0, "A")
    target, golden = both.pair.target.node, both.pair.golden.node
    other = replace(target, execution=Execution(rank=1))
    sides = {
        "target": SideFigures(links={target: (CallLink("send", other),)}),
        "golden": SideFigures(levels={golden: "high"}, micro_steps={golden: 2}),
    }
    figures = CallFigures({target: 0.123456789}, sides)
    data = json.loads(b"".join(Payload(comparison(both), run=RUN, figures=lambda: figures).pieces()))
    nodes = data["nodes"]
    assert nodes["score"] == [0.123457, None, None]
    assert nodes["level"]["steps"][0] is None
    assert nodes["micro_step"] == [None, 2, None]
    assert (data["links"]["count"], data["links"]["node"], data["links"]["other"]) == (1, 0, 2)
    assert data["strings"][data["links"]["direction"]] == "send"
    assert "score" not in payload(comparison(both), run=RUN)["nodes"]
    assert "order" not in nodes  # no call tree, no order of calls


def test_one_dump_on_both_sides_is_the_target() -> None:
    node = Node(key("A"), "Add")
    same = Catalog("dump", PYTORCH, "statistics", "/dumps/npu", {node.key: node}, ())
    pair = row(0, target=tensor(node=node.key), golden=tensor(node=node.key), measured=measurement())
    data = payload(comparison(pair, target=same, golden=same), run=RUN)
    assert (data["nodes"]["count"], data["nodes"]["side"]) == (1, "target")
