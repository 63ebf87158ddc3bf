"""Files of a dump: whole or not there, times that grow, long names, full disks."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.dumpers.dump_files import (
    Ticks,
    make_folder,
    utc_text,
    write_array,
    write_bytes,
    write_json,
    write_parts,
)
from probe_flow.errors import IncompleteError


def test_times_grow_when_the_clock_stands_still_or_goes_back() -> None:
    clock = iter([5_000, 5_000, 3_000, 9_000_000])
    ticks = Ticks(lambda: next(clock))

    assert [ticks.next() for _ in range(4)] == [5, 6, 7, 9000]


def test_time_is_written_in_twenty_digits_of_utc() -> None:
    assert utc_text(0) == "19700101000000000000"


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array(True),
        np.array(3),
        np.zeros((2, 0), np.float16),
        np.array([1 + 2j], np.complex64),
        np.array("BSH"),
        np.asfortranarray(np.arange(6).reshape(2, 3)).T,
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_array_is_read_back_as_it_was(tmp_path: Path, array: Any) -> None:
    name = write_array(tmp_path, "a.npy", array)

    found = np.load(tmp_path / name, allow_pickle=False)
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    assert np.array_equal(found, array)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]


def test_none_becomes_an_object_that_nobody_has_to_unpickle(tmp_path: Path) -> None:
    write_array(tmp_path, "a.npy", np.array(None, dtype=object))

    with pytest.raises(ValueError, match="Object arrays"):
        np.load(tmp_path / "a.npy", allow_pickle=False)


def test_name_that_is_too_long_becomes_a_number_of_the_mapping(tmp_path: Path) -> None:
    names = [f"{'x' * 300}-aten.mm.default.OUTPUT.{i}.20260101000000000001.npy" for i in range(2)]

    assert [write_bytes(tmp_path, name, b"1") for name in names] == ["1.npy", "2.npy"]
    assert (tmp_path / "mapping.csv").read_text(encoding="utf-8").splitlines() == [
        f"1.npy,{names[0]}",
        f"2.npy,{names[1]}",
    ]


def test_full_disk_is_said_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for call in ("replace", "writev"):
        monkeypatch.setattr(os, call, full)

    with pytest.raises(IncompleteError) as raised:
        write_array(tmp_path, "a.npy", np.zeros(4))
    assert raised.value.diagnostic.code == "PF6326"
    assert "free some disk" in (raised.value.diagnostic.help or "")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(IncompleteError):
        write_json(tmp_path / "m.json", {})
    assert list(tmp_path.iterdir()) == []


def test_parts_that_a_system_takes_bit_by_bit_are_written_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(descriptor: int, parts: list[memoryview]) -> int:
        return os.write(descriptor, parts[0][:3])

    parts = [b"head", memoryview(b""), memoryview(bytes(range(100))), *(bytes([number]) for number in range(100))]
    write_parts(tmp_path, "at_once", tuple(parts))
    monkeypatch.setattr(os, "writev", few)
    write_parts(tmp_path, "bit_by_bit", tuple(parts))

    assert (tmp_path / "at_once").read_bytes() == b"".join(parts)
    assert (tmp_path / "bit_by_bit").read_bytes() == b"".join(parts)


def test_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    with pytest.raises(IncompleteError, match="PF6326"):
        make_folder(tmp_path / "file" / "inner")
    with pytest.raises(IncompleteError, match="PF6326"):
        write_bytes(tmp_path / "file", "a", b"")


def test_manifest_is_json(tmp_path: Path) -> None:
    write_json(tmp_path / "m.json", {"a": ["ä"]}, indent=None)

    assert json.loads((tmp_path / "m.json").read_text(encoding="utf-8")) == {"a": ["ä"]}
