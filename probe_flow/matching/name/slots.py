"""Pairing of the tensors of two paired nodes, where kinds and dtypes can be compared at all.

By slot, but for calls of APIs of different frameworks: their slots may mean different arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.unjudged_apis import is_undefined, undefined_outputs
from probe_flow.errors import Span
from probe_flow.matching.alike.slots_by_shape import no_slot, pair_foreign_call
from probe_flow.matching.name.name_space import NO_ALIASES, Arguments
from probe_flow.matching.name.vocabulary import NameReason
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import Pair, Phase, Reason, ReasonKind, Rule, Slot, SlotRole, TensorKind, TensorRef

_FLOATS = frozenset({"float16", "float32", "float64", "bfloat16"})
_CLASSES = (
    ("bool", ("bool",)),
    ("integer", ("int", "uint")),
    ("float", tuple(_FLOATS)),
    ("complex", ("complex64", "complex128")),
)
_STATISTICS, _TENSOR = TensorKind.STATISTICS, TensorKind.TENSOR
"""Asked for each tensor: a member costs more to look up and to hash than to compare."""

_slot_of = attrgetter("slot")

_STATE = frozenset(("moving_mean", "moving_variance"))
"""What MindSpore records with the parameters of a cell, and PyTorch, where it is a buffer, not at all."""

_PARAMETERS = frozenset({SlotRole.PARAMETER, SlotRole.PARAMETER_GRAD})

OTHER_GRADIENTS = frozenset(
    {
        *("cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "gaussian_nll_loss"),
        *("gumbel_softmax", "hinge_embedding_loss", "kl_div", "l1_loss", "local_response_norm"),
        *("margin_ranking_loss", "multilabel_soft_margin_loss", "normalize", "outer", "pairwise_distance"),
        *("poisson_nll_loss", "rms_norm", "softmin", "softsign", "tanhshrink", "triplet_margin_loss"),
    }
)
"""APIs of several autograd nodes: the frameworks record the gradients of different ones.

