"""Rules of a quantised model against the original one: names of the quantised graph become those of the original.

The second rule file says which originals every operator of the quantised graph stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from probe_flow.matching.rules.groups import grouped, key_of_originals, numbered
from probe_flow.matching.rules.records import FusionOp, FusionOutput
from probe_flow.matching.rules.unknown_names import UnknownNames


def unquantised(ops: Sequence[FusionOp], quant: Sequence[FusionOp], unknown: UnknownNames) -> list[FusionOp]:
    """Return the operators with originals of the unquantised model, grouped anew by these, whatever their L1 groups.

    Args:
        ops: of the quantised model, in order of their ids.
        quant: of the quantisation rules.
        unknown: is told the names that the quantisation rules do not have.
    """
    table = _Table(quant)
    order = sorted(range(len(ops)), key=lambda place: ops[place].group)
    merged = [_merged(ops[place], table, unknown) for place in order]
    return sorted(numbered(merged, key_of_originals), key=lambda op: op.id)


class _Table:
    """The quantisation rules by operator."""

    def __init__(self, quant: Sequence[FusionOp]) -> None:
        self.by_name: Mapping[str, FusionOp] = {op.name: op for op in reversed(quant)}
        self._groups = grouped(quant)

    def group(self, name: str) -> Sequence[FusionOp]:
        return self._groups[self.by_name[name].group]


def _merged(op: FusionOp, table: _Table, unknown: UnknownNames) -> FusionOp:
    known = [name for name in op.originals if unknown.tell(name, is_known=name in table.by_name)]
    originals = dict.fromkeys(found for name in known for each in table.group(name) for found in each.originals)
    outputs = [taken for output in op.outputs for taken in _outputs(output, table, unknown)]
    return replace(op, originals=tuple(originals) or op.originals, outputs=tuple(outputs))


def _outputs(output: FusionOutput, table: _Table, unknown: UnknownNames) -> list[FusionOutput]:
    """Return the output with its new origin; one without a number becomes all outputs of the group."""
    name, index = output.origin_name, output.origin_index
    if not name or not unknown.tell(name, is_known=name in table.by_name):
        return [output]
    if index is None:
        return [_taken(output, found) for each in table.group(name) for found in each.outputs]
    found = table.by_name[name].outputs
    return [_taken(output, found[index]) if index < len(found) else replace(output, origin_name="", origin_index=None)]


def _taken(output: FusionOutput, found: FusionOutput) -> FusionOutput:
    source = output if output.origin_layout else found
    return replace(
        output,
        origin_name=found.origin_name,
        origin_index=found.origin_index,
        origin_layout=source.origin_layout,
        origin_shape=source.origin_shape,
    )
