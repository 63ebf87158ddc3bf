from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from run_records import first_divergence

from probe_flow.cli.peer.compare_sides import choose_sides
from probe_flow.errors import UsageError

EXAMPLES = Path(__file__).parents[2] / "examples"
PYTORCH = EXAMPLES / "dump_json"
TORCHAIR = EXAMPLES / "torchair" / "faulty"
FUSION = EXAMPLES / "torchair" / "fusion"


def test_two_dump_json_files_give_a_table_beside_the_record(probe_flow, tmp_path):
    done = probe_flow(
        "compare", "-tp", PYTORCH / "target" / "dump.json", "-gp", PYTORCH / "golden" / "dump.json", "-o", "out"
    )
    assert done.code == 1
    (table,) = (tmp_path / "out").glob("*.csv")
    assert table.name.startswith("compare_result_")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {table.name, "probe_flow"}
    record = json.loads((tmp_path / "out" / "probe_flow" / "run.json").read_text())
    # The fault is a product that only the target has; its result enters the fourth linear layer.
    first = first_divergence(record)
    assert (first["node"], first["call"]) in {("Tensor.__mul__", 1), ("Functional.linear", 3)}
    assert str(table) in record["artifacts"]


def test_a_torchair_pair_is_compared_by_name_and_by_what_it_holds(probe_flow, tmp_path):
    sides = ("-tp", TORCHAIR / "msprobe_ge_dump", "-gp", TORCHAIR / "msprobe_fx_dump")
    named = probe_flow("compare", "-m", "torchair", *sides, "-o", "named")
    found = probe_flow("compare", *sides, "-o", "found")
    assert named.code == found.code == 1
    results = [(tmp_path / name / "probe_flow" / "comparison.jsonl").read_bytes() for name in ("named", "found")]
    assert results[0] == results[1]
    assert len(list((tmp_path / "named").glob("torchair_result_*.csv"))) == 1


def test_the_comparison_runs_where_it_is_told_to(probe_flow, tmp_path):
    sides = ("-tp", TORCHAIR / "msprobe_ge_dump", "-gp", TORCHAIR / "msprobe_fx_dump", "-o", "out")
    probe_flow("compare", *sides, "--scheduler", "processes", "--workers", "2")
    record = json.loads((tmp_path / "out" / "probe_flow" / "run.json").read_text())
    assert record["executor"] == {"scheduler": "processes", "workers": 2}


def test_by_default_tables_go_to_the_working_directory_and_records_to_folders_of_their_own(probe_flow, tmp_path):
    faulty = probe_flow("compare", "-tp", PYTORCH / "target", "-gp", PYTORCH / "golden")
    assert len(list(tmp_path.glob("compare_result_*.csv"))) == 1
    (first,) = (tmp_path / "probe_flow_runs").iterdir()
    alone = probe_flow("compare", "-tp", PYTORCH / "golden", "-gp", PYTORCH / "golden")
    (second,) = set((tmp_path / "probe_flow_runs").iterdir()) - {first}
    codes = [json.loads((folder / "run.json").read_text())["exit_code"] for folder in (first, second)]
    assert codes == [faulty.code, alone.code] == [1, 3], "the second comparison left the record of the first alone"


def test_a_second_comparison_keeps_the_first_table(probe_flow, tmp_path, monkeypatch):
    sides = ("-tp", PYTORCH / "target", "-gp", PYTORCH / "golden", "-o", "out")
    probe_flow("compare", *sides)
    (first,) = (tmp_path / "out").glob("*.csv")
    kept = first.rename(first.with_name("compare_result_20200101000000.csv"))
    assert probe_flow("compare", *sides).code == 1
    assert kept.exists()


def test_the_only_step_is_no_part_of_the_dumps(probe_flow):
    sides = ("-tp", TORCHAIR / "msprobe_ge_dump", "-gp", TORCHAIR / "msprobe_fx_dump")
    assert "partly" not in probe_flow("compare", *sides, "--step", "0", "-o", "out").last_line


def test_a_rank_that_no_side_has_is_not_green(probe_flow):
    sides = ("-tp", TORCHAIR / "msprobe_ge_dump", "-gp", TORCHAIR / "msprobe_fx_dump")
    done = probe_flow("compare", *sides, "--rank", "7", "-o", "out")
    assert done.code == 3
    assert "keeps nothing of the dump" in done.err
    assert "Nothing is missing" not in done.out


def test_long_forms_may_have_dashes_or_be_short(probe_flow):
    done = probe_flow("compare", "--target-path=a", "--golden", "b")
    assert done.code == 2
    assert done.err.count("PF2101") == 2


def test_paths_that_may_not_be_read_are_told_before_the_dumps_are_looked_at(probe_flow, monkeypatch, tmp_path):
    (tmp_path / "locked").mkdir()
    monkeypatch.setattr("probe_flow.files.existing.is_readable", lambda path: path.name != "locked")
    done = probe_flow("compare", "-tp", "locked", "-gp", TORCHAIR / "msprobe_fx_dump", "-fr", "absent")
    assert done.code == 2
    assert f"[PF2102]: `--target_path`: `{tmp_path / 'locked'}` cannot be read: permission denied" in done.err
    assert "[PF2101]: `-fr`" in done.err


