"""Rules of a fused model against the same model without fusion, both dumped on a device.

The second rule file says which operator of the unfused model stands for every original, and which of its outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from probe_flow.matching.rules.records import FusionOp, FusionOutput
from probe_flow.matching.rules.unknown_names import UnknownNames


def unfused(ops: Sequence[FusionOp], close: Sequence[FusionOp], unknown: UnknownNames) -> list[FusionOp]:
    """Return the operators with operators of the unfused model as originals; groups stay as they are.

    Args:
        ops: of the fused model.
        close: of the unfused model, in order of their ids.
        unknown: is told the originals that the unfused model does not have.
    """
    table = _Table(close)
    return [
        replace(
            op,
            originals=_mapped(op.originals, table, unknown),
            outputs=tuple(_output(output, table, unknown) for output in op.outputs),
        )
        for op in ops
    ]


class _Table:
    """Where the originals are in the unfused model."""

    def __init__(self, close: Sequence[FusionOp]) -> None:
        self.op_of: dict[str, str] = {}
        self._outputs: dict[tuple[str, int | None], tuple[str, int]] = {}
        for op in close:
            self.op_of |= dict.fromkeys(op.originals, op.name)
        # A later operator may list an original whose output an earlier one gives: the giver stands for it.
        for op in close:
            given = {output.origin_name for output in op.outputs}
            self.op_of |= {name: op.name for name in op.originals if name in given}
        for op in close:
            for number, output in enumerate(op.outputs):
                self._add(op, number, output)

    def output_of(self, output: FusionOutput) -> tuple[str, int] | None:
        """Return operator and output number that give the same original output; None when nothing does."""
        return self._outputs.get((output.origin_name, output.origin_index))

    def _add(self, op: FusionOp, number: int, output: FusionOutput) -> None:
        """Note an output; that of the operator that stands for the original goes before copies of it."""
        key = (output.origin_name, output.origin_index)
        if output.origin_name and (key not in self._outputs or self.op_of.get(output.origin_name) == op.name):
            self._outputs[key] = (op.name, number)


def _mapped(originals: Sequence[str], table: _Table, unknown: UnknownNames) -> tuple[str, ...]:
    known = [name for name in originals if unknown.tell(name, is_known=name in table.op_of)]
    return tuple(dict.fromkeys(table.op_of[name] for name in known))


def _output(output: FusionOutput, table: _Table, unknown: UnknownNames) -> FusionOutput:
    found = table.output_of(output)
    if found is not None:
        name, number = found
        return replace(output, origin_name=name, origin_index=number)
    if not output.origin_name or not unknown.tell(output.origin_name, is_known=output.origin_name in table.op_of):
        return output
    unknown.tell(f"{output.origin_name}:{output.origin_index}", is_known=False)
    return replace(output, origin_name=table.op_of[output.origin_name])
