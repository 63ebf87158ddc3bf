"""A reducer that is killed anywhere loses nothing, and the next one finishes its work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from processes_seen import children, is_alive, wait_until
from reduce_dumps import fx_name, write_fx

from probe_flow.dumps.reduced.reduced_names import reduced_name

SCRIPT = Path(__file__).with_name("reduce_until_killed.py")
ROOT = Path(__file__).resolve().parents[2]
POINTS = 80


def test_killed_at_random_points_nothing_is_lost_and_a_second_run_completes(tmp_path):
    paths = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "support"), str(ROOT / "tools" / "samples")]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path), str(POINTS)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["killed"] >= POINTS // 4
    assert seen["dumped"] > 0
    assert seen["both"] > 0
    assert seen["reduced"] > 0
    assert seen["with remains"] > 0


def test_killed_with_worker_processes_nothing_is_lost_and_nothing_stays(tmp_path):
    fx, temporary = tmp_path / "fx", tmp_path / "tmp"
    temporary.mkdir()
    sources = {fx_name(at=at): write_fx(fx, np.arange(3.0) + at, at=at).read_bytes() for at in range(210)}
    (tmp_path / "slow_here.py").write_text("import time\ndef slow(a):\n    time.sleep(0.01)\n    return a.flat[0]\n")
    command = [sys.executable, "-m", "probe_flow", "reduce", str(fx), "--delete-source", "--function", "slow_here:slow"]
    command += ["--scheduler", "processes", "--workers", "2"]
    paths = os.pathsep.join([str(ROOT), str(tmp_path)])
    env = {**os.environ, "PYTHONPATH": paths, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: any(fx.glob("*_min_max.npy")))
        workers = children(process.pid)
        process.kill()
    assert len(workers) == 2
    wait_until(lambda: not any(map(is_alive, workers)))
    assert list(temporary.iterdir()) == []
    assert 0 < len(list(fx.glob("*_min_max.npy"))) < 210
    for name, content in sources.items():
        is_whole = (fx / name).exists() and (fx / name).read_bytes() == content
        assert is_whole or (fx / reduced_name(name)).exists(), f"{name} is lost"
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    assert sorted(path.name for path in fx.iterdir()) == sorted(map(reduced_name, sources))
    for at in range(210):
        assert np.load(fx / reduced_name(fx_name(at=at)))[["min", "max", "slow_here:slow"]].item() == (at, at + 2, at)
    assert list(temporary.iterdir()) == []
