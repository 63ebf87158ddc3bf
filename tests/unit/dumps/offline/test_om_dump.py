"""Reading device dumps of offline models, on files from a writer that shares no code with the reader."""

from __future__ import annotations

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from catalog_looks import codes, names, values
from ge_writer import container, field_bytes
from hypothesis import given, settings
from hypothesis import strategies as st
from om_writer import FIRST_US, GoldenFolder, OmFolder, device_bytes, om_tree, op_debug_record, tensor
from reduce_dumps import reduce_one

from probe_flow.dumps.device.device_file import MAX_HEADER_BYTES
from probe_flow.dumps.device.overflow_records import read_op_debug
from probe_flow.dumps.offline.om_dump import read_om
from probe_flow.dumps.selection import Selection
from probe_flow.errors import CODES, IncompleteError, Severity, UsageError
from probe_flow.records import Execution, SlotRole, TensorKind

X = np.arange(6, dtype="f4").reshape(2, 3)


def read(path, **options):
    catalog = read_om(path, side="target", **options)
    assert all(problem.code in CODES for problem in catalog.problems)
    return catalog


def refs(catalog, name):
    return {str(ref.slot): ref for ref in catalog.tensors if ref.node.name == name}


@pytest.fixture
def folder(tmp_path):
    return OmFolder(tmp_path / "target")


def test_nodes_have_true_and_cleaned_names_in_order_of_time(folder):
    folder.op("Relu", "block/relu.1", at=9, inputs=[X], outputs=[X])
    folder.stream = None
    folder.op("Conv2D", "conv1", at=2, outputs=[X])
    catalog = read(folder.path)

    assert (catalog.side, catalog.framework.name, catalog.task, catalog.executions) == (
        "target", "om", "tensor", (Execution(),)
    )  # fmt: skip
    assert names(catalog) == ["conv1", "block/relu.1"]
    conv, relu = catalog.nodes.values()
    assert (relu.op_type, relu.order) == ("Relu", FIRST_US + 9)
    expected = {"clean_name": "block_relu_1", "task_id": 7, "stream_id": 3, "timestamp": FIRST_US + 9}
    assert {name: relu.attributes[name] for name in expected} == expected
    assert "stream_id" not in conv.attributes
    assert [str(ref.slot) for ref in catalog.tensors] == ["output.0", "input.0", "output.0"]
    assert not catalog.problems
    assert not catalog.edges


def test_tensors_say_what_the_header_says(folder):
    image = np.arange(12, dtype="f4").reshape(1, 3, 2, 2)
    folder.op(
        "Conv2D",
        "conv",
        at=1,
        inputs=[tensor(image, "float16", "NC1HWC0", address=4096, surplus=32)],
        outputs=[
            tensor(np.float32(3), shape=(), original_shape=()),
            tensor(np.zeros((0, 4))),
            tensor(X, original_shape=None, origin=("bn", 2)),
            tensor([1, 2, 3], "int32", shape=None, original_shape=None),
        ],
    )
    found = refs(read(folder.path), "conv")

    source = found["input.0"]
    assert (source.dtype, source.layout, source.shape) == ("float16", "NC1HWC0", (1, 1, 2, 2, 16))
    assert (source.logical_shape, source.facts.address) == ((1, 3, 2, 2), 4096)
    np.testing.assert_array_equal(values(source), image)
    assert (found["output.0"].shape, float(values(found["output.0"]).item())) == ((), 3.0)
    assert (found["output.1"].shape, found["output.1"].numel) == ((0, 4), 0)
    np.testing.assert_array_equal(values(found["output.3"]), [1, 2, 3])


@pytest.mark.parametrize("form", ["container", "bare", "nano"])
def test_every_form_of_container_is_read(folder, form):
    path = folder.op("Add", "a/b", at=1, inputs=[X], outputs=[X + 1], form=form)
    if form == "container":
        path.write_bytes(path.read_bytes() + b"a tail that nobody announced")
    catalog = read(folder.path)

    assert names(catalog) == ["a_b" if form == "nano" else "a/b"]  # nano headers name no operator
    np.testing.assert_array_equal(values(catalog.tensors[1]), X + 1)
    assert codes(catalog) == ({"PF3019": 1} if form == "container" else {}), "a tail is told"


