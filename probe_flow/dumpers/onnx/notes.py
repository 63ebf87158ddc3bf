"""What the record of a run of an ONNX model means to people. Imports no framework."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from probe_flow.errors import Diagnostic, Severity

_MAX_LISTED = 5


def unseeded_notes(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Yield PF6333 for operators that draw random numbers without a seed of their own."""
    unseeded = record.get("unseeded") or []
    if unseeded:
        shown = ", ".join(f"`{name}`" for name in unseeded[:_MAX_LISTED])
        yield Diagnostic(
            "PF6333",
            f"operators draw random numbers without a `seed` of their own: {shown}",
            severity=Severity.WARNING,
            help="they repeat here, by the seed of the run, and not elsewhere: set their attribute `seed` in the model",
        )
