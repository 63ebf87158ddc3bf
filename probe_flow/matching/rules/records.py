"""Fusion rules ready for matching: device operators, the golden tensor of every output, and fusion groups."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from probe_flow.dumps.rules.records import RuleOutput
from probe_flow.errors import Diagnostic
from probe_flow.records import Relation

FusionOutput = RuleOutput
"""One output after merging: its origin is a name of the golden dump."""

CONSTANTS = frozenset({"Const", "Constant"})
"""Types of operators that compute nothing."""

_CLEANED = str.maketrans("/.", "__")


class FusionOp(Struct, frozen=True):
    """One device operator with all that matching needs to know of it.

    Args:
        name: operator name with ``/`` and ``.``.
        op_type: operator type.
        id: place in the order of execution.
        graph: name of the graph that holds it.
        inputs: ``producer:index`` of each data input, in order.
        outputs: by output number.
        originals: golden operators, each once; empty for an operator that only the device has.
        group: index of its fusion group.
        is_filtered: quantisation left nothing of it to compare.
        is_multiop: one of several device operators of the same originals.
        l1_group: L1 fusion group; empty outside one.
        passes: fusion passes that made it.
        compares_inputs: false where inputs have another meaning than those of the originals (dequantisation).
        compares_outputs: the same for outputs (quantisation).
        kernel: what the rule says of its kernel, by the names of the file.
        carried: numbers of the inputs that a loop hands from turn to turn.
        bodies: names of the subgraphs that it calls.
    """

    name: str
    op_type: str
    id: int
    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[FusionOutput, ...]
    originals: tuple[str, ...]
    group: int
    is_filtered: bool = False
    is_multiop: bool = False
    l1_group: str = ""
    passes: tuple[str, ...] = ()
    compares_inputs: bool = True
    compares_outputs: bool = True
    kernel: Mapping[str, str] = field(default_factory=dict)
    carried: tuple[int, ...] = ()
    bodies: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.graph, self.name, self.id))

    @property
    def is_inner(self) -> bool:
        """Whether no original output comes out of it: it lies inside what the originals do."""
        return self.is_multiop and not any(output.origin_name for output in self.outputs)


class FusionGroup(Struct, frozen=True):
    """Device operators that stand for the same originals.

    Args:
        index: ordinal of the group.
        key: the originals; an empty text and the number for an L1 group, the own name without originals.
        relation: target to golden: ``1:n`` is one device operator that stands for several originals.
        ops: in order of their ids.
    """

    index: int
    key: tuple[str, ...]
    relation: Relation
    ops: tuple[FusionOp, ...]


class FusionRules(Struct, frozen=True):
    """The rules of one comparison.

    Args:
        ops: sorted by id.
        groups: in order of their index.
        by_name: operators by their true name; of several the first.
        by_clean_name: operators by their name in file names (see `clean_name`); of several the first.
        problems: what could not be carried over.
        files: the rule files that they come from.
        before_close: operators whose originals were replaced by operators of the golden's rules, by name, as their own
            rule file has them.
    """

    ops: tuple[FusionOp, ...]
    groups: tuple[FusionGroup, ...]
    by_name: Mapping[str, FusionOp]
    by_clean_name: Mapping[str, FusionOp]
    problems: tuple[Diagnostic, ...] = ()
    files: tuple[str, ...] = ()
    before_close: Mapping[str, FusionOp] = field(default_factory=dict)

    def outputs_of(self, op: FusionOp) -> tuple[FusionOutput, ...]:
        """Return what an operator gives as tensors of the user's graph."""
        return self.before_close.get(op.name, op).outputs


def clean_name(name: str) -> str:
    """Return an operator's name as file names hold it.

    >>> clean_name("block/conv.1")
    'block_conv_1'
    """
    return name.translate(_CLEANED)
