"""Run folders of the format before, recorded when it was the current one: what they say is read as it was written."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from probe_flow.record.run_folder import read_run
from probe_flow.record.run_json import plain

RECORDED = Path(__file__).parents[2] / "data" / "runs" / "run_1.tar.xz"
ROWS = {"dump_json": 193, "torchair": 272}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded")
    with tarfile.open(RECORDED) as packed:
        packed.extractall(path, filter="data")
    return path / "run_1"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def as_json(record: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(plain(record)))
    return found


@pytest.mark.parametrize("name", ROWS)
def test_rows_and_nodes_say_what_their_lines_say(folder: Path, name: str) -> None:
    run = read_run(folder / name)
    assert run.version == 1
    rows, written = [as_json(row) for row in run.rows()], lines(folder / name / "comparison.jsonl")
    assert len(rows) == ROWS[name]
    assert [{key: row[key] for key in line} for row, line in zip(rows, written, strict=True)] == written
    nodes, written = [as_json(node) for _, node in run.nodes()], lines(folder / name / "nodes.jsonl")
    assert [{key: node[key] for key in line} for node, line in zip(nodes, written, strict=True)] == written
    assert any(node["stack"] for node in nodes) == (name == "dump_json")


def test_a_node_has_the_name_that_its_dump_gave_it(folder: Path) -> None:
    nodes = [node for _, node in read_run(folder / "dump_json").nodes()]
    assert {node.name for node in nodes if (node.node, node.call) == ("Tensor.__mul__", 1)} == {
        "Tensor.__mul__.1.forward",
        "Tensor.__mul__.1.backward",
    }
    assert all(node.name == node.node for _, node in read_run(folder / "torchair").nodes())


@pytest.mark.parametrize("name", ROWS)
def test_conclusions_point_to_the_findings_that_they_repeated(folder: Path, name: str) -> None:
    written = json.loads((folder / name / "run.json").read_text())
    record = read_run(folder / name).record
    place = written["first_divergence"]
    assert place is not None
    assert {key: as_json(record.first)[key] for key in place} == place
    suspects = [as_json(record.findings[position]) for position in record.suspects]
    assert [{key: found[key] for key in place} for found, place in zip(suspects, written["suspects"], strict=True)] == (
        written["suspects"]
    )
    (comparison,) = record.comparisons.values()
    assert comparison.first_divergence == record.first_divergence
    failing = sum(each["fails"] for each in written["findings"])
    assert sum(count.failing for count in record.finding_counts.values()) == failing > 0
    kept = ("counts", "roles", "coverage", "stages", "inputs", "params", "workflow", "verdict", "problems")
    assert {key: as_json(record)[key] for key in kept} == {key: written[key] for key in kept}
