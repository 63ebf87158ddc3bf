"""Machine code of the passes over a block: made by numba once for a processor, kept, and loaded without numba.

Importing numba and having it load what it keeps takes 0.7 s of CPU in every process, loading by llvmlite, which comes
with numba, 0.07 s: a run over 640 MB takes 2.5 s with one worker, and would take a quarter more.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import stat
import threading
from contextlib import suppress
from ctypes import CFUNCTYPE, c_double, c_int32, c_int64, c_void_p
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from llvmlite import binding as llvm
from numpy.typing import NDArray

from probe_flow.metrics.accumulators.base import LanePass

VERSION = version("numba")

ENVIRONMENT = "NUMBA_CACHE_DIR"
"""Names the folder of compiled code, as for everything that numba compiles."""

_SOURCES = (
    "probe_flow.metrics.backends.numba_kernels",
    "probe_flow.metrics.backends.numba_compiler",
    "probe_flow.metrics.sums.block_sums",
    "probe_flow.metrics.sums.pair_errors",
    "probe_flow.metrics.accumulators.base",
)
"""What the machine code of every pass is made from."""

_DIGEST_BYTES = 32

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
    name, source = (what, "") if isinstance(what, str) else (what.name, what.add.__code__.co_filename)
    file = f"{name}-{'-'.join(elements)}-{_key(source)}.code"
    code = _kept(file)
    if code is None:
        from probe_flow.metrics.backends.numba_compiler import object_code

        code = object_code(what, elements, target_machine())
        _keep(file, code)
    return Pass(name, len(elements), code)


def check() -> None:
    """Find out before the work whether passes can be compiled; where one is kept, they can.

    Raises:
        ImportError: numba does not load.
    """
    if not any(True for folder in _folders() for _ in folder.glob(f"*-{_key()}.code")):
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
def _key(source: str = "") -> str:
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


def _folders() -> tuple[Path, ...]:
    """Return where code may be kept, the best place first."""
    if os.environ.get(ENVIRONMENT):
        return (Path(os.environ[ENVIRONMENT]),)
    with_the_module = Path(__file__).parent / "__pycache__"
    cache = os.environ.get("XDG_CACHE_HOME") or Path(os.environ.get("HOME", with_the_module), ".cache")
    return with_the_module, Path(cache, "probe_flow", "compiled")


def _kept(file: str) -> bytes | None:
    for folder in _folders():
        try:
            descriptor = os.open(folder / file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as opened:
                if not _is_ours(os.fstat(descriptor)):
                    continue
                content = opened.read()
        except OSError:
            continue
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if digest == _digest(code):  # damaged code would end the process
            return code
    return None


def _is_ours(status: os.stat_result) -> bool:
    """Return whether only this user and root can have written a file: what is in it runs in this process."""
    is_private = not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISREG(status.st_mode) and is_private and status.st_uid in (os.geteuid(), 0)


def _keep(file: str, code: bytes) -> None:
    """Keep code in the first folder that takes it; where none does, each process compiles for itself."""
    for folder in _folders():
        temporary = folder / f"{file}.{uuid4().hex}.tmp"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(_digest(code) + code)
            temporary.chmod(0o644)
            temporary.replace(folder / file)
        except OSError:
            with suppress(OSError):
                temporary.unlink()
        else:
            return


def _digest(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=_DIGEST_BYTES).digest()
