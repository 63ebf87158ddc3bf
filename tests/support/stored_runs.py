"""Folders of runs for tests of questions: written by hand from the schemas, or left by a packaged workflow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.record.line_file import LineFile
from probe_flow.record.row_index import FILE, Digest, RowIndex, write_index
from probe_flow.record.stored_rows import StoredRows
from probe_flow.testing.run_records import run_data

ROOT = Path(__file__).resolve().parents[2]

PLACE = {"rank": 0, "graph": 1, "step": 0}


def side(name: str, **more: Any) -> dict[str, Any]:
    """One side of a row."""
    return {
        "name": name, "file": f"{name}.bin", "dtype": "float16", "shape": [2, 3], "layout": "ND", "value": None,
        "requires_grad": None, "checksum": None, "min": -1.0, "max": 2.0, "mean": 0.5, "l2norm": 3.0, "nan": 0,
        "inf": 0, **more,
    }  # fmt: skip


def row(order: int, node: str, direction: str = "output", index: str = "0", **more: Any) -> dict[str, Any]:
    """One line of comparison.jsonl; `cosine` sets that metric, None removes it."""
    cosine = more.pop("cosine", 1.0)
    tensor = f"{node}.{direction}.{index}"
    return {
        "order": order, **PLACE, "node": node, "name": node, "call": 0, "phase": "forward",
        "op_type": node.rstrip("_0123456789"), "group": f"g{order}", "direction": direction, "index": index,
        "kind": "tensor", "target": side(tensor), "golden": side(f"g_{tensor}"), "reference": None, "rule": "exact",
        "confidence": 1.0, "metrics": {} if cosine is None else {"cosine": cosine, "max_abs_err": 0.0},
        "verdict": "pass", "reason": None, "role": "clean", "excess": None, **more,
    }  # fmt: skip


def node(name: str, order: int, *feeds: tuple[int, str, int], **more: Any) -> dict[str, Any]:
    """One line of nodes.jsonl; each feed is (input, producer, output)."""
    edges = [
        {"input": into, "producer": producer, "call": 0, "phase": "forward", "output": output}
        for into, producer, output in feeds
    ]
    return {
        "side": "target", "order": order, **PLACE, "node": name, "name": name, "call": 0, "phase": "forward",
        "op_type": name.rstrip("_0123456789"), "parent": None, "edges": edges, "stack": [], "originals": [],
        "passes": [], "attributes": {}, "arguments": [], **more,
    }  # fmt: skip


def write_run(
    folder: Path,
    rows: Iterable[Mapping[str, Any]],
    nodes: Iterable[Mapping[str, Any]] | None = (),
    details: Iterable[Mapping[str, Any]] = (),
    **more: Any,
) -> Path:
    """Write the folder of a run with one comparison, `result`; without nodes.jsonl when nodes are None."""
    folder.mkdir(parents=True, exist_ok=True)
    said = {
        "workflow": {"name": "demo", "path": "/nowhere/demo.yaml"}, "counts": {"pass": 1},
        "comparisons": {"result": {}}, "versions": {"probe_flow": "0.1.0"},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(run_data(**{**said, **more})))
    files = {"comparison.jsonl": rows, "nodes.jsonl": nodes, "details.jsonl": details}
    for name, records in files.items():
        if records is not None:
            (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    return folder


def found_index(folder: Path) -> RowIndex:
    """The index of the rows in a folder, found by reading all of them, without what a run may have left."""
    file = LineFile(folder / "comparison.jsonl", "pair", lambda path, why: IncompleteError(Diagnostic("PF7113", why)))
    rows = StoredRows(None, file, None, None)
    rows.index.crcs, rows.index.sums, rows.index.digest = rows.lines.crcs, rows.lines.sums, rows.lines.digest
    return rows.index


def leave_index(folder: Path) -> Path:
    """Write the index of a run that was written by hand, however few rows it has."""
    nodes = Digest()
    nodes.add((folder / "nodes.jsonl").read_bytes() if (folder / "nodes.jsonl").exists() else b"")
    write_index(found_index(folder), nodes, folder / FILE)
    return folder


def packaged_run(workflow: str, output: Path, **sets: str) -> Path:
    """Run a packaged workflow and return the folder that it leaves."""
    from probe_flow.engine.run.execute import execute
    from probe_flow.engine.run.plan import make_plan
    from probe_flow.engine.schedulers.choice import make_scheduler
    from probe_flow.workflow.loading.loader import load_workflow

    loaded = load_workflow(ROOT / "workflows" / f"{workflow}.yaml", env={}, cwd=ROOT, sets=sets)
    execute(make_plan(loaded), scheduler=make_scheduler("sync", 1), cwd=ROOT, output=output)
    return output
