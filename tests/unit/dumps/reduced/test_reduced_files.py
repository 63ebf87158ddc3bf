"""Reduced files: names and keys of the published script, our further arrays, and whatever else lies in such a file."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib

import numpy as np
import pytest
from peak_memory import peak_bytes

from probe_flow.dumps.reduced.reduced_files import MAX_TENSORS, ReducedArray, ReducedDevice, ReducedTensor
from probe_flow.dumps.reduced.reduced_names import reduced_name, source_name
from probe_flow.errors import FormatError
from probe_flow.files.arrays import npz

FX = "add_1-aten.add.Tensor.OUTPUT.0.20260101000000000009"
GE = "Add.Add_2.44.6.1706596912161941"
MIN_MAX = ("min", "max")


@pytest.mark.parametrize(
    ("name", "suffix", "expected"),
    [
        (f"{FX}.npy", "_min_max", f"{FX}_min_max.npy"),
        (GE, "_min_max", f"{GE}_min_max.npz"),
        ("1122334455", "_min_max", "1122334455_min_max.npz"),
        ("1122334455.npy", "_small", "1122334455_small.npy"),
    ],
)
def test_names_are_those_of_the_script_and_lead_back(name, suffix, expected):
    assert reduced_name(name, suffix) == expected
    assert source_name(expected, suffix) == name


@pytest.mark.parametrize("name", [f"{FX}.npy", GE, "_min_max.npy", "_min_max.npz", "x_min_max.txt", ""])
def test_other_names_stand_for_nothing(name):
    assert source_name(name) is None


def test_minimum_and_maximum_of_an_array_are_a_plain_vector(tmp_path):
    path = tmp_path / "a_min_max.npy"
    content = ReducedArray(MIN_MAX, ReducedTensor((-1.5, 2.0), "float16", (3,)))
    path.write_bytes(content.to_bytes())
    loaded = np.load(path)
    assert loaded.dtype == np.float64
    assert loaded.tolist() == [-1.5, 2.0]
    assert ReducedArray.read(path) == ReducedArray(MIN_MAX, ReducedTensor((-1.5, 2.0)))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_other_statistics_of_an_array_are_a_record_that_names_them(tmp_path, shape):
    path = tmp_path / "a_min_max.npy"
    content = ReducedArray(("mean", "crc32"), ReducedTensor((0.25, 4294967295.0), "bfloat16", shape))
    path.write_bytes(content.to_bytes())
    assert ReducedArray.read(path) == content
    loaded = np.load(path)
    assert loaded["mean"] == 0.25
    assert loaded["crc32"] == 4294967295


def test_a_device_file_keeps_the_keys_of_the_script(tmp_path):
    path = tmp_path / "a_min_max.npz"
    content = ReducedDevice(
        MIN_MAX,
        (ReducedTensor((-1.0, 1.0), "float16", (2, 3)), ReducedTensor((math.inf, math.inf), "int64", ())),
        (ReducedTensor((0.0, 5.0), "bool", None),),
        "layer/Add_2",
        "Add",
        1706596912161941,
    )
    path.write_bytes(content.to_bytes())
    with np.load(path) as loaded:
        assert loaded["inputs"].dtype == loaded["outputs"].dtype == np.float64
        assert loaded["inputs"].tolist() == [[-1.0, 1.0], [math.inf, math.inf]]
        assert loaded["outputs"].tolist() == [[0.0, 5.0]]
        assert loaded["in_dtypes"].tolist() == ["float16", "int64"]
        assert loaded["in_shapes"].tolist() == ["2,3", ""]
        assert loaded["stat_names"].tolist() == ["min", "max"]
        assert str(loaded["op_name"]) == "layer/Add_2"
        assert int(loaded["timestamp"]) == 1706596912161941
    assert ReducedDevice.read(path) == content
    assert content.to_bytes() == path.read_bytes()


def test_a_device_file_without_tensors_reads_back(tmp_path):
    path = tmp_path / "a_min_max.npz"
    path.write_bytes(ReducedDevice(("crc32",), (), ()).to_bytes())
    assert ReducedDevice.read(path) == ReducedDevice(("crc32",), (), ())


def test_what_the_script_writes_is_read(tmp_path):
    np.savez(tmp_path / "a_min_max.npz", inputs=[[np.float16(-2.5), np.float16(3)]], outputs=[])
    np.save(tmp_path / "b_min_max.npy", [np.float32(-1), np.float32(1)])
    np.save(tmp_path / "c_min_max.npy", [np.bool_(False), np.bool_(True)])
    assert ReducedDevice.read(tmp_path / "a_min_max.npz") == ReducedDevice(MIN_MAX, (ReducedTensor((-2.5, 3.0)),), ())
    assert ReducedArray.read(tmp_path / "b_min_max.npy").tensor.figures == (-1.0, 1.0)
    assert ReducedArray.read(tmp_path / "c_min_max.npy").tensor.figures == (0.0, 1.0)


def test_every_file_of_the_public_example_is_read(torchair_case):
    root = torchair_case("minmax")
    devices = [ReducedDevice.read(path) for path in root.rglob("*_min_max.npz")]
    arrays = [ReducedArray.read(path) for path in root.rglob("*_min_max.npy")]
    assert len(devices) > 50
    assert len(arrays) > 200
    assert all(device.names == MIN_MAX and device.outputs for device in devices)


def member(**arrays):
    return npz.joined([npz.member(key, npz.npy_bytes(np.asarray(value))) for key, value in arrays.items()])


def bomb():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inputs.npy", bytes(20 * 2**20))
    return stream.getvalue()


def claimed(shape):
    return npz.npy_bytes(np.zeros(2)).replace(b"(2,)", shape)


DEVICES = {
    "empty": b"",
    "text": b"hello",
    "cut off": member(inputs=np.zeros((1, 2)), outputs=np.zeros((1, 2)))[:200],
    "one side only": member(inputs=np.zeros((1, 2))),
    "three columns": member(inputs=np.zeros((1, 3)), outputs=np.zeros((1, 2))),
    "texts": member(inputs=[["a", "b"]], outputs=np.zeros((1, 2))),
    "complex": member(inputs=np.zeros((1, 2), complex), outputs=np.zeros((1, 2))),
    "too few dtypes": member(inputs=np.zeros((2, 2)), outputs=np.zeros((1, 2)), in_dtypes=["float16"]),
    "odd shape": member(inputs=np.zeros((1, 2)), outputs=np.zeros((1, 2)), in_shapes=["2,x"]),
    "odd time": member(inputs=np.zeros((1, 2)), outputs=np.zeros((1, 2)), timestamp=["x"]),
    "packed zeros": bomb(),
}
ARRAYS = {
    "empty": b"",
    "text": b"hello",
    "one number": npz.npy_bytes(np.zeros(1)),
    "a tensor": npz.npy_bytes(np.zeros((2, 2))),
    "two records": npz.npy_bytes(np.zeros(2, [("min", "f8")])),
    "text in a record": npz.npy_bytes(np.array([("x",)], [("min", "U1")])),
    "cut off": npz.npy_bytes(np.zeros(2))[:-1],
    "surplus": npz.npy_bytes(np.zeros(2)) + b"x",
    "absurd shape": claimed(b"(9999999999999999,)"),
    "negative shape": claimed(b"(-2,)"),
}


@pytest.mark.parametrize("content", DEVICES.values(), ids=DEVICES)
def test_another_archive_is_refused_with_its_name(tmp_path, content):
    path = tmp_path / f"{GE}_min_max.npz"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="is named like a reduced file and is none") as caught:
        ReducedDevice.read(path)
    assert caught.value.diagnostic.code == "PF3230"
    assert caught.value.diagnostic.path == str(path)


@pytest.mark.parametrize("content", ARRAYS.values(), ids=ARRAYS)
def test_another_array_is_refused_with_its_name(tmp_path, content):
    path = tmp_path / f"{FX}_min_max.npy"
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        ReducedArray.read(path)
    assert caught.value.diagnostic.code == "PF3230"


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("comment", [b"", b"written by a script"])
def test_archives_of_other_writers_are_read(tmp_path, save, comment):
    path = tmp_path / f"{GE}_min_max.npz"
    save(path, inputs=[[1.0, 2.0], [-3.0, 4.0]], outputs=[[0.0, 0.5]])
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = comment
    found = ReducedDevice.read(path)
    assert [tensor.figures for tensor in found.inputs] == [(1.0, 2.0), (-3.0, 4.0)]
    assert [tensor.figures for tensor in found.outputs] == [(0.0, 0.5)]


def test_a_member_whose_bytes_changed_is_refused(tmp_path):
    path = tmp_path / f"{GE}_min_max.npz"
    content = ReducedDevice(MIN_MAX, (ReducedTensor((1.5, 2.0)),), ()).to_bytes()
    path.write_bytes(content.replace(np.float64(1.5).tobytes(), np.float64(2.5).tobytes()))
    with pytest.raises(FormatError, match=r"`inputs\.npy` is damaged"):
        ReducedDevice.read(path)


def test_archives_of_one_layout_are_told_apart_by_their_contents_and_names(tmp_path):
    path = tmp_path / f"{GE}_min_max.npz"
    first = member(inputs=[[1.0, 2.0]], outputs=[[3.0, 4.0]])
    for content, inputs in ((first, (1.0, 2.0)), (member(inputs=[[5.0, 6.0]], outputs=[[3.0, 4.0]]), (5.0, 6.0))):
        path.write_bytes(content)
        assert ReducedDevice.read(path).inputs[0].figures == inputs
    for damaged in (first.replace(b"inputs", b"imputs"), first.replace(np.float64(1).tobytes(), bytes(8)), first[1:]):
        path.write_bytes(damaged)
        assert outcome(ReducedDevice.read, path) == "PF3230"


@pytest.mark.parametrize("before", [b"", b"#!/bin/sh"])
def test_bytes_before_the_members_are_passed_over_in_every_archive_that_has_them(tmp_path, before):
    path = tmp_path / f"{GE}_min_max.npz"
    for value in (1.5, 2.5, 3.5):
        path.write_bytes(before)
        with zipfile.ZipFile(path, "a") as archive:
            for key, rows in (("inputs", [[value, 2.0]]), ("outputs", [[-value, 0.5]])):
                archive.writestr(zipfile.ZipInfo(f"{key}.npy"), npz.npy_bytes(np.array(rows)))
        found = ReducedDevice.read(path)
        assert (found.inputs[0].figures, found.outputs[0].figures) == ((value, 2.0), (-value, 0.5))


def test_objects_are_not_unpickled(tmp_path):
    path = tmp_path / "a_min_max.npy"
    np.save(path, np.array([None, 1], object), allow_pickle=True)
    with pytest.raises(FormatError, match="Python objects"):
        ReducedArray.read(path)


def test_a_large_file_is_not_read(tmp_path):
    path = tmp_path / "a_min_max.npz"
    with path.open("wb") as file:
        file.truncate(2**30)
    with pytest.raises(FormatError, match="at most"):
        ReducedDevice.read(path)


MIB = 2**20
NO_ROWS = npz.npy_bytes(np.zeros((0, 2)))


def one_content(path, names, content):
    """Write an archive whose directory gives one deflated member many times, from the format's description."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packer.compress(content) + packer.flush()
    facts = (20, 0, zipfile.ZIP_DEFLATED, 0, 33, zlib.crc32(content), len(packed), len(content))
    stored = struct.pack("<4s5H3L2H", b"PK\x03\x04", *facts, 1, 0) + b"x" + packed
    entries = (
        struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 20, *facts, len(name), 0, 0, 0, 0, 0, 0) + name for name in names
    )
    listed = b"".join(entries)
    count = len(names)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(listed), len(stored), 0)
    path.write_bytes(stored + listed + end)


