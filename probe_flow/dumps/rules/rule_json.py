"""Fusion rules from JSON, as ATC prints offline models and AMCT its quantised ones.

Source: the public form of such files: the messages of the graph compiler printed with maps as lists of ``key`` and
``value``, the value holding the one member that is set. Absent members stand for their defaults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from typing import cast

from probe_flow.dumps.rules.facts import (
    MEANING,
    WrongKindError,
    fraction,
    is_attribute,
    is_model_attribute,
    is_op_attribute,
    is_output_attribute,
    rule_op,
    rule_output,
)
from probe_flow.dumps.rules.problems import Pointer, no_rules, not_json, wrong_value
from probe_flow.dumps.rules.records import RuleFile, RuleGraph, RuleOp, RuleOutput
from probe_flow.errors import FormatError
from probe_flow.files.text_format import unquote
from probe_flow.tensors.dtypes import DEVICE_DTYPE_NAMES

_ESCAPED = re.compile(r"""(?:[^\\"]|\\(?:[0-7]{3}|x[0-9A-Fa-f]{2}|[nrt"'\\]))*""")
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_SURPLUS = object()
"""Stands for an attribute that says nothing about rules."""
_LIST_MEMBERS = ("s", "i", "f", "b", "dt")


def parse_rule_json(raw: bytes, path: str) -> RuleFile:
    """Return the rules of a JSON text.

    Raises:
        FormatError: PF4303 no JSON, with line and column; PF4304 JSON of something else; PF4305 a value of another kind
            or a missing one, with its JSON pointer.
    """
    return _Reader(path).file(_load(raw, path))


def _load(raw: bytes, path: str) -> object:
    try:
        return json.loads(raw.decode("utf-8-sig"), object_hook=_without_surplus)
    except UnicodeDecodeError as error:
        raise not_json(path, f"byte {error.start} is not UTF-8") from error
    except json.JSONDecodeError as error:
        is_cut = not error.doc[error.pos :].strip() or error.msg.startswith("Unterminated string")
        what = "the file ends in the middle" if is_cut and error.doc.strip() else error.msg
        raise not_json(path, what, line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise not_json(path, "values are nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise not_json(path, str(error).split(":")[0]) from error


def _without_surplus(members: dict[str, object]) -> object:
    """Return an object of the text without what rules do not need: nine tenths of the tree."""
    if len(members) == 2 and "value" in members:
        key = members.get("key")
        return members if not isinstance(key, str) or is_attribute(key) else _SURPLUS
    members.pop("input_desc", None)
    return members


class _Reader:
    """Walks one JSON tree; every method gets the value and the pointer to it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def file(self, tree: object) -> RuleFile:
        if not isinstance(tree, dict) or not isinstance(tree.get("graph"), list):
            raise no_rules(self._path, "its top level has no list `graph`")
        graphs = tuple(self._graph(graph, ("graph", i)) for i, graph in enumerate(tree["graph"]))
        if not any(graph.ops for graph in graphs):
            raise no_rules(self._path, "its graphs have no operators")
        attrs = self._attrs(tree, (), is_model_attribute)
        return RuleFile(self._path, graphs, {key: value for key, value in attrs.items() if value is not None})

    def _graph(self, node: object, at: Pointer) -> RuleGraph:
        graph = self._object(node, at)
        name = self._text(graph, "name", at)
        ops = self._list(graph, "op", at)
        return RuleGraph(name, tuple(self._op(op, name, (*at, "op", i)) for i, op in enumerate(ops)))

    def _op(self, node: object, graph: str, at: Pointer) -> RuleOp:
        op = self._object(node, at)
        try:
            return rule_op(
                self._text(op, "name", at, is_required=True),
                self._text(op, "type", at, is_required=True),
                op_id=self._number(op.get("id", 0), (*at, "id")),
                graph=graph,
                inputs=self._texts(op, "input", at),
                outputs=[
                    self._output(desc, i, (*at, "output_desc", i))
                    for i, desc in enumerate(self._list(op, "output_desc", at))
                ],
                attrs=self._attrs(op, at, is_op_attribute),
                subgraphs=self._texts(op, "subgraph_name", at),
            )
        except WrongKindError as error:
            raise self._wrong_attr(op, error, at) from error

    def _output(self, node: object, position: int, at: Pointer) -> RuleOutput:
        desc = self._object(node, at)
        try:
            return rule_output(
                position,
                dtype=self._dtype(desc, at),
                layout=self._text(desc, "layout", at),
                shape=self._shape(desc, at),
                attrs=self._attrs(desc, at, is_output_attribute),
            )
        except WrongKindError as error:
            raise self._wrong_attr(desc, error, at) from error

    def _dtype(self, desc: Mapping[str, object], at: Pointer) -> str:
        value = desc.get("dtype")
        if isinstance(value, int) and not isinstance(value, bool):
            return DEVICE_DTYPE_NAMES.get(value, str(value))
        return self._text(desc, "dtype", at)

    def _shape(self, desc: Mapping[str, object], at: Pointer) -> tuple[int, ...] | None:
        if desc.get("shape") is None:
            return None
        shape = self._object(desc["shape"], (*at, "shape"))
        place = (*at, "shape", "dim")
        return tuple(self._number(dim, (*place, i)) for i, dim in enumerate(self._list(shape, "dim", (*at, "shape"))))

    def _attrs(self, owner: Mapping[str, object], at: Pointer, is_wanted: Callable[[str], bool]) -> dict[str, object]:
        attrs: dict[str, object] = {}
        for i, entry in enumerate(self._list(owner, "attr", at)):
            if entry is _SURPLUS:
                continue
            if not isinstance(entry, dict) or not isinstance(entry.get("key"), str):
                raise wrong_value(self._path, (*at, "attr", i), "an object with a text `key`", entry)
            if is_wanted(entry["key"]):
                with suppress(FormatError) if entry["key"] in MEANING else nullcontext():
                    self._add(attrs, entry["key"], entry.get("value"), (*at, "attr", i, "value"))
        return attrs

    def _add(self, attrs: dict[str, object], key: str, value: object, at: Pointer) -> None:
        """Add an attribute; values of further kinds (tensors, graphs, functions) say nothing about rules."""
        if value is None:
            attrs[key] = None
            return
        members = self._object(value, at)
        if "list" in members:
            attrs[key] = self._items(members["list"], (*at, "list"))
        for member in _LIST_MEMBERS:
            if member in members:
                attrs[key] = self._item(member, members[member], (*at, member))

    def _items(self, node: object, at: Pointer) -> tuple[object, ...]:
        if node is None:
            return ()
        members = self._object(node, at)
        for member in _LIST_MEMBERS:
            if items := self._list(members, member, at):
                return tuple(self._item(member, item, (*at, member, i)) for i, item in enumerate(items))
        return ()

    def _item(self, member: str, value: object, at: Pointer) -> object:
        if member == "s":
            if not isinstance(value, str):
                raise wrong_value(self._path, at, "a text", value)
            return _unescaped(value)
        if member == "b":
            if not isinstance(value, bool):
                raise wrong_value(self._path, at, "true or false", value)
            return value
        if member == "f":
            return self._fraction(value, at)
        return self._number(value, at)

    def _fraction(self, value: object, at: Pointer) -> float:
        """Return a number; ATC quotes those of floating point."""
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            with suppress(ValueError, OverflowError):
                return fraction(float(value))
        raise wrong_value(self._path, at, "a number", value)

    def _number(self, value: object, at: Pointer) -> int:
        """Return a whole number; some printers quote those of 64 bits."""
        number = int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value
        if not isinstance(number, int) or isinstance(number, bool) or not -(1 << 63) <= number < 1 << 64:
            raise wrong_value(self._path, at, "a whole number of 64 bits", value)
        return number

    def _text(self, owner: Mapping[str, object], key: str, at: Pointer, *, is_required: bool = False) -> str:
        value = owner.get(key)
        if value is None and not is_required:
            return ""
        if not isinstance(value, str) or (is_required and not value):
            raise wrong_value(self._path, (*at, key), "a name" if is_required else "a text", value)
        return value

    def _texts(self, owner: Mapping[str, object], key: str, at: Pointer) -> list[str]:
        texts = self._list(owner, key, at)
        for i, text in enumerate(texts):
            if not isinstance(text, str):
                raise wrong_value(self._path, (*at, key, i), "a text", text)
        return cast("list[str]", texts)

    def _list(self, owner: Mapping[str, object], key: str, at: Pointer) -> list[object]:
        value = owner.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise wrong_value(self._path, (*at, key), "a list", value)
        return value

    def _object(self, node: object, at: Pointer) -> dict[str, object]:
        if not isinstance(node, dict):
            raise wrong_value(self._path, at, "an object", node)
        return node

    def _wrong_attr(self, owner: Mapping[str, object], error: WrongKindError, at: Pointer) -> Exception:
        for i, entry in enumerate(self._list(owner, "attr", at)):
            if isinstance(entry, dict) and entry.get("key") == error.attribute:
                return wrong_value(self._path, (*at, "attr", i, "value"), error.wanted, entry.get("value"))
        return wrong_value(self._path, at, error.wanted, owner)


def _unescaped(text: str) -> str:
    r"""Return an attribute's text without the escapes that ATC puts into it: its texts are bytes there.

    >>> _unescaped(r"a\303\244/b\"c")
    'aä/b"c'
    """
    if "\\" not in text or not _ESCAPED.fullmatch(text):
        return text
    return unquote(b'"' + text.encode("utf-8", "surrogatepass") + b'"')
