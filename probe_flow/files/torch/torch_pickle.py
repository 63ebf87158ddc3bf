"""What the pickle of a torch file says, found out without unpickling: opcodes are read, nothing is imported or called.

Only what the pickles of tensors consist of is known. A pickle that names anything else is refused; one that describes
something other than a tensor is told by what it describes. `pickletools` cuts the bytes into
opcodes (61 us a tensor, 52 by code of our own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pickletools import genops
from types import MappingProxyType
from typing import Any

from msgspec import Struct

MAX_BYTES = 256 * 1024
"""Pickles of one tensor have some hundred bytes; larger ones are of something else."""


class RefusedError(Exception):
    """A pickle names something that no tensor needs; its text is the name."""


class MalformedError(Exception):
    """Bytes that are no pickle of a known form; its text says why."""


class Name(Struct, frozen=True, eq=False):
    """A function or class that a pickle names."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Call(Struct, frozen=True, eq=False):
    """A call that unpickling would make; arguments of any depth."""

    function: Name
    arguments: tuple[object, ...]


class Persistent(Struct, frozen=True, eq=False):
    """A thing outside the pickle: the storage of a tensor."""

    id: object


def described(pickle: bytes) -> tuple[object, int]:
    """Return what a pickle describes, and the number of bytes that it takes.

    Raises:
        RefusedError: it names something that no tensor needs.
        MalformedError: it is no pickle, or uses what no pickle of a tensor uses.
    """
    return _Machine().run(pickle)


def is_known(module: str, name: str) -> bool:
    """Say whether the pickle of a tensor may name this."""
    if module == "torch._utils":
        return name.startswith("_rebuild_")
    if module == "torch":
        return name.endswith("Storage") or name in _TORCH_NAMES
    return (module, name) in _OTHER_NAMES


