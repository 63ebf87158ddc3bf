"""Which nodes of a model a dump holds, by patterns of their names and types."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec import Struct

_WILDCARDS = frozenset("*?[")


class NodeFilter(Struct, frozen=True):
    """Which nodes are dumped. Capitals do not matter; a text without wildcard may stand anywhere in the name.

    Args:
        include: patterns of node names, one of which must fit; empty = every name.
        exclude: patterns of node names, none of which may fit.
        types: patterns of types of operators; empty = every type.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    types: tuple[str, ...] = ()

    def takes(self, name: str, op_type: str) -> bool:
        """Return True if a node is dumped.

        >>> NodeFilter(include=("MM",), types=("Mat*",)).takes("addmm_1", "MatMul")
        True
        """
        if self.include and not _fits(name, self.include):
            return False
        if self.types and not _fits(op_type, self.types):
            return False
        return not _fits(name, self.exclude)


def _fits(name: str, patterns: Sequence[str]) -> bool:
    name = name.lower()
    for pattern in patterns:
        wanted = pattern.lower()
        if fnmatchcase(name, wanted) if _WILDCARDS & set(wanted) else wanted in name:
            return True
    return False
