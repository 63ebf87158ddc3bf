"""Leftover MindSpore primitives that together are one leftover PyTorch API, within cells that are paired already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from probe_flow.matching.name.calls import CallPairs
from probe_flow.matching.name.name_space import Arguments
from probe_flow.matching.name.reasons import entry_of
from probe_flow.matching.name.side import Side
from probe_flow.matching.name.vocabulary import NameRule
from probe_flow.matching.shared.vocabulary import CommonReason
from probe_flow.records import NodeKind, Phase, Reason, Rule, Slot, SlotRole, TensorRef

Slots = Mapping[str, str]
"""Slot of the primitive -> slot of the API, as text: ``input.1`` -> ``input.2``."""

_SAME: Slots = {"input.0": "input.0", "output.0": "output.0"}


class Step(Struct, frozen=True):
    """One primitive: its class, and which of its tensors the API has too."""

    primitive: str
    forward: Slots = field(default_factory=dict)
    backward: Slots = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash(self.primitive)


_BIAS = Step("BiasAdd", {"input.1": "input.2", "output.0": "output.0"}, {"input.0": "input.0", "output.0": "output.0"})
LINEAR = (
    Step("MatMul", {"input.0": "input.0", "input.1": "input.1"}, {"output.1": "output.1"}),
    _BIAS,
)
PRODUCT = (
    Step("MatMul", {"input.0": "input.0", "input.1": "input.1", "output.0": "output.0"}, {"input.0": "input.0"}),
)
_TAKEN: Slots = {"input.0": "input.0", "input.1": "input.1", "output.0": "output.0"}
DENSE = (Step("Dense", {**_TAKEN, "input.2": "input.2"}, {"input.0": "input.0"}),)
DENSE_PRODUCT = (Step("Dense", _TAKEN, {"input.0": "input.0"}),)
LAYER_NORM = (
    Step(
        "LayerNorm",
        {"input.0": "input.0", "input.1": "input.2", "input.2": "input.3", "output.0": "output.0"},
        {"input.0": "input.0", "output.0": "output.2", "output.1": "output.1", "output.2": "output.0"},
    ),
)
BATCH_NORM = (
    Step(
        "BatchNorm",
        {"input.0": "input.0", "input.1": "input.3", "input.2": "input.4", "input.3": "input.1", "input.4": "input.2",
         "output.0": "output.0"},
        {"input.0": "input.0", "output.0": "output.2", "output.1": "output.1", "output.2": "output.0"},
    ),
)  # fmt: skip
EMBEDDING = (Step("Gather", {"input.0": "input.1", "input.1": "input.0", "output.0": "output.0"}, _SAME),)
PRELU = (Step("PReLU", {**_SAME, "input.1": "input.1"}, {"input.0": "input.0", "output.1": "output.0"}),)


def _convolutions(primitive: str) -> tuple[tuple[Step, ...], ...]:
    """Return the ways in which a convolution is one primitive, and the sum with its bias another."""
    taken, gradients = {"input.0": "input.0", "input.1": "input.1"}, {"output.0": "output.1", "output.1": "output.0"}
    bias = Step("BiasAdd", _BIAS.forward, {"input.0": "input.0", "output.0": "output.2"})
    alone = Step(primitive, {**taken, "output.0": "output.0"}, {**gradients, "input.0": "input.0"})
    return (Step(primitive, taken, gradients), bias), (alone,)


_ELEMENTWISE = {
    "avg_pool2d": "AvgPool",
    "elu": "Elu",
    "gelu": "GeLU",
    "hardsigmoid": "HSigmoid",
    "hardswish": "HSwish",
    "log_softmax": "LogSoftmax",
    "max_pool2d": "MaxPool",
    "relu": "ReLU",
    "relu6": "ReLU6",
    "sigmoid": "Sigmoid",
    "silu": "SiLU",
    "softmax": "Softmax",
    "tanh": "Tanh",
}

FORMS: Mapping[str, tuple[tuple[Step, ...], ...]] = {
    "linear": (LINEAR, DENSE, PRODUCT, DENSE_PRODUCT),
    "matmul": (PRODUCT,),
    "mm": (PRODUCT,),
    "layer_norm": (LAYER_NORM,),
    "batch_norm": (BATCH_NORM,),
    "embedding": (EMBEDDING,),
    "prelu": (PRELU,),
    "conv2d": _convolutions("Conv2D"),
    "conv3d": _convolutions("Conv3D"),
    "conv_transpose2d": _convolutions("Conv2DTranspose"),
    "conv_transpose3d": _convolutions("Conv3DTranspose"),
    **{api: ((Step(primitive, _SAME, _SAME),),) for api, primitive in _ELEMENTWISE.items()},
}
"""API (last segment of the name) -> the ways in which primitives make it up, the longest first."""


CONFIDENCE = 0.8
MAX_AHEAD = 64
"""Calls of one caller that are searched for the next primitive of an API."""

_PRIMITIVE = "Primitive."


class Part(Struct, frozen=True):
    """One target node, the golden node that it is a part of, and which tensors the two share."""

    number: int
    golden: int
    arguments: Arguments
    text: str

    def why_alone(self, slot: Slot) -> Reason:
        """Return why a tensor of the part has no partner."""
        return CommonReason.INTERNAL.expected(f"`{slot}` lies inside `{self.text}` of the golden")


class Whole(Struct):
    """A golden node that several target nodes make up, and what of it has no partner yet."""

    targets: tuple[int, ...]
    text: str
    rule: Rule = NameRule.API_MAPPING
    confidence: float = CONFIDENCE
    left: list[TensorRef] | None = None

    def rest(self, tensors: Sequence[TensorRef]) -> list[TensorRef]:
        """Return the golden tensors that no part has taken yet, as the one list to take them from."""
        if self.left is None:
            self.left = list(tensors)
        return self.left

    def why_alone(self, slot: Slot) -> Reason:
        """Return why a tensor of the golden node has no partner."""
        text = f"`{slot}` has no counterpart among the primitives that are `{self.text}` in the target"
        return CommonReason.INTERNAL.expected(text)


class Parts(Struct):
    """What was found: by target node, and by golden node."""

    of_target: dict[int, Part] = field(default_factory=dict)
    wholes: dict[int, Whole] = field(default_factory=dict)


def find_parts(target: Side, golden: Side, calls: CallPairs) -> Parts:
    """Find primitives of the target that make up an API of the golden; the nodes themselves stay out of `calls`.

    Forwards are searched caller by caller, in the order of both dumps, and must agree in the shapes of what they
    share, but that a primitive may have its leading axes as one; a backward follows its forward.
    """
    search = _Search(target, golden, calls)
    for number, mine in search.primitives.items():
        scope = calls.golden_of.get(number) if number is not None else None
        if number is None or scope is not None:
            search.within(mine, search.apis.get(scope, []))
    return search.parts


class _Search:
    def __init__(self, target: Side, golden: Side, calls: CallPairs) -> None:
        self.target = target
        self.golden = golden
        self.parts = Parts()
        self.primitives = _by_caller(target, set(calls.golden_of), _PRIMITIVE)
        self.apis = _by_caller(golden, set(calls.target_of), "")
        self._backward = [
            {(node.key.name, node.key.call): n for n, node in enumerate(side.nodes) if node.key.phase is Phase.BACKWARD}
            for side in (target, golden)
        ]
        self._paired = (calls.golden_of, calls.target_of)

    def within(self, mine: Sequence[int], theirs: Sequence[int]) -> None:
        """Find the wholes among the calls of one caller, in order."""
        start = 0
        for number in theirs:
            for steps in FORMS.get(self.golden.nodes[number].op_type, ()):
                found = self._places(steps, mine, start, number)
                if found:
                    start = found[-1] + 1
                    self._add(steps, [mine[place] for place in found], number)
                    break

    def _places(self, steps: Sequence[Step], mine: Sequence[int], start: int, number: int) -> list[int]:
        """Return where the steps stand, from `start` on; empty where one is missing or of another shape."""
        found: list[int] = []
        for step in steps:
            ahead = range(start, min(len(mine), start + MAX_AHEAD))
            place = next((at for at in ahead if self._is(step, mine[at], number)), None)
            if place is None:
                return []
            found.append(place)
            start = place + 1
        return found

    def _is(self, step: Step, number: int, golden: int) -> bool:
        """Return whether a call is a step of an API: of its class, and of equal shapes in what the two share."""
        is_primitive = self.target.nodes[number].op_type == step.primitive
        return is_primitive and self._has_shapes(step.forward, number, golden)

    def _has_shapes(self, slots: Slots, number: int, golden: int) -> bool:
        mine = {str(tensor.slot): tensor for tensor in self.target.tensors[number]}
        theirs = {str(tensor.slot): tensor for tensor in self.golden.tensors[golden]}
        if not all(one in mine and other in theirs for one, other in slots.items()):
            return False
        twosomes = [(mine[one], theirs[other]) for one, other in slots.items()]
        return all(one.logical_shape == other.logical_shape or one.has_axes_joined(other) for one, other in twosomes)

    def _add(self, steps: Sequence[Step], numbers: Sequence[int], golden: int) -> None:
        self._record([(number, step.forward) for number, step in zip(numbers, steps, strict=True)], golden)
        key = self.golden.nodes[golden].key
        back = self._backward[1].get((key.name, key.call))
        if back is None or back in self._paired[1]:
            return
        found = []
        for number, step in zip(numbers, steps, strict=True):
            mine = self.target.nodes[number].key
            number = self._backward[0].get((mine.name, mine.call), -1)
            if number >= 0 and number not in self._paired[0]:
                found.append((number, step.backward))
        if found:
            self._record(sorted(found, key=lambda each: each[0]), back)

    def _record(self, found: Sequence[tuple[int, Slots]], golden: int) -> None:
        text = entry_of(self.golden.nodes[golden])
        self.parts.wholes[golden] = Whole(tuple(number for number, _ in found), text)
        for number, slots in found:
            arguments = _arguments(slots, self.target.nodes[number].key.phase)
            self.parts.of_target[number] = Part(number, golden, arguments, text)


def _arguments(slots: Slots, phase: Phase) -> Arguments:
    tables: dict[tuple[Phase, SlotRole], dict[str, str]] = {(phase, SlotRole.INPUT): {}, (phase, SlotRole.OUTPUT): {}}
    for one, other in slots.items():
        (role, _, index), (_, _, common) = one.partition("."), other.partition(".")
        tables[phase, SlotRole(role)][index] = common
    return Arguments(tables)


def _by_caller(side: Side, paired: set[int], prefix: str) -> dict[int | None, list[int]]:
    """Return the unpaired forward APIs by the node that called them (None: nothing), in the order of the dump."""
    found: dict[int | None, list[int]] = {}
    for number, node in enumerate(side.nodes):
        scope = side.scopes[number]
        is_call = node.key.phase is Phase.FORWARD and node.kind is NodeKind.API and node.key.name.startswith(prefix)
        if is_call and number not in paired and number not in side.repeats and not isinstance(scope, str):
            found.setdefault(scope, []).append(number)
    return found
