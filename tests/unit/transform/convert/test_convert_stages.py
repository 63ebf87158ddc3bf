"""The stages `convert.*`: what they write, and that the catalog they return reads as the dump did."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import ge_writer
import numpy as np
import om_writer
import pytest
from ge_writer import DumpTensor
from msgspec.structs import replace
from numpy.typing import NDArray
from om_writer import OmFolder
from pydantic import ValidationError
from raw_pairs import context

from probe_flow.dumps.device.device_file import read_ge_header
from probe_flow.dumps.device.refs import tensor_refs
from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.files.arrays.npy import npy_tensor_ref
from probe_flow.files.torch.torch_file import read_torch_header
from probe_flow.records import Catalog, Execution, Node, NodeKey, Slot, SlotRole, TensorKind, TensorRef
from probe_flow.records.frameworks import NPY, OM
from probe_flow.stages.convert import convert_layout, convert_npy, convert_pt
from probe_flow.stages.registry import STAGES as KNOWN
from probe_flow.tensors.stored_shapes import CONVERTIBLE
from probe_flow.transform.convert.tensors import Batch, Job, Wanted, lost_batch
from probe_flow.workflow.loading.loader import load_workflow

STAGES: dict[str, Any] = {stage.STAGE.uses: stage for stage in (convert_layout, convert_npy, convert_pt)}
SHAPE = (2, 5, 3, 4)
LAYOUTS = ("NC1HWC0", "FRACTAL_Z", "NHWC", "NCHW", "FRACTAL_NZ")
DTYPES = ("float16", "bfloat16", "float8_e5m2", "int4")


def values(seed: int) -> NDArray[Any]:
    return np.random.default_rng(seed).integers(-7, 8, SHAPE)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    root = tmp_path / "dump"
    folder = OmFolder(root / "0" / "net")
    outputs = [
        DumpTensor(values(i), dtype, layout)
        for i, (dtype, layout) in enumerate((dtype, layout) for dtype in DTYPES for layout in LAYOUTS)
    ]
    path = folder.op("Add", "net/a", at=1, inputs=[DumpTensor(np.zeros(3), "string")], outputs=outputs)
    key = NodeKey(Execution(), "net/a")
    tensors = tensor_refs(read_ge_header(path), path, key)
    return Catalog("target", OM, "tensor", str(root), {key: Node(key, "Add")}, tuple(tensors), fingerprint="f")


def run(uses: str, catalog: Catalog, folder: Path, **options: Any) -> Catalog:
    stage = STAGES[uses]
    given = stage.Options(uses=uses, dump="target", **options)
    found = stage.run(given, {"dump": [catalog]}, replace(context(), stage="small", output=folder))
    assert isinstance(found, Catalog)
    return found


def read(ref: TensorRef) -> list[float]:
    with open_tensor(ref) as blocks:
        return [float(value) for value in blocks.read(0, blocks.numel)]


def check(found: Catalog, before: Catalog, folder: Path) -> None:
    """Every tensor reads as before, from a file below the folder."""
    assert (found.side, found.root, found.nodes) == ("small", str(folder), before.nodes)
    assert len(found.tensors) == len(before.tensors)
    for old, new in zip(before.tensors, found.tensors, strict=True):
        if old.kind is not TensorKind.TENSOR:
            assert new == old
            continue
        assert Path(new.extents[0].file).is_relative_to(folder)
        assert (new.node, new.slot, new.dtype, new.stored_dtype) == (old.node, old.slot, old.dtype, old.stored_dtype)
        assert (new.logical_shape, new.layout) == (SHAPE, new.layout)
        assert read(new) == read(old)


@pytest.mark.parametrize("order", ["logical", "stored"])
@pytest.mark.parametrize("uses", ["convert.npy", "convert.pt"])
def test_a_converted_dump_reads_as_the_dump(uses: str, order: str, catalog: Catalog, tmp_path: Path) -> None:
    found = run(uses, catalog, tmp_path / "run", order=order)
    folder = tmp_path / "run" / "converted" / "small"
    check(found, catalog, folder)
    name = "Add.net_a.7.3.1700000000000001.output.0"
    suffix = uses.partition(".")[2]
    assert (folder / "0" / "net" / f"{name}.{suffix}").is_file()
    for number, ref in enumerate(found.tensors[1:]):
        dtype, layout = DTYPES[number // len(LAYOUTS)], LAYOUTS[number % len(LAYOUTS)]
        stored = values(number) if order == "logical" else ge_writer.to_layout(values(number), layout)
        if uses == "convert.npy":
            np.testing.assert_array_equal(np.load(ref.extents[0].file), stored)
        else:
            header = read_torch_header(ref.extents[0].file)
            assert header.shape == stored.shape
            assert header.dtype == ("int8" if dtype == "int4" else dtype)


@pytest.mark.parametrize("kind", ["npy", "pt", "bin"])
@pytest.mark.parametrize("layout", ["ND", "NHWC", "NC1HWC0", "FRACTAL_Z"])
def test_a_dump_in_another_layout_reads_as_the_dump(kind: str, layout: str, catalog: Catalog, tmp_path: Path) -> None:
    found = run("convert.layout", catalog, tmp_path, layout=layout, type=kind, c0=16, output=str(tmp_path / "out"))
    matrices = [ref for number, ref in enumerate(found.tensors[1:]) if LAYOUTS[number % len(LAYOUTS)] == "FRACTAL_NZ"]
    if layout == "NHWC":  # matrices have no axes that could be exchanged
        assert {ref.shape for ref in matrices} == {SHAPE}
        kept = {id(ref) for ref in matrices}
        pairs = [(a, b) for a, b in zip(catalog.tensors, found.tensors, strict=True) if id(b) not in kept]
        check(replace(found, tensors=tuple(b for _, b in pairs)), replace(catalog, tensors=tuple(a for a, _ in pairs)),
              tmp_path / "out")  # fmt: skip
        return
    check(found, catalog, tmp_path / "out")
    assert {ref.layout for ref in found.tensors[1:]} == {layout}


@pytest.mark.parametrize(("layout", "left"), [("NC1HWC0", ["bias", "scale", "table"]), ("FRACTAL_NZ", ["scale"])])
def test_what_has_no_such_layout_stays_as_it_is_and_is_listed(tmp_path: Path, layout: str, left: list[str]) -> None:
    shapes = {"image": (1, 20, 3, 4), "bias": (20,), "scale": (), "table": (3, 4)}
    folder = OmFolder(tmp_path / "dump")
    tensors: list[TensorRef] = []
    for name, shape in shapes.items():
        path = folder.op("Op", name, at=len(tensors), outputs=[np.ones(shape, np.float32)])
        tensors += tensor_refs(read_ge_header(path), path, NodeKey(Execution(), name))
    nodes = {ref.node: Node(ref.node, "Op") for ref in tensors}
    catalog = Catalog("target", OM, "tensor", str(tmp_path / "dump"), nodes, tuple(tensors), fingerprint="f")
    problems: list[Diagnostic] = []
    stage = STAGES["convert.layout"]
    given = stage.Options(uses="convert.layout", dump="target", layout=layout, output=str(tmp_path / "out"))
    found = stage.run(given, {"dump": [catalog]}, replace(context(), stage="small", report=problems.extend))
    assert [old.node.name for old, new in zip(catalog.tensors, found.tensors, strict=True) if old == new] == left
    assert {ref.layout for ref in found.tensors if ref.node.name not in left} == {layout}
    (note,) = problems
    assert (note.code, note.severity) == ("PF6510", Severity.NOTE)
    assert [text.split("`")[1] for text in note.notes] == [f"{name}.output.0" for name in left]
    assert len(list((tmp_path / "out").iterdir())) == len(shapes) - len(left)


def test_a_layout_that_no_tensor_has_is_a_mistake(catalog: Catalog, tmp_path: Path) -> None:
    with pytest.raises(IncompleteError) as caught:
        run("convert.layout", catalog, tmp_path, layout="NDC1HWC0")
    assert caught.value.diagnostic.code == "PF6511"


def test_only_chosen_nodes_are_converted(catalog: Catalog, tmp_path: Path) -> None:
    found = run("convert.npy", catalog, tmp_path, nodes=["net/*"])
    assert found.tensors != catalog.tensors
    with pytest.raises(IncompleteError) as caught:
        run("convert.npy", catalog, tmp_path, nodes=["MatMul*"])
    assert caught.value.diagnostic.code == "PF6507"
    assert "`MatMul*`" in caught.value.diagnostic.message


def test_a_second_run_finds_its_files_and_others_are_kept(catalog: Catalog, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    found = run("convert.npy", catalog, tmp_path, output=out)
    assert run("convert.npy", catalog, tmp_path, output=out) == found
    mine = Path(found.tensors[1].extents[0].file)
    mine.write_text("mine")
    with pytest.raises(IncompleteError) as caught:
        run("convert.npy", catalog, tmp_path, output=out)
    assert [problem.code for problem in caught.value.diagnostics] == ["PF6508", "PF6503"]
    assert mine.read_text() == "mine"
    assert run("convert.npy", catalog, tmp_path, output=out, replace=True) == found


def test_a_run_into_the_folder_of_an_earlier_one_replaces_its_files(catalog: Catalog, tmp_path: Path) -> None:
    run("convert.npy", catalog, tmp_path / "run")
    folder = tmp_path / "run" / "converted" / "small" / "0" / "net"
    first = sorted(folder.iterdir())[0]
    first.write_text("of the earlier run")
    (folder / "stale.npy").write_text("of the earlier run")
    found = run("convert.npy", catalog, tmp_path / "run")
    assert {path.name for path in folder.iterdir()} == {Path(ref.extents[0].file).name for ref in found.tensors[1:]}
    assert np.load(first).shape == SHAPE


def test_what_cannot_be_converted_is_named(catalog: Catalog, tmp_path: Path) -> None:
    bad = catalog.tensors[1].changed(layout="FRACTAL_Z_WINO")
    changed = replace(catalog, tensors=(bad, *catalog.tensors[2:]))
    with pytest.raises(IncompleteError) as caught:
        run("convert.npy", changed, tmp_path)
    assert [problem.code for problem in caught.value.diagnostics] == ["PF6508", "PF5110"]
    assert "net/a.output.0" in caught.value.diagnostics[1].message
    assert run("convert.npy", changed, tmp_path / "again", order="stored").tensors


def test_arrays_keep_their_stem(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    np.save(tmp_path / "dump" / "conv1.0.1.npy", np.arange(6.0).reshape(2, 3))
    key = NodeKey(Execution(), "conv1")
    ref = npy_tensor_ref(tmp_path / "dump" / "conv1.0.1.npy", key, Slot(SlotRole.OUTPUT))
    catalog = Catalog("golden", NPY, "tensor", str(tmp_path / "dump"), {key: Node(key, "Conv")}, (ref,))
    found = run("convert.pt", catalog, tmp_path, output=str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["conv1.0.1.pt"]
    assert read(found.tensors[0]) == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(("layout", "axes"), [("NCHW", (0, 3, 1, 2)), ("HWCN", (1, 2, 3, 0)), ("NHWC", (0, 1, 2, 3))])
@pytest.mark.parametrize("array", [values(1), np.asfortranarray(values(1))])
def test_arrays_with_channels_last_are_brought_into_order(
    layout: str, axes: tuple[int, ...], array: NDArray[Any], tmp_path: Path
) -> None:
    (tmp_path / "dump").mkdir()
    np.save(tmp_path / "dump" / "conv1.0.1.npy", array)
    np.save(tmp_path / "dump" / "fc.0.2.npy", np.arange(3.0))
    keys = [NodeKey(Execution(), name) for name in ("conv1", "fc")]
    refs = tuple(
        npy_tensor_ref(path, key, Slot(SlotRole.OUTPUT))
        for path, key in zip(sorted((tmp_path / "dump").iterdir()), keys, strict=True)
    )
    nodes = {key: Node(key, "Conv") for key in keys}
    catalog = Catalog("golden", NPY, "tensor", str(tmp_path / "dump"), nodes, refs)
    found = run("convert.layout", catalog, tmp_path, layout=layout, axes="NHWC", output=str(tmp_path / "out"))
    np.testing.assert_array_equal(np.load(found.tensors[0].extents[0].file), values(1).transpose(axes))
    assert found.tensors[0].logical_shape == values(1).transpose(0, 3, 1, 2).shape
    assert read(found.tensors[0]) == values(1).transpose(0, 3, 1, 2).reshape(-1).tolist()
    assert read(found.tensors[1]) == [0.0, 1.0, 2.0]


def test_long_names_are_resolved_by_a_mapping(tmp_path: Path) -> None:
    path = OmFolder(tmp_path / "dump").op("Add", "a" * 220, at=1, outputs=[om_writer.tensor([1.0])])
    key = NodeKey(Execution(), "a")
    refs = tuple(tensor_refs(read_ge_header(path), path, key))
    catalog = Catalog("target", OM, "tensor", str(tmp_path / "dump"), {key: Node(key, "Add")}, refs)
    found = run("convert.npy", catalog, tmp_path, output=str(tmp_path / "out"))
    file = Path(found.tensors[0].extents[0].file)
    assert len(file.stem) == 32
    assert (tmp_path / "out" / "mapping.csv").read_text() == f"{file.name},{path.name}.output.0.npy\n"


@pytest.mark.parametrize(("output", "code"), [("dump", "PF6501"), ("file/inside", "PF6502")])
def test_unusable_folders_are_mistakes(output: str, code: str, catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError) as caught:
        run("convert.npy", catalog, tmp_path, output=str(tmp_path / output))
    assert caught.value.diagnostic.code == code


@pytest.mark.parametrize("link", ["converted", "converted/small", "converted/small/0"])
def test_folders_of_the_run_that_are_links_are_not_cleared(link: str, catalog: Catalog, tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "small" / "0" / "net"
    mine.mkdir(parents=True)
    (mine / "thesis.npy").write_text("mine")
    place = tmp_path / "run" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="is a link") as caught:
        run("convert.npy", catalog, tmp_path / "run")
    assert (caught.value.diagnostic.code, caught.value.diagnostic.path) == ("PF6502", str(place))
    assert [path.read_text() for path in (tmp_path / "mine").rglob("*.npy")] == ["mine"]


def test_the_run_itself_may_lie_behind_a_link(catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    found = run("convert.npy", catalog, tmp_path / "run")
    assert all(Path(ref.extents[0].file).exists() for ref in found.tensors[1:])


def test_a_lost_worker_costs_its_tensors(catalog: Catalog, tmp_path: Path) -> None:
    reason = Diagnostic("PF6106", "gone")
    job = Job(3, catalog.tensors[3], tmp_path)
    (done,) = lost_batch(Batch((job,), Wanted(convert_npy_kind(), None)), reason)
    assert (done.index, done.problem) == (3, reason)


def convert_npy_kind() -> Any:
    from probe_flow.elements.converted.files import FileKind

    return FileKind.NPY


@pytest.mark.parametrize(
    "wrong", [{"layout": "NHCW"}, {"layout": "ND", "c0": 0}, {"layout": "ND", "type": "msnpy"}, {}, {"order": "stored"}]
)
def test_mistakes_of_the_options_are_found(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        convert_layout.Options(uses="convert.layout", dump="target", **wrong)


def test_the_stages_are_registered_and_name_every_layout() -> None:
    assert set(STAGES) <= set(KNOWN)
    assert set(get_args(convert_layout.Layout)) == CONVERTIBLE


def test_a_workflow_may_compare_what_it_converted(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    path = tmp_path / "w.yaml"
    path.write_text(
        "version: 1\nname: convert\nstages:\n"
        "  target: {uses: dump.torchair_ge, path: dump}\n"
        "  plain: {uses: convert.layout, dump: target, layout: ND, output: plain}\n"
        "  pairs: {uses: match.name, target: plain, golden: target}\n"
    )
    workflow = load_workflow(path, env={}, cwd=tmp_path)
    assert [stage.name for stage in workflow.stages] == ["target", "plain", "pairs"]
