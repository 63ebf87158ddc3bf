"""Damage that needs no knowledge of a format: bytes, and text that is made of words and numbers."""

from __future__ import annotations

import random
import re

NUMBERS = (0, 1, -1, 2, 7, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40,
           2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**31), -(2**63), -(2**63) - 1)  # fmt: skip
"""Numbers at which programs go wrong."""

ODD_NUMBERS = ("1e999", "-1e999", "NaN", "Infinity", "-0", "0.0", "1e-400", "1.5", "0x10", "1_000", "07", "9" * 400,
               "9" * 5000, "-", "+1", ".5", "1.", "true", "null")  # fmt: skip
ODD_TEXTS = (
    "", " ", "\x00", "é", "\U0001f600", "\ud83d", "a" * 300, "..", "../../etc/passwd", "/etc/passwd", ".", "/", "\\",
    '"', "'", "`", "*", "[", "(" * 200, "%s", "{}", "${x}", "<script>", "\x1b[31m", "\u202e", "N/A", "nan", "None",
    "\n", "a.b.c", "-1", "0", "=1+1", "a" * 5000,
)  # fmt: skip
_PIECES = (b"%1(", b'"', b"'", b"\n", b"\n,,,\n", b"\xff\xfe", b"(" * 500, b"9" * 400, b"{", b"}", b"[", b"]", b":",
           b",", b"\x00", b"\\", b"\xc3\xa9", b"#", b"${", b"[" * 3000, b"\r\n", b"\xef\xbb\xbf", b"\x80",
           b"-")  # fmt: skip
_WORD = re.compile(rb"[A-Za-z_][A-Za-z0-9_.]*")
_DIGITS = re.compile(rb"-?\d+(?:\.\d+)?")
_INFLATED_BYTES = 2 << 20


def damaged_bytes(content: bytes, dice: random.Random) -> bytes:
    """Return bytes of which some are changed, missing, doubled or new."""
    at = _place(content, dice)
    kind = dice.randrange(9)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + content[at + dice.randrange(1, 64) :]
    if kind == 2:
        end = at + dice.randrange(1, 300)
        return content[:end] + content[at:end] * dice.choice((1, 1, 1, 8)) + content[end:]
    if kind == 3:
        return content[:at] + dice.choice(_PIECES) + content[at:]
    if kind == 4:
        return content[:at] + dice.randbytes(dice.randrange(1, 20)) + content[at:]
    if kind == 5:
        size = dice.choice((1, 2, 4, 8))
        number = dice.choice(NUMBERS) % 256**size
        return content[:at] + number.to_bytes(size, dice.choice(("little", "big"))) + content[at + size :]
    if kind == 6:
        other = _place(content, dice)
        return content[:at] + content[other:]
    if kind == 7 and dice.random() < 0.02:
        piece = content[at : at + dice.randrange(1, 60)] or b"x"
        return content[:at] + piece * (_INFLATED_BYTES // len(piece)) + content[at:]
    changed = bytearray(content)
    for _ in range(dice.choice((1, 1, 1, 2, 4, 16))):
        if changed:
            place = _place(content, dice) % len(changed)
            changed[place] = changed[place] ^ (1 << dice.randrange(8)) if kind == 8 else dice.randrange(256)
    return bytes(changed)


def _place(content: bytes, dice: random.Random) -> int:
    """Return a place; often one near the beginning or the end, where headers and directories are."""
    length = len(content)
    roll = dice.random()
    if roll < 0.3:
        return dice.randrange(min(length, 64) + 1)
    return length - dice.randrange(min(length, 128) + 1) if roll < 0.45 else dice.randrange(length + 1)


def damaged_text(content: bytes, dice: random.Random) -> bytes:
    """Return a text of which a word, a number or a line is changed, missing, doubled or moved."""
    kind = dice.randrange(5)
    if kind < 2:
        pattern = _DIGITS if kind else _WORD
        found = _some_match(pattern, content, dice)
        if found is None:
            return damaged_bytes(content, dice)
        return content[: found[0]] + _other(content, pattern, dice) + content[found[1] :]
    lines = content.split(b"\n")
    at, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    if kind == 2:
        end = at + dice.choice((1, 1, 2, 5, 20))
        del lines[at:end]
    elif kind == 3:
        lines[at:at] = lines[other : other + dice.choice((1, 1, 2, 5))] * dice.choice((1, 1, 2, 50))
    else:
        lines[at], lines[other] = lines[other], lines[at]
    return b"\n".join(lines)


def _other(content: bytes, pattern: re.Pattern[bytes], dice: random.Random) -> bytes:
    roll = dice.random()
    if roll < 0.4:
        found = _some_match(pattern, content, dice)
        return content[found[0] : found[1]] if found else b""
    if roll < 0.6:
        return str(dice.choice(NUMBERS)).encode()
    return dice.choice((*ODD_NUMBERS, *ODD_TEXTS)).encode("utf-8", "surrogatepass")


def _some_match(pattern: re.Pattern[bytes], content: bytes, dice: random.Random) -> tuple[int, int] | None:
    """Return where a match behind a random place is; the whole text is not searched."""
    found = pattern.search(content, dice.randrange(len(content) + 1)) or pattern.search(content)
    return found.span() if found else None
