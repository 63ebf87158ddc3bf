"""What running a model needs on this machine, and what to do where it is missing. Imports none of it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from probe_flow.errors import Diagnostic, UsageError


def missing_modules(*names: str) -> Iterator[str]:
    """Yield the modules that cannot be imported; none of those found is imported."""
    for name in names:
        try:
            found = find_spec(name) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            yield name


def torch_missing() -> Diagnostic:
    """Return PF6320."""
    return Diagnostic(
        "PF6320",
        "torch is not installed, and a model cannot run without it",
        help="install it with `pip install 'probe-flow[torch]'`, or adopt an existing dump with `path:`",
    )


def require_torch() -> None:
    """Raise UsageError PF6320 where torch is not installed."""
    if any(missing_modules("torch")):
        raise UsageError(torch_missing())


def not_on_device(why: str) -> Diagnostic:
    """Return PF6328."""
    return Diagnostic(
        "PF6328",
        f"a GE dump is made on a machine with an Ascend device: {why}",
        help="adopt a dump that was made there with `path:`; `probe-flow init --snippet torchair` prints the code "
        "that makes it",
    )


def device_problems() -> Iterator[Diagnostic]:
    """Yield what this machine lacks to run a model on the device."""
    if any(missing_modules("torch")):
        yield torch_missing()
    if any(missing_modules("torch_npu")):
        yield not_on_device("`torch_npu` is not installed")
