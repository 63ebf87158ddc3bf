"""Which framework computes what the numpy core lacks of a call, and that framework, imported in a worker only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from probe_flow.apis.calls import Call, UnusableError
from probe_flow.apis.numpy_core.by_framework import FrameworkFunction
from probe_flow.apis.side import Side

FRAMEWORKS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "torch": frozenset(["Functional", "Mint", "MintFunctional", "Tensor", "Torch"]),
        "mindspore": frozenset(["Functional", "Tensor"]),
    }
)
"""Which frameworks compute APIs of which kinds; those of ``mint`` are those of torch."""


def framework_of(call: Call, *, is_mindspore: bool) -> str:
    """Return the framework that computes a call, without importing it.

    Raises:
        UnusableError: there is none, or it is not installed.
    """
    name = "mindspore" if is_mindspore and not call.kind.startswith("Mint") else "torch"
    if call.kind not in FRAMEWORKS[name]:
        raise UnusableError(f"`{call.api}` is no operator that is computed", is_expected=True)
    FrameworkFunction.check_name(call.api.rstrip("_"))
    if not is_installed(name):
        raise UnusableError(f"`{call.api}` is computed by {name} only, which is not installed", is_expected=True)
    return name


def framework_function(call: Call, *, is_mindspore: bool) -> Any:
    """Return what computes a call; importing the framework takes seconds, once.

    Raises:
        UnusableError: nothing does.
    """
    side = _framework(framework_of(call, is_mindspore=is_mindspore))
    return FrameworkFunction(side, call.kind, call.api.rstrip("_"))


@lru_cache(maxsize=8)
def is_installed(package: str) -> bool:
    """Return whether a package can be imported."""
    return find_spec(package) is not None


@lru_cache(maxsize=2)
def _framework(name: str) -> Side:
    """Return a framework on the processor.

    Raises:
        UnusableError: it runs on a device, whose kernels are those that are asked about, or cannot be imported.
    """
    try:
        if name == "torch":
            from probe_flow.apis.torch_side import TorchSide

            return TorchSide()
        if import_module("mindspore").get_context("device_target") != "CPU":
            raise UnusableError("MindSpore runs on a device here, whose kernels are those that are asked about")
        from probe_flow.apis.mindspore_side import MindSporeSide

        return MindSporeSide()
    except ImportError as error:
        raise UnusableError(f"{name} cannot be imported: {error}") from error