def test_buffers_and_spaces_lie_behind_the_tensors(folder):
    folder.op("Add", "a", at=1, inputs=[X], outputs=[X + 1], buffers=[b"buffer"], spaces=[b"log"])
    np.testing.assert_array_equal(values(read(folder.path).tensors[1]), X + 1)


@pytest.mark.parametrize("is_automatic", [True, False])
def test_slices_are_glued_in_order_of_their_numbers(folder, is_automatic):
    whole = np.arange(36, dtype="f4").reshape(12, 3)
    parts = [whole[at : at + 1] for at in range(12)]
    folder.slices("Add", "a/b", at=1, parts=parts, axis=0, is_automatic=is_automatic, inputs=[X])
    catalog = read(folder.path)

    assert names(catalog) == ["a/b"]
    output = refs(catalog, "a/b")["output.0"]
    assert (output.shape, output.logical_shape, len(output.extents)) == ((12, 3), (12, 3), 12)
    np.testing.assert_array_equal(values(output), whole)  # a slice 10 comes behind slice 9, not behind slice 1
    assert not codes(catalog)


@pytest.mark.parametrize("is_automatic", [True, False])
def test_slices_can_be_kept_apart(folder, is_automatic):
    parts = [X, X + 10, X[:1] + 20]
    paths = folder.slices("Add", "a/b", at=5, parts=parts, axis=0, is_automatic=is_automatic, inputs=[X])
    folder.op("Relu", "r", at=1, inputs=[X], outputs=[X])
    catalog = read(folder.path, slices="separate")

    assert [(key.name, key.call) for key in catalog.nodes] == [("r", 0), ("a/b", 0), ("a/b", 1), ("a/b", 2)]
    outputs = [ref for ref in catalog.tensors if ref.slot.role is SlotRole.OUTPUT]
    for ref, part in zip(outputs[1:], parts, strict=True):
        np.testing.assert_array_equal(values(ref), part)
    assert [node.attributes["file"] for node in list(catalog.nodes.values())[1:]] == [path.name for path in paths]
    assert not codes(catalog)


def test_a_damaged_slice_that_is_kept_apart_stays_visible(folder):
    paths = folder.slices("Add", "a", at=5, parts=[X, X + 10], axis=0)
    paths[0].write_bytes(b"")
    catalog = read(folder.path, slices="separate")

    assert [(ref.node.call, ref.kind) for ref in catalog.tensors] == [
        (0, TensorKind.UNREADABLE), (1, TensorKind.TENSOR)
    ]  # fmt: skip
    assert codes(catalog) == {"PF3010": 1}


def test_missing_slices_cost_the_output_and_are_said(folder):
    folder.slices("Add", "a", at=1, parts=[X, X], axis=0, count=3)
    catalog = read(folder.path)

    assert refs(catalog, "a")["output.0"].kind is TensorKind.UNREADABLE
    assert codes(catalog) == {"PF3024": 1}


def test_hashed_names_are_resolved_and_unresolved_ones_skipped(folder):
    path = folder.op("Add", "a/b", at=1, outputs=[X])
    folder.hashed(path, "8412345")
    folder.file("999", device_bytes("lost", outputs=[X]))
    catalog = read(folder.path)

    assert names(catalog) == ["a/b"]
    assert codes(catalog) == {"PF3208": 1}


def test_reduced_files_keep_the_hashed_names_of_the_dump(folder):
    """A fused operator's name is long: its file is named by digits, and so is what `reduce` makes of it."""
    path = folder.hashed(folder.op("Add", "a/b", at=1, outputs=[X]), "8412345")
    reduce_one(path, deletes_source=True)
    catalog = read(folder.path)

    assert names(catalog) == ["a/b"]
    assert refs(catalog, "a/b")["output.0"].recorded.max == X.max()
    assert codes(catalog) == {}


def test_digits_alone_are_no_dump(folder):
    folder.file("999", device_bytes("lost", outputs=[X]))
    with pytest.raises(IncompleteError, match="1 x hashed name") as caught:
        read(folder.path)
    assert caught.value.diagnostic.code == "PF3202"


