"""Names of converted files as the format's description gives them, and those that are too long."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from probe_flow.elements.converted.files import FileKind
from probe_flow.records import Slot, SlotRole
from probe_flow.transform.convert.names import add_to_mapping, converted_name, short_name

SOURCE = "Conv2D.net_conv1.2.3.1700000000002000"
INPUT, OUTPUT = Slot(SlotRole.INPUT, (1,)), Slot(SlotRole.OUTPUT, (0,))


@pytest.mark.parametrize(
    ("kind", "slot", "is_relaid", "source", "op_name", "expected"),
    [
        (FileKind.NPY, INPUT, False, SOURCE, "", f"{SOURCE}.input.1.npy"),
        (FileKind.PT, OUTPUT, False, SOURCE, "", f"{SOURCE}.output.0.pt"),
        (FileKind.NPY, OUTPUT, True, SOURCE, "", f"{SOURCE}.output.0.1x8x16.npy"),
        (FileKind.PT, OUTPUT, True, SOURCE, "", f"{SOURCE}.output.0.1x8x16.pt"),
        (FileKind.BIN, OUTPUT, False, SOURCE, "", f"{SOURCE}.output.0.1_8_16.float16.NHWC.bin"),
        (FileKind.MSNPY, OUTPUT, False, SOURCE, "", f"{SOURCE}.output.0.NHWC.npy"),
        (FileKind.MSNPY, OUTPUT, False, SOURCE, "net/a/conv1", "Conv2D.conv1.2.3.1700000000002000.output.0.NHWC.npy"),
        (FileKind.MSNPY, OUTPUT, False, "a.b.1.2", "net/b", "a.b.1.2.output.0.NHWC.npy"),  # four fields
    ],
)
def test_names_follow_the_description(
    kind: FileKind, slot: Slot, is_relaid: bool, source: str, op_name: str, expected: str
) -> None:
    facts = {"shape": (1, 8, 16), "dtype": "float16", "layout": "NHWC"}
    assert converted_name(source, slot, kind, is_relaid=is_relaid, op_name=op_name, **facts) == expected  # type: ignore[arg-type]


def test_a_scalar_has_a_shape_in_names() -> None:
    name = converted_name("a", OUTPUT, FileKind.BIN, shape=(), dtype="int32", layout="ND")
    assert name == "a.output.0.1.int32.ND.bin"


@pytest.mark.parametrize("length", [254, 255, 300])
def test_names_from_255_characters_on_are_digests(length: int) -> None:
    name = "x" * (length - 4) + ".npy"
    expected = name if length < 255 else str(uuid.uuid3(uuid.NAMESPACE_DNS, name)).replace("-", "") + ".npy"
    assert short_name(name) == expected


def test_a_name_of_255_bytes_is_a_digest_too() -> None:
    assert len(short_name("ü" * 130 + ".pt")) == 35


def test_the_mapping_keeps_what_it_said(tmp_path: Path) -> None:
    path = tmp_path / "mapping.csv"
    path.write_text('1234.npy,"a, b.npy"\nodd\n')
    add_to_mapping(tmp_path, {"0a.npy": "long.npy"})
    add_to_mapping(tmp_path, {"0a.npy": "long.npy", "0b.pt": "longer.pt"})
    assert path.read_text() == '1234.npy,"a, b.npy"\nodd\n0a.npy,long.npy\n0b.pt,longer.pt\n'


def test_names_of_any_bytes_survive_the_mapping(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff.npy")
    add_to_mapping(tmp_path, {"0a.npy": name})
    assert (tmp_path / "mapping.csv").read_bytes() == b"0a.npy,\xff.npy\n"


def test_a_mapping_that_is_no_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mapping.csv").write_bytes(b"a,b\r\r\rc" + b'"' * 3 + b"x" * 200_000)
    with pytest.raises(OSError, match=r"mapping\.csv"):
        add_to_mapping(tmp_path, {"0a.npy": "x"})
