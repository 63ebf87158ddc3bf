"""Why a tensor of an offline dump was not compared, in the words that users of the published table search for."""

from __future__ import annotations

from collections.abc import Iterable

from probe_flow.record.rows import reason_of, shape_of
from probe_flow.records import NodeKey, Pair, Relation, Row, SlotRole, Status, TensorKind, TensorRef
from probe_flow.reports.tables.offline.groups import (
    OfflineGroup,
    Operators,
    tensor_name,
)
from probe_flow.reports.tables.offline.metrics import (
    EMPTY,
    NO_DIRECTION,
    NO_LOGARITHM,
    SCALAR,
    is_all_zero,
    is_scalar,
    nonfinite_count,
)
from probe_flow.reports.tables.offline.wording import (
    EMPTY_L1,
    INNER_NODE,
    NO_GOLDEN_DUMP,
    NO_TARGET_DUMP,
    ONE_SIDE,
    SHAPE_MISMATCH,
    published_words,
)

ROW_CODES = frozenset(
    {
        "no_golden_dump",
        "unknown_producer",
        "input_index",
        "input_malformed",
        "shape_mismatch",
        "blocks_mismatch",
        "blocks_contradict",
        "layout_unsupported",
        "dtype_unsupported",
        "slices_missing",
        "no_rule_shape",
        "no_rule_count",
        "no_target_tensor",
        "unreadable",
    }
)
"""Reasons with which a tensor of the target has a row although nothing was compared."""

_NOT_COMPARED = frozenset(
    {Status.UNMATCHED_TARGET, Status.UNMATCHED_GOLDEN, Status.NOT_COMPARABLE, Status.ERROR, Status.SKIPPED}
)
_INFINITE_DIVERGENCE = float("inf")


def has_row(row: Row) -> bool:
    """Return whether a tensor of the target that was not compared has a row for its reason."""
    return row.pair.rule.is_self or (row.pair.reason is not None and row.pair.reason.code in ROW_CODES)


def no_target_dump(key: NodeKey, operators: Operators) -> str:
    """Return what is said of an operator that the target did not dump."""
    return NO_TARGET_DUMP.format(op=operators.name(key), type=operators.op_type(key))


def inner_nodes(group: OfflineGroup) -> set[NodeKey]:
    """Return the dumped operators of a group that carry none of its original outputs."""
    return {row.pair.target.node for row in group.rows if row.pair.target is not None and _is_inner(row.pair)}


def operator_reason(group: OfflineGroup, operators: Operators) -> str:
    """Return why a group has no row of a tensor."""
    missing = [key for key in group.ops if key in group.chosen and not operators.is_dumped(key)]
    if group.relation is Relation.L1 and len(missing) == len(group.ops):
        return EMPTY_L1
    inner = inner_nodes(group)
    texts = []
    for key in group.ops:
        if key in inner or operators.is_inner(key):
            texts.append(INNER_NODE.format(op=operators.name(key)))
        elif key in missing:
            texts.append(no_target_dump(key, operators))
    return ",".join(texts) or _joined(reason_of(row) for row in group.rows)


def without_rules(group: OfflineGroup, operators: Operators) -> str:
    """Return why an operator of a comparison without rules has no row of a tensor."""
    targets = [row for row in group.rows if row.pair.target is not None]
    goldens = [row for row in group.rows if row.pair.golden is not None]
    if group.rows and not (targets and goldens):
        name = operators.name(group.rows[0].pair.shown.node)
        missing = "the ground truth" if targets else "the my output"
        return ONE_SIDE.format(op=name, side=missing)
    if not group.rows:
        return _joined(no_target_dump(key, operators) for key in group.ops)
    name = operators.name(group.rows[0].pair.shown.node)
    texts: list[str | None] = []
    for role in (SlotRole.INPUT, SlotRole.OUTPUT):
        rows = [row for row in group.rows if row.pair.shown.slot.role is role]
        texts += _kind_reasons(name, role, rows, operators)
    return _joined(texts)


def _kind_reasons(name: str, role: SlotRole, rows: list[Row], operators: Operators) -> list[str | None]:
    if not rows:
        return [f"[{name}] There is no {role.value}. Skip the {name}:{role.value}."]
    targets = sum(row.pair.target is not None for row in rows)
    goldens = sum(row.pair.golden is not None for row in rows)
    said = [published_words(row.pair, operators) or reason_of(row) for row in rows]
    if any(said) or targets == goldens:
        return list(said)
    return [f"[{name}] The number of {role.value} does not match ({targets} vs {goldens})."]


