"""From a pass over a block, in Python, to machine code for a processor, by numba."""

from __future__ import annotations

import re

import numba
from llvmlite import binding as llvm
from numba import types

from probe_flow.metrics.accumulators.base import LanePass
from probe_flow.metrics.backends.numba_kernels import OPTIONS, PASSES, pass_of

_OUTSIDE = re.compile(r"^declare (?!.*@llvm\.).*|^@.* external .*", re.MULTILINE)
"""Names that the text of a module takes from elsewhere, intrinsics of LLVM apart."""


def object_code(what: str | LanePass, elements: tuple[str, ...], machine: llvm.TargetMachine) -> bytes:
    """Compile a pass and return an object file with one function, called by the name of the pass.

    Args:
        what: key of `numba_kernels.PASSES`, or what an accumulator brings.
        elements: type of the elements of each tensor, e.g. ``float32``.
        machine: the processor that the code is for.

    Returns:
        Code that calls nothing but what LLVM itself needs of the C library (filling and copying memory).

    Raises:
        RuntimeError: the pass uses something of numba or Python, so its code could not run without them.
    """
    tensors = [types.CPointer(getattr(types, element)) for element in elements]
    signature = types.void(*tensors, types.int64, types.float64, types.CPointer(types.float64))
    name, function = (what, PASSES[what]) if isinstance(what, str) else (what.name, pass_of(what))
    compiled = numba.njit(signature, no_cpython_wrapper=True, no_cfunc_wrapper=True, **OPTIONS)(function)
    text = compiled.inspect_llvm(signature.args)
    module = llvm.parse_assembly(_OUTSIDE.sub("", text))  # which fails if something of them is used
    module.get_function(compiled.overloads[signature.args].fndesc.mangled_name).name = name
    return bytes(machine.emit_object(module))
