"""The text of a baseline file, whose form `probe_flow.record.baseline_file` describes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Context, Decimal

from probe_flow.record.baseline_file import FORMAT, BaselineFile
from probe_flow.records import Deviant, Phase
from probe_flow.records.baseline import largest

HEAD = "# Written by `probe-flow baseline accept`: runs of this workflow fail only on what is worse than these lines.\n"

_DIGITS = Context(prec=4, rounding=ROUND_CEILING)
"""Figures are rounded up, so that the run that was accepted is never worse than its own baseline."""


def baseline_text(file: BaselineFile) -> str:
    """Return the text of a baseline file: the same deviations give the same bytes."""
    return "".join(_lines(file))


def _lines(file: BaselineFile) -> Iterator[str]:
    yield HEAD
    yield f"format: {FORMAT}\nworkflow: {_quoted(file.workflow)}\nrun: {_quoted(file.run)}\ncomparisons:\n"
    for name, baseline in sorted(file.comparisons.items()):
        yield f"  {_quoted(name)}:\n    gate: {baseline.gate}\n    policy: {_quoted(baseline.policy)}\n"
        counts = ", ".join(f"{_quoted(side)}: {count}" for side, count in baseline.compared.items())
        yield f"    compared: {{{counts}}}\n"
        yield "    nodes:" if baseline.deviants else "    nodes: []"
        yield "\n"
        for deviants in _by_node(baseline.deviants):
            yield f"      - {_line(deviants)}\n"


def _by_node(deviants: Sequence[Deviant]) -> Iterator[list[Deviant]]:
    found: dict[object, list[Deviant]] = {}
    for each in largest(deviants):
        found.setdefault(each.at, []).append(each)
    yield from found.values()


def _line(deviants: Sequence[Deviant]) -> str:
    first = deviants[0]
    parts = []
    if first.node is not None:
        parts.append(f'"node": {_quoted(first.node)}')
    if first.graph is not None:
        parts.append(f'"graph": {first.graph if isinstance(first.graph, int) else _quoted(first.graph)}')
    if first.call:
        parts.append(f'"call": {first.call}')
    if first.phase != (Phase.FORWARD if first.node is not None else Phase.NONE).value:
        parts.append(f'"phase": {_quoted(first.phase)}')
    if first.op_type:
        parts.append(f'"op_type": {_quoted(first.op_type)}')
    for kind in dict.fromkeys(each.kind for each in deviants):
        slots = (f"{_quoted(each.slot)}: {_figure(each.figure)}" for each in deviants if each.kind == kind)
        parts.append(f'"{kind}": {{{", ".join(slots)}}}')
    return f"{{{', '.join(parts)}}}"


def _figure(figure: float | None) -> str:
    if figure is None:
        return "null"
    if not math.isfinite(figure):
        return '"nan"' if math.isnan(figure) else '"inf"'
    return repr(float(_DIGITS.create_decimal(Decimal(figure))))


def _quoted(text: str) -> str:
    """Return a text between double quotes, as YAML and JSON have them; what is not printable as an escape of YAML."""
    return f'"{"".join(map(_escaped, text))}"'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:  # a lone surrogate, for which YAML has no escape
        return f"\\\\u{code:04x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
