"""Read a dump.json entry by entry: neither its text nor its tree is ever in memory as a whole.

The text is read in windows. The entries that a window holds whole are parsed in one go; where that fails, and for the
top level, one member or entry is parsed at a time, which tells where a mistake is. Python's dialect of JSON (bare NaN
and Infinity). Lines and columns of mistakes are those of the whole file.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic_core import from_json

from probe_flow.dumps.dump_json.text import Repeated, cannot_be_read, mistake, not_json
from probe_flow.errors import FormatError
from probe_flow.files.opening import open_bytes
from probe_flow.records import Framework
from probe_flow.records.frameworks import MINDSPORE, PYTORCH

Parsed = TypeVar("Parsed")

DATA = "data"
WINDOW_BYTES = 1 << 17
"""A window's text and tree fit into a processor's cache; with a MiB, reading takes a fifth longer."""

MAX_VALUE_BYTES = 16 << 20
"""Text of one entry, in characters; the collectors' are a hundred times smaller. Parsed it takes up to thirty times as
much memory: a list without elements is three characters long."""

MAX_LEAVES = 250_000
"""Tensors and other values of one entry that takes a MiB or more: a `null` becomes a record of some hundred bytes."""

_LONG = 1 << 20

_NEAR_END = 16
"""A mistake this near to the end of a window may be a word or number that the next window completes."""

_Scan = Callable[[str, int], tuple[Any, int]]
"""Parses what begins at a position; StopIteration or JSONDecodeError with the place of a mistake."""

_scan_text: _Scan = json.decoder.scanstring  # type: ignore[attr-defined]
_space = re.compile(r"[ \t\n\r]*").match
_plain_key = re.compile(r'[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match
"""A key without escapes, as nearly all are, and where its value begins; None for others, whole or not."""

_last_entry = re.compile(r'.*\}(\s*,\s*)"[^"\\]*"\s*:\s*\{\s*"(?:in|out)put', re.DOTALL).match
"""The comma before what looks like the last entry of a text; whether it is one shows when what precedes is parsed."""

_Entry = tuple[str, object]

_FRAMEWORK = re.compile(r'"type"\s*:\s*"(mindspore|torch)')
_FRAMEWORKS = {"mindspore": MINDSPORE, "torch": PYTORCH}


class EntryStream:
    """The entries of one dump.json, in order; what else its top level holds is known once they are through.

    Args:
        file: the file.
        shown: its name for people.

    Attributes:
        top: members of the top level other than an object ``data``; something else when it is no object.
        has_entries: whether ``data`` is an object.
        framework: the framework whose tensor type occurs first in the text, None when neither does.
    """

    def __init__(self, file: Path, shown: str) -> None:
        self.top: object = {}
        self.has_entries = False
        self.framework: Framework | None = None
        self._file = file
        self._shown = shown
        self._repeated = Repeated()
        self._scan = _scanner(self._repeated)
        self._quick_scan = _plain_scanner()
        self._text, self._at = "", 0
        self._line, self._column = 1, 1
        self._is_ended = False
        self._is_tried = False

    @property
    def repeated(self) -> tuple[str, ...]:
        """Keys that stand more than once in one object, at most a few; names of entries are not looked at."""
        return self._repeated.keys

    def __iter__(self) -> Iterator[_Entry]:
        """Yield name and value of every entry of ``data``.

        Raises:
            FormatError: PF3407 not JSON (with line and column), PF3409 the file cannot be read.
        """
        return chain.from_iterable(self._batches())

    def _batches(self) -> Iterator[Iterable[_Entry]]:
        try:
            with open_bytes(self._file) as stream:
                self._source = _Text(stream, self._shown)
                yield from self._top_level()
        except OSError as error:
            raise cannot_be_read(self._shown, error) from error
        except json.JSONDecodeError as error:
            raise mistake(self._shown, error, *self._place(error.pos)) from error
        except RecursionError as error:
            raise not_json(self._shown, "values are nested too deeply") from error
        except ValueError as error:  # a number of thousands of digits
            raise not_json(self._shown, str(error).split(":")[0]) from error

    def _top_level(self) -> Iterator[Iterable[_Entry]]:
        if self._step(_opens_object):
            top: dict[str, object] = {}
            self.top = top
            is_last = self._step(_closes_object)
            while not is_last:
                key = self._step(_key)
                if key in top or (key == DATA and self.has_entries):
                    self._repeated.add(key)
                if key == DATA and self._step(_opens_object):
                    self.has_entries = True
                    yield from self._entries()
                else:
                    top[key] = self._step(self._value)
                is_last = self._step(_is_last)
        else:
            self.top = self._step(self._value)
        self._step(self._nothing)

    def _entries(self) -> Iterator[Iterable[_Entry]]:
        is_last = self._step(_closes_object)
        while not is_last:
            entries = self._whole_entries()
            if entries:
                yield entries
                self._more()  # what is left of the window is hardly a whole entry
            else:
                key, value, is_last = self._step(self._entry)
                yield ((key, value),)

    def _whole_entries(self) -> Collection[_Entry]:
        """Parse the entries before the last one of the window; none where they are better parsed one by one."""
        if self._is_tried:
            return ()
        self._is_tried = True
        found = _last_entry(self._text, self._at)
        if found is None or found.start(1) - self._at > _LONG:
            return ()
        text = self._text[self._at : found.start(1)]
        try:
            entries: dict[str, object] = from_json(f"{{{text}}}")
        except ValueError:  # a mistake, a text that Python alone accepts, or the comma is inside an entry
            return ()
        if not _is_each_key_kept(text, 0, len(text), entries):
            return ()
        self._at = found.end(1)
        return entries.items()

    def _step(self, parse: Callable[[str, int], tuple[Parsed, int]]) -> Parsed:
        """Parse one thing; when the window ends before it does, go on with a larger one."""
        while True:
            try:
                result, self._at = parse(self._text, self._at)
            except json.JSONDecodeError as error:  # noqa: PERF203
                is_near_end = len(self._text) - error.pos <= _NEAR_END or error.msg.startswith("Unterminated")
                if self._is_ended or not is_near_end:
                    raise
                self._more()
            else:
                return result

    def _more(self) -> None:
        """Drop what has been parsed and read on: as much as is left of the window, at most what a value may take."""
        self._line, self._column = self._place(self._at)
        rest = self._text[self._at :]
        if len(rest) >= MAX_VALUE_BYTES:
            raise not_json(self._shown, f"one value takes more than {MAX_VALUE_BYTES >> 20} MiB")
        read = self._source.read(max(WINDOW_BYTES, min(len(rest), MAX_VALUE_BYTES - len(rest))))
        self._is_ended = not read
        self._text, self._at = rest + read, 0
        self._is_tried = False
        if self.framework is None and (found := _FRAMEWORK.search(self._text)):
            self.framework = _FRAMEWORKS[found.group(1)]

    def _place(self, position: int) -> tuple[int, int]:
        """Return line and column in the file of a position in the window."""
        breaks = self._text.count("\n", 0, position)
        if not breaks:
            return self._line, self._column + position
        return self._line + breaks, position - self._text.rindex("\n", 0, position)

    def _value(self, text: str, at: int) -> tuple[object, int]:
        try:
            value, end = self._scan(text, _past_space(text, at))
        except StopIteration as error:
            raise json.JSONDecodeError("Expecting value", text, error.value) from None
        if len(text) - end < _NEAR_END and not self._is_ended:  # a number may go on
            raise json.JSONDecodeError("Expecting more", text, end)
        return value, end

    def _entry(self, text: str, at: int) -> tuple[tuple[str, object, bool], int]:
        found = _plain_key(text, at)
        key, start = (found[1], found.end()) if found is not None else _key(text, at)
        try:
            value, at = self._quick_scan(text, start)
        except StopIteration as error:
            raise json.JSONDecodeError("Expecting value", text, error.value) from None
        is_last, end = _is_last(text, at)
        if at - start > _LONG and _count_leaves(value) > MAX_LEAVES:
            raise not_json(self._shown, f"`{key[:200]}` holds more than {MAX_LEAVES} values")
        if not _is_each_key_kept(text, start, at, value):
            value, _ = self._scan(text, start)
        return (key, value, is_last), end

    def _nothing(self, text: str, at: int) -> tuple[None, int]:
        at = _past_space(text, at)
        if at < len(text):
            raise json.JSONDecodeError("Extra data", text, at)
        if not self._is_ended:
            raise json.JSONDecodeError("Expecting more", text, at)
        return None, at


def _past_space(text: str, at: int) -> int:
    found = _space(text, at)
    assert found is not None
    return found.end()


def _opens_object(text: str, at: int) -> tuple[bool, int]:
    at = _past_space(text, at)
    if at == len(text):
        raise json.JSONDecodeError("Expecting value", text, at)
    is_open = text[at] == "{"
    return is_open, at + is_open


def _closes_object(text: str, at: int) -> tuple[bool, int]:
    at = _past_space(text, at)
    if at == len(text):
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
    is_closed = text[at] == "}"
    return is_closed, at + is_closed


def _key(text: str, at: int) -> tuple[str, int]:
    """Return a key and where its value begins."""
    at = _past_space(text, at)
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, at)
    key, at = _scan_text(text, at + 1)
    at = _past_space(text, at)
    if text[at : at + 1] != ":":
        raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
    return key, _past_space(text, at + 1)


def _is_last(text: str, at: int) -> tuple[bool, int]:
    """Say whether the object ends after a value, and step over what separates it from the next one."""
    at = _past_space(text, at)
    mark = text[at : at + 1]
    if mark not in (",", "}"):
        raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
    return mark == "}", at + 1


def _is_each_key_kept(text: str, start: int, end: int, value: object) -> bool:
    """Return whether no key stands twice in an object of a stretch of text; False where that is not certain.

    No text has fewer colons than it has keys and its values have colons, escapes aside: as many as were kept of both
    mean that nothing stands twice.
    """
    keys, inside = _count_colons(value)
    if text.count(":", start, end) != keys + inside:
        return False
    return not inside or text.find("\\", start, end) < 0


def _count_leaves(value: object) -> int:
    """Return how many values an entry holds that lists and objects only group; one with a ``type`` counts as one."""
    count, level = 0, [value]
    while level:
        deeper: list[object] = []
        for each in level:
            if type(each) is dict and "type" not in each:
                deeper += each.values()
            elif type(each) is list:
                deeper += each
            else:
                count += 1
        level = deeper
    return count


def _count_colons(value: object) -> tuple[int, int]:
    """Return how many keys the objects of a value have, and how many colons the texts that leaves hold.

    Within a leaf (it has a ``type``), only its own keys and its ``value`` are looked at.
    """
    keys = inside = 0
    level: list[object] = [value]
    while level:
        deeper: list[object] = []
        for each in level:
            if type(each) is dict:
                keys += len(each)
                if "type" not in each:
                    deeper += each.values()
                elif type(held := each.get("value")) is str:
                    inside += held.count(":")
            elif type(each) is list:
                deeper += each
        level = deeper
    return keys, inside


def _plain_scanner() -> _Scan:
    scan: _Scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
    return scan


def _scanner(repeated: Repeated) -> _Scan:
    scan: _Scan = json.JSONDecoder(object_pairs_hook=repeated.unique).scan_once  # type: ignore[attr-defined]
    return scan


class _Text:
    """Text of a file in UTF-8, perhaps with a byte order mark, read in pieces."""

    def __init__(self, stream: BinaryIO, shown: str) -> None:
        self._stream = stream
        self._shown = shown
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._bytes = 0

    def read(self, count: int) -> str:
        """Return some text; nothing at the end only.

        Raises:
            FormatError: PF3407 the bytes are no UTF-8.
        """
        while True:
            content = self._stream.read(count)
            waiting = len(self._decoder.getstate()[0])
            try:
                text = self._decoder.decode(content, final=not content)
            except UnicodeDecodeError as error:
                raise self._not_utf8(self._bytes - waiting + error.start) from error
            self._bytes += len(content)
            if text or not content:
                return text

    def _not_utf8(self, position: int) -> FormatError:
        return not_json(self._shown, f"byte {position} is not UTF-8")
