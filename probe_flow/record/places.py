"""Names, places and numbers as people read them: ``Add_2 (AddV2)``, ``rank 0, step 1``, what a terminal can show."""

from __future__ import annotations

import re
import unicodedata
from typing import Protocol

from msgspec import Struct

from probe_flow.records import Phase, SlotRole

MAX_WORD_SHOWN = 255
"""Characters of a word in texts for people, as many as the name of a file has; files for programs have all."""

_LONG_WORD = re.compile(rf"\S{{{MAX_WORD_SHOWN + 1},}}")

_NEAR_ONE = 0.99

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: object) -> str:
    r"""Return a text that a terminal shows as it is: control and invisible characters become ``\x1b`` and the like.

    Names come from untrusted dumps; an escape sequence in one must not reach the terminal.
    """
    shown = str(text)
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(_escaped(char) if unicodedata.category(char) in _HIDDEN_CATEGORIES else char for char in shown)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def readable(text: object) -> str:
    """Return a text as `printable` has it; of a word that is longer than any file's name, its beginning and its end."""
    found = printable(text)
    return found if len(found) <= MAX_WORD_SHOWN else _LONG_WORD.sub(_ends, found)


def _ends(word: re.Match[str]) -> str:
    half = (MAX_WORD_SHOWN - 3) // 2
    return f"{word[0][:half]}...{word[0][-half:]}"


def figure(value: object) -> str:
    """Return a number of run.json in four digits (six just below 1, for cosines), anything else as its text."""
    if not isinstance(value, float):
        return printable(value)
    return f"{value:.6g}" if _NEAR_ONE <= value < 1.0 else f"{value:.4g}"


class InExecution(Protocol):
    """What is of an execution: rows, nodes, findings."""

    @property
    def rank(self) -> int | None: ...
    @property
    def graph(self) -> int | str | None: ...
    @property
    def step(self) -> int | None: ...


class Placed(InExecution, Protocol):
    """What names a call of a node: findings and rows do."""

    @property
    def node(self) -> str | None: ...
    @property
    def name(self) -> str | None: ...
    @property
    def call(self) -> int | None: ...
    @property
    def phase(self) -> Phase | None: ...
    @property
    def op_type(self) -> str | None: ...


class PlacedTensor(Placed, Protocol):
    """What names a tensor of a node too."""

    @property
    def direction(self) -> SlotRole | None: ...
    @property
    def index(self) -> str | None: ...


class Place(Struct, frozen=True, gc=False):
    """A tensor's place, as rows and findings have it; what is not known is None."""

    rank: int | None = None
    graph: int | str | None = None
    step: int | None = None
    node: str | None = None
    name: str | None = None
    call: int | None = None
    phase: Phase | None = None
    op_type: str | None = None
    direction: SlotRole | None = None
    index: str | None = None


def where(place: Placed) -> str:
    """Return ``rank 0, graph 1, step 0``, with the call and the direction where they say something."""
    call = (f"call {place.call}",) if place.call else ()
    backward = ("backward",) if place.phase is Phase.BACKWARD else ()
    return printable(", ".join((*_execution_parts(place), *call, *backward)))


def execution(place: Placed) -> str:
    """Return ``rank 0, graph 1, step 0``."""
    return printable(", ".join(_execution_parts(place)))


def _execution_parts(place: Placed) -> list[str]:
    parts = (("rank", place.rank), ("graph", place.graph), ("step", place.step))
    return [f"{name} {value}" for name, value in parts if value is not None]


def slot(place: PlacedTensor) -> str:
    """Return ``output 0``, or nothing for a place without a tensor."""
    if place.direction is None:
        return ""
    return printable(f"{place.direction.value} {place.index or ''}".strip())


def operator(place: Placed) -> str:
    """Return ``Add_2 (AddV2)``."""
    name = readable(place.node or "the whole run")
    return f"{name} ({readable(place.op_type)})" if place.op_type else name


def in_dump(place: Placed) -> str:
    """Return the name of the node's entry in its dump; empty where that is the node's name, or not known."""
    return "" if place.name is None or place.name == place.node else readable(place.name)


def with_entry(text: str, place: Placed) -> str:
    """Return the cell of a table that names a node, with the name of its entry in brackets where that is another."""
    entry = in_dump(place)
    return f"{text} [{entry}]" if entry else text


def entry_title(word: str, *, has_entries: bool) -> str:
    """Return the heading of a column of `with_entry`, which says what brackets are where there are any."""
    return f"{word} [in the dump]" if has_entries else word


def sentence_place(place: PlacedTensor) -> str:
    """Return ``Add_2 (AddV2), output 0, rank 0``, with the name of the node's entry where that is another."""
    entry = in_dump(place)
    parts = (operator(place), slot(place), where(place), f"in the dump {entry}" if entry else "")
    return ", ".join(filter(None, parts))
