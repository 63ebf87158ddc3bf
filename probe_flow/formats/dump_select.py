"""Decide which files of a dump count: selected executions and nodes, and one of several files for the same thing."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from probe_flow.errors import Diagnostic, Severity
from probe_flow.formats.dump_walk import DumpFile
from probe_flow.records import Problem

Duplicates = Literal["newest", "largest", "first"]
Item = TypeVar("Item")

_WORDS = {"newest": "the newest", "largest": "the largest", "first": "the first by name"}


@dataclass(frozen=True, slots=True)
class Selection:
    """What `select:` asks for; None selects everything.

    An execution whose rank, step or graph id the dump does not tell is never excluded by that key.
    """

    ranks: Sequence[int] | None = None
    steps: Sequence[int] | None = None
    graphs: Sequence[int | str] | None = None
    nodes: Sequence[str] | None = None

    def takes_execution(self, rank: int | None, step: int | None, graph: int | str | None) -> bool:
        return (
            (self.ranks is None or rank is None or rank in self.ranks)
            and (self.steps is None or step is None or step in self.steps)
            and (self.graphs is None or graph is None or graph in self.graphs)
        )

    def node_filter(self) -> Callable[[str], bool]:
        """Return the test of node names: any of the glob patterns, case matters."""
        if self.nodes is None:
            return lambda _name: True
        pattern = re.compile("|".join(fnmatch.translate(glob) for glob in self.nodes) or r"(?!)")
        return lambda name: pattern.match(name) is not None

    def as_attrs(self) -> dict[str, object]:
        """Return the keys that are set, for `Catalog.attrs`: a matcher must not call filtered tensors missing."""
        keys = {"ranks": self.ranks, "steps": self.steps, "graphs": self.graphs, "nodes": self.nodes}
        return {name: tuple(values) for name, values in keys.items() if values is not None}


EVERYTHING = Selection()


def choose(
    items: Sequence[Item], rule: Duplicates, *, timestamp: Callable[[Item], int], size: Callable[[Item], int]
) -> Item:
    """Return the item that counts; `items` are in name order and the first of equals wins."""
    if rule == "newest":
        return max(items, key=timestamp)
    if rule == "largest":
        return max(items, key=size)
    return items[0]


def skipped_duplicate(file: DumpFile, chosen: DumpFile, rule: Duplicates) -> Problem:
    """Report a file that another one of the same operator stands in for."""
    return Diagnostic(
        "PF3206",
        f"`{file.relative}` is skipped: `{chosen.name}` holds the same operator and is {_WORDS[rule]}",
        severity=Severity.WARNING,
        help="choose with `duplicates: newest`, `largest` or `first`; dump into an empty folder to avoid it",
        path=file.relative,
    )
