"""What the status of an overflow record means, bit by bit, with the bits that no table knows.

Source: the published tables of the device's own tools. A status of a core is a set of bits; those of the two atomic
adders are codes at a fixed place.
"""

from __future__ import annotations

from collections.abc import Iterator

from probe_flow.dumps.device.overflow_records import UnitOverflow

_CORE_BITS = {
    0x8: "sign inversion of the smallest negative number",
    0x10: "overflow of an integer operation",
    0x20: "overflow of a floating-point operation",
    0x80: "a negative input converted to an unsigned type",
    0x100: "overflow of a conversion to float16",
    0x400: "overflow of an accumulation in the cube",
}
_DHA_CODES = {0x9: "overflow", 0xA: "underflow", 0xB: "NaN in the source", 0xC: "NaN in the destination"}
_DHA_CODES[0xD] = "NaN in source and destination"
_L2_CODES = {1: "overflow", 2: "underflow", 3: "NaN in the source", 4: "NaN in the destination"}
_L2_CODES[5] = "NaN in source and destination"
_CORES = frozenset({"AIC", "AIV", "AI Core"})
_CODED = {"DHA Atomic Add": (8, 0xFF, _DHA_CODES), "L2 Atomic Add": (16, 0x7, _L2_CODES)}


def meanings(unit: UnitOverflow) -> tuple[str, ...]:
    """Return what a unit's status says, each bit or code with its number; nothing for a status of zero.

    >>> meanings(UnitOverflow("AI Core", {"status": 0x121}))
    ('0x1 unknown', '0x20 overflow of a floating-point operation', '0x100 overflow of a conversion to float16')
    >>> meanings(UnitOverflow("DHA Atomic Add", {"status": 0x900}))
    ('0x9 overflow',)
    """
    status = unit.fields.get("status", 0)
    words = status if isinstance(status, tuple) else (status,)
    return tuple(dict.fromkeys(meaning for word in words if word for meaning in _of_word(unit.unit, word)))


def _of_word(unit: str, word: int) -> Iterator[str]:
    if unit in _CODED:
        shift, mask, codes = _CODED[unit]
        code, rest = word >> shift & mask, word & ~(mask << shift)
        if code:
            yield f"{code:#x} {codes.get(code, 'unknown')}"
        if rest:
            yield f"{rest:#x} unknown"
        return
    if unit not in _CORES:
        yield f"{word:#x}, of which no table is published"
        return
    for bit in range(word.bit_length()):
        if word >> bit & 1:
            yield f"{1 << bit:#x} {_CORE_BITS.get(1 << bit, 'unknown')}"
