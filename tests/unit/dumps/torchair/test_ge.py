"""Reading TorchAir device dumps into catalogs."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torchair_builders import (
    FIRST_US,
    TS20,
    GeDump,
    Op,
    X,
    Y,
    mul_add_relu,
    write_device_op,
    write_mul_add_relu,
)

from probe_flow.dumps.file_names import parse_ge_name
from probe_flow.dumps.selection import Selection
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.errors import CODES, IncompleteError, Severity, UsageError
from probe_flow.records import Catalog, TensorKind


def read(path: Path, **options) -> Catalog:
    return read_torchair_ge(path, side="target", **options)


def names(catalog: Catalog) -> list[str]:
    return [key.name for key in catalog.nodes]


def codes(catalog: Catalog) -> Counter:
    assert all(problem.code in CODES for problem in catalog.problems)
    return Counter(problem.code for problem in catalog.problems)


@pytest.fixture
def dump(tmp_path) -> GeDump:
    made = GeDump(tmp_path / "msprobe_ge_dump")
    made.graph(mul_add_relu())
    write_mul_add_relu(made.token(0), None)
    return made


def test_describes_nodes_tensors_and_order(dump):
    catalog = read(dump.root)
    assert (catalog.side, catalog.framework.name, catalog.task) == ("target", "torchair_ge", "tensor")
    assert names(catalog) == ["Mul", "Add", "Relu"]
    (execution,) = catalog.executions
    assert execution.identity == (0, 1, 0, None)
    assert (execution.device, execution.model) == (0, "graph_1_0/1")
    add = list(catalog.nodes.values())[1]
    assert (add.op_type, add.order) == ("Add", FIRST_US + 2)
    assert add.attributes["task_id"] == 12
    assert add.attributes["stream_id"] == 7
    assert add.attributes["graph_type"] == "Add"
    assert [(ref.id, ref.shape, ref.dtype) for ref in catalog.tensors[3:6]] == [
        ("Add.input.0", (2, 3), "float32"),
        ("Add.input.1", (2, 3), "float32"),
        ("Add.output.0", (2, 3), "float32"),
    ]
    assert catalog.problems == ()


def test_edges_join_dumped_operators(dump):
    edges = {(e.producer.name, e.output, e.consumer.name, e.input) for e in read(dump.root).edges}
    assert edges == {("Mul", 0, "Add", 0), ("Add", 0, "Relu", 0)}


def test_the_parent_folder_means_the_same(dump):
    assert read(dump.root.parent).nodes.keys() == read(dump.root).nodes.keys()
    assert read(dump.root.parent).root == str(dump.root.resolve())


def test_earlier_layout_takes_the_rank_from_the_only_graph_text(tmp_path):
    dump = GeDump(tmp_path, worldsize=None)
    dump.graph(mul_add_relu(), rank=3)
    write_mul_add_relu(dump.token(0), None)
    assert [execution.identity for execution in read(tmp_path).executions] == [(3, 1, 0, None)]


def test_oldest_graph_text_takes_its_id_from_its_own_name(tmp_path):
    dump = GeDump(tmp_path, worldsize=None)
    dump.graph(mul_add_relu(), graph=5, old=True)
    write_mul_add_relu(dump.token(0, graph=5), None)
    catalog = read(tmp_path)
    assert [graph.id for graph in catalog.graphs] == [5]
    assert [execution.identity for execution in catalog.executions] == [(None, 5, 0, None)]
    assert catalog.edges


def test_devices_of_the_earlier_layout_become_ranks_and_it_is_said(tmp_path):
    dump = GeDump(tmp_path, worldsize=None)
    for rank, device in ((4, 0), (5, 1)):
        dump.graph(mul_add_relu(), rank=rank)
        write_mul_add_relu(dump.token(0, device=device), None)
    catalog = read(tmp_path)
    assert [(execution.rank, execution.device) for execution in catalog.executions] == [(4, 0), (5, 1)]
    assert codes(catalog) == {"PF3213": 1}


def test_tokens_are_ordered_as_numbers(tmp_path):
    dump = GeDump(tmp_path)
    dump.graph(mul_add_relu())
    for token in (10, 2, 0):
        write_mul_add_relu(dump.token(token), None)
    assert [execution.step for execution in read(tmp_path).executions] == [0, 2, 10]


def test_eleven_graphs_keep_their_ids_in_numeric_order(tmp_path):
    dump = GeDump(tmp_path)
    for graph in range(1, 12):
        dump.graph(mul_add_relu(), graph=graph, ts=f"{20260101000000000000 + graph}")
        write_mul_add_relu(dump.token(0, graph=graph), None)
    catalog = read(tmp_path)
    assert [execution.graph for execution in catalog.executions] == list(range(1, 12))
    assert [graph.id for graph in catalog.graphs] == list(range(1, 12))


def test_a_graph_that_was_compiled_but_never_ran_is_noted(dump):
    dump.graph(mul_add_relu(), graph=2)
    catalog = read(dump.root)
    assert [execution.graph for execution in catalog.executions] == [1]
    assert codes(catalog) == {"PF3223": 1}


def test_an_execution_without_graph_text_is_a_warning(tmp_path):
    dump = GeDump(tmp_path)
    write_mul_add_relu(dump.token(0), None)
    catalog = read(tmp_path)
    assert names(catalog) == ["Mul", "Add", "Relu"]
    assert catalog.edges == ()
    assert codes(catalog) == {"PF3214": 1}


def test_models_without_graph_id_are_assigned_by_their_operators(tmp_path):
    dump = GeDump(tmp_path)
    dump.graph(mul_add_relu(), graph=1)
    dump.graph(mul_add_relu("second_"), graph=2)
    write_mul_add_relu(dump.token(0, model_name="model", model_id=1), None, prefix="second_")
    write_mul_add_relu(dump.token(0, model_name="model", model_id=2), None)
    catalog = read(tmp_path)
    by_graph = {key.execution.graph: key.name for key in catalog.nodes}
    assert by_graph == {1: "Relu", 2: "second_Relu"}
    assert codes(catalog) == {"PF3213": 2}


class TestRuns:
    @pytest.fixture
    def two_runs(self, dump):
        second = GeDump(dump.root, time="20260102000000")
        write_mul_add_relu(second.token(0), None, fused=True)
        return dump.root

    def test_the_newest_of_two_runs_is_read_and_both_are_named(self, two_runs):
        catalog = read(two_runs)
        assert names(catalog) == ["MulAdd", "Relu"]
        (problem,) = catalog.problems
        assert problem.code == "PF3207"
        assert "`20260101000000`" in problem.message
        assert "`20260102000000`" in problem.message

    def test_time_chooses_the_run(self, two_runs):
        catalog = read(two_runs, time="20260101000000")
        assert names(catalog) == ["Mul", "Add", "Relu"]
        assert catalog.problems == ()

    def test_an_unknown_time_is_a_usage_error(self, two_runs):
        with pytest.raises(UsageError, match="PF3201"):
            read(two_runs, time="20270101000000")

    def test_a_run_that_crossed_a_time_boundary_is_one_run(self, dump):
        write_mul_add_relu(GeDump(dump.root, time="20260101000001").token(1), None)
        catalog = read(dump.root)
        assert [execution.step for execution in catalog.executions] == [0, 1]
        assert codes(catalog) == {"PF3207": 1}

    @pytest.mark.parametrize("time", ["20260101000000", "20260102000000"])
    @pytest.mark.parametrize("worldsize", [None, 1])
    def test_two_dumps_side_by_side_are_not_mixed(self, tmp_path, time, worldsize):
        for name, at in {"fusion_on": "20260101000000", "fusion_off": time}.items():
            made = GeDump(tmp_path / name / "msprobe_ge_dump", worldsize, at)
            made.graph(mul_add_relu())
            write_mul_add_relu(made.token(0), None)
        with pytest.raises(UsageError) as caught:
            read(tmp_path)
        problem = caught.value.diagnostic
        assert problem.code == "PF3303"
        assert "in `fusion_off` and `fusion_on` cannot be told apart: both are" in problem.message

    def test_folders_of_several_hosts_are_one_dump_where_ranks_tell_them_apart(self, tmp_path):
        for rank in (0, 1):
            made = GeDump(tmp_path / f"host{rank}" / "msprobe_ge_dump", 2)
            made.graph(mul_add_relu(), rank=rank)
            write_mul_add_relu(made.token(0, rank=rank), None)
        catalog = read(tmp_path)
        assert [execution.rank for execution in catalog.executions] == [0, 1]
        assert catalog.problems == ()

    def test_of_several_graph_texts_the_fitting_one_counts(self, dump):
        dump.graph(mul_add_relu("other_"), pid=9, ts="20260102000000000001")
        catalog = read(dump.root)
        assert len(catalog.graphs) == 1
        assert catalog.edges
        assert codes(catalog) == {"PF3215": 1}


class TestFused:
    def test_parts_and_edges_of_a_fused_operator(self, tmp_path):
        dump = GeDump(tmp_path)
        dump.graph(mul_add_relu())
        write_mul_add_relu(dump.token(0), None, fused=True)
        catalog = read(tmp_path)
        node = next(iter(catalog.nodes.values()))
        assert (node.key.name, node.originals) == ("MulAdd", ("Mul", "Add"))
        assert node.attributes["fx_tensors"] == ["mul-aten.mul.Tensor.OUTPUT.0", "add-aten.add.Tensor.OUTPUT.0"]
        assert [(e.producer.name, e.consumer.name, e.input) for e in catalog.edges] == [("MulAdd", "Relu", 0)]

    def test_an_input_that_enters_in_the_middle_gets_its_edge(self, tmp_path):
        dump = GeDump(tmp_path)
        ops = mul_add_relu()
        ops[4].inputs = ("Mul:0", "Other:0")
        ops.insert(3, Op("Other", "Neg", ("z:0",), [("neg-aten.neg.default.OUTPUT.0", (2, 3))]))
        dump.graph(ops)
        folder = dump.token(0)
        write_mul_add_relu(folder, None, fused=True)
        write_device_op(folder, "Neg", "Other", at=0, inputs=[X], outputs=[-X])
        edges = {(e.producer.name, e.consumer.name, e.input) for e in read(tmp_path).edges}
        assert edges == {("Other", "MulAdd", 2), ("MulAdd", "Relu", 0)}

    def test_an_ambiguous_name_is_reported(self, tmp_path):
        dump = GeDump(tmp_path)
        shape = [(None, (2, 3))]
        dump.graph([Op(name, "Add", (), shape) for name in ("a", "bc", "ab", "c")])
        write_device_op(dump.token(0), "Fused", "abc", at=1, inputs=[X], outputs=[X])
        assert codes(read(tmp_path)) == {"PF3224": 1}


def test_edges_pass_over_operators_that_were_not_dumped(tmp_path):
    shape = [(None, (2, 3))]
    ops = [Op("a", "Relu", ("x:0",), shape), Op("v", "Reshape", ("a:0",), shape), Op("b", "Relu", (), shape)]
    ops += [
        Op("m", "Mul", ("v:0", "b:0"), shape),
        Op("w", "Reshape", ("m:0",), shape),
        Op("c", "Relu", ("w:0",), shape),
    ]
    dump = GeDump(tmp_path)
    dump.graph(ops)
    folder = dump.token(0)
    for at, name in enumerate(("a", "b", "c")):
        write_device_op(folder, "Relu", name, at=at, inputs=[X], outputs=[X])
    edges = {(e.producer.name, e.consumer.name, e.input) for e in read(tmp_path).edges}
    assert edges == {("a", "c", 0), ("b", "c", 0)}


def test_a_long_chain_and_a_cycle_of_undumped_operators_end(tmp_path):
    shape = [(None, (2, 3))]
    ops = [Op("a", "Relu", ("x:0",), shape), Op("v0", "Reshape", ("a:0", "v4999:0"), shape)]
    ops += [Op(f"v{i}", "Reshape", (f"v{i - 1}:0",), shape) for i in range(1, 5000)]
    ops += [Op("c", "Relu", ("v4999:0",), shape)]
    dump = GeDump(tmp_path)
    dump.graph(ops)
    for at, name in enumerate(("a", "c")):
        write_device_op(dump.token(0), "Relu", name, at=at, inputs=[X], outputs=[X])
    assert [(e.producer.name, e.consumer.name) for e in read(tmp_path).edges] == [("a", "c")]


class TestNames:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("Add.Add_2.44.6.1706596912161941", ("Add", "Add_2", 44, 6, 1706596912161941)),
            ("Add.Add_2.44.1706596912161941", ("Add", "Add_2", 44, None, 1706596912161941)),
            ("Relu.Relu_1.2.1.1767225600000000.0.7.0.3", ("Relu", "Relu_1", 2, 1, 1767225600000000)),
            ("Relu.Relu_1.2.1767225600000000.4.7.1.0", ("Relu", "Relu_1", 2, None, 1767225600000000)),
            ("Add.12.44.6.1706596912161941", ("Add", "12", 44, 6, 1706596912161941)),
            ("Add.12.44.1706596912161941", ("Add", "12", 44, None, 1706596912161941)),
            ("Add.Add_2.44.6.17065969", ("Add", "Add_2", 44, 6, 17065969)),
            ("Add.a.b.44.6.1706596912161941", ("Add", "a.b", 44, 6, 1706596912161941)),
        ],
    )
    def test_all_forms_of_file_names(self, name, expected):
        parsed = parse_ge_name(name)
        assert parsed is not None
        assert (parsed.op_type, parsed.op_name, parsed.task_id, parsed.stream_id, parsed.timestamp) == expected

    def test_a_name_of_nine_fields_ends_with_task_type_context_thread_and_device(self):
        parsed = parse_ge_name("Add.Add_2.44.6.1706596912161941.4.17.3.1")
        assert parsed is not None
        assert (parsed.task_type, parsed.context_id, parsed.thread_id, parsed.device_id) == (4, 17, 3, 1)

    @pytest.mark.parametrize(
        "name",
        [
            "notes.txt",
            "Add",
            "Add.Add_2",
            "Add.Add_2.x.y.z",
            ".1.2.3",
            "Add.1706596912161941",
            "Sub.Sub.14.abc.1706596912161941",
            "Sub.Sub.abc.14x.1706596912161941.4.17.3.1",
        ],
    )
    def test_other_names_are_none(self, name):
        assert parse_ge_name(name) is None

    @given(st.lists(st.sampled_from(["Sub", "a_b", "", "14", "²", "7", "17065969", f"{FIRST_US}"]), max_size=10))
    def test_no_name_is_an_error(self, fields):
        parsed = parse_ge_name(".".join(fields))
        assert parsed is None or parsed.timestamp >= 0

    def test_a_name_with_a_stream_that_is_no_number_costs_that_file(self, dump):
        (dump.token(0) / f"Sub.Sub.14.abc.{FIRST_US}").write_bytes(b"x")
        catalog = read(dump.root)
        assert names(catalog) == ["Mul", "Add", "Relu"]
        (problem,) = catalog.problems
        assert (problem.code, problem.path.rpartition("/")[2]) == ("PF3205", f"Sub.Sub.14.abc.{FIRST_US}")

    def test_true_names_come_from_the_header(self, tmp_path):
        dump = GeDump(tmp_path)
        dump.graph([Op("layer.0/attn/Mul", "Mul", ("x:0", "y:0"), [(None, (2, 3))])])
        path = write_device_op(dump.token(0), "Mul", "layer.0/attn/Mul", at=1, inputs=[X, Y], outputs=[X * Y])
        assert ".layer_0_attn_Mul." in path.name
        assert names(read(tmp_path)) == ["layer.0/attn/Mul"]

    def test_without_header_the_graph_gives_the_true_name(self, tmp_path):
        dump = GeDump(tmp_path)
        dump.graph([Op("layer.0/attn/Mul", "Mul", ("x:0", "y:0"), [(None, (2, 3))])])
        write_device_op(dump.token(0), "Relu", "Relu", at=0, outputs=[X])
        (dump.token(0) / f"Mul.layer_0_attn_Mul.11.7.{FIRST_US + 1}").write_bytes(b"")
        assert names(read(tmp_path)) == ["Relu", "layer.0/attn/Mul"]

    def test_hashed_names_are_resolved_by_the_mapping(self, dump):
        folder = dump.token(0)
        original = next(path for path in folder.iterdir() if path.name.startswith("Add."))
        original.rename(folder / "1122334455")
        (folder / "mapping.csv").write_text(f"1122334455,{original.name}\nbroken row\n")
        catalog = read(dump.root)
        assert names(catalog) == ["Mul", "Add", "Relu"]
        assert codes(catalog) == {"PF3216": 1}

    def test_a_hash_that_no_mapping_names_is_reported(self, dump):
        (dump.token(0) / "1122334455").write_bytes(b"x")
        assert codes(read(dump.root)) == {"PF3208": 1}

    def test_every_folder_has_a_mapping_of_its_own(self, dump):
        write_mul_add_relu(dump.token(1), None)
        for token, wanted in ((0, "Add."), (1, "Relu.")):
            folder = dump.token(token)
            original = next(path for path in folder.iterdir() if path.name.startswith(wanted))
            original.rename(folder / "1122334455")
            (folder / "mapping.csv").write_text(f"1122334455,{original.name}\n", encoding="utf-8-sig")
        catalog = read(dump.root)
        assert names(catalog) == ["Mul", "Add", "Relu"] * 2
        assert catalog.problems == ()
        hashed = {
            (key.execution.step, key.name)
            for key, node in catalog.nodes.items()
            if "112233" in str(node.attributes["file"])
        }
        assert hashed == {(0, "Add"), (1, "Relu")}

    def test_a_mapping_of_another_folder_does_not_count(self, dump):
        write_mul_add_relu(dump.token(1), None)
        (dump.token(0) / "1122334455").write_bytes(b"x")
        (dump.token(1) / "mapping.csv").write_text(f"1122334455,Neg.Neg.1.2.{FIRST_US}\n")
        assert codes(read(dump.root)) == {"PF3208": 1}

    def test_two_names_of_one_hash_are_said_and_the_last_counts(self, dump):
        folder = dump.token(0)
        original = next(path for path in folder.iterdir() if path.name.startswith("Add."))
        original.rename(folder / "1122334455")
        rows = [f"1122334455,Old.Old.1.2.{FIRST_US}", f"1122334455,{original.name}", f"1122334455,{original.name}"]
        (folder / "mapping.csv").write_text("\n".join(rows))
        catalog = read(dump.root)
        assert names(catalog) == ["Mul", "Add", "Relu"]
        (problem,) = catalog.problems
        assert problem.code == "PF3026"
        assert "line 2" in problem.message
        assert "line 1" in problem.message

    def test_two_hashes_of_one_operator_are_duplicates(self, dump):
        folder = dump.token(0)
        original = next(path for path in folder.iterdir() if path.name.startswith("Add."))
        (folder / "1122334455").write_bytes(original.read_bytes())
        later = original.name.replace(str(FIRST_US + 2), str(FIRST_US + 90))
        (folder / "mapping.csv").write_text(f"1122334455,{later}\n")
        catalog = read(dump.root)
        assert names(catalog).count("Add") == 1
        assert codes(catalog) == {"PF3206": 1}
        assert catalog.problems[0].path == f"{catalog.problems[0].path.rpartition('/')[0]}/{original.name}"

    def test_a_hashed_array_among_device_files_is_passed_over(self, dump):
        (dump.token(0) / "1122334455.npy").write_bytes(b"x")
        (dump.token(0) / "mapping.csv").write_text(f"1122334455.npy,Add.Add.1.2.{FIRST_US}.output.0.npy\n")
        assert codes(read(dump.root)) == {"PF3205": 1}

    def test_a_mapping_cannot_lead_out_of_its_folder(self, dump):
        (dump.token(0) / "1122334455").write_bytes(b"x")
        (dump.token(0) / "mapping.csv").write_text(f"1122334455,../../../Relu.up.1.2.{FIRST_US}\n")
        assert "up" in names(read(dump.root))


class TestDuplicates:
    @pytest.fixture
    def thrice(self, dump):
        folder = dump.token(0)
        write_device_op(folder, "Add", "Add", at=0, inputs=[X], outputs=[X])  # first by name, and the smallest
        write_device_op(folder, "Add", "Add", at=1, inputs=[X, Y, X, Y], outputs=[X])
        return dump.root

    @pytest.mark.parametrize(("rule", "inputs"), [("newest", 2), ("largest", 4), ("first", 1)])
    def test_the_rule_chooses_and_every_other_file_is_listed(self, thrice, rule, inputs):
        catalog = read(thrice, duplicates=rule)
        assert sum(ref.id.startswith("Add.input") for ref in catalog.tensors) == inputs
        assert codes(catalog) == {"PF3206": 2}
        taken = catalog.nodes[next(key for key in catalog.nodes if key.name == "Add")].attributes["file"]
        assert taken not in {problem.path for problem in catalog.problems}
        assert names(catalog).count("Add") == 1


class TestOddFiles:
    @pytest.mark.parametrize(
        ("content", "code"),
        [(b"", "PF3010"), (b"garbage", "PF3010"), (b"\xff" * 400, "PF3011"), (b"\0" * 64, "PF3010")],
    )
    def test_a_damaged_file_keeps_its_node_as_unreadable(self, dump, content, code):
        (dump.token(0) / f"Neg.Neg.9.7.{FIRST_US + 9}").write_bytes(content)
        catalog = read(dump.root)
        assert names(catalog)[-1] == "Neg"
        ref = catalog.tensors[-1]
        assert (ref.id, ref.kind) == ("Neg.output.0", TensorKind.UNREADABLE)
        assert ref.reason
        assert codes(catalog) == {code: 1}
        assert catalog.problems[0].path == catalog.nodes[ref.node].attributes["file"]

    def test_known_files_are_passed_over_silently_and_others_noted(self, dump):
        folder = dump.token(0)
        (dump.root / "dump_options_worldsize1_rank0_pid4.json").write_text("{}")
        (dump.root / f"dynamo_optimized_graph_1_rank_0_pid_7_ts_{TS20}.txt").write_text("junk")
        (folder / "mapping.csv").write_text("")
        assert read(dump.root).problems == ()
        for name in (".hidden", "notes.json", "x.swp", f"Opdebug.Node_OpDebug.1.2.{FIRST_US}"):
            (folder / name).write_text("{}")
        catalog = read(dump.root)
        assert codes(catalog) == {"PF3205": 4}
        assert names(catalog) == ["Mul", "Add", "Relu"]

    def test_what_is_kept_of_operators_that_ended_in_an_error_is_no_execution(self, dump):
        dump.token(0)
        write_device_op(dump.root / "extra-info" / "data-dump" / "0", "Neg", "Neg", at=9, inputs=[X], outputs=[X])
        catalog = read(dump.root)
        assert names(catalog) == ["Mul", "Add", "Relu"]
        assert codes(catalog) == {"PF3205": 1}
        assert "ended in an error" in catalog.problems[0].message

    def test_links_out_of_the_dump_are_not_followed(self, dump, tmp_path):
        outside = write_device_op(tmp_path / "outside", "Neg", "Neg", at=9, inputs=[X], outputs=[X])
        folder = dump.token(0)
        (folder / outside.name).symlink_to(outside)
        (folder / "loop").symlink_to(folder)
        (folder / "away").symlink_to(tmp_path / "outside")
        (folder / "dangling").symlink_to(tmp_path / "none")
        catalog = read(dump.root)
        assert names(catalog) == ["Mul", "Add", "Relu"]
        assert codes(catalog) == {"PF3203": 3, "PF3204": 1}

    def test_links_within_the_dump_are_files(self, dump):
        folder = dump.token(0)
        inside = write_device_op(dump.root / "elsewhere", "Neg", "Neg", at=9, inputs=[X], outputs=[X])
        (folder / inside.name).symlink_to(inside)
        assert [key.name for key in read(dump.root).nodes if key.execution.step == 0][-1] == "Neg"

    def test_a_pipe_does_not_block(self, dump):
        os.mkfifo(dump.token(0) / f"Neg.Neg.9.7.{FIRST_US + 9}")
        assert codes(read(dump.root)) == {"PF3205": 1}

    def test_folders_below_the_limit_make_a_run_incomplete(self, dump):
        deep = dump.root / "/".join("a" * 64)
        deep.mkdir(parents=True)
        assert not read(dump.root).problems
        (deep / "b").mkdir()
        (problem,) = read(dump.root).problems
        assert (problem.code, problem.severity) == ("PF3212", Severity.ERROR)

    def test_a_folder_that_may_not_be_listed_is_reported(self, dump, monkeypatch):
        locked, listdir = dump.token(1), os.listdir

        def refuse(path):
            if Path(path) == locked:
                raise PermissionError(13, "Permission denied")
            return listdir(path)

        monkeypatch.setattr("probe_flow.files.walk.os.listdir", refuse)
        catalog = read(dump.root)
        assert names(catalog) == ["Mul", "Add", "Relu"]
        assert codes(catalog) == {"PF3204": 1}
        assert "Permission denied" in catalog.problems[0].message

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_what_may_not_be_read_is_reported(self, dump):
        folder = dump.token(0)
        next(path for path in folder.iterdir() if path.name.startswith("Add.")).chmod(0)
        locked = dump.token(1)
        locked.chmod(0)
        try:
            catalog = read(dump.root)
        finally:
            locked.chmod(0o700)
        assert names(catalog) == ["Mul", "Add", "Relu"]
        assert codes(catalog) == {"PF3001": 1, "PF3204": 1}


class TestLaterForms:
    def test_malformed_reduced_and_statistics_files_stay_visible(self, dump):
        folder = dump.token(0)
        (folder / f"Neg.Neg.9.7.{FIRST_US + 9}_min_max.npz").write_bytes(b"PK")
        (folder / f"Abs.Abs.9.7.{FIRST_US + 10}.csv").write_text("Input/Output,Index\n")
        catalog = read(dump.root)
        assert names(catalog) == ["Mul", "Add", "Relu", "Neg", "Abs"]
        assert [ref.kind for ref in catalog.tensors[-2:]] == [TensorKind.UNREADABLE] * 2
        assert codes(catalog) == {"PF3230": 1, "PF3251": 1}

    def test_a_raw_file_beside_its_reduced_form_is_read(self, dump):
        (dump.token(0) / f"Add.Add.12.7.{FIRST_US + 2}_min_max.npz").write_bytes(b"PK")
        catalog = read(dump.root)
        assert all(ref.kind is TensorKind.TENSOR for ref in catalog.tensors)
        assert codes(catalog) == {"PF3250": 1}

    def test_nine_fields_of_an_unsliced_operator_are_ordinary(self, dump):
        write_device_op(dump.token(0), "Neg", "Neg", at=9, inputs=[X], outputs=[X], tail=(0, 7, 0, 0))
        catalog = read(dump.root)
        assert names(catalog)[-1] == "Neg"
        assert catalog.problems == ()


class TestSelection:
    def test_ranks_steps_and_graphs(self, tmp_path):
        dump = GeDump(tmp_path, worldsize=2)
        for rank in (0, 1):
            for graph in (1, 2):
                dump.graph(mul_add_relu(), rank=rank, graph=graph)
                for token in (0, 1):
                    write_mul_add_relu(dump.token(token, rank=rank, graph=graph), None)
        assert len(read(tmp_path).executions) == 8
        chosen = read(tmp_path, select=Selection(ranks=[1], steps=[0], graphs=[2]))
        assert [execution.identity for execution in chosen.executions] == [(1, 2, 0, None)]
        assert chosen.attrs["select"] == {
            "ranks": (1,),
            "steps": (0,),
            "graphs": (2,),
            "left_out": ("graphs", "ranks", "steps"),
        }
        assert chosen.problems == ()

    def test_node_patterns(self, dump):
        assert names(read(dump.root, select=Selection(nodes=["M*", "?elu"]))) == ["Mul", "Relu"]
        nothing = read(dump.root, select=Selection(nodes=["mul"]))
        assert (names(nothing), nothing.problems[-1].code) == ([], "PF3304")
        assert "`Mul`" in str(nothing.problems[-1].help)

    def test_a_selection_of_no_execution_names_those_that_are_there(self, dump):
        nothing = read(dump.root, select=Selection(ranks=[7]))
        assert (nothing.executions, nothing.problems[0].code) == ((), "PF3304")
        assert "rank 0 graph 1 step 0" in str(nothing.problems[0].help)


def test_a_missing_folder_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="PF3201") as caught:
        read(tmp_path / "nothing")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("prepare", [lambda path: None, lambda path: (path / "readme.txt").write_text("x")])
def test_a_folder_without_dump_is_incomplete(tmp_path, prepare):
    prepare(tmp_path)
    with pytest.raises(IncompleteError, match="PF3202") as caught:
        read(tmp_path)
    assert caught.value.exit_code == 3
    assert "op_name" in caught.value.diagnostic.notes[0]


def test_an_fx_dump_is_recognised_as_the_wrong_side(tmp_path):
    np.save(tmp_path / "add-aten.add.Tensor.INPUT.0.20260101000000000000.npy", X)
    with pytest.raises(IncompleteError, match="FX array") as caught:
        read(tmp_path)
    assert "dump.torchair_fx" in (caught.value.diagnostic.help or "")


def test_the_fingerprint_follows_names_sizes_and_times(dump):
    before = read(dump.root).fingerprint
    assert read(dump.root).fingerprint == before
    path = next(dump.token(0).iterdir())
    os.utime(path, ns=(1, 1))
    assert read(dump.root).fingerprint != before


FUSED_PARTS = {"Mul_1Add_2": ("Mul_1", "Add_2"), "Mul_3Add_8": ("Mul_3", "Add_8")}


def edges_by_hand(graph_file: Path, dumped: set[str]) -> set[tuple[str, str]]:
    """Return (producer, consumer) of dumped operators, from the lines of a graph text and plain recursion."""
    inputs: dict[str, list[str]] = {}
    for block in graph_file.read_text().split("\nop {")[1:]:
        found = re.findall(r'^  (name|input): "([^"]*)"', block, re.MULTILINE)
        inputs[found[0][1]] = [value.rsplit(":", 1)[0] for key, value in found if key == "input"]
    owner = {part: name for name in dumped for part in FUSED_PARTS.get(name, (name,))}

    def origins(name: str) -> set[str]:
        return {owner[name]} if name in owner else set().union(*map(origins, inputs.get(name, [])), set())

    edges = {(origin, owner[op]) for op in owner for source in inputs.get(op, []) for origin in origins(source)}
    return {(producer, consumer) for producer, consumer in edges if producer != consumer}


@pytest.mark.parametrize("case", ["ge_fx_old", "new_layout", "healthy"])
def test_real_dumps_are_read_without_problems(torchair_case: Callable[[str], Path], case):
    root = torchair_case(case) / "msprobe_ge_dump"
    catalog = read(root)
    assert catalog.problems == ()
    assert len(catalog.nodes) == sum(path.name.count(".") == 4 for path in root.rglob("*") if path.is_file())
    first = [node for node in catalog.nodes.values() if node.key.execution.step == 0]
    orders = [node.order for node in first]
    assert orders == sorted(orders)
    found = {(e.producer.name, e.consumer.name) for e in catalog.edges if e.producer.execution.step == 0}
    graph_file = next(root.glob("dynamo_original_graph_*.txt"))
    assert found == edges_by_hand(graph_file, {node.key.name for node in first})
    assert len(found) > 50
