"""The state of MindSpore that a dump needs: PyNative mode, kernels one after another, the rank."""

from __future__ import annotations

import os
from contextlib import suppress

import mindspore

from probe_flow.errors import Diagnostic, UsageError


def require_pynative() -> None:
    """Have kernels run one after another.

    Raises:
        UsageError: PF6331 in graph mode, where hooks of cells do not fire.
    """
    if mindspore.get_context("mode") != mindspore.PYNATIVE_MODE:
        raise UsageError(
            Diagnostic(
                "PF6331",
                "MindSpore is in graph mode, where hooks of cells do not fire",
                help="call `mindspore.set_context(mode=mindspore.PYNATIVE_MODE)` first, or dump kernels "
                "(`probe-flow explain PF6331`)",
            )
        )
    with suppress(AttributeError, RuntimeError):
        mindspore.runtime.launch_blocking()


def rank() -> int | None:
    """Return the rank of this process, of MindSpore's process group or as launchers tell it; None for neither."""
    with suppress(ImportError, AttributeError, RuntimeError, ValueError):
        from mindspore.communication import GlobalComm, get_rank

        if GlobalComm.INITED:
            return int(get_rank())
    number, size = os.environ.get("RANK_ID", ""), os.environ.get("RANK_SIZE", "")
    return int(number) if number.isdecimal() and size.isdecimal() and int(size) > 1 else None
