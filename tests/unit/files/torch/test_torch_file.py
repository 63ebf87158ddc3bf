"""Torch files read without torch: plain tensors, views, what is left to torch, what is refused, what is damaged."""

from __future__ import annotations

import math
import pickle
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_writer import HOOKS, ITEM_BYTES, STORAGES, Zip, call, mark, named, number, pickled, text, torch_file

from probe_flow.elements.blocks import SMALL_BYTES, open_tensor
from probe_flow.errors import FormatError
from probe_flow.files.torch.torch_file import LEGACY_NUMBER, TorchHeader, read_torch_header
from probe_flow.records import Execution, Extent, NodeKey, Slot, SlotRole, TensorKind, TensorRef

NUMPY = {"bfloat16": ml_dtypes.bfloat16}
NUMPY |= {f"float8_{form}": getattr(ml_dtypes, f"float8_{form}") for form in ("e4m3fn", "e5m2")}
NUMPY |= {f"float8_{form}": getattr(ml_dtypes, f"float8_{form}") for form in ("e4m3fnuz", "e5m2fnuz")}
NUMPY |= {"float8_e8m0fnu": ml_dtypes.float8_e8m0fnu}


def header_of(tmp_path: Path, content: bytes) -> TorchHeader:
    path = tmp_path / "x.pt"
    path.write_bytes(content)
    return read_torch_header(path)


def refusal(tmp_path: Path, content: bytes) -> tuple[str, str]:
    with pytest.raises(FormatError) as caught:
        header_of(tmp_path, content)
    return caught.value.diagnostic.code, caught.value.diagnostic.message


def values_of(tmp_path: Path, header: TorchHeader) -> Any:
    assert header.dtype is not None
    assert header.shape is not None
    key, slot = NodeKey(Execution(), "n"), Slot(SlotRole.INPUT)
    extent = Extent(str(tmp_path / "x.pt"), header.offset, header.nbytes, header.encoding)
    kind, dtype, shape = TensorKind.TENSOR, header.dtype, header.shape
    ref = TensorRef.of(key, slot, kind, dtype, dtype, shape, shape, extents=(extent,))
    with open_tensor(ref) as blocks:
        return blocks.read(0, blocks.numel).reshape(shape)


# --- plain tensors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*STORAGES, "uint16", *NUMPY])
def test_every_dtype_is_read_where_it_lies(tmp_path: Path, dtype: str) -> None:
    data = np.array([[0, 1, 0], [1, 1, 0]]).astype(NUMPY.get(dtype, dtype))
    header = header_of(tmp_path, torch_file(call(dtype, (2, 3)), data.tobytes()))

    assert (header.dtype, header.shape) == ({"float8_e8m0fnu": "float8_e8m0"}.get(dtype, dtype), (2, 3))
    assert (header.encoding, header.nbytes) == ("raw", data.nbytes)
    wide = np.complex128 if dtype.startswith("complex") else np.float64
    np.testing.assert_array_equal(values_of(tmp_path, header).astype(wide), data.astype(wide))


@pytest.mark.parametrize(
    ("shape", "strides", "count"), [((), (), 1), ((0, 4), (7, 7), 0), ((1, 3, 1), (9, 1, 7), 3), ((1,), (5,), 1)]
)
def test_scalars_empty_tensors_and_axes_of_one_are_plain(
    tmp_path: Path, shape: tuple[int, ...], strides: tuple[int, ...], count: int
) -> None:
    data = np.arange(count, dtype="f4")
    header = header_of(tmp_path, torch_file(call("float32", shape, strides=strides), data.tobytes()))

    assert (header.shape, header.nbytes, header.encoding) == (shape, 4 * count, "raw")
    np.testing.assert_array_equal(values_of(tmp_path, header), data.reshape(shape))


def test_a_parameter_is_its_tensor(tmp_path: Path) -> None:
    opcodes = named("torch._utils", "_rebuild_parameter") + mark(call("float32", (2,)), b"\x88", HOOKS) + b"R"

    assert header_of(tmp_path, torch_file(opcodes, b"\0" * 8)).shape == (2,)


