"""The difference of two runs, from run folders that are written by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import stored_runs

from probe_flow.errors import IncompleteError
from probe_flow.record.run_folder import read_run
from probe_flow.record.stored_rows import StoredRows
from probe_flow.runs.diff.differences import RunDiff, diff_runs
from probe_flow.runs.diff.page import write_diff_html
from probe_flow.runs.diff.rows import Kind
from probe_flow.runs.diff.text import diff_json, diff_lines, outcome
from probe_flow.testing import run_records


def side(name: str, **more: Any) -> dict[str, Any]:
    return stored_runs.side(name, **{"dtype": "float32", "file": None, **more})


def line(
    node: str, error: object = 0.01, verdict: str = "pass", *, golden: str | None = "", **more: Any
) -> dict[str, Any]:
    partner = None if golden is None else side(golden or f"{node.lower()}.output.0")
    metrics = {} if error is None else {"relative_euclidean_distance": error, "cosine": 0.5}
    sides = {"target": side(f"{node}.output.0"), "golden": partner}
    return stored_runs.row(0, node, **{"op_type": "Add", "metrics": metrics, "verdict": verdict, **sides, **more})


def unmatched(node: str) -> dict[str, Any]:
    return line(node, None, "unmatched_target", golden=None)


def finding(node: str, error: float, **more: Any) -> dict[str, Any]:
    metrics = {"relative_euclidean_distance": error}
    return run_records.finding(node=node, op_type="Add", evidence="differs", metrics=metrics, row=0, **more)


def write_run(
    folder: Path, lines: list[dict[str, Any]], *, findings: Any = (), verdict: str = "pass",
    stages: tuple[str, ...] = ("result",), workflow: str = "w", inputs: tuple[tuple[str, str, str], ...] = (),
) -> Path:  # fmt: skip
    folder.mkdir()
    counts = {"tensors": 1, "compared": 1}
    summary = {
        "counts": {"pass": len(lines)}, "gate": {"name": "findings", "passed": verdict == "pass", "policy": "p"}
    }  # fmt: skip
    count = {"origin": {"found": len(findings), "failing": sum(each["fails"] for each in findings)}}
    record = run_records.run_data(
        run_id=folder.name, workflow={"name": workflow}, verdict=verdict,
        exit_code={"pass": 0, "fail": 1}.get(verdict, 3), counts={"pass": len(lines)}, findings=findings,
        coverage={"target": counts, "golden": counts},
        comparisons={
            stage: {**summary, "finding_counts": count if stage == stages[0] and findings else {}} for stage in stages
        },
        inputs=[{"stage": stage, "path": path, "fingerprint": digest, "tensors": 7} for stage, path, digest in inputs],
    )  # fmt: skip
    (folder / "run.json").write_text(json.dumps(record))
    for stage in stages:
        place = folder / stage if len(stages) > 1 else folder
        place.mkdir(exist_ok=True)
        (place / "comparison.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    return folder


@pytest.fixture
def diff(tmp_path: Path):
    def run(before: list[Any], after: list[Any], *, tolerance: float = 0.1, a: Any = None, b: Any = None) -> RunDiff:
        one = write_run(tmp_path / "a", before, **(a or {}))
        other = write_run(tmp_path / "b", after, **(b or {}))
        return diff_runs(read_run(one), read_run(other), tolerance=tolerance)

    return run


def kinds(found: RunDiff) -> list[tuple[str, str]]:
    return [(change.place.node, change.kind.value) for change in found.rows]


def test_a_tensor_in_several_pairs_is_held_against_those_with_the_same_golden_tensors(diff):
    before = [line("A", 0.01, golden="x"), line("A", 0.02, golden="y"), line("A", 0.03, golden="x")]
    after = [line("A", 0.02, golden="y"), line("A", 0.03, golden="z"), line("A", 0.5, golden="x")]
    found = [
        (change.kind.value, change.before.figure[1], change.after.figure[1]) for change in diff(before, after).rows
    ]
    assert found == [("rematched", 0.03, 0.03), ("worse", 0.01, 0.5)]


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (line("A", 0.01), line("A", 0.011), None),
        (line("A", 0.01), line("A", 0.0112), "worse"),
        (line("A", 0.0112), line("A", 0.01), "better"),
        (line("A", 1e-9), line("A", 5e-8), None),  # below half a unit of float32
        (line("A", 1e-9), line("A", 7e-8), "worse"),
        (line("A", 0.01), line("A", "inf"), "worse"),
        (line("A", "inf"), line("A", "inf"), None),
        (line("A", 0.01), line("A", "nan"), "worse"),
        (line("A", "nan"), line("A", 0.01), "better"),
        (line("A", 0.01), line("A", 0.01, target=side("A.output.0", nan=3)), "worse"),
        (line("A", 0.01, target=side("A.output.0", inf=3)), line("A", 0.5), "better"),
        (line("A", 0.01), line("A", 0.01, "fail"), "changed"),
        (line("A", 0.01), unmatched("A"), "lost"),
        (unmatched("A"), line("A", 0.01), "gained"),
        (unmatched("A"), unmatched("A"), None),
        (line("A", 0.01), line("A", 0.01, golden="other"), "rematched"),
        (line("A", None, "pass"), line("A", None, "fail"), "worse"),
        (line("A", None, "fail"), line("A", None, "pass"), "better"),
        (line("A", metrics={"checksum_equal": True}), line("A", metrics={"checksum_equal": False}), "worse"),
        (line("A", metrics={"checksum_equal": False}), line("A", metrics={"checksum_equal": True}), "better"),
        (line("A", metrics={"max_abs_err": 1e-9}), line("A", metrics={"max_abs_err": 2e-9}), "worse"),
        (line("A", metrics={"cosine": 0.999}), line("A", metrics={"cosine": 0.9}), "worse"),
        (line("A", metrics={"l2norm_diff_rel": -0.1}), line("A", metrics={"l2norm_diff_rel": 0.1}), None),
        (line("A", metrics={"rmse": 1.0}), line("A", metrics={"cosine": 0.1}), None),  # nothing to compare
    ],
)  # fmt: skip
def test_what_becomes_of_a_tensor(diff, before, after, kind):
    assert kinds(diff([before], [after])) == ([("A", kind)] if kind else [])


def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The numbers of the rows that are read from now on, of each file."""
    read: list[list[int]] = []
    parts = StoredRows.parts

    def noting(rows: StoredRows, numbers: Iterable[int], reader: Any) -> Any:
        read.append([*numbers])
        return parts(rows, read[-1], reader)

    monkeypatch.setattr(StoredRows, "parts", noting)
    return read


