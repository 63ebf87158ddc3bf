"""Files are opened for reading in one way (`files/opening.py`), which refuses what could hold the reader for ever."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "probe_flow"

ELSEWHERE = {
    "files/opening.py": "the one way itself",
    "metrics/backends/code_files.py": "looks at the owner of the file too, and waits for nothing",
    "metrics/backends/compiled_code.py": "files of the package",
    "cli/main.py": "/dev/null, for writing",
    "packages.py": "stands below `files`; what installers wrote, as importlib.metadata reads it",
    "apis/values.py": "imports nothing else of ours; looks first whether it is a regular file",
    "apis/scripts/op_script.py": "imports nothing else of ours, and runs alone; a file that its own user names",
    "scripts/trials/trial_process.py": "runs where nothing of ours is installed; the null device, a pipe it has",
    "errors/explanations.py": "files of the package",
    "reports/html/assets.py": "files of the package",
    "files/streamed_file.py": "its own temporary file, new and for writing",
    "files/whole_files.py": "its own temporary file, new and for writing",
    "testing/readers.py": "files that its own test wrote",
    "testing/reports.py": "files that its own test wrote",
    "testing/stages.py": "files that its own test wrote",
    "files/lock_file.py": "makes the lock where there is none; waits for nothing",
}
"""Modules that open files otherwise, and why."""

WRITING = ("O_WRONLY", "O_CREAT", "O_DIRECTORY")
LIBRARIES = {"load", "memmap", "fromfile", "genfromtxt", "loadtxt", "File", "ZipFile", "load_workbook", "fdopen"}
"""Functions of libraries that read the file at a path."""

OWNERS = {"np", "numpy", "h5py", "zipfile", "torch", "tarfile", "onnx", "os", "io", "gzip", "codecs"}
OURS = {"open_bytes", "open_text", "regular", "open_descriptor"}


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def opened_by_us(tree: ast.AST) -> set[str]:
    """Return the names that ``with open_bytes(...) as name`` binds, and what else holds an open file."""
    return {
        item.optional_vars.id
        for node in ast.walk(tree)
        if isinstance(node, ast.With)
        for item in node.items
        if isinstance(item.optional_vars, ast.Name)
    }


def mode_of(call: ast.Call, at: int) -> str:
    given = [each.value for each in call.keywords if each.arg == "mode"] or call.args[at : at + 1]
    return str(given[0].value) if given and isinstance(given[0], ast.Constant) else "r" if not given else "?"


def is_reading(call: ast.Call, known: set[str]) -> bool:
    """Tell whether a call opens a file for reading, in another way than through the one module."""
    function = call.func
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    owner = function.value.id if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) else ""
    if name == "open" and owner == "os":
        return not any(flag in ast.unparse(call) for flag in WRITING)
    if name == "open" and isinstance(function, ast.Name):
        return mode_of(call, 1)[0] == "r"
    if name == "open":
        is_path = {each.arg for each in call.keywords} <= {"mode", "encoding", "errors", "newline", "buffering"}
        takes_text = not call.args or isinstance(call.args[0], ast.Constant)
        return is_path and takes_text and (bool(call.args) or bool(call.keywords)) and mode_of(call, 0)[0] == "r"
    if name in {"read_text", "read_bytes"}:
        return isinstance(function, ast.Attribute)
    if name not in LIBRARIES or (owner not in OWNERS and name != "load_workbook") or not call.args:
        return False
    if name == "File" and mode_of(call, 1) != "r":
        return False
    first = call.args[0]
    if isinstance(first, ast.Call):
        return getattr(first.func, "id", "") not in OURS
    return not (isinstance(first, ast.Name) and first.id in known)


def found_in(text: str) -> list[int]:
    tree = ast.parse(text)
    known = opened_by_us(tree)
    return [call.lineno for call in calls(tree) if is_reading(call, known)]


def test_no_module_opens_files_for_reading_in_another_way() -> None:
    found = {
        f"{path.relative_to(PACKAGE).as_posix()}:{line}"
        for path in PACKAGE.rglob("*.py")
        for line in found_in(path.read_text(encoding="utf-8"))
        if path.relative_to(PACKAGE).as_posix() not in ELSEWHERE
    }
    assert not found, "use probe_flow.files.opening"


def test_the_exceptions_are_still_some() -> None:
    for name in ELSEWHERE:
        text = (PACKAGE / name).read_text(encoding="utf-8")
        assert found_in(text) or "os.open(" in text, name


@pytest.mark.parametrize(
    "text",
    [
        "open(path)",
        "open(path, 'rb')",
        "open(path, mode='r+b')",
        "path.open('rb')",
        "path.open(encoding='utf-8')",
        "Path(name).open(newline='')",
        "path.read_text()",
        "path.read_bytes()",
        "os.open(path, os.O_RDONLY)",
        "np.load(path)",
        "np.memmap(path, 'u1')",
        "h5py.File(path, 'r')",
        "zipfile.ZipFile(path)",
        "torch.load(path)",
        "load_workbook(path)",
    ],
)
def test_what_is_found(text: str) -> None:
    assert found_in(text) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "open(path, 'w')",
        "path.open('xb')",
        "store.open(tensor, key, io=io)",
        "archive.open(member)",
        "scheduler.open()",
        "os.open(path, os.O_WRONLY | os.O_CREAT)",
        "h5py.File(path, 'w')",
        "h5py.File(regular(path), 'r')",
        "with open_bytes(path) as file: np.load(file)",
        "read_text(path)",
    ],
)
def test_what_is_not_found(text: str) -> None:
    assert found_in(text) == []
