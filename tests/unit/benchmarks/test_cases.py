"""The benchmarks measure the same bytes everywhere, and say so when a run measured other than it should."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
import zlib
from dataclasses import replace

import numpy as np
import pytest

from benchmarks import graph_cases
from benchmarks.cases import ALIASES, CASES, ON_REQUEST
from benchmarks.dumps import DEVICE_FOLDER, base_values, write_ge_fx
from benchmarks.eager_dumps import TensorPlan, golden_values, target_values, write_statistics, write_tensors
from benchmarks.figures import Row, Settings, one
from benchmarks.graph_cases import ranks_of
from benchmarks.graph_dumps import NODES_OF_BLOCK, write_graphs
from benchmarks.huge import write_huge
from benchmarks.killed import kill_and_resume
from benchmarks.offline_dumps import OfflinePlan, write_offline
from benchmarks.page import Measured, page, text_table
from benchmarks.reduced_dumps import write_reduced
from benchmarks.reruns import COLD, TOUCHED, WARM, round_of
from benchmarks.run import chosen
from benchmarks.timing import MIB, Spread, evict
from benchmarks.torch_file import write_torch
from benchmarks.tree_memory import TreeMemory
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.graphs.tree import build_graphs
from probe_flow.records import Phase, SlotRole

TINY = TensorPlan(3, 2000, "float32", 0x00000000)


class Tensors(pickle.Unpickler):
    """Reads the pickle of a torch file without torch."""

    def find_class(self, module: str, name: str) -> object:
        if name == "OrderedDict":
            return dict
        return f"{module}.{name}" if name.endswith("Storage") else lambda *arguments: arguments

    def persistent_load(self, pid: object) -> object:
        return pid


def crc_of(folder) -> int:
    crc = 0
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            crc = zlib.crc32(path.read_bytes(), zlib.crc32(path.name.encode(), crc))
    return crc


@pytest.mark.parametrize(("dtype", "crc"), [("float32", 0x07F0F698), ("float16", 0x13E2C18A), ("bfloat16", 0x3F9D40C9)])
def test_the_tensors_of_a_dump_json_are_the_same_bytes_everywhere(tmp_path, dtype, crc):
    pair = write_tensors(tmp_path, replace(TINY, dtype=dtype, crc=crc))
    assert pair.crc == crc


def test_tensors_are_the_base_rolled_and_scaled_with_a_little_of_it_added():
    base = base_values(10)
    golden = golden_values(base, 2)
    target = target_values(base, golden, 2)
    for index in range(10):
        expected = base[(index - 2 * 7919) % 10] * np.float32(1.002)
        noise = np.float32(1e-4) * base[(index - 2 * 104729 - 13) % 10]
        assert golden[index] == expected
        assert target[index] == expected + noise


def test_other_payloads_than_planned_are_refused(tmp_path):
    with pytest.raises(RuntimeError, match="CRC-32"):
        write_tensors(tmp_path, replace(TINY, crc=1))


def test_the_statistics_of_a_dump_json_are_the_same_bytes_everywhere(tmp_path):
    pair = write_statistics(tmp_path, rows=10)
    assert pair.crc == 0x30771BA6
    data = json.loads(pair.target.read_text())["data"]
    assert sum(len(call["input_args"]) + len(call["output"]) for call in data.values()) == 10


def test_statistics_of_the_sides_are_as_far_apart_as_is_asked_for(tmp_path):
    pair = write_statistics(tmp_path, rows=4, drift=0.5)
    first, other = (json.loads(path.read_text())["data"] for path in (pair.target, pair.golden))
    for name, call in other.items():
        (golden,), (target,) = call["output"], first[name]["output"]
        assert target["Mean"] == pytest.approx(1.5 * golden["Mean"], rel=1e-12)


def test_files_that_are_dropped_from_memory_keep_their_bytes(tmp_path):
    file = tmp_path / "below" / "x.bin"
    file.parent.mkdir()
    file.write_bytes(bytes(range(256)) * 4096)
    evict(tmp_path)
    assert file.read_bytes() == bytes(range(256)) * 4096


def test_device_and_fx_dumps_are_the_same_bytes_everywhere(tmp_path):
    write_ge_fx(tmp_path / "half", operators=2, elements=1000)
    write_ge_fx(tmp_path / "single", operators=2, elements=256, dtype="float32")
    assert [crc_of(tmp_path / name) for name in ("half", "single")] == [0x1FC41D7D, 0x6775031C]


def test_a_huge_dump_is_the_same_bytes_everywhere(tmp_path):
    write_huge(tmp_path, elements=2**20 + 10)
    assert crc_of(tmp_path) == 0x803D5290


def test_offline_dumps_are_the_same_bytes_everywhere(tmp_path):
    write_offline(tmp_path, OfflinePlan(3, 4, inputs=2))
    assert crc_of(tmp_path) == 0x6D0BDA9E


def test_an_offline_plan_counts_its_pairs_and_bytes():
    plan = OfflinePlan(3, 4, inputs=2)
    assert [list(plan.read_by(number)) for number in range(3)] == [[], [0], [0, 1]]
    assert (plan.pairs, plan.elements, plan.dump_bytes) == (6, 1024, 1024 * (6 * 2 + 3 * 4))


def test_reduced_dumps_are_the_same_bytes_everywhere_and_hold_extremes_of_the_same_tensors(tmp_path):
    pair = write_reduced(tmp_path, operators=4, steps=2)
    assert crc_of(tmp_path) == 0x444FC2EE
    assert (pair.tensors, pair.files) == (2 * (2 + 3 + 2 + 3), 2 * 4 + 20)
    with np.load(next(pair.target.rglob("1/Add.Add_3.*_min_max.npz"))) as archive:
        assert archive["inputs"].shape == (2, 2)
        assert archive["in_shapes"].tolist() == ["1,128,4096"] * 2
        added = archive["inputs"]
    before = [np.load(next(pair.golden.rglob(f"1/{node}-*.OUTPUT.0.*.npy"))) for node in ("relu_2", "add_1")]
    assert np.abs(added / before - 1).max() < 2e-3, "noise and the rounding to float16"


def test_a_torch_file_holds_the_tensor_as_torch_stores_it(tmp_path):
    payload = np.arange(6, dtype="<f4").tobytes()
    write_torch(tmp_path / "x.pt", payload, dtype="float32", shape=(2, 3))
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
        assert archive.read("tensor/data/0") == payload
        storage, offset, shape, strides, *_ = Tensors(io.BytesIO(archive.read("tensor/data.pkl"))).load()
    assert storage == ("storage", "torch.FloatStorage", "0", "cpu", 6)
    assert (offset, shape, strides) == (0, (2, 3), (3, 1))
    assert (tmp_path / "x.pt").read_bytes().index(payload) % 64 == 0


@pytest.mark.frameworks
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_torch_reads_a_torch_file(tmp_path, dtype):
    torch = pytest.importorskip("torch")
    payload = torch.arange(6, dtype=getattr(torch, dtype)).view(torch.uint8).numpy().tobytes()
    write_torch(tmp_path / "x.pt", payload, dtype=dtype, shape=(2, 3))
    read = torch.load(tmp_path / "x.pt", weights_only=True)
    assert read.dtype == getattr(torch, dtype)
    assert read.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_a_rerun_measures_what_has_changed_and_nothing_else(tmp_path):
    dumps = write_ge_fx(tmp_path / "dumps", operators=11, elements=10_000)
    found = round_of(dumps, tmp_path, 0)
    assert len(list((dumps.target / DEVICE_FOLDER).iterdir())) == 11
    assert {name: (run.hits, run.misses) for name, run in found.items()} == {
        COLD: (0, 22),
        WARM: (22, 0),
        TOUCHED: (18, 4),
    }


def test_a_killed_run_loses_little_and_resumes_to_the_same_bytes(tmp_path):
    dumps = write_ge_fx(tmp_path / "dumps", operators=12, elements=10_000)
    resumed = kill_and_resume(dumps, tmp_path, tasks=2)
    assert resumed.begun == 12, "half of the batches"
    assert 0 <= resumed.kept < resumed.begun


def test_every_letter_names_a_case_and_the_default_writes_no_gigabytes():
    assert set("ABCDEFGHI") <= {*CASES, *ALIASES}
    assert chosen(["G", "startup", "C"]) == ["startup", "C"]
    assert not ON_REQUEST & set(chosen(None))
    assert set(CASES) >= ON_REQUEST


def test_a_case_that_cannot_be_measured_shows_no_number():
    rows = [Row("A", "not yet", "", None), Row("C", "wall", "s", one(0.5))]
    assert text_table(rows).splitlines()[1].split()[3:] == ["-", "-", "-"]
    assert "| A | not yet | - | - | - |  |  |" in page([Measured({"cores": "2"}, 1, rows)])


def test_kept_figures_of_one_installation_share_a_table_in_the_order_of_the_cases():
    alone, compiled = {"cores": "2"}, {"cores": "2", "numba": "0.68"}
    kept = [
        Measured({**alone, "load average before": "0.9"}, 5, [Row("C", "wall", "s", Spread(2.0, 1.5, 300.4), ">= 4")]),
        Measured({**compiled, "load average before": "1.0"}, 5, [Row("A", "wall", "s", one(0.25))]),
        Measured({**alone, "load average before": "10.5"}, 3, [Row("startup", "none", "s", None)]),
    ]
    text = page(Measured.of(one.text()) for one in kept)
    tables = text.split("## ")[1:3]
    assert tables[0].startswith("With numpy alone\n\n3/5 counted runs each. ")
    assert "Machine: cores 2, load average between 0.9 and 10.5." in tables[0]
    assert tables[0].rstrip().splitlines()[-2:] == [
        "| startup | none | - | - | - | s |  |",
        "| C | wall | 2 | 1.5 | 300 | s | >= 4 |",
    ]
    assert tables[1].startswith("With numba 0.68\n\n5 counted runs each. ")
    assert tables[1].rstrip().endswith("| A | wall | 0.25 | 0.25 | 0.25 | s |  |")


def test_the_graphs_of_the_benchmark_have_34_calls_a_block_and_one_origin(tmp_path):
    pair = write_graphs(tmp_path, blocks=3)
    catalogs = [
        read_dump_json(side.parent, side=name) for side, name in zip((pair.target, pair.golden), "tg", strict=True)
    ]

    for catalog in catalogs:
        (graph,) = build_graphs(catalog)
        assert len(graph.nodes) == 3 * NODES_OF_BLOCK + 1
        assert not graph.problems
        stacks = {len(frames) for frames in catalog.stacks.values()}
        assert stacks == {9}
    wrong = [
        ours.node
        for ours, theirs in zip(*(catalog.tensors for catalog in catalogs), strict=True)
        if ours.slot.role is SlotRole.OUTPUT and ours.recorded.max > 1.1 * theirs.recorded.max
    ]
    assert (wrong[0].name, wrong[0].call, wrong[0].phase) == ("Functional.linear", 5, Phase.BACKWARD)


def test_the_graphs_of_the_benchmark_are_the_same_bytes_everywhere(tmp_path):
    write_graphs(tmp_path, blocks=2)
    assert crc_of(tmp_path) == 0x7E79084


def test_ranks_of_the_benchmark_have_the_same_calls_and_values_of_their_own(tmp_path):
    pair = write_graphs(tmp_path, blocks=2, ranks=2)
    catalog = read_dump_json(pair.golden.parents[1], side="golden")
    first, other = catalog.tensors_by_execution().values()
    assert [(each.node.name, each.node.call, each.slot) for each in first] == [
        (each.node.name, each.node.call, each.slot) for each in other
    ]
    written = [{each.recorded.max for each in some if each.slot.role is SlotRole.OUTPUT} for some in (first, other)]
    assert len(written[0]) == len(written[1]) > 30
    assert not written[0] & written[1]


def test_what_a_further_rank_takes_is_what_more_of_them_take_beyond_few(monkeypatch, tmp_path):
    taken = {4: TreeMemory(200 * MIB, 100 * MIB, 3, 9, 1.0), 16: TreeMemory(560 * MIB, 220 * MIB, 3, 9, 4.0)}
    monkeypatch.setattr(graph_cases, "_of_ranks", lambda _settings, _what, _blocks, ranks: taken[ranks])
    rows = {row.what: row.value.median for row in ranks_of(4, 16)(Settings(1, False, (), tmp_path))}
    for what in ("graph_visualize", "compare"):
        assert rows[f"{what} of 16 ranks, 6256 nodes each, largest process"] == 220
        assert rows[f"{what}, each rank from 4 to 16, largest process"] == 10
        assert rows[f"{what}, each rank from 4 to 16, all processes"] == 30
