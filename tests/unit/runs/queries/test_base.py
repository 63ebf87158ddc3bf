from __future__ import annotations

import math

import pytest
from stored_runs import node, row, side, write_run

from probe_flow.errors import IncompleteError, UsageError
from probe_flow.record.json_values import number
from probe_flow.record.run_folder import read_run
from probe_flow.record.types.reading import Reader
from probe_flow.record.types.rows import RowRecord
from probe_flow.runs.queries import base as questions
from probe_flow.runs.queries.base import Scope, cleaned, find_names
from probe_flow.runs.queries.node import node_view
from probe_flow.runs.queries.rows import origin, unmatched
from probe_flow.runs.queries.stored_nodes import StoredNodes
from probe_flow.runs.queries.threshold import Part, Relation, Threshold, beyond, parse_threshold

NAMES = ["net/conv1/Conv2D", "net_conv1_BiasAdd", "net/conv1/Relu", "Module.fc.Linear"]


@pytest.mark.parametrize(
    ("wanted", "names", "how"),
    [
        ("net/conv1/Relu", ["net/conv1/Relu"], "exact"),
        ("net_conv1_Relu", ["net/conv1/Relu"], "cleaned"),
        ("net/conv1/BiasAdd", ["net_conv1_BiasAdd"], "cleaned"),
        ("conv1", NAMES[:3], "part"),
        ("CONV2", ["net/conv1/Conv2D"], "part"),
        ("fc.lin", ["Module.fc.Linear"], "part"),
    ],
)
def test_names_are_found_whole_then_cleaned_then_by_a_part(wanted, names, how):
    found = find_names(wanted, NAMES, what="node", path="run")
    assert (list(found.names), found.how) == (names, how)


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ("Module.fc.Linaer", "did you mean `Module.fc.Linear`?"),
        ("Relo", "did you mean `net/conv1/Relu`?"),
        ("", "--verdict"),
    ],
)
def test_unknown_names_get_suggestions(wanted, hint):
    with pytest.raises(UsageError) as caught:
        find_names(wanted, NAMES, what="node", path="run")
    assert caught.value.diagnostic.code == "PF7201"
    assert hint in caught.value.diagnostic.help


def test_suggestions_of_a_large_run_are_sought_among_the_likeliest(monkeypatch):
    names = [f"Module.layers.{layer}.q_proj.forward.{call}" for layer in range(100) for call in range(50)]
    names += [f"Functional.softmax.{call}.forward" for call in range(50)]
    compared = []
    suggest = questions.did_you_mean
    monkeypatch.setattr(
        questions, "did_you_mean", lambda wanted, known: compared.append(known) or suggest(wanted, known)
    )
    with pytest.raises(UsageError) as caught:
        find_names("Functional.sofmax.17.forward", names, what="node", path="run")
    assert caught.value.diagnostic.help.startswith("did you mean `Functional.softmax.17.forward`")
    assert [len(known) for known in compared] == [questions.MAX_COMPARED]


def test_a_name_of_signs_only_is_no_part_of_every_name():
    with pytest.raises(UsageError):
        find_names("//", NAMES, what="node", path="run")
    assert cleaned("a/b.c>d") == "a_b_c_d"


def test_numbers_of_records_may_be_words_or_too_large():
    assert number("-inf") == -math.inf
    assert math.isnan(number("nan"))
    assert number(10**400) == math.inf
    assert number("1.5") is None
    assert number(None) is None


@pytest.mark.parametrize(
    ("scope", "kept"),
    [(Scope(), True), (Scope(rank=0, graph="1"), True), (Scope(step=1), False), (Scope(graph="x"), False)],
)
def test_a_scope_narrows_by_place(scope, kept):
    assert scope.keeps(Reader(RowRecord).convert(row(0, "A"))) is kept


@pytest.mark.parametrize("text", ["cosine", "cosine=", "=0.5", "cosine=x", "cosine=nan", ""])
def test_a_threshold_of_wrong_form_is_refused(text):
    with pytest.raises(UsageError) as caught:
        parse_threshold(text, Relation.BELOW)
    assert caught.value.diagnostic.code == "PF7203"


