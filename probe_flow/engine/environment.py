"""What `doctor` looks at: libraries, machine, folders, frameworks and the NPU, each as a plain fact."""

from __future__ import annotations

import enum
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from probe_flow.engine.cache import cache_folder
from probe_flow.files.machine import memory_of_machine, usable_cpus
from probe_flow.version import __version__

EXTRAS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "accel": ("numba", "the compiled metrics kernel"),
        "distributed": ("distributed", "the scheduler `distributed`"),
        "xlsx": ("XlsxWriter", "the report format `xlsx`"),
        "shell": ("prompt_toolkit", "completion and history at the prompt of `probe-flow shell`"),
        "torch": ("torch", "running PyTorch models and APIs: dump stages with `model`, pre-checks, repro"),
        "mindspore": ("mindspore", "running MindSpore models and APIs: dump stages with `model`, pre-checks, repro"),
        "onnx": ("onnxruntime", "running ONNX models"),
        "caffe": ("opencv-python-headless", "running Caffe models"),
        "tensorflow": ("tensorflow-cpu", "running TensorFlow models"),
        "docs": ("mkdocs-material", "building the documentation site of a checkout"),
    }
)
"""Extra -> the package that it brings, and what that enables."""

FRAMEWORKS = (
    "torch",
    "torch-npu",
    "mindspore",
    "onnx",
    "onnxruntime",
    "opencv-python-headless",
    "tensorflow",
    "tensorflow-cpu",
)
"""Distributions looked for; none is imported, and no dump needs one to be read."""

_MODULES = {"pyyaml": "yaml", "ml-dtypes": "ml_dtypes", "pydantic-core": "pydantic_core"}
"""Modules that are not named like their distribution."""

_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)[^;]*?>=(?P<minimum>[0-9.]+)")
_ASCEND = "ASCEND_"
_LOCKING = "HDF5_USE_FILE_LOCKING"
_GIB = 2**30


class State(enum.Enum):
    """``ABSENT`` is no fault; ``NOTE`` may cost something; ``BROKEN`` keeps every command from its work."""

    OK = "ok"
    ABSENT = "absent"
    NOTE = "note"
    BROKEN = "broken"


class Check(Struct, frozen=True):
    """One fact.

    Args:
        section: what it belongs to.
        name: what was looked at.
        state: how it is.
        value: what was found.
        note: what that means, or what to do.
    """

    section: str
    name: str
    state: State
    value: str = ""
    note: str = ""


def examine(environ: Mapping[str, str], cwd: Path, *, root: Path = Path("/")) -> list[Check]:
    """Return everything that `doctor` shows.

    Args:
        environ: the environment.
        cwd: working directory; a temporary file is made and removed there, and in the folder of the cache.
        root: where the files of the system lie.
    """
    return [
        Check("program", "probe_flow", State.OK, __version__),
        Check("program", "Python", State.OK, f"{platform.python_version()} on {sys.platform} {platform.machine()}"),
        *_libraries(_requirements(), version=_installed, load=import_module),
        *_hdf5(environ),
        *_machine(root),
        *_folder("working directory", cwd),
        *_folder("cache", cache_folder(None, environ)),
        *(_extra(name, *EXTRAS[name]) for name in EXTRAS),
        *_compiled_code(environ),
        *(Check("frameworks", name, State.OK, found) for name in FRAMEWORKS if (found := _installed(name))),
        *_npu(environ),
    ]


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _requirements() -> Sequence[str]:
    try:
        return requires("probe-flow") or ()
    except PackageNotFoundError:  # a copy of the sources that was never installed
        return ()


def _libraries(
    requirements: Sequence[str], *, version: Callable[[str], str | None], load: Callable[[str], object]
) -> Iterator[Check]:
    """Yield the libraries that every command needs: there, new enough, and importable."""
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None or ";" in requirement:
            continue
        name, minimum = match["name"], match["minimum"]
        found = version(name)
        if found is None:
            yield Check("libraries", name, State.BROKEN, "", f"not installed: pip install '{name}>={minimum}'")
        elif _numbers(found) < _numbers(minimum):
            yield Check("libraries", name, State.BROKEN, found, f"too old: pip install '{name}>={minimum}'")
        else:
            yield _loaded(name, found, load)


def _loaded(name: str, found: str, load: Callable[[str], object]) -> Check:
    try:
        load(_MODULES.get(name.lower(), name))
    except Exception as exc:  # whatever a damaged installation does
        why = f"does not load ({type(exc).__name__}: {exc}): install it again"
        return Check("libraries", name, State.BROKEN, found, why)
    return Check("libraries", name, State.OK, found)


