"""`detail` of a report: which tensors it takes, what it says of the others, and the files in the run's folder."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from pydantic import ValidationError
from raw_pairs import context, pairs_of, raw

from probe_flow.comparing.steps import compare_pairs
from probe_flow.records import Execution, Group, NodeKey, Relation, Slot, SlotRole
from probe_flow.stages.compare import Options
from probe_flow.stages.report import report
from probe_flow.stages.report.element_views import views_of, with_looks
from probe_flow.stages.report.report_detail import Detail
from probe_flow.testing.run_records import run_record

FACTS = run_record(timings={"started": "2026-11-01T10:00:00+00:00", "wall_s": None})
ONES = np.ones((2, 3), np.float32)


def compared(pairs):
    return compare_pairs(pairs, Options.model_validate({"uses": "compare", "pairs": "pairs"}).asked(), context(), None)


def three(folder):
    return [(raw(folder, "t", f"net_n{n}", ONES * n), raw(folder, "g", f"net_n{n}", ONES)) for n in range(3)]


def shown(comparison, **detail):
    views, problems = views_of(comparison, [Detail.model_validate(detail)])
    return [view.prefix for view in views], [(each.code, each.message) for each in problems]


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ({"node": "net_n1"}, ["net_n1_output_0"]),
        ({"node": ["net_n2", "net_n0"]}, ["net_n0_output_0", "net_n2_output_0"]),
        ({"node": "net*", "index": 0}, ["net_n0_output_0", "net_n1_output_0", "net_n2_output_0"]),
    ],
)
def test_tensors_are_chosen_by_name_direction_and_index(tmp_path, detail, expected):
    assert shown(compared(pairs_of(three(tmp_path))), **detail) == (expected, [])


def test_names_may_be_cleaned_ones(tmp_path):
    node = NodeKey(Execution(0, 0, 1), "net/conv.1")
    pairs = pairs_of([(raw(tmp_path, "t", "a", ONES, node=node), raw(tmp_path, "g", "a", ONES))])
    assert shown(compared(pairs), node="net_conv_1")[0] == shown(compared(pairs), node="net/conv.1")[0]
    assert shown(compared(pairs), node="net_conv_1") == (["net_conv.1_output_0"], [])


def test_what_is_not_there_is_told(tmp_path):
    comparison = compared(pairs_of(three(tmp_path)))
    assert shown(comparison, node="net_n7", index=4) == (
        [],
        [("PF6402", "`detail` shows nothing: there is no output 4 of `net_n7`")],
    )
    ((_, problem),) = [(code, text) for code, text in shown(comparison, node="net_n1", direction="input")[1]]
    assert problem == "`detail` shows nothing: there is no input of `net_n1`"
    names, problems = shown(comparison, node="net*", limit=2)
    assert names == ["net_n0_output_0", "net_n1_output_0"]
    assert problems == [("PF6404", "`detail` shows the first 2 of 3 tensors that are output of `net*`")]


def test_what_was_not_compared_is_told(tmp_path):
    other = raw(tmp_path, "g", "b", np.ones(5, np.float32))
    comparison = compared(pairs_of([(raw(tmp_path, "t", "a", ONES), None), (raw(tmp_path, "t", "b", ONES), other)]))
    names, problems = shown(comparison, node="?")
    assert names == []
    assert [code for code, _ in problems] == ["PF6403", "PF6403"]
    assert "Shape mismatch" in problems[1][1]


def test_tensors_of_one_name_are_numbered_and_golden_names_are_those_of_the_group(tmp_path):
    steps = [NodeKey(Execution(0, step, 1), "a") for step in range(2)]
    twosomes = [
        (raw(tmp_path, "t", f"a{n}", ONES, node=node), raw(tmp_path, "g", f"a{n}", ONES, node=node))
        for n, node in enumerate(steps)
    ]
    names = tuple(replace(steps[0], name=name) for name in ("conv", "relu"))
    pairs = replace(pairs_of(twosomes), groups=(Group("g", Relation.MANY_TO_MANY, (steps[0],), names),))
    views, _ = views_of(compared(pairs), [Detail(node="a"), Detail(node="a", top=3)])
    assert [view.prefix for view in views] == ["a_output_0", "a_output_0_2"]
    assert views[0].golden_names == ("conv", "relu")


def test_golden_names_are_spelled_as_the_rules_spell_them(tmp_path):
    pairs = pairs_of([(raw(tmp_path, "t", "block.a", ONES), raw(tmp_path, "g", "block_a_relu", ONES))])
    (key,) = pairs.target.nodes
    node = replace(pairs.target.nodes[key], originals=("block/a.conv", "block/a.relu"))
    told = replace(pairs, target=replace(pairs.target, nodes={key: node}))
    of_other_names = replace(told, target=replace(told.target, nodes={key: replace(node, originals=("fused",))}))
    for each, names in ((told, ("block/a.conv", "block/a.relu")), (of_other_names, ("block_a_relu",))):
        (group,) = {pair.group for pair in each.pairs}
        golden = tuple(each.golden.nodes)
        grouped = replace(each, groups=(Group(group, Relation.MANY_TO_ONE, (key,), golden),))
        (view,), _ = views_of(compared(grouped), [Detail(node="block.a")])
        assert view.golden_names == names


def test_a_report_writes_the_files(tmp_path):
    options = report.Options.model_validate(
        {"uses": "report", "comparison": "c", "formats": [{"detail": {"node": "net_n2", "tables": False}}]}
    )
    problems = []
    output = tmp_path / "run"
    run = replace(context(), output=output, report=problems.extend, facts=FACTS)
    paths = report.run(options, {"comparison": [compared(pairs_of(three(tmp_path)))]}, run)
    assert problems == []
    assert sorted(path.name for path in paths) == sorted(path.name for path in output.iterdir())
    assert (output / "net_n2_output_0_summary.txt").read_text().splitlines()[:3] == [
        "TotalCount:6", "NPUDump:net_n2", "GroundTruth:net_n2",
    ]  # fmt: skip
    np.testing.assert_array_equal(np.load(output / "net_n2_output_0.npy"), 2 * ONES)


@pytest.mark.parametrize(
    "detail",
    [{}, {"node": "a", "top": 0}, {"node": "a", "top": 10_001}, {"node": "a", "lines": 9_999}, {"node": "a", "of": 1},
     {"node": "a", "direction": "debug"}, {"node": "a", "index": -1}],
)  # fmt: skip
def test_mistakes(detail):
    with pytest.raises(ValidationError):
        Detail.model_validate(detail)


def test_slots_of_other_paths_are_no_index(tmp_path):
    target, golden = three(tmp_path)[0]
    named = Slot(SlotRole.OUTPUT, ("weight",))
    pairs = pairs_of([(target.changed(slot=named), golden.changed(slot=named))])
    assert shown(compared(pairs), node="net_n0") == (["net_n0_output_weight"], [])
    assert shown(compared(pairs), node="net_n0", index=0)[0] == []


def test_tensors_of_a_view_get_a_closer_look_with_maps(tmp_path):
    comparison = compared(pairs_of(three(tmp_path)))
    looked = with_looks(comparison, [Detail(node="net_n*", limit=2)])
    assert sorted(looked.details) == [0, 1, 2]  # the third fails, so that it had one
    assert [found.errors for found in looked.details[0].maps] == [(1.0,) * 6]  # 0 against 1 everywhere
    assert [found.errors for found in looked.details[1].maps] == [(0.0,) * 6]
    assert looked.details[2] == comparison.details[2]


def test_tensors_that_are_gone_keep_the_look_that_there_was(tmp_path):
    comparison = compared(pairs_of(three(tmp_path)))
    (tmp_path / "t-net_n1.bin").unlink()
    assert with_looks(comparison, [Detail(node="net_n1")]).details == comparison.details


@pytest.mark.parametrize(("formats", "expected"), [([], None), (["html"], 3)])
def test_the_html_report_beside_a_view_has_the_maps_of_its_tensors(tmp_path, monkeypatch, formats, expected):
    seen = []
    monkeypatch.setattr("probe_flow.reports.html.page.write_html", lambda given, path, **_: seen.append(given))
    options = report.Options.model_validate(
        {"uses": "report", "comparison": "c", "formats": [{"detail": {"node": "net*", "tables": False}}, *formats]}
    )
    run = replace(context(), output=tmp_path / "run", facts=FACTS)
    report.run(options, {"comparison": [compared(pairs_of(three(tmp_path)))]}, run)
    assert [sum(bool(detail.maps) for detail in given.details.values()) for given in seen] == [expected][: len(formats)]