@pytest.mark.parametrize("indexed", [("a", "b"), ("a",), ("b",)])
def test_only_rows_that_differ_are_read(tmp_path, monkeypatch, indexed):
    write_run(tmp_path / "a", numbered(line("A"), line("B", 0.01), line("C"), line("D")))
    write_run(tmp_path / "b", numbered(line("New"), line("A"), line("B", 0.5), line("D"), line("C")))
    for name in indexed:
        stored_runs.leave_index(tmp_path / name)
    read = rows_read(monkeypatch)
    found = diff_runs(read_run(tmp_path / "a"), read_run(tmp_path / "b"), tolerance=0.1)
    assert read == [[0, 2], [1]]
    assert (found.common, kinds(found)) == (4, [("New", "appeared"), ("B", "worse")])


def numbered(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**row, "order": number} for number, row in enumerate(rows)]


def test_a_line_that_both_runs_have_more_than_once_counts_as_often_as_both_have_it(diff):
    found = diff([line("A"), line("A"), line("B")], [line("A"), line("B"), line("B")])
    assert found.common == 2
    assert sorted(kinds(found)) == [("A", "vanished"), ("B", "appeared")]


@pytest.mark.parametrize("place", [0, 10, 11, 40, 200])
@pytest.mark.parametrize("indexed", [(), ("a",), ("a", "b")])
def test_a_line_that_is_damaged_alike_in_both_runs_is_an_error(tmp_path, place, indexed):
    rows = numbered(line("A"), line("B"), line("C"))
    for name in ("a", "b"):
        folder = write_run(tmp_path / name, rows)
        if name in indexed:
            stored_runs.leave_index(folder)
        text = bytearray((folder / "comparison.jsonl").read_bytes())
        text[text.find(b"\n") + 1 + place] = ord("}")
        (folder / "comparison.jsonl").write_bytes(text)
    with pytest.raises(IncompleteError) as caught:
        diff_runs(read_run(tmp_path / "a"), read_run(tmp_path / "b"), tolerance=0.1)
    assert caught.value.diagnostic.code == "PF7113"
    assert "line 2" in caught.value.diagnostic.message


