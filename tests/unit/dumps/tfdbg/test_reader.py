"""Reading runs of TensorFlow's debugger, on files from a writer that shares no code with the reader."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from catalog_looks import codes, names, values
from hypothesis import given
from hypothesis import strategies as st
from model_file_writer import block, text, whole
from tfdbg_writer import CPU, TfdbgRun, event, shape_message, tensor_event, tensor_message

from probe_flow.dumps.selection import Selection
from probe_flow.dumps.tfdbg.event import read_graph_event, read_tensor_event
from probe_flow.dumps.tfdbg.reader import read_tfdbg, usual_names
from probe_flow.errors import CODES, FormatError, IncompleteError, UsageError
from probe_flow.records import Execution, TensorKind

X = np.arange(6, dtype="f4").reshape(2, 3)
GPU = CPU.replace("CPU_0", "GPU_0")


def read(path, **options):
    catalog = read_tfdbg(path, side="golden", **options)
    assert all(problem.code in CODES for problem in catalog.problems)
    return catalog


@pytest.fixture
def run(tmp_path):
    return TfdbgRun(tmp_path / "tf_debug")


def test_names_and_slots_come_from_the_record_not_from_the_file(run):
    run.add("scope/a_0", X, slot=1)
    path = run.add("b", X + 1)
    path.rename(path.with_name(path.name.replace("b_0_", "wrong_7_")))
    catalog = read(run.folder.parent)

    assert [ref.id for ref in catalog.tensors] == ["scope/a_0.output.1", "b.output.0"]
    assert (catalog.framework.name, catalog.executions, catalog.problems) == ("tfdbg", (Execution(),), ())
    assert np.array_equal(values(catalog.tensors[1]), X + 1)
    assert [node.clean_name for node in catalog.nodes.values()] == ["scope_a_0", "b"]


@pytest.mark.parametrize("name", ["a.b", "a>b", "a\\b", "x/y-z", "a_0_DebugIdentity_1"])
def test_names_that_files_cannot_tell_stay_true(run, name):
    run.add(name.replace("\\", "\\"), X)
    assert names(read(run.folder)) == [name]


def test_an_operator_of_several_devices_counts_once(run):
    run.add("a", X, device=GPU)
    run.add("a", X + 1)
    run.add("b", X, device=GPU)
    catalog = read(run.folder)

    assert names(catalog) == ["a", "b"]
    assert np.array_equal(values(catalog.tensors[0]), X + 1)
    assert codes(catalog) == {"PF3446": 1}


def test_the_graph_gives_types_and_flow_through_the_debugger_s_copies(run):
    run.graph(
        [
            ("x", "_Arg", []),
            ("__copy_x_0", "CopyHost", ["x"]),
            ("y", "Split", ["__copy_x_0", "^x"]),
            ("z", "Add", ["y:1"]),
        ]
    )
    for name in "xyz":
        run.add(name, X)
    catalog = read(run.folder)

    assert [node.op_type for node in catalog.nodes.values()] == ["_Arg", "Split", "Add"]
    assert [(edge.producer.name, edge.output, edge.consumer.name, edge.input) for edge in catalog.edges] == [
        ("x", 0, "y", 0),
        ("y", 1, "z", 0),
    ]


def test_a_damaged_graph_costs_the_types_only(run):
    run.graph([("x", "Add", [])])
    run.add("x", X)
    (graph,) = (path for path in (run.folder / CPU).iterdir() if path.name.startswith("_tfdbg_graph"))
    graph.write_bytes(graph.read_bytes()[:-3])
    catalog = read(run.folder)

    assert [node.op_type for node in catalog.nodes.values()] == [""]
    assert codes(catalog) == {"PF3013": 1}


def test_a_file_that_is_cut_off_says_so_in_the_words_of_its_format(run):
    run.add("whole", X)
    path = run.add("x", X)
    path.write_bytes(path.read_bytes()[:-4])
    (problem,) = [each for each in read(run.folder).problems if each.code == "PF3013"]
    assert problem.message.startswith(f"`{path.name}` is cut off or damaged: ")
    assert problem.help == "run the step again; a run that still writes is read when it has ended"


@pytest.mark.parametrize(("there", "is_said"), [(("a", "b", "c"), False), (("a", "b"), True), (("a",), True)])
def test_a_run_that_lacks_what_its_graph_says_was_watched_is_not_whole(run, there, is_said):
    copies = [(f"__copy_{name}_0", "CopyHost", [name]) for name in "abc"]
    run.graph([*((name, "Add", []) for name in "abc"), *copies])
    for name in there:
        run.add(name, X)
    found = [each.message for each in read(run.folder).problems if each.code == "PF3449"]
    assert len(found) == is_said
    assert all(f"has {len(there)} of the 3 tensors" in message for message in found)


def test_what_holds_no_numbers_is_listed(run):
    run.write(
        "s", 0, tensor_event("s", 0, whole(1, 7) + block(2, shape_message([2])) + block(8, b"a") + block(8, b"b"))
    )
    run.write("r", 0, tensor_event("r", 0, whole(1, 20)))
    run.write("unset", 0, tensor_event("unset", 0, whole(1, 1) + block(2, shape_message([3]))))
    run.add("none", X[:0])
    run.write("n", 0, tensor_event("n", 0, tensor_message(X), op="DebugNanCount"), op="DebugNanCount")
    catalog = read(run.folder)

    kinds = {ref.node.name: ref.kind for ref in catalog.tensors}
    assert kinds == dict.fromkeys(("s", "r", "unset"), TensorKind.OPAQUE) | {"none": TensorKind.TENSOR}
    assert codes(catalog) == {"PF3444": 3, "PF3445": 1}


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "PF3440"),
        (event(b""), "PF3440"),
        (block(3, b"version"), "PF3440"),
        (tensor_event("a", 0, tensor_message(X))[:-40], "PF3013"),
        (tensor_event("a", 0, tensor_message(X))[:20], "PF3013"),
        (tensor_event("a", 0, whole(1, 1) + block(2, shape_message([2, 3])) + block(4, b"1234")), "PF3441"),
        (tensor_event("a", 0, whole(1, 1) + block(2, shape_message([2**40, 2**40])) + block(4, b"1234")), "PF3441"),
        (tensor_event("a", 0, whole(1, 1) + block(2, shape_message([-1])) + block(4, b"1234")), "PF3441"),
        (tensor_event("a", 0, whole(1, 1) + block(2, shape_message([1] * 300)) + block(4, b"1234")), "PF3441"),
        (event(block(1, text(7, "a") + block(8, tensor_message(X)))), "PF3440"),
        (event(block(1, text(7, "a:x:DebugIdentity") + block(8, tensor_message(X)))), "PF3440"),
        (b"\xff" * 40, "PF3013"),
    ],
    ids=range(12),
)
def test_a_bad_file_is_an_unreadable_tensor_with_a_problem(run, raw, code):
    run.add("good", X)
    run.write("bad", 2, raw)
    catalog = read(run.folder)

    bad = catalog.tensors[1]
    assert (bad.node.name, bad.slot.index, bad.kind) == ("bad", "2", TensorKind.UNREADABLE)
    (problem,) = catalog.problems
    assert (problem.code, problem.path, bool(problem.help)) == (
        code,
        f"{run.folder.name}/{CPU}/bad_2_DebugIdentity_{run.time}",
        True,
    )


def test_a_declared_size_beyond_any_memory_allocates_nothing(run):
    run.write(
        "huge",
        0,
        block(5, block(1, text(7, "huge:0:DebugIdentity") + block(8, whole(1, 1) + b"\x22\xff\xff\xff\xff\x0f"))),
    )
    assert codes(read(run.folder)) == {"PF3013": 1}


def test_an_empty_folder_and_a_run_without_tensors_are_not_green(tmp_path):
    (tmp_path / "tf_debug").mkdir()
    with pytest.raises(IncompleteError, match="holds no run of the TensorFlow debugger") as caught:
        read(tmp_path / "tf_debug")
    assert caught.value.diagnostic.code == "PF3202"
    TfdbgRun(tmp_path / "tf_debug")
    with pytest.raises(IncompleteError, match="the run did not end") as caught:
        read(tmp_path / "tf_debug")


def test_runs_are_chosen_by_their_number_in_time(tmp_path):
    for number in (10, 2, 9):
        TfdbgRun(tmp_path, number).add("a", X + number)
    catalogs = {run: read(tmp_path, run=run) for run in ("last", 0, 1)}
    assert [float(values(catalog.tensors[0])[0, 0]) for catalog in catalogs.values()] == [10.0, 2.0, 9.0]
    assert "it was asked for `loss:0`" in catalogs["last"].problems[0].message
    with pytest.raises(UsageError, match="it has runs 0 to 2"):
        read(tmp_path, run=3)

    all_runs = read(tmp_path, run="all")
    assert [execution.step for execution in all_runs.executions] == [0, 1, 2]
    assert [key.execution.step for key in read(tmp_path, run="all", select=Selection(steps=[1])).nodes] == [1]
    with pytest.raises(UsageError, match="keeps nothing"):
        read(tmp_path, run="all", select=Selection(steps=[7]))


def test_select_narrows_by_true_names(run):
    for name in ("dense/MatMul", "dense/Relu"):
        run.add(name, X)
    assert names(read(run.folder, select=Selection(nodes=["*/Relu"]))) == ["dense/Relu"]
    with pytest.raises(UsageError) as caught:
        read(run.folder, select=Selection(nodes=["conv*"]))
    assert "`dense/MatMul`" in str(caught.value.diagnostic.help)


def test_strangers_among_the_files_are_named_and_links_are_not_followed(run, tmp_path):
    run.add("a", X)
    (run.folder / CPU / "notes.txt").write_text("x")
    (run.folder / CPU / "out_0_DebugIdentity_1").symlink_to("/etc/hostname")
    assert codes(read(run.folder)) == {"PF3205": 1, "PF3203": 1}


def test_names_that_two_operators_would_share_stay_as_they_are():
    known = {"merge/_1", "merge/_2", "loop/_3", "loop", "_arg_x_0_0", "b/_4"}
    assert usual_names(sorted(known), known) == {"_arg_x_0_0": ("x", 0), "b/_4": ("b", None)}


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 200))
def test_no_bytes_break_the_readers(tmp_path_factory, noise, at, cut):
    folder = tmp_path_factory.mktemp("fuzz")
    raw = tensor_event("scope/a", 0, tensor_message(X))
    for data in (noise, raw[:at] + noise + raw[at + cut :]):
        path = folder / "file"
        path.write_bytes(data)
        for reader in (read_tensor_event, read_graph_event):
            with suppress(FormatError):
                reader(str(path))
