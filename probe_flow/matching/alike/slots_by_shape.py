"""Which tensors of nodes paired by structure correspond, where slots differ in number, order or name.

Within one framework equal slots correspond. The arguments of another framework's API are paired by name where the names
are known, the rest, like parameters of other names, by shape, in order; values decide between equal shapes only where a
framework is free in the order: in the gradients that a backward call gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations, permutations, product

from probe_flow.matching.alike.operations import family, kin
from probe_flow.matching.alike.values import CLOSE, likeness
from probe_flow.matching.shared.parameter_names import PARAMETER_ALIASES, argument_name
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Phase, Reason, Slot, SlotRole, TensorKind, TensorRef

Twosome = tuple[TensorRef | None, TensorRef | None]

_NUMERIC = frozenset({TensorKind.TENSOR, TensorKind.STATISTICS, TensorKind.UNREADABLE})
_NAMED = frozenset({SlotRole.PARAMETER, SlotRole.PARAMETER_GRAD, SlotRole.BUFFER})
_RESULT = Slot(SlotRole.OUTPUT, (0,))
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
            partner.update(_in_order(target, golden, mine, theirs))
            _pair_shapes(target, golden, mine, theirs, partner, is_free=is_cross_framework)
    taken = set(partner.values())
    twosomes: list[Twosome] = [
        (ref, golden[partner[place]] if place in partner else None) for place, ref in enumerate(target)
    ]
    return twosomes + [(None, ref) for place, ref in enumerate(golden) if place not in taken]


def pair_foreign_call(target: Sequence[TensorRef], golden: Sequence[TensorRef]) -> list[Twosome]:
    """Pair the tensors of two calls of APIs of different frameworks, whose slots may mean different arguments."""
    twosomes = pair_slots(target, golden, is_cross_framework=True)
    kinds = {family(refs[0].node.name.rpartition(".")[2]) for refs in (target, golden) if refs}
    takes_weight = kinds != {"matmul"} and {kin(kind) for kind in kinds} == {"linear"}
    if _adds_bias(target) != _adds_bias(golden):  # the other side does it in a call of its own
        twosomes = _parted(twosomes, lambda one: one.slot == _RESULT and one.node.phase is Phase.FORWARD)
    return without_transposed(twosomes) if takes_weight else twosomes


def _adds_bias(refs: Sequence[TensorRef]) -> bool:
    """Say whether a call of a convolution, which takes values and weights, takes a bias too."""
    if not refs or not family(refs[0].node.name.rpartition(".")[2]).startswith("conv"):
        return False
    given = [ref for ref in refs if ref.slot.role is SlotRole.INPUT and ref.kind in _NUMERIC]
    return any(ref.logical_shape is not None and len(ref.logical_shape) == 1 for ref in given)


def without_transposed(twosomes: Sequence[Twosome]) -> list[Twosome]:
    """Return twosomes with square gradients taken apart: one framework gives that of a weight transposed."""
    return _parted(twosomes, lambda one: is_weight_gradient(one) and len(set(one.logical_shape or ())) == 1)


def _parted(twosomes: Sequence[Twosome], is_other: Callable[[TensorRef], bool]) -> list[Twosome]:
    """Return twosomes with those taken apart that are of different things, as the target's tensor tells."""
    found: list[Twosome] = []
    for one, other in twosomes:
        is_apart = one is not None and other is not None and is_other(one)
        found += [(one, None), (None, other)] if is_apart else [(one, other)]
    return found


def is_weight_gradient(ref: TensorRef) -> bool:
    """Say whether a tensor may be the gradient of a weight that a backward call gives."""
    is_output = ref.node.phase is Phase.BACKWARD and ref.slot.role is SlotRole.OUTPUT
    return is_output and ref.logical_shape is not None and len(ref.logical_shape) == 2


