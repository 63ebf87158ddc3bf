"""First differences as JSON: the keys and cells of the published files, and values that JSON cannot hold."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from call_rows import SAME, Call, Plain, compared

from probe_flow.analysis.first_difference.search import first_differences
from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.matching.name.match_name import match_name
from probe_flow.records import Comparison, Statistics
from probe_flow.reports.tables.dump_json.diff_analyze import write_entries_json, write_first_json
from probe_flow.stages.compare import Options

ROOT = Path(__file__).parents[5]
EXPECTED = ROOT / "tests" / "data" / "dump_json" / "expected" / "dist_stat_bug_before_comm_da"
WRONG = (9.0, 1.0)
MISPAIRED = ("Tensor.__add__.0.forward", "Tensor.__add__.1.forward", "Tensor.__add__.0.backward")
"""The published tool pairs the additions of rank 1 by their numbers, one call too early."""


def refuse_constant(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def strict(path: Path) -> Any:
    return json.loads(path.read_text(), parse_constant=refuse_constant)


def files(comparison: Comparison, folder: Path) -> tuple[list[Any], Any]:
    differences = first_differences(comparison)
    found = []
    for number, each in enumerate(differences):
        write_entries_json(each, comparison, folder / f"{number}.json")
        found.append(strict(folder / f"{number}.json"))
    write_first_json(differences, comparison, folder / "first.json")
    return found, strict(folder / "first.json")


@pytest.fixture(scope="module")
def ranks() -> Comparison:
    """Two real ranks: rank 1 adds 1.0 before the first all_reduce."""
    from probe_flow.work import Context, Settings

    examples = ROOT / "examples" / "dump_json"
    target, golden = (read_dump_json(examples / f"ranks_{side}", side=side) for side in ("target", "golden"))

    def no_tasks(_function: Any, batches: Any, **_more: Any) -> Any:
        assert not batches
        return iter(())

    context = Context("result", Path(), no_tasks, lambda _event, **_fields: None, lambda _found: None, Settings(), {})
    options = Options.model_validate({"uses": "compare", "pairs": "pairs", "policy": "dump_json"})
    return compare_pairs(match_name(target, golden), options.asked(), context, None)


def near(ours: Any, theirs: Any) -> bool:
    """Texts of numbers agree to 1e-9: msprobe rounds differences in its own way."""
    try:
        values = [float(str(value).rstrip("%")) for value in (ours, theirs)]
    except ValueError:
        return bool(ours == theirs)
    return type(ours) is type(theirs) and math.isclose(*values, rel_tol=1e-9, abs_tol=1e-9)


def test_rows_of_real_ranks_are_those_of_the_published_files(ranks: Comparison, tmp_path: Path) -> None:
    ours, _ = files(ranks, tmp_path)
    for rank in (0, 1):
        theirs = json.loads((EXPECTED / f"compare_result_rank{rank}.json").read_text())
        for name, entry in theirs.items():
            if rank == 1 and name in MISPAIRED:
                continue
            assert not ours[rank][name]["is_same"], name
            for item, expected in zip(ours[rank][name]["op_items"], entry["op_items"], strict=True):
                found = {column: value for column, value in item.items() if column != "NPU_Stack_Info"}
                assert list(found) == list(expected)
                wrong = {c: (found[c], v) for c, v in expected.items() if not near(found[c], v) and c in found}
                # A value missing on both sides, and pandas' NaN for a column that is too short.
                assert not {c for c, (_, v) in wrong.items() if v == v}, (name, wrong)


def test_the_added_call_is_named_not_the_communication_that_spreads_it(ranks: Comparison, tmp_path: Path) -> None:
    _, first = files(ranks, tmp_path)
    theirs = json.loads((EXPECTED / "diff_analyze.json").read_text())
    assert list(first) == ["rank_1"]
    (entry,) = first["rank_1"]
    assert entry["op_name"] == "Tensor.__add__.0.forward"
    assert list(entry)[:3] == list(theirs["rank_1"][0])
    assert list(entry["data_info"]) == ["input", "output"]
    (output,) = entry["data_info"]["output"].values()
    (other,) = theirs["rank_1"][0]["data_info"]["output"].values()
    assert list(output) == list(other)
    assert entry["difference"] == "unmatched"
    assert "h = h + 1" in entry["stack_info"][0]


def test_a_single_process_counts_as_rank_0(tmp_path: Path) -> None:
    _, first = files(compared(Call("Torch.a"), Call("Torch.b", outputs=[WRONG])), tmp_path)
    assert list(first) == ["rank_0"]
    assert first["rank_0"][0]["op_name"] == "Torch.b.0.forward"
    assert "step" not in first["rank_0"][0]


def test_several_steps_are_told_apart(tmp_path: Path) -> None:
    _, first = files(compared(Call("Torch.a", step=0), Call("Torch.a", step=4, outputs=[WRONG])), tmp_path)
    assert first["rank_0"][0]["step"] == 4


def test_checksums_are_shown_for_dumps_of_checksums(tmp_path: Path) -> None:
    comparison = compared(
        Call("Torch.a", [("aa", "aa")], [("aa", "bb")]), Call("Torch.x", [("cc", None)], [("dd", None)])
    )
    (entries,), first = files(comparison, tmp_path)
    item = entries["Torch.a.0.forward"]["op_items"][1]
    assert (item["NPU MD5"], item["BENCH MD5"], item["Result"], item["Err_message"]) == ("aa", "bb", "Different", "")
    assert entries["Torch.a.0.forward"]["op_items"][0]["Result"] == "pass"
    alone = entries["Torch.x.0.forward"]["op_items"][0]
    assert (alone["Bench Name"], alone["Result"], alone["Err_message"]) == (
        "N/A",
        "N/A",
        "no partner for `Torch.x.0.forward`",
    )
    shown = first["rank_0"][0]["data_info"]["output"]["Torch.a.0.forward.output.0"]
    assert shown == {"NPU MD5": "aa", "NPU P2POp peer": "None"}


def test_values_that_json_cannot_hold_are_text(tmp_path: Path) -> None:
    odd = Statistics(-math.inf, math.inf, math.nan, None)
    (entries,), _ = files(compared(Call("Torch.a", outputs=[(odd, Statistics(0.0, 1.0, 0.5, 1.0))])), tmp_path)
    item = entries["Torch.a.0.forward"]["op_items"][1]
    assert [item[f"NPU {name}"] for name in ("max", "min", "mean", "l2norm")] == ["inf", "-inf", "nan", "None"]


def test_plain_values_and_point_to_point_operations_are_shown(tmp_path: Path) -> None:
    call = Call(
        "Distributed.batch_isend_irecv",
        [SAME, (Plain(3), Plain(4))],
        [WRONG],
        p2p=({"op": "isend", "peer": 1},),
        rank=0,
    )
    (entries,), first = files(compared(call), tmp_path)
    operation, argument = entries["Distributed.batch_isend_irecv.0.forward"]["op_items"][:2]
    assert [operation[f"{side} P2POp {field}"] for field in ("op", "peer") for side in ("NPU", "Bench")] == [
        "isend", "isend", 1, 1,
    ]  # fmt: skip
    assert (argument["NPU max"], argument["NPU P2POp peer"]) == (3, "None")
    shown = first["rank_0"][0]["data_info"]["input"]["Distributed.batch_isend_irecv.0.forward.input.0"]
    assert shown["NPU P2POp peer"] == 1


def test_a_call_of_the_golden_alone_keeps_its_own_entry_beside_one_of_the_same_name(tmp_path: Path) -> None:
    comparison = compared(Call("Torch.a"), Call("Torch.b", [(None, 1.0)], [(None, 2.0)]), Call("Torch.b", call=1))
    (entries,), _ = files(comparison, tmp_path)
    assert list(entries) == ["Torch.a.0.forward", "Torch.b.1.forward", "Torch.b.0.forward"]
    assert entries["Torch.b.0.forward"]["op_items"][0]["NPU Name"] == "N/A"


def test_the_source_frames_stand_at_the_first_row_of_an_entry(tmp_path: Path) -> None:
    (entries,), _ = files(compared(Call("Torch.a", [SAME, SAME])), tmp_path)
    frames = [item["NPU_Stack_Info"] for item in entries["Torch.a.0.forward"]["op_items"]]
    assert frames == [["File model.py, line 1, in forward, \n x = f(x)"], "N/A", "N/A"]


def test_no_rows_make_an_empty_object(tmp_path: Path) -> None:
    found, first = files(compared(), tmp_path)
    assert (found, first) == ([], {})
