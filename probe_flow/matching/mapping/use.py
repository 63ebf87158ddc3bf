"""Warnings about entries of mapping files that were of no use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from probe_flow.errors import Diagnostic, Severity
from probe_flow.mappings.mapping_file import Entry

MAX_WARNINGS = 100
"""Warnings about one file that are given one by one."""


def useless(
    what: str, entry: Entry, nearest: Sequence[str], *, inside: Sequence[str] = (), side: str = "target"
) -> Diagnostic:
    """Return PF4216: an entry matches no name of the side that it speaks of.

    Args:
        what: the kind of file.
        entry: the entry.
        nearest: names of that side that come near.
        inside: names that hold the text of the entry, but not between dots.
        side: the side.
    """
    cure = f"nearest: {_listed(nearest)}" if nearest else "correct or remove it"
    if inside:
        cure = f"it is a part of {_listed(inside)}, but not between dots: write whole segments"
    return Diagnostic(
        "PF4216",
        f"the {what} entry `{entry.target}` matches nothing in the {side}",
        severity=Severity.WARNING,
        span=entry.span,
        label="no such name",
        help=cure,
    )


def leads_nowhere(what: str, entry: Entry, made: str, nearest: Sequence[str], *, side: str = "target") -> Diagnostic:
    """Return PF4217: what an entry makes of a name of `side` is not on the other side."""
    other = "golden" if side == "target" else "target"
    return Diagnostic(
        "PF4217",
        f"the {what} entry `{entry.target}` leads to `{made}`, which the {other} does not have",
        severity=Severity.WARNING,
        span=entry.span,
        help=f"nearest: {_listed(nearest)}" if nearest else "correct the name on the right, or remove the entry",
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def capped(code: str, entries: Sequence[Entry], warn: Callable[[Entry], Diagnostic]) -> list[Diagnostic]:
    """Return a warning for each of the first entries, and one that counts the others.

    Args:
        code: of the warnings.
        entries: what to warn about.
        warn: makes the warning of one entry.
    """
    found = [warn(entry) for entry in entries[:MAX_WARNINGS]]
    rest = entries[MAX_WARNINGS:]
    if rest:
        message = f"the same holds for {len(rest):,} more entries, from here to {rest[-1].span}"
        found.append(Diagnostic(code, message, severity=Severity.WARNING, span=rest[0].span))
    return found
