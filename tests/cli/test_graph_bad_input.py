"""What `graph` and `graph_visualize` say of dumps and files that are wrong; no half graph is left anywhere."""

from __future__ import annotations

import json
import resource
import sqlite3
from pathlib import Path

import pytest
from graph_dumps import CHAIN, files_in, rows, vis, write_dump

RELU, LINEAR = "Functional.relu.0.forward", "Module.fc.Linear.forward.0"


@pytest.fixture
def show(probe_flow, tmp_path):
    """Return a function that shows one dump or compares two into ``out``."""

    def run(target: Path, golden: Path | None = None, *more: object, command: str = "graph_visualize"):
        sides = ("-tp", target, *(() if golden is None else ("-gp", golden)))
        if command == "graph":
            named = {"npu_path": str(target), **({} if golden is None else {"bench_path": str(golden)})}
            (tmp_path / "compare.json").write_text(json.dumps(named))
            sides = ("-i", "compare.json")
        return probe_flow(command, *sides, "-o", "out", *more)

    return run


@pytest.fixture
def good(tmp_path):
    return write_dump(tmp_path / "good")


# --- construct.json --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["graph", "graph_visualize"])
@pytest.mark.parametrize("construct", [None, "{}", "", '{"a": ', "[]"], ids=["missing", "L1", "empty", "cut", "list"])
def test_a_dump_without_modules_has_no_graph_and_the_level_is_named(show, good, tmp_path, construct, command):
    dump = write_dump(tmp_path / "dump", construct=construct, level="L1", entries=tuple(CHAIN))

    for golden in (None, good):
        done = show(dump, golden, command=command)
        assert done.code == 3
        assert "level mix or L0" in done.err
        assert files_in(tmp_path / "out") == []


def test_one_rank_without_modules_costs_itself(show, tmp_path):
    write_dump(tmp_path / "dump" / "rank0")
    write_dump(tmp_path / "dump" / "rank1", construct=None)

    done = show(tmp_path / "dump")
    assert done.code == 3
    assert "PF7150" in done.err
    assert set(rows(tmp_path / "out", "rank")) == {(0,)}


@pytest.mark.parametrize(
    ("construct", "said", "top"),
    [
        ({"Module.a.A.forward.0": "Module.b.B.forward.0", "Module.b.B.forward.0": "Module.a.A.forward.0"},
         "its own ancestor", "Module.b.B.forward.0"),
        ({LINEAR: LINEAR}, "its own ancestor", LINEAR),
        ({LINEAR: "Module.ghost.G.forward.0"}, "does not list it", "Module.ghost.G.forward.0"),
    ],
    ids=["circle", "itself", "unknown"],
)  # fmt: skip
def test_callers_that_cannot_be_are_told_and_the_calls_stand_at_the_top(show, tmp_path, construct, said, top):
    done = show(write_dump(tmp_path / "dump", construct=construct))

    assert said in done.err
    assert ("DefaultModel",) in rows(tmp_path / "out", "up_node", f"node_name = '{top}'")
    names = {name for (name,) in rows(tmp_path / "out", "node_name")}
    assert names >= set(construct)


def test_names_of_no_known_kind_are_nodes_too(show, tmp_path):
    construct = {"Foo.bar.0.forward": "optimizer", "optimizer": None, "x": None}
    show(write_dump(tmp_path / "dump", construct=construct))

    assert {name for (name,) in rows(tmp_path / "out", "node_name")} >= set(construct)