def _numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version: ``2.13.0+cpu`` -> (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def _hdf5(environ: Mapping[str, str]) -> Iterator[Check]:
    try:
        from h5py.version import hdf5_version
    except Exception:  # told among the libraries
        return
    yield Check("libraries", "HDF5", State.OK, str(hdf5_version))
    if _LOCKING in environ:
        yield Check("libraries", _LOCKING, State.OK, environ[_LOCKING])


def _machine(root: Path) -> Iterator[Check]:
    yield Check("machine", "CPUs", State.OK, f"{usable_cpus(root)} usable of {os.cpu_count() or '?'}")
    memory = memory_of_machine(root)
    if memory is not None:
        yield Check("machine", "memory", State.OK, f"{memory / _GIB:.1f} GiB usable")


def _folder(name: str, path: Path) -> Iterator[Check]:
    """Yield room, write access and file locks of a folder, or of the nearest one above it that exists."""
    folder = next((each for each in (path, *path.parents) if each.is_dir()), None)
    if folder is None:
        yield Check(name, "folder", State.NOTE, str(path), "there is no such folder")
        return
    yield Check(name, "folder", State.OK, str(path), "" if folder == path else "made when it is needed")
    free = shutil.disk_usage(folder).free
    yield Check(name, "free disk", State.OK if free > _GIB else State.NOTE, f"{free / _GIB:.1f} GiB")
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            yield Check(name, "writable", State.OK, "yes")
            yield _locks(name, file.fileno())
    except OSError as exc:
        why = "results cannot lie here" if name != "cache" else "nothing is kept between runs: set PROBE_FLOW_CACHE"
        yield Check(name, "writable", State.NOTE, f"no ({exc.strerror or exc})", why)


def _locks(name: str, descriptor: int) -> Check:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        why = f"results are not affected; for other HDF5 programs set {_LOCKING}=FALSE"
        return Check(name, "file locks", State.NOTE, f"do not work ({exc.strerror or exc})", why)
    return Check(name, "file locks", State.OK, "work")


def _extra(name: str, distribution: str, enables: str) -> Check:
    found = _installed(distribution)
    if found is None:
        return Check("extras", name, State.ABSENT, "", f"{enables}: pip install 'probe-flow[{name}]'")
    return Check("extras", name, State.OK, f"{distribution} {found}", enables)


def _compiled_code(environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield whether runs find the machine code that serves them better than numpy, and else what becomes of it."""
    if _installed("numba") is None:
        return
    from probe_flow.metrics.backends.code_files import ENVIRONMENT
    from probe_flow.metrics.backends.warm_up import ENVIRONMENT as WARM_UP
    from probe_flow.metrics.backends.warm_up import state

    def fact(name: str, state: State, value: str, note: str = "") -> Check:
        return Check("compiled code", name, state, value, note)

    try:
        found = state()
    except ImportError as exc:
        yield fact("passes", State.NOTE, "cannot be loaded", f"numpy measures: {exc}")
        return
    if found.folder is None:
        yield fact("folder", State.NOTE, "none can be written", f"runs compile nothing: set {ENVIRONMENT}")
    else:
        yield fact("folder", State.OK, str(found.folder))
    count = f"{found.passes - found.missing} of {found.passes} compiled"
    if not found.missing:
        yield fact("passes", State.OK, count)
        return
    if found.holder is not None:
        note = f"{found.holder} compiles the others"
    elif found.failure:
        note = f"compiling failed ({found.failure}); `probe-flow doctor --warm-up` tries again"
    elif found.folder is None or environ.get(WARM_UP) == "never":
        note = "`probe-flow doctor --warm-up` compiles the others"
    else:
        note = "the next large run has the others compiled when it ends, `probe-flow doctor --warm-up` does so now"
    yield fact("passes", State.NOTE, count, f"numpy measures until all are: {note}")


def _npu(environ: Mapping[str, str]) -> Iterator[Check]:
    """Yield what there is of CANN; device dumps are read without it."""
    for name in sorted(environ):
        if name.startswith(_ASCEND):
            yield Check("NPU", name, State.OK, environ[name])
    tool = shutil.which("npu-smi", path=environ.get("PATH"))
    note = "" if tool else "only programs that run on an NPU need it; dumps are read without"
    yield Check("NPU", "npu-smi", State.OK if tool else State.ABSENT, tool or "", note)
