"""Which original tensor a tensor of a device operator is, by the fusion rules.

An output is what its description says; an input is the output of its producer. Casts and changes of layout that the
compiler inserted are passed over: what they give is the value that they got. (One that the golden has too, because the
user's model casts, is compared with its own golden: passing it over would compare a number before its truncation.)
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from probe_flow.dumps.rules.records import RuleOutput
from probe_flow.matching.offline.reasons import carried_input, input_index, input_malformed, unknown_producer
from probe_flow.matching.rules.merge import FusionOp, FusionRules
from probe_flow.matching.rules.subgraphs import LOOPS
from probe_flow.records import Reason, SlotRole, TensorRef

PASSED_TYPES = frozenset({"Cast", "TransData"})
"""Operators that change how values are stored, not what they are."""

NETWORK_INPUTS = frozenset({"Data", "AippData", "AnnData", "AnyData", "RefData", "Placeholder", "PlaceHolder", "Input"})
"""Types of operators that stand for what is fed to the model."""

HELD_TYPES = frozenset({"Const", "Constant", "ConstPlaceHolder", "FileConstant", "Variable", "VariableV2"})
"""Types of operators that hold values and compute none."""

CALLERS = LOOPS | {"If", "StatelessIf", "_If", "Case", "StatelessCase", "PartitionedCall", "StatefulPartitionedCall"}
"""Types of operators that compute nothing themselves: their subgraphs do, and are dumped."""

GoldenOutput = Callable[[str, int], TensorRef | None]


class Origin(Struct, frozen=True):
    """Where the value of a device tensor is made.

    Args:
        op: the device operator that makes it.
        index: which of its outputs.
        output: what the rules say of that output; None when they do not describe it.
        passed: names of the casts and changes of layout in between, nearest first.
        golden: the golden tensor.
    """

    op: FusionOp
    index: int
    output: RuleOutput | None
    passed: tuple[str, ...] = ()
    golden: TensorRef | None = None


class Origins:
    """Follows the rules from device tensors to golden ones.

    Args:
        rules: the fusion rules.
        golden_output: finds an output of a golden operator, by name and number.
    """

    def __init__(self, rules: FusionRules, golden_output: GoldenOutput) -> None:
        self._ops = rules.by_name
        self._golden_output = golden_output

    def of(self, op: FusionOp, role: SlotRole, index: int) -> Origin | Reason:
        """Return where a tensor of an operator is made, or why the rules do not say it."""
        if role is SlotRole.OUTPUT:
            return self._made(op, index)
        if index in op.carried:
            return carried_input(op.name)
        producer = self.producer(op, index)
        return producer if isinstance(producer, Reason) else self._made(*producer)

    def producer(self, op: FusionOp, index: int) -> tuple[FusionOp, int] | Reason:
        """Return which output feeds an input."""
        if index >= len(op.inputs):
            return input_index(index, len(op.inputs))
        text = op.inputs[index]
        name, colon, number = text.rpartition(":")
        if not colon or not name or not (number.isascii() and number.isdigit()):
            return input_malformed(text)
        producer = self._ops.get(name)
        return unknown_producer(name) if producer is None else (producer, int(number))

    def _made(self, op: FusionOp, index: int) -> Origin | Reason:
        passed: list[str] = []
        while True:
            output = op.outputs[index] if index < len(op.outputs) else None
            golden = self._golden(output, index)
            if golden is not None or op.op_type not in PASSED_TYPES or op.name in passed:
                return Origin(op, index, output, tuple(passed), golden)
            behind = self.producer(op, index)
            if isinstance(behind, Reason):
                return behind
            passed.append(op.name)
            op, index = behind

    def _golden(self, output: RuleOutput | None, index: int) -> TensorRef | None:
        if output is None or not output.origin_name:
            return None
        return self._golden_output(output.origin_name, index if output.origin_index is None else output.origin_index)