def chain(tmp_path):
    """Good -> Bad (begins) -> Worse (passes on) -> Mended (takes it in only), Lost (NaN), Blind (input unmatched)."""
    lonely = row(10, "Alone_1", golden=None, verdict="unmatched_target", reason="`Alone_1` has no partner", cosine=None)
    return read_run(
        write_run(
            tmp_path / "run",
            [
                row(0, "Good_1", "input", cosine=1.0),
                row(1, "Good_1", cosine=0.98),
                row(2, "Bad_1", "input", cosine=0.98),
                row(3, "Bad_1", cosine=0.97, role="origin"),
                row(4, "Worse_1", "input", cosine=0.97),
                row(5, "Worse_1", cosine=0.5),
                row(6, "Mended_1", "input", cosine=0.5),
                row(7, "Mended_1", cosine=0.999),
                row(8, "Lost_1", "input", cosine=1.0),
                row(9, "Lost_1", cosine="nan", reason="all NaN"),
                lonely,
                row(11, "Blind_1", cosine=-1.0),
                row(12, "Scalar_1", "input", kind="scalar", cosine=None),
                row(13, "Scalar_1", cosine=1.0),
                row(14, "Odd_1", cosine=None, verdict="not_comparable", reason="shapes differ"),
            ],
        )
    )


def told(answer):
    return [(node.known[4], part) for node, part in answer.nodes]


def test_below_is_strict_and_tells_who_begins_an_error_from_who_passes_it_on(tmp_path):
    answer = beyond(chain(tmp_path), Threshold("cosine", 0.98), limit=None)
    assert told(answer) == [
        ("Bad_1", Part.SUSPECT),
        ("Worse_1", Part.INHERITED),
        ("Mended_1", Part.INPUTS_ONLY),
        ("Blind_1", Part.UNKNOWN),
    ]
    assert answer.found == 4
    assert answer.checked == 8
    assert answer.alone == 1


def test_at_most_includes_the_bound_as_the_other_tool_does(tmp_path):
    answer = beyond(chain(tmp_path), Threshold("cosine", 0.98, Relation.AT_MOST), limit=None)
    assert told(answer)[:2] == [("Good_1", Part.SUSPECT), ("Bad_1", Part.INHERITED)]


def test_nodes_that_cannot_be_judged_stand_apart_with_their_reason(tmp_path):
    answer = beyond(chain(tmp_path), Threshold("cosine", 0.98), limit=None)
    assert [(node.known[4], node.reasons) for node in answer.unknown] == [
        ("Lost_1", ["all NaN"]),
        ("Odd_1", ["shapes differ"]),
    ]
    assert answer.unknown_count == 2


def test_a_limit_leaves_the_counts_true(tmp_path):
    answer = beyond(chain(tmp_path), Threshold("cosine", 0.98), limit=1)
    assert told(answer) == [("Bad_1", Part.SUSPECT)]
    assert (answer.found, answer.unknown_count, len(answer.unknown)) == (4, 2, 1)
    assert answer.data()["counts"] == {"suspect": 1, "inherited": 1, "inputs only": 1, "unknown": 1}


def test_the_analysis_knows_of_errors_that_came_in_by_unmatched_inputs(tmp_path):
    rows = [row(0, "Add_1", "input", "1"), row(1, "Add_1", cosine=0.5, role="inherited")]
    answer = beyond(read_run(write_run(tmp_path / "run", rows)), Threshold("cosine", 0.98), limit=None)
    assert told(answer) == [("Add_1", Part.INHERITED)]


def test_above_is_for_metrics_of_error(tmp_path):
    rows = [row(0, "A_1", metrics={"max_abs_err": "inf"}), row(1, "B_1", metrics={"max_abs_err": 0.5})]
    run = read_run(write_run(tmp_path / "run", rows))
    assert told(beyond(run, Threshold("max_abs_err", 0.5, Relation.ABOVE), limit=None)) == [("A_1", Part.UNKNOWN)]


@pytest.mark.parametrize(
    ("metric", "words"),
    [("cosin", "is no metric"), ("rmse", "was not measured"), ("nonsense", "measured: cosine, max_abs_err")],
)
def test_a_metric_that_the_run_lacks_is_told(tmp_path, metric, words):
    with pytest.raises(UsageError) as caught:
        beyond(chain(tmp_path), Threshold(metric, 1.0), limit=None)
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "PF7202"
    assert words in f"{diagnostic.message} {diagnostic.help}"


def test_a_scope_with_another_rank_has_no_rows_and_so_no_metric(tmp_path):
    with pytest.raises(UsageError):
        beyond(chain(tmp_path), Threshold("cosine", 0.98), limit=None, scope=Scope(rank=7))


def test_what_was_not_matched_is_grouped_by_side_and_reason(tmp_path):
    rows = [
        row(0, "A_1"),
        row(1, "B_1", golden=None, verdict="unmatched_target", reason="`B_1` is inside `x`"),
        row(2, "C_1", golden=None, verdict="unmatched_target", reason="`C_1` is inside `y`"),
        row(3, "D_1", target=None, verdict="skipped", reason=None),
    ]
    answer = unmatched(read_run(write_run(tmp_path / "run", rows)), limit=1)
    assert (answer.count, answer.total) == (3, 4)
    assert [(g.side, g.verdict, g.reason, g.count, len(g.rows)) for g in answer.groups] == [
        ("target", "unmatched_target", "`...` is inside `...`", 2, 1),
        ("golden", "skipped", "no reason is recorded", 1, 1),
    ]


