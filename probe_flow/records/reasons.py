"""Why a pair is what it is: the rule that made it.

A matcher family declares its own in its wing (`matching/*/vocabulary.py`). Nobody else compares their names: what other
floors need to know is a property here.
"""

from __future__ import annotations

from msgspec import Struct


class Rule(Struct, frozen=True, gc=False):
    """How a pair was made.

    Args:
        name: as published.
        is_self: both tensors are of the target: what an operator wrote is compared with what it read, and nothing is
            learned of the golden.
        is_inner: the target's tensor is of an operator that carries none of the tensors of the originals that it is a
            part of.
    """

    name: str
    is_self: bool = False
    is_inner: bool = False


SELF = Rule("self", is_self=True)
