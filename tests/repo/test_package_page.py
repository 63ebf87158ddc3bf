"""The pages on packages show the example package as it is."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "how-to" / f"{name}.md" for name in ("write-a-package", "test-a-package")]
PAGE = "".join(page.read_text(encoding="utf-8") for page in PAGES)
PACKAGE = ROOT / "examples" / "team_package"
SNIPPETS = re.findall(r"^<!-- from (\S+) -->\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = re.findall(r"^<!-- runs -->\n```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("file", "text"), SNIPPETS, ids=[file for file, _ in SNIPPETS])
def test_a_snippet_is_in_its_file(file: str, text: str) -> None:
    assert text in (PACKAGE / file).read_text(encoding="utf-8")


def test_every_snippet_of_code_is_checked() -> None:
    checked = len(SNIPPETS) + len(PROGRAMS)
    assert len(re.findall(r"^```(?:python|toml)$", PAGE, re.MULTILINE)) == checked


def test_every_module_of_the_package_is_shown() -> None:
    modules = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.glob("acme_tools/*.py")}
    assert {file for file, _ in SNIPPETS} == (modules - {"acme_tools/__init__.py"}) | {"pyproject.toml"}


def test_every_entry_point_of_the_package_is_shown() -> None:
    (shown,) = [text for file, text in SNIPPETS if file == "pyproject.toml"]
    project = (PACKAGE / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'^.* = "acme_tools\..*$', shown, re.MULTILINE) == re.findall(
        r'^.* = "acme_tools\..*$', project, re.MULTILINE
    )


def test_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert PROGRAMS
    monkeypatch.syspath_prepend(str(PACKAGE))
    before = set(sys.modules)
    for program in PROGRAMS:
        (tmp_path / "program.py").write_text(program)
        runpy.run_path(str(tmp_path / "program.py"))
    for name in {name for name in sys.modules if name.startswith("acme_tools")} - before:
        del sys.modules[name]
