"""From the results of a pre-check to pairs: what was tested beside its benchmark, with what was measured of the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from probe_flow.errors import ProbeFlowError
from probe_flow.files.arrays.npy import read_npy_header
from probe_flow.precheck.jobs import Found
from probe_flow.precheck.results import ApiResult, Direction, Output, Side
from probe_flow.precheck.results import Status as CheckStatus
from probe_flow.record.conclusion import BENCHMARK
from probe_flow.records import (
    Catalog,
    Extent,
    Flow,
    Group,
    NodeKey,
    NodeKind,
    Pair,
    Pairs,
    Reason,
    ReasonKind,
    Relation,
    Rule,
    SlotRole,
    Status,
    TensorKind,
    TensorRef,
    entry_name,
    shared_slot,
)
from probe_flow.records.frameworks import PYTORCH
from probe_flow.tensors.encoding import held_as


class PrecheckRule:
    CHECKED = Rule("precheck", is_judged=True)
    OVERFLOW = Rule("precheck", is_judged=True, is_of_overflow=True)
    SKIPPED = Rule("none")


class PrecheckReason:
    WRONG = ReasonKind("precheck_error", verdict=Status.FAIL)
    DOUBTFUL = ReasonKind("precheck_warning", verdict=Status.WARNING)
    FALLBACK = ReasonKind("precheck_fallback")
    GIVEN = ReasonKind("precheck_given")
    NOT_CHECKED = ReasonKind("not_checked")
    LEFT_OUT = ReasonKind("left_out", narrows=True)


def make_pairs(
    source: Catalog,
    found: Found,
    results: Iterable[ApiResult],
    tables: Sequence[Path],
    rule: Rule = PrecheckRule.CHECKED,
) -> Pairs:
    """Return the pairs of all calls: their results, and of calls whose data were saved the inputs that both sides got.

    Args:
        source: the dump.
        found: its calls.
        results: what became of them.
        tables: files with the results, below whose folder elements were saved.
        rule: of what was checked.
    """
    folder = tables[0].parent
    dumped, given = _by_node(source, SlotRole.OUTPUT), _by_node(source, SlotRole.INPUT)
    pairs: list[Pair] = []
    measured: dict[int, str] = {}
    for result in results:
        for phase, direction in result.directions():
            node = found.nodes[result.name][phase]
            if direction.status is CheckStatus.SKIP:
                reason = _skip_reason(direction)
                tensors = dumped.get(node) or [_unknown(node, direction)]
                pairs.extend(
                    Pair(tensor, None, entry_name(node, NodeKind.API), PrecheckRule.SKIPPED, reason)
                    for tensor in tensors
                )
                continue
            if result.saved:
                saved = {Path(file).name: folder / file for file in result.saved}
                pairs.extend(_inputs(given.get(node, ()), f"{result.name}.{phase}", saved, rule))
            for number, output in enumerate(direction.outputs):
                if output.is_absent:
                    continue
                if output.measured:
                    measured[len(pairs)] = output.measured
                pairs.append(_pair(node, number, output, direction.fallback, folder, rule))
    target = replace(
        source,
        side="target",
        nodes={pair.shown.node: source.nodes[pair.shown.node] for pair in pairs},
        tensors=tuple(pair.target for pair in pairs if pair.target is not None),
        undumped=(),
        call_order={},  # its numbers are those of all calls, and those checked stand for themselves
        flow=Flow.NONE,
    )
    golden = replace(
        target,
        side="golden",
        framework=PYTORCH,
        task=BENCHMARK,
        nodes={pair.golden.node: source.nodes[pair.golden.node] for pair in pairs if pair.golden is not None},
        tensors=tuple(pair.golden for pair in pairs if pair.golden is not None),
        problems=(),
    )
    groups = (Group(entry_name(node, NodeKind.API), Relation.ONE_TO_ONE, node, node) for node in target.nodes)
    return Pairs(target, golden, tuple(pairs), tuple(groups), measured=measured, files=tuple(map(str, tables)))


def _by_node(source: Catalog, role: SlotRole) -> Mapping[NodeKey, list[TensorRef]]:
    found: dict[NodeKey, list[TensorRef]] = {}
    for tensor in source.tensors:
        if tensor.slot.role is role and tensor.kind is not TensorKind.NULL:
            found.setdefault(tensor.node, []).append(tensor)
    return found


def _inputs(dumped: Iterable[TensorRef], entry: str, saved: Mapping[str, Path], rule: Rule) -> Iterator[Pair]:
    """Yield the inputs of a call that were saved: both sides got the same, which a report shows with the results."""
    for tensor in dumped:
        file = saved.get(f"{entry}.input.{tensor.slot.index}.npy")
        extents = () if file is None else _saved(file, tensor.dtype)
        if extents:
            one, other = (
                TensorRef.of(
                    tensor.node,
                    tensor.slot,
                    TensorKind.TENSOR,
                    tensor.dtype,
                    tensor.dtype,
                    tensor.shape,
                    tensor.shape,
                    extents=extents,
                    named_by=NodeKind.API,
                )
                for _ in range(2)
            )
            reason = PrecheckReason.GIVEN.expected("both sides got it")
            yield Pair(one, other, entry_name(tensor.node, NodeKind.API), rule, reason)


def _skip_reason(direction: Direction) -> Reason:
    if direction.is_left_out:
        return PrecheckReason.LEFT_OUT.outside(direction.reason)
    return PrecheckReason.NOT_CHECKED.of(direction.reason, is_gap=not direction.is_expected)


def _unknown(node: NodeKey, direction: Direction) -> TensorRef:
    """Return what stands for the results of a direction of which the dump records none."""
    return TensorRef.of(node, shared_slot(SlotRole.OUTPUT, (0,)), TensorKind.OPAQUE, reason=direction.reason)


def _pair(node: NodeKey, number: int, output: Output, fallback: str, folder: Path, rule: Rule) -> Pair:
    target, golden = (_tensor(node, number, side, folder) for side in (output.tested, output.benchmark))
    reason = PrecheckReason.FALLBACK.expected(f"ran as {fallback}") if fallback else None
    if not output.is_right:
        kind = PrecheckReason.DOUBTFUL if output.is_doubtful else PrecheckReason.WRONG
        reason = kind.expected(f"{output.message} (ran as {fallback})" if fallback else output.message)
    return Pair(target, golden, entry_name(node, NodeKind.API), rule, reason)


def _tensor(node: NodeKey, number: int, side: Side, folder: Path) -> TensorRef:
    slot = shared_slot(SlotRole.OUTPUT, (number,))
    if side.shape is None:
        return TensorRef.of(node, slot, TensorKind.SCALAR, side.dtype, side.dtype, (), (), value=side.value)
    kept = () if side.file is None else _saved(folder / side.file, side.dtype)
    return TensorRef.of(
        node,
        slot,
        TensorKind.TENSOR,
        side.dtype,
        side.dtype,
        side.shape,
        side.shape,
        extents=kept,
        named_by=NodeKind.API,
    )


def _saved(file: Path, dtype: str) -> tuple[Extent, ...]:
    """Return where the elements of a tensor were saved; nowhere, if the file is not there any more."""
    try:
        header = read_npy_header(file)
    except ProbeFlowError:
        return ()
    if header.dtype is None:
        return ()
    encoding = header.encoding if header.dtype == dtype else held_as(header.encoding, header.dtype)
    return (Extent(str(file), header.offset, header.nbytes, encoding),)