def published_reason(row: Row, operators: Operators) -> str:
    """Return the reason of a row of a tensor as the published table words it, with its remarks about metrics."""
    reason = row.pair.reason
    if row.pair.golden is None:
        name = operators.name(row.pair.shown.node)
        words = published_words(row.pair, operators) or (reason.text if reason is not None else None)
        return words or NO_GOLDEN_DUMP.format(op=name, tensor=tensor_name(row.pair, operators))
    if row.measurement is None or row.verdict.status in _NOT_COMPARED:
        if reason is not None and has_row(row):
            return published_words(row.pair, operators) or reason.text
        return _different_shapes(row, operators) or reason_of(row) or ""
    return ",".join(_remarks(row, is_whole_path=True))


def full_reason(row: Row, operators: Operators) -> str:
    """Return all that is to say about a row that was not, or not wholly, compared; never empty for those."""
    if row.verdict.status in _NOT_COMPARED:
        words = published_words(row.pair, operators)
        if row.pair.reason is None:
            words = _different_shapes(row, operators)
        return words or reason_of(row) or "nothing was compared"
    return _joined((*_remarks(row), *_nonfinite(row)), "; ")


def remarks(row: Row, operators: Operators) -> str:
    """Return what is worth knowing of a row beside `full_reason`: how it was paired, why it fails; plain words."""
    if row.measurement is None or row.verdict.status in _NOT_COMPARED:
        said = reason_of(row) or ""
        return said if said != full_reason(row, operators) else ""
    reason = row.pair.reason.text if row.pair.reason is not None else None
    return _joined((reason, *row.measurement.notes, *row.verdict.reasons), "; ")


def _different_shapes(row: Row, operators: Operators) -> str | None:
    target, golden = row.pair.target, row.pair.golden
    if target is None or golden is None or not _has_data(target, golden):
        return None
    shapes = shape_of(target), shape_of(golden)
    if None in shapes or target.numel == golden.numel:
        return None
    return SHAPE_MISMATCH.format(*shapes, op=operators.name(target.node))


def _has_data(*sides: TensorRef) -> bool:
    return all(side.kind is TensorKind.TENSOR for side in sides)


def _remarks(row: Row, *, is_whole_path: bool = False) -> list[str]:
    """Return what the table says beside metrics that it could not compute, or that mean little."""
    measured = row.measurement
    if measured is None:
        return []
    if not measured.count:
        return [EMPTY]
    if is_scalar(row):
        return [SCALAR]
    zero = is_all_zero(measured.target), is_all_zero(measured.golden)
    sides = (row.pair.target, row.pair.golden)
    remarks = [
        NO_DIRECTION.format(file=_file(side, is_whole_path=is_whole_path))
        for side, is_zero in zip(sides, zero, strict=True)
        if is_zero and not all(zero) and side is not None
    ]
    if measured.metrics.get("kl_minmax") == _INFINITE_DIVERGENCE and row.pair.golden is not None:
        remarks.append(NO_LOGARITHM.format(file=_file(row.pair.golden, is_whole_path=is_whole_path)))
    return remarks


def _nonfinite(row: Row) -> list[str]:
    measured = row.measurement
    if measured is None:
        return []
    found = []
    for side, word in ((measured.target, "target"), (measured.golden, "golden")):
        nan, inf = nonfinite_count(side)
        counts = [f"{count} {name}" for count, name in ((nan, "NaN"), (inf, "inf")) if count]
        if counts:
            found.append(f"{' and '.join(counts)} in the {word}")
    if found:
        found.append(f"{measured.nonfinite_mismatch} of these places differ; the others are measured without them")
    return found


def _file(tensor: TensorRef, *, is_whole_path: bool) -> str:
    file = tensor.holder or tensor.id
    return file if is_whole_path else file.rsplit("/", 1)[-1]


def _is_inner(pair: Pair) -> bool:
    return pair.rule.is_inner or (pair.reason is not None and pair.reason.kind.is_inner)


def _joined(texts: Iterable[str | None], separator: str = ",") -> str:
    return separator.join(dict.fromkeys(text for text in texts if text))