def test_of_a_line_that_is_damaged_in_one_run_only_it_is_an_error_too(tmp_path):
    rows = numbered(line("A"), line("B"), line("C"))
    stored_runs.leave_index(write_run(tmp_path / "a", rows))
    damaged = stored_runs.leave_index(write_run(tmp_path / "b", rows)) / "comparison.jsonl"
    damaged.write_bytes(damaged.read_bytes().replace(b'{"order": 1', b'{"ord": 1.0'))
    for pair in (("a", "b"), ("b", "a")):
        with pytest.raises(IncompleteError):
            diff_runs(*(read_run(tmp_path / name) for name in pair), tolerance=0.1)


def test_a_row_that_comes_in_between_moves_the_others_but_changes_none(diff):
    before = [line("A"), line("B"), line("C", 0.01)]
    found = diff(before, [line("A"), line("New"), line("B"), line("C", 0.5)])
    assert (found.common, kinds(found)) == (3, [("New", "appeared"), ("C", "worse")])


def test_equal_lines_of_stages_that_do_not_belong_together_are_not_the_same(diff):
    stages = {"stages": ("one", "two")}
    found = diff([line("A")], [line("A")], a=stages, b={"stages": ("one", "other")})
    assert (found.common, [change.kind.value for change in found.rows]) == (1, ["appeared", "vanished"])


def test_what_only_one_run_has_stands_behind_what_both_have(diff):
    found = diff([line("Gone"), line("A", 0.01)], [line("New"), line("A", 0.5)])
    assert kinds(found) == [("New", "appeared"), ("A", "worse"), ("Gone", "vanished")]
    assert found.common == 1


@pytest.mark.parametrize(
    ("before", "after", "regresses"),
    [
        ([line("A"), line("B")], [line("A")], True),  # what was compared has vanished
        ([line("A"), unmatched("B")], [line("A")], False),
        ([line("A")], [line("A"), line("B", 9.0, "fail")], False),  # only a finding tells whether a new one is wrong
        ([line("A")], [unmatched("A")], True),
        ([line("A", 0.01)], [line("A", 0.5, waived="waived until ...")], False),
        ([line("A", 0.01)], [line("A", 0.5)], True),
        ([line("A", 0.01)], [line("A", 0.01, "fail")], False),
    ],
)
def test_what_is_a_regression(diff, before, after, regresses):
    found = diff(before, after)
    assert found.has_regressed is regresses
    assert outcome(found) == ("regression" if regresses else "no_regression")


@pytest.mark.parametrize(
    ("before", "after", "regresses"),
    [
        ((), (finding("A", 0.1),), True),
        ((finding("A", 0.1),), (finding("A", 0.105),), False),
        ((finding("A", 0.1),), (finding("A", 0.2),), True),
        ((finding("A", 0.1),), (finding("A", 0.2, fails=False, waived="waived"),), False),
        ((finding("A", 0.1),), (), False),
        ((), (finding("A", 0.1, fails=False),), False),
    ],
)
def test_findings_follow_the_rules_of_a_baseline(diff, before, after, regresses):
    assert diff([line("A")], [line("A")], a={"findings": before}, b={"findings": after}).has_regressed is regresses


