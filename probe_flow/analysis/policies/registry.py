"""The registered policies: ours, and those of installed packages (entry point `probe_flow.policies`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.packages import EntryPoint, PackageError, entry_points, load, named

if TYPE_CHECKING:
    from probe_flow.analysis.policies.base import Policy

OURS: Mapping[str, str] = MappingProxyType(
    {
        "torchair": "probe_flow.analysis.policies.torchair:TorchairPolicy",
        "offline": "probe_flow.analysis.policies.offline:OfflinePolicy",
        "dump_json": "probe_flow.analysis.policies.dump_json:DumpJsonPolicy",
    }
)
"""Modules and classes by name: a workflow is checked without loading them."""

GROUP = "probe_flow.policies"
"""Entry point group; each entry is a function without arguments, or a class, that gives a `Policy`."""


def policy_names() -> tuple[str, ...]:
    """Return the names that a workflow may use. Packages are not loaded for this, and cannot replace ours."""
    return tuple(sorted({*OURS, *(entry.name for entry in entry_points(group=GROUP))}))


def policy_named(name: str) -> Policy:
    """Return the policy.

    Raises:
        UsageError: PF5001 when there is none of that name, PF5002 when its package gives something else.
    """
    if name in OURS:
        module, _, policy_class = OURS[name].partition(":")
        ours: Policy = getattr(import_module(module), policy_class)()
        return ours
    entry = next((entry for entry in entry_points(group=GROUP) if entry.name == name), None)
    if entry is None:
        known = ", ".join(policy_names())
        hint = did_you_mean(name, policy_names()) or f"policies: {known}"
        raise UsageError(Diagnostic("PF5001", f"unknown policy `{name}`", help=hint))
    try:
        policy = cast("Callable[[], Any]", load(entry))()
    except PackageError as error:
        raise UsageError(_unusable(entry, f"cannot be loaded: {error}")) from error
    except (Exception, SystemExit) as error:  # whatever foreign code raises is told as what it is
        raise UsageError(_unusable(entry, f"cannot be loaded: {type(error).__name__}: {error}")) from error
    has_all = hasattr(policy, "judge") and hasattr(policy, "needs")
    if not has_all or not isinstance(getattr(policy, "name", None), str):
        raise UsageError(_unusable(entry, "gives no policy: it lacks `name`, `needs` or `judge`"))
    made: Policy = policy
    return made


def _unusable(entry: EntryPoint, reason: str) -> Diagnostic:
    return Diagnostic(
        "PF5002",
        f"{named(entry)} {reason}",
        help="update or remove the package that provides it",
    )
