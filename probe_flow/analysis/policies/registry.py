"""The registered policies: ours, and those of installed packages (entry point `probe_flow.policies`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points

from probe_flow.analysis.policies.base import Policy
from probe_flow.analysis.policies.dump_json import DumpJsonPolicy
from probe_flow.analysis.policies.torchair import TorchairPolicy
from probe_flow.errors import Diagnostic, UsageError, did_you_mean


def _factories() -> Mapping[str, Callable[[], Policy]]:
    found: dict[str, Callable[[], Policy]] = {"torchair": TorchairPolicy, "dump_json": DumpJsonPolicy}
    for entry in entry_points(group="probe_flow.policies"):
        found.setdefault(entry.name, entry.load())
    return found


def policy_names() -> tuple[str, ...]:
    """Return the names that a workflow may use."""
    return tuple(sorted(_factories()))


def policy_named(name: str) -> Policy:
    """Return the policy.

    Raises:
        UsageError: PF5001 when there is none of that name.
    """
    factories = _factories()
    if name not in factories:
        known = ", ".join(sorted(factories))
        raise UsageError(
            Diagnostic("PF5001", f"unknown policy `{name}`", help=did_you_mean(name, factories) or f"policies: {known}")
        )
    return factories[name]()
