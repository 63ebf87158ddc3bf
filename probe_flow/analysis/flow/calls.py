"""Rows by the call that owns them, and what bears on a call beyond its own inputs.

A call is a node of the target: an operator, API or module, once, in one direction. What bears on it: the modules around
it, the calls inside it, the forward call whose activations its gradient uses.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property, lru_cache
from itertools import groupby

from msgspec import Struct

from probe_flow.analysis.communication import PREFIXES
from probe_flow.records import Execution, Node, NodeKey, Pairs, Phase, shared_numbers
from probe_flow.records.row import Row
from probe_flow.relations.call_tree import CallTree, call_trees

GRADIENTS = ".parameters_grad"
"""Ends the name under which a dump keeps the gradients of a module's parameters."""

GATED = re.compile(
    r"(?i)(relu|selu|threshold|hardtanh|hardsigmoid|hardswish|hardshrink|softshrink|clamp|clip|maximum|minimum|"
    r"max_?pool|amax|amin|topk|sort|median|kthvalue|quantile|cum(max|min)|gather|scatter|index_select|take_along|hinge|(?<!soft_)margin_(ranking_)?loss)|"
    r"^_*(f?max|f?min|abs|l1_?loss)_*$"
)
"""Types whose derivative jumps somewhere, by a part of their name."""

SINGULAR = re.compile(
    r"(?i)_*(r|i|real|true|r_?true|i_?true|addc)?_?(sqrt|reciprocal|pow(er)?|div(ide)?(_?no_?nan)?|log(2|10|1p)?|"
    r"a(rc)?tan_?2|angle|(sparse)?apply(centered)?(ada\w*?|rmsprop))"
    r"(d|v\d+|_?grad|_\d+)*_*"
)
"""Types, whole, whose derivative grows without bound where what they read comes near to zero; angles jump by a turn.
Some optimizers divide by the root of what gradients were."""


@lru_cache(maxsize=4096)
def is_gated(op_type: str) -> bool:
    """Say whether the derivative of an operator jumps: a few elements of its gradient may be anything."""
    return GATED.search(op_type) is not None


_BACKWARD = re.compile(r"(?i)grad|backward|backprop")


def gradient_place(op_type: str) -> int:
    """Return which input of the derivative of a gate is the gradient; the others decide where it passes.

    Prototypes of CANN and TensorFlow have it first, but behind what was pooled (input and result, or input alone where
    the places are given) and behind the result of some functions.

    >>> gradient_place("ReluGrad"), gradient_place("MaxPoolGrad"), gradient_place("MaxPoolGradWithArgmaxV1")
    (0, 2, 1)
    """
    lower = op_type.lower()
    if "pool" in lower:
        return 0 if "backward" in lower else 1 if "argmax" in lower else 2
    return 1 if lower.startswith(("absgrad", "hardtanhgrad")) else 0


@lru_cache(maxsize=4096)
def is_gate_gradient(op_type: str) -> bool:
    """Return True if an operator of a graph computes such a derivative, from the gradient and what decides: ReluGrad.

    >>> is_gate_gradient("ReluGradV2"), is_gate_gradient("TanhGrad"), is_gate_gradient("Relu")
    (True, False, False)
    """
    return is_gated(op_type) and _BACKWARD.search(op_type) is not None


_COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall", "moedistribute")