def deflated(path, arrays):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, content in arrays.items():
            archive.writestr(f"{key}.npy", content)


def lengthen(path):
    """Let the one entry of a directory say that its member takes three bytes more."""
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\x01\x02") + 20
    struct.pack_into("<L", content, at, struct.unpack_from("<L", content, at)[0] + 3)
    path.write_bytes(content)


def claim(path, size, instead):
    path.write_bytes(path.read_bytes().replace(struct.pack("<L", size), struct.pack("<L", instead)))


BOMBS = {
    "one member under many names": (
        lambda path: one_content(path, [b"k%d" % i for i in range(30)], bytes(15 * MIB)),
        "shares bytes with its member",
    ),
    "one name many times": (
        lambda path: one_content(path, [b"inputs.npy"] * 65_535, bytes(MIB)),
        "lists 65535 members, at most 1024 are read",
    ),
    "one name twice": (
        lambda path: one_content(path, [b"inputs.npy", b"inputs"], b"x"),
        "lists `inputs` twice",
    ),
    "a member over the directory": (
        lambda path: (one_content(path, [b"inputs"], bytes(9)), lengthen(path)),
        "`inputs` shares bytes with its directory",
    ),
    "members that are much together": (
        lambda path: deflated(path, {f"k{i}": bytes(3 * MIB) for i in range(10)}),
        "claim 31457280 bytes, at most 16777216 are read",
    ),
    "more than announced": (
        lambda path: (deflated(path, {"inputs": bytes(200 * MIB)}), claim(path, 200 * MIB, 10)),
        "is damaged",
    ),
    "tensors of one byte": (
        lambda path: deflated(path, {"inputs": npz.npy_bytes(np.zeros((7 * MIB, 2), np.bool_))}),
        "are too many",
    ),
    "text of a million parts": (
        lambda path: deflated(
            path,
            {"inputs": NO_ROWS, "outputs": NO_ROWS, "op_name": npz.npy_bytes(np.zeros(15 * MIB, "S1"))},
        ),
        "15728640 texts stand where 1 should",
    ),
}


