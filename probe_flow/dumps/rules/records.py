"""What a fusion rule file says: graphs, device operators, and which original tensor every output is."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

OM_MAGIC = b"IMOD"
"""How an offline model begins, whose definition has the same facts."""


class RuleOutput(Struct, frozen=True):
    """One output description of a device operator; its position in the list is the output number.

    Args:
        dtype: element type, for example ``DT_FLOAT16``; empty when not said.
        layout: storage layout, for example ``NC1HWC0``; empty when not said.
        shape: stored shape; None when not said.
        origin_name: original operator that produces this output; empty when not said.
        origin_index: its output number; for a named origin without one the position in the list.
        origin_layout: layout of the original tensor; empty when not said.
        origin_shape: shape of the original tensor; None when not said.
        origin_dtype: element type of the original tensor; empty when not said.
    """

    dtype: str
    layout: str
    shape: tuple[int, ...] | None
    origin_name: str = ""
    origin_index: int | None = None
    origin_layout: str = ""
    origin_shape: tuple[int, ...] | None = None
    origin_dtype: str = ""


class RuleOp(Struct, frozen=True):
    """One device operator as the file says it.

    Args:
        name: without the mark of an L1 slice.
        op_type: operator type.
        id: place in the order of execution; 0 when the file has none.
        graph: name of the graph that holds it.
        inputs: ``producer:index`` of each data input, in order.
        outputs: one entry per output description.
        originals: original operators; None when the attribute is absent, empty when it lists none (an operator of the
            compiler's own).
        is_multiop: one of several device operators of the same originals.
        l1_group: L1 fusion group; empty outside one.
        passes: fusion passes that made it.
        attrs: further facts, by the names of the file.
        carried: numbers of the inputs that a loop hands from turn to turn; ``inputs`` name what its first turn gets.
    """

    name: str
    op_type: str
    id: int
    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[RuleOutput, ...]
    originals: tuple[str, ...] | None
    is_multiop: bool = False
    l1_group: str = ""
    passes: tuple[str, ...] = ()
    attrs: Mapping[str, object] = field(default_factory=dict)
    carried: tuple[int, ...] = ()


class RuleGraph(Struct, frozen=True):
    """One graph: the model's own, or one of its subgraphs."""

    name: str
    ops: tuple[RuleOp, ...]


class RuleFile(Struct, frozen=True):
    """One rule file. ``attrs``: what the model says about itself, by the names of the file."""

    path: str
    graphs: tuple[RuleGraph, ...]
    attrs: Mapping[str, object] = field(default_factory=dict)
