"""A folder of arrays with its manifest: names, order, statistics, what is left out, and that readers take it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.dumpers.arrays.array_folder import ArrayFolder, ArrayOptions, clean_name
from probe_flow.dumpers.arrays.repeats import largest, not_deterministic, unequal_files
from probe_flow.dumps.manifest import DumpManifest, ManifestNode, read_manifest
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.errors import IncompleteError
from probe_flow.records import Catalog, TensorKind


def folder(path: Path, **options: Any) -> ArrayFolder:
    return ArrayFolder(path / "dump", ArrayOptions.of(options))


def manifest(dump: ArrayFolder) -> DumpManifest:
    found = read_manifest(dump.folder)
    assert found is not None
    return found


def read(dump: ArrayFolder) -> Catalog:
    return read_npy_folder(dump.folder, side="golden")


def names(catalog: Catalog) -> list[str]:
    return [key.name for key in catalog.nodes]


def test_order_of_writing_is_the_order_of_the_dump(tmp_path: Path) -> None:
    dump = folder(tmp_path)
    for number in range(30):
        dump.write(f"/n.{30 - number}", "Relu", 0, np.full(2, number))
    dump.finish({})

    catalog = read(dump)

    assert names(catalog) == [f"/n.{30 - number}" for number in range(30)]
    assert catalog.problems == ()
    assert {node.op_type for node in catalog.nodes.values()} == {"Relu"}


def test_files_are_named_as_golden_data(tmp_path: Path) -> None:
    dump = folder(tmp_path)
    dump.write("/a.b/c:1", "Split", 1, np.arange(3.0))
    (file,) = (path for path in dump.folder.iterdir() if path.suffix == ".npy")

    stem, index, time, suffix = file.name.split(".")
    assert (stem, index, suffix, len(time)) == ("_a_b_c_1", "1", "npy", 16)
    assert np.load(file).tolist() == [0.0, 1.0, 2.0]


def test_names_that_clean_to_one_stay_two(tmp_path: Path) -> None:
    dump = folder(tmp_path)
    for name in ("a/b", "a.b", "a_b", "a/b"):
        dump.write(name, "Add", len(list(dump.folder.iterdir())), np.ones(1))
    dump.finish({})

    assert sorted(names(read(dump))) == ["a.b", "a/b", "a_b"]
    assert "a_b__2" in (dump.folder / "mapping.csv").read_text("utf-8")


def test_name_that_is_too_long_gets_a_number(tmp_path: Path) -> None:
    dump = folder(tmp_path)
    dump.write("n/" * 200, "Add", 0, np.ones(1))
    dump.write("n/" * 200, "Add", 1, np.ones(1))
    dump.finish({})

    assert {path.name for path in dump.folder.glob("*.npy")} == {"1.npy", "2.npy"}
    catalog = read(dump)
    assert names(catalog) == ["n/" * 200]
    assert catalog.problems == ()


def test_edges_follow_the_graph_past_what_is_not_dumped(tmp_path: Path) -> None:
    dump = folder(tmp_path)
    for name in ("a", "c"):
        dump.write(name, "Add", 0, np.ones(1), value=f"{name}_out")
    dump.skip("b_out", "left out")
    nodes = [
        ManifestNode("a", "Add", ("x",), ("a_out",)),
        ManifestNode("b", "Cast", ("a_out",), ("b_out",)),
        ManifestNode("c", "Add", ("x", "b_out"), ("c_out",)),
    ]
    dump.finish({}, nodes)

    (edge,) = read(dump).edges

    assert (edge.producer.name, edge.output, edge.consumer.name, edge.input) == ("a", 0, "c", 1)


def test_statistics_take_the_place_of_elements(tmp_path: Path) -> None:
    dump = folder(tmp_path, data="statistics")
    dump.write("a", "Add", 0, np.array([3.0, 4.0], np.float32), dtype="bfloat16")
    dump.finish({})

    (tensor,) = read(dump).tensors

    assert tensor.kind is TensorKind.STATISTICS
    assert tensor.recorded is not None
    assert (tensor.recorded.min, tensor.recorded.max, tensor.recorded.l2norm) == (3.0, 4.0, 5.0)
    assert (tensor.dtype, tensor.shape) == ("bfloat16", (2,))


def test_both_are_two_files_of_one_tensor(tmp_path: Path) -> None:
    dump = folder(tmp_path, data="both")
    dump.write("a", "Add", 0, np.ones(2))
    dump.finish({})

    assert [tensor.is_reduced for tensor in manifest(dump).tensors] == [False, True]
    assert manifest(dump).written == 2


@pytest.mark.parametrize(
    ("array", "options", "reason"),
    [
        (np.ones(5), {"max_tensor_bytes": 39}, "40 bytes, more than `max_tensor_bytes`"),
        (np.array(["text"]), {}, "which are no numbers"),
        (np.array([None]), {}, "which are no numbers"),
    ],
)
def test_what_is_left_out_is_named(tmp_path: Path, array: Any, options: dict[str, Any], reason: str) -> None:
    dump = folder(tmp_path, **options)
    dump.write("a", "Add", 0, array)
    dump.write("b", "Add", 0, np.ones(1))
    dump.finish({"seed": 1})

    found = manifest(dump)

    assert (found.expected, found.written) == (2, 1)
    assert found.skipped[0].name == "a:0"
    assert reason in found.skipped[0].reason


def test_dump_that_did_not_finish_says_so(tmp_path: Path) -> None:
    dump = folder(tmp_path)
    dump.write("a", "Add", 0, np.ones(1))

    (problem,) = read(dump).problems

    assert problem.code == "PF6340"
    assert "did not end" in problem.message


def test_damaged_manifest_costs_no_tensor(tmp_path: Path) -> None:
    dump = folder(tmp_path)
    dump.write("a/b", "Add", 0, np.ones(1))
    (dump.folder / "dump_manifest.json").write_text("{", encoding="utf-8")

    catalog = read(dump)

    assert names(catalog) == ["a_b"]
    assert [each.code for each in catalog.problems] == ["PF6340"]


def test_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "dump").write_text("", encoding="utf-8")

    with pytest.raises(IncompleteError) as found:
        folder(tmp_path)
    assert found.value.diagnostic.code == "PF6326"


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_elements_are_kept_bit_by_bit(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.random.default_rng(0).random(shape) * 100).astype(dtype)
    dump = folder(tmp_path)
    dump.write("a", "Add", 0, array)
    (file,) = dump.folder.glob("*.npy")

    found = np.load(file)

    assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())


def test_repeats_are_compared_tensor_by_tensor(tmp_path: Path) -> None:
    dumps = [ArrayFolder(tmp_path / name / "dump", ArrayOptions()) for name in ("one", "two", "three")]
    for number, dump in enumerate(dumps):
        dump.write("same", "Add", 0, np.array([1.0, np.nan]))
        dump.write("noise", "RandomUniform", 0, np.array([float(number) ** 2]))
        if number < 2:
            dump.write("gone", "Add", 1, np.ones(2))
        dump.finish({})

    found = largest(each for other in dumps[1:] for each in unequal_files(dumps[0].folder, other.folder))

    assert [(each.node, each.slot, each.max_abs) for each in found] == [
        ("noise", "OUTPUT.0", 4.0),
        ("gone", "OUTPUT.1", None),
    ]
    assert "2 operators are not deterministic" in not_deterministic(found).message


def test_clean_name_keeps_what_file_names_may_have() -> None:
    assert clean_name("a-b_C9") == "a-b_C9"


def test_operator_that_is_called_as_an_input_of_another_is_one_of_its_own(tmp_path: Path) -> None:
    dump = folder(tmp_path)
    dump.write("conv", "Conv", 0, np.ones(1))
    dump.write("input_conv", "Relu", 0, np.ones(1))
    dump.finish({})

    assert [(key.name, node.op_type) for key, node in read(dump).nodes.items()] == [
        ("conv", "Conv"),
        ("input_conv", "Relu"),
    ]
