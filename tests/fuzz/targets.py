"""Everything that is fuzzed, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fuzz import models, readers, runs, views, workflows
from fuzz.target import Target

TARGETS: Mapping[str, Target] = MappingProxyType(
    {target.name: target for each in (readers, models, workflows, runs, views) for target in each.TARGETS}
)
