"""From one rule file to its device operators: what the file leaves unsaid about originals is filled in."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from probe_flow.dumps.rules.facts import KERNEL_NAME, SUBGRAPHS
from probe_flow.dumps.rules.records import RuleFile, RuleOp
from probe_flow.matching.rules.groups import grouped, key_of, numbered
from probe_flow.matching.rules.quantised_filter import marked
from probe_flow.matching.rules.records import CONSTANTS, FusionOp, FusionOutput
from probe_flow.matching.rules.subgraphs import joined

_DEQUANT_TYPE, _QUANT_TYPE = "AscendDequant", "AscendQuant"
_KERNEL_FACTS = {
    KERNEL_NAME: "kernel_name",
    "_ge_attr_op_kernel_lib_name": "kernel_lib",
    "_is_custom_op": "_is_custom_op",
    "_fe_imply_type": "_fe_imply_type",
}
"""What a rule says of a kernel -> its name in nodes.jsonl."""
_DEQUANT_ENDINGS = ("_dequant_layer", "AscendDequant", "_dequant")


def fusion_ops(rule: RuleFile) -> list[FusionOp]:
    """Return the operators of a file, grouped and filtered, in order of their ids."""
    ops = numbered([_fusion_op(op) for op in joined(rule)])
    renamed = {(op.group, op.name) for members in grouped(ops) for op in _renamed(members)}
    ops = [
        replace(op, outputs=_named(op.outputs, op.originals[0])) if (op.group, op.name) in renamed else op for op in ops
    ]
    return marked(sorted(ops, key=lambda op: op.id))


def _fusion_op(op: RuleOp) -> FusionOp:
    originals = (op.name,) if op.originals is None else tuple(dict.fromkeys(op.originals))
    outputs = op.outputs
    if op.originals is None:
        outputs = _named(outputs, op.name) or (FusionOutput("", "", None, origin_name=op.name),)
    is_dequant = op.op_type == _DEQUANT_TYPE or op.name.endswith(_DEQUANT_ENDINGS)
    return FusionOp(
        name=op.name,
        op_type=op.op_type,
        id=op.id,
        graph=op.graph,
        inputs=op.inputs,
        outputs=outputs,
        originals=originals,
        group=0,
        is_multiop=op.is_multiop,
        l1_group=op.l1_group,
        passes=op.passes,
        compares_inputs=not is_dequant,
        compares_outputs=op.op_type != _QUANT_TYPE,
        carried=op.carried,
        bodies=bodies if isinstance(bodies := op.attrs.get(SUBGRAPHS), tuple) else (),
        kernel={name: str(op.attrs[fact]) for fact, name in _KERNEL_FACTS.items() if fact in op.attrs},
    )


def _renamed(members: Sequence[FusionOp]) -> Sequence[FusionOp]:
    """Return the operator of a group that alone stands for one original: all its outputs are that one's.

    Constants that the compiler made for it share its group and compute nothing.
    """
    alone = members if len(members) == 1 else [op for op in members if op.op_type not in CONSTANTS]
    if len(alone) != 1 or len(alone[0].originals) != 1 or key_of(alone[0]) != alone[0].originals:
        return ()
    return alone


def _named(outputs: Sequence[FusionOutput], name: str) -> tuple[FusionOutput, ...]:
    """Return the outputs; those without an origin are outputs of ``name``, in order."""
    return tuple(
        output
        if output.origin_name
        else replace(
            output, origin_name=name, origin_index=position if output.origin_index is None else output.origin_index
        )
        for position, output in enumerate(outputs)
    )
