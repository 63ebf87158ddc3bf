"""The names under which two sides meet: a mapping renames the nodes of either side into a common name space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct, field

from probe_flow.errors import Diagnostic, Span
from probe_flow.records import Catalog, NodeKind, Phase, Rule, Slot, SlotRole

NO_ALIASES: Mapping[str, str] = MappingProxyType({})

GRADIENTS = ".parameters_grad"
"""Ending of the names of nodes that hold the gradients of a module's parameters."""


class Arguments(Struct, frozen=True):
    """Renames the slots of one node.

    Args:
        tables: per direction and role, the position or keyword of a slot -> the common one; a slot that its table does
            not hold is left out of the comparison, a role without table keeps its slots.
    """

    tables: Mapping[tuple[Phase, SlotRole], Mapping[str, str]]

    def common(self, slot: Slot, phase: Phase) -> Slot | None:
        """Return the common slot, None where it is left out."""
        table = self.tables.get((phase, slot.role))
        if table is None:
            return slot
        whole = table.get(slot.index)
        if whole is not None:
            return Slot(slot.role, _path(whole))
        head = table.get(str(slot.path[0])) if slot.path else None
        return Slot(slot.role, (*_path(head), *slot.path[1:])) if head is not None else None

    def lists(self, role: SlotRole, phase: Phase) -> bool:
        """Return whether only what a table holds is compared."""
        return (phase, role) in self.tables


def _path(text: str) -> tuple[int | str, ...]:
    return tuple(int(part) if part.isdecimal() else part for part in text.split("."))


class Named(Struct, frozen=True, gc=False):
    """What a node is called where both sides meet.

    Args:
        name: the common name.
        rule: the mapping that renamed the node; None where it keeps its own name.
        span: the line of the mapping file that did.
        confidence: 1.0 for identity and for what a person wrote, less for guesses.
        arguments: renames its slots; None where they keep their names.
        shown: the common name for people, where ``name`` is none.
        is_wrapper: whether it is a level around modules that the other side has without it.
    """

    name: str
    rule: Rule | None = None
    span: Span | None = None
    confidence: float = 1.0
    arguments: Arguments | None = None
    shown: str = ""
    is_wrapper: bool = False

    @property
    def text(self) -> str:
        """The common name for people."""
        return self.shown or self.name


Rename: TypeAlias = Callable[[str, NodeKind, str | None], Named]
"""Own name of a node, its kind and the name of its parent -> what it is called."""


def own_name(name: str, kind: NodeKind, parent: str | None) -> Named:  # noqa: ARG001
    """Keep the name."""
    return Named(name)


class NameSpace(Struct, frozen=True):
    """How the nodes of both sides are called.

    Args:
        target, golden: rename the nodes of each side.
        aliases: other names of parameters -> the name that both sides understand.
        checks_dtypes: whether tensors of different dtype classes stay unmatched.
        is_mapping: whether frameworks with different APIs may meet here.
        problems: called when all is paired; says what is wrong with the dumps under these names.
        unused: called when all is paired; warns of entries that matched nothing.
        names: of a mapping that states what is compared: whether it names a node, by its common name. None: every node
            is to be compared.
    """

    target: Rename = own_name
    golden: Rename = own_name
    aliases: Mapping[str, str] = field(default_factory=lambda: NO_ALIASES)
    checks_dtypes: bool = True
    is_mapping: bool = False
    problems: Callable[[], list[Diagnostic]] = field(default=list)
    unused: Callable[[], list[Diagnostic]] = field(default=list)
    names: Callable[[str], bool] | None = None


OWN_NAMES = NameSpace()


def is_cross_framework(target: Catalog, golden: Catalog) -> bool:
    """Return whether the sides come from different frameworks."""
    return target.framework.dialect != golden.framework.dialect


def names_of(catalog: Catalog) -> list[tuple[NodeKind, str]]:
    """Return the distinct kinds and names of the nodes of a dump."""
    return list(dict.fromkeys((node.kind or NodeKind.API, key.name) for key, node in catalog.nodes.items()))
