"""Walk a protobuf text-format file field by field, in one pass over blocks of bytes, without building a tree.

The grammar is the public text format of protocol buffers: ``key: value``, ``key { ... }``, ``key < ... >``,
``key: [a, b]``, ``#`` comments, adjacent strings that concatenate, C escapes. One bracket is as good as the other.
Subtrees that nobody wants are skipped by counting brackets outside of strings, so nesting costs no stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, Literal, NoReturn

from probe_flow.errors import Diagnostic, FormatError, Span

BLOCK_BYTES = 1 << 20
MAX_FIELD_BYTES = 256 << 20
"""Longest single string or comment that is buffered, in bytes."""

_STRING = rb'(?:"(?:[^"\\\n]|\\[\s\S])*"|\'(?:[^\'\\\n]|\\[\s\S])*\')'
_STRINGS = _STRING + rb"(?:(?:\s|#[^\n]*\n)*" + _STRING + rb")*"
_WORD = rb"[^\s\"'{}<>\[\],;:#]+"
# A comment may end with the buffer: the field then counts as unfinished and is read again with more text.
_GAP = rb"(?:[\s,;]|#[^\n]*(?:\n|\Z))*"

_FIELD = re.compile(
    rb"(?:([}>])"  # 1: close
    rb"|([A-Za-z_][\w.]*|\[[\w./ -]*\])\s*"  # 2: key
    rb"(?::?\s*(?:([{<])|(\[))|:\s*(?:(" + _STRINGS + rb")|(" + _WORD + rb"))))" + _GAP
)
_ITEM = re.compile(rb"(?:([{<])|(\])|(" + _STRINGS + rb")|(" + _WORD + rb"))" + _GAP)
_LEAD = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:[\w.-]+/[\w./-]*)?" + _GAP)
"""Byte order mark and the debug marker (a word with a slash) that some writers put before the first field."""
_TRAIL = re.compile(_GAP)
_SKIP = re.compile(rb"(?:[^{}<>\"'#]+|" + _STRING + rb"|#[^\n]*\n)*")

_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([\s\S]))")
_PIECE = re.compile(_STRING)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}

Kind = Literal["close", "open", "string", "word"]
_CLOSE: tuple[bytes, Kind, bytes] = (b"", "close", b"")
_QUOTES = b"\"'"


class TextFields:
    """The fields of one text-format stream, in order.

    `next` returns ``(key, kind, raw)``: kind ``open`` starts a block, ``close`` ends the current one, ``string`` and
    ``word`` carry the value as written (`unquote` decodes strings). Lists are flattened: ``key: [a, b]`` comes as
    two fields of the same key.

    Args:
        stream: binary stream of the text.
        file: name for messages.
        block_bytes: bytes to read at once.
    """

    def __init__(self, stream: BinaryIO, file: str, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._stream = stream
        self._file = file
        self._block = block_bytes
        self._text = b""
        self._pos = 0
        self._eof = False
        self._lines_before = 0
        self._list_keys: list[bytes] = []
        self._in_list = False
        self._lists_outside: list[bool] = []
        while not self._text.strip() and self._more():
            pass
        self._pass_over(_LEAD)

    @property
    def line(self) -> int:
        """Line of the next unread byte, from 1."""
        return self._lines_before + self._text.count(b"\n", 0, self._pos) + 1

    def next(self) -> tuple[bytes, Kind, bytes] | None:
        """Return the next field, or None at the end of the text.

        Raises:
            FormatError: PF3220 if the text ends inside a field, PF3221 if it is not the text format here.
        """
        if self._in_list:
            return self._next_item()
        # Far from the end of the buffer `_match` would do no more than this.
        text = self._text
        match = _FIELD.match(text, self._pos)
        if match is not None and (end := match.end()) < len(text) and text[end] not in _QUOTES:
            self._pos = end
        else:
            match = self._match(_FIELD)
            if match is None:
                return None
        index = match.lastindex
        if index == 6:
            return match.group(2), "word", match.group(6)
        if index == 5:
            return match.group(2), "string", match.group(5)
        if index == 3:
            self._enter()
            return match.group(2), "open", b""
        if index == 1:
            self._leave()
            return _CLOSE
        self._list_keys.append(match.group(2))
        self._in_list = True
        return self._next_item()

    def block(self) -> Iterator[tuple[bytes, Kind, bytes]]:
        """Yield the fields of the block that was opened last, up to its end; blocks in it must be read or skipped.

        Raises:
            FormatError: as `next`; PF3220 also when the text ends before the block does.
        """
        while (field := self.next()) is not _CLOSE:
            if field is None:
                self.fail_cut_off()
            yield field

    def skip(self) -> None:
        """Leave the block that was opened last, whatever it holds.

        Raises:
            FormatError: PF3220 if the text ends inside it.
        """
        depth = 1
        while depth:
            match = _SKIP.match(self._text, self._pos)
            assert match is not None, "the pattern matches the empty text"
            self._pos = match.end()
            bracket = self._text[self._pos : self._pos + 1]
            if bracket in (b"{", b"<"):
                depth += 1
            elif bracket in (b"}", b">"):
                depth -= 1
            elif not self._more():
                self._fail_at_end()
            else:
                continue
            self._pos += 1
        self._leave()
        self._pass_over(_TRAIL)

    def fail(self, message: str) -> NoReturn:
        """Raise PF3221 at the current line."""
        self._raise("PF3221", message)

    def fail_cut_off(self) -> NoReturn:
        """Raise PF3220 at the current line."""
        self._raise("PF3220", f"`{self._file}` ends inside a block")

    def _next_item(self) -> tuple[bytes, Kind, bytes] | None:
        match = self._match(_ITEM)
        if match is None:
            self._fail_at_end()
        key, index = self._list_keys[-1], match.lastindex
        if index == 4:
            return key, "word", match.group(4)
        if index == 3:
            return key, "string", match.group(3)
        if index == 1:
            self._enter()
            return key, "open", b""
        self._list_keys.pop()
        self._in_list = False
        return self.next()

    def _enter(self) -> None:
        self._lists_outside.append(self._in_list)
        self._in_list = False

    def _leave(self) -> None:
        self._in_list = self._lists_outside.pop() if self._lists_outside else False

    def _match(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        while True:
            match = pattern.match(self._text, self._pos)
            if match is not None and (self._eof or self._is_whole(match)):
                self._pos = match.end()
                return match
            if self._more():
                continue
            if match is not None:
                self._pos = match.end()
                return match
            if self._pos >= len(self._text):
                return None
            self._fail_at_end()

    def _is_whole(self, match: re.Match[bytes]) -> bool:
        """Tell whether more text could not change a match: it ends before the buffer does, its last string too."""
        end = match.end()
        if end == len(self._text):
            return False
        # A quote that begins right behind a string continues it; it did not match because its end is not read yet.
        index = match.lastindex or 0
        return self._text[end] not in _QUOTES or b"," in self._text[match.end(index) : end]

    def _more(self) -> bool:
        """Read on, keeping the unread rest; False at the end of the file."""
        if self._eof:
            return False
        rest = len(self._text) - self._pos
        if rest > MAX_FIELD_BYTES:
            self.fail(f"one field of `{self._file}` is longer than {MAX_FIELD_BYTES} bytes")
        # At least doubling the rest keeps repeated attempts at one long string linear in its length.
        block = self._stream.read(max(self._block, rest))
        self._lines_before += self._text.count(b"\n", 0, self._pos)
        self._text = self._text[self._pos :] + block
        self._pos = 0
        self._eof = not block
        return True

    def _pass_over(self, pattern: re.Pattern[bytes]) -> None:
        while True:
            match = pattern.match(self._text, self._pos)
            assert match is not None, "the pattern matches the empty text"
            if match.end() < len(self._text) or not self._more():
                self._pos = match.end()
                return

    def _fail_at_end(self) -> NoReturn:
        rest = self._text[self._pos :]
        # Whatever the last line lacks, a cut file is the likelier story than a writer that breaks the grammar.
        if b"\n" not in rest.rstrip():
            self.fail_cut_off()
        shown = rest[:40].split(b"\n")[0].decode("utf-8", "backslashreplace")
        self.fail(f"`{self._file}` is not protobuf text at `{shown}`")

    def _raise(self, code: str, message: str) -> NoReturn:
        raise FormatError(Diagnostic(code, message, span=Span(self._file, self.line)))


def unquote(raw: bytes) -> str:
    r"""Return the text of one or more adjacent quoted strings, escapes resolved; bytes outside UTF-8 show as ``\xNN``.

    >>> unquote(rb'"a\"b" "\303\244"')
    'a"bä'
    """
    if b"\\" not in raw and raw.count(raw[:1]) == 2:
        return raw[1:-1].decode("utf-8", "backslashreplace")
    pieces = (_ESCAPE.sub(_unescape, piece[1:-1]) for piece in _PIECE.findall(raw))
    return b"".join(pieces).decode("utf-8", "backslashreplace")


def _unescape(match: re.Match[bytes]) -> bytes:
    octal, hexa, short, long, letter = match.groups()
    if octal:
        return bytes((int(octal, 8) & 0xFF,))
    if hexa:
        return bytes((int(hexa, 16),))
    if short or long:
        point = int(short or long, 16)
        return chr(point).encode("utf-8", "replace") if point <= 0x10FFFF else b"?"
    return _LETTERS.get(letter, letter)