@pytest.mark.parametrize("mode", [(), ("-m", "offline_model"), ("-m", "torchair")])
@pytest.mark.parametrize(
    ("option", "instead"),
    [
        ("--consistent_check", "`-lm FILE` pairs modules"),
        ("--backend=fsdp", "`-lm FILE` pairs modules"),
        ("--conf", "`convert.*` or `reduce.*` stages"),
        ("-tensor_log", "`comparison.jsonl`"),
        ("-s", "reports have them"),
        ("-c", "`comparison.jsonl`"),
    ],
)
def test_options_of_other_versions_are_named_as_such(probe_flow, option, instead, mode):
    done = probe_flow("compare", "-tp", "a", "-gp", "b", *mode, option)
    assert (done.code, "PF2120" in done.err, instead in done.err) == (2, True, True), done.err
    assert "is not part of probe_flow" in done.err


@pytest.mark.parametrize("option", ["-i", "--input_path"])
@pytest.mark.parametrize("mode", [(), ("-m", "offline_model")])
def test_a_file_with_both_paths_is_refused_with_what_names_them(probe_flow, option, mode):
    done = probe_flow("compare", *mode, option, "compare.json", "-o", "out")
    assert (done.code, "PF2120" in done.err) == (2, True), done.err
    assert "`-tp` is its `npu_path`, `-gp` its `bench_path`" in done.err


def test_an_unknown_option_is_named_whole_with_a_suggestion(probe_flow):
    done = probe_flow("compare", "-tq", "a", "-gp", "b")
    assert done.code == 2
    assert "No such option" in done.err
    assert "-tq" in done.err  # whole, and not `-t`
    assert "-tp" in done.err.replace("-tq", "")


@pytest.mark.parametrize(("mode", "told"), [("atb", "`.npy` files of equal names"), ("torchar", "`torchair`")])
def test_other_modes_are_refused(mode, told):
    with pytest.raises(UsageError) as caught:
        choose_sides(mode, Path("a"), Path("b"))
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "PF2120"
    assert told in f"{diagnostic.message} {diagnostic.help}"


@pytest.mark.parametrize("mode", [("-m", "torchair"), ()])
def test_a_golden_side_with_a_graph_text_is_a_device_dump(probe_flow, tmp_path, mode):
    sides = ("-tp", FUSION / "fusion_on", "-gp", FUSION / "fusion_off", "-o", "out")
    assert probe_flow("compare", *mode, *sides).code == 1
    record = json.loads((tmp_path / "out" / "probe_flow" / "run.json").read_text())
    assert record["workflow"]["name"] == "torchair-fusion-on-vs-off"
    assert first_divergence(record)["node"] == "Mul_3Add_8"
    assert len(list((tmp_path / "out").glob("torchair_result_*.csv"))) == 1


def test_the_graph_text_of_a_golden_device_dump_may_lie_deep(tmp_path):
    (tmp_path / "ge" / "deep").mkdir(parents=True)
    (tmp_path / "ge" / "deep" / "dynamo_original_graph_1.txt").write_text("")
    assert choose_sides("torchair", tmp_path / "ge", tmp_path / "ge").is_golden_device
    assert not choose_sides("torchair", tmp_path / "ge", TORCHAIR / "msprobe_fx_dump").is_golden_device


@pytest.mark.parametrize(
    ("target", "golden"), [("dump.json", "other.txt"), ("other.txt", "dump.json"), ("other.txt", "other.txt")]
)
def test_sides_that_do_not_go_together_are_refused(tmp_path, target, golden):
    for side, name in (("t", target), ("g", golden)):
        (tmp_path / side).mkdir()
        (tmp_path / side / name).write_text("{}")
    with pytest.raises(UsageError) as caught:
        choose_sides("auto", tmp_path / "t", tmp_path / "g")
    assert caught.value.diagnostic.code == "PF2122"


def test_two_folders_of_arrays_are_compared_by_name(probe_flow, tmp_path):
    for side, off in (("t", 1.0), ("g", 0.0)):
        (tmp_path / side / "layer").mkdir(parents=True)
        np.save(tmp_path / side / "x.npy", np.arange(8.0))
        np.save(tmp_path / side / "layer" / "w.npy", np.cos(np.arange(8.0) + off))
    done = probe_flow("compare", "-tp", tmp_path / "t", "-gp", tmp_path / "g", "-o", "out")
    assert done.code == 1
    assert "layer/w fails." in done.out.splitlines()
    record = json.loads((tmp_path / "out" / "probe_flow" / "run.json").read_text())
    assert record["first_divergence"] is None
    assert [(each["kind"], each["node"]) for each in record["findings"]] == [("failure", "layer/w")]
    refused = probe_flow("compare", "-tp", tmp_path / "t", "-gp", tmp_path / "g", "-o", "out", "-fm")
    assert (refused.code, "arrays by their names" in refused.err) == (2, True)


def test_the_leading_framework_is_taken(probe_flow):
    sides = ("-tp", PYTORCH / "target", "-gp", PYTORCH / "golden", "-o", "out")
    assert probe_flow("-f", "pytorch", "compare", *sides).code == 1
    other = probe_flow("-f", "mindspore", "compare", *sides)
    unknown = probe_flow("-f", "tensorflow", "compare", *sides)
    assert (other.code, unknown.code) == (2, 2)
    assert "PF2128" in other.err
    assert "PF2120" in unknown.err
