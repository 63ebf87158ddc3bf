"""Which original tensor a tensor of a device operator is, by the fusion rules.

An output is what its description says; an input is the output of its producer. Casts and changes of layout that the
compiler inserted are passed over: what they give is the value that they got, while their descriptions name the operator
they were inserted for, in files of ATC as often the one behind as the one before; so do those of constants. (One that
the golden has too, because the user's model casts, is compared with its own golden: passing it over would compare a
number before its truncation.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from itertools import takewhile

from msgspec import Struct

from probe_flow.dumps.graph.op_types import VIEW_TYPES
from probe_flow.dumps.rules.records import RuleOutput
from probe_flow.matching.offline.axes import Told
from probe_flow.matching.offline.index import DumpIndex
from probe_flow.matching.offline.reasons import (
    OfflineReason,
    carried_input,
    input_index,
    input_malformed,
    unknown_producer,
)
from probe_flow.matching.rules.merge import FusionOp, FusionRules
from probe_flow.matching.rules.subgraphs import LOOPS, Bodies
from probe_flow.records import Reason, SlotRole, TensorRef

PASSED_TYPES = frozenset({"Cast", "TransData"})
"""Operators that change how values are stored, not what they are."""

KEEPING_TYPES = PASSED_TYPES | VIEW_TYPES
"""Operators whose first result holds the numbers of their first input."""

HANDING_TYPES = KEEPING_TYPES | {"Aipp"}
"""Operators whose first result is the value of their first input: what the golden lacks of them is compared before. For
the original model, AIPP is part of its input: it makes of bytes what that is fed."""

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
        guessed: the original that it is taken for where the rules do not say of which one it is.
        own: what the rules say of the tensor itself, in front of which views may have been passed.
        caller: the operator whose subgraph ends with it, where the golden shows it as a result of that one only.
    """

    op: FusionOp
    index: int
    output: RuleOutput | None
    passed: tuple[str, ...] = ()
    golden: TensorRef | None = None
    guessed: str = ""
    own: RuleOutput | None = None
    caller: str = ""

    @property
    def made(self) -> Told:
        """What the rules say of the tensor that was made."""
        return _told(self.output)

    @property
    def told(self) -> Told:
        """What the rules say of the tensor itself, else of the one that was made."""
        own, made = _told(self.own), self.made
        return Told(own.layout or made.layout, made.shape if own.shape is None else own.shape, own.stored)


def _told(output: RuleOutput | None) -> Told:
    if output is None:
        return Told()
    shape = output.origin_shape
    known = shape if shape is not None and all(dim >= 0 for dim in shape) else None
    return Told(output.origin_layout, known, output.layout)


class Origins:
    """Follows the rules from device tensors to golden ones.

    Args:
        rules: the fusion rules.
        golden_output: finds an output of a golden operator, by name and number.
        last_of: of some golden operators the one that ran last; None where one of them is not known.
    """

    def __init__(
        self, rules: FusionRules, golden_output: GoldenOutput, last_of: Callable[[Sequence[str]], str | None]
    ) -> None:
        self._ops = rules.by_name
        self._groups = rules.groups
        self._golden_output = golden_output
        self._last_of = last_of
        still = PASSED_TYPES | HELD_TYPES
        self._computed = {name for op in rules.ops if op.op_type not in still for name in op.originals}
        self._read = {text for op in rules.ops for text in op.inputs}
        self.bodies = Bodies(rules.ops, PASSED_TYPES)

    def is_read(self, op: FusionOp, index: int | str) -> bool:
        """Whether the graph has a reader of an output."""
        return f"{op.name}:{index}" in self._read

    def is_spare(self, op: FusionOp, index: int) -> bool:
        """Whether an output is one of several, others of which are read, and itself is not."""
        others = (each for each in range(len(op.outputs)) if each != index)
        return not self.is_read(op, index) and any(self.is_read(op, each) for each in others)

    def keeping(self, passed: Sequence[str]) -> list[str]:
        """Return the first of some operators behind each other, as long as they hand on the numbers that they read."""
        return [*takewhile(lambda name: self._ops[name].op_type in KEEPING_TYPES, passed)]

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
        own = op.outputs[index] if index < len(op.outputs) else None
        while True:
            output = op.outputs[index] if index < len(op.outputs) else None
            name = output.origin_name if output is not None and not self._is_inserted(op, output) else ""
            guessed = "" if name else self.last_original(op)
            golden = self._golden(name or guessed, index, output)
            result = None if golden is not None else self.bodies.result(op, index)
            if result is not None and (golden := self._given(*result)) is not None:
                return Origin(op, index, output, tuple(passed), golden, own=own, caller=result[0].name)
            if golden is not None or op.op_type not in HANDING_TYPES or op.name in passed:
                return Origin(op, index, output, tuple(passed), golden, guessed, own)
            behind = self.producer(op, index)
            if isinstance(behind, Reason):
                return behind
            passed.append(op.name)
            op, index = behind

    def _golden(self, name: str, index: int, output: RuleOutput | None) -> TensorRef | None:
        if not name:
            return None
        number = None if output is None else output.origin_index
        return self._golden_output(name, index if number is None else number)

    def _given(self, caller: FusionOp, index: int) -> TensorRef | None:
        output = caller.outputs[index] if index < len(caller.outputs) else None
        return self._golden(output.origin_name, index, output) if output is not None else None

    def _is_inserted(self, op: FusionOp, output: RuleOutput) -> bool:
        """Return True for what only stores or holds values, but is described as a result of another operator."""
        if output.origin_name in (op.name, *op.originals):
            return False
        return op.op_type in PASSED_TYPES or (op.op_type in HELD_TYPES and output.origin_name in self._computed)

    def last_original(self, op: FusionOp) -> str:
        """Return the original that an operator gives the result of where the rules name it for none of its outputs.

        One alone that stands for several in a row gives what the last of them gives.
        """
        is_silent = len(op.originals) > 1 and not (op.is_multiop or any(output.origin_name for output in op.outputs))
        is_quantised = op.is_filtered or not op.compares_outputs
        if not is_silent or is_quantised or op.l1_group or len(self._groups[op.group].ops) > 1:
            return ""
        return self._last_of(op.originals) or ""


