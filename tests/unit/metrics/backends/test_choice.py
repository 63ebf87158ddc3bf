"""Which backend is chosen, and what is said when it cannot be; no test here needs numba."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from probe_flow.errors import UsageError
from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.backends import choice as backends
from probe_flow.metrics.backends import code_files
from probe_flow.metrics.backends.choice import NUMPY, WORTH_COMPILED_BYTES, backend_named
from probe_flow.metrics.kernel.compare import measure
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
def test_auto_does_without_numba(never: Callable[[], None]) -> None:
    assert backend_named("auto", 10**12, compile_later=never) is NUMPY


@pytest.fixture
def never() -> Callable[[], None]:
    return lambda: pytest.fail("there is nothing to compile")


def test_auto_measures_by_numpy_and_has_compiled_later_what_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda _name: object())
    asked, compiled = [], {("moments",): True}
    monkeypatch.setattr(backends, "is_compiled", lambda names: compiled.get(names, False))
    monkeypatch.setattr(backends, "_numba", lambda: "compiled")
    assert backend_named("auto", WORTH_COMPILED_BYTES - 1, compile_later=lambda: asked.append(1)) is NUMPY
    assert asked == []
    assert backend_named("auto", WORTH_COMPILED_BYTES, ("masked",), compile_later=lambda: asked.append(1)) is NUMPY
    assert asked == [1]
    found: object = backend_named("auto", WORTH_COMPILED_BYTES, ("moments",), compile_later=lambda: asked.append(2))
    assert (found, asked) == ("compiled", [1])


def test_nothing_is_loaded_where_nothing_was_ever_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(code_files.ENVIRONMENT, str(tmp_path))
    monkeypatch.setattr(backends, "import_module", lambda name: pytest.fail(f"{name} is loaded"))
    assert not backends.is_compiled(())


@pytest.mark.usefixtures("without_numba")
def test_code_of_a_numba_that_is_gone_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(code_files.ENVIRONMENT, str(tmp_path))
    (tmp_path / "measure-float32-float32-0123.code").write_bytes(b"x")
    assert not backends.is_compiled(())


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
    assert backend_named(MeasureOptions().backend).label == NUMPY.label == f"numpy {np.__version__}"


def test_results_are_kept_whatever_the_backend() -> None:
    assert MeasureOptions(("moments",), backend="numba").key_text == MeasureOptions(("moments",)).key_text
