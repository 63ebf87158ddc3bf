"""Matching by name: entries of equal name, call and direction; an extra call does not shift those behind it.

Rules of the pairs: ``exact`` - equal name, call number and direction; ``aligned`` - equal name and direction, the call
number differs because one side calls more often; ``fuzzy`` - another name, where order and shapes speak for it (only
when asked for); ``none`` - no partner.
"""

from __future__ import annotations

from collections.abc import Mapping

from probe_flow.matching.name.pairs import pair_by_names
from probe_flow.records import Catalog, Pairs


def match_name(
    target: Catalog,
    golden: Catalog,
    *,
    pair_ranks: Mapping[int, int] | None = None,
    step_offset: int = 0,
    fuzzy: bool = False,
) -> Pairs:
    """Pair two dumps whose entries carry the same names.

    Backward calls are paired through their forwards, recomputed forwards with their like only. Every tensor of both
    sides is in the result; one without a partner says why.

    Args:
        target, golden: the dumps.
        pair_ranks: target rank -> golden rank, where the numbers differ.
        step_offset: golden step minus target step.
        fuzzy: also pair entries of other names by order, type and shapes.

    Returns:
        The pairs in the order of the target; what only the golden has follows what it follows there. Problems are
        warnings: PF4202 to PF4204 about ranks and steps.
    """
    return pair_by_names(target, golden, pair_ranks=pair_ranks, step_offset=step_offset, fuzzy=fuzzy)
