"""Every diagnostic code with its cause, an example and its cure: what `probe-flow explain CODE` prints."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from probe_flow.errors.codes import comparing, execution, internal, matching, plan, reading, reporting, workflow
from probe_flow.errors.codes.code import Code

_SECTIONS = (workflow, plan, reading, matching, comparing, execution, reporting, internal)

CODES: Mapping[str, Code] = MappingProxyType({code.id: code for section in _SECTIONS for code in section.SECTION})

__all__ = ["CODES", "Code"]
