"""Training steps with tensors of real sizes: what is healthy is green, and each golden tensor is read once.

The golden side is the emulated step itself in float32, unfused; the device computes it in float16.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tf_device
from tfdbg_writer import TfdbgRun

from e2e.projects import WORKFLOWS, Command, Done
from probe_flow.measure import run as measuring
from probe_flow.measure.batches import plan_batches

WORKFLOW = WORKFLOWS / "tf_training.yaml"
HELD_BYTES = 16 << 10
"""Files up to this size are read when the dump is; those that still fit into memory are not opened again."""

FORWARD = tf_device.STEP[: [op.name for op in tf_device.STEP].index(tf_device.TANH) + 1]


def drawn(seed: int, batch: int, width: int) -> Mapping[str, np.ndarray]:
    random = np.random.default_rng(seed)
    feeds = {
        "input/x": random.standard_normal((batch, width)),
        "input/labels": np.eye(width)[random.integers(0, width, batch)],
    }
    for layer in tf_device.LAYERS:
        feeds[f"{layer}/kernel"] = random.standard_normal((width, width)) / np.sqrt(width)
        feeds[f"{layer}/bias"] = random.standard_normal(width) / 10
    return {name: values.astype(np.float32) for name, values in feeds.items()}


def write_golden(root: Path, feeds: Mapping[str, np.ndarray]) -> None:
    ops = tuple(replace(op, dtype="float32") for op in tf_device.unfused(tf_device.STEP))
    step, update = tf_device.run_device(feeds, None, ops)
    given = {
        op.originals[-1]: values[op.name]
        for values, ops_of in ((update, tf_device.UPDATE), (step, ops))
        for op in ops_of
        if op.originals and op.op_type != "NetOutput"
    }
    run = TfdbgRun(root / "tf" / "tf_debug")
    for name, outputs in given.items():
        for slot, values in enumerate(outputs):
            run.add(name, values.astype(np.float32), slot)


def compare(probe_flow: Command, data: Path, *more: object, **how: object) -> Done:
    return probe_flow("run", WORKFLOW, f"--set=data={data}", *more, **how)


@pytest.mark.parametrize(("batch", "width", "seed"), [(512, 256, 1), (1024, 32, 1), (4096, 64, 0), (32, 512, 2)])
def test_a_healthy_step_of_real_size_is_green(probe_flow, tmp_path, monkeypatch, batch, width, seed):
    """Masks of ReLU turn where values come near zero; sums over the batch share the rounding of weights."""
    monkeypatch.setattr(tf_device, "BATCH", batch)
    feeds = drawn(seed, batch, width)
    tf_device.write_npu(tmp_path / "npu" / "debug_0", feeds)
    write_golden(tmp_path, feeds)
    done = compare(probe_flow, tmp_path)
    assert (done.code, done.record["verdict"], done.record["first_divergence"]) == (0, "pass", None)


@pytest.mark.parametrize("name", [tf_device.RELU_GRAD, tf_device.TANH_GRAD])
def test_a_tile_of_wrong_sign_in_the_gradient_of_an_activation_is_named_first(probe_flow, tmp_path, monkeypatch, name):
    def turned(values: np.ndarray) -> np.ndarray:
        found = np.array(values)
        found[16:32, 16:32] *= -1
        return found

    monkeypatch.setattr(tf_device, "BATCH", 256)
    feeds = drawn(3, 256, 128)
    tf_device.write_npu(tmp_path / "npu" / "debug_0", feeds, {name: turned})
    write_golden(tmp_path, feeds)
    done = compare(probe_flow, tmp_path)
    assert done.code == 1
    assert done.record["findings"][done.record["first_divergence"]]["node"] == name


_HEARD: list[Counter[str]] = []


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str):
        for found in _HEARD:
            found[arguments[0]] += 1


sys.addaudithook(_hear)  # there is no way to take it away; it hears only while a test listens


@pytest.fixture
def opened() -> Iterator[Counter[str]]:
    """Count how often each path is opened while a test runs."""
    found: Counter[str] = Counter()
    _HEARD.append(found)
    yield found
    _HEARD.remove(found)


@pytest.mark.parametrize("metrics", ["offline", "default"])
def test_eight_devices_of_three_graphs_measure_each_large_golden_tensor_in_one_go(
    probe_flow, tmp_path, monkeypatch, opened, metrics
):
    """A file that is too large to be held is opened for its header, and once to serve all 24 device tensors."""
    monkeypatch.setattr(tf_device, "BATCH", 128)
    feeds = drawn(1, 128, 64)
    tf_device.write_npu(tmp_path / "npu" / "debug_0", feeds, devices=8)
    values, name = tf_device.run_device(feeds)[0], f"ge_default_{tf_device.TIME}_31"
    text = tf_device.graph(name, FORWARD, values)
    tf_device.graph_text_writer.write(tmp_path / "npu/debug_0/graph/ge_proto_00000111_Build.txt", text)
    for device in range(8):
        folder = tmp_path / "npu/debug_0/dump" / tf_device.TIME / str(device) / name / "3" / "0"
        tf_device.write_device(FORWARD, values, folder, first_us=tf_device.FIRST_US + 5 * 10**6)
    write_golden(tmp_path, feeds)
    batches = []

    def small_batches(*arguments, **options):
        batches.append(plan_batches(*arguments, **{**options, "batch_bytes": 400_000}))
        return batches[-1]

    monkeypatch.setattr(measuring, "plan_batches", small_batches)
    workflow = tmp_path / "workflow.yaml"
    workflow.write_text(WORKFLOW.read_text().replace("metrics: offline", f"metrics: {metrics}"))
    opened.clear()
    done = probe_flow("run", workflow, f"--set=data={tmp_path}", "--scheduler", "sync")

    assert done.code == 0
    compared = {(row["rank"], row["graph"]) for row in done.rows if row["verdict"] == "pass"}
    assert compared == {(rank, graph) for rank in range(8) for graph in (1, 2, 3)}
    assert len(batches[0]) > 10
    times = {path: count for path, count in opened.items() if "_DebugIdentity_" in path}
    assert len([path for path in times if Path(path).stat().st_size > HELD_BYTES]) > 10
    assert set(times.values()) <= {1, 2}