READING = """
import re
from probe_flow.errors import FormatError
from probe_flow.dumps.reduced.reduced_files import (ReducedDevice)
"""
READ = """
try:
    ReducedDevice.read(sys.argv[1])
except FormatError as error:
    message = error.diagnostic.message
assert re.search(sys.argv[2], message), message
"""


@pytest.mark.parametrize(("write", "why"), BOMBS.values(), ids=BOMBS)
def test_an_archive_that_unpacks_to_much_is_refused_in_little_memory(tmp_path, write, why):
    path = tmp_path / f"{GE}_min_max.npz"
    write(path)
    assert path.stat().st_size < 4 * MIB
    assert peak_bytes(READING, READ, path, why) < 100 * MIB


def test_as_many_tensors_as_are_read_fit_into_memory(tmp_path):
    path = tmp_path / f"{GE}_min_max.npz"
    figures, names = np.zeros((MAX_TENSORS, 20), np.int8), np.array([f"s{i}" for i in range(20)])
    np.savez_compressed(path, inputs=figures, outputs=figures[:0], stat_names=names)
    work = "assert len(ReducedDevice.read(sys.argv[1]).inputs) == int(sys.argv[2])"
    assert peak_bytes(READING, work, path, MAX_TENSORS) < 200 * MIB


def test_random_damage_is_an_error_of_this_file_and_no_other(tmp_path):
    rng = np.random.default_rng(7)
    device = ReducedDevice(MIN_MAX, (ReducedTensor((1.0, 2.0), "float32", (4,)),), ()).to_bytes()
    array = ReducedArray(("mean",), ReducedTensor((1.0,), "float32", (4,))).to_bytes()
    path = tmp_path / "a_min_max.npz"
    for content, read in ((device, ReducedDevice.read), (array, ReducedArray.read)):
        for _ in range(300):
            damaged = bytearray(content)
            for place in rng.integers(0, len(damaged), 3):
                damaged[place] = rng.integers(0, 256)
            path.write_bytes(damaged[: rng.integers(1, len(damaged) + 1)])
            assert outcome(read, path) in ("read", "PF3230")


def outcome(read, path):
    try:
        read(path)
    except FormatError as error:
        return error.diagnostic.code
    return "read"


def test_brackets_that_nest_deep_are_refused(tmp_path):
    path = tmp_path / "a_min_max.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + (20_000).to_bytes(2, "little") + b"(" * 10_000 + b")" * 10_000)
    assert outcome(ReducedArray.read, path) == "PF3230"


@pytest.mark.parametrize(
    "array",
    [np.arange(3), np.float32(2.5), np.zeros((2, 0)), np.array(["a", "bc"]), np.zeros((), [("x", "f8"), ("y", "U3")])],
    ids=str,
)
def test_numpy_reads_what_the_writer_writes(tmp_path, array):
    array = np.asarray(array)
    path = tmp_path / "a.npz"
    path.write_bytes(member(x=array, y=np.arange(2)))
    with np.load(path, allow_pickle=False) as loaded:
        assert loaded["x"].dtype == array.dtype
        assert loaded["x"].shape == array.shape
        assert loaded["x"].tobytes() == array.tobytes()
        assert loaded["y"].tolist() == [0, 1]
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