def test_an_array_may_stand_for_a_device_file(folder):
    with (folder.path / f"Add.a_b.7.3.{FIRST_US}.npy").open("wb") as stream:
        np.save(stream, X)
    folder.op("Relu", "r", at=1, outputs=[X])
    catalog = read(folder.path)

    assert names(catalog) == ["a_b", "r"]
    (ref,) = refs(catalog, "a_b").values()
    assert (ref.slot.role, ref.layout, ref.dtype) == (SlotRole.OUTPUT, "ND", "float32")
    np.testing.assert_array_equal(values(ref), X)


def test_statistics_of_the_device_stand_for_tensors(folder):
    table = "Input/Output,Index,Data Type,Format,Shape,Max Value,Min Value\nOutput,0,DT_FLOAT,ND,2x3,5,-1\n"
    folder.file(f"Add.a_b.7.3.{FIRST_US}.csv", table.encode())
    catalog = read(folder.path)

    (ref,) = catalog.tensors
    assert (ref.id, ref.kind, catalog.task) == ("a_b.output.0", TensorKind.STATISTICS, "statistics")
    assert ref.recorded is not None
    assert (ref.recorded.min, ref.recorded.max) == (-1, 5)


@pytest.mark.parametrize(("rule", "value"), [("newest", 2), ("largest", 3), ("first", 3)])
def test_of_two_files_of_one_operator_one_counts(folder, rule, value):
    folder.op("Add", "a", at=0, outputs=[tensor([3.0], surplus=64)])
    # One digit more: newer as a number, earlier as text.
    folder.file(f"Add.a.7.3.{FIRST_US * 10}", device_bytes("a", outputs=[[2.0]]))
    catalog = read(folder.path, duplicates=rule)

    assert values(catalog.tensors[0]).item() == value
    assert codes(catalog) == {"PF3206": 1}


def test_of_two_files_of_one_size_the_largest_is_the_first_by_name_and_the_message_says_so(folder):
    folder.op("Add", "a", at=0, outputs=[[3.0]])
    folder.op("Add", "a", at=9, outputs=[[2.0]])
    catalog = read(folder.path, duplicates="largest")

    assert values(catalog.tensors[0]).item() == 3.0
    (problem,) = catalog.problems
    assert problem.message.endswith(
        "holds the same operator and is the largest, or the first by name of several as large"
    )


def test_operators_whose_names_are_alike_once_cleaned_are_told_apart(folder):
    for at, name in enumerate(("a/b", "a.b", "a_b")):
        folder.op("Add", name, at=at, outputs=[[float(at)]])
    folder.op("Add", "a.b", at=9, outputs=[[9.0]])
    catalog = read(folder.path)

    assert names(catalog) == ["a/b", "a_b", "a.b"]
    assert {node.attributes["clean_name"] for node in catalog.nodes.values()} == {"a_b"}
    assert values(refs(catalog, "a.b")["output.0"]).item() == 9.0
    assert codes(catalog) == {"PF3206": 1}


def test_a_file_that_was_renamed_is_named_by_its_file(folder):
    folder.op("Add", "new", at=1, outputs=[X], header_name="old/name")
    catalog = read(folder.path)

    assert names(catalog) == ["new"]
    (problem,) = catalog.problems
    assert (problem.code, problem.severity) == ("PF3302", Severity.WARNING)
    assert "`old/name`" in problem.message


def test_headers_may_lack_the_name(folder):
    folder.op("Add", "a/b", at=1, outputs=[X], header_name="")
    assert names(read(folder.path)) == ["a_b"]


def test_odd_characters_in_names_do_no_harm(folder):
    for at, name in enumerate(("conv (1)", "卷积", "a:0", "=1+2")):
        folder.op("Add", name, at=at, outputs=[X])
    assert names(read(folder.path)) == ["conv (1)", "卷积", "a:0", "=1+2"]


def test_unknown_task_types_are_skipped_with_a_warning(folder):
    folder.op("Add", "known", at=1, outputs=[X], tail=(4, 1, 0, 0))
    folder.op("Add", "unknown", at=2, outputs=[X], tail=(9, 1, 0, 0))
    catalog = read(folder.path)

    assert names(catalog) == ["known"]
    (problem,) = catalog.problems
    assert (problem.code, problem.severity) == ("PF3301", Severity.WARNING)
    assert "task type 9" in problem.message


