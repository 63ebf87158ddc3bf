"""Read stored records as their declared types; what does not fit is named by its place, its value and what fits."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<place>\d+|\.\.\.)\]")
_KEY_OF = "`key` in "
_NAMED = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)
_KINDS: Mapping[type, str] = {
    NoneType: "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


class MisfitError(ValueError):
    """A value of JSON that is none of the declared type; the message names its place."""


class Reader(Generic[T]):
    """Reads one type of record.

    Args:
        kind: the type.
    """

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def read(self, data: bytes) -> T:
        """Return a record from its JSON.

        Raises:
            MisfitError: a value is not of its type, or a key is missing or unknown.
            json.JSONDecodeError, ValueError, RecursionError: it is no JSON.
        """
        try:
            return self._decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            # Where it is wrong, in words; and texts with lone surrogates, which only Python's own reader takes.
            return self.convert(json.loads(data, parse_constant=_no_number))

    def convert(self, value: object) -> T:
        """Return a record from parsed JSON.

        Raises:
            MisfitError: a value is not of its type, or a key is missing or unknown.
        """
        try:
            return msgspec.convert(value, self._kind)
        except msgspec.ValidationError as error:
            raise MisfitError(_words(str(error), value, self._kind)) from error
        except UnicodeEncodeError:
            # A lone surrogate where a key or one of some words is expected, none of which has any.
            return self.convert(_without_surrogates(value))


def _no_number(word: str) -> None:
    raise ValueError(f"`{word}` is no number of JSON")


def _without_surrogates(value: object) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    return list(map(_without_surrogates, value)) if isinstance(value, list) else value


def _words(message: str, value: Any, kind: Any) -> str:
    """Return what does not fit, from what msgspec says of it: that names neither keys of mappings nor values."""
    what, _, at = message.partition(" - at ")
    path = at.removeprefix(_KEY_OF).strip("`")
    place = ""
    for step in _STEP.finditer(path):
        kind = _option(kind, value)
        key = step["key"]
        if key is not None:
            kind = get_type_hints(kind, include_extras=True)[key]
        elif step["place"] != "...":
            kind, value, place = _item(kind), value[int(step["place"])], f"{place}[{step['place']}]"
            continue
        else:
            kind = _item(kind)
            key = next(key for key, each in value.items() if not _fits(each, kind))
        value, place = value[key], f"{place}.{key}"
    shown = f"`{place.lstrip('.')}`" if place else "it"
    named = _NAMED.match(what)
    if named is not None:
        return f"{shown} {'lacks' if named['what'] == 'missing required' else 'has an unknown key'} `{named['name']}`"
    if at.startswith(_KEY_OF):
        return f"{shown} has a key that is not {', '.join(_allowed(get_args(_option(kind, value))[0]))}"
    return f"{shown} is {_found(value)}, expected {' or '.join(_allowed(kind))}"


def _found(value: object) -> str:
    return _KINDS.get(type(value), "a value")


def _fits(value: object, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _bare(kind: Any) -> Any:
    """Return a type without its limits."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _options(kind: Any) -> Iterator[Any]:
    """Yield the alternatives of a type."""
    bare = _bare(kind)
    if get_origin(bare) in (Union, UnionType):
        for each in get_args(bare):
            yield from _options(each)
    else:
        yield kind


def _option(kind: Any, value: object) -> Any:
    """Return the alternative that an object or a list belongs to."""
    found = map(_bare, _options(kind))
    if isinstance(value, dict):
        return next(each for each in found if get_origin(each) is dict or _is_record(each))
    return next(each for each in found if get_origin(each) is tuple)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _item(kind: Any) -> Any:
    """Return the type of what a list or a mapping holds."""
    arguments = get_args(kind)
    return arguments[1] if get_origin(kind) is dict else arguments[0]


def _allowed(kind: Any) -> list[str]:
    """Return what fits a type, in words."""
    return list(dict.fromkeys(_alternatives(kind)))


def _alternatives(kind: Any) -> Iterator[str]:
    for each in _options(kind):
        bare = _bare(each)
        limit = "" if each is bare else " in its range"
        if get_origin(bare) is Literal:
            yield f"one of {', '.join(map(str, get_args(bare)))}"
        elif isinstance(bare, type) and issubclass(bare, enum.Enum):
            yield f"one of {', '.join(str(member.value) for member in bare)}"
        elif get_origin(bare) is tuple:
            yield f"a list{limit}"
        elif get_origin(bare) is dict or _is_record(bare):
            yield "an object"
        else:
            yield _KINDS.get(bare, "a value") + limit
