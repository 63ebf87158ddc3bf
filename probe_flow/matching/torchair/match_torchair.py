"""Pair a TorchAir device dump (GE) with an FX dump, or with a device dump made with fusion off, through the graph text.

Against an FX dump, rules in the order in which they are tried for a target tensor:

=========  ==================================================================================================
``exact``  an output whose graph tensor carries an FX name is that FX output; an input is the FX argument of the
           same place when all arguments agree one by one
``fused``  an output of a fused operator: the FX name is that of the graph tensor that leaves the fused parts
``edge``   an input is the FX output of its producer in the graph; views and casts in between are passed over
``aligned``  an input without such a producer (weights, graph inputs) is joined with an argument of its own FX node
           by class of dtype and element count; a number or list of integers that the graph text does not feed by
           its place, too
``self``   a cast or layout change that the device inserted: its output against its own input
=========  ==================================================================================================

Against a device dump a tensor is what the graph text calls it, on both sides, and equal graph tensors are compared:

=========  ==================================================================================================
``exact``  the operators behind both tensors are one; also an operator that no graph has, when name, type and sizes
           agree (of casts and layout changes, which are numbered as they come, the operator before them too)
``fused``  one of the two is fused: what enters any of its parts is compared with what that part reads
``edge``   the golden operator has no file (of this tensor): what a reader reads of it, or its value behind views
``aligned``  inputs that the graph does not show, in order by class of dtype and element count
``self``   as above
=========  ==================================================================================================

Tensors without partner. Expected is what the evidence explains; everything else is missing, a gap.

=======================  ========  ==========================================================================
code                     gap       evidence
=======================  ========  ==========================================================================
``internal``             expected  inside a converter's expansion or a fused operator: no FX (or device) tensor
``constant``             expected  a constant of the device graph, or a parameter that no argument is like
``argument``             expected  an FX number or short list of integers that the device has as a parameter
``not_tensor``           expected  an object, text or empty slot
``covered_by_producer``  expected  an FX input whose value is compared where it is made
``device_no_dump``       expected  the graph shows that no device operator of its own computes the value
``not_dumped``           expected  the other dump holds no inputs (or outputs) at all
``filtered``             expected  left out by a selection
``no_golden_op``         missing   the graph names an FX tensor that the golden dump lacks
``no_target_op``         missing   an operator of the graph should have run on the device but has no file
``no_graph_op``          missing   the device operator is not in the graph text (or the text is cut off)
``no_graph``             missing   the execution has no graph text
``no_fx_name``           missing   the graph text carries no FX names
``count_mismatch``       missing   an input fits no argument by type and element count, or none in its place
``unreadable``           missing   the file of either side cannot be read
``dtype_unsupported``    missing   the device's element type cannot be decoded
``no_golden_execution``  missing   the golden side has no such rank, graph or step
``no_target_execution``  missing   the target side has none
=======================  ========  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.matching.torchair.executions import pair_executions
from probe_flow.matching.torchair.run import TorchairRun
from probe_flow.records import Catalog, Pairs
from probe_flow.records.frameworks import TORCHAIR_FX, TORCHAIR_GE

_GOLDEN = (TORCHAIR_FX, TORCHAIR_GE)


def match_torchair(
    target: Catalog, golden: Catalog, *, pair_ranks: Mapping[int, int] | None = None, step_offset: int = 0
) -> Pairs:
    """Pair every tensor of a device dump with the golden tensor of the same value, or say why there is none.

    Args:
        target: catalog of the device dump, with its graphs.
        golden: catalog of the FX dump, or of another device dump.
        pair_ranks: target rank -> golden rank where they differ.
        step_offset: golden step = target step + this.

    Returns:
        Pairs in the order of the target's tensors, per execution followed by the golden tensors without partner.
        Executions that only one side has are one-sided pairs and a problem each.

    Raises:
        UsageError: PF4004 if a side is not of the kind that this matcher pairs.
    """
    _check_sides(target, golden)
    run = TorchairRun(target, golden)
    executions = pair_executions(target, golden, pair_ranks=pair_ranks, step_offset=step_offset)
    run.problems.extend(executions.problems)
    for execution, partner in executions.partners.items():
        if partner is None:
            run.one_sided(execution, is_target=True)
        else:
            run.match(execution, partner)
    for execution in executions.golden_only:
        run.one_sided(execution, is_target=False)
    return Pairs(
        target,
        golden,
        tuple(run.pairs),
        groups=tuple(run.groups),
        problems=tuple(run.problems),
        unused=tuple(executions.unused),
    )


def _check_sides(target: Catalog, golden: Catalog) -> None:
    problem = None
    cure = "swap `target` and `golden`, or read the dump with the stage that fits it"
    if target.framework == golden.framework != TORCHAIR_GE:
        cure = "two dumps of one kind are paired by `match.name`"
    if target.framework != TORCHAIR_GE:
        problem = (
            f"a device dump (`dump.torchair_ge`) as target, but `{target.side}` is a `{target.framework.name}` dump"
        )
    elif golden.framework not in _GOLDEN:
        problem = (
            f"an FX dump (`dump.torchair_fx`) or a device dump (`dump.torchair_ge`) as golden, but `{golden.side}` is "
            f"a `{golden.framework.name}` dump"
        )
    if problem is not None:
        raise UsageError(
            Diagnostic(
                "PF4004",
                f"`match.torchair` needs {problem}",
                help=cure,
            )
        )
