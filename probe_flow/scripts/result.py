"""What a stage that writes scripts returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct


class Scripts(Struct, frozen=True):
    """Scripts that a stage wrote.

    Args:
        files: they, what lies beside them, and what they found.
        found: what each found, as fields of the run's record; none of those that were not tried.
    """

    files: Sequence[Path]
    found: Sequence[Mapping[str, Any]] = ()
