"""Say why a device tensor that the rules know has no golden one, and whether that is a gap."""

from __future__ import annotations

from probe_flow.matching.offline.origins import HELD_TYPES, NETWORK_INPUTS, Origin
from probe_flow.matching.offline.reasons import expected, missing
from probe_flow.records import Reason

CODE = "no_golden_dump"


def no_golden_dump(origin: Origin) -> Reason:
    """Return the reason; it is a gap where the rules promise a golden tensor, or are silent on all outputs."""
    maker, output = origin.op, origin.output
    made = f"output {origin.index} of `{maker.name}`"
    if output is None:
        if maker.originals:
            return missing(CODE, f"the rules do not describe {made}: give the rules of the model that ran")
        return expected(CODE, f"the compiler inserted `{maker.name}` ({maker.op_type}): the golden has nothing like it")
    if maker.op_type in NETWORK_INPUTS:
        return expected(CODE, f"`{maker.name}` is an input of the model, which the golden dump does not have")
    if maker.op_type in HELD_TYPES:
        return expected(CODE, f"`{maker.name}` is a constant of the model, which the golden dump does not have")
    if maker.is_filtered or not maker.compares_outputs:
        return expected(CODE, f"{made} is quantised, and the golden has no such values")
    if output.origin_name:
        index = origin.index if output.origin_index is None else output.origin_index
        text = f"the golden dump has no output {index} of `{output.origin_name}`, the original of {made}: dump it"
        return missing(CODE, text)
    if not maker.originals or maker.is_multiop or any(item.origin_name for item in maker.outputs):
        return expected(CODE, f"{made} is of the compiler's making: the rules name no original for it")
    return missing(CODE, f"the rules name no original for any output of `{maker.name}`: convert the model again")
