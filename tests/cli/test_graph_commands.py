"""`graph` and `graph_visualize`: files under msprobe's names, its nodes and scores on demand, the run beside them."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest
from graph_dumps import BASE, DATA, RENAMED, RENAMES, SLOPE, files_in, rows, vis, write_dump

COMMANDS = ("graph", "graph_visualize")
RELU = "Functional.relu.0.forward"


@pytest.fixture
def show(probe_flow, tmp_path):
    """Return a function that runs either command on one dump or two, into ``out``."""

    def run(command: str, target: Path, golden: Path | None = None, *more: object) -> Any:
        if command == "graph_visualize":
            sides = ("-tp", target, *(() if golden is None else ("-gp", golden)))
        else:
            named = {"npu_path": str(target), **({} if golden is None else {"bench_path": str(golden)})}
            (tmp_path / "compare.json").write_text(json.dumps({**named, "is_print_compare_log": True}))
            sides = ("-i", "compare.json")
        return probe_flow(command, *sides, "-o", "out", *more)

    return run


def record(folder: Path) -> Any:
    return json.loads((folder / "probe_flow" / "run.json").read_text(encoding="utf-8"))


def ranks(root: Path, numbers: tuple[int, ...], *, step: int | None = None, **values: float) -> Path:
    for number in numbers:
        folder = root if step is None else root / f"step{step}"
        write_dump(folder / f"rank{number}", values={RELU: values.get(f"rank{number}", 1.0)})
    return root


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "golden", "name"),
    [
        ("graph", None, r"build_\d{14}\.vis"),
        ("graph", BASE, r"compare_\d{14}\.vis"),
        ("graph_visualize", None, r"build_\d{14}\.vis\.db"),
        ("graph_visualize", BASE, r"compare_\d{14}\.vis\.db"),
    ],
)
def test_a_file_lies_in_the_output_folder_and_the_run_beside_it(show, tmp_path, command, golden, name):
    done = show(command, BASE, golden and shutil.copytree(golden, tmp_path / "golden"))

    assert done.code == 0, done.err
    (file,) = files_in(tmp_path / "out")
    assert re.fullmatch(name, file)
    assert {"run.json", "report.html"} <= set(files_in(tmp_path / "out" / "probe_flow"))
    assert any(file in artifact for artifact in record(tmp_path / "out")["artifacts"])


@pytest.mark.parametrize("command", COMMANDS)
def test_files_are_for_their_owner_to_change_alone_whatever_the_umask(show, tmp_path, command):
    before = os.umask(0o002)
    try:
        show(command, BASE)
    finally:
        os.umask(before)

    out = tmp_path / "out"
    assert stat.S_IMODE(out.stat().st_mode) == 0o750
    assert [stat.S_IMODE((out / name).stat().st_mode) for name in files_in(out)] == [0o640]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_wrong_operator_makes_the_exit_code(show, tmp_path, command):
    done = show(command, SLOPE, BASE)

    assert done.code == 1
    assert "Functional.leaky_relu" in done.last_line
    graphs = vis(tmp_path / "out")["NPU"]["node"] if command == "graph" else None
    scores = (
        {name: node["data"].get("precision_index") for name, node in graphs.items()}
        if graphs is not None
        else dict(rows(tmp_path / "out", "node_name, precision_index", "data_source = 'NPU'"))
    )
    assert scores["Functional.leaky_relu.1.forward"] >= 0.8
    assert scores["Module.emb.Embedding.forward.0"] == 0
    assert max(score for score in scores.values() if score is not None) < 1


def test_stacks_are_lean_until_all_frames_are_asked_for(show, tmp_path):
    lengths = []
    for number, more in enumerate(((), ("-cs",))):
        show("graph", BASE, None, *more)
        (tmp_path / "out").rename(tmp_path / f"out{number}")
        node = vis(tmp_path / f"out{number}")["node"]["Functional.linear.0.forward"]
        lengths.append(len(node["stack_info"]))
    assert lengths == [1, 12]


def test_levels_are_shown_where_they_are_asked_for(show, tmp_path):
    dump = write_dump(tmp_path / "dump", values={RELU: float("nan"), "Module.fc.Linear.forward.0": float("inf")})

    assert show("graph_visualize", dump, None, "-oc").code == 1
    assert ("critical",) in rows(tmp_path / "out", "overflow_level", f"node_name = '{RELU}'")


# --- the layout of msprobe -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target", "golden", "more"),
    [
        ("build_stat", BASE, None, ()),
        ("cmp_stat", SLOPE, BASE, ()),
        ("cmp_ren_nomap", RENAMED, BASE, ()),
        ("cmp_ren_map", RENAMED, BASE, ("-lm", RENAMES)),
    ],
)
def test_vis_files_of_the_layout_msprobe_are_those_of_1_2_1(show, tmp_path, name, target, golden, more):
    show("graph", target, golden, "--layout", "msprobe", *more)
    expected = json.loads(gzip.decompress((DATA / "gen1" / f"{name}.vis.gz").read_bytes()))
    found = vis(tmp_path / "out")

    assert list(found) == list(expected)
    for side in ("NPU", "Bench") if golden is not None else ("",):
        theirs, ours = ((each[side] if side else each)["node"] for each in (expected, found))
        assert list(ours) == list(theirs)
        for node, other in theirs.items():
            score = other["data"].pop("precision_index", None)
            assert ours[node]["data"].pop("precision_index", None) == pytest.approx(score, abs=1e-5), node
            for key in ("node_type", "upnode", "subnodes", "matched_node_link", "data", "input_data", "output_data"):
                assert ours[node][key] == other[key], (node, key)


def test_the_database_of_the_layout_msprobe_is_that_of_26_2_0(show, tmp_path):
    show("graph_visualize", SLOPE, BASE, "--layout", "msprobe")
    expected = json.loads(gzip.decompress((DATA / "gen2" / "cmp_stat.tables.json.gz").read_bytes()))["tb_nodes"]
    columns = ("id", "node_order", "node_type", "up_node", "sub_nodes", "precision_index", "matched_node_link")
    found = {row[0]: row for row in rows(tmp_path / "out", ", ".join(columns))}

    assert found.keys() == {row["id"] for row in expected}
    for row in expected:
        for column, value in zip(columns, found[row["id"]], strict=True):
            is_list = column in ("sub_nodes", "matched_node_link") and value
            assert (json.loads(value) if is_list else value) == (json.loads(row[column]) if is_list else row[column])


# --- ranks and steps -------------------------------------------------------------------------------------------------


def test_each_rank_and_step_is_a_file(show, tmp_path):
    root = tmp_path / "dump"
    for step in (0, 1):
        ranks(root, (0, 2, 10), step=step)

    assert show("graph", root).code == 0
    names = [re.sub(r"_\d{14}", "", name) for name in files_in(tmp_path / "out")]
    assert sorted(names) == sorted(f"build_step{s}_rank{r}.vis" for s in (0, 1) for r in (0, 2, 10))


def test_a_folder_of_ranks_has_names_without_steps(show, tmp_path):
    show("graph", ranks(tmp_path / "dump", (0, 1)))
    names = [re.sub(r"_\d{14}", "", name) for name in files_in(tmp_path / "out")]
    assert names == ["build_rank0.vis", "build_rank1.vis"]


def test_one_database_has_all_ranks_in_the_order_of_their_numbers(show, tmp_path):
    target, golden = ranks(tmp_path / "t", (10, 0, 2), rank10=8.0), ranks(tmp_path / "g", (0, 2, 10))

    assert show("graph_visualize", target, golden).code == 1
    scores = rows(tmp_path / "out", "rank, precision_index", f"node_name = '{RELU}' AND data_source = 'NPU'")
    assert [rank for rank, _ in scores] == [0, 2, 10]
    assert [score > 0.5 for _, score in scores] == [False, False, True]


@pytest.fixture
def talking(tmp_path) -> dict[str, Path]:
    """Three ranks of either side that send, receive and reduce."""
    with tarfile.open(DATA / "msprobe_graphs.tar.xz") as archive:
        archive.extractall(tmp_path / "cases", filter="data")
    return {side: tmp_path / "cases" / "links" / side for side in "tg"}


@pytest.mark.parametrize("golden", ["g", None])
def test_calls_of_several_ranks_that_talk_name_each_other(show, tmp_path, talking, golden):
    show("graph_visualize", talking["t"], talking.get(golden))
    sent = rows(tmp_path / "out", "rank, matched_distributed", "node_name LIKE '%.send.0.%' AND data_source = 'NPU'")
    shown = "0.0" if golden else "Nan"
    link = {"communications_type": "send", "nodes_info": {"1": [shown, "Distributed.recv.0.forward"]}}
    assert [(rank, json.loads(text)) for rank, text in sent] == [(0, link)]
    others = rows(tmp_path / "out", "matched_distributed", "node_name = 'Functional.linear.0.forward'")
    assert set(others) == {("{}",)}


def test_files_of_several_ranks_name_each_other_too(show, tmp_path, talking):
    show("graph", talking["t"])
    nodes = vis(tmp_path / "out", "build_rank1_*.vis")["node"]
    assert nodes["Distributed.recv.0.forward"]["matched_distributed"] == {
        "communications_type": "receive",
        "nodes_info": {"0": ["Nan", "Distributed.send.0.forward"]},
    }
    batch = nodes["Distributed.batch_isend_irecv.0.forward"]["matched_distributed"]
    assert [link["communications_type"] for link in batch] == ["send", "receive"]


def test_a_single_process_has_no_rank(show, tmp_path):
    write_dump(tmp_path / "dump" / "step0" / "proc4711")

    assert show("graph_visualize", tmp_path / "dump").code == 0
    assert set(rows(tmp_path / "out", "step, rank")) == {(0, 0)}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_rank_of_one_side_only_is_told_and_the_others_are_written(show, tmp_path, command):
    done = show(command, ranks(tmp_path / "t", (0, 1)), ranks(tmp_path / "g", (1, 2)))

    assert done.code == 3
    (file,) = files_in(tmp_path / "out")
    assert "compare" in file
    told = [problem["message"] for problem in record(tmp_path / "out")["problems"] if problem["code"] == "PF7160"]
    assert len(told) == 2
    assert "rank 0" in told[0]
    assert "only the target" in told[0]
    assert "rank 2" in told[1]
    assert "only the golden" in told[1]


def test_calls_that_meet_across_ranks_are_linked(show, tmp_path):
    for rank, (word, peer) in enumerate((("send", 1), ("recv", 0))):
        call = f"Distributed.{word}.0.forward"
        folder = write_dump(tmp_path / "dump" / f"rank{rank}", construct={call: None})
        dump = json.loads((folder / "dump.json").read_text())
        key = {"send": "dst", "recv": "src"}[word]
        dump["data"][call]["input_kwargs"] = {key: {"type": "int", "value": peer}}
        (folder / "dump.json").write_text(json.dumps(dump))
    show("graph_visualize", tmp_path / "dump")

    links = rows(tmp_path / "out", "rank, matched_distributed", "is_distributed = 1")
    found = {rank: json.loads(text) for rank, text in links}
    assert found[0]["communications_type"] == "send"
    assert found[0]["nodes_info"]["1"][1] == "Distributed.recv.0.forward"
    assert found[1]["communications_type"] == "receive"
    assert found[1]["nodes_info"]["0"][1] == "Distributed.send.0.forward"


def test_dumps_without_values_have_graphs_that_say_which_calls_correspond(show, tmp_path):
    with tarfile.open(DATA.parent / "dump_json" / "structure.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")

    assert show("graph_visualize", tmp_path / "target").code == 0
    (tmp_path / "out").rename(tmp_path / "build")
    assert show("graph_visualize", tmp_path / "target", tmp_path / "golden").code == 3
    links = rows(tmp_path / "out", "matched_node_link, precision_index", "data_source = 'NPU' AND node_type != '9'")
    assert len(links) == len(rows(tmp_path / "build", "id", "node_type != '9'"))
    assert sum(link == "[]" for link, _ in links) == 4
    assert {score for _, score in links} == {None}


# --- the command line ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "words", [("--rank_size", "4"), ("--tp", "2"), ("-tensor_log",), ("-progress_log",), ("--file_type", "json")]
)
def test_options_that_are_not_taken_are_named_as_such(show, tmp_path, command, words):
    done = show(command, BASE, None, *words)

    assert done.code == 2
    assert f"`{words[0]}`" in done.err
    assert "PF2120" in done.err
    assert not (tmp_path / "out").exists()


def test_long_forms_are_taken(probe_flow, tmp_path):
    (tmp_path / "c.json").write_text(json.dumps({"npu_path": str(SLOPE), "bench_path": str(BASE)}))
    words = ("--fuzzy_match", "--overflow_check", "--layout", "msprobe")

    assert probe_flow("graph", "--input_path", "c.json", "--output_path", "a", "--complete_stack", *words).code == 1
    sides = ("--target_path", SLOPE, "--golden_path", BASE)
    assert probe_flow("graph_visualize", *sides, "--output_path", "b", *words).code == 1
    assert len(files_in(tmp_path / "a")) == len(files_in(tmp_path / "b")) == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_the_framework_before_the_command_is_checked_against_the_dump(probe_flow, show, tmp_path, command):
    (tmp_path / "b.json").write_text(json.dumps({"npu_path": str(BASE)}))
    words = ("-i", "b.json") if command == "graph" else ("-tp", BASE)

    assert probe_flow("-f", "mindspore", command, *words, "-o", "out").code == 2
    assert probe_flow("-f", "pytorch", command, *words, "-o", "out").code == 0


def test_two_frameworks_are_paired_by_their_layers_without_a_mapping(show, tmp_path):
    examples = Path(__file__).parents[2] / "examples" / "dump_json"

    assert show("graph", examples / "mindspore_twin", examples / "pytorch_twin").code in (0, 1, 3)
    links = [node["matched_node_link"] for node in vis(tmp_path / "out")["NPU"]["node"].values()]
    assert ["DefaultModel", "Module.inp.Linear.forward.0"] in links
    assert sum(map(bool, links)) > 20
