"""Everything that is fuzzed, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fuzz import readers, runs, workflows
from fuzz.target import Target

TARGETS: Mapping[str, Target] = MappingProxyType(
    {target.name: target for target in (*readers.TARGETS, *workflows.TARGETS, *runs.TARGETS)}
)
