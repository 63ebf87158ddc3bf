"""Damage to binary files whose parts have sizes: a part is changed and the whole put together again, or not quite."""

from __future__ import annotations

import io
import pickletools
import random
import struct
import zipfile
import zlib
from functools import lru_cache

from model_file_writer import narrow, varint, wide

from fuzz.bytes_and_text import NUMBERS, ODD_NUMBERS, damaged_bytes, damaged_text

Field = tuple[int, int, "bytes | int | list[Field]"]

_MAGIC = b"\x93NUMPY"
_OM_HEADER_BYTES = 256
_DESCRS = ("'<f4'", "'|O'", "'<U5'", "'>i8'", "'<f2'", "'<c16'", "'|V8'", "'<m8[ns]'", "'|b1'", "[('a', '<f4')]",
           "'<f16'", "('<f4', (2,))", "'f'", "[('a', '<f4', (2, 3))]", "'<E2'", "'|S0'", "'<U0'",
           "'<U999999999'", "7")  # fmt: skip
_SHAPES = ("()", "(0,)", "(1,)", "(2, 3)", "(-1,)", "(3.0,)", "(True,)", "[2, 3]", "6", "(999999999999,)",
           "(2,) * 3", f"({'1, ' * 70})", "(4294967296, 4294967296)", "(0, 9223372036854775807)", "None",
           "(18446744073709551616,)", f"({'9' * 400},)")  # fmt: skip
_CODES = (b"N", b"\x88", b"\x89", b"]", b"}", b")", b"(", b"t", b"0", b"2", b"Q", b"R", b"h\x00", b"cos\nsystem\n",
          b"ctorch\nFloatStorage\n", b"X\xff\xff\xff\x7f", b"b", b"u", b"e")  # fmt: skip


def damaged_device(content: bytes, dice: random.Random) -> bytes:
    """Return a device file whose header, a protobuf message behind its length, is changed."""
    length = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + length]
    if not 0 < length <= len(content) - 8 or header[:4] == b"ZZZZ":  # the old form, or a nano dump
        fields = _message(content)
        if fields and dice.random() < 0.7:
            return _encoded(_changed(fields, dice))
        return damaged_bytes(content, dice)
    fields = _message(header)
    if not fields or dice.random() < 0.2:
        return damaged_bytes(content, dice)
    changed = _encoded(_changed(fields, dice))
    return len(changed).to_bytes(8, "little") + changed + content[8 + length :]


def damaged_om(content: bytes, dice: random.Random) -> bytes:
    """Return an offline model whose definition, table or header is changed."""
    is_wide = dice.random() < 0.5
    parts = _om_parts(content)
    if not parts or dice.random() < 0.25:
        at = dice.randrange(min(len(content), _OM_HEADER_BYTES + 80) + 1)
        number = struct.pack("<Q", dice.choice(NUMBERS) % 2**64)[: dice.choice((1, 2, 4, 8))]
        return content[:at] + number + content[at + len(number) :]
    at = dice.randrange(len(parts)) if dice.random() < 0.2 else 0
    kind, part = parts[at]
    fields = _message(part)
    parts = [*parts]
    parts[at] = (kind, _encoded(_changed(fields, dice)) if fields else damaged_bytes(part, dice))
    if dice.random() < 0.1:
        parts.insert(dice.randrange(len(parts) + 1), dice.choice(parts))
    body = wide(parts) if is_wide else narrow(parts)
    header = bytearray(content[:_OM_HEADER_BYTES])
    if len(header) == _OM_HEADER_BYTES:
        struct.pack_into("<Q", header, 184, len(body) if is_wide else 0)
    return bytes(header) + body


@lru_cache(maxsize=64)
def _om_parts(content: bytes) -> list[tuple[int, bytes]]:
    """Return the partitions of a model with a narrow table."""
    try:
        (count,) = struct.unpack_from("<I", content, _OM_HEADER_BYTES)
        entries = [struct.unpack_from("<III", content, _OM_HEADER_BYTES + 4 + 12 * at) for at in range(min(count, 9))]
    except struct.error:
        return []
    start = _OM_HEADER_BYTES + 4 + 12 * len(entries)
    return [(kind, content[start + offset : start + offset + size]) for kind, offset, size in entries]


