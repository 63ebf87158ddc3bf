"""What a dump records of one call of an API: arguments, results, gradients, as trees of tensors and plain values.

The format is that of ``dump.json``: a list is a tuple of elements, ``null`` is None, and an object with a ``type`` is a
tensor or a plain value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from numpy.typing import NDArray

TENSOR_TYPES = frozenset({"mindspore.Tensor", "torch.Tensor", "torch.nn.parameter.Parameter"})
DTYPE_TYPES = frozenset({"mindspore.dtype", "torch.dtype"})
NUMBERS = frozenset({"int", "float", "bool"})

_OWN_WORDS: Mapping[str, str] = MappingProxyType(
    {word: word.lower() for word in ("Bool", "Int4", "Float16", "Float32", "Float64", "BFloat16")}
    | {f"{sign}Int{bits}": f"{sign}int{bits}".lower() for sign in ("", "U") for bits in (8, 16, 32, 64)}
    | {f"Complex{bits}": f"complex{bits}" for bits in (64, 128)}
)
"""MindSpore's names of element types."""

_OLD_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "Bool": "bool", "Byte": "uint8", "Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64",
        "Half": "float16", "BFloat16": "bfloat16", "Float": "float32", "Double": "float64",
    }
)  # fmt: skip
"""How `Tensor.type` of torch names them, between `torch.` and `Tensor`."""

_KNOWN = frozenset(_OWN_WORDS.values()) | {"float8_e4m3fn", "float8_e5m2"}

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"})
"""Element types that have gradients."""

LOGICAL = "NCHW"
"""Order of the axes of images that a device stores in blocks, or in another order that it names."""

MAX_DEPTH = 64
"""Nesting of arguments beyond which a call is refused: no API takes such."""

RANDOM = frozenset({
    "alpha_dropout", "bernoulli", "cauchy", "dropout", "dropout1d", "dropout2d", "dropout3d", "exponential",
    "feature_alpha_dropout", "geometric", "gumbel_softmax", "log_normal", "multinomial", "normal", "poisson",
    "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "random", "rrelu",
    "uniform",
})  # fmt: skip
"""APIs whose result is drawn; operators in place have an underscore behind it."""