def no_slot(ref: TensorRef, *, is_target: bool, is_foreign: bool, is_row: bool) -> Reason:
    """Say why a tensor of a paired node has no partner; the first output is a call's result, which must have one."""
    word = "golden" if is_target else "target"
    if (is_row or is_foreign) and is_weight_gradient(ref):
        text = (
            f"`{ref.slot}` may be the gradient of a weight, which one of the frameworks gives transposed; "
            "it is compared with the gradients of the parameters"
        )
        return CommonReason.TRANSPOSED.expected(text)
    if is_row or is_foreign:
        is_number = ref.kind in {TensorKind.TENSOR, TensorKind.STATISTICS}
        is_result = ref.node.phase is Phase.FORWARD and ref.slot == _RESULT
        where = "call" if not is_row else "call that does this work"
        why = "gives other tensors" if ref.slot.role is SlotRole.OUTPUT else "takes other arguments"
        text = f"the {word}'s {where} has no tensor that corresponds to `{ref.slot}`: it {why}"
        is_gap = is_number and (not is_foreign or (is_result and not is_row))
        return CommonReason.NO_SLOT[word].of(text, is_gap=is_gap)
    return CommonReason.NO_SLOT[word].missing(f"the {word}'s call has no `{ref.slot}`")


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
    if is_free:
        partner.update(_by_argument_names(target, golden, mine, theirs))
        named = set(partner.values())
        mine, theirs = [one for one in mine if one not in partner], [other for other in theirs if other not in named]
    by_slot = {golden[place].slot: place for place in reversed(theirs)}
    same = {place: by_slot[slot] for place in mine if (slot := _named(target[place].slot, names, by_slot)) in by_slot}
    role = target[mine[0]].slot.role if mine else None
    fitting = {
        place: other for place, other in same.items() if target[place].logical_shape == golden[other].logical_shape
    }
    alike = {one: n for one, n in same.items() if (target[one].kind in _NUMERIC) == (golden[n].kind in _NUMERIC)}
    is_by_slot = not is_free or role in _NAMED
    if not is_by_slot:
        ours, others = (
            {refs[place].slot: refs[place] for place in places if refs[place].kind in _NUMERIC}
            for refs, places in ((target, mine), (golden, theirs))
        )
        is_by_slot = _fit_in_place(ours, others) and not _is_free_gradient(target, mine)
    if is_by_slot:
        partner.update(fitting if role in _NAMED else alike if is_free else same)
    _pair_shapes(target, golden, mine, theirs, partner, is_free=is_free)
    taken = set(partner.values())
    for one, other in alike.items():  # the shape is what is wrong, or there is none
        if one not in partner and other not in taken:
            partner[one] = other


def _fit_in_place(ours: Mapping[Slot, TensorRef], others: Mapping[Slot, TensorRef]) -> bool:
    """Return whether all slots of the call that has fewer fit those of equal number, leading axes joined or not.

    Then the numbers count: of a square weight and as many rows of values, shapes alone would take one for the other.
    """
    fewer, more = (ours, others) if len(ours) <= len(others) else (others, ours)
    if not fewer:
        return not more
    return all(slot in more and _fits(one, more[slot]) for slot, one in fewer.items())


def _in_order(
    target: Sequence[TensorRef], golden: Sequence[TensorRef], mine: Sequence[int], theirs: Sequence[int]
) -> list[tuple[int, int]]:
    """Return numeric arguments in their order, where there are as many on both sides and each fits its partner."""
    ours, others = (
        [place for place in places if refs[place].kind in _NUMERIC]
        for refs, places in ((target, mine), (golden, theirs))
    )
    is_free = len(ours) != len(others) or _is_free_gradient(target, ours)
    pairs = [] if is_free else [*zip(ours, others, strict=True)]
    return pairs if all(_fits(target[one], golden[other]) for one, other in pairs) else []


def _fits(one: TensorRef, other: TensorRef) -> bool:
    return one.logical_shape == other.logical_shape or one.has_axes_joined(other)