def not_shown(origin: Origin, origins: Origins, golden: DumpIndex, shown_graphs: Container[str]) -> Reason | None:
    """Return why a golden need not show a tensor that the rules promise; None where it lacks it.

    Nothing reads it, or it is computed inside of an operator of the original model whose result is shown.

    Args:
        origin: of the tensor.
        origins: of all.
        golden: the golden side.
        shown_graphs: graphs of whose operators it has some.
    """
    op, index = origin.op, origin.index
    if origins.is_spare(op, index) and any(map(golden.node, op.originals)):
        text = f"nothing reads output {index} of `{op.name}`, and the golden has others of it only"
        return OfflineReason.NO_GOLDEN_DUMP.expected(text)
    around = () if op.graph in shown_graphs else origins.bodies.around(op)
    caller = next((each for each in around if any(map(golden.node, each.originals))), None)
    if caller is None:
        return None
    where = f"in a subgraph of `{caller.name}` ({caller.op_type})"
    return OfflineReason.SUBGRAPH.expected(f"`{op.name}` is computed {where}, of which the golden has the result alone")


_WITHOUT_OUTPUT = re.compile(
    r"(?:^|/)(?:Resource(?:Sparse)?Apply\w+?|ResourceScatter\w+?|Assign(?:Add|Sub)?VariableOp)(?:_\d+)?$"
)
"""Names that TensorFlow gives operators which update a resource: their types, and a number where there are several."""


_UPDATES = re.compile(r"(?:Resource)?(?:Sparse)?Apply[A-Z]")
"""How the types of operators begin that update a variable; on the device they give the states beside it too."""


def no_golden_dump(origin: Origin) -> Reason:
    """Return the reason; it is a gap where the rules promise a golden tensor, or are silent on all outputs."""
    maker, output = origin.op, origin.output
    made = f"output {origin.index} of `{maker.name}`"
    if maker.op_type in CALLERS:
        return OfflineReason.NO_GOLDEN_DUMP.expected(
            f"{made} is what its subgraph gives ({maker.op_type}), and the golden has no such name"
        )
    if output is None:
        if maker.originals:
            return OfflineReason.NO_GOLDEN_DUMP.missing(
                f"the rules do not describe {made}: give the rules of the model that ran"
            )
        return OfflineReason.NO_GOLDEN_DUMP.expected(
            f"the compiler inserted `{maker.name}` ({maker.op_type}): the golden has nothing like it"
        )
    if maker.op_type in NETWORK_INPUTS:
        return OfflineReason.NO_GOLDEN_DUMP.expected(
            f"`{maker.name}` is an input of the model, which the golden dump does not have"
        )
    if maker.op_type in HELD_TYPES:
        return OfflineReason.NO_GOLDEN_DUMP.expected(
            f"`{maker.name}` is a constant of the model, which the golden dump does not have"
        )
    if maker.is_filtered or not maker.compares_outputs:
        return OfflineReason.NO_GOLDEN_DUMP.expected(f"{made} is quantised, and the golden has no such values")
    if _WITHOUT_OUTPUT.search(output.origin_name):
        return OfflineReason.NO_GOLDEN_DUMP.expected(
            f"`{output.origin_name}` updates a variable of TensorFlow and gives no tensor there"
        )
    if origin.index and _UPDATES.match(maker.op_type):
        return OfflineReason.NO_GOLDEN_DUMP.expected(
            f"{made} is a state that it updates: TensorFlow's operator gives the variable alone"
        )
    if output.origin_name:
        index = origin.index if output.origin_index is None else output.origin_index
        text = f"the golden dump has no output {index} of `{output.origin_name}`, the original of {made}: dump it"
        return OfflineReason.NO_GOLDEN_DUMP.missing(text)
    if not maker.originals or maker.is_multiop or any(item.origin_name for item in maker.outputs):
        return OfflineReason.NO_GOLDEN_DUMP.expected(
            f"{made} is of the compiler's making: the rules name no original for it"
        )
    return OfflineReason.NO_GOLDEN_DUMP.missing(
        f"the rules name no original for any output of `{maker.name}`: convert the model again"
    )


def as_bfloat16(golden: TensorRef, origin: Origin) -> TensorRef:
    """Return the golden as what it is where the graph says that it is bfloat16.

    TensorFlow's plug-in for TensorFlow 2 writes such tensors as arrays of float16, their bits unchanged.
    """
    is_said = origin.output is not None and origin.output.origin_dtype == "DT_BF16"
    return golden.changed(dtype="bfloat16") if is_said and golden.stored_dtype == "<f2" else golden


def may_be_bfloat16(target: TensorRef, golden: TensorRef, origin: Origin) -> bool:
    """Return True for an array of float16 beside a device tensor of bfloat16 where the graph says no type."""
    is_said = origin.output is not None and origin.output.origin_dtype
    return target.dtype == "bfloat16" and (golden.stored_dtype, golden.dtype) == ("<f2", "float16") and not is_said