class Call(Struct, eq=False, gc=False):
    """One call with its measured rows, by number. Two are the same call if their keys are equal.

    Args:
        key, node: identity; what the catalog says of it or of the same call of another rank, None when nothing.
        reads, writes: measured rows of what it reads and writes; of most calls one each, without a tuple around it.
        container: the module call around it.
        forward: rows of the forward calls whose values a gradient depends on.
        incoming: for gradients of parameters: rows of the gradients that reach the module.
        is_gradient: whether it belongs to the backward pass.
    """

    key: NodeKey
    node: Node | None
    reads: int | tuple[int, ...] = ()
    writes: int | tuple[int, ...] = ()
    container: Call | None = None
    forward: tuple[int, ...] = ()
    incoming: tuple[int, ...] = ()
    is_gradient: bool = False

    def __post_init__(self) -> None:
        self.is_gradient = is_gradient(self.key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Call) and self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)

    @property
    def read(self) -> tuple[int, ...]:
        """Measured rows of what it reads."""
        return self.reads if isinstance(self.reads, tuple) else (self.reads,)

    @property
    def written(self) -> tuple[int, ...]:
        """Measured rows of what it writes."""
        return self.writes if isinstance(self.writes, tuple) else (self.writes,)

    @property
    def is_in_place(self) -> bool:
        """Whether it overwrites what it reads, by its name: ``__iadd__``, ``__setitem__``, ``relu_``."""
        kind = self.node.op_type if self.node is not None else ""
        return kind.startswith(("__i", "__setitem")) or (kind.endswith("_") and not kind.endswith("__"))

    @property
    def is_gated(self) -> bool:
        """Whether its derivative jumps somewhere."""
        return self.node is not None and is_gated(self.node.op_type)

    @property
    def is_singular(self) -> bool:
        """Whether its derivative has no bound near zero."""
        return self.node is not None and SINGULAR.fullmatch(self.node.op_type) is not None

    @property
    def is_gate_gradient(self) -> bool:
        """Whether it is an operator of a graph that computes such a derivative."""
        return self.node is not None and is_gate_gradient(self.node.op_type)

    @property
    def gradient_place(self) -> int | None:
        """Number of the input that is the gradient, of an operator that `is_gate_gradient`; the others decide."""
        return gradient_place(self.node.op_type) if self.node is not None else None

    @property
    def communicates(self) -> bool:
        """Whether it exchanges tensors between ranks, by its name and type."""
        return self.key.name.startswith(PREFIXES) or _is_exchange(self.node.op_type if self.node else "")

    def is_random(self, rows: Sequence[Row]) -> bool:
        """Return True if it draws from a random state: by its type, and by arguments that turn that off.

        Of a module no argument says so: one that gives what it got, as dropout does outside of training, drew nothing.
        """
        if self.node is None or not draws(self.node.op_type):
            return False
        if any(_turns_off(rows[number]) for number in self.read):
            return False
        return not any(_is_same_tensor(rows[one], rows[other]) for one in self.read for other in self.written)

    def around(self) -> Iterator[Call]:
        """Yield the modules around it, innermost first."""
        seen = {id(self)}
        call = self.container
        while call is not None and id(call) not in seen:
            seen.add(id(call))
            yield call
            call = call.container


def _is_same_tensor(read: Row, written: Row) -> bool:
    """Whether a call's result shows what it read, on both sides: its statistics, and how the sides differ."""
    before, after = read.measurement, written.measurement
    if before is None or after is None or before.count != after.count or before.metrics != after.metrics:
        return False
    sides = (before.target_statistics, after.target_statistics), (before.golden_statistics, after.golden_statistics)
    return all(one is not None and one == other and one.l2norm is not None for one, other in sides)