def test_the_origin_comes_with_the_rows_of_its_node(tmp_path):
    rows = [row(0, "A_1"), row(1, "B_1", "input"), row(2, "B_1", role="origin"), row(3, "C_1", role="inherited")]
    run = read_run(write_run(tmp_path / "run", rows, findings=[{"node": "B_1"}]))
    answer = origin(run)
    assert answer.named.node == "B_1"
    assert [each.order for each in answer.rows] == [1, 2]
    assert answer.inherited == 1


def test_each_of_several_comparisons_is_asked_by_its_name(tmp_path):
    folder = tmp_path / "run"
    for name, cosine in (("one", 0.5), ("two", 1.0)):
        write_run(folder / name, [row(0, "A_1", cosine=cosine)], [node("A_1", 0, op_type=name)])
    findings = [{"node": name, "comparison": name} for name in ("one", "two")]
    run = read_run(write_run(folder, [], findings=findings, comparisons={"one": {}, "two": {}}))
    threshold = Threshold("cosine", 0.98)
    assert told(beyond(run, threshold, limit=None)) == [("A_1", Part.UNKNOWN)]
    assert beyond(run, threshold, limit=None).data()["nodes"][0]["comparison"] == "one"
    assert told(beyond(run, threshold, limit=None, scope=Scope("two"))) == []
    assert [each.node for each in origin(run, scope=Scope("two")).findings] == ["two"]
    nodes = StoredNodes(run)
    assert len(node_view(run, nodes, "A_1").views) == 2
    (view,) = node_view(run, nodes, "A_1", scope=Scope("two")).views
    assert (view.node.op_type, view.rows[0].metrics["cosine"]) == ("two", 1.0)


def test_the_origin_of_a_rank_is_the_first_that_fails_there(tmp_path):
    rows = [row(0, "A_1", rank=0, role="origin"), row(1, "A_1", rank=1), row(2, "B_1", rank=1, role="origin")]
    findings = [
        {"node": "A_1", "rank": 0}, {"node": "A_1", "rank": 1, "fails": False}, {"node": "B_1", "rank": 1},
        {"kind": "drift", "node": None, "rank": None},
    ]  # fmt: skip
    run = read_run(write_run(tmp_path / "run", rows, suspects=[0, 1, 2], findings=findings))
    assert origin(run).first.node == "A_1"
    answer = origin(run, scope=Scope(rank=1))
    assert (answer.first.node, answer.first.rank) == ("B_1", 1)
    assert [each.order for each in answer.rows] == [2]
    assert [(each.node, each.rank) for each in answer.findings] == [("A_1", 1), ("B_1", 1), (None, None)]
    assert origin(run, scope=Scope(rank=7)).named is None


def test_a_run_without_an_origin_says_so(tmp_path):
    assert origin(read_run(write_run(tmp_path / "run", [row(0, "A_1")]))).named is None


@pytest.mark.parametrize("text", [None, '{"node": "A_1"', '{"node": 5, "side": "target"}\n', "[]\n"])
def test_nodes_that_cannot_be_read_are_told_apart_from_rows(tmp_path, text):
    folder = write_run(tmp_path / "run", [row(0, "A_1")], [node("A_1", 0)] if text else None)
    if text:
        (folder / "nodes.jsonl").write_text(text)
    run = read_run(folder)
    with pytest.raises(IncompleteError) as caught:
        list(run.nodes())
    assert caught.value.diagnostic.code == "PF7204"
    assert len(list(run.rows())) == 1


@pytest.mark.parametrize("text", ["", "{", '{"order": 0}\n', '{"order": 0, "start": "x", "target": 1}\n', "[" * 9999])
def test_a_damaged_closer_look_is_no_look(tmp_path, text):
    folder = write_run(tmp_path / "run", [row(0, "A_1")])
    (folder / "details.jsonl").write_text(text)
    assert read_run(folder).detail(Reader(RowRecord).convert(row(0, "A_1"))) is None


def test_sides_of_rows_are_written_as_the_schema_says():
    import jsonschema

    from probe_flow.record.schemas import schema

    rows = row(0, "A_1"), row(0, "A_1", golden=None, target=side("A_1.output.0", nan=None))
    checks = [("comparison", one) for one in rows] + [("nodes", node("A_1", 0, (0, "B_1", 1)))]
    for name, record in checks:
        assert list(jsonschema.Draft202012Validator(schema(name)).iter_errors(record)) == []