@lru_cache(maxsize=256)
def _message(content: bytes, depth: int = 0) -> list[Field] | None:
    """Return the fields of a protobuf message, nested ones as far as bytes can be read so; None for anything else."""
    fields: list[Field] = []
    at = 0
    while at < len(content):
        key, at = _varint(content, at)
        number, wire = key >> 3, key & 7
        if at < 0 or not 0 < number < 4096:
            return None
        value: bytes | int | list[Field] | None
        if wire == 0:
            value, at = _varint(content, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = content[at : at + size], at + size
        elif wire == 2:
            size, at = _varint(content, at)
            value, at = content[at : at + size], at + size
            inner = _message(value, depth + 1) if value and depth < 8 else None
            value = inner or value
        else:
            return None
        if at < 0 or at > len(content):
            return None
        fields.append((number, wire, value))
    return fields


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while 0 <= at < len(content) and shift < 70:
        value |= (content[at] & 0x7F) << shift
        if content[at] < 0x80:
            return value, at + 1
        shift, at = shift + 7, at + 1
    return 0, -1


def _encoded(fields: list[Field]) -> bytes:
    out = []
    for number, wire, value in fields:
        out.append(varint(number << 3 | wire))
        if isinstance(value, int):
            out.append(varint(value))
        else:
            content = _encoded(value) if isinstance(value, list) else value
            out += [varint(len(content)), content] if wire == 2 else [content]
    return b"".join(out)


def _changed(fields: list[Field], dice: random.Random) -> list[Field]:
    """Return fields of which one is changed, missing, doubled, moved, of another type or much longer."""
    fields = list(fields)
    at = dice.randrange(len(fields))
    number, wire, value = fields[at]
    if isinstance(value, list) and value and dice.random() < 0.8:
        fields[at] = (number, wire, _changed(value, dice))
        return fields
    kind = dice.randrange(8)
    if kind == 0:
        del fields[at]
    elif kind == 1:
        fields[at:at] = [fields[at]] * dice.choice((1, 1, 3, 300))
    elif kind == 2:
        fields.insert(dice.randrange(len(fields)), fields.pop(at))
    elif kind == 3:
        fields[at] = (dice.choice((number + 1, max(1, number - 1), dice.randrange(1, 20), 2**28)), wire, value)
    elif kind == 4:
        fields[at] = (number, 0, dice.choice(NUMBERS) % 2**64)
    elif kind == 5:
        fields[at] = (number, 2, dice.choice((b"", b"\xff", b"x" * 300, b"\xff" * 9 + b"\x01", dice.randbytes(9))))
    elif kind == 6:
        inner = fields[at]
        for _ in range(dice.choice((1, 3, 60, 300))):
            inner = (number, 2, [inner])
        fields[at] = inner
    elif isinstance(value, int):
        fields[at] = (number, wire, dice.choice(NUMBERS) % 2**64)
    else:
        content = _encoded(value) if isinstance(value, list) else value
        fields[at] = (
            number,
            wire,
            damaged_text(content, dice) if dice.random() < 0.3 else damaged_bytes(content, dice),
        )
    return fields


def damaged_npy(content: bytes, dice: random.Random) -> bytes:
    """Return an array whose header says something else, or whose elements are fewer or more."""
    if content[:6] != _MAGIC or len(content) < 12:
        return damaged_bytes(content, dice)
    size = int.from_bytes(content[8:10], "little")
    text, rest = content[10 : 10 + size].decode("latin-1"), content[10 + size :]
    kind = dice.randrange(6)
    if kind == 0:
        rest = rest[: dice.randrange(len(rest) + 1)] if dice.random() < 0.5 else rest + b"\x00" * dice.randrange(1, 99)
        return content[: 10 + size] + rest
    if kind == 1:
        text = _with(text, "'shape'", dice.choice((*_SHAPES, f"({dice.choice(NUMBERS)}, {dice.choice(NUMBERS)})")))
    elif kind == 2:
        text = _with(text, "'descr'", dice.choice(_DESCRS))
    elif kind == 3:
        text = _with(text, "'fortran_order'", dice.choice(("True", "False", "1", "None", "'a'", *ODD_NUMBERS)))
    elif kind == 4:
        text = damaged_text(text.encode(), dice).decode("latin-1")
    else:
        text = dice.choice(("[" * 5000, "{" + text, "1", "{}", text * 2, "'" * 3000, "-" * 9000, "1" + "+1" * 4000))
    raw = text.encode("latin-1", "replace")
    version = dice.choice((b"\x01\x00", b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x04\x00"))
    lengths = {b"\x01\x00": len(raw).to_bytes(4, "little")[:2]}
    return _MAGIC + version + lengths.get(version, len(raw).to_bytes(4, "little")) + raw + rest


def _with(text: str, key: str, value: str) -> str:
    """Return the text of a header in which a key has another value."""
    order = ["'descr'", "'fortran_order'", "'shape'"]
    start = text.find(key)
    ends = [text.find(f", {other}", start) for other in order if other != key]
    ends = [end for end in ends if end > 0] or [text.rfind("}")]
    return f"{text[:start]}{key}: {value}{text[min(ends) :]}" if start >= 0 else text


def damaged_archive(content: bytes, dice: random.Random) -> bytes:
    """Return a zip archive whose members, or what it says of them, are changed."""
    members = _members(content)
    if members is None or dice.random() < 0.2:
        return damaged_bytes(content, dice)
    members = [*members]
    at = dice.randrange(len(members))
    name, raw = members[at]
    kind = dice.randrange(7)
    if kind < 3:
        by_kind = damaged_pickle if name.endswith(".pkl") else damaged_npy if name.endswith(".npy") else damaged_text
        members[at] = (name, by_kind(raw, dice))
    elif kind == 3:
        del members[at]
    elif kind == 4:
        members.insert(at, (dice.choice((name, "../x", "a" * 300, "é", "x/data/0", "")), raw))
    else:
        return _with_another_fact(content, dice)
    return _archive(members, dice)


def _archive(members: list[tuple[str, bytes]], dice: random.Random) -> bytes:
    """Write members as torch and numpy do: one behind another, some packed, their places a multiple of 64 or not."""
    is_packed, is_wide = dice.random() < 0.15, dice.random() < 0.1
    body, directory = bytearray(), bytearray()
    for name, raw in members:
        called, packed = name.encode(), raw
        if is_packed:
            packer = zlib.compressobj(wbits=-15)
            packed = packer.compress(raw) + packer.flush()
        facts = (8 if is_packed else 0, 0, 33, zlib.crc32(raw), len(packed), len(raw))
        place = len(body)
        padding = b"FB" + struct.pack("<H", -(place + 34 + len(called)) % 64)
        padding += b"Z" * (-(place + 34 + len(called)) % 64)
        body += (
            struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, *facts, len(called), len(padding)) + called + padding + packed
        )
        more, shown = b"", place
        if is_wide:
            more, shown = struct.pack("<2H3Q", 1, 24, len(raw), len(packed), place), 2**32 - 1
            facts = (*facts[:4], 2**32 - 1, 2**32 - 1)
        head = (b"PK\1\2", 20, 20, 0, *facts, len(called), len(more), 0, 0, 0, 0, shown)
        directory += struct.pack("<4s6H3L5H2L", *head) + called + more
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(members), len(members), len(directory), len(body), 0)
    return bytes(body + directory) + end


def _with_another_fact(content: bytes, dice: random.Random) -> bytes:
    """Change one number of a header, of the directory or of its end."""
    mark, sizes = dice.choice(((b"PK\1\2", 46), (b"PK\3\4", 30), (b"PK\5\6", 22)))
    places = [at for at in range(len(content) - 4) if content[at : at + 4] == mark] if len(content) < 9000 else []
    if not places:
        return damaged_bytes(content, dice)
    at = dice.choice(places) + dice.randrange(4, sizes, 2)
    size = dice.choice((2, 4))
    number = dice.choice((*NUMBERS, *places, len(content))) % 256**size
    return content[:at] + number.to_bytes(size, "little") + content[at + size :]


@lru_cache(maxsize=64)
def _members(content: bytes) -> list[tuple[str, bytes]] | None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return [(name, archive.read(name)) for name in archive.namelist()] or None
    except Exception:
        return None


def damaged_pickle(content: bytes, dice: random.Random) -> bytes:
    """Return a pickle with an opcode changed, missing, doubled or moved."""
    codes = _opcodes(content)
    if not codes or dice.random() < 0.15:
        return damaged_bytes(content, dice)
    codes = [*codes]
    at, other = dice.randrange(len(codes)), dice.randrange(len(codes))
    kind = dice.randrange(6)
    if kind == 0:
        del codes[at : at + dice.choice((1, 1, 4))]
    elif kind == 1:
        codes[at:at] = codes[other : other + dice.choice((1, 1, 4))] * dice.choice((1, 1, 1, 500))
    elif kind == 2:
        codes[at], codes[other] = codes[other], codes[at]
    elif kind == 3:
        numbers = [place for place, code in enumerate(codes) if code[:1] in b"KMJ\x8a"]
        at = dice.choice(numbers) if numbers else at
        codes[at] = _number_code(dice.choice(NUMBERS))
    elif kind == 4:
        codes[at] = dice.choice(_CODES)
    else:
        codes[at] = damaged_bytes(codes[at], dice)
    return b"".join(codes)


def _number_code(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


@lru_cache(maxsize=64)
def _opcodes(content: bytes) -> list[bytes] | None:
    try:
        places = [place for _, _, place in pickletools.genops(content)]
    except Exception:
        return None
    return [content[start:end] for start, end in zip(places, [*places[1:], len(content)], strict=True)]


def damaged_hdf5(content: bytes, dice: random.Random) -> bytes:
    """Return an HDF5 file with a byte, or one of the numbers of its structures, changed."""
    if dice.random() < 0.4:
        at = dice.randrange(0, len(content) + 1, 8)
        number = struct.pack("<Q", dice.choice(NUMBERS) % 2**64)
        return content[:at] + number + content[at + 8 :]
    return damaged_bytes(content, dice)