class UnusableError(Exception):
    """Why a call is not checked.

    Args:
        reason: for people.
        is_expected: whether it could not be checked anywhere (no API of the kind, no benchmark), which is no gap.
    """

    def __init__(self, reason: str, *, is_expected: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.is_expected = reason, is_expected


@dataclass(frozen=True)
class TensorSpec:
    """A tensor as a dump records it.

    Args:
        dtype: canonical, e.g. ``float32``.
        shape: of its elements.
        low, high: recorded extremes, as they are in the dump; None where it has none.
        finite_low, finite_high: those of its finite elements, where the dump records them apart.
        file: name of the file with its elements, where it has one.
        has_gradient: whether the framework computed its gradient; True where the dump does not say.
        order: of axes, in which the arguments of its call speak of it, where its elements are in that of `LOGICAL`.
    """

    dtype: str
    shape: tuple[int, ...]
    low: object = None
    high: object = None
    file: str | None = None
    has_gradient: bool = True
    finite_low: object = None
    finite_high: object = None
    order: str = ""

    @property
    def numel(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def in_order(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return its elements in the order of axes that the arguments of its call speak of."""
        return values.transpose([LOGICAL.index(axis) for axis in self.order]) if self.order else values

    def as_dumped(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return what was computed in that order as its elements are."""
        is_turned = len(self.order) == values.ndim > 0
        return values.transpose([self.order.index(axis) for axis in LOGICAL]) if is_turned else values


@dataclass(frozen=True)
class Plain:
    """A value that is no tensor: a number, a text, None, a slice, a shape."""

    value: object


@dataclass(frozen=True)
class DeviceArgument:
    """A device that is an argument itself: whichever the call runs on, wherever it was recorded."""


@dataclass(frozen=True)
class DtypeName:
    """An element type that is an argument itself."""

    dtype: str


Leaf: TypeAlias = "TensorSpec | Plain | DeviceArgument | DtypeName"
Tree: TypeAlias = "Any"
"""A leaf, a tuple of trees, or a dict of them."""

Path: TypeAlias = "tuple[int | str, ...]"
"""Where in the arguments of a call something stands: positions and names."""


IN_PLACE_AT = {
    "relu": 1, "relu6": 1, "silu": 1, "mish": 1, "selu": 1, "hardswish": 1, "hardsigmoid": 1, "leaky_relu": 2, "elu": 2,
    "celu": 2, "hardtanh": 3, "threshold": 3, "dropout": 3, "dropout1d": 3, "dropout2d": 3, "dropout3d": 3,
    "alpha_dropout": 3, "feature_alpha_dropout": 3, "rrelu": 4,
}  # fmt: skip
"""Functions of torch that work in place where their argument of this place says so."""


@dataclass(frozen=True)
class Call:
    """One call of an API.

    Args:
        kind: first part of its name, e.g. ``Mint``.
        api: name of the function within what the kind says, e.g. ``where`` or ``linalg.inv``.
        args, kwargs: arguments.
        results: what it returned, as it was dumped.
    """

    kind: str
    api: str
    args: tuple[Tree, ...]
    kwargs: Mapping[str, Tree]
    results: tuple[Tree, ...]

    @property
    def word(self) -> str:
        """The last part of its name, without what marks it as one in place."""
        return self.api.rpartition(".")[2].strip("_")

    @property
    def is_random(self) -> bool:
        """Whether its result is drawn; a dropout that drops nothing gives its input."""
        if "dropout" not in self.word:
            return self.word in RANDOM
        share, training = (
            self.args[place] if place < len(self.args) else self.kwargs.get(name)
            for place, name in ((1, "p"), (2, "training"))
        )
        return self.word in RANDOM and share != Plain(0) and training != Plain(value=False)

    def as_dumped(self, place: Path, values: NDArray[Any]) -> NDArray[Any]:
        """Return a result in the order of axes that the dump has it in."""
        number = place[0] if place else 0
        leaf = self.results[number] if isinstance(number, int) and number < len(self.results) else None
        return leaf.as_dumped(values) if isinstance(leaf, TensorSpec) else values

    @property
    def asks_type(self) -> bool:
        """Whether it asks which element type a tensor has; given a type, it makes a tensor of that type."""
        return self.api == "type" and len(self.args) == 1 and not self.kwargs

    @property
    def is_in_place(self) -> bool:
        """Whether it may change its arguments: its name ends as such names do, or an argument says so."""
        if (self.api.endswith("_") and not self.api.endswith("__")) or self.api.startswith("__i"):
            return True
        place = IN_PLACE_AT.get(self.api, len(self.args))
        given = self.args[place] if place < len(self.args) else self.kwargs.get("inplace")
        return isinstance(given, Plain) and given.value is True


@dataclass(frozen=True)
class Gradients:
    """What a dump records of the backward pass of a call.

    Args:
        incoming: gradient of each result; None where there is none.
        results: gradient of each input, as it was dumped.
    """

    incoming: tuple[Tree, ...]
    results: tuple[Tree, ...]

    @property
    def known(self) -> tuple[Tree, ...]:
        """``incoming`` up to the last one that there is."""
        count = len(self.incoming)
        while count and self.incoming[count - 1] == Plain(None):
            count -= 1
        return self.incoming[:count]


def canonical_dtype(word: str) -> str:
    """Return the canonical name of an element type in any framework's words.

    >>> canonical_dtype("torch.bfloat16"), canonical_dtype("BFloat16"), canonical_dtype("torch.BFloat16Tensor")
    ('bfloat16', 'bfloat16', 'bfloat16')

    Raises:
        UnusableError: it is none.
    """
    short = word.removeprefix("torch.")
    found = _OWN_WORDS.get(word) or (
        _OLD_WORDS.get(short.removesuffix("Tensor")) if short.endswith("Tensor") else short
    )
    if found not in _KNOWN:
        raise UnusableError(f"element type `{word}` is not known")
    return found


def read_call(kind: str, api: str, entry: object) -> Call:
    """Return a call by its forward entry.

    Raises:
        UnusableError: the entry holds what cannot be made again.
    """
    fields = _object(entry)
    kwargs = fields.get("input_kwargs") or {}
    if not isinstance(kwargs, dict):
        raise UnusableError("`input_kwargs` is no object")
    return Call(
        kind,
        api,
        _list(fields, "input_args"),
        {name: read_tree(value) for name, value in kwargs.items()},
        _list(fields, "output"),
    )


def read_gradients(entry: object) -> Gradients:
    """Return what the backward entry of a call records.

    Raises:
        UnusableError: the entry holds what cannot be made again.
    """
    fields = _object(entry)
    return Gradients(_list(fields, "input"), _list(fields, "output"))


def _object(entry: object) -> Mapping[str, object]:
    if not isinstance(entry, dict):
        raise UnusableError("its entry is no object")
    return cast("Mapping[str, object]", entry)


def _list(fields: Mapping[str, object], key: str) -> tuple[Tree, ...]:
    values = fields.get(key)
    if values is None:
        return ()
    if not isinstance(values, list):
        raise UnusableError(f"`{key}` of its entry is no list")
    return tuple([read_tree(value) for value in values])


def read_tree(element: object, depth: int = 0) -> Tree:
    """Return one element of an entry.

    Raises:
        UnusableError: of a type that cannot be made again, or without what it needs.
    """
    if depth > MAX_DEPTH:
        raise UnusableError(f"its arguments are nested deeper than {MAX_DEPTH} levels")
    if element is None:
        return Plain(None)
    if isinstance(element, list):
        return tuple([read_tree(each, depth + 1) for each in element])
    if not isinstance(element, dict):
        raise UnusableError(f"a bare {type(element).__name__} stands where an object with a `type` is expected")
    word = element.get("type")
    if not isinstance(word, str):
        if not element:
            raise UnusableError("an argument was not recorded: the dump holds an empty object for it")
        return {name: read_tree(each, depth + 1) for name, each in element.items()}
    return _leaf(word, element)


def _leaf(word: str, element: Mapping[str, Any]) -> Leaf:
    if word in TENSOR_TYPES:
        return _tensor(element)
    if "value" not in element:
        raise UnusableError(f"a value of type `{word}` was recorded without `value`")
    value = element["value"]
    if word in DTYPE_TYPES:
        return DtypeName(canonical_dtype(str(value)))
    if word == "slice" and isinstance(value, list) and len(value) == 3:
        return Plain(slice(*value))
    if word == "torch.Size" and isinstance(value, list):
        return Plain(tuple(value))
    if word == "ellipsis":
        return Plain(...)
    if word == "torch.device":
        return DeviceArgument()
    if word == "str" and isinstance(value, str):
        return Plain(value)
    if word in NUMBERS and isinstance(value, bool | int | float):
        try:
            return Plain({"int": int, "float": float, "bool": bool}[word](value))
        except (ValueError, OverflowError) as error:
            raise UnusableError(f"a value of type `{word}` was recorded as {value}") from error
    if word.startswith(("int", "uint", "float", "bool")) and isinstance(value, bool | int | float):
        return Plain(value)  # a scalar of numpy
    raise UnusableError(f"a value of type `{word}` cannot be made again")


def _tensor(element: Mapping[str, Any]) -> TensorSpec:
    word, shape, file = element.get("dtype"), element.get("shape"), element.get("data_name")
    if not isinstance(word, str) or not isinstance(shape, list):
        raise UnusableError("a tensor was recorded without `dtype` or `shape`")
    if not all(type(dim) is int and dim >= 0 for dim in shape):
        raise UnusableError(f"`{shape}` is no shape")
    finite = [element.get(f"{name}_except_inf_nan") for name in ("Min", "Max")]
    low, high = (
        known if element.get(name) is None else element[name]
        for name, known in zip(("Min", "Max"), finite, strict=True)
    )
    named = file if isinstance(file, str) and file else None
    has_gradient = element.get("requires_grad") is not False
    return TensorSpec(canonical_dtype(word), tuple(shape), low, high, named, has_gradient, finite[0], finite[1])


def leaves(tree: Tree, path: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """Yield the leaves of a tree with their places, in order."""
    if isinstance(tree, tuple):
        for number, each in enumerate(tree):
            yield from leaves(each, (*path, number))
    elif isinstance(tree, dict):
        for name, each in tree.items():
            yield from leaves(each, (*path, name))
    else:
        yield path, tree


def with_leaves(tree: Tree, change: Callable[[Path, Leaf], object], path: Path = ()) -> Any:
    """Return the tree with another value in the place of each leaf; tuples stay tuples."""
    if isinstance(tree, tuple):
        return tuple([with_leaves(each, change, (*path, number)) for number, each in enumerate(tree)])
    if isinstance(tree, dict):
        return {name: with_leaves(each, change, (*path, name)) for name, each in tree.items()}
    return change(path, tree)


def argument_leaves(call: Call) -> list[tuple[Path, Leaf]]:
    """Return all leaves of the arguments, positional ones first."""
    return [*leaves(call.args), *leaves(dict(call.kwargs))]


def shown_path(path: Sequence[int | str]) -> str:
    """Return a place as item names have it.

    >>> shown_path((1, "eps"))
    '1.eps'
    """
    return ".".join(map(str, path))
