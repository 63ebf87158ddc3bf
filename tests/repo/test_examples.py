"""The bundled samples come as a few archives, and no test imports from `examples/`."""

from __future__ import annotations

import ast
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ARCHIVES = sorted((ROOT / "examples").glob("*/samples.zip"))
MOST_FILES = 44
MOST_BYTES = 2_000_000


def test_a_clone_has_few_and_small_files_of_samples() -> None:
    done = subprocess.run(["git", "ls-files", "examples"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("no git checkout")
    names = [name for name in done.stdout.split() if not name.startswith("examples/ci/")]
    assert 0 < len(names) <= MOST_FILES
    assert sum((ROOT / name).stat().st_size for name in names) < MOST_BYTES


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: path.parent.name)
def test_an_archive_says_nothing_of_when_and_where_it_was_made(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        assert archive.testzip() is None
    assert [member.filename for member in members] == sorted({member.filename for member in members})
    assert {(member.date_time, member.external_attr, member.create_system) for member in members} == {
        ((1980, 1, 1, 0, 0, 0), 0o100644 << 16, 3)
    }


def test_no_test_finds_modules_below_examples() -> None:
    (paths,) = re.findall(r"^pythonpath = (.*)$", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert all((ROOT / path).is_dir() and not path.startswith("examples") for path in ast.literal_eval(paths))
    packages = {"team_templates", "team_package", "models", "twins"}  # the last two are run
    assert not [path for path in (ROOT / "examples").rglob("*.py") if not packages & set(path.parts)]
