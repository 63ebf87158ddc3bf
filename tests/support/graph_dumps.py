"""Small dumps of modules and calls, and the graphs that files hold, read from the files alone."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "visualization"
BASE, SLOPE, RENAMED = (DATA / "inputs" / name for name in ("st_base", "st_slope", "st_ren"))
RENAMES = DATA / "inputs" / "map_ren.yaml"

CHAIN: Mapping[str, str | None] = {
    "Functional.relu.0.forward": "Module.fc.Linear.forward.0",
    "Module.fc.Linear.forward.0": "Module.net.Net.forward.0",
    "Module.net.Net.forward.0": None,
}
"""A construct.json: a call in a module in a module."""


def tensor(value: float | None = 1.0, **more: Any) -> dict[str, Any]:
    figures = dict.fromkeys(("Max", "Min", "Mean", "Norm"), value)
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], **figures, **more}


def write_dump(
    folder: Path,
    *,
    construct: Mapping[str, Any] | str | None = CHAIN,
    values: Mapping[str, float | None] | None = None,
    stack: Any = None,
    md5: str | None = None,
    entries: Sequence[str] | None = None,
    **head: Any,
) -> Path:
    """Write a dump of one rank and return its folder.

    Args:
        folder: of the rank.
        construct: content of construct.json, as it is where it is text; None = no such file.
        values: entry -> the value of its output; 1 for others.
        stack: content of stack.json; None = a frame for each call.
        md5: checksum of every tensor.
        entries: those of dump.json; default: those of construct.json.
        head: more for the top of dump.json.
    """
    folder.mkdir(parents=True)
    names = list(entries if entries is not None else construct if isinstance(construct, Mapping) else CHAIN)
    sums = {} if md5 is None else {"md5": md5}
    data = {
        name: {
            "input_args": [tensor(**sums)],
            "input_kwargs": {},
            "output": [tensor((values or {}).get(name, 1.0), **sums)],
        }
        for name in names
    }
    top = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, **head}
    (folder / "dump.json").write_text(json.dumps({**top, "data": data}), encoding="utf-8")
    if construct is not None:
        text = construct if isinstance(construct, str) else json.dumps(construct)
        (folder / "construct.json").write_text(text, encoding="utf-8")
    frames = {
        name: [f"File /home/user/net.py, line {number}, in forward, \n y(x)"] for number, name in enumerate(names)
    }
    (folder / "stack.json").write_text(json.dumps(frames if stack is None else stack), encoding="utf-8")
    return folder


def files_in(folder: Path) -> list[str]:
    """Return the names of the files that lie directly in a folder."""
    return sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []


def vis(folder: Path, pattern: str = "*.vis") -> Any:
    """Return the content of the only JSON file of a folder."""
    (path,) = folder.glob(pattern)
    return json.loads(path.read_text(encoding="ascii"))


def rows(folder: Path, columns: str, where: str = "1") -> list[tuple[Any, ...]]:
    """Return rows of the nodes of the only database of a folder, in their order."""
    (path,) = folder.glob("*.vis.db")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        return database.execute(
            f"SELECT {columns} FROM tb_nodes WHERE {where} ORDER BY step, rank, data_source DESC, node_order"
        ).fetchall()
