"""Files that are cut, of another schema, of another program, or with values that no record has: each is named."""

from __future__ import annotations

import gc
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from probe_flow.errors import CODES, Diagnostic, IncompleteError, ProbeFlowError, UsageError
from probe_flow.record.stored.kinds import PREFIX, header
from probe_flow.record.stored.reading import read_comparison
from probe_flow.record.stored.writing import write_comparison
from probe_flow.records import TensorRef
from probe_flow.testing.builders import comparison, row, tensor


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the file of a comparison of one row."""
    file = tmp_path_factory.mktemp("written") / "file"
    made = comparison(row(tensor("a"), tensor("a")))
    write_comparison(made, file)
    assert read_comparison(file) == made
    return file.read_bytes()


def refused(file: Path, data: bytes, error: type[ProbeFlowError] = IncompleteError) -> Diagnostic:
    """Return what is said of a file; it names the file and the next step."""
    file.write_bytes(data)
    with pytest.raises(error) as caught:
        read_comparison(file)
    said = caught.value.diagnostic
    assert said.code in CODES
    assert said.path == str(file)
    assert file.name in said.message
    assert said.help is not None
    assert "repeat the run" in said.help
    return said


def test_a_file_cut_at_any_byte_is_named(whole: bytes, tmp_path: Path) -> None:
    begin = whole.index(b"\n")
    for end in (*range(0, begin, 50), *range(begin - 1, len(whole))):  # the header is one value of JSON
        said = refused(tmp_path / "cut", whole[:end])
        assert said.code == "PF7116"
        assert said.message.endswith("it has no header" if end < begin else "it ends in the middle")


def test_a_file_with_another_byte_is_named(whole: bytes, tmp_path: Path) -> None:
    for place in range(0, len(whole), 40):
        (tmp_path / "other").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ProbeFlowError) as caught:
            read_comparison(tmp_path / "other")
        assert caught.value.diagnostic.code in ("PF7116", "PF7117")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("format", "probe_flow.comparison/1"),
        ("format", "probe_flow.comparison/99"),
        ("byteorder", "middle"),
        ("records", {}),
        ("records", None),
    ],
)
def test_a_file_of_another_schema_is_named(whole: bytes, tmp_path: Path, key: str, value: Any) -> None:
    said = json.dumps({**header(), key: value}).encode()
    found = refused(tmp_path / "other", said + whole[whole.index(b"\n") :], UsageError)
    assert found.code == "PF7117"
    assert "a probe_flow with other records wrote it" in found.message


@pytest.mark.parametrize(
    "data",
    [
        msgspec.msgpack.encode({"format": "probe_flow.comparison/4"}),
        msgspec.msgpack.encode([1, 2, {"a": b"\n"}]) * 100,
        b"",
        b"\n",
        b"null\n",
        b"[" * 100_000 + b"\n",
        b'{"format": 7}\n',
        b'{"format": "probe_flow.run/2"}\n',
        b"\x00" * (2 << 20),
        "{}\n".encode("utf-16"),
    ],
    ids=lambda data: repr(data[:12]),
)
def test_a_file_of_another_program_is_named(tmp_path: Path, data: bytes) -> None:
    assert refused(tmp_path / "foreign", data).message.endswith("it has no header")


JUNK = [None, -1, 2**64 - 1, "x", b"x", [], {}, ["v", ["x"]], ["=", ["v", [0]]], ["r", 0, [0]]]


@pytest.mark.parametrize(("first", "junk"), [*enumerate(JUNK)], ids=str)
def test_a_message_with_a_part_replaced_is_named_or_read(whole: bytes, tmp_path: Path, first: int, junk: Any) -> None:
    """Every fourth place of all messages, with right check sums: some fit by chance, none is a crash."""
    begin, said = whole.index(b"\n") + 1, list[Diagnostic]()
    messages = list(messages_of(whole[begin:]))
    for number, message in enumerate(messages):
        for place in range(first % 4, len(parts_of(msgspec.msgpack.decode(message))), 4):
            changed = msgspec.msgpack.decode(message)
            inside, at = parts_of(changed)[place]
            inside[at] = junk
            given = [*messages[:number], msgspec.msgpack.encode(changed), *messages[number + 1 :]]
            body = b"".join(PREFIX.pack(len(each), zlib.crc32(each)) + each for each in given)
            (tmp_path / "odd").write_bytes(whole[:begin] + body + PREFIX.pack(0, 0))
            try:
                read_comparison(tmp_path / "odd")
            except IncompleteError as error:
                said.append(error.diagnostic)
    assert {(each.code, each.path) for each in said} == {("PF7116", str(tmp_path / "odd"))}
    assert len(said) > 50


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (PREFIX.pack(0, 0), "it holds no comparison"),
        (PREFIX.pack(2**32 - 1, 0), "a part of it is larger than 256 MiB"),
        (PREFIX.pack(1, 0) + b"\x00", "a part of it is not as it was written"),
        (PREFIX.pack(1, zlib.crc32(b"\xc1")) + b"\xc1", "MessagePack data is malformed"),
    ],
)
def test_parts_that_nobody_wrote_are_named(whole: bytes, tmp_path: Path, body: bytes, why: str) -> None:
    assert why in refused(tmp_path / "file", whole[: whole.index(b"\n") + 1] + body).message


def messages_of(body: bytes) -> Iterator[bytes]:
    """Yield the messages of a file, by the description of the format."""
    while size := int.from_bytes(body[:4], "little"):
        yield body[8 : 8 + size]
        body = body[8 + size :]


def parts_of(message: Any) -> list[tuple[list[Any], int]]:
    """Return every place of a message, as the list that it is in and its number there."""
    if not isinstance(message, list):
        return []
    return [place for n, each in enumerate(message) for place in ((message, n), *parts_of(each))]


def test_what_was_read_is_not_held_by_its_reader(whole: bytes, tmp_path: Path) -> None:
    """A run switches the collector off, so that a circle would keep every record to its end."""
    (tmp_path / "file").write_bytes(whole)
    before = sys.getrefcount(TensorRef)
    gc.disable()
    try:
        found = read_comparison(tmp_path / "file")
        assert sys.getrefcount(TensorRef) > before
        del found
        assert sys.getrefcount(TensorRef) == before
    finally:
        gc.enable()
