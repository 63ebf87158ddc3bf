"""Machine code of the passes: compiled once, kept, and loaded without numba."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba", reason="numba is not installed (extra accel)")

from probe_flow.errors import UsageError
from probe_flow.metrics.backends import choice as backends
from probe_flow.metrics.backends import code_files, compiled_code, numba_compiler
from probe_flow.metrics.backends.code_files import ENVIRONMENT
from probe_flow.metrics.backends.compiled_code import compiled_pass

pytestmark = pytest.mark.frameworks

USE = """
import sys
import numpy as np
from probe_flow.metrics.backends.choice import backend_named
from probe_flow.metrics.accumulators.base import Rules
from probe_flow.metrics.sums.block_sums import Scratch
one = np.ones(3, np.float32)
record = backend_named("numba").measure_block(one, one + one, 0, Rules(1e-7), Scratch())
print(record.errors.error_abs, "numba" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder for compiled code in which nothing is kept yet; passes that were loaded are forgotten."""
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    forget()
    yield tmp_path
    forget()


def forget() -> None:
    compiled_pass.cache_clear()
    compiled_code._loaded.cache_clear()


def widened(values: list[float]) -> list[float]:
    block = np.array(values, np.float32)
    return compiled_pass("widened", ("float32",))(block, number=0.0, figures=block.size)


def use(folder: Path) -> list[str]:
    environment = {**os.environ, ENVIRONMENT: str(folder)}
    ended = subprocess.run([sys.executable, "-c", USE], env=environment, check=True, capture_output=True, text=True)
    return ended.stdout.split()


def test_the_first_process_compiles_and_later_ones_need_no_numba(tmp_path: Path) -> None:
    assert use(tmp_path) == ["3.0", "True"]
    assert use(tmp_path) == ["3.0", "False"]


def test_code_is_kept_where_the_environment_says(folder: Path) -> None:
    assert widened([1.5, -2.0]) == [1.5, -2.0]
    assert [path.name.split("-")[:2] for path in folder.iterdir()] == [["widened", "float32"]]


def test_damaged_code_is_compiled_again(folder: Path) -> None:
    widened([1.0])
    [path] = folder.iterdir()
    whole = path.read_bytes()
    damaged = whole[:-1] + bytes([whole[-1] ^ 1])
    path.write_bytes(damaged)
    forget()
    assert widened([4.0]) == [4.0]
    assert path.read_bytes() != damaged


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_code_that_others_can_write_is_not_run_but_compiled_again(folder: Path, mode: int) -> None:
    widened([1.0])
    [path] = folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o644
    path.write_bytes(code_files.digest(b"planted") + b"planted")
    path.chmod(mode)
    forget()
    assert widened([4.0]) == [4.0]
    assert b"planted" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_code_of_another_user_is_not_run(folder: Path) -> None:
    widened([1.0])
    [path] = folder.iterdir()
    planted = os.geteuid() + 4711  # root may read the files of everybody, and would run them
    os.chown(path, planted, -1)
    path.write_bytes(code_files.digest(b"planted") + b"planted")
    forget()
    assert widened([4.0]) == [4.0]
    assert path.stat().st_uid == os.geteuid()


def test_without_a_folder_for_it_each_process_compiles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = folder / "file"
    blocked.write_text("")
    monkeypatch.setenv(ENVIRONMENT, str(blocked))
    assert widened([3.0]) == [3.0]
    assert list(folder.iterdir()) == [blocked]


def test_a_numba_that_does_not_load_is_said_before_the_work(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    widened([1.0])
    backends._numba.cache_clear()
    monkeypatch.setitem(sys.modules, "numba", None)
    assert backends.backend_named("numba").name == "numba"  # what is kept was compiled by this very numba
    backends._numba.cache_clear()
    next(folder.iterdir()).unlink()
    with pytest.raises(UsageError, match="numba"):
        backends.backend_named("numba")


def test_a_change_of_source_or_compiler_leaves_kept_code_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    widened([1.0])
    monkeypatch.setattr(compiled_code, "VERSION", "another")
    forget()
    compiled_code.key.cache_clear()
    try:
        assert widened([2.0]) == [2.0]
    finally:
        compiled_code.key.cache_clear()
    assert len(list(folder.iterdir())) == 2


def test_a_pass_that_needs_more_than_its_own_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def allocates(values, count, number, figures):  # type: ignore[no-untyped-def]
        figures[0] = np.zeros(count).size + values[0] + number

    monkeypatch.setattr(numba_compiler, "PASSES", {"allocates": allocates})
    with pytest.raises(RuntimeError, match="undefined"):
        numba_compiler.object_code("allocates", ("float32",), compiled_code.target_machine())
