"""The registered policies: ours, and those of installed packages (entry point `probe_flow.policies`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from probe_flow.packages import PackageError, Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from probe_flow.analysis.policies.base import Policy


def _accept(name: str, found: object) -> Callable[[], Policy]:  # noqa: ARG001
    if not callable(found):
        raise PackageError(f"it is no function or class that gives a policy but a `{type(found).__name__}`")
    policy = found()
    if not (hasattr(policy, "judge") and hasattr(policy, "needs") and isinstance(getattr(policy, "name", None), str)):
        raise PackageError("it gives no policy: it lacks `name`, `needs` or `judge`")
    return lambda: cast("Policy", policy)


POLICIES: Registry[Callable[[], Policy]] = Registry(
    ("policy", "policies"),
    "probe_flow.policies",
    {
        "torchair": "probe_flow.analysis.policies.torchair:TorchairPolicy",
        "offline": "probe_flow.analysis.policies.offline:OfflinePolicy",
        "tf_training": "probe_flow.analysis.policies.tf_training:TfTrainingPolicy",
        "dump_json": "probe_flow.analysis.policies.dump_json:DumpJsonPolicy",
        "precheck": "probe_flow.analysis.policies.precheck:PrecheckPolicy",
    },
    _accept,
    unknown="PF5001",
    unusable="PF5002",
)
"""Functions without arguments, or classes, that give a policy, by its name."""
