"""Installed packages, faked: a module and a `dist-info` in a folder of the search path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Site:
    """A folder like `site-packages`. Each module leaves a mark, a file of its name in `marks`, when it is imported."""

    root: Path

    @property
    def marks(self) -> Path:
        return self.root / "marks"

    @property
    def imported(self) -> set[str]:
        return {mark.name for mark in self.marks.iterdir()}

    def install(self, module: str, group: str, entry: str, code: str) -> None:
        """Install a package of one module that has one entry point."""
        (self.root / f"{module}.py").write_text(
            f"from pathlib import Path\nPath({str(self.marks)!r}, __name__).touch()\n{code}\n"
        )
        self.announce(module, group, entry)

    def announce(self, package: str, group: str, *entries: str) -> None:
        """Install a package that has entry points and no module."""
        information = self.root / f"{package}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text("\n".join([f"[{group}]", *entries, ""]))


def make_site(root: Path) -> Site:
    site = Site(root)
    site.marks.mkdir(parents=True)
    return site


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder of packages on the search path of this process; what is imported from it is forgotten afterwards."""
    made = make_site(tmp_path / "site")
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(made.root))
    yield made
    for name in set(sys.modules) - before:
        if str(made.root) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
