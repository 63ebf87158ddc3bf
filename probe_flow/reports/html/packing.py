"""Text that is compressed once, piece by piece, wherever in the file it will be: pieces of DEFLATE join to one stream.

A piece ends at a byte and refers to nothing before it, so pieces made in any order follow each other (RFC 1951); their
checksums add up (Adler-32, RFC 1950).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from msgspec import Struct

COMPRESSION = 2
"""Level 4 takes 1.6 times as long for 5 % less, level 6 four times for 12 %."""

LEAST_BYTES = 4096
"""Less is not worth a piece of its own."""

_RAW = -15
"""Window bits of DEFLATE without header and checksum."""

_HEADER = b"\x78\x5e"
"""Of a stream of this window and a fast level."""

_END = b"\x03\x00"
"""An empty last block."""

_BASE = 65521
"""Largest prime below 2**16, of Adler-32."""


class Compressed(Struct, frozen=True):
    """Some bytes, compressed.

    Args:
        data: blocks of DEFLATE, none of which is the last.
        size: how many bytes they stand for.
        checksum: Adler-32 of these.
    """

    data: bytes
    size: int
    checksum: int

    def plain(self) -> bytes:
        """Return the bytes."""
        return zlib.decompressobj(_RAW).decompress(self.data)


Piece = bytes | Compressed
"""Part of a text, compressed or not."""


def compressed(text: bytes) -> Piece:
    """Return a text as a piece that takes little memory."""
    if len(text) < LEAST_BYTES:
        return text
    packer = _packer()
    return Compressed(packer.compress(text) + packer.flush(zlib.Z_FULL_FLUSH), len(text), zlib.adler32(text))


def size_of(piece: Piece) -> int:
    """Return how many bytes of text a piece is."""
    return piece.size if isinstance(piece, Compressed) else len(piece)


def plain(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Yield the text."""
    return (piece.plain() if isinstance(piece, Compressed) else piece for piece in pieces)


def deflated(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Yield the text as one zlib stream."""
    checksum, packer, is_pending = 1, _packer(), False
    yield _HEADER
    for piece in pieces:
        if isinstance(piece, Compressed):
            if is_pending:
                yield packer.flush(zlib.Z_FULL_FLUSH)
                is_pending = False
            yield piece.data
            checksum = _joined(checksum, piece.checksum, piece.size)
        else:
            yield packer.compress(piece)
            checksum, is_pending = zlib.adler32(piece, checksum), True
    if is_pending:
        yield packer.flush(zlib.Z_FULL_FLUSH)
    yield _END + checksum.to_bytes(4, "big")


def _packer() -> zlib._Compress:
    return zlib.compressobj(COMPRESSION, zlib.DEFLATED, _RAW)


def _joined(before: int, after: int, size: int) -> int:
    """Return the checksum of two texts from theirs; ``size`` is that of the second."""
    low, high = before & 0xFFFF, before >> 16
    joined_low = (low + (after & 0xFFFF) - 1) % _BASE
    joined_high = (high + (after >> 16) + size * (low - 1)) % _BASE
    return joined_high << 16 | joined_low