def test_a_run_that_passed_and_fails_now_has_regressed(diff):
    found = diff([line("A")], [line("A")], b={"verdict": "fail"})
    assert found.has_regressed
    assert next(diff_lines(found, limit=1, names=("a", "b"))) == "REGRESSION  Worse in B: the verdict of the run."


def test_a_tensor_in_several_pairs_keeps_its_partners_apart(diff):
    before = [line("A", 0.1, golden="x"), line("A", 0.2, golden="y"), line("A", 0.3, golden="z")]
    after = [line("A", 0.3, golden="z"), line("A", 0.1, golden="w"), line("A", 0.2, golden="y")]
    found = diff(before, after)
    assert [(change.kind, change.before.golden, change.after.golden) for change in found.rows] == [
        (Kind.REMATCHED, "x", "w")
    ]


def test_ranks_steps_and_calls_are_told_apart(diff):
    before = [line("A", 0.1), line("A", 0.1, step=1), line("A", 0.1, rank=1), line("A", 0.1, call=1)]
    after = [line("A", 0.1), line("A", 0.9, step=1), line("A", 0.1, rank=1), line("A", 0.9, call=1)]
    assert [(change.place.step, change.place.call) for change in diff(before, after).rows] == [(1, 0), (0, 1)]


def test_the_only_stages_of_two_runs_belong_together_whatever_their_names(diff):
    found = diff([line("A")], [line("A", 0.9)], a={"stages": ("one",)}, b={"stages": ("other",)})
    assert kinds(found) == [("A", "worse")]


def test_several_comparisons_are_told_apart(diff):
    found = diff([line("A")], [line("A", 0.9)], a={"stages": ("x", "y")}, b={"stages": ("x", "y")})
    assert [change.place.comparison for change in found.rows] == ["x", "y"]
    assert any("x: A (Add) output 0" in text for text in diff_lines(found, limit=None, names=("a", "b")))


def test_other_verdicts_are_counted(diff):
    found = diff(
        [line("A"), line("B"), line("C", 0.1, "warning")], [line("A", 0.01, "fail"), line("B"), line("C", 0.1)]
    )
    assert dict(found.verdicts) == {("pass", "fail"): 1, ("warning", "pass"): 1}


def test_runs_without_a_common_tensor_are_refused(diff):
    with pytest.raises(IncompleteError) as caught:
        diff([line("A")], [line("B")])
    assert caught.value.diagnostic.code == "PF7330"


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        ({"graph": [1]}, "PF7113"),
        ({"metrics": [1]}, "PF7113"),
        ({"call": {}}, "PF7113"),
        ({"target": {"nan": "many", "inf": 0}}, "PF7113"),
        ({"verdict": "odd"}, "PF7113"),
    ],
)
def test_a_row_of_another_shape_is_named(diff, damage, expected):
    with pytest.raises(IncompleteError) as caught:
        diff([line("A")], [line("A", **damage)])
    assert caught.value.diagnostic.code == expected


@pytest.mark.parametrize("findings", [[1], [{"fails": True}], [{**finding("A", 0.1), "node": 3}], "text"])
def test_findings_of_another_shape_are_told(tmp_path, findings):
    runs = [write_run(tmp_path / name, [line("A")]) for name in ("one", "other")]
    file = runs[1] / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "findings": findings}))
    with pytest.raises(IncompleteError) as caught:
        diff_runs(read_run(runs[0]), read_run(runs[1]), tolerance=0.1)
    assert caught.value.diagnostic.code == "PF7111"


def test_runs_whose_records_list_only_a_part_of_what_fails_are_not_held_against_each_other(diff, tmp_path):
    found = diff([line("A")], [line("A")], b={"findings": (finding("A", 0.1),), "verdict": "fail"})
    file = tmp_path / "b" / "run.json"
    record = json.loads(file.read_text())
    record["comparisons"]["result"]["finding_counts"]["origin"] = {"found": 2, "failing": 2}
    file.write_text(json.dumps(record))
    with pytest.raises(IncompleteError) as caught:
        diff_runs(found.a, read_run(tmp_path / "b"), tolerance=0.1)
    assert caught.value.diagnostic.code == "PF7115"


