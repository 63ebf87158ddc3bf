"""`make test-lowest` installs the least version of every library that pyproject.toml allows."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_least_versions_are_those_of_the_project() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (needed,) = re.findall(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    allowed = dict(re.findall(r'"([\w-]+)>=([\d.]+)"', needed))
    assert len(allowed) == len(needed.splitlines())
    pins = (ROOT / "constraints-lowest.txt").read_text(encoding="utf-8")
    installed = dict(re.findall(r"^([\w-]+)==([\d.]+)$", pins, re.MULTILINE))
    assert {name: _without_zeros(installed[name]) for name in allowed} == {
        name: _without_zeros(version) for name, version in allowed.items()
    }


def _without_zeros(version: str) -> str:
    return re.sub(r"(\.0)+$", "", version)