def test_a_view_begins_within_its_storage(tmp_path: Path) -> None:
    data = np.arange(12, dtype="f4")
    header = header_of(tmp_path, torch_file(call("float32", (3,), offset=4, count=12), data.tobytes()))

    np.testing.assert_array_equal(values_of(tmp_path, header), [4, 5, 6])


@pytest.mark.parametrize(
    ("shape", "strides", "encoding"),
    [((3, 4), (1, 3), "raw-strided:1,3"), ((3, 2), (4, 1), "raw-strided:4,1"), ((4, 3), (0, 1), "raw-strided:0,1")],
)
def test_transposed_sliced_and_expanded_tensors_are_gathered(
    tmp_path: Path, shape: tuple[int, int], strides: tuple[int, int], encoding: str
) -> None:
    data = np.arange(12, dtype="f4")
    header = header_of(tmp_path, torch_file(call("float32", shape, strides=strides, count=12), data.tobytes()))
    expected = np.lib.stride_tricks.as_strided(data, shape, [4 * stride for stride in strides])

    assert header.encoding == encoding
    np.testing.assert_array_equal(values_of(tmp_path, header), expected)


def test_large_transposed_tensors_are_gathered(tmp_path: Path) -> None:
    shape = (SMALL_BYTES // 1024, 300)
    data = np.random.default_rng(1).normal(size=shape[::-1]).astype("f4")
    header = header_of(tmp_path, torch_file(call("float32", shape, strides=(1, shape[0])), data.tobytes()))

    np.testing.assert_array_equal(values_of(tmp_path, header), data.T)


def test_big_endian_files_are_swapped(tmp_path: Path) -> None:
    data = np.arange(4, dtype=">f4")
    header = header_of(tmp_path, torch_file(call("float32", (4,)), data.tobytes(), order=b"big"))

    assert header.encoding == "raw-big"
    np.testing.assert_array_equal(values_of(tmp_path, header), data)


def test_64_bit_archives_and_pickles_of_other_protocols_are_read(tmp_path: Path) -> None:
    data = np.arange(6, dtype="f8")
    plain = torch_file(call("float64", (6,)), data.tobytes(), wide=True)
    np.testing.assert_array_equal(values_of(tmp_path, header_of(tmp_path, plain)), data)

    short = [bytes([0x8C, len(word)]) + word.encode() for word in ("torch._utils", "_rebuild_tensor_v2")]
    opcodes = call("float64", (6,)).replace(named("torch._utils", "_rebuild_tensor_v2"), b"".join(short) + b"\x93\x94")
    framed = b"\x80\x04\x95" + struct.pack("<Q", len(opcodes) + 1) + opcodes + b"."
    archive = Zip()
    archive.add("y/data.pkl", framed)
    archive.add("y/data/0", data.tobytes())
    np.testing.assert_array_equal(values_of(tmp_path, header_of(tmp_path, archive.end())), data)


# --- left to torch ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opcodes", "why"),
    [
        (named("torch._utils", "_rebuild_sparse_tensor") + b")R", "`sparse_tensor` is no plain layout"),
        (named("torch._utils", "_rebuild_qtensor") + b")R", "`qtensor` is no plain layout"),
        (call("complex64", (1,), more=[b"}" + text("conj") + b"\x88s"]), "metadata"),
        (call("quint4x2", (1,)), "no plain numbers"),
    ],
)
def test_what_is_no_plain_tensor_is_left_to_torch(tmp_path: Path, opcodes: bytes, why: str) -> None:
    header = header_of(tmp_path, torch_file(opcodes, b"\0" * 8))

    assert (header.encoding, header.dtype, header.shape) == ("torch", None, None)
    assert why in str(header.reason)


def test_packed_members_are_left_to_torch(tmp_path: Path) -> None:
    archive = Zip()
    archive.add("x/data.pkl", pickled(call("float32", (50,))))
    archive.add("x/data/0", b"\0" * 200, packed=zlib.compress(b"\0" * 200)[2:-4])

    assert header_of(tmp_path, archive.end()).reason == "its members are packed"


def legacy(opcodes: bytes) -> bytes:
    return b"".join(
        map(pickled, (number(LEGACY_NUMBER), number(1001), b"}" + text("little_endian") + b"\x88s", opcodes))
    )


