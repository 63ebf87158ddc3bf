"""Why a node has no partner: the condition that failed, and the nearest names of the other side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from probe_flow.matching.alike.operations import family, is_bookkeeping
from probe_flow.matching.name.calls import CallPairs
from probe_flow.matching.name.side import Side
from probe_flow.matching.shared.nearest_names import NearestNames
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Node, NodeKind, Phase, Reason

_MOVING = frozenset(
    {
        *("cat", "columnstack", "concatenate", "dstack", "hstack", "rowstack", "vstack", "unbind"),
        *("repeat", "repeatinterleave", "tile"),
    }
)
"""What puts elements elsewhere or repeats them. PyTorch's collector leaves such calls out unless asked for all."""

_ONLY_KIND = {"L0": NodeKind.MODULE, "L1": NodeKind.API}


class Reasons:
    """Says why nodes of one execution stay alone.

    Args:
        label: the execution, for people.
        mine, other: the side of the nodes, and the other one (None: the execution is not there).
        word: ``golden`` or ``target``, what the other side is called.
        paired: which nodes are paired.
        is_foreign: whether the sides come from different frameworks that meet under a mapping.
        names: of a mapping that states what is compared: whether it names a node, by its common name.
    """

    def __init__(
        self,
        label: str,
        mine: Side,
        other: Side | None,
        word: str,
        paired: CallPairs,
        *,
        is_foreign: bool,
        names: Callable[[str], bool] | None = None,
    ) -> None:
        self._label = label
        self._mine = mine
        self._other = other
        self._word = word
        self._paired, self._theirs = paired.golden_of, paired.target_of
        if word == "target":
            self._paired, self._theirs = self._theirs, self._paired
        self._is_foreign = is_foreign
        self._asks_for = names

    def of(self, number: int) -> Reason:
        """Return the reason of one node."""
        word, node = self._word, self._mine.nodes[number]
        if self._other is None:
            text = f"{self._label} has no counterpart in the {word}"
            return CommonReason.NO_EXECUTION[word].missing(text)
        if number in self._mine.repeats:
            text = f"`{entry_of(node)}` is a recomputed forward, which the {word} does not have"
            return CommonReason.RECOMPUTED.expected(text)
        kind = node.kind
        recorded = _ONLY_KIND.get(self._other.level)
        if recorded is not None and kind in (NodeKind.MODULE, NodeKind.API) and kind is not recorded:
            text = f"the {word} was dumped at level {self._other.level}, which records no {kind.value} calls"
            return CommonReason.NOT_DUMPED.expected(text)
        if (self._mine.names[number], node.key.phase) not in self._names:
            return self._no_name(number, node)
        if (update := self.lone_update(number)) is not None:
            return update
        where = f" in `{node.parent}`" if node.parent else ""
        text = f"no call of `{self._mine.named[number].text}`{where} in the {word} corresponds to `{entry_of(node)}`"
        return CommonReason.NO_CALL[word].missing(text)

    def _no_name(self, number: int, node: Node) -> Reason:
        word, named = self._word, self._mine.named[number]
        direction = "" if node.key.phase is Phase.NONE else f" ({node.key.phase.value})"
        layer = self._layer_around(number) if self._is_foreign else None
        if layer is not None:
            caller = entry_of(self._mine.nodes[layer])
            text = f"the {word} has no `{named.text}`{direction}: it is internal to `{caller}`, which is paired"
            return CommonReason.FRAMEWORK_INTERNAL.expected(text)
        if (update := self.lone_update(number)) is not None:
            return update
        if named.is_wrapper or (self._is_foreign and node.kind is NodeKind.MODULE and self._is_wrapper(number)):
            text = f"`{entry_of(node)}` is a level of modules that the {word} does not have; what it holds is paired"
            return CommonReason.WRAPPER.expected(text)
        if self._is_foreign and node.kind is NodeKind.API and (named.name, node.key.phase) in self._silent:
            text = f"the {word} ran `{named.text}`{direction}, but its dump leaves out the values of such calls"
            return CommonReason.NOT_DUMPED.expected(text)
        if self._is_foreign and node.kind is NodeKind.API and is_bookkeeping(family(node.op_type)):
            text = f"`{entry_of(node)}` changes shape, view or dtype only, which the {word}'s framework does otherwise"
            return CommonReason.FRAMEWORK_INTERNAL.expected(text)
        if self._is_foreign and node.kind is NodeKind.API and (moved := self.left_out_move(number)) is not None:
            return moved
        origin = f" (from `{node.key.name}`{f' by {named.span.brief}' if named.span else ''})" if named.rule else ""
        if self._is_outside(number):
            text = f"the mapping names no `{named.text}`{direction}, and the {word} has none: outside the comparison"
            return CommonReason.OUTSIDE_MAPPING.outside(text)
        near = self._nearest.clause(node.kind, named.text)
        text = f"the {word} has no `{named.text}`{direction}{origin}{near}"
        return CommonReason.NO_NODE[word].missing(text)

    def _layer_around(self, number: int) -> int | None:
        """Return the paired call that a node of another framework is a part of.

        An API is one of the call that made it. Modules, and what they call, are where the counterpart has no modules
        inside: one framework makes of smaller layers what the other has as one (a recurrent layer, a loss). A backward
        call is a part of what its forward is: the callers of gradients are not always recorded.
        """
        mine = self._mine
        forward = mine.forward_of(number)
        if forward in self._paired:
            return None
        number = number if forward is None else forward
        caller = mine.scopes[number]
        if mine.nodes[number].kind is NodeKind.API and isinstance(caller, int) and caller in self._paired:
            return caller
        while isinstance(caller, int) and caller not in self._paired:
            caller = mine.scopes[caller]
        is_one_layer = isinstance(caller, int) and self._paired[caller] not in self._with_modules
        return caller if isinstance(caller, int) and is_one_layer else None

    def _is_wrapper(self, number: int) -> bool:
        """Return True for a module without partner whose calls all have one, or are such modules themselves."""
        forward = self._mine.forward_of(number)
        inside = self._inside.get(number if forward is None else forward, ())
        return bool(inside) and all(each in self._paired or self._is_wrapper(each) for each in inside)

    @cached_property
    def _inside(self) -> Mapping[int, Sequence[int]]:
        """The forward calls that each call made."""
        found: dict[int, list[int]] = {}
        for number in self._mine.numbers(Phase.FORWARD):
            caller = self._mine.scopes[number]
            if isinstance(caller, int):
                found.setdefault(caller, []).append(number)
        return found

    @cached_property
    def _with_modules(self) -> frozenset[int]:
        """The other side's calls that have modules inside."""
        assert self._other is not None
        sides = zip(self._other.nodes, self._other.calls.callers, strict=False)
        return frozenset(caller for node, caller in sides if node.kind is NodeKind.MODULE)

    def _is_outside(self, number: int) -> bool:
        """Return whether a mapping that states what is compared leaves a node out.

        It does not name the node, and at the same place the other side has such nodes as well: names differ there.
        Where it has none, a call is missing, be it because the program ended early.
        """
        return self._is_unnamed(self._mine, number) and self._place(self._mine, number) in self._unnamed_there

    def _is_unnamed(self, side: Side, number: int) -> bool:
        named = side.named[number]
        return self._asks_for is not None and named.span is None and not self._asks_for(named.name)

    def _place(self, side: Side, number: int) -> tuple[object, ...]:
        """Return kind and direction of a node, and its caller on this side where that is paired."""
        node, scope = side.nodes[number], side.scopes[number]
        if side is not self._mine:
            scope = self._theirs.get(scope) if isinstance(scope, int) else None
        elif scope not in self._paired:
            scope = None
        return node.kind, node.key.phase, scope

    @cached_property
    def _unnamed_there(self) -> set[tuple[object, ...]]:
        """The places of the other side's nodes that have no partner and that the mapping does not name."""
        other = self._other
        assert other is not None
        lone = (number for number in range(len(other.nodes)) if number not in self._theirs)
        return {self._place(other, number) for number in lone if self._is_unnamed(other, number)}

    @cached_property
    def _names(self) -> frozenset[tuple[str, Phase]]:
        assert self._other is not None
        return frozenset(zip(self._other.names, (node.key.phase for node in self._other.nodes), strict=True))

    def lone_update(self, number: int) -> Reason | None:
        """Return the reason of a call of an optimizer, where the other framework's dump holds none of its own."""
        other = self._other
        if not self._is_foreign or other is None or number not in self._mine.lone_updates(other):
            return None
        text = f"`{entry_of(self._mine.nodes[number])}` is of the optimizer, no call of which the {self._word} records"
        return CommonReason.NOT_DUMPED.expected(text)

    def left_out_move(self, number: int) -> Reason | None:
        """Return the reason of a call that only moves elements, where the other side records none of that kind."""
        other, node = self._other, self._mine.nodes[number]
        if other is None or family(node.op_type) not in _MOVING or self._records_moves:
            return None
        text = f"`{entry_of(node)}` only moves elements, and the {self._word} records no such calls"
        return CommonReason.NOT_DUMPED.expected(text)

    @cached_property
    def _records_moves(self) -> bool:
        assert self._other is not None
        return any(family(node.op_type) in _MOVING for node in self._other.nodes if node.kind is NodeKind.API)

    @cached_property
    def _silent(self) -> AbstractSet[tuple[str, Phase]]:
        return self._other.silent if self._other is not None else frozenset()

    @cached_property
    def _nearest(self) -> NearestNames:
        assert self._other is not None
        return NearestNames(
            (node.kind, named.text) for node, named in zip(self._other.nodes, self._other.named, strict=True)
        )


def entry_of(node: Node) -> str:
    """Return the entry's own name, or one made of the key."""
    entry = node.entry
    return entry if entry is not None else f"{node.key.name}#{node.key.call}.{node.key.phase.value}"
