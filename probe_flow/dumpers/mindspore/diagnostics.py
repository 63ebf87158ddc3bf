"""What a machine lacks to run models of MindSpore. Imports no MindSpore."""

from __future__ import annotations

from probe_flow.dumpers.requirements import framework_missing, missing_modules
from probe_flow.errors import UsageError


def require_mindspore() -> None:
    """Raise UsageError PF6320 where MindSpore is not installed."""
    if any(missing_modules("mindspore")):
        raise UsageError(framework_missing("MindSpore", "mindspore"))
