"""Dumps whose API calls are checked alone, written by the format's description, and the tables that a check leaves."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STAND_INS = Path(__file__).parent / "stand_in_frameworks"

Element = dict[str, Any]


def tensor(*shape: int, dtype: str = "Float32", low: Any = -1.0, high: Any = 1.0, **more: Any) -> Element:
    """An element of a dump: a tensor."""
    return {"type": "mindspore.Tensor", "dtype": dtype, "shape": list(shape), "Max": high, "Min": low, **more}


def forward(*args: Any, outputs: Sequence[Any] | None = None, **kwargs: Any) -> Element:
    """A forward entry."""
    return {"input_args": list(args), "input_kwargs": kwargs, "output": list(outputs or [tensor(4)])}


def backward(incoming: Sequence[Any], results: Sequence[Any]) -> Element:
    """A backward entry."""
    return {"input": list(incoming), "output": list(results)}


def one(value: Any) -> Element:
    """An element of a dump: a number or a text."""
    return {"type": type(value).__name__, "value": value}


def write_dump(folder: Path, entries: Mapping[str, Element], **fields: Any) -> Path:
    """Write a dump.json, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    top = {"task": "statistics", "level": "L1", "framework": "mindspore", "dump_data_dir": None, **fields}
    kept = {name: value for name, value in top.items() if value is not ...}
    (folder / "dump.json").write_text(json.dumps({**kept, "data": dict(entries)}, indent=1))
    return folder / "dump.json"


def plain_calls(count: int, api: str = "add", elements: int = 4) -> dict[str, Element]:
    """Calls that pass, numbered from 0."""
    return {
        f"Mint.{api}.{number}.forward": forward(*[tensor(elements)] * (1 + (api == "add"))) for number in range(count)
    }


@dataclass(frozen=True)
class Tables:
    """The two tables of a check.

    Args:
        result, details: their paths.
    """

    result: Path
    details: Path

    @property
    def bytes(self) -> tuple[bytes, bytes]:
        return self.result.read_bytes(), self.details.read_bytes()

    @property
    def states(self) -> dict[str, tuple[str, str]]:
        """Of each call, in order, what became of its two directions."""
        return {row[0]: (row[1], row[2]) for row in self.rows(self.result)}

    @property
    def messages(self) -> dict[str, str]:
        return {row[0]: row[3] for row in self.rows(self.result)}

    @property
    def outputs(self) -> dict[str, list[str]]:
        """Of each result, in order, its other cells."""
        return {row[0]: row[1:] for row in self.rows(self.details)}

    @staticmethod
    def rows(path: Path) -> list[list[str]]:
        text = path.read_bytes().decode("utf-8-sig")
        return list(csv.reader(io.StringIO(text, newline="")))[1:]


def tables_in(folder: Path) -> Tables:
    """Return the only pair of tables in a folder."""
    (result,) = folder.glob("accuracy_checking_result_*.csv")
    (details,) = folder.glob("accuracy_checking_details_*.csv")
    return Tables(result, details)


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a command that finds the stand-ins before any framework."""
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": f"{STAND_INS}{os.pathsep}{root}", **more}
