"""The third side: which tensor of a high-precision dump is the same value as a golden tensor.

The reference is a dump of the golden's framework, so its names are the golden's: a node is found by rank, graph, step,
name, call and direction, a tensor by its slot. Nothing is inferred; what the reference lacks is judged without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.matching.shared.executions import pair_executions
from probe_flow.records import Catalog, Execution, NodeKey, Pair, Pairs, TensorRef

EXAMPLES = 5
"""Tensors named in the note about those that the reference lacks."""


def with_reference(pairs: Pairs, reference: Catalog) -> Pairs:
    """Return the pairs with the tensor of the reference that belongs to each golden tensor.

    Coverage does not change: a golden tensor that the reference lacks is a note (PF4031), an execution too (PF4032).

    Raises:
        UsageError: PF4030 if the reference is a dump of another framework than the golden.
        IncompleteError: PF4034 if none of the golden tensors is in the reference.
    """
    golden = pairs.golden
    _check_framework(golden, reference)
    runs = pair_executions(golden.executions, reference.executions, pair_ranks=None, step_offset=0).golden_of
    found = dict(_partners(golden, reference, runs))
    judged = {id(tensor): tensor for pair in pairs.pairs if (tensor := _judged(pair)) is not None}
    lacking = [tensor for key, tensor in judged.items() if key not in found]
    if golden.tensors and not found:
        raise IncompleteError(_nothing_in_common(golden, reference))
    return replace(
        pairs,
        pairs=tuple(_with_partner(pair, found) for pair in pairs.pairs),
        reference=reference,
        problems=(*pairs.problems, *_notes(pairs, reference, runs, lacking)),
    )


def _partners(
    golden: Catalog, reference: Catalog, runs: Mapping[Execution, Execution]
) -> Iterator[tuple[int, TensorRef]]:
    """Yield the identity of each golden tensor that the reference has, with the reference's tensor."""
    theirs = {(tensor.node, tensor.slot): tensor for tensor in reference.tensors}
    keys: dict[NodeKey, NodeKey] = {}
    for tensor in golden.tensors:
        node = tensor.node
        run = runs.get(node.execution)
        if run is None:
            continue
        key = keys.get(node)
        if key is None:
            key = keys[node] = NodeKey(run, node.name, node.call, node.phase)
        partner = theirs.get((key, tensor.slot))
        if partner is not None:
            yield id(tensor), partner


def _with_partner(pair: Pair, found: Mapping[int, TensorRef]) -> Pair:
    partner = found.get(id(pair.golden)) if pair.golden is not None else None
    return pair if partner is None else pair.judged_by(partner)


def _judged(pair: Pair) -> TensorRef | None:
    """Return the golden tensor of a pair that a reference would judge: of two sides with numbers, not within one."""
    if pair.target is None or pair.golden is None or pair.rule.is_self:
        return None
    return pair.golden if pair.target.has_numbers and pair.golden.has_numbers else None


def _check_framework(golden: Catalog, reference: Catalog) -> None:
    if golden.framework == reference.framework:
        return
    raise UsageError(
        Diagnostic(
            "PF4030",
            f"the reference `{reference.side}` is a `{reference.framework.name}` dump, the golden `{golden.side}` a "
            f"`{golden.framework.name}` dump",
            help="dump the golden's model once more in high precision and read it with the golden's dump stage",
            path=reference.root,
        )
    )


def _nothing_in_common(golden: Catalog, reference: Catalog) -> Diagnostic:
    return Diagnostic(
        "PF4034",
        f"the reference `{reference.side}` has none of the {len(golden.tensors)} tensors of the golden `{golden.side}`",
        help="check that both are dumps of the same model and graph; names must be equal",
        path=reference.root,
    )


def _notes(
    pairs: Pairs, reference: Catalog, runs: Mapping[Execution, Execution], lacking: Sequence[TensorRef]
) -> Iterator[Diagnostic]:
    for side in (pairs.target, pairs.golden):
        if side.root and (side.root, side.attrs.get("file")) == (reference.root, reference.attrs.get("file")):
            yield Diagnostic(
                "PF4033",
                f"the reference is the folder of `{side.side}`, `{side.root}`",
                severity=Severity.WARNING,
                help="dump the golden's model in high precision into a folder of its own",
                path=reference.root,
            )
    absent = [str(run) for run in pairs.golden.executions if run not in runs]
    if absent:
        yield Diagnostic(
            "PF4032",
            f"the reference has no {_listed(absent)} of the golden: judged without it",
            severity=Severity.NOTE,
            help="dump the same ranks, graphs and steps in high precision",
            path=reference.root,
        )
    lone = [tensor for tensor in lacking if tensor.node.execution in runs]
    if lone:
        names = [f"`{tensor.id}`" for tensor in lone]
        yield Diagnostic(
            "PF4031",
            f"the reference lacks {len(lone)} tensor{'s' if len(lone) > 1 else ''} that the golden has: "
            f"{_listed(names)}; judged without it",
            severity=Severity.NOTE,
            help="nothing to do if precision is the only difference; else dump the same nodes on both sides",
            path=reference.root,
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - EXAMPLES} more" if len(names) > EXAMPLES else ""
    return ", ".join(names[:EXAMPLES]) + more
