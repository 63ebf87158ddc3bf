"""What the questions to a stored run share: where they look, how names are found, numbers of its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from heapq import nlargest
from typing import Any, NamedTuple

from msgspec import Struct

from probe_flow.errors import Diagnostic, IncompleteError, UsageError, did_you_mean
from probe_flow.record.json_values import number
from probe_flow.record.places import InExecution, Place
from probe_flow.record.run_folder import NodeParts, StoredRun
from probe_flow.record.types.rows import RowRecord
from probe_flow.records import Phase


class Identity(NamedTuple):
    """One call of a node in one execution of one comparison; the comparison is None where a run has only one."""

    comparison: str | None
    rank: int | None
    graph: int | str | None
    step: int | None
    node: str
    call: int
    phase: Phase


_SHOWN = 8
"""Ranks or steps that a message lists."""

MAX_COMPARED = 2000
"""Names that an unknown one is compared with, letter by letter."""

_UNCLEAN = re.compile(r"[^A-Za-z0-9_]")


class Scope(Struct, frozen=True):
    """Which part of a run a question is about; None = all of it.

    Args:
        comparison: stage that compared.
        rank, step: as the records have them.
        graph: id as text, because some dumps have numbers and some have words.
        call: of nodes and tensors that are asked for by name.
    """

    comparison: str | None = None
    rank: int | None = None
    step: int | None = None
    graph: str | None = None
    call: int | None = None

    @property
    def narrows(self) -> bool:
        """Whether rank, step or graph leave anything out."""
        return (self.rank, self.step, self.graph) != (None, None, None)

    def keeps(self, record: InExecution) -> bool:
        """Return True if a row or a node lies in it; the comparison is chosen where records are read."""
        return (
            (self.rank is None or record.rank == self.rank)
            and (self.step is None or record.step == self.step)
            and (self.graph is None or str(record.graph) == self.graph)
        )

    def keeps_call(self, record: InExecution, call: int) -> bool:
        """Return True if a call of a node lies in it."""
        return self.call in (None, call) and self.keeps(record)

    def check(self, run: StoredRun) -> None:
        """Refuse a rank or step that a run has not: an answer about it would read as if all were well there.

        Ids of graphs are each side's own, and rows have those of the target, so that they are not checked.

        Raises:
            UsageError: PF7201 no row lies in it; PF7114 no such stage compared.
        """
        asked = {"rank": self.rank, "step": self.step}
        if all(value is None for value in asked.values()):
            return
        known: list[InExecution] = []
        with suppress(IncompleteError):  # what answers the question says so
            for rows in run.stored_rows(comparison=self.comparison):
                known += rows.index.executions
        if not known or any(map(Scope(rank=self.rank, step=self.step).keeps, known)):
            return
        words = ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
        there = "; ".join(f"{name}: {_some({getattr(each, name) for each in known})}" for name in asked)
        message = f"this run compared nothing of {words}"
        raise UsageError(Diagnostic("PF7201", message, path=str(run.folder), help=f"it has {there}"))


EVERYWHERE = Scope()


def _some(values: set[int | None]) -> str:
    numbers = sorted(value for value in values if value is not None)
    shown = [str(number) for number in numbers[:_SHOWN]] or ["none"]
    return ", ".join(shown) + (" and more" if numbers[_SHOWN:] else "")


class NamesFound(Struct, frozen=True):
    """Names that a user's words mean.

    Args:
        names: in their order of appearance.
        how: ``exact``, ``cleaned`` (equal but for characters that file names cannot hold) or ``part``.
    """

    names: tuple[str, ...]
    how: str


def find_names(wanted: str, names: Iterable[str], *, what: str, path: str) -> NamesFound:
    """Return the names that are meant: the one itself, else those equal when cleaned, else those that contain it.

    Args:
        wanted: what the user wrote.
        names: all there are.
        what: ``node`` or ``tensor``, for the message.
        path: folder of the run, for the message.

    Raises:
        UsageError: PF7201 when no name fits.
    """
    known = list(dict.fromkeys(names))
    if wanted in known:
        return NamesFound((wanted,), "exact")
    clean = cleaned(wanted)
    same = tuple(name for name in known if len(name) == len(clean) and cleaned(name) == clean)
    if same:
        return NamesFound(same, "cleaned")
    fold = clean.casefold()
    words = [*filter(None, fold.split("_"))]
    if words:
        likely = (name for name in known if all(map(name.casefold().__contains__, words)))  # to clean takes longer
        parts = tuple(name for name in likely if fold in cleaned(name).casefold())
        if parts:
            return NamesFound(parts, "part")
    raise UsageError(
        Diagnostic(
            "PF7201",
            f"there is no {what} `{wanted}` in this run",
            path=path,
            help=_near(wanted, known) or f"`probe-flow show {path} --verdict fail` lists rows with their names",
        )
    )


def _near(wanted: str, known: Sequence[str]) -> str | None:
    """Return names that are alike: as a whole, else in the part that a person remembers."""
    short: dict[str, str] = {}
    for name in known:
        for part in (name.rpartition("/")[2], *name.replace("/", ".").split(".")):
            short.setdefault(part.casefold(), name)
    found = did_you_mean(wanted, _likeliest(wanted, known))
    if found is not None:
        return found
    parts = get_close_matches(wanted.rpartition("/")[2].casefold(), short, n=3, cutoff=0.7)
    return "did you mean " + " or ".join(f"`{short[part]}`" for part in parts) + "?" if parts else None


def _likeliest(wanted: str, names: Sequence[str]) -> Sequence[str]:
    """Return the names that share the most runs of three letters: comparing all of a large run takes minutes."""
    if len(names) <= MAX_COMPARED:
        return names
    runs = {wanted[start : start + 3] for start in range(max(1, len(wanted) - 2))}
    return nlargest(MAX_COMPARED, names, key=lambda name: sum(run in name for run in runs))


def cleaned(name: str) -> str:
    """Return a name as file names of dumps hold it: whatever is no letter, digit or underscore becomes one."""
    return _UNCLEAN.sub("_", name)


def identity(row: RowRecord | NodeParts) -> Identity:
    """Return which call of which node a row or a node is of."""
    return Identity(row.comparison, row.rank, row.graph, row.step, row.node, row.call, row.phase)


def place(known: Identity, name: str) -> dict[str, Any]:
    """Return an identity as the keys of a record, with the name that the node has in its dump.

    Without the comparison where a run has only one.
    """
    stage = {} if known.comparison is None else {"comparison": known.comparison}
    return {
        **stage,
        "rank": known.rank,
        "graph": known.graph,
        "step": known.step,
        "node": known.node,
        "name": name,
        "call": known.call,
        "phase": known.phase.value,
    }


def placed(known: Identity, name: str, op_type: str) -> Place:
    """Return an identity as facts are told of it, with the name that the node has in its dump."""
    return Place(known.rank, known.graph, known.step, known.node, name, known.call, known.phase, op_type)


def metric_of(row: RowRecord, metric: str) -> float | None:
    """Return a metric of a row as a number; None when it is not computable or the row has none."""
    return number(row.metrics.get(metric))