class Calls:
    """Calls of the target, and the call of each row.

    Args:
        rows: which follow each other.
        pairs: of the comparison.
        first: number of the first row.
        trees: what called what in each execution of the target; None = found here.
    """

    of: Sequence[Call | None]

    def __init__(
        self,
        rows: Sequence[Row],
        pairs: Pairs,
        first: int = 0,
        trees: Mapping[Execution, CallTree] | None = None,
    ) -> None:
        by_key: dict[NodeKey, Call] = {}
        of: list[Call | None] = []
        self._inside: dict[Call, Call | list[Call]] = {}
        node_like = pairs.target.node_like
        numbers = shared_numbers(len(rows)) if not first else range(first, first + len(rows))
        for key, owned in groupby(zip(numbers, rows, strict=False), key=_target_node):  # mostly they follow each other
            if key is None:
                of += [None for _ in owned]
                continue
            call = by_key.get(key)
            if call is None:
                call = by_key[key] = Call(key, node_like(key))
            read: list[int] = []
            written: list[int] = []
            for number, row in owned:
                if row.measurement is not None:
                    (written if row.is_produced else read).append(number)
                of.append(call)
            call.reads, call.writes = _bare(*call.read, *read), _bare(*call.written, *written)
        self.of, self._calls = of, [*by_key.values()]
        self._gradients = {
            (call.key.execution, call.key.name): call for call in self if call.key.name.endswith(GRADIENTS)
        }
        self._connect_modules(call_trees(pairs.target) if trees is None else trees)
        for some in self._by_execution().values():
            self._connect_gradients(some)
        self.communicating: Sequence[Call] = [call for call in self if call.communicates]

    def __iter__(self) -> Iterator[Call]:
        return iter(self._calls)

    @cached_property
    def by_key(self) -> Mapping[NodeKey, Call]:
        """The calls by their nodes; made when it is asked for, as few dumps need it."""
        return {call.key: call for call in self._calls}

    @cached_property
    def derivatives(self) -> AbstractSet[NodeKey]:
        """The operators of graphs that compute gradients, by their types: a graph says nowhere where these begin."""
        return {call.key for call in self if call.node is not None and _is_derivative(call.node.op_type)}

    @property
    def executions(self) -> Sequence[Execution]:
        """Those that have calls, in order of first appearance."""
        return [*self._by_execution()]

    def place(self, call: Call) -> int:
        """Return the number of a call, in the order in which they come."""
        return self._places[call]

    @cached_property
    def _places(self) -> Mapping[Call, int]:
        return {call: place for place, call in enumerate(self)}

    def inside(self, module: Call) -> Sequence[Call]:
        """Return the calls that a call contains."""
        found = self._inside.get(module, ())
        return (found,) if isinstance(found, Call) else found

    def gradients_of(self, module: Call) -> Call | None:
        """Return the call that holds the gradients of a module's parameters."""
        return self._gradients.get((module.key.execution, module.key.name + GRADIENTS))

    def _by_execution(self) -> Mapping[Execution, Sequence[Call]]:
        """Return the calls of each execution: what connects them is known of one at a time, which takes less memory."""
        found: dict[Execution, list[Call]] = {}
        for run, some in groupby(self._calls, key=lambda call: call.key.execution):
            found.setdefault(run, []).extend(some)
        return found

    def _connect_modules(self, trees: Mapping[Execution, CallTree]) -> None:
        for run, calls in self._by_execution().items():
            tree = trees.get(run)
            for call in calls if tree is not None and tree.has_calls_inside else ():
                assert tree is not None
                call.container = self._container(call, tree)
                if call.container is not None:
                    self._put_inside(call.container, call)

    def _put_inside(self, module: Call, call: Call) -> None:
        """Note what a call contains; most contain one, without a list around it."""
        found = self._inside.setdefault(module, call)
        if isinstance(found, list):
            found.append(call)
        elif found is not call:
            self._inside[module] = [found, call]

    def _container(self, call: Call, tree: CallTree) -> Call | None:
        """Return the nearest call around one that has rows."""
        if call.node is None or (call.node.caller is None and call.key.phase is Phase.NONE):
            return None  # the gradients of parameters belong to a module, to no call of it
        around = (tree.calls[number].key for number in tree.around(tree.numbers[call.key]))
        return next((self.by_key[key] for key in around if key in self.by_key), None)

    def _connect_gradients(self, calls: Sequence[Call]) -> None:
        """Connect the gradients of one execution."""
        if not any(call.is_gradient for call in calls):
            return
        forward: dict[object, list[int]] = defaultdict(list)
        incoming: dict[object, list[int]] = defaultdict(list)
        for call in calls:
            key = call.key
            if key.phase is Phase.FORWARD:
                rows = call.read + call.written
                forward[key.name, key.call] += rows
                forward[key.name + GRADIENTS] += rows
            elif key.phase is Phase.BACKWARD:
                for owner in (call, call.container):
                    if owner is not None:
                        incoming[owner.key.name + GRADIENTS] += call.read
        for call in calls:
            key = call.key
            if key.phase is Phase.BACKWARD:
                call.forward = tuple(forward.get((key.name, key.call), ()))
            elif key.name.endswith(GRADIENTS):
                call.forward = tuple(forward.get(key.name, ()))
                call.incoming = tuple(incoming.get(key.name, ()))