Those of PyTorch 2.13 whose result's `grad_fn` reads no input of the call and gives a gradient of an input's shape.
"""

SlotOf = Callable[[TensorRef], Slot | None]


class Decision(Struct, frozen=True, gc=False):
    """How two nodes were paired, and with which liberties their tensors may be.

    Args:
        group: id of the group.
        label: what stands in it before the name of the target's entry, where the key says that.
        rule, span, confidence: of the pairs.
        is_cross_framework: whether the sides come from different frameworks.
        checks_dtypes: whether tensors of different dtype classes stay unmatched.
        aliases: other names of parameters -> the common name.
        arguments: rename the slots of target and golden.
        is_foreign_call: whether both are calls of APIs, of different frameworks, whose slots no mapping renames.
        summed: shapes of gradients that one framework alone adds up.
    """

    group: str
    rule: Rule
    span: Span | None = None
    confidence: float = 1.0
    is_cross_framework: bool = False
    checks_dtypes: bool = True
    aliases: Mapping[str, str] = field(default_factory=lambda: NO_ALIASES)
    arguments: tuple[Arguments | None, Arguments | None] = (None, None)
    is_foreign_call: bool = False
    label: str | None = None
    summed: frozenset[tuple[int, ...] | None] = frozenset()

    def knowing(self, target: Sequence[TensorRef], golden: Sequence[TensorRef]) -> Decision:
        """Return the decision for these tensors of two paired nodes.

        Of a tensor that is several arguments of a call MindSpore gives one gradient, the sum, in the first place and
        none in the others; PyTorch gives that of each argument, and none of one that needs none.
        """
        if not self.is_cross_framework or not target or target[0].node.phase is not Phase.BACKWARD:
            return self
        summed = _summed(target, golden) | _summed(golden, target)
        return replace(self, summed=summed) if summed else self

    def pair(self, one: TensorRef | None, other: TensorRef | None, reason: Reason | None = None) -> Pair:
        """Return one pair made by this decision; confidence is that of two-sided pairs."""
        is_whole = one is not None and other is not None
        confidence = self.confidence if is_whole else 1.0
        rule, span, label = self.rule, self.span, self.label
        return Pair.on_terms(one, other, self.group, rule, reason, rule_span=span, confidence=confidence, label=label)


def pair_tensors(target: Sequence[TensorRef], golden: Sequence[TensorRef], decision: Decision) -> list[Pair]:
    """Return the pairs of two paired nodes; what has no partner comes one-sided, with the reason.

    Tensors of equal slot (arguments of one name or shape, where APIs of different frameworks were called) are paired
    when their dtypes are equal or of one class: the usual floats among each other; across frameworks also integers of
    any width. None pairs with None, a scalar with a scalar of the same type.

    Args:
        target, golden: tensors of the nodes, in report order.
        decision: how the nodes were paired.
    """
    if _is_call(target) or _is_call(golden):
        return _pair_calls(target, golden, decision)
    decision = decision.knowing(target, golden)
    is_renamed = decision.arguments != (None, None)
    twosomes: Iterable[tuple[TensorRef | None, TensorRef | None]]
    if decision.is_foreign_call:
        twosomes = pair_foreign_call(target, golden)
    elif not is_renamed and [*map(_slot_of, target)] == [*map(_slot_of, golden)]:
        twosomes = zip(target, golden, strict=True)
    else:
        twosomes = by_slot(target, golden, decision)
    is_foreign = decision.is_cross_framework
    is_defined = not (target and undefined_outputs(target[0].node.name))
    is_made_otherwise = not is_foreign and _gradients(target) != _gradients(golden)
    pairs: list[Pair] = []
    for one, other in twosomes:
        if one is None or other is None:
            shown = one or other
            assert shown is not None
            is_target = other is None
            is_needless = is_foreign and _is_gradient(shown) and not _gradients(golden if is_target else target)
            reason = _NEEDLESS if is_needless else _no_slot(shown, decision, is_target=is_target)
            pairs.append(decision.pair(one, other, reason))
            continue
        if is_made_otherwise and _is_of_another_node(one, other):
            pairs += decision.pair(one, None, _OTHER_KERNEL), decision.pair(None, other, _OTHER_KERNEL)
            continue
        kind = one.kind
        is_alike = (
            kind is other.kind and (kind is _STATISTICS or kind is _TENSOR) and one.dtype == other.dtype
            and not (is_foreign and one.logical_shape != other.logical_shape)
        )  # fmt: skip # beyond doubt, as most are
        if is_alike and is_defined and not decision.summed and not (is_foreign and _is_other_gradient(one, other)):
            pairs.append(decision.pair(one, other))
        else:
            pairs += pair_twosome(one, other, decision)
    return pairs


def _is_call(refs: Sequence[TensorRef]) -> bool:
    """Return True for the tensors of a node of which a dump of task ``structure`` records no values."""
    return bool(refs) and refs[0].slot.role is SlotRole.CALL


def no_values(target: Sequence[TensorRef], golden: Sequence[TensorRef]) -> Reason | None:
    """Return why no tensors of two paired calls can be compared where one side records none; None otherwise."""
    if _is_call(target) == _is_call(golden):
        return None
    word = "target" if _is_call(target) else "golden"
    return CommonReason.NO_VALUES.missing(
        f"both sides have this call, but the {word} is a dump of task `structure`, which records no values"
    )


def _pair_calls(target: Sequence[TensorRef], golden: Sequence[TensorRef], decision: Decision) -> list[Pair]:
    """Return the pair of two calls without values, or all tensors alone where one side has values."""
    reason = no_values(target, golden)
    if reason is None:
        return [decision.pair(target[0], golden[0])]
    alone = [decision.pair(one, None, reason) for one in target]
    return alone + [decision.pair(None, other, reason) for other in golden]


def pair_twosome(one: TensorRef, other: TensorRef, decision: Decision) -> tuple[Pair, ...]:
    """Return the pair of two tensors that belong together, or both alone where they cannot be compared."""
    obstacle = _obstacle(one, other, decision)
    if obstacle is None:
        return (decision.pair(one, other, _note(one, other, is_foreign=decision.is_cross_framework)),)
    return decision.pair(one, None, obstacle), decision.pair(None, other, obstacle)


def _is_numeric(tensor: TensorRef) -> bool:
    return tensor.kind is _STATISTICS or tensor.kind is _TENSOR


def by_slot(
    target: Sequence[TensorRef], golden: Sequence[TensorRef], decision: Decision
) -> Iterator[tuple[TensorRef | None, TensorRef | None]]:
    """Yield both sides by slot, target order first. A slot that a reader gave twice pairs in order."""
    mine, theirs = (_renaming(arguments) for arguments in decision.arguments)
    rest: dict[Slot, list[TensorRef]] = {}
    alone: list[TensorRef] = []
    for tensor in golden:
        slot = theirs(tensor)
        if slot is None:
            alone.append(tensor)
        else:
            rest.setdefault(slot, []).append(tensor)
    wanted = {slot for tensor in target if (slot := mine(tensor)) is not None}
    by_alias = {_common(slot, decision.aliases): slot for slot in rest if slot not in wanted}
    for tensor in target:
        slot = mine(tensor)
        candidates = rest.get(slot) if slot is not None else None
        if not candidates and slot is not None and decision.aliases:
            candidates = rest.get(by_alias.get(_common(slot, decision.aliases), slot))
        yield tensor, candidates.pop(0) if candidates else None
    yield from ((None, tensor) for left in rest.values() for tensor in left)
    yield from ((None, tensor) for tensor in alone)


def _renaming(arguments: Arguments | None) -> SlotOf:
    if arguments is None:
        return lambda tensor: tensor.slot
    return lambda tensor: arguments.common(tensor.slot, tensor.node.phase)


def _common(slot: Slot, aliases: Mapping[str, str]) -> Slot:
    """Return the slot under the name that both frameworks understand (`gamma` is `weight`)."""
    last = slot.path[-1] if slot.path else None
    if slot.role not in _PARAMETERS or not isinstance(last, str):
        return slot
    return Slot(slot.role, (*slot.path[:-1], aliases.get(last, last)))


def _no_slot(tensor: TensorRef, decision: Decision, *, is_target: bool) -> Reason:
    if decision.is_foreign_call:
        return no_slot(tensor, is_target=is_target, is_foreign=True, is_row=False)
    mine, theirs = decision.arguments if is_target else decision.arguments[::-1]
    phase = tensor.node.phase
    slot = mine.common(tensor.slot, phase) if mine is not None else tensor.slot
    if slot is None or (theirs is not None and theirs.lists(slot.role, phase)):
        where = f" of {decision.span.brief}" if decision.span else ""
        text = f"the API mapping{where} leaves out `{tensor.slot}`"
        return CommonReason.NOT_MAPPED.outside(text)
    side = "golden" if is_target else "target"
    if decision.is_cross_framework and tensor.slot.role is SlotRole.PARAMETER and tensor.slot.path[-1] in _STATE:
        text = f"`{tensor.slot}` is no parameter in the {side}'s framework, which records none"
        return CommonReason.FRAMEWORK_INTERNAL.expected(text)
    return CommonReason.NO_SLOT[side].of(
        f"the {side}'s call has no `{slot}`", is_gap=tensor.kind is not TensorKind.NULL
    )


def _obstacle(one: TensorRef, other: TensorRef, decision: Decision) -> Reason | None:
    """Return why two tensors of one slot cannot be compared, None when they can."""
    if TensorKind.UNREADABLE in (one.kind, other.kind):
        return None
    if decision.is_cross_framework and _is_other_gradient(one, other):
        text = "the frameworks record the gradient of different autograd nodes of this API: these are not compared"
        return NameReason.OTHER_AUTOGRAD_NODE.expected(text)
    if one.slot.role is SlotRole.OUTPUT and one.logical_shape in decision.summed:
        text = "one framework adds up the gradients of arguments that are one tensor: these are not compared"
        return NameReason.OTHER_AUTOGRAD_NODE.expected(text)
    if is_undefined(one) and is_undefined(other):
        return NameReason.UNDEFINED_OUTPUT.expected("this output holds undefined memory, which nothing reads")
    if _is_numeric(one) and _is_numeric(other):
        is_same = one.dtype == other.dtype or (one.dtype in _FLOATS and other.dtype in _FLOATS)
        if is_same or not decision.checks_dtypes:
            return None
        if decision.is_cross_framework and _class_of(one.dtype) == _class_of(other.dtype) is not None:
            return None
        return _unlike(NameReason.DTYPE_INCOMPATIBLE, one, other)
    if one.kind is not other.kind:
        return _unlike(NameReason.KIND_INCOMPATIBLE, one, other)
    if one.kind is TensorKind.NULL or one.stored_dtype == other.stored_dtype:
        return None
    return _unlike(NameReason.TYPE_INCOMPATIBLE, one, other)


def _summed(mine: Sequence[TensorRef], theirs: Sequence[TensorRef]) -> frozenset[tuple[int, ...] | None]:
    """Return the shapes of gradients of ours that stand for those of places, too, where only the other side has one."""
    if any(ref.requires_grad is not None for ref in mine):  # only PyTorch records it
        return frozenset()
    none = {ref.slot for ref in mine if ref.kind is TensorKind.NULL}
    lone = {ref.logical_shape for ref in theirs if ref.slot in none and _is_numeric(ref)}
    return frozenset(ref.logical_shape for ref in mine if _is_numeric(ref) and ref.slot.role is SlotRole.OUTPUT) & lone


_OTHER_KERNEL = NameReason.OTHER_AUTOGRAD_NODE.expected(
    "the sides compute this call by kernels of different autograd nodes, of which these are: they are not compared"
)


_NEEDLESS = NameReason.OTHER_AUTOGRAD_NODE.expected(
    "one framework alone gives the gradient of an input that needs none: it is not compared"
)


def _gradients(refs: Sequence[TensorRef]) -> int:
    """Return how many gradients a backward call gives; 0 of a forward call."""
    return sum(map(_is_gradient, refs))


def _is_gradient(tensor: TensorRef) -> bool:
    return tensor.node.phase is Phase.BACKWARD and tensor.slot.role is SlotRole.OUTPUT


def _is_of_another_node(one: TensorRef, other: TensorRef) -> bool:
    """Say whether gradients of calls that give different numbers of them are of different steps, by their shapes.

    A fused attention gives those of query, key and value; one that is made of products, those of its last product.
    """
    shapes = (one.logical_shape, other.logical_shape)
    return one.slot.role is SlotRole.OUTPUT and None not in shapes and shapes[0] != shapes[1]


def _is_other_gradient(one: TensorRef, other: TensorRef) -> bool:
    """Say whether gradients that two backward calls give are of different steps of the call.

    By its name, by shapes, or because one of them is of integers: MindSpore gives such for lengths and indices.
    """
    key = one.node
    if key.phase is not Phase.BACKWARD or one.slot.role is not SlotRole.OUTPUT:
        return False
    if key.name.rpartition(".")[2] in OTHER_GRADIENTS or _class_of(one.dtype) != _class_of(other.dtype):
        return True
    return _is_of_another_node(one, other)


def _class_of(dtype: str) -> str | None:
    word = dtype.rstrip("0123456789") if dtype.startswith(("int", "uint")) else dtype
    return next((name for name, members in _CLASSES if word in members), None)


def _unlike(kind: ReasonKind, one: TensorRef, other: TensorRef) -> Reason:
    text = f"target is {_described(one)}, golden {_described(other)}: these are not compared"
    is_gap = _is_numeric(one) or _is_numeric(other)
    return kind.of(text, is_gap=is_gap)


def _described(tensor: TensorRef) -> str:
    if tensor.kind is TensorKind.NULL:
        return "None"
    return tensor.stored_dtype or tensor.dtype or tensor.kind.value


def _note(one: TensorRef, other: TensorRef, *, is_foreign: bool) -> Reason | None:
    if TensorKind.UNREADABLE in (one.kind, other.kind):
        return None
    dtypes = f"dtypes differ: target {_described(one)}, golden {_described(other)}" if one.dtype != other.dtype else ""
    if is_foreign and one.has_axes_joined(other):
        text = f"the same elements: leading axes of {one.logical_shape} and {other.logical_shape} are joined in one"
        return NameReason.AXES_JOINED.expected(f"{text}; {dtypes}" if dtypes else text)
    return NameReason.DTYPE_DIFFERS.expected(dtypes) if dtypes else None
