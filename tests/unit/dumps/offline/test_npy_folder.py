"""Reading folders of framework arrays, on files from a writer that shares no code with the reader."""

from __future__ import annotations

import numpy as np
import pytest
from catalog_looks import codes, names, values
from om_writer import FIRST_US, GoldenFolder, OmFolder, tensor

from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.dumps.selection import Selection
from probe_flow.errors import CODES, IncompleteError, Severity, UsageError
from probe_flow.records import Execution, Slot, SlotRole, TensorKind

X = np.arange(6, dtype="f4").reshape(2, 3)


def read(path, **options):
    catalog = read_npy_folder(path, side="golden", **options)
    assert all(problem.code in CODES for problem in catalog.problems)
    return catalog


@pytest.fixture
def folder(tmp_path):
    return GoldenFolder(tmp_path / "golden")


@pytest.mark.parametrize(
    ("name", "node", "index"), [("conv/1.3.1700000000000001.npy", "conv_1", 3), ("mine.npy", "mine", 0)]
)
def test_one_file_is_a_dump_of_one_array(tmp_path, name, node, index):
    path = tmp_path / name.replace("/", "_")
    np.save(path, X)
    np.save(tmp_path / "other.0.1700000000000001.npy", X)
    catalog = read(path)
    ((key, ref),) = [(ref.node.name, ref) for ref in catalog.tensors]
    assert (key, ref.slot.path, ref.shape) == (node, (index,), X.shape)
    assert (catalog.root, catalog.attrs["file"], catalog.problems) == (str(tmp_path), path.name, ())


def test_one_file_that_is_no_array_is_a_mistake(tmp_path):
    (tmp_path / "rules.json").write_text("{}")
    with pytest.raises(UsageError, match=r"not a `\.npy`") as caught:
        read(tmp_path / "rules.json")
    assert caught.value.diagnostic.code == "PF3201"


def test_arrays_are_outputs_of_operators_in_order_of_time(folder):
    folder.output("split/a.1", 10, X + 10, at=5)
    folder.output("split/a.1", 2, X + 2, at=6)
    folder.output("conv1", 0, X, at=1)
    catalog = read(folder.path)

    assert (catalog.side, catalog.framework.name, catalog.task) == ("golden", "npy", "tensor")
    assert catalog.executions == (Execution(),)
    assert names(catalog) == ["conv1", "split_a_1"]
    assert [ref.id for ref in catalog.tensors] == ["conv1.output.0", "split_a_1.output.2", "split_a_1.output.10"]
    assert [ref.layout for ref in catalog.tensors] == ["ND"] * 3
    node = list(catalog.nodes.values())[1]
    assert node.order == FIRST_US + 5
    assert node.attributes == {"clean_name": "split_a_1", "timestamp": FIRST_US + 5}
    np.testing.assert_array_equal(values(catalog.tensors[2]), X + 10)
    assert not catalog.problems


def test_copies_of_inputs_are_inputs(folder):
    folder.input("conv/1", 1, X + 1)
    folder.output("conv/1", 0, X)
    folder.output("input_1", 0, X + 2)
    catalog = read(folder.path)

    assert names(catalog) == ["conv_1", "input_1"]
    slots = [(ref.node.name, ref.slot) for ref in catalog.tensors]
    assert slots == [
        ("conv_1", Slot(SlotRole.INPUT, (1,))),
        ("conv_1", Slot(SlotRole.OUTPUT, (0,))),
        ("input_1", Slot(SlotRole.OUTPUT, (0,))),
    ]
    np.testing.assert_array_equal(values(catalog.tensors[0]), X + 1)


@pytest.mark.parametrize("array", [np.float32(3), np.zeros((0, 4)), np.array([True, False]), X.T, X.astype(">f8")])
def test_arrays_of_any_shape_and_order_are_read(folder, array):
    folder.output("a", 0, array)
    (ref,) = read(folder.path).tensors

    assert ref.logical_shape == np.shape(array)
    np.testing.assert_array_equal(values(ref), array)


def test_names_with_dots_keep_them_and_have_a_cleaned_name(folder):
    np.save(folder.path / f"layer.0.conv.0.{FIRST_US}.npy", X)
    (node,) = read(folder.path).nodes.values()
    assert (node.key.name, node.clean_name) == ("layer.0.conv", "layer_0_conv")


