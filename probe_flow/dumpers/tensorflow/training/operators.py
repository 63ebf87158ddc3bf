"""What the operators of a training step do that matters for a comparison: which draw random numbers, which train.

Both are told by the types of operators as TensorFlow registers them, in functions (loops, input pipelines) too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

_DRAWS = re.compile(
    r"(Stateless|Stateful|Parameterized|Risc|Experimental)*"
    r"(Random(Uniform|Normal|StandardNormal|Gamma|Poisson|Binomial)(Int|FullInt)?|Random(Crop|Shuffle|Dataset)"
    r"|Random(ShuffleQueue|IndexShuffle)|TruncatedNormal|Multinomial|Shuffle(Dataset|AndRepeatDataset)|Shuffle"
    r"|GlobalShuffleDataset|SampleDistortedBoundingBox|Fractional(Avg|Max)Pool|Skipgram"
    r"|(All|FixedUnigram|LearnedUnigram|LogUniform|ThreadUnsafeUnigram|Uniform)CandidateSampler)(V\d)?"
    r"|Stateful(Uniform|UniformInt|UniformFullInt|StandardNormal)(V\d)?|XlaRngBitGenerator"
)
"""Types of operators that give other values in each run, or by a seed."""

_PREPROCESSES = re.compile(r"Crop|Shuffle|BoundingBox|Dataset")
_DROPOUT = re.compile("dropout", re.IGNORECASE)

_SCALES = frozenset({"Mul", "Add", "AddV2", "Sub", "Identity"})
_KEEPS = frozenset({"GreaterEqual", "Floor"})
"""What dropout does with uniform numbers: scales them, then keeps where they reach its rate (`Floor` in old ones)."""

_STEPS = 4

_APPLIES = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]\w*")
_WRITES = re.compile(r"Assign(Add|Sub)?(VariableOp)?|(Resource)?Scatter(Nd)?(Add|Sub|Update)")


class Draw(Struct, frozen=True):
    """An operator that draws random numbers; ``what`` is ``dropout``, ``preprocessing`` or ``random numbers``."""

    name: str
    op_type: str
    what: str


def draws(nodes: Iterable[Any]) -> list[Draw]:
    """Return which of some operators draw random numbers.

    Args:
        nodes: operators, or ``NodeDef`` messages, of graphs and functions.
    """
    found = []
    for node in nodes:
        op_type = type_of(node)
        if _DRAWS.fullmatch(op_type):
            what = "preprocessing" if _PREPROCESSES.search(op_type) else "random numbers"
            is_dropout = _DROPOUT.search(node.name) or ("Uniform" in op_type and _is_kept_by(node, _STEPS))
            found.append(Draw(node.name, op_type, "dropout" if is_dropout else what))
    return found


def _is_kept_by(node: Any, steps: int) -> bool:
    """Return True if what an operator of a graph gives is compared with the rate of a dropout."""
    consumers = [each for tensor in getattr(node, "outputs", ()) for each in tensor.consumers()]
    ahead = [each for each in consumers if each.type in _SCALES] if steps else []
    return any(each.type in _KEEPS for each in consumers) or any(_is_kept_by(each, steps - 1) for each in ahead)


def type_of(node: Any) -> str:
    """Return the type of an operator or of a ``NodeDef``."""
    return str(node.type if hasattr(node, "type") else node.op)


def trains(op: Any, trainable: Collection[str]) -> bool:
    """Return True if an operator changes a trainable variable.

    Args:
        op: an operator of a graph.
        trainable: names of the operators that the variables are; empty = not known, then any variable counts.
    """
    if _APPLIES.fullmatch(op.type):
        return True
    return bool(_WRITES.fullmatch(op.type)) and (not trainable or op.inputs[0].op.name in trainable)


def trains_in_function(nodes: Iterable[Any]) -> bool:
    """Return True if a function changes variables: which, its text does not say."""
    return any(_APPLIES.fullmatch(node.op) or _WRITES.fullmatch(node.op) for node in nodes)


def needed(fetched: Iterable[Any], fed: Collection[str] = ()) -> list[Any]:
    """Return the operators that a step runs: what is fetched, and all that it waits for.

    Args:
        fetched: operators.
        fed: names of operators whose values are given.
    """
    found: dict[str, Any] = {}
    ahead = list(fetched)
    while ahead:
        op = ahead.pop()
        if op.name in found:
            continue
        found[op.name] = op
        if op.name not in fed:
            ahead += [tensor.op for tensor in op.inputs]
            ahead += op.control_inputs
    return list(found.values())


def with_input_pipelines(operators: Iterable[Any]) -> list[Any]:
    """Return operators, and those of the data sets that their iterators read, which no step runs by itself."""
    found = {op.name: op for op in operators}
    makers = [
        consumer
        for op in found.values()
        if op.type in ("Iterator", "IteratorV2")
        for consumer in op.outputs[0].consumers()
        if consumer.type == "MakeIterator"
    ]
    return [*found.values(), *(op for op in needed(makers) if op.name not in found)]


def functions_of(graph: Any, operators: Iterable[Any]) -> Iterator[Any]:
    """Yield the ``NodeDef`` messages of all functions that operators call, and that these call."""
    ahead = [name for op in operators if op.type != "Const" for name in _called(op.node_def)]
    if not ahead:
        return
    library: Mapping[str, Any] = {each.signature.name: each for each in graph.as_graph_def().library.function}
    seen: set[str] = set()
    while ahead:
        name = ahead.pop()
        if name in seen or name not in library:
            continue
        seen.add(name)
        for node in library[name].node_def:
            yield node
            ahead += _called(node)


def _called(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.WhichOneof("value") == "func":
            yield value.func.name
        elif value.WhichOneof("value") == "list":
            yield from (each.name for each in value.list.func)