_NUMBERS = frozenset(
    {"bool", "bfloat16"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    | {f"float{bits}" for bits in (16, 32, 64)}
    | {f"complex{bits}" for bits in (32, 64, 128)}
    | {f"float8_{form}" for form in ("e4m3fn", "e5m2", "e4m3fnuz", "e5m2fnuz", "e8m0fnu")}
    | {"float4_e2m1fn_x2", "qint8", "quint8", "qint32", "quint4x2", "quint2x4"}
)
_SCHEMES = frozenset(
    {f"per_{unit}_{kind}" for unit in ("tensor", "channel") for kind in ("affine", "symmetric")}
    | {"per_channel_affine_float_qparams"}
)
_LAYOUTS = frozenset({"strided"} | {f"sparse_{kind}" for kind in ("coo", "csr", "csc", "bsr", "bsc")})
_TORCH_NAMES = _NUMBERS | _SCHEMES | _LAYOUTS | {"Size", "device", "Tensor"}
_OTHER_NAMES = frozenset(
    {
        ("collections", "OrderedDict"),
        ("torch.storage", "UntypedStorage"),
        ("torch.storage", "TypedStorage"),
        ("torch.serialization", "_get_layout"),
        ("torch._tensor", "_rebuild_from_type_v2"),
        ("torch.nn.parameter", "Parameter"),
    }
)
_MARK = object()


class _Machine:
    """Follows the opcodes of one pickle over a stack of descriptions."""

    def __init__(self) -> None:
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}
        self.at = 0
        """Where the opcode is that is followed."""

    def run(self, data: bytes) -> tuple[object, int]:
        try:
            for opcode, argument, at in genops(data):
                self.at = at or 0
                step = _STEPS.get(opcode.name)
                if step is not None:
                    step(self, argument)
                elif opcode.name != "STOP":
                    raise MalformedError(f"byte {self.at} is no opcode that the pickle of a tensor has")
        except (ValueError, OverflowError) as error:  # of pickletools: cut short, or no opcode at all
            raise MalformedError(f"it cannot be read: {error}") from error
        if len(self._stack) != 1 or self._stack[0] is _MARK:
            raise MalformedError("it does not end with one value")
        return self._stack[0], self.at + 1

    def push(self, value: object) -> None:
        self._stack.append(value)

    def pop(self) -> object:
        if not self._stack or self._stack[-1] is _MARK:
            raise MalformedError(f"byte {self.at} takes a value that is not there")
        return self._stack.pop()

    def pop_mark(self) -> list[object]:
        """Return the values above the last mark, and remove both."""
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] is _MARK:
                values = self._stack[place + 1 :]
                del self._stack[place:]
                return values
        raise MalformedError(f"byte {self.at} needs a mark that is not there")

    def text(self, value: str) -> None:
        value.encode()  # a ValueError for halves of surrogate pairs, which `genops` lets through
        self.push(value)

    def named(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._name(module, name)

    def named_by_stack(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise MalformedError(f"byte {self.at} names what is no text")
        self._name(module, name)

    def _name(self, module: str, name: str) -> None:
        if not is_known(module, name):
            raise RefusedError(f"{module}.{name}"[:200])
        self.push(Name(module, name))

    def put(self, place: int) -> None:
        value = self.pop()
        self.push(value)
        self._memo[place] = value

    def put_next(self) -> None:
        self.put(len(self._memo))

    def get(self, place: int) -> None:
        if place not in self._memo:
            raise MalformedError(f"byte {self.at} takes a value that was never kept")
        self.push(self._memo[place])

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self.push(tuple(reversed(values)))

    def call(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise MalformedError(f"byte {self.at} calls what is no function")
        self.push(Call(function, arguments))

    def append(self, values: list[object]) -> None:
        target = self.pop()
        if not isinstance(target, list):
            raise MalformedError(f"byte {self.at} appends to what is no list")
        self.push(target)
        target.extend(values)

    def set_items(self, values: list[object]) -> None:
        target = self.pop()
        self.push(target)
        if isinstance(target, dict):
            pairs = zip(values[::2], values[1::2], strict=False)
            target.update((key, value) for key, value in pairs if isinstance(key, str))
        elif not isinstance(target, Call):  # an OrderedDict
            raise MalformedError(f"byte {self.at} sets items of what is no dict")

    def build(self) -> None:
        self.pop()
        self.push(self.pop())


_STEPS: Mapping[str, Callable[[_Machine, Any], None]] = MappingProxyType(
    {
        "PROTO": lambda _machine, _protocol: None,
        "FRAME": lambda _machine, _bytes: None,
        "GLOBAL": _Machine.named,
        "STACK_GLOBAL": lambda machine, _: machine.named_by_stack(),
        "BINPUT": _Machine.put,
        "LONG_BINPUT": _Machine.put,
        "MEMOIZE": lambda machine, _: machine.put_next(),
        "BINGET": _Machine.get,
        "LONG_BINGET": _Machine.get,
        "MARK": lambda machine, _: machine.push(_MARK),
        "BINUNICODE": _Machine.text,
        "SHORT_BINUNICODE": _Machine.text,
        "BINUNICODE8": _Machine.text,
        "BININT1": _Machine.push,
        "BININT2": _Machine.push,
        "BININT": _Machine.push,
        "LONG1": _Machine.push,
        "BINFLOAT": _Machine.push,
        "NONE": lambda machine, _: machine.push(None),
        "NEWTRUE": lambda machine, _: machine.push(True),  # noqa: FBT003
        "NEWFALSE": lambda machine, _: machine.push(False),  # noqa: FBT003
        "EMPTY_TUPLE": lambda machine, _: machine.push(()),
        "TUPLE": lambda machine, _: machine.push(tuple(machine.pop_mark())),
        "TUPLE1": lambda machine, _: machine.tuple_of(1),
        "TUPLE2": lambda machine, _: machine.tuple_of(2),
        "TUPLE3": lambda machine, _: machine.tuple_of(3),
        "EMPTY_LIST": lambda machine, _: machine.push([]),
        "APPEND": lambda machine, _: machine.append([machine.pop()]),
        "APPENDS": lambda machine, _: machine.append(machine.pop_mark()),
        "EMPTY_DICT": lambda machine, _: machine.push({}),
        "SETITEM": lambda machine, _: machine.set_items(list(reversed([machine.pop(), machine.pop()]))),
        "SETITEMS": lambda machine, _: machine.set_items(machine.pop_mark()),
        "BINPERSID": lambda machine, _: machine.push(Persistent(machine.pop())),
        "REDUCE": lambda machine, _: machine.call(),
        "NEWOBJ": lambda machine, _: machine.call(),
        "BUILD": lambda machine, _: machine.build(),
    }
)