def test_one_unsupported_type_costs_one_tensor(folder):
    folder.op("Add", "a", at=1, inputs=[tensor(X, data_type=39), tensor(X, data_type=77)], outputs=[X])
    found = refs(read(folder.path), "a")

    assert [found[name].kind for name in ("input.0", "input.1", "output.0")] == [
        TensorKind.OPAQUE, TensorKind.OPAQUE, TensorKind.TENSOR
    ]  # fmt: skip
    assert "77" in str(found["input.1"].reason)
    np.testing.assert_array_equal(values(found["output.0"]), X)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "PF3010"),
        (b"\0" * 8, "PF3010"),
        (struct.pack("<Q", 2**60) + b"x" * 40, "PF3011"),
        (container(field_bytes(9, b"x")), "PF3013"),
        (device_bytes("a", outputs=[tensor(X, shape=(2, 3, 4))]), "PF3016"),
        (device_bytes("a", outputs=[X])[:-3], "PF3015"),
    ],
)
def test_damaged_files_stay_visible(folder, content, code):
    folder.op("Relu", "good", at=1, outputs=[X])
    folder.file(f"Add.a.7.3.{FIRST_US + 2}", content)
    catalog = read(folder.path)

    assert names(catalog) == ["good", "a"]
    (ref,) = refs(catalog, "a").values()
    assert (ref.kind, bool(ref.reason)) == (TensorKind.UNREADABLE, True)
    assert codes(catalog)[code] == 1


def test_a_slot_larger_than_the_file_costs_what_lies_behind_it(folder):
    folder.op("Add", "a", at=1, outputs=[tensor(X, size=2**40), X])
    catalog = read(folder.path)

    assert [ref.kind for ref in catalog.tensors] == [TensorKind.TENSOR, TensorKind.UNREADABLE]
    assert codes(catalog) == {"PF3015": 1}


def test_a_huge_header_is_not_read(folder):
    path = folder.file(f"Add.a.7.3.{FIRST_US}", struct.pack("<Q", MAX_HEADER_BYTES + 1))
    with path.open("r+b") as stream:
        stream.truncate(MAX_HEADER_BYTES + 100)
    assert codes(read(folder.path)) == {"PF3012": 1}


def test_overflow_records_are_no_operators(folder):
    folder.op("Add", "a", at=1, outputs=[X])
    folder.op_debug(op_debug_record("AIC", {"task_id": 7, "stream_id": 3}, status=[2]), at=2)
    folder.op_debug(op_debug_record("AICPU", {"task_id": 8}), at=3, tail=(2, 1, 0, 0))
    catalog = read(folder.path)

    assert names(catalog) == ["a"]
    assert not codes(catalog)
    files = catalog.attrs["op_debug"]
    assert [name.partition(".")[0] for name in files] == ["Opdebug", "Opdebug"]
    assert [read_op_debug(folder.path / name)[0].units[0].task for name in files] == [(7, 3), (8, 0)]


def test_a_folder_of_overflow_records_alone_says_so(folder):
    folder.op_debug(op_debug_record("AIC", {}), at=2)
    with pytest.raises(IncompleteError, match="1 x overflow record"):
        read(folder.path)


def test_files_of_both_sides_in_one_folder_are_an_error(folder):
    folder.op("Add", "a", at=1, outputs=[X])
    GoldenFolder(folder.path).output("a", 0, X)
    with pytest.raises(UsageError) as caught:
        read(folder.path)

    assert caught.value.diagnostic.code == "PF3300"
    assert "`Add.a.7.3." in caught.value.diagnostic.message
    assert "`a.0." in caught.value.diagnostic.message


def test_arrays_alone_name_the_stage_that_reads_them(tmp_path):
    GoldenFolder(tmp_path).output("a", 0, X)
    with pytest.raises(IncompleteError) as caught:
        read(tmp_path)

    assert caught.value.diagnostic.code == "PF3202"
    assert "`dump.npy`" in str(caught.value.diagnostic.help)


def test_other_files_are_passed_over(folder):
    folder.op("Add", "a", at=1, outputs=[X])
    for name in ("rule.json", "model.om", "convert_failed_file_list.txt", ".Add.a.1.2.swp", "output_0.npy"):
        folder.file(name, b"x")
    catalog = read(folder.path)

    assert names(catalog) == ["a"]
    assert codes(catalog) == {"PF3205": 4}  # the list of failures is known