def test_an_incomplete_run_b_leaves_the_answer_open_and_an_incomplete_a_only_warns(diff, tmp_path):
    found = diff([line("A")], [line("A")], b={"verdict": "incomplete"})
    assert outcome(found) == "uncertain"
    assert list(diff_lines(found, limit=None, names=("a", "b")))[-1] == "UNCERTAIN | 1 of 1 the same | exit code 3"
    back = diff_runs(found.b, found.a, tolerance=0.1)
    assert outcome(back) == "no_regression"
    assert [problem.code for problem in back.problems] == ["PF7332"]


def test_runs_of_different_workflows_are_told(diff):
    found = diff([line("A")], [line("A")], b={"workflow": "v"})
    assert [problem.code for problem in found.problems] == ["PF7331"]
    assert found.problems[0].help


def test_the_text_is_a_table_per_kind_with_what_was_left_out(diff):
    before = [line(f"A{number}", 0.01) for number in range(5)]
    after = [line(f"A{number}", 0.5, "fail") for number in range(5)]
    lines = list(diff_lines(diff(before, after), limit=2, names=("a", "b")))
    assert lines[0] == "REGRESSION  Worse in B: 5 tensors."
    assert lines[2] == "  A  a: pass, 5 pass, began 2026-01-02T03:04:05+00:00"
    place = next(number for number, text in enumerate(lines) if text.startswith("Worse"))
    assert lines[place].endswith("(5)")
    assert lines[place + 1].split() == ["verdict", "error", "where", "tensor", "golden"]
    assert re.fullmatch(
        r"  pass -> fail  0.01 -> 0.5  rank 0, graph 1, step 0  A0 \(Add\) output 0  a0\.output\.0", lines[place + 2]
    )
    assert lines[place + 4] == "  and 3 more; `--limit 0` shows all"
    assert lines[-1] == "REGRESSION | 5 worse, 0 of 5 the same | exit code 1"


def test_the_name_of_an_entry_is_a_column_where_any_is_another(diff, tmp_path):
    calls = [{"node": "A", "call": call, "name": f"A.{call}.forward"} for call in range(2)]
    found = diff([line(**each) for each in calls], [line(**each, error=0.5, verdict="fail") for each in calls])
    lines = list(diff_lines(found, limit=None, names=("a", "b")))
    head = next(number for number, text in enumerate(lines) if text.split()[:1] == ["verdict"])
    assert lines[head].endswith("  golden      in the dump")
    assert [text.split()[-1] for text in lines[head + 1 : head + 3]] == ["A.0.forward", "A.1.forward"]
    write_diff_html(found, tmp_path / "d.html", names=("a", "b"))
    page = (tmp_path / "d.html").read_text()
    assert '<th scope="col">in the dump</th></tr>' in page
    assert "<td>A.1.forward</td></tr>" in page


def test_the_json_form_is_strict_and_has_every_row(diff):
    found = diff([line("A", "inf")] + [line(f"A{n}", 0.01) for n in range(50)], [line("A", "nan")] + [
        line(f"A{n}", 0.5) for n in range(50)
    ])  # fmt: skip
    record = json.loads(diff_json(found), parse_constant=lambda word: pytest.fail(word))
    assert (record["answer"], record["exit_code"], record["counts"]["worse"]) == ("regression", 1, 51)
    assert (record["rows"][0]["before"]["error"], record["rows"][0]["after"]["error"]) == ("inf", "nan")


