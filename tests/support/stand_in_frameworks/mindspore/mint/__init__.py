"""Functions with the names of torch's, and some that misbehave."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import tape

from mindspore import Tensor

_FUNCTIONS = tape.functions(Tensor)
globals().update(_FUNCTIONS)

SLOW_S = 0.02
HANGS_S = 600.0
"""Longer than any test waits, and not for ever."""

FLAG = "STAND_IN_FLAG"
"""Environment variable with a file that remembers one crash, or for which one waits."""


def wrong(x: Any) -> Any:
    """Return the argument, 1 % too large."""
    return _FUNCTIONS["mul"](x, 1.01)


def root(x: Any) -> Any:
    """Return square roots: NaN of negative numbers, and no word about it."""
    with np.errstate(all="ignore"):
        return Tensor(np.sqrt(x.values))


def detour(x: Any) -> Any:
    """Return the argument, by way of its square: infinite where that is beyond the type."""
    with np.errstate(all="ignore"):
        return Tensor(x.values * x.values / x.values)


def slow(x: Any) -> Any:
    time.sleep(SLOW_S)
    return x


def crash(x: Any) -> Any:
    """End the process as a fault in native code does."""
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(HANGS_S)


def crash_once(x: Any) -> Any:
    """Crash the first time, then return the argument."""
    flag = Path(os.environ[FLAG])
    if flag.exists():
        return x
    flag.touch()
    return crash(x)


def waits(x: Any) -> Any:
    """Return the argument once the file is there, so that a test knows where a check is."""
    end_s = time.monotonic() + HANGS_S
    while not Path(os.environ[FLAG]).exists() and time.monotonic() < end_s:
        time.sleep(0.01)
    return x


def exits(x: Any) -> Any:
    os._exit(7)


def leaves(x: Any) -> Any:
    sys.exit(7)


def hangs(x: Any) -> Any:
    time.sleep(HANGS_S)


def no_kernel(x: Any) -> Any:
    raise RuntimeError("The kernel NoKernel unregistered.")


def refuses(x: Any) -> Any:
    raise TypeError("refuses() takes no tensors\nwith more lines\nof its own")


from mindspore.mint import nn as nn  # noqa: E402 (it needs what is above)