def test_quantised_models_are_told_by_names_and_types_or_by_the_user(tmp_path):
    plain, by_name, by_type = (OmFolder(tmp_path / name) for name in ("plain", "name", "type"))
    plain.op("Conv2D", "post_quantile", at=1, outputs=[X])
    by_name.op("Conv2D", "conv1/quant", at=1, outputs=[X])
    by_type.op("AscendDequant", "fused", at=1, outputs=[X])

    flags = {made.path.name: read(made.path).attrs["is_quantised"] for made in (plain, by_name, by_type)}
    assert flags == {"plain": False, "name": True, "type": True}
    assert read(by_name.path).attrs["quantised_names"] == ("conv1_quant",)
    assert read(plain.path, quantised=True).attrs["is_quantised"] is True
    assert read(by_name.path, quantised=False).attrs["is_quantised"] is False
    assert read(by_name.path, select=Selection(nodes=["*"])).attrs["is_quantised"] is True


def test_nodes_are_selected_by_true_or_cleaned_names(folder):
    for at, name in enumerate(("block/conv.1", "fc")):
        folder.op("Add", name, at=at, outputs=[X])

    assert names(read(folder.path, select=Selection(nodes=["block/conv.1"]))) == ["block/conv.1"]
    assert names(read(folder.path, select=Selection(nodes=["block_*"]))) == ["block/conv.1"]
    with pytest.raises(UsageError, match="keeps nothing") as caught:
        read(folder.path, select=Selection(nodes=["nope"]))
    assert "`block_conv_1`, `fc`" in str(caught.value.diagnostic.help)


def test_a_selection_that_a_flat_folder_cannot_answer_is_reported(folder):
    folder.op("Add", "fc", at=0, outputs=[X])
    catalog = read(folder.path, select=Selection(ranks=[3], nodes=["fc"]))
    assert names(catalog) == ["fc"]
    (problem,) = catalog.problems
    assert (problem.code, problem.severity.value) == ("PF3217", "warning")
    assert problem.message.startswith("the selection of ranks narrows nothing")


@pytest.mark.parametrize("time", ["", "20260101000000"])
def test_the_tree_of_a_model_run_gives_executions(tmp_path, time):
    for device, model, model_id, step in ((0, "net", 1, 0), (0, "net", 1, 10), (0, "net", 1, 2), (1, "head", 2, 0)):
        made = OmFolder(om_tree(tmp_path, device=device, model=model, model_id=model_id, step=step, time=time))
        made.op("Add", "a", at=step, outputs=[[float(step)]])
    catalog = read(tmp_path)

    assert [(e.identity, e.device, e.model) for e in catalog.executions] == [
        ((0, 1, 0, None), 0, "net"),
        ((0, 1, 2, None), 0, "net"),
        ((0, 1, 10, None), 0, "net"),
        ((1, 2, 0, None), 1, "head"),
    ]
    last = read(tmp_path, last_step=True)
    assert [(e.rank, e.step) for e in last.executions] == [(0, 10), (1, 0)]
    for select, steps in (
        ({"ranks": [0], "steps": [2, 10]}, [2, 10]),
        ({"graphs": [2]}, [0]),
        ({"graphs": ["net"]}, [0, 2, 10]),
    ):
        chosen = read(tmp_path, select=Selection(**select))
        assert ([e.step for e in chosen.executions], chosen.problems) == (steps, ())
    with pytest.raises(UsageError, match="keeps nothing") as caught:
        read(tmp_path, select=Selection(ranks=[5]))
    assert "rank 0 graph 1 step 10 (model `net`)" in str(caught.value.diagnostic.help)


@pytest.mark.parametrize(
    ("below", "expected"),
    [
        ("20260101000000", Execution(0, 3, 1, device=0, model="net")),
        ("20260101000000/0", Execution(None, 3, 1, model="net")),
        ("20260101000000/0/net", Execution(None, 3, 1)),
        ("20260101000000/0/net/1", Execution(None, 3)),
        ("20260101000000/0/net/1/3", Execution()),
    ],
)
def test_any_folder_of_the_tree_may_be_given(tmp_path, below, expected):
    OmFolder(om_tree(tmp_path, step=3, time="20260101000000")).op("Add", "a", at=1, outputs=[X])
    assert read(tmp_path / below).executions == (expected,)