@lru_cache(maxsize=4096)
def _is_derivative(op_type: str) -> bool:
    return _BACKWARD.search(op_type) is not None


def _bare(*numbers: int) -> int | tuple[int, ...]:
    return numbers[0] if len(numbers) == 1 else numbers


def _target_node(numbered: tuple[int, Row]) -> NodeKey | None:
    tensor = numbered[1].pair.target
    return tensor.node if tensor is not None else None


def is_gradient(key: NodeKey) -> bool:
    """Say whether a node belongs to the backward pass: a backward call, or the gradients of a module's parameters."""
    return key.phase is Phase.BACKWARD or key.name.endswith(GRADIENTS)


def begins_gradients(row: Row) -> bool:
    """Say whether a row is the number that a backward pass begins with: 1, or the power of two that scales losses.

    Nothing computed it, and every type holds it exactly. The gradient of a loss from which more was computed is another
    number.
    """
    if row.node.phase is not Phase.BACKWARD or row.is_produced or row.pair.shown.numel != 1:
        return False
    golden = row.measurement.golden if row.measurement is not None else None
    low, high = (golden.statistics.min, golden.statistics.max) if golden is not None else (None, None)
    if low is None or low != high or not math.isfinite(low):
        return False
    return math.frexp(float(low))[0] == 0.5


@lru_cache(maxsize=4096)
def _is_exchange(op_type: str) -> bool:
    lower = op_type.lower()
    return lower.startswith("hcom") or any(word in lower.replace("_", "") for word in _COLLECTIVES)


_RANDOM = re.compile(
    r"(?ix)^(?:native|feature|alpha|stateless|philox|npu|fused|_)*"
    r"(?:drop_?out(?:[123]d|_?gen_?mask)?(?:v\d+)?"
    r"|bernoulli|multinomial|exponential|cauchy|geometric|poisson|rrelu|gumbel_?softmax|log_?normal|uniform|normal"
    r"|(?:truncated|standard)_?normal|rand|randn|randint|randperm|random|shuffle"
    r"|(?:random|rand)_?(?:normal|uniform|uniform_?int|categorical|shuffle|standard_?normal|choice_?with_?mask))"
    r"(?:_?like)?(?:v\d+)?_*$"
)
_NAMESPACES = frozenset({"aten", "prims", "npu", "torch_npu"})

_OFF = {("training",): False, (2,): False, ("train",): False, ("p",): 0, (1,): 0}
"""Arguments of dropout with which it drops nothing: where they stand, and what they are then."""


@lru_cache(maxsize=4096)
def draws(op_type: str) -> bool:
    """Return whether operators of a type draw from a random state.

    >>> draws("dropout"), draws("aten.native_dropout.default"), draws("DropOutGenMaskV4"), draws("normalize")
    (True, True, True, False)
    """
    parts = [part for part in op_type.replace("::", ".").split(".") if part]
    own = parts[1:2] if parts and parts[0] in _NAMESPACES else parts[-1:]
    return bool(own) and _RANDOM.match(own[0]) is not None


def _turns_off(row: Row) -> bool:
    tensor = row.pair.target
    if tensor is None or tensor.value is None:
        return False
    return tensor.slot.path in _OFF and tensor.value == _OFF[tensor.slot.path]
