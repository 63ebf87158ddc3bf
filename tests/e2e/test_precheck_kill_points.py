"""A few of the points at which `precheck_kill_points.py` kills a pre-check, which is then continued."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("precheck_kill_points.py")
POINTS = 6


def test_checks_killed_at_any_byte_of_their_files_end_as_one_that_nobody_killed():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(POINTS)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{POINTS} checks killed and continued")
