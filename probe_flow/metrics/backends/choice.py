"""The backends of the kernel: what one is, and how it is chosen. Numba is imported only to compile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Protocol

import numpy as np
from msgspec import Struct

from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.metrics.accumulators.base import Rules
from probe_flow.metrics.accumulators.registry import kinds_of
from probe_flow.metrics.backends import code_files, numpy_backend
from probe_flow.metrics.sums.block_sums import Scratch, Values
from probe_flow.metrics.sums.record import Record

WORTH_COMPILED_BYTES = 256 * 10**6
"""Bytes of both sides from which on compiled code pays off, loading it included (measured)."""


class MeasureBlock(Protocol):
    """From the values of a block to its record; see `numpy_backend.measure_block` for the arguments."""

    def __call__(self, target: Values, golden: Values, start: int, rules: Rules, scratch: Scratch) -> Record: ...


class MeasureBlocks(Protocol):
    """From the values of small blocks to their records; see `numpy_backend.measure_blocks` for the arguments."""

    def __call__(
        self, targets: Sequence[Values], goldens: Sequence[Values], rules: Rules, scratch: Scratch
    ) -> list[Record]: ...


class Backend(Struct, frozen=True):
    """One way to measure blocks. Sums of two backends agree to 1e-12, counts, extremes and indices exactly.

    Args:
        name: as workflows name it.
        version: of the library that computes.
        measure_block: measures one.
        measure_blocks: measures small ones together.
        threaded: types of target and golden that it measures without the interpreter lock.
    """

    name: str
    version: str
    measure_block: MeasureBlock
    measure_blocks: MeasureBlocks
    threaded: frozenset[tuple[str, str]] = frozenset()

    @property
    def label(self) -> str:
        """Name and version, for the run's record."""
        return f"{self.name} {self.version}"


NUMPY = Backend(numpy_backend.NAME, np.__version__, numpy_backend.measure_block, numpy_backend.measure_blocks)

BACKEND_NAMES = ("numpy", "numba")


def backend_named(
    name: str,
    pair_bytes: int = 0,
    accumulators: tuple[str, ...] = (),
    *,
    compile_later: Callable[[], object] = lambda: None,
) -> Backend:
    """Return the backend of a name, or the better one.

    Args:
        name: ``numpy``, ``numba`` or ``auto``: numba where there is enough to measure and the machine code for it is
            there. ``numba`` compiles what is not.
        pair_bytes: bytes of both sides of all pairs of the run; this and the following matter to ``auto`` only.
        accumulators: those of the run.
        compile_later: called where numba is installed, and numpy measures because there is no machine code yet.

    Raises:
        UsageError: PF5116 if numba is asked for and cannot be imported, or the name is unknown.
    """
    if name == NUMPY.name or (name == "auto" and pair_bytes < WORTH_COMPILED_BYTES):
        return NUMPY
    if name == "auto":
        if find_spec("numba") is None:
            return NUMPY
        if is_compiled(accumulators):
            return _numba()
        compile_later()
        return NUMPY
    if name != "numba":
        raise UsageError(
            Diagnostic(
                "PF5116",
                f"there is no metrics backend `{name}`",
                help=did_you_mean(name, BACKEND_NAMES) or "backends: auto, " + ", ".join(BACKEND_NAMES),
            )
        )
    try:
        return _numba()
    except ImportError as error:
        raise unusable_numba(error) from error


def unusable_numba(error: ImportError) -> UsageError:
    """Return the error of a numba that is not installed, or does not load."""
    return UsageError(
        Diagnostic(
            "PF5116",
            f"the metrics backend `numba` cannot be used: {error}",
            help="pip install 'probe-flow[accel]', or ask for the backend `auto` or `numpy`",
        )
    )


def is_compiled(accumulators: tuple[str, ...]) -> bool:
    """Return whether all machine code that runs with these accumulators may need is there, whole and for this machine.

    Where nothing was ever compiled this loads nothing; else it takes 0.06 s of CPU the first time, most of it to load
    what the measuring needs too.
    """
    if not code_files.is_any_kept("measure"):
        return False
    try:
        compiled_code = import_module("probe_flow.metrics.backends.compiled_code")
        backend = import_module("probe_flow.metrics.backends.numba_backend")
    except ImportError:  # an llvmlite that does not load
        return False
    return all(compiled_code.is_kept(*each) for each in backend.passes_with(kinds_of(accumulators).of_blocks))


@functools.cache
def _numba() -> Backend:
    import_module("probe_flow.metrics.backends.compiled_code").check()
    backend = import_module("probe_flow.metrics.backends.numba_backend")
    return Backend(backend.NAME, backend.VERSION, backend.measure_block, backend.measure_blocks, backend.THREADED)
