"""Reading TorchAir FX dumps into catalogs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from torchair_builders import GeDump, X, Y, fx_token, mul_add_relu, write_fx_node, write_mul_add_relu

from probe_flow.dumps.file_names import parse_fx_name
from probe_flow.dumps.selection import Selection
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.errors import CODES, IncompleteError, UsageError
from probe_flow.records import Catalog, TensorKind


def read(path: Path, **options) -> Catalog:
    return read_torchair_fx(path, side="golden", **options)


def names(catalog: Catalog) -> list[str]:
    return [key.name for key in catalog.nodes]


def codes(catalog: Catalog) -> Counter:
    assert all(problem.code in CODES for problem in catalog.problems)
    return Counter(problem.code for problem in catalog.problems)


def identities(catalog: Catalog) -> list[tuple]:
    return [execution.identity[:3] for execution in catalog.executions]


def test_describes_nodes_and_arrays(tmp_path):
    write_mul_add_relu(None, fx_token(tmp_path, 0))
    catalog = read(tmp_path / "msprobe_fx_dump")
    assert (catalog.side, catalog.framework.name, catalog.task) == ("golden", "torchair_fx", "tensor")
    assert [(key.name, node.op_type) for key, node in catalog.nodes.items()] == [
        ("mul", "aten.mul.Tensor"),
        ("add", "aten.add.Tensor"),
        ("relu", "aten.relu.default"),
    ]
    assert [ref.id for ref in catalog.tensors[:3]] == ["mul.input.0", "mul.input.1", "mul.output.0"]
    assert identities(catalog) == [(0, 1, 0)]
    assert list(catalog.nodes.values())[1].order == 20260101000000000002
    assert catalog.problems == ()


@pytest.mark.parametrize(
    ("layout", "given", "expected"),
    [
        ("new", "msprobe_fx_dump", [(0, 1, 2)]),
        ("new", ".", [(0, 1, 2)]),
        ("7.1.0", "msprobe_fx_dump/data_dump", [(None, "gm_20260101000000000001_dump", 2)]),
        ("7.1.0", "msprobe_fx_dump", [(None, "gm_20260101000000000001_dump", 2)]),
        ("7.1.0", ".", [(None, "gm_20260101000000000001_dump", 2)]),
        ("old", "data_dump", [(None, "gm_20260101000000000001_dump", 2)]),
        ("old", ".", [(None, "gm_20260101000000000001_dump", 2)]),
    ],
)
def test_steps_count_from_zero_in_every_layout(tmp_path, layout, given, expected):
    write_mul_add_relu(None, fx_token(tmp_path, 2, layout=layout))
    assert identities(read(tmp_path / given)) == expected


def test_both_layouts_in_one_folder_are_both_read(tmp_path):
    write_mul_add_relu(None, fx_token(tmp_path, 0))
    write_mul_add_relu(None, fx_token(tmp_path, 0, layout="7.1.0"))
    assert identities(read(tmp_path)) == [(None, "gm_20260101000000000001_dump", 0), (0, 1, 0)]


def test_two_dumps_side_by_side_are_not_mixed(tmp_path):
    for name in ("monday", "friday"):
        write_mul_add_relu(None, fx_token(tmp_path / name, 0))
    with pytest.raises(UsageError) as caught:
        read(tmp_path)
    problem = caught.value.diagnostic
    assert problem.code == "PF3303"
    assert "the arrays in `friday` and `monday` cannot be told apart: both are rank 0 graph 1 step 0" in problem.message


def test_nodes_of_one_execution_in_several_folders_are_read_together(tmp_path):
    for folder, node in (("first", "add_1"), ("second", "relu_1")):
        token = fx_token(tmp_path / folder, 0)
        token.mkdir(parents=True)
        np.save(token / f"{node}-aten.{node[:-2]}.default.OUTPUT.0.20260101000000000010.npy", X)
    assert sorted(names(read(tmp_path))) == ["add_1", "relu_1"]


def test_arrays_without_folders_are_one_execution(tmp_path):
    write_mul_add_relu(None, tmp_path)
    assert identities(read(tmp_path)) == [(None, None, None)]


def test_graphs_and_tokens_are_ordered_as_numbers(tmp_path):
    for graph in (11, 2, 1):
        for step in (10, 2):
            write_mul_add_relu(None, fx_token(tmp_path, step, graph=graph))
    assert identities(read(tmp_path)) == [(0, g, s) for g in (1, 2, 11) for s in (2, 10)]


def test_twelve_list_items_are_ordered_as_numbers(tmp_path):
    items = {f"0.{i}": X + i for i in range(12)}
    write_fx_node(fx_token(tmp_path, 0), "cat-aten.cat.default", at=1, inputs={**items, "1": 0}, outputs=[X])
    ids = [ref.id for ref in read(tmp_path).tensors]
    assert ids == [*(f"cat.input.0.{i}" for i in range(12)), "cat.input.1", "cat.output.0"]


def test_what_is_no_tensor_is_opaque_and_never_unpickled(tmp_path):
    folder = fx_token(tmp_path, 0)
    arguments = [X, np.array("BSH"), np.array(2.5), [1, 2]]
    write_fx_node(folder, "attn-npu.npu_attn.default", at=1, inputs=arguments, outputs=[X])
    evil = folder / "attn-npu.npu_attn.default.INPUT.4.20260101000000000001.npy"
    np.save(evil, np.array(None, dtype=object), allow_pickle=True)
    catalog = read(tmp_path)
    assert [ref.kind for ref in catalog.tensors] == [
        TensorKind.TENSOR,
        TensorKind.OPAQUE,
        TensorKind.TENSOR,
        TensorKind.TENSOR,
        TensorKind.OPAQUE,
        TensorKind.TENSOR,
    ]
    assert catalog.tensors[2].shape == ()
    assert catalog.problems == ()


@pytest.mark.parametrize(
    ("name", "key", "slot"),
    [
        ("add_1-aten.add.Tensor.INPUT.0.20251017071211190258.npy", "add_1-aten.add.Tensor", "input.0"),
        ("cat-aten.cat.default.INPUT.0.10.20251017071211190258.npy", "cat-aten.cat.default", "input.0.10"),
        ("a-x.INPUT.y.OUTPUT.3.20251017071211190258.npy", "a-x.INPUT.y", "output.3"),
        ("a-b-c.d.OUTPUT.0.20251017071211190258.npy", "a-b-c.d", "output.0"),
    ],
)
def test_file_names(name, key, slot):
    parsed = parse_fx_name(name)
    assert parsed is not None
    assert (parsed.key, str(parsed.slot)) == (key, slot)
    assert f"{parsed.node}-{parsed.target}" == key


@pytest.mark.parametrize(
    "name",
    [
        "add.npy",
        "add-aten.INPUT.0.npy",
        "add-aten.input.0.20251017071211190258.npy",
        "x.INPUT.0.20251017071211190258.npy",
    ],
)
def test_other_names_are_none(name):
    assert parse_fx_name(name) is None


class TestDuplicates:
    @pytest.mark.parametrize(("rule", "shape"), [("newest", (2, 3)), ("largest", (4, 3)), ("first", (4, 3))])
    def test_one_run_of_a_node_counts_as_a_whole(self, tmp_path, rule, shape):
        folder = fx_token(tmp_path, 0)
        big = np.zeros((4, 3), np.float32)
        write_fx_node(folder, "add-aten.add.Tensor", at=1, inputs=[big, big], outputs=[big])
        write_fx_node(folder, "add-aten.add.Tensor", at=2, inputs=[X], outputs=[X])
        catalog = read(tmp_path, duplicates=rule)
        assert names(catalog) == ["add"]
        assert {ref.shape for ref in catalog.tensors} == {shape}
        assert codes(catalog) == {"PF3206": 3 if rule == "newest" else 2}


class TestOddFiles:
    def test_damaged_arrays_stay_as_unreadable(self, tmp_path):
        folder = fx_token(tmp_path, 0)
        write_mul_add_relu(None, folder)
        (folder / "neg-aten.neg.default.OUTPUT.0.20260101000000000009.npy").write_bytes(b"")
        whole = folder / "abs-aten.abs.default.OUTPUT.0.20260101000000000010.npy"
        np.save(whole, X)
        whole.write_bytes(whole.read_bytes()[:-4])
        catalog = read(tmp_path)
        assert names(catalog)[-2:] == ["neg", "abs"]
        assert [ref.kind for ref in catalog.tensors[-2:]] == [TensorKind.UNREADABLE] * 2
        assert all(ref.reason for ref in catalog.tensors[-2:])
        assert codes(catalog) == {"PF3020": 1, "PF3022": 1}

    def test_other_files_are_noted_and_known_ones_not(self, tmp_path):
        folder = fx_token(tmp_path, 0)
        write_mul_add_relu(None, folder)
        (tmp_path / "msprobe_fx_dump" / "dump_options_worldsize1_rank0_pid4.json").write_text("{}")
        (folder / "mapping.csv").write_text("")
        assert read(tmp_path).problems == ()
        for name in (".hidden.npy", "notes.json", "x.swp", "own.npy"):
            (folder / name).write_bytes(b"")
        assert codes(read(tmp_path)) == {"PF3205": 4}

    def test_links_out_of_the_dump_are_not_followed(self, tmp_path):
        write_mul_add_relu(None, fx_token(tmp_path, 0))
        outside = tmp_path / "outside"
        write_fx_node(outside, "neg-aten.neg.default", at=9, outputs=[X])
        (link,) = outside.iterdir()
        (fx_token(tmp_path, 0) / link.name).symlink_to(link)
        catalog = read(tmp_path)
        assert names(catalog) == ["mul", "add", "relu"]
        assert codes(catalog) == {"PF3203": 1}

    def test_hashed_names_are_resolved_or_reported(self, tmp_path):
        folder = fx_token(tmp_path, 0)
        write_mul_add_relu(None, folder)
        original = folder / "add-aten.add.Tensor.OUTPUT.0.20260101000000000002.npy"
        original.rename(folder / "5566.npy")
        (folder / "mapping.csv").write_text(f"5566.npy,{original.name}\n")
        np.save(folder / "7788.npy", X)
        catalog = read(tmp_path)
        assert "add.output.0" in [ref.id for ref in catalog.tensors]
        assert codes(catalog) == {"PF3208": 1}


def test_a_malformed_reduced_array_stays_visible(tmp_path):
    folder = fx_token(tmp_path, 0)
    write_mul_add_relu(None, folder)
    np.save(folder / "neg-aten.neg.default.OUTPUT.0.20260101000000000009_min_max.npy", np.zeros(3))
    catalog = read(tmp_path)
    assert catalog.tensors[-1].kind is TensorKind.UNREADABLE
    assert codes(catalog) == {"PF3230": 1}


def test_selection(tmp_path):
    for step in (0, 1):
        write_mul_add_relu(None, fx_token(tmp_path, step))
    catalog = read(tmp_path, select=Selection(steps=[1], graphs=[1], ranks=[0], nodes=["re*", "add"]))
    assert identities(catalog) == [(0, 1, 1)]
    assert names(catalog) == ["add", "relu"]
    asked = {"ranks": (0,), "steps": (1,), "graphs": (1,), "nodes": ("re*", "add")}
    assert catalog.attrs["select"] == {**asked, "left_out": ("steps",)}


def test_a_graph_selection_cannot_exclude_folders_that_name_no_graph(tmp_path):
    write_mul_add_relu(None, fx_token(tmp_path, 0, layout="old"))
    catalog = read(tmp_path, select=Selection(graphs=[1]))
    assert len(catalog.nodes) == 3
    assert codes(catalog) == {"PF3217": 1}


@pytest.mark.parametrize("select", [{"steps": [9]}, {"nodes": ["no"]}])
def test_a_selection_of_nothing_is_an_error(tmp_path, select):
    write_mul_add_relu(None, fx_token(tmp_path, 0))
    catalog = read(tmp_path, select=Selection(**select))
    assert (len(catalog.nodes), codes(catalog)) == (0, {"PF3304": 1})


def test_a_missing_folder_and_an_empty_one(tmp_path):
    with pytest.raises(UsageError, match="PF3201"):
        read(tmp_path / "nothing")
    with pytest.raises(IncompleteError, match="PF3202"):
        read(tmp_path)


def test_a_device_dump_names_the_stage_that_reads_it(tmp_path, torchair_case: Callable[[str], Path]):
    dump = GeDump(tmp_path / "msprobe_ge_dump")
    dump.graph(mul_add_relu())
    write_mul_add_relu(dump.token(0), None)
    with pytest.raises(IncompleteError, match="PF3202") as caught:
        read(dump.root)
    assert "read it with `dump.torchair_ge`" in (caught.value.diagnostic.help or "")
    with pytest.raises(IncompleteError, match="PF3202"):
        read(torchair_case("fusion_pair") / "fusion_off" / "msprobe_ge_dump")


@pytest.mark.parametrize(
    ("case", "nodes", "tensors"), [("ge_fx_old", 86, 284), ("new_layout", 172, 568), ("healthy", 86, 284)]
)
def test_real_dumps_are_read_without_problems(torchair_case: Callable[[str], Path], case, nodes, tensors):
    catalog = read(torchair_case(case))
    assert catalog.problems == ()
    assert (len(catalog.nodes), len(catalog.tensors)) == (nodes, tensors)
    files = list(torchair_case(case).rglob("*.npy"))
    assert len(files) == tensors
    assert len({(path.parent, path.name.split(".INPUT.")[0].split(".OUTPUT.")[0]) for path in files}) == nodes
    assert {ref.source for ref in catalog.tensors} == {str(path) for path in files}


def test_values_of_the_arrays_lie_where_the_catalog_says(tmp_path):
    write_mul_add_relu(None, fx_token(tmp_path, 0))
    product = next(ref for ref in read(tmp_path).tensors if ref.id == "mul.output.0")
    (extent,) = product.extents
    data = Path(extent.file).read_bytes()[extent.offset : extent.offset + extent.nbytes]
    np.testing.assert_array_equal(np.frombuffer(data, np.float32).reshape(2, 3), X * Y)
