"""Memory is bounded by the workers, not by the dump: comparisons of dumps larger than `memory_limit`."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from processes_seen import children, command_line
from torchair_builders import GeDump, Op, fx_token, graph_text, write_device_op

from e2e.projects import TORCHAIR

MIB = 2**20
LIMIT = 128 * MIB
SHAPE = (12, MIB)
"""48 MiB of float32."""

NAMES = ("abs", "neg", "exp", "sqrt")
COMMAND = "import sys; from probe_flow.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dumps of 192 MiB on either side; the golden files are holes, which read as zeros, but for one element."""
    root = tmp_path_factory.mktemp("large")
    dump = GeDump(root / "msprobe_ge_dump")
    ops = [Op("x", "Data", (), [(None, SHAPE)])]
    ops += [Op(n.title(), n.title(), ("x:0",), [(f"{n}-aten.{n}.default.OUTPUT.0", SHAPE)]) for n in NAMES]
    dump.root.mkdir()
    (dump.root / "dynamo_original_graph_1_rank_0_pid_7_ts_20260101000000000001.txt").write_text(graph_text(ops))
    folder = fx_token(root, 0)
    folder.mkdir(parents=True)
    for at, name in enumerate(NAMES, start=1):
        values = np.zeros(SHAPE, np.float32)
        values.flat[0] = 1.0
        write_device_op(dump.token(0), name.title(), name.title(), at=at, outputs=[values])
        path = folder / f"{name}-aten.{name}.default.OUTPUT.0.{20260101000000000000 + at}.npy"
        np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=SHAPE).flat[0] = 1.0
    return root


def anonymous_bytes(pid: int) -> int:
    """Return the memory of a process that no file stands for; 0 when it has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
    return 0


def is_worker(pid: int) -> bool:
    return "probe_flow.engine.schedulers.worker" in command_line(pid)


@pytest.mark.parametrize("scheduler", ["sync", "threads", "processes"])
def test_a_dump_larger_than_the_memory_limit_is_compared_within_it(large, tmp_path, scheduler):
    workflow = tmp_path / "w.yaml"
    executor = f"executor: {{scheduler: {scheduler}, workers: 2, memory_limit: {LIMIT // MIB}MiB}}\n"
    # By numpy, whatever is compiled on this machine: loading machine code takes memory of its own.
    workflow.write_text(TORCHAIR.read_text() + executor + "metrics_backend: numpy\n")
    sets = [f"--set={side}={large / f'msprobe_{kind}_dump'}" for side, kind in (("target", "ge"), ("golden", "fx"))]
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, "run", str(workflow), "--no-cache", "--output", str(tmp_path / "out"), *sets],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    own_peak = workers_peak = most_workers = 0
    while process.poll() is None:
        with suppress(OSError):
            workers = [pid for pid in children(process.pid) if is_worker(pid)]
            most_workers = max(most_workers, len(workers))
            workers_peak = max(workers_peak, sum(anonymous_bytes(pid) for pid in workers))
            own_peak = max(own_peak, anonymous_bytes(process.pid))
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert "4 fine" in output, output
    assert own_peak < LIMIT
    assert workers_peak < LIMIT
    assert most_workers == (2 if scheduler == "processes" else 0)
