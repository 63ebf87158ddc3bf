"""Every dtype against bit rules worked out here, ml_dtypes, and the published vectors."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from probe_flow.errors import NotComparableError
from probe_flow.tensors.dtypes import (
    DEVICE_DTYPE_NAMES,
    DEVICE_DTYPES,
    DTYPES,
    DTypeKind,
    decode,
    decode_at,
    dtype_info,
    nbytes,
)

ALL_BYTES = np.arange(256, dtype=np.uint8)
ALL_WORDS = np.arange(65536, dtype="<u2").view(np.uint8)


def hifloat8_value(code: int) -> float | Fraction:
    """HiFloat8 from the text of a bit pattern: prefix, exponent field, mantissa field."""
    if code == 0x00:
        return Fraction(0)
    if code == 0x80:
        return math.nan
    sign = -1 if code >= 0x80 else 1
    text = format(code & 0x7F, "07b")
    if text == "1101111":
        return sign * math.inf
    for prefix, exponent_bits in (("11", 4), ("10", 3), ("01", 2), ("001", 1), ("0001", 0)):
        if text.startswith(prefix):
            field = text[len(prefix) : len(prefix) + exponent_bits]
            mantissa = text[len(prefix) + exponent_bits :]
            exponent = 0
            if field:
                exponent = int("1" + field[1:], 2) * (-1 if field[0] == "1" else 1)
            return sign * Fraction(2) ** exponent * (1 + Fraction(int(mantissa, 2), 2 ** len(mantissa)))
    return sign * Fraction(2) ** (int(text, 2) - 23)


def test_hifloat8_follows_the_bit_rules_for_all_codes() -> None:
    values = decode(ALL_BYTES, "hifloat8", 0, 256)
    assert values.dtype == np.float32
    for code, value in enumerate(values.tolist()):
        expected = hifloat8_value(code)
        if isinstance(expected, float) and math.isnan(expected):
            assert math.isnan(value)
        elif isinstance(expected, float):
            assert value == expected
        else:
            assert Fraction(value) == expected, hex(code)


@pytest.mark.parametrize(
    ("code", "value"),
    [
        (0x08, 1.0), (0x09, 1.125), (0x10, 2.0), (0x18, 0.5), (0x20, 4.0), (0x28, 8.0), (0x6E, 32768.0),
        (0x01, 2.0**-22), (0x07, 2.0**-16), (0xEF, -math.inf), (0x6F, math.inf),
    ],
)  # fmt: skip
def test_hifloat8_vectors(code: int, value: float) -> None:
    assert decode(bytes([code]), "hifloat8", 0, 1)[0] == value


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("float8_e5m2", ml_dtypes.float8_e5m2),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
        ("float8_e8m0", ml_dtypes.float8_e8m0fnu),
        ("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz),
        ("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz),
    ],
)
def test_8_bit_floats_equal_ml_dtypes_for_all_codes(name: str, oracle: type) -> None:
    with np.errstate(invalid="ignore"):
        expected = ALL_BYTES.view(oracle).astype(np.float32)
    values = decode(ALL_BYTES, name, 0, 256)
    np.testing.assert_array_equal(values, expected)
    finite = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(values[finite]), np.signbit(expected[finite]))


def test_8_bit_float_specials_have_the_right_sign() -> None:
    e5m2 = decode(bytes([0x7C, 0xFC, 0x7F, 0x80]), "float8_e5m2", 0, 4)
    assert e5m2[0] == math.inf
    assert e5m2[1] == -math.inf
    assert math.isnan(e5m2[2])
    assert math.copysign(1, e5m2[3]) == -1
    e4m3 = decode(bytes([0x7F, 0xFF, 0x7E]), "float8_e4m3fn", 0, 3)
    assert np.isnan(e4m3[:2]).all()
    assert e4m3[2] == 448


def test_bfloat16_is_the_upper_half_of_float32_for_all_codes() -> None:
    values = decode(ALL_WORDS, "bfloat16", 0, 65536)
    expected = (np.arange(65536, dtype=np.uint32) << 16).view(np.float32)
    assert values.dtype == ml_dtypes.bfloat16
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(values.astype(np.float32), expected)


def test_float16_follows_the_bit_rules_for_all_codes() -> None:
    values = decode(ALL_WORDS, "float16", 0, 65536).tolist()
    for code, value in enumerate(values):
        exponent, mantissa = (code >> 10) & 0x1F, code & 0x3FF
        sign = -1.0 if code >> 15 else 1.0
        if exponent == 31:
            assert math.isnan(value) if mantissa else value == sign * math.inf
        else:
            significand = mantissa + (1024 if exponent else 0)
            assert value == sign * math.ldexp(significand, max(exponent, 1) - 25)


def test_int4_is_low_nibble_first_and_twos_complement() -> None:
    values = decode(bytes([0x80, 0x7F, 0x21]), "int4", 0, 6)
    assert values.dtype == np.int8
    assert values.tolist() == [0, -8, -1, 7, 1, 2]
    assert decode(bytes([0x80, 0x7F, 0x21]), "int4", 1, 3).tolist() == [-8, -1, 7]


def test_uint1_starts_at_the_highest_bit() -> None:
    values = decode(bytes([0b10110000, 0b01000000]), "uint1", 0, 10)
    assert values.tolist() == [1, 0, 1, 1, 0, 0, 0, 0, 0, 1]
    assert decode(bytes([0b10110000, 0b01000000]), "uint1", 2, 2).tolist() == [1, 1]


def test_complex32_pairs_two_float16() -> None:
    raw = struct.pack("<4e", 1.5, -2.0, 0.25, 4.0)
    values = decode(raw, "complex32", 0, 2)
    assert values.dtype == np.complex64
    assert values.tolist() == [1.5 - 2j, 0.25 + 4j]


def test_bool_is_any_nonzero_byte() -> None:
    assert decode(bytes([0, 1, 2, 255]), "bool", 0, 4).tolist() == [False, True, True, True]


STRUCT_CODES = {
    "float64": "d", "float32": "f", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B",
}  # fmt: skip


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("name", STRUCT_CODES)
def test_whole_byte_types_decode_in_both_byte_orders(name: str, big_endian: bool) -> None:
    numbers = [0, 1, 2, 100, 7]
    raw = struct.pack((">" if big_endian else "<") + f"5{STRUCT_CODES[name]}", *numbers)
    values = decode(raw, name, 1, 3, big_endian=big_endian)
    assert values.tolist() == numbers[1:4]
    assert values.dtype.itemsize * 8 == dtype_info(name).bits


@pytest.mark.parametrize(("name", "code"), [("bfloat16", 0x3F80), ("float16", 0x3C00)])
def test_16_bit_floats_decode_in_both_byte_orders(name: str, code: int) -> None:
    assert float(decode(struct.pack("<H", code), name, 0, 1)[0]) == 1.0
    assert float(decode(struct.pack(">H", code), name, 0, 1, big_endian=True)[0]) == 1.0


def test_complex_types_decode_in_big_endian() -> None:
    assert decode(struct.pack(">2e", 1, 2), "complex32", 0, 1, big_endian=True).tolist() == [1 + 2j]
    assert decode(struct.pack(">2d", 1, 2), "complex128", 0, 1, big_endian=True).tolist() == [1 + 2j]


def test_decode_is_a_view_of_the_bytes_even_when_unaligned() -> None:
    buffer = np.zeros(17, dtype=np.uint8)
    raw = buffer[1:]
    for name in ("float32", "bfloat16", "float64", "int16", "complex64"):
        values = decode(raw, name, 0, 16 * 8 // dtype_info(name).bits)
        assert np.shares_memory(values, buffer), name


def test_decode_keeps_read_only_bytes_read_only() -> None:
    assert not decode(bytes(8), "float32", 0, 2).flags.writeable


@pytest.mark.parametrize("name", [name for name, dtype in DTYPES.items() if dtype.decodable])
def test_decode_at_agrees_with_decode_in_any_order(name: str) -> None:
    raw = np.random.default_rng(1).integers(0, 256, 16 * 40, dtype=np.uint8)
    count = raw.size * 8 // dtype_info(name).bits
    order = np.random.default_rng(2).permutation(count)
    at = decode_at(raw, name, order)
    everything = decode(raw, name, 0, count)
    assert at.dtype == everything.dtype
    assert at.tobytes() == everything[order].tobytes()


@pytest.mark.parametrize("name", [name for name, dtype in DTYPES.items() if dtype.decodable])
def test_empty_ranges_decode_to_nothing(name: str) -> None:
    assert decode(b"", name, 0, 0).size == 0
    assert decode_at(b"", name, np.zeros(0, dtype=np.int64)).size == 0


def test_nbytes_rounds_packed_types_up() -> None:
    assert nbytes("uint1", 9) == 2
    assert nbytes("int4", 3) == 2
    assert nbytes("bfloat16", 3) == 6
    assert nbytes("complex128", 0) == 0


@pytest.mark.parametrize(("start", "count"), [(0, 3), (2, 1), (-1, 1), (0, -1)])
def test_a_range_outside_the_bytes_is_refused(start: int, count: int) -> None:
    with pytest.raises(NotComparableError) as caught:
        decode(bytes(9), "float32", start, count)
    assert caught.value.diagnostic.code == "PF5112"


@pytest.mark.parametrize("index", [-1, 2])
def test_an_index_outside_the_bytes_is_refused(index: int) -> None:
    with pytest.raises(NotComparableError) as caught:
        decode_at(bytes(9), "float32", np.array([0, index]))
    assert caught.value.diagnostic.code == "PF5112"


@pytest.mark.parametrize("name", ["string", "int2", "float4_e2m1", "variant", "float99"])
def test_undecodable_and_unknown_dtypes_say_so(name: str) -> None:
    with pytest.raises(NotComparableError) as caught:
        decode(bytes(8), name, 0, 1)
    assert caught.value.diagnostic.code == "PF5111"
    assert name in caught.value.diagnostic.message


def test_nbytes_of_a_type_without_size_is_refused() -> None:
    with pytest.raises(NotComparableError):
        nbytes("string", 1)


def test_every_device_number_has_a_name_in_the_registry() -> None:
    assert set(DEVICE_DTYPES) == set(range(41)) == set(DEVICE_DTYPE_NAMES)
    assert set(DEVICE_DTYPES.values()) <= set(DTYPES)
    assert (DEVICE_DTYPES[1], DEVICE_DTYPE_NAMES[1]) == ("float32", "DT_FLOAT")
    assert [DEVICE_DTYPES[n] for n in (0, 11, 18, 22, 23, 27, 32)] == [
        "int8", "bool", "int8", "uint16", "int64", "bfloat16", "complex32",
    ]  # fmt: skip


def test_kinds() -> None:
    assert dtype_info("uint1").is_integer
    assert not dtype_info("bool").is_integer
    assert dtype_info("variant").kind is DTypeKind.OPAQUE