def test_single_operator_runs_have_a_device_only(tmp_path):
    OmFolder(tmp_path / "20260101000000" / "2").op("Add", "a", at=1, outputs=[X])
    assert read(tmp_path).executions == (Execution(2, device=2),)
    assert read(tmp_path / "20260101000000").executions == (Execution(2, device=2),)


def test_of_two_runs_the_newest_is_read_or_the_one_that_is_asked_for(tmp_path):
    for time, value in (("20260101000000", 1.0), ("20260202000000", 2.0)):
        OmFolder(om_tree(tmp_path, time=time)).op("Add", "a", at=1, outputs=[[value]])

    newest = read(tmp_path)
    assert values(newest.tensors[0]).item() == 2.0
    assert codes(newest) == {"PF3207": 1}
    assert values(read(tmp_path, time="20260101000000").tensors[0]).item() == 1.0
    with pytest.raises(UsageError) as caught:
        read(tmp_path, time="20260303000000")
    assert caught.value.diagnostic.code == "PF3201"


def test_two_dumps_side_by_side_are_not_mixed(tmp_path):
    for name in ("fusion_on", "fusion_off"):
        OmFolder(tmp_path / name).op("Add", "a", at=1, outputs=[X])
    with pytest.raises(UsageError) as caught:
        read(tmp_path)

    assert caught.value.diagnostic.code == "PF3303"
    assert "`fusion_off` and `fusion_on`" in caught.value.diagnostic.message


def test_folders_below_a_folder_of_device_files_are_not_read(folder):
    folder.op("Add", "a", at=1, outputs=[X])
    OmFolder(folder.path / "backup").op("Add", "b", at=1, outputs=[X])
    catalog = read(folder.path)

    assert names(catalog) == ["a"]
    (problem,) = catalog.problems
    assert (problem.code, problem.severity, problem.path) == ("PF3305", Severity.WARNING, "backup")


def test_one_device_file_is_a_dump(folder):
    folder.op("Add", "a", at=0, outputs=[X])
    path = folder.op("Relu", "b", at=1, inputs=[X], outputs=[X])
    catalog = read(path)
    assert names(catalog) == ["b"]
    assert [ref.slot.role.value for ref in catalog.tensors] == ["input", "output"]
    assert (catalog.root, catalog.attrs["file"]) == (str(folder.path.resolve()), path.name)
    with pytest.raises(UsageError, match="PF3201"):
        read(Path(__file__))


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "nope")
    assert caught.value.diagnostic.code == "PF3201"


def test_links_out_of_the_dump_are_not_followed(folder, tmp_path):
    outside = OmFolder(tmp_path / "outside").op("Add", "secret", at=1, outputs=[X])
    (folder.path / outside.name).symlink_to(outside)
    folder.op("Add", "a", at=1, outputs=[X])
    catalog = read(folder.path)

    assert names(catalog) == ["a"]
    assert codes(catalog) == {"PF3203": 1}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_damage_makes_the_reader_fail(data):
    with TemporaryDirectory() as name:
        folder = OmFolder(Path(name))
        made = [
            folder.op("Add", "a", at=1, inputs=[X], outputs=[tensor(X, "float16", address=8)]),
            folder.op("Add", "n", at=2, inputs=[X], outputs=[X], form="nano"),
            folder.op("Add", "b", at=3, inputs=[X], outputs=[X], form="bare"),
            *folder.slices("Add", "s", at=4, parts=[X, X], axis=0),
            *folder.slices("Add", "m", at=6, parts=[X, X], axis=0, is_automatic=False),
        ]
        for path in made:
            content = bytearray(path.read_bytes())
            for place, value in data.draw(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4)):
                content[place % len(content)] = value
            path.write_bytes(content[: data.draw(st.integers(0, 2 * len(content)))])
        catalog = read(folder.path)
        for ref in catalog.tensors:
            if ref.kind is TensorKind.TENSOR:
                assert sum(extent.nbytes for extent in ref.extents) <= 4096
    assert {node.attributes["clean_name"] for node in catalog.nodes.values()} >= {"a", "n", "b", "s", "m"}


def test_the_fingerprint_changes_with_the_files(folder):
    folder.op("Add", "a", at=1, outputs=[X])
    before = read(folder.path).fingerprint
    folder.op("Add", "b", at=1, outputs=[X])
    assert read(folder.path).fingerprint != before
