"""The same dumps give the same bytes of results, whoever measures them in however many pieces."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from run_records import first_divergence
from torchair_builders import GeDump, Op, fx_token, graph_text, write_device_op, write_fx_node

from e2e.projects import SAMPLE, TORCHAIR, Command, Done, settle, write_dumps
from probe_flow.measure import batches as measuring
from probe_flow.metrics.sums.record import BLOCK
from probe_flow.work import Settings

SHAPE = (7, BLOCK - 11)
"""Seven blocks of 65,536 elements, the last one short."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dumps with tensors of several blocks whose sums depend on the order in which they are added."""
    root = tmp_path_factory.mktemp("large")
    random = np.random.default_rng(20260101)
    dump = GeDump(root / "msprobe_ge_dump")
    names = ("abs", "neg", "exp")
    ops = [Op("x", "Data", (), [(None, SHAPE)])]
    ops += [Op(n.title(), n.title(), ("x:0",), [(f"{n}-aten.{n}.default.OUTPUT.0", SHAPE)]) for n in names]
    dump.root.mkdir()
    (dump.root / "dynamo_original_graph_1_rank_0_pid_7_ts_20260101000000000001.txt").write_text(graph_text(ops))
    for at, name in enumerate(names, start=1):
        golden = (random.standard_normal(SHAPE) * 10.0 ** random.integers(-6, 6, SHAPE)).astype(np.float32)
        target = golden * (1 + random.standard_normal(SHAPE).astype(np.float32) * np.float32(1e-3))
        target[at, at] = np.nan
        write_device_op(dump.token(0), name.title(), name.title(), at=at, inputs=[golden], outputs=[target])
        write_fx_node(fx_token(root, 0), f"{name}-aten.{name}.default", at=at, inputs=[golden], outputs=[golden])
    return settle(root)


def results(done: Done) -> dict[str, bytes]:
    """Bytes of every result that is not named or stamped by the time of the run."""
    assert done.code == 1
    (table,) = done.folder.glob("*.csv")
    files = {
        "table": table,
        **{name: done.folder / name for name in ("comparison.jsonl", "nodes.jsonl", "details.jsonl")},
    }
    return {name: path.read_bytes() for name, path in files.items()}


def compare(probe_flow: Command, root: Path, *options: object) -> dict[str, bytes]:
    sets = ("--set", f"target={root / 'msprobe_ge_dump'}", "--set", f"golden={root / 'msprobe_fx_dump'}")
    return results(probe_flow("run", TORCHAIR, *sets, *options))


@pytest.fixture(scope="module")
def expected() -> dict[Path, dict[str, bytes]]:
    return {}


@pytest.fixture(params=["several blocks", "sample"])
def dumps(request: pytest.FixtureRequest, large: Path) -> Path:
    return large if request.param == "several blocks" else SAMPLE / "faulty"


@pytest.fixture
def reference(probe_flow: Command, dumps: Path, expected: dict[Path, dict[str, bytes]]) -> dict[str, bytes]:
    """What one thread in one piece makes of the dumps."""
    if dumps not in expected:
        expected[dumps] = compare(probe_flow, dumps, "--scheduler", "sync")
    return expected[dumps]


def test_the_reference_measures_every_block(large, probe_flow, expected):
    done = probe_flow("run", TORCHAIR, "--set", f"target={large}", "--set", f"golden={large}", "--scheduler", "sync")
    (row,) = done.rows_of("Exp.output.0")
    assert row["target"]["nan"] == 1
    assert row["verdict"] == "fail"
    assert row["metrics"]["rmse"] > 0


def test_two_runs_in_a_row_give_the_same_bytes(probe_flow, dumps, reference):
    assert compare(probe_flow, dumps, "--scheduler", "sync") == reference
    assert compare(probe_flow, dumps) == reference


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_threads_give_the_same_bytes(probe_flow, dumps, reference, workers):
    assert compare(probe_flow, dumps, "--scheduler", "threads", "--workers", workers) == reference


