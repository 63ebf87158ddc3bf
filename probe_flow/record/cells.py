"""Cells of spreadsheet files: text that no spreadsheet program runs as a formula, and numbers as text."""

from __future__ import annotations

import math
import re

_FORMULA_STARTS = ("=", "+", "-", "@", "%", "\t", "\n")
"""First characters that make a spreadsheet program evaluate a cell (a tab or line end is skipped, then evaluated)."""

_WIDE_FORMULA_STARTS = ("\uff1d", "\uff0b", "\uff0d", "\uff20", "\uff05")
"""The full-width forms of the same signs, which some programs fold to the plain ones."""

_AFTER_A_SEMICOLON = re.compile(f";[{re.escape(''.join(_FORMULA_STARTS + _WIDE_FORMULA_STARTS))}]")
"""A formula that begins a cell where semicolons part them, as in half of Europe."""


def text_cell(text: str) -> str:
    r"""Return `text` as a cell that is shown and never evaluated.

    Text that begins like a formula, behind any blanks, or holds one behind a semicolon gets an apostrophe in front. A
    carriage return, which CSV writers leave bare and readers take for the end of the row, becomes ``\r``; NUL, where
    readers stop, ``\x00``.
    Numbers go through `number_cell` instead and keep their minus sign.
    """
    if text[:1].isalnum() and "\r" not in text and "\0" not in text and ";" not in text:  # most texts
        return text
    if "\r" in text or "\0" in text:
        text = text.replace("\r", "\\r").replace("\0", "\\x00")
    is_formula = text.startswith(_FORMULA_STARTS) or text.lstrip().startswith(_FORMULA_STARTS + _WIDE_FORMULA_STARTS)
    if is_formula or _AFTER_A_SEMICOLON.search(text):
        return "'" + text
    return text


def number_cell(value: float | None, *, blank: str = "", nan: str = "nan") -> str:
    """Return a number as text: ``nan``, ``inf``, ``-inf``, integers exactly, floats as the shortest exact text.

    Args:
        value: the number, a truth value included (``True``); None = not computable.
        blank: text of None.
        nan: text of NaN.
    """
    if value is None:
        return blank
    if isinstance(value, (bool, int)):
        return str(value)
    return nan if math.isnan(value) else repr(float(value))
