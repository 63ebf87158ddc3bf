"""Decide which files of a dump count: selected executions and nodes, and one of several files for the same thing."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

from msgspec import Struct

from probe_flow.errors import Diagnostic, Severity
from probe_flow.files.walk import DumpFile
from probe_flow.records import Catalog, Execution, Problem

Duplicates = Literal["newest", "largest", "first"]
Item = TypeVar("Item")

_MAX_EXECUTIONS = 8
_MAX_NAMES = 5
_WORDS = {
    "newest": "the newest",
    "largest": "the largest, or the first by name of several as large",
    "first": "the first by name",
}


class Selection(Struct, frozen=True):
    """What `select:` asks for; None selects everything.

    An execution whose rank, step or graph id the dump does not tell is never excluded by that key: see `unanswered`.
    Keys that left an execution out are noted in ``left_out``: to ask for all that a dump holds is to ask for no part.
    """

    ranks: Sequence[int] | None = None
    steps: Sequence[int] | None = None
    graphs: Sequence[int | str] | None = None
    nodes: Sequence[str] | None = None
    left_out: set[str] = set()

    def takes_execution(self, rank: int | None, step: int | None, graph: int | str | None) -> bool:
        asked = ("ranks", self.ranks, rank), ("steps", self.steps, step), ("graphs", self.graphs, graph)
        against = [key for key, wanted, own in asked if wanted is not None and own is not None and own not in wanted]
        self.left_out.update(against)
        return not against

    def node_filter(self) -> Callable[[str], bool]:
        """Return the test of node names: any of the glob patterns, case matters."""
        if self.nodes is None:
            return lambda _name: True
        pattern = re.compile("|".join(fnmatch.translate(glob) for glob in self.nodes) or r"(?!)")
        return lambda name: pattern.match(name) is not None

    def unanswered(self, executions: Iterable[Execution]) -> Iterator[Problem]:
        """Yield PF3217 for each key that executions which were read do not answer, so that it cannot narrow them."""
        read = tuple(executions)
        graphs = [each.model if each.graph is None else each.graph for each in read]
        answers = (
            ("ranks", self.ranks, [each.rank for each in read]),
            ("steps", self.steps, [each.step for each in read]),
            ("graphs", self.graphs, graphs),
        )
        for key, wanted, told in answers:
            silent = told.count(None)
            if wanted is not None and silent:
                yield _unanswered(key, silent, len(told))

    def as_attrs(self) -> dict[str, object]:
        """Return the keys that are set, for `Catalog.attrs`: a matcher must not call filtered tensors missing."""
        keys = {"ranks": self.ranks, "steps": self.steps, "graphs": self.graphs, "nodes": self.nodes}
        asked = {name: tuple(values) for name, values in keys.items() if values is not None}
        return {**asked, "left_out": tuple(sorted(self.left_out))} if asked else {}


EVERYTHING = Selection()


def selected_nodes(catalog: Catalog) -> Sequence[str] | None:
    """Return the glob patterns of the nodes that were asked for when a dump was read; None for all."""
    select = catalog.attrs.get("select")
    return select.get("nodes") if isinstance(select, Mapping) else None


def is_part(catalog: Catalog) -> bool:
    """Return True for a dump of which a selection left executions out, or takes some nodes only."""
    select = catalog.attrs.get("select")
    return isinstance(select, Mapping) and ("nodes" in select or bool(select.get("left_out")))


def choose(
    items: Sequence[Item], rule: Duplicates, *, timestamp: Callable[[Item], int], size: Callable[[Item], int]
) -> Item:
    """Return the item that counts; `items` are in name order and the first of equals wins."""
    if rule == "newest":
        return max(items, key=timestamp)
    if rule == "largest":
        return max(items, key=size)
    return items[0]


def left_out_duplicate(file: DumpFile, chosen: DumpFile, rule: Duplicates) -> Problem:
    """Report a file that another one of the same operator stands in for."""
    return Diagnostic(
        "PF3206",
        f"`{file.relative}` is left out: `{chosen.name}` holds the same operator and is {_WORDS[rule]}",
        severity=Severity.WARNING,
        help="choose with `duplicates: newest`, `largest` or `first`; dump into an empty folder to avoid it",
        path=file.relative,
    )


def other_values(files: Sequence[DumpFile], chosen: DumpFile, rule: Duplicates) -> Problem:
    """Report the files of one tensor that count for nothing beside the chosen one."""
    others = [f"`{file.name}`" for file in files if file is not chosen]
    more = f" and {len(others) - _MAX_NAMES} more" if len(others) > _MAX_NAMES else ""
    return Diagnostic(
        "PF3206",
        f"of {len(files)} values of one tensor `{chosen.name}` counts, {_WORDS[rule]}; {', '.join(others[:_MAX_NAMES])}"
        f"{more} {'is another turn' if len(others) == 1 else 'are other turns'} of a loop, or of another run",
        severity=Severity.WARNING,
        help="choose with `duplicates: newest`, `largest` or `first`; the folders of a debugger (`dump.tfdbg`) tell "
        "turns from runs",
        path=chosen.relative,
    )


def one_execution(one: Sequence[str], other: Sequence[str], what: str, execution: Execution) -> Problem:
    """Report two folders that would be one execution; what their paths end with alike says nothing.

    Args:
        one, other: names of the folders, from the path that was given.
        what: lies in them, e.g. ``device files``.
        execution: that both would be.
    """
    alike = next((n for n, (a, b) in enumerate(zip(reversed(one), reversed(other), strict=False)) if a != b), 0)
    first, second = sorted("/".join(folders[: len(folders) - alike]) or "." for folders in (one, other))
    return Diagnostic(
        "PF3303",
        f"the {what} in `{first}` and `{second}` cannot be told apart: both are {execution}",
        help="give one of the two folders as `path`",
        path=second,
    )


def keeps_no_execution(held: Iterable[Execution]) -> Diagnostic:
    """Report a selection that takes none of the executions of a dump."""
    texts = [f"{each} (model `{each.model}`)" if each.model else str(each) for each in dict.fromkeys(held)]
    return Diagnostic(
        "PF3304",
        "`select` keeps nothing of the dump",
        help=f"the dump holds {_some(texts, _MAX_EXECUTIONS)}",
    )


def keeps_no_node(names: Iterable[str]) -> Diagnostic:
    """Report a selection that takes none of the operators of a dump."""
    texts = [f"`{name}`" for name in dict.fromkeys(names)]
    return Diagnostic(
        "PF3304",
        "`select.nodes` keeps nothing of the dump",
        help=f"the dump holds {len(texts)} operators, such as {', '.join(texts[:_MAX_NAMES])}",
    )


def _some(texts: Sequence[str], limit: int) -> str:
    return ", ".join(texts[:limit]) + (f" and {len(texts) - limit} more" if len(texts) > limit else "")


def _unanswered(key: str, silent: int, total: int) -> Problem:
    what = key.removesuffix("s")
    if silent == total:
        message = f"the selection of {key} narrows nothing: the folders do not tell the {what}, so all of them are read"
    else:
        message = f"the selection of {key} leaves out none of the {silent} executions whose folders tell no {what}"
    help_text = f"leave it out if the dump is of the {what} that you mean, else give the folder of that {what}"
    return Diagnostic("PF3217", message, severity=Severity.WARNING, help=help_text)
