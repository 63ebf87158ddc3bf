"""Tensor files of dump.json dumps: attached, checked, what a bad one costs; debug.json; graph and PyNative trees."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_writer import call, named, torch_file

from probe_flow.dumps.dump_json import tensor_files as dump_json_files
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.dumps.selection import Selection
from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import Severity
from probe_flow.files.torch import torch_load
from probe_flow.records import (
    NAMED_BY,
    Catalog,
    Execution,
    Extent,
    NodeKind,
    Phase,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
)

DATA = Path(__file__).parents[3] / "data" / "dump_json"
ITEM = "Torch.add.0.forward.output.0"


def described(data_name: str | None, dtype: str = "torch.float32", shape: Any = (2,), **more: Any) -> dict[str, Any]:
    value = {"type": "torch.Tensor", "dtype": dtype, "shape": list(shape), "Max": 1.0, "Min": 0.0, "Mean": 0.5}
    return value | {"Norm": 1.0, **more} | ({} if data_name is None else {"data_name": data_name})


def write(folder: Path, value: Any, files: dict[str, bytes], **top: Any) -> Path:
    tensors = folder / "dump_tensor_data"
    tensors.mkdir(parents=True)
    for name, content in files.items():
        (tensors / name).write_bytes(content)
    data = {"Torch.add.0.forward": {"input_args": [], "input_kwargs": {}, "output": [value]}}
    content = {"task": "tensor", "level": "L1", "framework": "pytorch", "data": data, **top}
    (folder / "dump.json").write_text(json.dumps(content))
    return folder


def pt(values: Any, dtype: str = "float32") -> bytes:
    array = np.asarray(values, dtype)
    return torch_file(call(dtype, array.shape), array.tobytes())


def npy(folder: Path, array: Any) -> bytes:
    path = folder / "array.npy"
    np.save(path, array)
    return path.read_bytes()


def read(path: Path, **options: Any) -> Catalog:
    return read_dump_json(path, side="target", **options)


def only(catalog: Catalog) -> TensorRef:
    (tensor,) = catalog.tensors
    return tensor


def values(tensor: TensorRef) -> Any:
    with open_tensor(tensor) as blocks:
        return blocks.read(0, blocks.numel).copy()


def problems(catalog: Catalog) -> list[tuple[str, str]]:
    return [(problem.code, problem.message) for problem in catalog.problems]


# --- real dumps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tensors", "files"),
    [
        ("pt_tensorL0_base", 73, 73),
        ("pt_tensorL0_bug", 73, 73),
        ("twin_tensor", 105, 101),
        ("ms_tensor_base", 143, 131),
        ("pt_debug", 3, 3),
    ],
)
def test_files_of_real_dumps_have_the_recorded_statistics(name: str, tensors: int, files: int) -> None:
    catalog = read(DATA / name)
    held = [tensor for tensor in catalog.tensors if tensor.kind is TensorKind.TENSOR]

    assert (len(catalog.tensors), len(held), catalog.problems, catalog.task) == (tensors, files, (), "tensor")
    for tensor in held:
        wide = values(tensor).astype(np.float64)
        assert tensor.recorded is not None
        assert tensor.shape == tensor.logical_shape
        assert wide.size == tensor.numel
        assert (wide.max(), wide.min()) == pytest.approx((tensor.recorded.max, tensor.recorded.min), rel=1e-6)
        assert Path(str(tensor.source)).name == tensor.file
        assert str(tensor.file).startswith(str(tensor.item))


def test_values_saved_one_by_one_are_nodes_of_their_own() -> None:
    catalog = read(DATA / "pt_debug")

    assert [(key.name, key.call, key.phase, key.execution.step) for key in catalog.nodes] == [
        ("y_only", 0, Phase.NONE, 0),
        ("y_only", 0, Phase.NONE, 1),
        ("y_only_grad", 0, Phase.NONE, 1),
    ]
    assert {tensor.slot for tensor in catalog.tensors} == {Slot(SlotRole.DEBUG, (0,))}
    assert next(tensor.item for tensor in catalog.tensors) == "y_only.0.debug"
    assert {(node.kind, node.op_type) for node in catalog.nodes.values()} == {(NodeKind.DEBUG, "debug")}


def test_nested_debug_values_are_flattened_below_their_entry(tmp_path: Path) -> None:
    nested = {"a.b.3.debug": [described(None), {"k": {"type": "int", "value": 3}}, None], "none.0.debug": None}
    (tmp_path / "debug.json").write_text(json.dumps({"task": "statistics", "level": "debug", "data": nested}))
    catalog = read(tmp_path / "debug.json")

    assert [tensor.item for tensor in catalog.tensors] == [
        "a.b.3.debug.0",
        "a.b.3.debug.1.k",
        "a.b.3.debug.2",
        "none.0.debug",
    ]
    assert [(key.name, key.call) for key in catalog.nodes] == [("a.b", 3), ("none", 0)]


def test_debug_values_beside_a_dump_belong_to_the_same_execution(tmp_path: Path) -> None:
    folder = tmp_path / "step0" / "rank0"
    write(folder, described(None), {}, task="statistics")
    data = {"x.0.debug": described(None)}
    (folder / "debug.json").write_text(json.dumps({"task": "tensor", "level": "debug", "data": data}))
    catalog = read(tmp_path)

    assert catalog.executions == (Execution(rank=0, step=0),)
    assert [node.order for node in catalog.nodes.values()] == [0, 1]
    assert catalog.problems == ()


# --- attaching -------------------------------------------------------------------------------------------------------


def test_a_file_is_taken_from_beside_its_dump_whatever_the_dump_says(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", described(f"{ITEM}.pt"), {f"{ITEM}.pt": pt([1, 2])}, dump_data_dir="/elsewhere")
    shutil.move(folder, tmp_path / "moved")
    tensor = only(read(tmp_path / "moved"))

    assert (tensor.kind, tensor.dtype, tensor.stored_dtype) == (TensorKind.TENSOR, "float32", "torch.float32")
    assert tensor.recorded is not None
    assert values(tensor).tolist() == [1, 2]


def test_the_name_of_the_file_is_the_name_of_the_item(tmp_path: Path) -> None:
    tensor = only(read(write(tmp_path / "d", described("Torch.other.7.pt"), {"Torch.other.7.pt": pt([1, 2])})))

    assert (tensor.item, tensor.file) == ("Torch.other.7", "Torch.other.7.pt")


def test_a_file_that_is_named_like_its_item_is_not_named_twice(tmp_path: Path) -> None:
    tensor = only(read(write(tmp_path / "d", described(f"{ITEM}.pt"), {f"{ITEM}.pt": pt([1, 2])})))

    assert tensor.facts is NAMED_BY[NodeKind.API]
    assert (tensor.item, tensor.file) == (ITEM, f"{ITEM}.pt")
    converted = tensor.changed(extents=(Extent("/cache/7.npy", 0, 8),))
    assert (converted.item, converted.file) == (ITEM, f"{ITEM}.pt")


@pytest.mark.parametrize("dtype", ["BFloat16", "Float8_E4M3FN", "HiFloat8"])
def test_widened_mindspore_tensors_keep_their_dtype(tmp_path: Path, dtype: str) -> None:
    array = np.array([1.5, -2.0], "f4")
    value = described("x.npy", dtype)
    catalog = read(write(tmp_path / "d", value, {"x.npy": npy(tmp_path, array)}, framework="mindspore"))

    assert (only(catalog).dtype, only(catalog).extents[0].encoding) == (dtype.lower(), "raw@float32")
    assert values(only(catalog)).tolist() == [1.5, -2.0]
    assert catalog.problems == ()


@pytest.mark.parametrize(
    ("said", "held"),
    [
        (("torch.float32", (2,)), np.array([[1, 2], [3, 4]], "f4")),
        (("torch.float32", (2,)), np.array([1, 2], "f8")),
        (("torch.int64", (2,)), np.array([1, 2], "f4")),
    ],
)
@pytest.mark.parametrize("form", ["pt", "npy"])
def test_the_file_counts_when_it_and_the_dump_disagree(tmp_path: Path, said: Any, held: Any, form: str) -> None:
    content = pt(held, held.dtype.name) if form == "pt" else npy(tmp_path, held)
    catalog = read(write(tmp_path / "d", described(f"x.{form}", *said), {f"x.{form}": content}))
    ((code, message),) = problems(catalog)

    assert code == "PF3420"
    assert f"`{held.dtype.name}` {list(held.shape)}" in message
    assert catalog.problems[0].severity is Severity.WARNING
    assert (only(catalog).shape, only(catalog).dtype) == (held.shape, held.dtype.name)
    np.testing.assert_array_equal(values(only(catalog)), held.reshape(-1))


def test_files_of_a_statistics_dump_are_attached_too(tmp_path: Path) -> None:
    catalog = read(write(tmp_path / "d", described("x.pt"), {"x.pt": pt([1, 2])}, task="statistics"))

    assert (catalog.task, only(catalog).kind) == ("statistics", TensorKind.TENSOR)


def test_items_without_a_file_in_a_tensor_dump_keep_their_statistics(tmp_path: Path) -> None:
    for number, name in enumerate((None, "")):
        tensor = only(read(write(tmp_path / str(number), described(name), {})))
        assert tensor.kind is TensorKind.STATISTICS


def test_files_that_no_entry_names_are_noted(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", described("x.pt"), {"x.pt": pt([1, 2]), "y.pt": b"", "z.pt": b""})

    assert problems(read(folder)) == [
        ("PF3427", "2 files in `dump_tensor_data` beside `dump.json` are named by no entry, e.g. `y.pt`")
    ]
    assert problems(read(folder, select=Selection(nodes=["Torch.*"]))) == []


def test_text_arrays_have_no_numbers(tmp_path: Path) -> None:
    value = described("x.npy", "<U3") | {"type": "numpy.ndarray"}
    tensor = only(read(write(tmp_path / "d", value, {"x.npy": npy(tmp_path, np.array(["a", "b"]))})))

    assert tensor.kind is TensorKind.OPAQUE
    assert "text" in str(tensor.reason)


# --- bad files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "code", "what"),
    [
        ("x.pt", None, "PF3418", "is not in `dump_tensor_data`"),
        ("x.npy", None, "PF3418", "is not in `dump_tensor_data`"),
        ("x.bin", b"1", "PF3426", "is neither `.pt` nor `.npy`"),
        ("x.pt", b"", "PF3421", "it is empty"),
        ("x.npy", b"", "PF3020", "does not begin"),
        ("x.pt", torch_file(b"}"), "PF3422", "holds a dict"),
        ("x.pt", torch_file(named("os", "system") + b")R"), "PF3423", "`os.system`"),
        ("../x.pt", None, "PF3419", "is no name of a file"),
        ("/etc/passwd", None, "PF3419", "is no name of a file"),
        ("a\\x.pt", None, "PF3419", "is no name of a file"),
        ("a\0.pt", None, "PF3419", "is no name of a file"),
        ("..", None, "PF3419", "is no name of a file"),
    ],
)
def test_a_bad_file_costs_its_tensor_and_says_why(
    tmp_path: Path, name: str, content: bytes | None, code: str, what: str
) -> None:
    (tmp_path / "x.pt").write_bytes(pt([1, 2]))
    catalog = read(write(tmp_path / "d", described(name), {} if content is None else {name: content}))
    tensor = only(catalog)

    assert tensor.kind is TensorKind.UNREADABLE
    assert what in str(tensor.reason)
    assert (tensor.shape, tensor.extents) == ((2,), ())
    assert next((problem.code, problem.severity) for problem in catalog.problems) == (code, Severity.ERROR)
    assert catalog.problems[0].tensor == tensor.item


def test_a_dump_without_its_folder_of_tensors_says_so(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", described("x.pt"), {})
    (folder / "dump_tensor_data").rmdir()

    assert "`dump_tensor_data` cannot be read" in str(only(read(folder)).reason)


def test_links_out_of_the_dump_are_not_followed_and_those_within_are(tmp_path: Path) -> None:
    secret = tmp_path / "secret.pt"
    secret.write_bytes(pt([1, 2]))
    folder = write(tmp_path / "d", described("x.pt"), {"y.pt": pt([3, 4])})
    link = folder / "dump_tensor_data" / "x.pt"
    link.symlink_to(secret)
    assert next(code for code, _ in problems(read(folder))) == "PF3419"

    link.unlink()
    link.symlink_to("y.pt")
    assert values(only(read(folder))).tolist() == [3, 4]

    shutil.rmtree(folder / "dump_tensor_data")
    (folder / "dump_tensor_data").symlink_to(tmp_path)
    assert problems(read(folder))[0][0] == "PF3419"


def test_many_missing_files_are_counted(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", [described(f"x{number}.pt") for number in range(100)], {})
    catalog = read(folder)

    assert len(catalog.tensors) == 100
    assert len(catalog.problems) == 21
    assert "80 more" in catalog.problems[-1].message


def test_what_only_torch_decodes_names_the_extra_where_there_is_no_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_json_files, "has_torch", lambda: False)
    sparse = torch_file(named("torch._utils", "_rebuild_sparse_tensor") + b")R")
    catalog = read(write(tmp_path / "d", described("x.pt"), {"x.pt": sparse}))

    assert only(catalog).kind is TensorKind.UNREADABLE
    assert problems(catalog)[0][0] == "PF3424"
    assert "probe-flow[torch]" in str(catalog.problems[0].help)


def test_what_only_torch_decodes_is_left_to_the_worker_where_there_is_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump_json_files, "has_torch", lambda: True)
    loaded = np.array([1, 2], "f4").view(np.uint8)
    monkeypatch.setattr(torch_load, "load_with_torch", lambda path, dtype, shape: loaded)
    sparse = torch_file(named("torch._utils", "_rebuild_sparse_tensor") + b")R")
    for number, (said, dtype) in enumerate((("torch.float32", "float32"), ("torch.qint8", "float32"))):
        catalog = read(write(tmp_path / str(number), described("x.pt", said), {"x.pt": sparse}))
        assert (only(catalog).kind, only(catalog).dtype) == (TensorKind.TENSOR, dtype)
        assert values(only(catalog)).tolist() == [1, 2]


# --- folders ---------------------------------------------------------------------------------------------------------


def test_graph_and_pynative_trees_are_executions_of_their_own(tmp_path: Path) -> None:
    for tree in ("graph", "pynative"):
        write(tmp_path / tree / "step0" / "rank", described(None), {}, framework="mindspore", task="statistics")
    write(tmp_path / "pynative" / "step1" / "rank3", described(None), {}, framework="mindspore", task="statistics")

    assert read(tmp_path).executions == (
        Execution(rank=None, step=0, graph="graph"),
        Execution(rank=None, step=0, graph="pynative"),
        Execution(rank=3, step=1, graph="pynative"),
    )
    assert read(tmp_path, select=Selection(graphs=["graph"])).executions == (
        Execution(rank=None, step=0, graph="graph"),
    )
    assert read(tmp_path / "pynative", select=Selection(steps=[1])).executions == (Execution(rank=3, step=1),)


def test_a_link_in_place_of_a_tree_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "out" / "step0" / "rank0", described(None), {}, task="statistics")
    write(tmp_path / "d" / "pynative" / "step0" / "rank0", described(None), {}, task="statistics")
    (tmp_path / "d" / "graph").symlink_to(tmp_path / "out")

    assert [code for code, _ in problems(read(tmp_path / "d"))] == ["PF3417"]


def test_ranks_of_different_tasks_are_reported(tmp_path: Path) -> None:
    write(tmp_path / "step0" / "rank0", described("x.pt"), {"x.pt": pt([1, 2])})
    write(tmp_path / "step0" / "rank1", described(None), {}, task="statistics")
    catalog = read(tmp_path)

    assert problems(catalog) == [
        ("PF3429", "`step0/rank1/dump.json` has the task `statistics`, `step0/rank0/dump.json` has `tensor`")
    ]
    assert (catalog.task, catalog.attrs["task"]) == ("tensor", "tensor")


@pytest.mark.parametrize(
    ("task", "name", "found"), [("exception_dump", "x.pt", "tensor"), ("nan_check", None, "statistics")]
)
def test_other_tasks_go_by_what_they_wrote(tmp_path: Path, task: str, name: str | None, found: str) -> None:
    catalog = read(write(tmp_path / "d", described(name), {"x.pt": pt([1, 2])} if name else {}, task=task))

    assert catalog.task == found


def test_xor_checksums_make_an_md5_dump(tmp_path: Path) -> None:
    value = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "md5": "0x0123456789abcdef"}
    catalog = read(write(tmp_path / "d", value, {}, task="statistics"))

    assert (catalog.task, only(catalog).checksum) == ("md5", "0x0123456789abcdef")


@pytest.mark.parametrize("entry", [{"output": [described(None)]}, {"input": [described(None)]}, {"input_args": []}, {}])
def test_entries_that_a_data_mode_filtered_hold_what_is_left(tmp_path: Path, entry: dict[str, Any]) -> None:
    (tmp_path / "dump.json").write_text(json.dumps({"task": "statistics", "data": {"Torch.add.0.forward": entry}}))
    catalog = read(tmp_path)

    assert len(catalog.tensors) == sum(map(len, entry.values()))
    assert catalog.problems == ()


def test_nothing_of_a_rank_whose_dump_is_cut_off_is_kept(tmp_path: Path) -> None:
    write(tmp_path / "step0" / "rank0", described(None), {}, task="statistics")
    cut = write(tmp_path / "step0" / "rank1", [described(None)] * 3, {}, task="statistics") / "dump.json"
    entries = ", ".join(f'"Torch.add.{call}.forward": {{"output": [null]}}' for call in range(9))
    cut.write_text(f'{{"data": {{{entries}')
    catalog = read(tmp_path)

    assert catalog.executions == (Execution(rank=0, step=0),)
    assert len(catalog.tensors) == 1
    assert [code for code, _ in problems(catalog)] == ["PF3407"]