def _by_argument_names(
    target: Sequence[TensorRef], golden: Sequence[TensorRef], mine: Sequence[int], theirs: Sequence[int]
) -> dict[int, int]:
    """Return the arguments of two forward calls that have one known name, whatever their slots."""
    ours, known = ({_argument(refs[n]): n for n in places} for refs, places in ((target, mine), (golden, theirs)))
    return {place: known[name] for name, place in ours.items() if name is not None and name in known}


def _argument(ref: TensorRef) -> str | None:
    is_argument = ref.slot.role is SlotRole.INPUT and ref.node.phase is Phase.FORWARD and len(ref.slot.path) == 1
    return argument_name(ref.node.name, ref.slot.path[0]) if is_argument and ref.kind in _NUMERIC else None


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
        is_by_values = is_free and _is_free_gradient(target, one)
        partner.update(_by_values(target, golden, one, other) if is_by_values else zip(one, other, strict=False))
    if is_free and not _is_free_gradient(target, mine):
        taken.update(partner.values())
        _pair_joined(target, golden, [each for each in mine if each not in partner], theirs, partner, taken)


def _pair_joined(
    target: Sequence[TensorRef],
    golden: Sequence[TensorRef],
    mine: Sequence[int],
    theirs: Sequence[int],
    partner: dict[int, int],
    taken: set[int],
) -> None:
    """Pair numeric tensors whose shapes differ in that leading axes are one, in order."""
    for one in mine:
        fits = (n for n in theirs if n not in taken and golden[n].kind in _NUMERIC)
        other = next((n for n in fits if target[one].has_axes_joined(golden[n])), None)
        if other is not None and target[one].kind in _NUMERIC:
            partner[one] = other
            taken.add(other)


def _is_free_gradient(refs: Sequence[TensorRef], places: Sequence[int]) -> bool:
    """Say whether these are the gradients that a backward call gives, whose order a framework chooses."""
    first = refs[places[0]] if places else None
    return first is not None and first.node.phase is Phase.BACKWARD and first.slot.role is SlotRole.OUTPUT


def _by_values(
    target: Sequence[TensorRef], golden: Sequence[TensorRef], mine: Sequence[int], theirs: Sequence[int]
) -> Sequence[tuple[int, int]]:
    """Return the pairs whose values agree best; where none are better those in order, of equal slots if numbers differ.

    A framework gives the gradients of all arguments, or only those that somebody needs. Those of primitives come from
    the last argument to the first: behind a fault no value tells otherwise that is not nearly equal.
    """
    is_reversed = _is_of_primitive(target[mine[0]]) != _is_of_primitive(golden[theirs[0]]) if mine and theirs else False
    if len(mine) == len(theirs):
        usual = [*zip(mine, theirs[::-1] if is_reversed else theirs, strict=True)]
    else:
        by_slot = {golden[place].slot: place for place in theirs}
        same = {place: by_slot[target[place].slot] for place in mine if target[place].slot in by_slot}
        others = [place for place in theirs if place not in set(same.values())]
        usual = [*same.items(), *zip([place for place in mine if place not in same], others, strict=False)]
    if not 1 < max(len(mine), len(theirs)) <= _MAX_PERMUTED:
        return usual
    fewer = min(len(mine), len(theirs))
    ways = (zip(*way, strict=True) for way in product(permutations(mine, fewer), combinations(theirs, fewer)))
    best = max([usual, *map(list, ways)], key=lambda way: _agreement(target, golden, way))  # of equal ones the first
    is_told = not is_reversed or any((likeness(target[one], golden[other]) or 0.0) >= CLOSE for one, other in best)
    return best if is_told else usual


def _is_of_primitive(ref: TensorRef) -> bool:
    """Say whether a call is one of a primitive of MindSpore."""
    return ref.node.name.startswith("Primitive.")


def _agreement(target: Sequence[TensorRef], golden: Sequence[TensorRef], pairs: Sequence[tuple[int, int]]) -> float:
    return math.fsum(likeness(target[one], golden[other]) or 0.0 for one, other in pairs)
