"""A suggested layer mapping as YAML, with what a reviewer wants to know as comments."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from probe_flow.matching.structure.layer_mapping import SuggestedEntry, Suggestion
from probe_flow.records import GUESS

MAX_LISTED = 20
"""Modules without partner, and conflicts, that are listed one by one."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf"})


def layer_mapping_text(suggestion: Suggestion, *, target: str, golden: str) -> str:
    """Return the text of the file.

    Args:
        suggestion: the mapping.
        target, golden: the dumps, for people.
    """
    return "\n".join(_lines(suggestion, target, golden)) + "\n"


def _lines(suggestion: Suggestion, target: str, golden: str) -> Iterator[str]:
    yield "# Layer mapping suggested by `probe-flow suggest-mapping`: review it before you use it."
    yield f"# target: {_comment(target)}"
    yield f"# golden: {_comment(golden)}"
    yield "# Per class of the target: what its children are called in the golden. Layers of equal names need no entry."
    for owner, entries in suggestion.classes.items():
        yield f"{_scalar(owner)}:"
        for entry in entries:
            yield from _entry(entry)
    rejected = [
        f"{owner}: {'.'.join(entry.child)} -> {'.'.join(entry.partner)}: {entry.note}"
        for owner, entry in suggestion.rejected
    ]
    yield from _listed("CHECK, left out because the values of the dumps contradict it:", rejected)
    yield from _listed("Not paired:", [f"{name}: {why}" for name, why in suggestion.unpaired])
    yield from _listed("Paired, but a layer mapping cannot say so:", list(suggestion.conflicts))


def _entry(entry: SuggestedEntry) -> Iterator[str]:
    if entry.confidence <= GUESS:
        yield f"  # CHECK: {_comment(entry.note or 'this is a guess')}"
    places = "1 place" if entry.uses == 1 else f"{entry.uses} places"
    key, value = _scalar(".".join(entry.child)), _scalar(".".join(entry.partner))
    yield f"  {key}: {value}  # confidence {entry.confidence:g}, {places}"


def _listed(title: str, texts: list[str]) -> Iterator[str]:
    if not texts:
        return
    yield f"# {title}"
    for text in texts[:MAX_LISTED]:
        yield f"#   {_comment(text)}"
    if len(texts) > MAX_LISTED:
        yield f"#   and {len(texts) - MAX_LISTED} more"


def _scalar(text: str) -> str:
    """Return text as a YAML scalar that every YAML reader takes for text."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text)


def _comment(text: str) -> str:
    """Return text that cannot leave its line."""
    return "".join(char if char.isprintable() else " " for char in text)