def test_the_format_before_version_1_6_is_left_to_torch(tmp_path: Path) -> None:
    assert "before version 1.6" in str(header_of(tmp_path, legacy(call("float32", (2,))) + b"rest").reason)


# --- refused ---------------------------------------------------------------------------------------------------------


class Attack:
    def __reduce__(self) -> Any:
        import os

        return os.system, ("touch attacked",)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickle_that_would_run_a_command_is_refused(tmp_path: Path, protocol: int) -> None:
    code, message = refusal(tmp_path, pickle.dumps(Attack(), protocol=protocol))

    assert code == "PF3423"
    assert "system" in message


@pytest.mark.parametrize(
    "opcodes",
    [
        named("os", "system") + mark(text("id")) + b"R",
        named("builtins", "eval") + mark(text("1")) + b"R",
        named("torch", "load") + b")R",
        named("torch._utils", "__builtins__") + b")R",
        named("torch._utils.os", "system") + b")R",
        call("float32", (1,)) + b"0" + named("posix", "system"),
    ],
)
@pytest.mark.parametrize("wrap", [torch_file, legacy])
def test_names_that_no_tensor_needs_are_refused_in_every_format(tmp_path: Path, opcodes: bytes, wrap: Any) -> None:
    assert refusal(tmp_path, wrap(opcodes))[0] in ("PF3423", "PF3421")


def test_a_call_hidden_behind_a_tensor_is_refused(tmp_path: Path) -> None:
    hidden = named("os", "system") + mark(text("id")) + b"R"

    assert refusal(tmp_path, torch_file(call("float32", (1,), more=[hidden]), b"\0" * 4))[0] == "PF3423"


@pytest.mark.parametrize(
    ("opcodes", "found"),
    [
        (b"}" + text("weight") + call("float32", (1,)) + b"s", "a dict"),
        (b"]" + b"(" + call("float32", (1,)) + call("float32", (1,)) + b"e", "a list"),
        (number(3), "a int"),
        (b"N", "no value"),
        (text("hello"), "a str"),
        (named("torch", "float32"), "the name `torch.float32`"),
        (HOOKS[:-2] + b")R", "the result of `collections.OrderedDict`"),
        (named("torch._utils", "_rebuild_meta_tensor_no_storage") + b")R", "device `meta`"),
        (call("float32", (2**20, 2**20), strides=(0, 0), count=1), "1 elements that stand for"),
    ],
)
def test_what_is_no_tensor_is_named(tmp_path: Path, opcodes: bytes, found: str) -> None:
    code, message = refusal(tmp_path, torch_file(opcodes, b"\0" * 4))

    assert code == "PF3422"
    assert found in message


def test_a_checkpoint_is_too_large_to_be_a_tensor(tmp_path: Path) -> None:
    opcodes = b"](" + text("x" * 1000) * 300 + b"e"

    assert "takes 301" in refusal(tmp_path, torch_file(opcodes))[1]


# --- damaged ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "it is empty"),
        (b"hello", "does not begin like one"),
        (b"PK\3\4", "its end is missing"),
        (Zip().end(), "does not begin like one"),
        (torch_file(call("float32", (3,)), None), "(`x/data/0`) are missing"),
        (torch_file(call("float32", (3,)), b"\0" * 8), "needs 12 bytes, 8 are there"),
        (torch_file(call("float32", (3,), offset=1), b"\0" * 12), "needs 16 bytes, 12 are there"),
        (torch_file(call("float32", (3,), strides=(2**40,), count=3), b"\0" * 12), "are there"),
        (torch_file(call("float32", (2**62, 2**62), strides=(1, 1), count=1), b""), "the shape is no size"),
        (torch_file(call("float32", (3,), strides=(1, 1)), b"\0" * 12), "no counts"),
        (torch_file(call("float32", (-3,), count=3), b"\0" * 12), "no counts"),
        (torch_file(named("torch._utils", "_rebuild_tensor_v2") + b")R"), "malformed"),
        (torch_file(b""), "does not end with one value"),
        (torch_file(b"R"), "a value that is not there"),
        (torch_file(b"t"), "a mark that is not there"),
        (torch_file(b"h\7"), "never kept"),
        (torch_file(b"\xff"), "cannot be read: at position 2, opcode"),
        (torch_file(b"X\xff\xff\xff\xff"), "but only 1 remain"),
        (torch_file(b"K\1Na"), "appends to what is no list"),
        (torch_file(b"K\1NNs"), "sets items of what is no dict"),
        (torch_file(b"K\1)R"), "calls what is no function"),
        (torch_file(b"K\1K\2\x93"), "names what is no text"),
        (torch_file(b"X\1\0\0\0\xff"), "can't decode byte"),
    ],
)
def test_damaged_files_say_what_is_wrong(tmp_path: Path, content: bytes, what: str) -> None:
    code, message = refusal(tmp_path, content)

    assert code == "PF3421"
    assert what in message


