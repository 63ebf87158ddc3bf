"""The registered runners: known without importing a framework, and where the registry says."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from msgspec.structs import replace
from toy_framework import TOY

from probe_flow.dumpers.registry import RUNNERS
from probe_flow.stages.registry import STAGES


@pytest.mark.parametrize("name", RUNNERS)
def test_a_runner_is_where_the_registry_says(name: str) -> None:
    spec = RUNNERS[name]
    module, _, class_name = spec.runner.partition(":")
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    tree = ast.parse(Path(found.origin).read_text(encoding="utf-8"))
    assert class_name in {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    assert spec.name == name
    assert f"dump.{name}" in STAGES


def test_two_runners_leave_nothing_of_the_same_name() -> None:
    names = [name for spec in RUNNERS.values() for name in (spec.folder, *spec.leaves)]
    assert len(names) == len(set(names))


def test_the_registry_loads_neither_frameworks_nor_numpy() -> None:
    code = (
        "import sys, probe_flow.dumpers.registry\nprint([name for name in ('torch', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_versions_later_than_the_tested_ones_are_told() -> None:
    spec = replace(TOY, tested={"numpy": "1.26", "toy": "3.1"}, notes=lambda _record: iter(()))

    found = [each.message for each in spec.remarks({"versions": {"numpy": "2.0.1", "toy": "3.1.9"}})]

    assert found == ["numpy 2.0.1 is later than 1.26, the last one that was tested"]
    assert list(spec.remarks({})) == []
