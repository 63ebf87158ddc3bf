"""What running a model needs on this machine, and what to do where it is missing. Imports none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from probe_flow.errors import Diagnostic

_LOOK_S = 120.0
"""Seconds that a look at a model may take."""


def missing_modules(*names: str) -> Iterator[str]:
    """Yield the modules that cannot be imported; none of those found is imported."""
    for name in names:
        try:
            found = find_spec(name) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            yield name


def framework_missing(framework: str, extra: str) -> Diagnostic:
    """Return PF6320.

    Args:
        framework: that is not installed.
        extra: of this package that installs it.
    """
    return Diagnostic(
        "PF6320",
        f"{framework} is not installed, and a model cannot run without it",
        help=f"install it with `pip install 'probe-flow[{extra}]'`, or adopt an existing dump with `path:`",
    )


def asked_for(module: str, *arguments: str) -> str:
    """Return what a module prints that looks at a model without running it; empty where it fails or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 (our own module, under the running interpreter)
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_LOOK_S,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
