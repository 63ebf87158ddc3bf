"""Walk a protobuf text-format file field by field, in one pass over blocks of bytes, without building a tree.

The grammar is the public text format of protocol buffers: ``key: value``, ``key { ... }``, ``key < ... >``,
``key: [a, b]``, ``#`` comments, adjacent strings that concatenate, C escapes. One bracket is as good as the other.
Subtrees that nobody wants are skipped by counting brackets outside of strings, so nesting costs no stack; what is
written there may be of any length (the numbers of a constant), while a field that is handed out is bounded.

A pattern that repeats alternatives takes some hundred bytes of memory for each turn, so none is ever tried on more than
a window of the text.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO, Literal, NoReturn

from probe_flow.errors import Diagnostic, FormatError, Span

BLOCK_BYTES = 1 << 20
MAX_FIELD_BYTES = 64 << 10
"""Longest field that is handed out: its key and its value as written."""

_STRING = rb'(?:"(?:[^"\\\n]|\\[\s\S])*"|\'(?:[^\'\\\n]|\\[\s\S])*\')'
_WORD = rb"[^\s\"'{}<>\[\],;:#]+"
_KEY = rb"(?:[A-Za-z_][\w.]*|\[[\w./ -]*\])"
_SPACE = rb"[\s,;]*"

_FIELD = re.compile(
    rb"(?:([}>])"  # 1: close
    rb"|(" + _KEY + rb")\s*"  # 2: key
    rb"(?::?\s*(?:([{<])|(\[))|:\s*(?:(" + _STRING + rb")|(" + _WORD + rb"))))" + _SPACE
)
_ITEM = re.compile(rb"(?:([{<])|(\])|(" + _STRING + rb")|(" + _WORD + rb"))" + _SPACE)
_LEAD = re.compile(rb"[\w.-]+/[\w./-]*")
"""The debug marker (a word with a slash) that some writers put before the first field."""
_BYTE_ORDER = b"\xef\xbb\xbf"
_GAP = re.compile(_SPACE)
_BLANK = re.compile(rb"\s*")
_RUNS_ON = re.compile(
    rb"(?:" + _KEY + rb"\s*:?\s*)?"
    rb"(?:\"(?:[^\"\\\n]|\\[\s\S])*\\?|'(?:[^'\\\n]|\\[\s\S])*\\?|[^\"'{}<>,;#]*)"
)
"""The beginning of a field, which may be all of a window."""
_SKIP = re.compile(rb"(?:[^{}<>\"'#]+|" + _STRING + rb"|#[^\n]*\n)*")
_INSIDE = {
    b'"': re.compile(rb'(?:[^"\\\n]|\\[\s\S])*'),
    b"'": re.compile(rb"(?:[^'\\\n]|\\[\s\S])*"),
}
_SKIPPED_BYTES = 16 << 10
"""Skipped at a time."""


def _rest_of_block(depth: int) -> bytes:
    """Return the pattern of what is left of a block, its end included, with blocks of some depth in it.

    No byte fits two parts of it, so that a text that does not match is found out in one pass back.
    """
    plain = rb"[^{}<>\"'#]*"
    flat = plain + rb"(?:" + _STRING + plain + rb")*"
    inner = flat
    for _ in range(depth):
        inner = flat + rb"(?:\{" + inner + rb"\}" + flat + rb")*"
    return inner + rb"\}"


_PIECE = re.compile(_STRING)
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([\s\S]))")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}

Kind = Literal["close", "open", "string", "word"]
_CLOSE: tuple[bytes, Kind, bytes] = (b"", "close", b"")
_QUOTES = b"\"'"
_QUOTES_OR_COMMENT = b"\"'#"
_ENDS = b"{}<>[]\"'"
"""Behind one of these no further byte belongs to what is matched; a word may go on."""


def surplus(wanted: Iterable[str], *, keys: Iterable[str] = (), endings: Iterable[str] = ()) -> re.Pattern[bytes]:
    """Return the pattern of whole fields that nobody wants, for `TextFields.pass_over`.

    Args:
        wanted: names of the fields that are; entries of the map ``attr`` are wanted by their keys.
        keys: of the entries that are wanted.
        endings: how further keys end that are wanted.
    """
    names = b"|".join(re.escape(name.encode()) for name in (*wanted, "attr"))
    known = b"|".join(
        [*(re.escape(key.encode()) for key in keys), *(rb"[^\"\\\n]*" + re.escape(end.encode()) for end in endings)]
    )
    other = rb"(?!(?:" + names + rb")[\s:{])[a-z_]\w*"
    rest = _rest_of_block(4)  # a list in the value of an attribute of a description
    entry = rb"attr\s*\{\s*key:\s*\"(?!(?:" + known + rb")\")[^\"\\\n]*\""
    scalar = other + rb":\s*(?:" + _STRING + rb"|" + _WORD + rb")"
    block = other + rb"\s*\{"
    return re.compile(rb"(?:(?:" + scalar + rb"|(?:" + entry + rb"|" + block + rb")" + rest + rb")\s+(?![\"']))*")


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
        self._fill()
        if self._text.startswith(_BYTE_ORDER):
            self._pos = len(_BYTE_ORDER)
        self._pass_gap(_GAP)
        self._fill()
        if (marker := _LEAD.match(self._text, self._pos)) is not None:
            self._pos = marker.end()
            self._pass_gap(_GAP)

    @property
    def line(self) -> int:
        """Line of the next unread byte, from 1."""
        return self._lines_before + self._text.count(b"\n", 0, self._pos) + 1

    def next(self) -> tuple[bytes, Kind, bytes] | None:
        """Return the next field, or None at the end of the text.

        Raises:
            FormatError: PF3220 if the text ends inside a field, PF3221 if it is not the text format here, or if the
                field is longer than `MAX_FIELD_BYTES`.
        """
        if self._in_list:
            return self._next_item()
        # Far from the end of the buffer and of the window `_match` would do no more than this.
        text, pos = self._text, self._pos
        match = _FIELD.match(text, pos, pos + MAX_FIELD_BYTES)
        if (
            match is not None
            and (end := match.end()) < len(text)
            and end - pos < MAX_FIELD_BYTES
            and text[end] not in _QUOTES_OR_COMMENT
        ):
            self._pos = end
            index = match.lastindex or 0
            raw = match.group(index)
        else:
            found = self._match(_FIELD)
            if found is None:
                return None
            match, raw = found
            index = match.lastindex or 0
        if index == 6:
            return match.group(2), "word", raw
        if index == 5:
            return match.group(2), "string", raw
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

    def skip(self) -> int:
        """Leave the block that was opened last, whatever it holds; return a checksum of it, long strings apart.

        Raises:
            FormatError: PF3220 if the text ends inside it.
        """
        depth, checksum = 1, 0
        while depth:
            match = _SKIP.match(self._text, self._pos, self._pos + _SKIPPED_BYTES)
            assert match is not None, "the pattern matches the empty text"
            checksum = zlib.crc32(match.group(), checksum)
            is_all = match.end() - self._pos == _SKIPPED_BYTES
            self._pos = match.end()
            mark = self._text[self._pos : self._pos + 1]
            if mark in (b"{", b"<"):
                depth += 1
                self._pos += 1
            elif mark in (b"}", b">"):
                depth -= 1
                self._pos += 1
            elif mark == b"#":
                self._pass_comment()
            elif mark in _INSIDE:
                self._pass_string(mark)
            elif not is_all and not self._more():
                self._fail_at_end()
        self._leave()
        self._pass_gap(_GAP)
        return checksum

    def pass_over(self, unwanted: re.Pattern[bytes]) -> bytes:
        """Step over fields that are of no use, and return them; those that are hard to tell are left for `next`."""
        pos, limit = self._pos, self._pos + _SKIPPED_BYTES
        match = None if self._in_list else unwanted.match(self._text, pos, limit)
        if match is None or match.end() in (pos, limit) or match.end() >= len(self._text):
            return b""
        self._pos = match.end()
        return self._text[pos : self._pos]

    def fail(self, message: str) -> NoReturn:
        """Raise PF3221 at the current line."""
        self._raise("PF3221", message)

    def fail_cut_off(self) -> NoReturn:
        """Raise PF3220 at the current line."""
        self._raise("PF3220", f"`{self._file}` ends inside a block")

    def _next_item(self) -> tuple[bytes, Kind, bytes] | None:
        found = self._match(_ITEM)
        if found is None:
            self._fail_at_end()
        match, raw = found
        key, index = self._list_keys[-1], match.lastindex
        if index == 4:
            return key, "word", raw
        if index == 3:
            return key, "string", raw
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

    def _match(self, pattern: re.Pattern[bytes]) -> tuple[re.Match[bytes], bytes] | None:
        """Return what begins here, and what its last group holds, whole; None at the end of the text.

        Steps over it and the gap behind it.
        """
        self._fill()
        if self._pos >= len(self._text):
            return None
        match = self._tried(pattern)
        index = match.lastindex or 0
        raw, self._pos = match.group(index), match.end(index)
        if raw[0] in _QUOTES:
            raw = self._joined(raw)
        self._pass_gap(_GAP)
        return match, raw

    def _tried(self, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        """Return the match of a pattern in the window that begins here, which more text could not change."""
        limit = self._pos + MAX_FIELD_BYTES
        match = pattern.match(self._text, self._pos, limit)
        end = limit if match is None else match.end(match.lastindex or 0)
        if match is None or (end == limit and self._text[end - 1] not in _ENDS):
            self._fail_in_window(limit)
        return match

    def _joined(self, raw: bytes) -> bytes:
        """Return a string with those that continue it, behind space and comments."""
        while True:
            self._pass_gap(_BLANK)
            self._fill()
            if self._text[self._pos : self._pos + 1] not in _INSIDE:
                return raw
            piece = self._tried(_PIECE)
            raw, self._pos = raw + piece.group(), piece.end()
            if len(raw) > MAX_FIELD_BYTES:
                self._fail_too_long()

    def _fill(self) -> None:
        """Read on until a window is there."""
        while len(self._text) - self._pos < MAX_FIELD_BYTES and self._more():
            pass

    def _more(self) -> bool:
        """Read on, keeping the unread rest; False at the end of the file."""
        if self._eof:
            return False
        block = self._stream.read(self._block)
        self._lines_before += self._text.count(b"\n", 0, self._pos)
        self._text = self._text[self._pos :] + block
        self._pos = 0
        self._eof = not block
        return True

    def _pass_gap(self, gap: re.Pattern[bytes]) -> None:
        """Step over space, of what a pattern takes for it, and comments of any length."""
        while True:
            match = gap.match(self._text, self._pos)
            assert match is not None, "the pattern matches the empty text"
            self._pos = match.end()
            if self._text.startswith(b"#", self._pos):
                self._pass_comment()
            elif self._pos < len(self._text) or not self._more():
                return

    def _pass_comment(self) -> None:
        """Step behind the end of the line, or to the end of the text."""
        while (end := self._text.find(b"\n", self._pos)) < 0:
            self._pos = len(self._text)
            if not self._more():
                return
        self._pos = end + 1

    def _pass_string(self, quote: bytes) -> None:
        """Step over a string of any length.

        Raises:
            FormatError: PF3220 if the text ends inside it, PF3221 if its line does.
        """
        self._pos += 1
        while True:
            match = _INSIDE[quote].match(self._text, self._pos, self._pos + _SKIPPED_BYTES)
            assert match is not None, "the pattern matches the empty text"
            is_all = match.end() - self._pos >= _SKIPPED_BYTES - 1  # a backslash may be left
            self._pos = match.end()
            mark = self._text[self._pos : self._pos + 1]
            if mark == quote:
                self._pos += 1
                return
            if mark == b"\n":
                self._fail_here()
            if not is_all and not self._more():
                self._fail_at_end()

    def _fail_at_end(self) -> NoReturn:
        # Whatever the last line lacks, a cut file is the likelier story than a writer that breaks the grammar.
        if b"\n" not in self._text[self._pos :].rstrip():
            self.fail_cut_off()
        self._fail_here()

    def _fail_in_window(self, limit: int) -> NoReturn:
        if len(self._text) < limit:
            self._fail_at_end()
        found = _RUNS_ON.match(self._text, self._pos, limit)
        if found is not None and found.end() == limit:
            self._fail_too_long()
        self._fail_here()

    def _fail_too_long(self) -> NoReturn:
        self.fail(f"one field of `{self._file}` is longer than {MAX_FIELD_BYTES >> 10} KiB")

    def _fail_here(self) -> NoReturn:
        shown = self._text[self._pos : self._pos + 40].split(b"\n")[0].decode("utf-8", "backslashreplace")
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