def test_an_archive_that_lists_a_member_twice_or_two_descriptions_is_damaged(tmp_path: Path) -> None:
    twice, two = Zip(), Zip()
    for archive, names in ((twice, ("x/data.pkl", "x/data.pkl")), (two, ("x/data.pkl", "y/data.pkl"))):
        for name in names:
            archive.add(name, pickled(b"N"))

    assert "lists `x/data.pkl` twice" in refusal(tmp_path, twice.end())[1]
    assert "2 `data.pkl`" in refusal(tmp_path, two.end())[1]


def outcome(path: Path) -> TorchHeader | str:
    """Read a file; anything but a header or a diagnosis is a failure of the test."""
    try:
        header = read_torch_header(path)
    except FormatError as error:
        return error.diagnostic.code
    if header.encoding != "torch":
        assert 0 <= header.offset <= header.offset + header.nbytes <= path.stat().st_size
    return header


@pytest.mark.parametrize("wide", [False, True])
def test_a_file_cut_off_at_any_byte_is_diagnosed(tmp_path: Path, wide: bool) -> None:
    whole = torch_file(call("float32", (2, 3)), bytes(24), wide=wide)
    path = tmp_path / "x.pt"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert outcome(path) == "PF3421", length


def test_a_legacy_file_cut_off_at_any_byte_is_diagnosed(tmp_path: Path) -> None:
    whole = legacy(call("float32", (2, 3)))
    path = tmp_path / "x.pt"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert outcome(path) == "PF3421", length


def test_files_with_changed_bytes_give_a_header_or_a_diagnosis(tmp_path: Path) -> None:
    whole = torch_file(call("float32", (2, 3)), bytes(24))
    path = tmp_path / "x.pt"
    chance = random.Random(7)
    for _ in range(1500):
        changed = bytearray(whole)
        for _ in range(chance.choice((1, 1, 2, 8))):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        path.write_bytes(changed)
        assert isinstance(outcome(path), TorchHeader | str)


@settings(max_examples=150, deadline=None)
@given(opcodes=st.binary(max_size=60))
def test_any_opcodes_give_a_header_or_a_diagnosis(tmp_path_factory: pytest.TempPathFactory, opcodes: bytes) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "x.pt"
    for content in (torch_file(opcodes, b"\0" * 16), b"\x80" + opcodes):
        path.write_bytes(content)
        assert isinstance(outcome(path), TorchHeader | str)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.lists(st.integers(0, 5), max_size=4),
    dtype=st.sampled_from(["float32", "int64", "bool", "bfloat16", "uint16"]),
    order=st.randoms(use_true_random=False),
)
def test_any_permutation_of_axes_gives_the_values_of_the_view(
    tmp_path_factory: pytest.TempPathFactory, shape: list[int], dtype: str, order: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("views")
    item = ITEM_BYTES.get(dtype, 1)
    base = np.arange(math.prod(shape)).reshape(shape).astype(NUMPY.get(dtype, dtype))
    axes = list(range(len(shape)))
    order.shuffle(axes)
    view = base.transpose(axes)
    strides = [stride // item for stride in view.strides]
    header = header_of(folder, torch_file(call(dtype, view.shape, strides=strides), base.tobytes()))

    np.testing.assert_array_equal(values_of(folder, header), view)