@pytest.mark.parametrize("suffix", [".pb", ".quant"])
def test_older_files_hold_a_device_container(folder, suffix):
    image = np.arange(12, dtype="f4").reshape(1, 3, 2, 2)
    folder.container("conv", 3, tensor(image, "float16", "NC1HWC0"), suffix)
    catalog = read(folder.path)

    (ref,) = catalog.tensors
    assert (ref.slot.path, ref.layout, ref.dtype) == ((3,), "NC1HWC0", "float16")
    np.testing.assert_array_equal(values(ref), image)
    assert catalog.attrs["suffix"] == suffix[1:]


def test_a_container_of_several_outputs_gives_that_of_its_name(folder):
    several = OmFolder(folder.path / "made").op("Split", "a", at=1, inputs=[X], outputs=[X, X + 1])
    for index in (1, 2):
        (folder.path / f"a.{index}.{FIRST_US}.pb").write_bytes(several.read_bytes())
    catalog = read(folder.path)

    assert [ref.kind for ref in catalog.tensors] == [TensorKind.TENSOR, TensorKind.UNREADABLE]
    np.testing.assert_array_equal(values(catalog.tensors[0]), X + 1)
    assert codes(catalog) == {"PF3306": 1}


@pytest.mark.parametrize(("rule", "value"), [("newest", 2), ("largest", 3), ("first", 3)])
def test_of_two_files_of_one_tensor_one_counts(folder, rule, value):
    folder.output("a", 0, np.array([3.0, 3.0]), at=0)
    # One digit more: newer as a number, earlier as text.
    np.save(folder.path / f"a.0.{FIRST_US * 10}.npy", [2.0])
    catalog = read(folder.path, duplicates=rule)

    assert values(catalog.tensors[0])[0] == value
    assert codes(catalog) == {"PF3206": 1}


def test_turns_of_a_loop_are_told_once_a_tensor(folder):
    for turn in range(9):
        np.save(folder.path / f"lp_add.0.{FIRST_US + turn}.npy", X)
    (problem,) = read(folder.path).problems
    assert problem.message.startswith(f"of 9 values of one tensor `lp_add.0.{FIRST_US + 8}.npy` counts, the newest; ")
    assert problem.message.endswith("and 3 more are other turns of a loop, or of another run")


def test_hashed_names_are_resolved_and_unresolved_ones_skipped(folder):
    folder.hashed(folder.output("a/b", 1, X), "8412345")
    np.save(folder.path / "999.npy", X)
    catalog = read(folder.path)

    assert [ref.id for ref in catalog.tensors] == ["a_b.output.1"]
    assert codes(catalog) == {"PF3208": 1}


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "PF3020"), (b"\x93NUMPY\x01\x00\xff\xff", "PF3021"), (b"pickled", "PF3020")],
)
def test_damaged_files_stay_visible(folder, content, code):
    folder.output("good", 0, X)
    (folder.path / f"bad.0.{FIRST_US}.npy").write_bytes(content)
    catalog = read(folder.path)

    bad = next(ref for ref in catalog.tensors if ref.node.name == "bad")
    assert (bad.kind, bool(bad.reason)) == (TensorKind.UNREADABLE, True)
    assert codes(catalog) == {code: 1}


def test_objects_are_never_unpickled(folder):
    np.save(folder.path / f"a.0.{FIRST_US}.npy", np.array([{}], dtype=object), allow_pickle=True)
    (ref,) = read(folder.path).tensors
    assert ref.kind is TensorKind.OPAQUE


def test_a_damaged_container_stays_visible(folder):
    path = folder.container("a", 0, X, ".pb")
    path.write_bytes(path.read_bytes()[:-4])
    catalog = read(folder.path)

    assert catalog.tensors[0].kind is TensorKind.UNREADABLE
    assert codes(catalog) == {"PF3015": 1}


def test_statistics_of_reduced_arrays_are_read(tmp_path):
    folder = GoldenFolder(tmp_path / "golden")
    np.save(folder.path / f"a.0.{FIRST_US}_min_max.npy", np.array([-1.5, 2.0]))
    (ref,) = read(folder.path).tensors

    assert ref.kind is TensorKind.STATISTICS
    assert ref.recorded is not None
    assert (ref.recorded.min, ref.recorded.max) == (-1.5, 2.0)


