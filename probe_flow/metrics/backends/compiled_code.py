"""Machine code of the passes over a block: made by numba once for a processor, kept, and loaded without numba.

Importing numba and having it load what it keeps takes 0.7 s of CPU in every process, loading by llvmlite, which comes
with numba, 0.07 s: a run over 640 MB takes 2.5 s with one worker, and would take a quarter more.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import threading
from ctypes import CFUNCTYPE, c_double, c_int32, c_int64, c_void_p
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from numpy.typing import NDArray

from probe_flow.metrics.accumulators.base import LanePass
from probe_flow.metrics.backends import code_files

VERSION = version("numba")

_SOURCES = (
    "probe_flow.metrics.backends.numba_kernels",
    "probe_flow.metrics.backends.numba_compiler",
    "probe_flow.metrics.sums.block_sums",
    "probe_flow.metrics.sums.pair_errors",
    "probe_flow.metrics.accumulators.base",
)
"""What the machine code of every pass is made from."""

_loading = threading.Lock()  # so that threads do not compile a pass twice


class Pass:
    """A pass over one block, ready to be called from any thread; others run meanwhile."""

    def __init__(self, name: str, tensors: int, code: bytes) -> None:
        module = llvm.parse_assembly("")
        self._engine = llvm.create_mcjit_compiler(module, target_machine())  # the code lives as long as this
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        # Numba passes two addresses first: where a result goes and where an error. There is neither.
        prototype = CFUNCTYPE(c_int32, c_void_p, c_void_p, *([c_void_p] * tensors), c_int64, c_double, c_void_p)
        self._function = prototype(self._engine.get_function_address(name))
        self._unused = (c_double * 2)()

    def __call__(self, *tensors: NDArray[Any], number: float, figures: int) -> list[float]:
        """Run over contiguous, aligned arrays of the types that it was compiled for, all of one size.

        Args:
            tensors: blocks.
            number: float64 of its meaning.
            figures: how many it finds.
        """
        found = (c_double * figures)()
        addresses = [tensor.ctypes.data for tensor in tensors]
        if self._function(self._unused, self._unused, *addresses, tensors[0].size, number, found):
            raise RuntimeError("compiled code reports an error of numba")
        return found[:]


@functools.cache
def compiled_pass(what: str | LanePass, elements: tuple[str, ...]) -> Pass:
    """Return a pass for elements of these types, compiled where its code is not kept.

    Args:
        what: key of `numba_kernels.PASSES`, or what an accumulator brings.
        elements: type of the elements of each tensor that it takes, as numba names it.
    """
    with _loading:
        return _loaded(what, elements)


@functools.cache
def _loaded(what: str | LanePass, elements: tuple[str, ...]) -> Pass:
    file = _file_name(what, elements)
    code = code_files.kept(file) or _compiled(file, what, elements)
    return Pass(what if isinstance(what, str) else what.name, len(elements), code)


def is_kept(what: str | LanePass, elements: tuple[str, ...]) -> bool:
    """Return whether the code of a pass is there: whole, for this source, these versions and this processor."""
    return code_files.kept(_file_name(what, elements)) is not None


def compile_ahead(what: str | LanePass, elements: tuple[str, ...]) -> bool:
    """Compile a pass without loading it; return whether its code can be read back."""
    _compiled(_file_name(what, elements), what, elements)
    return is_kept(what, elements)


def _compiled(file: str, what: str | LanePass, elements: tuple[str, ...]) -> bytes:
    from probe_flow.metrics.backends.numba_compiler import object_code

    code = object_code(what, elements, target_machine())
    code_files.keep(file, code)
    return code


def _file_name(what: str | LanePass, elements: tuple[str, ...]) -> str:
    name, source = (what, "") if isinstance(what, str) else (what.name, what.add.__code__.co_filename)
    return f"{name}-{'-'.join(elements)}-{key(source)}{code_files.SUFFIX}"


def check() -> None:
    """Find out before the work whether passes can be compiled; where one is kept, they can.

    Raises:
        ImportError: numba does not load.
    """
    if not any(True for folder in code_files.folders() for _ in folder.glob(f"*-{key()}{code_files.SUFFIX}")):
        import numba  # noqa: F401


def target_machine() -> llvm.TargetMachine:
    """Return this processor, as numba sees it, for one engine or one object file."""
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static" if target.name.startswith("x86") else "default",
        codemodel="jitdefault",
        jit=True,
    )


@functools.cache
def key(source: str = "") -> str:
    """Return what tells the code of one source, compiler and processor from that of others.

    Args:
        source: file of what an accumulator brings.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    facts = [VERSION, version("llvmlite"), np.__version__, llvm.get_host_cpu_name()]
    digest = hashlib.blake2b(digest_size=16)
    digest.update("\n".join([*facts, llvm.get_host_cpu_features().flatten()]).encode())
    for module in _SOURCES:
        digest.update(_file_of(module).read_bytes())
    if source:
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()


def _file_of(module: str) -> Path:
    """Return the file of a module that may not have been imported, and is not for this."""
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)
