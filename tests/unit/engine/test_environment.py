from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from probe_flow.engine import environment
from probe_flow.engine.environment import Check, State, _libraries, examine
from probe_flow.files.lock_file import Holder
from probe_flow.metrics.backends import warm_up


def by_name(checks: list[Check], section: str) -> dict[str, Check]:
    return {check.name: check for check in checks if check.section == section}


def test_this_environment_has_what_it_needs(tmp_path: Path) -> None:
    checks = examine({"HOME": str(tmp_path)}, tmp_path)
    assert [check for check in checks if check.state is State.BROKEN] == []
    libraries = by_name(checks, "libraries")
    assert {"numpy", "h5py", "click", "HDF5"} <= set(libraries)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("found", "state", "told"),
    [
        ("2.4.6", State.OK, ""),
        ("1.26", State.OK, ""),
        ("1.26.0rc1", State.OK, ""),
        ("1.9.9", State.BROKEN, "too old"),
        (None, State.BROKEN, "not installed: pip install 'numpy>=1.26'"),
    ],
)
def test_a_library_is_there_and_new_enough(found: str | None, state: State, told: str) -> None:
    requirements = ["numpy<3,>=1.26", "numba>=0.60; extra == 'accel'"]
    (check,) = _libraries(requirements, version=lambda _name: found, load=lambda _name: None)
    assert check.state is state
    assert told in check.note


def test_a_library_that_does_not_load_is_broken() -> None:
    def broken(name: str) -> object:
        raise ImportError(f"libhdf5.so is missing for {name}")

    (check,) = _libraries(["ml-dtypes>=0.5.1"], version=lambda _name: "0.6.0", load=broken)
    assert check.state is State.BROKEN
    assert "libhdf5.so is missing for ml_dtypes" in check.note


def test_the_npu_is_a_fact_and_its_absence_no_fault(tmp_path: Path) -> None:
    tool = tmp_path / "npu-smi"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    found = by_name(examine({"ASCEND_HOME_PATH": "/opt/cann", "PATH": str(tmp_path), "HOME": "/"}, tmp_path), "NPU")
    assert found["ASCEND_HOME_PATH"].value == "/opt/cann"
    assert found["npu-smi"].value == str(tool)
    without = by_name(examine({"PATH": "", "HOME": "/"}, tmp_path), "NPU")
    assert without["npu-smi"].state is State.ABSENT


def test_a_cache_that_does_not_exist_yet_is_made_when_needed(tmp_path: Path) -> None:
    found = by_name(examine({"PROBE_FLOW_CACHE": str(tmp_path / "a" / "b")}, tmp_path), "cache")
    assert found["folder"].note == "made when it is needed"
    assert found["writable"].value == "yes"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_file_locks_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_descriptor: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    found = by_name(examine({"HOME": "/"}, tmp_path), "working directory")
    assert found["file locks"].state is State.NOTE
    assert "No locks available" in found["file locks"].value


def test_a_folder_that_cannot_be_written_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    found = by_name(examine({"HOME": "/"}, tmp_path), "cache")
    assert found["writable"].state is State.NOTE
    assert "PROBE_FLOW_CACHE" in found["writable"].note


def test_machine_facts_respect_control_groups(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal:       2097152 kB\n")
    found = by_name(examine({"HOME": "/"}, tmp_path, root=tmp_path), "machine")
    assert found["memory"].value == "2.0 GiB usable"


def test_a_missing_extra_names_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probe_flow.engine.environment._installed", lambda _name: None)
    found = by_name(examine({"HOME": "/"}, tmp_path), "extras")
    assert found["xlsx"].state is State.ABSENT
    assert found["xlsx"].note == "the report format `xlsx`: pip install 'probe-flow[xlsx]'"


FOLDER = Path("/home/me/.cache/probe_flow/compiled")


@pytest.mark.parametrize(
    ("compiled", "environ", "state", "told"),
    [
        (warm_up.State(42, 0, FOLDER, None, ""), {}, State.OK, ""),
        (warm_up.State(42, 0, None, None, ""), {}, State.OK, ""),
        (warm_up.State(42, 40, FOLDER, None, ""), {}, State.NOTE, "the next large run has the others compiled"),
        (warm_up.State(42, 40, FOLDER, Holder(17, "here"), ""), {}, State.NOTE, "process 17 on `here` compiles the"),
        (warm_up.State(42, 40, FOLDER, None, "TypingError: no"), {}, State.NOTE, "compiling failed (TypingError: no)"),
        (
            warm_up.State(42, 40, FOLDER, None, ""), {"PROBE_FLOW_WARM_UP": "never"}, State.NOTE,
            "numpy measures until all are: `probe-flow doctor --warm-up` compiles the others",
        ),
        (
            warm_up.State(42, 40, None, None, ""), {}, State.NOTE,
            "numpy measures until all are: `probe-flow doctor --warm-up` compiles the others",
        ),
    ],
)  # fmt: skip
def test_it_says_whether_runs_find_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    compiled: warm_up.State,
    environ: dict[str, str],
    state: State,
    told: str,
) -> None:
    monkeypatch.setattr(environment, "_installed", lambda _name: "1.0")
    monkeypatch.setattr(warm_up, "state", lambda: compiled)
    found = by_name(examine({"HOME": str(tmp_path), **environ}, tmp_path), "compiled code")
    assert found["passes"].state is state
    assert found["passes"].value == f"{42 - compiled.missing} of 42 compiled"
    assert told in found["passes"].note
    assert found["folder"].value == (str(FOLDER) if compiled.folder else "none can be written")


def test_without_numba_nothing_is_said_of_compiled_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_installed", lambda name: None if name == "numba" else "1.0")
    assert by_name(examine({"HOME": str(tmp_path)}, tmp_path), "compiled code") == {}


def test_an_llvmlite_that_does_not_load_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> object:
        raise ImportError("libllvmlite.so is missing")

    monkeypatch.setattr(environment, "_installed", lambda _name: "1.0")
    monkeypatch.setattr(warm_up, "state", broken)
    found = by_name(examine({"HOME": str(tmp_path)}, tmp_path), "compiled code")
    assert found["passes"].note == "numpy measures: libllvmlite.so is missing"
