"""Everything that matching an offline dump has decided so far, over all executions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.device.joined_slices import NOT_JOINED
from probe_flow.errors import Diagnostic, Span
from probe_flow.matching.offline.align import Aligned
from probe_flow.matching.offline.reasons import dtype_unsupported, slices_missing
from probe_flow.matching.shared.vocabulary import CommonReason, CommonRule
from probe_flow.records import Catalog, Edge, Group, Node, NodeKey, Pair, Pairs, Reason, Rule, TensorKind, TensorRef


class Ledger(Struct):
    """Pairs and groups, and tensors whose logical shape only the match knows.

    Tensors are told apart by identity, so that a catalog and its pairs hold the same objects in the end.
    """

    pairs: list[Pair] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    unused: list[Diagnostic] = field(default_factory=list)
    nodes: dict[NodeKey, Node] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    _known: dict[int, TensorRef] = field(default_factory=dict)
    _targets: set[int] = field(default_factory=set)
    _goldens: set[int] = field(default_factory=set)

    def pair(
        self,
        target: TensorRef,
        golden: TensorRef,
        aligned: Aligned,
        *,
        group: str,
        rule: Rule,
        span: Span | None = None,
        confidence: float = 1.0,
        note: Reason | None = None,
    ) -> None:
        """Compare two tensors of the dumps as they were aligned."""
        self._targets.add(id(target))
        self._goldens.add(id(golden))
        self.pairs.append(
            Pair.on_terms(
                self._as_known(target, aligned.target),
                aligned.golden if rule.is_self else self._as_known(golden, aligned.golden),
                group,
                rule,
                rule_span=span,
                confidence=confidence,
                reason=_unusable(target) or _unusable(golden) or aligned.problem or note,
                transform=aligned.transform,
            )
        )

    def leave(
        self, ref: TensorRef, reason: Reason, *, group: str, is_target: bool, seen: TensorRef | None = None
    ) -> None:
        """Say why a tensor has no partner; ``seen`` is the tensor with what is known of its shape."""
        (self._targets if is_target else self._goldens).add(id(ref))
        shown = ref if seen is None else self._as_known(ref, seen)
        target, golden = (shown, None) if is_target else (None, shown)
        self.pairs.append(
            Pair.on_terms(target, golden, group, CommonRule.NONE, _unreadable(ref) or reason, confidence=0.0)
        )

    def is_paired(self, ref: TensorRef) -> bool:
        """Whether a golden tensor is in a pair."""
        return id(ref) in self._goldens

    def is_decided(self, ref: TensorRef) -> bool:
        """Whether a target tensor is in a pair."""
        return id(ref) in self._targets

    def finished(self, target: Catalog, golden: Catalog) -> Pairs:
        """Return all pairs, with the catalogs as the match knows them."""
        return Pairs(
            replace(
                target,
                nodes=_joined(target.nodes, self.nodes),
                tensors=self._all(target.tensors),
                edges=tuple(self.edges) or target.edges,
            ),
            replace(golden, tensors=self._all(golden.tensors)),
            tuple(self.pairs),
            groups=tuple(self.groups),
            problems=tuple(self.problems),
            unused=tuple(self.unused),
        )

    def _as_known(self, ref: TensorRef, seen: TensorRef) -> TensorRef:
        """Return one object for equal views of a tensor; the first view is the catalog's."""
        known = self._known.setdefault(id(ref), seen)
        return known if known == seen else seen

    def _all(self, refs: Iterable[TensorRef]) -> tuple[TensorRef, ...]:
        return tuple(self._known.get(id(ref), ref) for ref in refs)


def _joined(nodes: Mapping[NodeKey, Node], told: Mapping[NodeKey, Node]) -> dict[NodeKey, Node]:
    """Return the nodes with what the rules tell of them, and behind them the operators that were not dumped."""
    return {key: told.get(key, node) for key, node in nodes.items()} | {
        key: node for key, node in told.items() if key not in nodes
    }


def _unusable(ref: TensorRef) -> Reason | None:
    """Return why a tensor that has a partner cannot be measured."""
    reason = _unreadable(ref)
    return dtype_unsupported(ref.stored_dtype) if reason is None and ref.kind is TensorKind.OPAQUE else reason


def _unreadable(ref: TensorRef) -> Reason | None:
    if ref.reason is not None and ref.reason.startswith(NOT_JOINED):
        return slices_missing()
    return (
        CommonReason.UNREADABLE.missing(ref.reason or "it cannot be read")
        if ref.kind is TensorKind.UNREADABLE
        else None
    )
