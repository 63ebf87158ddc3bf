"""A reducer that is killed anywhere loses nothing, and the next one finishes its work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("reduce_until_killed.py")
ROOT = Path(__file__).resolve().parents[2]
POINTS = 80


def test_killed_at_random_points_nothing_is_lost_and_a_second_run_completes(tmp_path):
    paths = [str(ROOT), str(ROOT / "tests"), str(ROOT / "examples" / "torchair")]
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
