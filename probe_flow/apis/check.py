"""Check one call by its entries in a dump: sides, how it is judged, and both directions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from probe_flow.apis.acc_check import ByRounding, judge
from probe_flow.apis.calls import Call, Gradients, UnusableError, read_call, read_gradients
from probe_flow.apis.pytorch_rules import as_torch_takes
from probe_flow.apis.run import Direction, Judge, JudgeOfTwo, Runner
from probe_flow.apis.side import Side

_NO_KERNEL = re.compile(
    r"unregistered|Create kernelmod for op|KernelMod Init Failed|does not support this kernel data type"
    r"|Select \w+ operator\[\w+\] fail|Not found op \w+ on device|is not supported on this device|only supports Ascend"
    r"|`torch_npu` is not installed"
)
"""What MindSpore says where a device has no kernel of a primitive, or none for the element type; we of fused ones."""


def torch_side(device: int | None = None, *, compiles: bool = False) -> Side:
    """Return torch on the processor; with a device as the tested side, on that NPU where torch_npu is installed.

    Args:
        device: number of the NPU.
        compiles: whether its operators are compiled for each shape.
    """
    from probe_flow.apis.torch_side import TorchSide

    if device is None:
        return TorchSide()
    if find_spec("torch_npu") is None:
        return TorchSide(is_benchmark=False)
    import_module("torch_npu").npu.set_compile_mode(jit_compile=compiles)
    return TorchSide(f"npu:{device}", is_benchmark=False)


def mindspore_side(device: int) -> Side:
    """Return MindSpore on its device."""
    from probe_flow.apis.mindspore_side import MindSporeSide

    return MindSporeSide(device)


def msadapter_side(device: int) -> Side:
    """Return MSAdapter, the `torch` over MindSpore, on its device."""
    from probe_flow.apis.mindspore_side import MSAdapterSide

    return MSAdapterSide(device)


def judge_mindspore(max_abs_limit: float) -> Judge:
    """Return what judges results of MindSpore."""
    return partial(judge, max_abs_limit=max_abs_limit)


def judge_by_standards(api: str, max_abs_limit: float) -> JudgeOfTwo:
    """Return what judges results of an API by the standard that it has."""
    from probe_flow.apis.two_runs import judge_by_standard

    return partial(judge_by_standard, api, max_abs_limit)


def judge_pytorch(api: str, entries: str, standards: str) -> Judge:
    """Return what judges results of PyTorch.

    Args:
        api: name without kind and number.
        entries: of the call, as text: eight-bit floats in it decide the standard.
        standards: ``per_api`` or ``benchmark_only``.
    """
    from probe_flow.apis.preliminary import judge_torch
    from probe_flow.apis.standards import Profile

    has_eight_bits = any(f"torch.{word}" in entries for word in ("float8", "hifloat8"))
    return partial(judge_torch, api, "float8_e4m3fn" if has_eight_bits else "float32", Profile(standards))


def by_rounding() -> ByRounding:
    """Return what tells results of PyTorch that are nothing but rounding."""
    from probe_flow.apis.rounding import Rounding

    return Rounding()


def check_call(kind: str, api: str, entries: Mapping[str, object], runners: Sequence[Runner]) -> dict[str, Direction]:
    """Return what became of each direction of a call that the dump has an entry of.

    Args:
        kind, api: parts of its name: ``Mint``, ``where``.
        entries: ``forward`` and ``backward`` -> entry.
        runners: the first whose tested side has a kernel of it runs it.
    """
    found: dict[str, Direction] = {}
    try:
        if "forward" not in entries:
            raise UnusableError("the dump has no forward entry, which holds its inputs")
        call = read_call(kind, api, entries["forward"])
    except UnusableError as error:
        return dict.fromkeys(entries, Direction(skipped=error))
    for phase in ("forward", "backward"):
        if phase in entries:
            try:
                gradients = read_gradients(entries[phase]) if phase == "backward" else None
                found[phase] = _first_that_can(runners, call, gradients)
            except UnusableError as error:
                found[phase] = Direction(skipped=error)
    return found


def _first_that_can(runners: Sequence[Runner], call: Call, gradients: Gradients | None) -> Direction:
    """Return what the first runner makes of a call whose tested side has a kernel for it.

    On the processor MindSpore lacks kernels of many APIs, and fused ones are of the NPU alone; torch then runs the call
    in the recorded types, and the result says so.
    """
    found = runners[0].run(call, gradients)
    if found.skipped is not None and len(runners) > 1 and _NO_KERNEL.search(found.skipped.reason):
        other = runners[1].run(as_torch_takes(call), gradients)
        if other.skipped is not None and other.skipped.is_expected:
            return other  # it has no benchmark, so that the kernel would not help
        if other.skipped is None:
            library = "torch_npu" if call.kind == "NPU" else "MindSpore"
            return replace(other, fallback=f"{other.ran}, for {library} has no kernel here")
    return found
