"""What the pickle of a torch file says, found out without unpickling: opcodes are read, nothing is imported or called.

Only what the pickles of tensors consist of is known. A pickle that names anything else is refused; one that describes
something other than a tensor is told by what it describes. Source: the opcodes that Python's `pickletools` documents.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

MAX_BYTES = 256 * 1024
"""Pickles of one tensor have some hundred bytes; larger ones are of something else."""


class RefusedError(Exception):
    """A pickle names something that no tensor needs; its text is the name."""


class MalformedError(Exception):
    """Bytes that are no pickle of a known form; its text says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A function or class that a pickle names."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call that unpickling would make; arguments of any depth."""

    function: Name
    arguments: tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Persistent:
    """A thing outside the pickle: the storage of a tensor."""

    id: object


def described(pickle: bytes) -> tuple[object, int]:
    """Return what a pickle describes, and the number of bytes that it takes.

    Raises:
        RefusedError: it names something that no tensor needs.
        MalformedError: it is no pickle, or uses what no pickle of a tensor uses.
    """
    return _Machine(pickle).run()


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

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[object] = []
        self._memo: dict[int, object] = {}

    def run(self) -> tuple[object, int]:
        while True:
            code = self._take(1)
            if code == b".":
                if len(self._stack) != 1 or self._stack[0] is _MARK:
                    raise MalformedError("it does not end with one value")
                return self._stack[0], self._at
            step = _STEPS.get(code)
            if step is None:
                raise MalformedError(f"byte {self._at - 1} is no opcode that the pickle of a tensor has")
            step(self)

    def _take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) < count:
            raise MalformedError(f"it ends at byte {len(self._data)}")
        self._at += count
        return part

    def number(self, form: struct.Struct) -> int:
        value: int = form.unpack(self._take(form.size))[0]
        return value

    def push(self, value: object) -> None:
        self._stack.append(value)

    def pop(self) -> object:
        if not self._stack or self._stack[-1] is _MARK:
            raise MalformedError(f"byte {self._at - 1} takes a value that is not there")
        return self._stack.pop()

    def pop_mark(self) -> list[object]:
        """Return the values above the last mark, and remove both."""
        for place in range(len(self._stack) - 1, -1, -1):
            if self._stack[place] is _MARK:
                values = self._stack[place + 1 :]
                del self._stack[place:]
                return values
        raise MalformedError(f"byte {self._at - 1} needs a mark that is not there")

    def text(self, form: struct.Struct) -> None:
        try:
            self.push(self._take(self.number(form)).decode("utf-8"))
        except UnicodeDecodeError as error:
            raise MalformedError(f"the text before byte {self._at} is not UTF-8") from error

    def integer(self, form: struct.Struct) -> None:
        self.push(int.from_bytes(self._take(self.number(form)), "little", signed=True))

    def line(self) -> str:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise MalformedError(f"it ends at byte {len(self._data)}")
        text = self._data[self._at : end].decode("utf-8", "replace")
        self._at = end + 1
        return text

    def named(self) -> None:
        self._name(self.line(), self.line())

    def named_by_stack(self) -> None:
        name, module = self.pop(), self.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise MalformedError(f"byte {self._at - 1} names what is no text")
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
            raise MalformedError(f"byte {self._at - 1} takes a value that was never kept")
        self.push(self._memo[place])

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self.push(tuple(reversed(values)))

    def call(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise MalformedError(f"byte {self._at - 1} calls what is no function")
        self.push(Call(function, arguments))

    def append(self, values: list[object]) -> None:
        target = self.pop()
        if not isinstance(target, list):
            raise MalformedError(f"byte {self._at - 1} appends to what is no list")
        self.push(target)
        target.extend(values)

    def set_items(self, values: list[object]) -> None:
        target = self.pop()
        self.push(target)
        if isinstance(target, dict):
            pairs = zip(values[::2], values[1::2], strict=False)
            target.update((key, value) for key, value in pairs if isinstance(key, str))
        elif not isinstance(target, Call):  # an OrderedDict
            raise MalformedError(f"byte {self._at - 1} sets items of what is no dict")

    def build(self) -> None:
        self.pop()
        self.push(self.pop())

    def skip(self, count: int) -> None:
        self._take(count)


_BYTE, _SHORT, _LONG, _LONG_SIGNED, _HUGE = (struct.Struct(form) for form in ("<B", "<H", "<L", "<l", "<Q"))
_DOUBLE = struct.Struct(">d")

_STEPS: Mapping[bytes, Callable[[_Machine], None]] = MappingProxyType(
    {
        b"\x80": lambda machine: machine.skip(1),  # protocol
        b"\x95": lambda machine: machine.skip(8),  # frame
        b"c": _Machine.named,
        b"\x93": _Machine.named_by_stack,
        b"q": lambda machine: machine.put(machine.number(_BYTE)),
        b"r": lambda machine: machine.put(machine.number(_LONG)),
        b"\x94": _Machine.put_next,
        b"h": lambda machine: machine.get(machine.number(_BYTE)),
        b"j": lambda machine: machine.get(machine.number(_LONG)),
        b"(": lambda machine: machine.push(_MARK),
        b"X": lambda machine: machine.text(_LONG),
        b"\x8c": lambda machine: machine.text(_BYTE),
        b"\x8d": lambda machine: machine.text(_HUGE),
        b"K": lambda machine: machine.push(machine.number(_BYTE)),
        b"M": lambda machine: machine.push(machine.number(_SHORT)),
        b"J": lambda machine: machine.push(machine.number(_LONG_SIGNED)),
        b"\x8a": lambda machine: machine.integer(_BYTE),
        b"G": lambda machine: machine.push(machine.number(_DOUBLE)),
        b"N": lambda machine: machine.push(None),
        b"\x88": lambda machine: machine.push(True),  # noqa: FBT003
        b"\x89": lambda machine: machine.push(False),  # noqa: FBT003
        b")": lambda machine: machine.push(()),
        b"t": lambda machine: machine.push(tuple(machine.pop_mark())),
        b"\x85": lambda machine: machine.tuple_of(1),
        b"\x86": lambda machine: machine.tuple_of(2),
        b"\x87": lambda machine: machine.tuple_of(3),
        b"]": lambda machine: machine.push([]),
        b"a": lambda machine: machine.append([machine.pop()]),
        b"e": lambda machine: machine.append(machine.pop_mark()),
        b"}": lambda machine: machine.push({}),
        b"s": lambda machine: machine.set_items(list(reversed([machine.pop(), machine.pop()]))),
        b"u": lambda machine: machine.set_items(machine.pop_mark()),
        b"Q": lambda machine: machine.push(Persistent(machine.pop())),
        b"R": _Machine.call,
        b"\x81": _Machine.call,
        b"b": _Machine.build,
    }
)
