"""Which tensors of nodes paired by structure correspond, where slots differ in number, order or name.

Within one framework equal slots correspond. Parameters of other names, and the arguments of another framework's API,
are paired by shape, in order; values decide between equal shapes only where a framework is free in the order: in the
gradients that a backward call gives.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import permutations

from probe_flow.matching.parameter_names import PARAMETER_ALIASES
from probe_flow.matching.structure_values import EQUAL, likeness
from probe_flow.records import Phase, Slot, SlotRole, TensorKind, TensorRef

Twosome = tuple[TensorRef | None, TensorRef | None]

_NUMERIC = frozenset({TensorKind.TENSOR, TensorKind.STATISTICS, TensorKind.UNREADABLE})
_NAMED = frozenset({SlotRole.PARAMETER, SlotRole.PARAMETER_GRAD, SlotRole.BUFFER})
_MAX_PERMUTED = 4


def pair_slots(
    target: Sequence[TensorRef],
    golden: Sequence[TensorRef],
    *,
    is_cross_framework: bool,
    names: Mapping[str, str] | None = None,
    knows_slots: bool = True,
) -> list[Twosome]:
    """Pair the tensors of two nodes: twosomes in the order of the target, what only the golden has at the end.

    Args:
        target, golden: their tensors.
        is_cross_framework: whether slots of one number may mean different arguments.
        names: target parameter -> golden parameter, where known.
        knows_slots: False where slots of one number mean different things.
    """
    partner: dict[int, int] = {}
    roles = dict.fromkeys(ref.slot.role for ref in (*target, *golden))
    for role in roles:
        mine = [place for place, ref in enumerate(target) if ref.slot.role is role]
        theirs = [place for place, ref in enumerate(golden) if ref.slot.role is role]
        if knows_slots:
            _pair_role(target, golden, mine, theirs, partner, is_free=is_cross_framework, names=names or {})
        else:
            _pair_shapes(target, golden, mine, theirs, partner, is_free=is_cross_framework)
    taken = set(partner.values())
    twosomes: list[Twosome] = [
        (ref, golden[partner[place]] if place in partner else None) for place, ref in enumerate(target)
    ]
    return twosomes + [(None, ref) for place, ref in enumerate(golden) if place not in taken]


def without_transposed(twosomes: Sequence[Twosome]) -> list[Twosome]:
    """Return twosomes with square gradients taken apart: one framework gives that of a weight transposed."""
    parted: list[Twosome] = []
    for one, other in twosomes:
        is_pair = one is not None and other is not None
        if is_pair and one is not None and is_weight_gradient(one) and len(set(one.logical_shape or ())) == 1:
            parted += [(one, None), (None, other)]
        else:
            parted.append((one, other))
    return parted


def is_weight_gradient(ref: TensorRef) -> bool:
    """Say whether a tensor may be the gradient of a weight that a backward call gives."""
    is_output = ref.node.phase is Phase.BACKWARD and ref.slot.role is SlotRole.OUTPUT
    return is_output and ref.logical_shape is not None and len(ref.logical_shape) == 2


def parameter_names(twosomes: Sequence[Twosome]) -> dict[str, str]:
    """Return target parameter -> golden parameter of paired nodes."""
    return {
        str(one.slot.path[0]): str(other.slot.path[0])
        for one, other in twosomes
        if one is not None and other is not None and one.slot.role is SlotRole.PARAMETER
    }


def _pair_role(
    target: Sequence[TensorRef],
    golden: Sequence[TensorRef],
    mine: Sequence[int],
    theirs: Sequence[int],
    partner: dict[int, int],
    *,
    is_free: bool,
    names: Mapping[str, str],
) -> None:
    by_slot = {golden[place].slot: place for place in reversed(theirs)}
    same = {place: by_slot[slot] for place in mine if (slot := _named(target[place].slot, names, by_slot)) in by_slot}
    role = target[mine[0]].slot.role if mine else None
    fitting = {
        place: other for place, other in same.items() if target[place].logical_shape == golden[other].logical_shape
    }
    is_by_slot = not is_free or role in _NAMED
    if not is_by_slot:
        numeric = [
            {refs[place].slot: refs[place].logical_shape for place in places if refs[place].kind in _NUMERIC}
            for refs, places in ((target, mine), (golden, theirs))
        ]
        is_by_slot = numeric[0] == numeric[1] and not _is_free_gradient(target, mine)
    if is_by_slot:
        partner.update(fitting if role in _NAMED else same)
    _pair_shapes(target, golden, mine, theirs, partner, is_free=is_free)
    taken = set(partner.values())
    for one, other in same.items():  # the shape is what is wrong, or there is none
        is_alike = (target[one].kind in _NUMERIC) == (golden[other].kind in _NUMERIC)
        if is_alike and one not in partner and other not in taken:
            partner[one] = other


def _named(slot: Slot, names: Mapping[str, str], known: Mapping[Slot, int]) -> Slot:
    """Return the golden slot of a target slot: the same, or that of the parameter's other name."""
    if slot.role not in _NAMED or slot in known:
        return slot
    word = str(slot.path[0])
    others = [
        names.get(word),
        PARAMETER_ALIASES.get(word),
        *(ours for ours, theirs in PARAMETER_ALIASES.items() if theirs == word),
    ]
    for other in others:
        if other is not None and Slot(slot.role, (other, *slot.path[1:])) in known:
            return Slot(slot.role, (other, *slot.path[1:]))
    return slot


def _pair_shapes(
    target: Sequence[TensorRef],
    golden: Sequence[TensorRef],
    mine: Sequence[int],
    theirs: Sequence[int],
    partner: dict[int, int],
    *,
    is_free: bool,
) -> None:
    """Pair numeric tensors of equal shape in order; gradients whose order is free by their values, if these decide."""
    taken = set(partner.values())
    groups: dict[Hashable, tuple[list[int], list[int]]] = {}
    for which, (refs, places) in enumerate(((target, mine), (golden, theirs))):
        for place in places:
            is_open = place not in partner if which == 0 else place not in taken
            if is_open and refs[place].kind in _NUMERIC and refs[place].logical_shape is not None:
                groups.setdefault(refs[place].logical_shape, ([], []))[which].append(place)
    for one, other in groups.values():
        ordered = _by_values(target, golden, one, other) if is_free and _is_free_gradient(target, one) else other
        partner.update(zip(one, ordered, strict=False))


def _is_free_gradient(refs: Sequence[TensorRef], places: Sequence[int]) -> bool:
    """Say whether these are the gradients that a backward call gives, whose order a framework chooses."""
    first = refs[places[0]] if places else None
    return first is not None and first.node.phase is Phase.BACKWARD and first.slot.role is SlotRole.OUTPUT


def _by_values(
    target: Sequence[TensorRef], golden: Sequence[TensorRef], mine: Sequence[int], theirs: Sequence[int]
) -> list[int]:
    """Return the golden tensors in the one order in which all values agree; as they are when there is no such order."""
    if not 1 < len(mine) == len(theirs) <= _MAX_PERMUTED:
        return list(theirs)
    fitting = [
        list(order)
        for order in permutations(theirs)
        if all((likeness(target[a], golden[b]) or 0.0) >= EQUAL * 0.9 for a, b in zip(mine, order, strict=True))
    ]
    return fitting[0] if len(fitting) == 1 else list(theirs)
