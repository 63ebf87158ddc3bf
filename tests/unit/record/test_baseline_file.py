"""Baseline files: read as they are written down, written so that they read the same, refused with the line."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe_flow.errors import UsageError
from probe_flow.record.baseline_file import BaselineFile, read_baseline
from probe_flow.records import Baseline, Deviant
from probe_flow.records.baseline import ROUNDING, is_within, largest, stand
from probe_flow.runs.baseline.file_text import baseline_text

TEXT = """\
# Written by `probe-flow baseline accept`: runs of this workflow fail only on what is worse than these lines.
format: probe_flow.baseline/1
workflow: "ge-vs-fx"
run: "ge-vs-fx-20260131-101500"
comparisons:
  "result":
    gate: findings
    policy: "torchair"
    compared: {"target": 96, "golden": 90}
    nodes:
      - {"drift": {"": null}}
      - {"node": "Add_2", "graph": 1, "op_type": "AddV2", "drift": {"output.1": 3.0}, "origin": {"output.0": 0.01235}}
      - {"node": "b\\"q\\u2028", "graph": "main", "call": 2, "phase": "backward", "fail": {"weight": "inf"}}
"""


def deviants() -> tuple[Deviant, ...]:
    add = (1, "Add_2", 0, "forward", "AddV2")
    return (
        Deviant(None, None, 0, "none", "", "drift", "", None),
        Deviant(*add, "drift", "output.1", 3.0),
        Deviant(*add, "origin", "output.0", 0.01235),
        Deviant("main", 'b"q\u2028', 2, "backward", "", "fail", "weight", math.inf),
    )


def file_of(*found: Deviant, name: str = "result") -> BaselineFile:
    baseline = Baseline("ge-vs-fx", name, "findings", "torchair", {"target": 96, "golden": 90}, found)
    return BaselineFile("ge-vs-fx", "ge-vs-fx-20260131-101500", {name: baseline})


def read(tmp_path: Path, text: str) -> BaselineFile:
    path = tmp_path / "baseline.yaml"
    path.write_text(text, encoding="utf-8")
    return read_baseline(path)


def refused(tmp_path: Path, text: str) -> list[tuple[str, int, str]]:
    with pytest.raises(UsageError) as caught:
        read(tmp_path, text)
    return [(each.code, each.span.line if each.span else 0, each.message) for each in caught.value.diagnostics]


def test_a_file_written_by_hand_is_read(tmp_path):
    file = read(tmp_path, TEXT)
    assert (file.workflow, file.run) == ("ge-vs-fx", "ge-vs-fx-20260131-101500")
    baseline = file.comparisons["result"]
    assert (baseline.gate, baseline.policy, baseline.compared) == ("findings", "torchair", {"target": 96, "golden": 90})
    assert baseline.deviants == deviants()


def test_a_baseline_is_written_with_one_line_a_node():
    assert baseline_text(file_of(*reversed(deviants()))) == TEXT


def test_a_baseline_without_deviations_is_a_file_too(tmp_path):
    file = read(tmp_path, baseline_text(file_of()))
    assert file.comparisons["result"].deviants == ()


def test_figures_are_rounded_up_to_four_digits(tmp_path):
    text = baseline_text(file_of(Deviant(1, "a", 0, "forward", "", "fail", "output.0", 0.000123412)))
    assert '{"output.0": 0.0001235}' in text


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
any_deviant = st.builds(
    Deviant, st.none() | st.integers(0, 10**6) | names, names, st.integers(0, 9),
    st.sampled_from(["forward", "backward", "none"]), names,
    st.sampled_from(["origin", "checksum_origin", "drift", "fail", "nonfinite"]), names,
    st.none() | st.floats(min_value=0.0),
)  # fmt: skip


@given(st.lists(any_deviant, max_size=6))
def test_any_baseline_reads_as_it_was_written_with_figures_rounded_up(tmp_path_factory, found):
    unique = tuple(largest(found))
    # One line has one type; the first in order names it.
    types = {each.at: each.op_type for each in reversed(unique)}
    path = tmp_path_factory.mktemp("b") / "b.yaml"
    path.write_text(baseline_text(file_of(*unique)), encoding="utf-8")
    back = read_baseline(path).comparisons["result"].deviants
    assert [each.place for each in back] == [each.place for each in unique]
    for mine, theirs in zip(unique, back, strict=True):
        assert theirs.op_type == types[mine.at]
        assert is_within(mine.figure, theirs.figure, tolerance=0.0)
        assert is_within(theirs.figure, mine.figure, tolerance=ROUNDING) or mine.figure < 1e-300


def test_figures_just_above_four_digits_are_still_those_of_the_run(tmp_path):
    # 1e-05 is 1.00000000000000008e-05 in binary, so that 1.001e-05 is written, a thousandth and a bit more than it.
    own = Deviant(1, "a", 0, "forward", "", "fail", "output.0", 1e-05)
    written = read(tmp_path, baseline_text(file_of(own))).comparisons["result"]
    assert written.deviants[0].figure == 1.001e-05
    assert stand(written, [own], tolerance=0.0, nodes={own.at}).better == ()


def test_a_whole_number_beyond_floats_is_infinite(tmp_path):
    text = TEXT.replace("0.01235", "9" * 400)
    assert read(tmp_path, text).comparisons["result"].deviants[2].figure == math.inf


def test_a_lone_surrogate_is_written_as_its_escape(tmp_path):
    text = baseline_text(file_of(Deviant("g\udc80", "a", 0, "forward", "", "fail", "output.0", 1.0)))
    assert read(tmp_path, text).comparisons["result"].deviants[0].graph == "g\\udc80"


def test_another_workflow_is_refused(tmp_path):
    with pytest.raises(UsageError) as caught:
        read(tmp_path, TEXT).of(workflow="llama", comparison="result")
    assert caught.value.diagnostic.code == "PF7311"
    assert "`ge-vs-fx`, not to `llama`" in caught.value.diagnostic.message


def test_a_stage_that_it_does_not_have_is_refused_with_a_suggestion(tmp_path):
    with pytest.raises(UsageError) as caught:
        read(tmp_path, TEXT).of(workflow="ge-vs-fx", comparison="results")
    assert caught.value.diagnostic.code == "PF7311"
    assert caught.value.diagnostic.help.startswith("did you mean `result`?")


@pytest.mark.parametrize(
    ("old", "new", "line", "told"),
    [
        ("probe_flow.baseline/1", "something", 2, "begins with `format: probe_flow.baseline/1`"),
        ('"graph": 1', '"graph": true', 12, "`graph` is the number or the name of a graph"),
        ('"node": "Add_2"', '"node": 7', 12, "`node` is the name of a node"),
        ('"origin": {', '"orgin": {', 12, "did you mean `origin`"),
        ("0.01235", "-1", 12, "has to be a number from 0"),
        ("0.01235", "yes", 12, "has to be a number from 0"),
        ('"call": 2', '"call": -2', 13, "`call` has to be a whole number"),
        ('"backward"', '"sideways"', 13, "`phase` is"),
        ('"target": 96', '"target": 1.5', 9, "`target` has to be a whole number"),
        ("gate: findings", "gate: 3", 7, "`gate` has to be a text"),
        ('"node": "b\\"q\\u2028", "graph": "main", "call": 2, "phase": "backward", "fail": {"weight": "inf"}',
         '"node": "Add_2", "graph": 1, "origin": {"output.0": 1}', 0, "`Add_2.output.0` has `origin` twice"),
    ],
)  # fmt: skip
def test_a_line_without_meaning_is_told(tmp_path, old, new, line, told):
    assert old in TEXT
    ((code, at, message),) = refused(tmp_path, TEXT.replace(old, new))
    assert code == "PF7310"
    assert told in message
    assert line in (0, at)


def test_all_mistakes_are_told_together(tmp_path):
    text = TEXT.replace("0.01235", "-1").replace('"call": 2', '"call": -2')
    assert [line for _, line, _ in refused(tmp_path, text)] == [12, 13]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "PF7310"),
        ("[1, 2]", "PF7310"),
        ("format: probe_flow.baseline/2\nworkflow: w\nrun: r\ncomparisons: {}\n", "PF7311"),
        ("a: [", "PF1001"),
        ("a: 1\na: 2\n", "PF1003"),
        (
            "format: probe_flow.baseline/1\nworkflow: w\nrun: r\ncomparisons: {r: {gate: a, policy: b, nodes: {}}}",
            "PF7310",
        ),
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path, text, code):
    assert {found for found, _, _ in refused(tmp_path, text)} == {code}


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(UsageError) as caught:
        read_baseline(tmp_path / "none.yaml")
    assert caught.value.diagnostic.code == "PF7310"


def test_a_file_that_is_no_utf_8_is_told_with_its_line(tmp_path):
    path = tmp_path / "b.yaml"
    path.write_bytes(b"format: x\nrun: \xff\n")
    with pytest.raises(UsageError, match="line 2 is not UTF-8"):
        read_baseline(path)
