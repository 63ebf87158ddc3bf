"""Real dumps of torch models with one planted NaN or infinity, which has to be named, and all the others, silent."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from probe_flow.analysis.coverage import Required
from probe_flow.comparing.asked import Asked
from probe_flow.comparing.examine import examine_overflow
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.records import Finding
from probe_flow.relations.levels import GROWTH
from probe_flow.testing.stages import context

ARCHIVE = Path(__file__).parents[1] / "data" / "dump_json" / "faults.tar.xz"
PLANTED = ("nan", "overflow", "grad_nan")


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, list[Finding]]]:
    """Of each dump what is planted (``Functional.conv2d.9``; empty where all is finite), and what fails."""
    folder = tmp_path_factory.mktemp("faults")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    found: dict[str, tuple[str, list[Finding]]] = {}
    for case in json.loads((folder / "cases.json").read_text()):
        spec = case["spec"]
        planted = f"{spec['label']}.{spec['call']}" if spec["kind"] in PLANTED else ""
        dump = read_dump_json(folder / case["target"], side="dump")
        done = examine_overflow(dump, Asked(required=Required()), context(folder / "out"), growth=GROWTH)
        found[spec["name"]] = planted, [each for each in done.findings if each.fails]
    return found


def test_every_planted_one_is_named_and_nothing_else_is_accused(
    findings: dict[str, tuple[str, list[Finding]]],
) -> None:
    named = {
        name: [f"{each.node.name}.{each.node.call}" for each in found if each.node is not None]
        for name, (_, found) in findings.items()
    }
    assert named == {name: [planted] if planted else [] for name, (planted, _) in findings.items()}
    assert sum(bool(planted) for planted, _ in findings.values()) >= 5