class Page(HTMLParser):
    """Collects tags and the texts of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_page_runs_nothing_and_shows_hostile_names_as_text(diff, tmp_path):
    name = '<script>alert(1)</script>"\x1b[31m'
    found = diff([line(name, 0.01)], [line(name, 0.5, golden="<img src=x>")], b={"workflow": "<b>"})
    write_diff_html(found, tmp_path / "d.html", names=("<a>", "b&c"))
    page = Page()
    text = (tmp_path / "d.html").read_text()
    page.feed(text)
    assert not {"script", "img", "b", "a", "link", "iframe"} & set(page.tags)
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    assert any('<script>alert(1)</script>"\\x1b[31m (Add) output 0' in each for each in page.text)
    assert "http" not in text.replace("http-equiv", "")


# --- dumps that differ, findings that moved --------------------------------------------------------------------------

SAME = ("golden", "/data/fx", "bbbb")
MONDAY, FRIDAY = ("target", "/data/monday", "aaaa1111ff"), ("target", "/data/friday", "cccc2222ff")


@pytest.mark.parametrize(
    ("before", "after", "names", "sentence"),
    [
        ((MONDAY, SAME), (FRIDAY, SAME), "target", "the golden is the same: what is worse or better is so in the new"),
        ((MONDAY, SAME), (MONDAY, ("golden", "/data/fx", "x")), "golden", "judged by another golden"),
        ((MONDAY, SAME), (FRIDAY, ("golden", "/x", "y")), "target and golden", "the runs compare other data"),
        ((MONDAY,), (MONDAY, SAME), "golden", "judged by another golden"),
        ((("cpu", "/a", "1"),), (("cpu", "/b", "2"),), "cpu", "the runs compare other data"),
    ],
)
def test_dumps_that_differ_are_said_first(diff, before, after, names, sentence):
    found = diff([line("A")], [line("A", 0.5)], a={"inputs": before}, b={"inputs": after})
    lines = list(diff_lines(found, limit=None, names=("a", "b")))
    assert lines[0] == f"REGRESSION  The runs are of different dumps: {names}. Worse in B: 1 tensor."
    assert lines.index("Dumps that differ") < next(at for at, text in enumerate(lines) if text.startswith("Worse"))
    assert any(sentence in text for text in lines)
    assert lines[-1].startswith(f"REGRESSION | different dumps: {names} | 1 worse")
    (problem,) = found.problems
    assert (problem.code, sentence in (problem.help or "")) == ("PF7333", True)


def test_paths_and_fingerprints_of_both_dumps_are_shown(diff, tmp_path):
    found = diff([line("A")], [line("A")], a={"inputs": (MONDAY,)}, b={"inputs": (FRIDAY,)})
    text = "\n".join(diff_lines(found, limit=None, names=("a", "b")))
    assert "  target  A  /data/monday: 7 tensors, fingerprint aaaa1111\n" in text
    assert "          B  /data/friday: 7 tensors, fingerprint cccc2222\n" in text
    facts = json.loads(diff_json(found))["inputs"]
    assert facts == [
        {
            "stage": "target",
            "before": {"path": "/data/monday", "fingerprint": "aaaa1111ff", "tensors": 7},
            "after": {"path": "/data/friday", "fingerprint": "cccc2222ff", "tensors": 7},
        }
    ]
    write_diff_html(found, tmp_path / "diff.html", names=("a", "b"))
    assert "/data/friday: 7 tensors" in (tmp_path / "diff.html").read_text()
    assert found.problems[0].message == "the target of run B is another dump than in run A"


def test_a_dump_that_was_written_again_is_another_one(diff):
    found = diff([line("A")], [line("A")], a={"inputs": (MONDAY,)}, b={"inputs": (("target", "/data/monday", "x"),)})
    assert found.problems[0].message == "the target of run B was written again after run A"


def test_the_same_files_in_another_folder_are_the_same_dump(diff):
    found = diff([line("A")], [line("A")], a={"inputs": (MONDAY,)}, b={"inputs": (("target", "/moved", "aaaa1111ff"),)})
    assert (found.inputs, found.problems) == ((), ())
    assert next(iter(diff_lines(found, limit=None, names=("a", "b")))) == "NO REGRESSION  Nothing is worse in B."


def at_step(node: str, step: int, rank: int = 0, **more: Any) -> dict[str, Any]:
    return line(node, step=step, rank=rank, **more)


@pytest.mark.parametrize(
    ("before", "after", "text", "code"),
    [
        ((0, 0), (0, 1), "moved: A.output.0 (Add), origin: rank 0, step 0 -> rank 0, step 1", 1),
        ((0, 1), (0, 0), "moved: A.output.0 (Add), origin: rank 0, step 1 -> rank 0, step 0", 1),
        ((0, 0), (1, 0), "moved: A.output.0 (Add), origin: rank 0, step 0 -> rank 1, step 0", 1),
        ((0, 0), (0, 0), "as before: 1 finding", 0),
        ((0, 0), (0, 5), "moved: A.output.0 (Add), origin: rank 0, step 0 -> rank 0, step 5", 0),  # A has no step 5
    ],
)
def test_an_origin_of_another_rank_or_step_has_moved(diff, before, after, text, code):
    rows = [at_step("A", step, rank) for rank in (0, 1) for step in (0, 1)]
    sides = [
        {"verdict": "fail", "findings": (finding("A", 0.1, rank=rank, step=step),)} for rank, step in (before, after)
    ]
    found = diff(rows, rows, a=sides[0], b=sides[1])
    lines = list(diff_lines(found, limit=None, names=("a", "b")))
    assert lines[lines.index("Findings that fail") + 1] == f"  {text}"
    assert lines[-1].endswith(f"exit code {code}")
    assert any("as before" in each for each in lines) == (before == after)
    moved = json.loads(diff_json(found))["moved"]["result"]
    expected = [] if before == after else [
        {
            "before": [{"rank": before[0], "step": before[1]}],
            "after": [{"rank": after[0], "step": after[1]}],
            "regression": code == 1,
        }
    ]  # fmt: skip
    assert [{key: each[key] for key in ("before", "after", "regression")} for each in moved] == expected


def test_an_origin_of_another_call_is_a_new_one(diff):
    rows = [line("A"), line("A", call=1)]
    sides = [{"verdict": "fail", "findings": (finding("A", 0.1, call=call),)} for call in (0, 1)]
    lines = list(diff_lines(diff(rows, rows, a=sides[0], b=sides[1]), limit=None, names=("a", "b")))
    assert "  worse: A#1.output.0 (Add), origin: new -> 0.1" in lines
    assert not any("as before" in each for each in lines)


def test_a_finding_that_moved_and_grew_is_counted_once_as_worse(diff):
    rows = [at_step("A", step) for step in (0, 1)]
    a = {"verdict": "fail", "findings": (finding("A", 0.1), finding("B", 0.1))}
    b = {"verdict": "fail", "findings": (finding("A", 0.9, step=1), finding("B", 0.1))}
    lines = list(diff_lines(diff(rows, rows, a=a, b=b), limit=None, names=("a", "b")))
    assert lines[0] == "REGRESSION  Worse in B: 1 finding."
    start = lines.index("Findings that fail")
    assert [each.split(":")[0].strip() for each in lines[start + 1 : start + 4]] == ["worse", "moved", "as before"]
    assert "as before: 1 finding" in lines[start + 3]


@pytest.mark.parametrize(
    "inputs", [3, [3], [{"stage": "target"}], [{"stage": "t", "fingerprint": "x", "tensors": "a"}]]
)
def test_inputs_that_no_run_records_are_reported(diff, tmp_path, inputs):
    runs = [write_run(tmp_path / name, [line("A")]) for name in ("one", "other")]
    file = runs[0] / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "inputs": inputs}))
    with pytest.raises(IncompleteError) as error:
        diff_runs(read_run(runs[0]), read_run(runs[1]), tolerance=0.1)
    assert error.value.diagnostic.code == "PF7111"
    assert str(error.value.diagnostic.path).startswith(str(runs[0]))
