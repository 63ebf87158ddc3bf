"""What a machine lacks to run models of torch, and what the record of such a run means. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from probe_flow.dumpers.requirements import framework_missing, missing_modules
from probe_flow.errors import Diagnostic, Severity, UsageError

NOT_DETERMINISTIC = "not_deterministic"
"""Name in the record for the operations that torch could not make deterministic."""

NO_DETERMINISTIC_FORM = r"([\w.:]+) does not have a deterministic implementation"
"""How torch says so in the log."""

_MAX_LISTED = 10


def torch_notes(record: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Yield PF6332 if a part of the model ran between graphs, PF6333 if something has no deterministic form."""
    if reasons := record.get("graph_breaks"):
        yield Diagnostic(
            "PF6332",
            f"{len(reasons)} kinds of graph breaks: what the model computes between its graphs is not dumped",
            Severity.NOTE,
            help="write the model so that torch can follow it, if operators are missing",
            notes=tuple(reasons[:_MAX_LISTED]),
        )
    if operations := record.get(NOT_DETERMINISTIC):
        yield Diagnostic(
            "PF6333",
            f"torch has no deterministic form of {', '.join(f'`{name}`' for name in operations[:_MAX_LISTED])}",
            Severity.NOTE,
            help="`repeat: 2` measures by how much runs differ",
        )


def require_torch() -> None:
    """Raise UsageError PF6320 where torch is not installed."""
    if any(missing_modules("torch")):
        raise UsageError(framework_missing("torch", "torch"))


def not_on_device(why: str) -> Diagnostic:
    """Return PF6328."""
    return Diagnostic(
        "PF6328",
        f"a GE dump is made on a machine with an Ascend device: {why}",
        help="adopt a dump that was made there with `path:`; `probe-flow init --snippet torchair` prints the code "
        "that makes it",
    )


def device_problems() -> Iterator[Diagnostic]:
    """Yield PF6328 if this machine lacks what drives the device."""
    if any(missing_modules("torch_npu")):
        yield not_on_device("`torch_npu` is not installed")
