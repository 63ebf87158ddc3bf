"""The record behind one diagnostic code."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """What `probe-flow explain` says of a code.

    Args:
        id: ``PFnnnn``; never reused, never changes meaning.
        title: the problem in a few words.
        cause: how it comes about.
        example: input or output that shows it.
        cure: what to do.
    """

    id: str
    title: str
    cause: str
    example: str
    cure: str
