"""What the record of a finished training step means to the user. Imports no TensorFlow: the plan reads this too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from probe_flow.errors import Diagnostic, Severity

_MAX_LISTED = 5


def training_notes(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Yield PF6343 for random numbers in a step, PF6345 and PF6346 for checkpoints that are not the same weights."""
    draws = record.get("draws") or []
    if draws:
        yield _drawing(draws, record.get("layers") or [])
    device = record.get("device_checkpoint") or {}
    different, missing = device.get("different") or [], device.get("missing") or []
    if different or missing:
        yield _other_weights(str(device.get("prefix")), different, missing, record.get("checkpoint") or {})
    lacking = record.get("not_restored") or []
    if lacking:
        yield _not_restored(Path(str(record.get("start"))).name, lacking)


def _drawing(draws: Sequence[Mapping[str, str]], layers: Sequence[str]) -> Diagnostic:
    counts = Counter(each["what"] for each in draws)
    shown = ", ".join(f"{count} for {what}" for what, count in counts.items() if what != "random numbers")
    what = "1 operator of the step draws" if len(draws) == 1 else f"{len(draws)} operators of the step draw"
    notes = [f"layer `{layer}`" for layer in layers]
    notes += [f"`{each['name']}` ({each['op_type']})" for each in draws]
    return Diagnostic(
        "PF6343",
        f"{what} random numbers" + (f": {shown}" if shown else ""),
        severity=Severity.WARNING,
        help="the device draws others, so that all behind them differs: set the rate of dropout to 0, and switch "
        "shuffling and random crops off, on both sides",
        notes=tuple(notes[: 2 * _MAX_LISTED]),
    )


def _other_weights(prefix: str, different: Sequence[str], missing: Sequence[str], own: Mapping[str, Any]) -> Diagnostic:
    count = len(own.get("variables") or {})
    parts = [f"{len(different)} of {count} variables have other values"] if different else []
    parts += [f"{len(missing)} of {count} variables are not in it"] if missing else []
    return Diagnostic(
        "PF6345",
        f"the checkpoint of the device `{Path(prefix).name}` holds other weights than the step began with: "
        + ", ".join(parts),
        severity=Severity.WARNING,
        help="start both sides from one checkpoint: `checkpoint:` restores it here before the step",
        notes=tuple(f"`{name}`" for name in [*different, *missing][:_MAX_LISTED]),
        path=prefix,
    )


def _not_restored(name: str, lacking: Sequence[str]) -> Diagnostic:
    shown = ", ".join(f"`{each}`" for each in lacking[:_MAX_LISTED]) + (" ..." if len(lacking) > _MAX_LISTED else "")
    return Diagnostic(
        "PF6346",
        f"the checkpoint `{name}` lacks {len(lacking)} variables of the model, which keep their initial values: "
        f"{shown}",
        severity=Severity.WARNING,
        help="the device begins with other values there unless they are constants, such as zeros of an optimizer",
    )