@pytest.mark.parametrize("is_told", [True, False])
def test_statistics_of_arrays_with_hashed_names_are_read(tmp_path, is_told):
    """An array whose name was too long, reduced: `mapping.csv` still has the names of the dump."""
    folder = GoldenFolder(tmp_path / "golden")
    np.save(folder.path / "8412345_min_max.npy", np.array([-1.5, 2.0]))
    (folder.path / "mapping.csv").write_text(f"8412345.npy,a/b.1.{FIRST_US}.npy\n" if is_told else "1,2\n")
    np.save(folder.path / f"c.0.{FIRST_US}_min_max.npy", np.array([0.0, 1.0]))
    catalog = read(folder.path)

    told = ["a/b.output.1"] if is_told else []
    assert sorted(ref.id for ref in catalog.tensors) == [*told, "c.output.0"]
    assert {ref.kind for ref in catalog.tensors} == {TensorKind.STATISTICS}
    assert codes(catalog) == ({} if is_told else {"PF3208": 1})


@pytest.mark.parametrize("other", [".pb", "device"])
def test_files_of_several_kinds_in_one_folder_are_an_error(folder, other):
    folder.output("a", 0, X)
    if other == "device":
        OmFolder(folder.path).op("Add", "b", at=1, outputs=[X])
    else:
        folder.container("b", 0, X, other)
    with pytest.raises(UsageError, match="2 kinds") as caught:
        read(folder.path)

    assert caught.value.diagnostic.code == "PF3300"
    assert "`a.0." in caught.value.diagnostic.message


@pytest.mark.parametrize(
    ("kind", "word"),
    [("device", "`dump.om`"), ("fx", "`dump.torchair_fx`"), ("below", "`arrays`"), ("empty", "finished")],
)
def test_nothing_to_read_says_what_to_do(folder, kind, word):
    if kind == "device":
        OmFolder(folder.path).op("Add", "b", at=1, outputs=[X])
    elif kind == "fx":
        np.save(folder.path / "add-aten.add.Tensor.INPUT.0.20260101000000000001.npy", X)
    elif kind == "below":
        GoldenFolder(folder.path / "arrays").output("a", 0, X)
    with pytest.raises(IncompleteError) as caught:
        read(folder.path)

    assert caught.value.diagnostic.code == "PF3202"
    assert word in str(caught.value.diagnostic.help)


def test_folders_below_are_not_read_and_other_files_passed_over(folder):
    folder.output("a", 0, X)
    GoldenFolder(folder.path / "backup").output("b", 0, X)
    for name in ("model.onnx", "output_0.npy", ".a.0.1.npy", "mapping.csv"):
        (folder.path / name).write_bytes(b"")
    catalog = read(folder.path)

    assert names(catalog) == ["a"]
    assert codes(catalog) == {"PF3205": 3, "PF3305": 1}
    severities = {problem.code: problem.severity for problem in catalog.problems}
    assert severities == {"PF3205": Severity.NOTE, "PF3305": Severity.WARNING}


def test_quantised_models_are_told_by_names_or_by_the_user(folder):
    folder.output("post_quantile", 0, X)
    assert read(folder.path).attrs["is_quantised"] is False
    assert read(folder.path, quantised=True).attrs["is_quantised"] is True
    folder.output("conv1_dequant_layer", 0, X)
    catalog = read(folder.path, select=Selection(nodes=["post*"]))
    assert (catalog.attrs["is_quantised"], catalog.attrs["quantised_names"]) == (True, ("conv1_dequant_layer",))
    assert read(folder.path, quantised=False).attrs["is_quantised"] is False


def test_nodes_are_selected_by_true_or_cleaned_names(folder):
    for name in ("block/conv", "fc"):
        folder.output(name, 0, X)

    narrowed = read(folder.path, select=Selection(nodes=["block/*"], steps=[7], ranks=[1]))
    assert names(narrowed) == ["block_conv"]
    assert [(problem.code, problem.message.split(":")[0]) for problem in narrowed.problems] == [
        ("PF3217", "the selection of ranks narrows nothing"),
        ("PF3217", "the selection of steps narrows nothing"),
    ]
    with pytest.raises(UsageError, match="keeps nothing") as caught:
        read(folder.path, select=Selection(nodes=["nope"]))
    assert caught.value.diagnostic.code == "PF3304"
    assert "2 operators, such as `block_conv`, `fc`" in str(caught.value.diagnostic.help)