# --- dump.json and stack.json ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_golden", [False, True])
def test_a_cut_dump_has_no_graph_and_its_place_is_named(show, good, tmp_path, is_golden):
    cut = write_dump(tmp_path / "cut")
    text = (cut / "dump.json").read_text()
    (cut / "dump.json").write_text(text[: len(text) // 2])

    done = show(*((good, cut) if is_golden else (cut, good)))
    assert done.code == 3
    assert f"dump.json:1:{len(text) // 2 + 1}" in done.err.replace("\n", "")
    assert files_in(tmp_path / "out") == []


def test_two_tasks_are_refused(show, good, tmp_path):
    done = show(write_dump(tmp_path / "dump", task="tensor"), good)
    assert done.code == 2
    assert "`tensor`" in done.err
    assert files_in(tmp_path / "out") == []


@pytest.mark.parametrize("command", ["graph", "graph_visualize"])
@pytest.mark.parametrize("is_target", [False, True])
def test_checksums_on_one_side_only_are_refused(show, good, tmp_path, is_target, command):
    summed = write_dump(tmp_path / "summed", md5="0123abcd")
    done = show(*((summed, good) if is_target else (good, summed)), command=command)

    assert done.code == 2
    assert "PF7152" in done.err
    assert "checksums" in done.err
    assert files_in(tmp_path / "out") == []


def test_sides_of_different_kinds_are_refused(show, good, tmp_path):
    write_dump(tmp_path / "ranks" / "rank0")
    write_dump(tmp_path / "steps" / "step0" / "rank0")

    for golden, words in (("ranks", "folder of ranks"), ("steps", "folder of steps")):
        done = show(good, tmp_path / golden)
        assert done.code == 2
        assert "PF2132" in done.err
        assert "one rank" in done.err
        assert words in done.err
    assert not (tmp_path / "out").exists()


def test_an_entry_that_stands_twice_is_told(show, tmp_path):
    dump = write_dump(tmp_path / "dump")
    text = (dump / "dump.json").read_text()
    begin, end = text.index(f'"{RELU}"'), text.index(f'"{LINEAR}"')
    (dump / "dump.json").write_text(text[:end] + text[begin:end] + text[end:])

    done = show(dump)
    assert done.code == 3
    assert "PF3412" in done.err
    assert RELU in done.err
    assert len(rows(tmp_path / "out", "node_name", f"node_name = '{RELU}'")) == 1


def test_statistics_that_are_null_make_the_run_incomplete(show, good, tmp_path):
    nothing = write_dump(tmp_path / "nothing", values=dict.fromkeys(CHAIN))

    assert show(nothing, good).code == 3
    outputs = [json.loads(text) for (text,) in rows(tmp_path / "out", "output_data", f"node_name = '{RELU}'")]
    assert {"Max": "null", "Result": "not_comparable"}.items() <= outputs[0][f"{RELU}.output.0"].items()


@pytest.mark.parametrize("stack", [{}, {"0": [[], []]}, {RELU: []}], ids=["none", "group", "frames"])
def test_a_dump_without_frames_has_nodes_with_panels(show, tmp_path, stack):
    show(write_dump(tmp_path / "dump", stack=stack))

    stored = {stack_id for (stack_id,) in rows(tmp_path / "out", "stack_id")}
    (path,) = (tmp_path / "out").glob("*.vis.db")
    with sqlite3.connect(path) as database:
        assert stored <= {name for (name,) in database.execute("SELECT id FROM tb_stack")}
    database.close()


# --- mapping files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["own", "msprobe"])
def test_entries_of_a_mapping_that_match_nothing_are_told_with_line_and_column(show, good, tmp_path, layout):
    (tmp_path / "map.yaml").write_text("TopLayer:\n  fc: fc\n  ghost: other\nBogus:\n  a: b\n")
    done = show(good, write_dump(tmp_path / "golden"), "-lm", "map.yaml", "--layout", layout)

    assert done.code == 3
    assert "map.yaml:3:3" in done.err
    assert "map.yaml:4:1" in done.err


def test_a_mapping_that_is_no_yaml_ends_the_run(show, good, tmp_path):
    (tmp_path / "map.yaml").write_text("TopLayer:\n  fc: [1\n")
    done = show(good, write_dump(tmp_path / "golden"), "-lm", "map.yaml")

    assert done.code == 2
    assert "map.yaml:2:9" in done.err
    assert files_in(tmp_path / "out") == []


def test_two_layers_that_are_mapped_to_one_are_told(show, good, tmp_path):
    first, second = "Module.a.Linear.forward.0", "Module.b.Linear.forward.0"
    target = write_dump(tmp_path / "dump", construct={first: None, second: None})
    (tmp_path / "map.yaml").write_text("TopLayer:\n  a: fc\n  b: fc\n")

    done = show(target, write_dump(tmp_path / "golden", construct={LINEAR: None}), "-lm", "map.yaml")
    assert done.code == 3
    links = dict(rows(tmp_path / "out", "node_name, matched_node_link", "node_name LIKE 'Module%'"))
    assert sum(links[name] != "[]" for name in (first, second)) == 1


# --- names -----------------------------------------------------------------------------------------------------------


def test_names_of_any_characters_are_kept(show, tmp_path):
    names = [
        "Module.</script><script>alert(1)</script>.X.forward.0",
        "Module.quo\"te's.Y.forward.0",
        "Module.new\nline.Z.forward.0",
        "Module.名前.Ä.forward.0",
    ]
    dump = write_dump(tmp_path / "dump", construct=dict.fromkeys(names))

    assert show(dump).code == 0
    assert {name for (name,) in rows(tmp_path / "out", "node_name")} >= set(names)
    assert show(dump, command="graph").code == 0
    assert vis(tmp_path / "out")["node"].keys() >= set(names)
    page = (tmp_path / "out" / "probe_flow" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page


def test_half_of_a_surrogate_pair_is_spelled_out(show, tmp_path):
    dump = write_dump(tmp_path / "dump", construct={"Module.\ud800.X.forward.0": None})

    assert show(dump).code == 0
    assert ("Module.\\ud800.X.forward.0",) in rows(tmp_path / "out", "node_name")


# --- disks and folders -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["graph", "graph_visualize"])
def test_a_full_disk_leaves_no_half_file(show, tmp_path, monkeypatch, command):
    """The limit of a file's size stands for the end of the disk, for what writes graphs alone."""
    from probe_flow.stages.report import graph_files

    dump = write_dump(tmp_path / "dump", construct={f"Module.fc{n}.Linear.forward.0": None for n in range(400)})
    write, (soft, hard) = graph_files.write_graphs, resource.getrlimit(resource.RLIMIT_FSIZE)

    def limited(*arguments):
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
        try:
            return write(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    monkeypatch.setattr(graph_files, "write_graphs", limited)
    done = show(dump, command=command)

    assert done.code == 3
    assert "PF7001" in done.err
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["probe_flow"]


def test_a_folder_that_holds_another_database_is_told(show, good, tmp_path):
    (tmp_path / "out").mkdir(mode=0o750)
    (tmp_path / "out" / "build_20200101000000.vis.db").write_bytes(b"")

    assert "PF7163" in show(good, command="graph").err
    assert "build_20200101000000.vis.db" in show(good).err


def test_a_folder_that_others_may_change_is_told(show, good, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out").chmod(0o775)

    assert "chmod go-w" in show(good).err


# --- the file of `graph -i` ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1 column 2"),
        ("[]", "holds a list"),
        ("{}", "has no `npu_path`"),
        ('{"npu_pat": "x"}', "did you mean `npu_path`?"),
        ('{"npu_path": 5}', "`npu_path`"),
        ('{"npu_path": "ghost"}', "ghost"),
        ('{"npu_path": "good", "bench_path": "ghost"}', "ghost"),
    ],
)
def test_a_file_that_names_no_dumps_is_refused(probe_flow, good, tmp_path, text, said):
    (tmp_path / "c.json").write_text(text)
    done = probe_flow("graph", "-i", "c.json", "-o", "out")

    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_pairing_without_a_golden_is_refused(probe_flow, show, good):
    assert show(good, None, "-lm").code == 2
    assert show(good, None, "-fm").code == 2
    done = show(good, good, "-fm", "-lm")
    assert done.code == 2
    assert "leave one of them out" in done.err


@pytest.mark.parametrize("command", ["graph", "op_generate"])
def test_a_folder_in_the_place_of_a_configuration_is_called_one(probe_flow, tmp_path: Path, command: str):
    (tmp_path / "folder").mkdir()
    done = probe_flow(command, "-i", "folder", "-o", "folder")
    assert done.code == 2
    assert "`folder` cannot be read: Is a directory\n" in done.err
