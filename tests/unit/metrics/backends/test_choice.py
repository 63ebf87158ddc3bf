"""Which backend is chosen, and what is said when it cannot be; no test here needs numba."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from probe_flow.errors import UsageError
from probe_flow.metrics.accumulators.options import MeasureOptions
from probe_flow.metrics.backends import choice as backends
from probe_flow.metrics.backends.choice import NUMPY, WORTH_COMPILED_BYTES, backend_named
from probe_flow.metrics.kernel.compare import backend_label, measure
from probe_flow.testing.builders import ArrayBlocks

COMPILED_CODE = "probe_flow.metrics.backends.compiled_code"


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in [name for name in sys.modules if name.startswith(("probe_flow.metrics.numba_", COMPILED_CODE))]:
        monkeypatch.delitem(sys.modules, module)
    for library in ("numba", "llvmlite"):  # the one brings the other
        monkeypatch.setitem(sys.modules, library, None)
    backends._numba.cache_clear()
    yield
    backends._numba.cache_clear()


def test_little_work_is_left_to_numpy() -> None:
    assert backend_named("auto", WORTH_COMPILED_BYTES - 1) is NUMPY
    assert backend_named("numpy", 10**12) is NUMPY


@pytest.mark.usefixtures("without_numba")
def test_auto_does_without_numba() -> None:
    assert backend_named("auto", 10**12) is NUMPY


@pytest.mark.usefixtures("without_numba")
def test_missing_numba_names_the_extra() -> None:
    with pytest.raises(UsageError) as caught:
        backend_named("numba")
    assert caught.value.diagnostic.code == "PF5116"
    assert "numba" in caught.value.diagnostic.message
    assert "probe-flow[accel]" in str(caught.value.diagnostic.help)


@pytest.mark.usefixtures("without_numba")
def test_a_kernel_call_with_missing_numba_says_so() -> None:
    one = ArrayBlocks([1.0], "float32")
    with pytest.raises(UsageError, match="numba"):
        measure(one, one, MeasureOptions(backend="numba"))


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        backend_named("nunba")
    assert caught.value.diagnostic.code == "PF5116"
    assert "numba" in str(caught.value.diagnostic.help)


def test_the_label_names_backend_and_version() -> None:
    assert backend_label(MeasureOptions()) == NUMPY.label == f"numpy {np.__version__}"


def test_results_are_kept_whatever_the_backend() -> None:
    assert MeasureOptions(("moments",), backend="numba").key_text == MeasureOptions(("moments",)).key_text