@pytest.mark.parametrize("scheduler", ["processes", "distributed"])
def test_other_processes_give_the_same_bytes(probe_flow, dumps, reference, monkeypatch, scheduler):
    if scheduler == "distributed":
        pytest.importorskip("distributed", reason="the extra `distributed` is not installed")
    monkeypatch.setattr("probe_flow.engine.run.execute.Settings", partial(Settings, batch_bytes=4 * BLOCK))
    monkeypatch.setattr(measuring, "SPAN_BLOCKS", 2)
    assert compare(probe_flow, dumps, "--scheduler", scheduler, "--workers", 2) == reference


@pytest.mark.parametrize("batch_bytes", [1, 4 * BLOCK, 10**6, 2**30])
@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_any_size_of_batches_gives_the_same_bytes(probe_flow, dumps, reference, monkeypatch, scheduler, batch_bytes):
    monkeypatch.setattr("probe_flow.engine.run.execute.Settings", partial(Settings, batch_bytes=batch_bytes))
    assert compare(probe_flow, dumps, "--scheduler", scheduler) == reference


@pytest.mark.parametrize("span_blocks", [1, 2, 4, 64])
def test_any_split_of_a_tensor_gives_the_same_bytes(probe_flow, large, monkeypatch, span_blocks):
    whole = compare(probe_flow, large, "--scheduler", "sync")
    spans = []
    measure_span = measuring.measure_span

    def counted(target, golden, first_block, n_blocks, *rest):
        spans.append(n_blocks)
        return measure_span(target, golden, first_block, n_blocks, *rest)

    monkeypatch.setattr(measuring, "SPAN_BLOCKS", span_blocks)
    monkeypatch.setattr(measuring, "measure_span", counted)
    monkeypatch.setattr("probe_flow.engine.run.execute.Settings", partial(Settings, batch_bytes=1))
    assert compare(probe_flow, large, "--scheduler", "threads", "--workers", 3) == whole
    assert max(spans) == min(span_blocks, 7)
    assert len(spans) == 6 * -(-7 // span_blocks)


@pytest.mark.parametrize("io", ["mmap", "read"])
def test_either_way_of_reading_gives_the_same_bytes(probe_flow, dumps, reference, tmp_path, io):
    workflow = tmp_path / "w.yaml"
    workflow.write_text(TORCHAIR.read_text() + f"io: {io}\n")
    sets = ("--set", f"target={dumps / 'msprobe_ge_dump'}", "--set", f"golden={dumps / 'msprobe_fx_dump'}")
    assert results(probe_flow("run", workflow, *sets)) == reference


def test_what_the_cache_kept_gives_the_same_bytes(probe_flow, dumps, reference, monkeypatch):
    sets = ("--set", f"target={dumps / 'msprobe_ge_dump'}", "--set", f"golden={dumps / 'msprobe_fx_dump'}")
    assert results(probe_flow("run", TORCHAIR, *sets, cache="kept")) == reference

    def measured_again(batch):
        raise AssertionError(f"{len(batch.tasks)} tasks are measured again")

    monkeypatch.setattr("probe_flow.measure.run.measure_batch", measured_again)
    assert results(probe_flow("run", TORCHAIR, *sets, cache="kept")) == reference


@pytest.mark.parametrize("output", ["out", "second"])
def test_a_file_that_changed_is_measured_again_whatever_the_cache_kept(probe_flow, tmp_path, output):
    dumps = write_dumps(tmp_path / "dumps")
    settle(dumps.root)
    assert probe_flow("run", TORCHAIR, *dumps.sets(), cache="kept").code == 0
    path = dumps.device_file("Add")
    before = path.stat()
    path.write_bytes(path.read_bytes()[:-24] + np.full(6, 77, np.float32).tobytes())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    done = probe_flow("run", TORCHAIR, *dumps.sets(), cache="kept", output=output)
    assert done.code == 1
    assert first_divergence(done.record)["node"] == "Add"
