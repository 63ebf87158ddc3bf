"""The registered policies: ours, and those of installed packages (entry point `probe_flow.policies`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from probe_flow.errors import UsageError
from probe_flow.packages import PackageError, Registry, raised

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from probe_flow.analysis.policies.base import Policy
    from probe_flow.records import Verdict
    from probe_flow.records.row import Row


def _accept(name: str, found: object) -> Callable[[], Policy]:
    if not callable(found):
        raise PackageError(f"it is no function or class that gives a policy but a `{type(found).__name__}`")
    policy = found()
    if not (hasattr(policy, "judge") and hasattr(policy, "needs") and isinstance(getattr(policy, "name", None), str)):
        raise PackageError("it gives no policy: it lacks `name`, `needs` or `judge`")
    from probe_flow.metrics.catalogue.registry import find_metric

    try:
        for needed in policy.needs:
            find_metric(needed)
    except UsageError as error:
        raise PackageError(f"in its `needs`: {error.diagnostic.message}") from error
    return partial(_OfPackage, name, cast("Policy", policy))


class _OfPackage:
    """A policy whose code is another's: what it does wrong is said with its name.

    Args:
        registered: the name that it is asked for by.
        policy: the policy.
    """

    def __init__(self, registered: str, policy: Policy) -> None:
        self._registered = registered
        self._policy = policy
        self.name, self.needs = policy.name, policy.needs

    def judge(self, rows: Sequence[Row]) -> Sequence[Verdict]:
        """Return one verdict per row.

        Raises:
            BrokenPackageError: PF5002 where the policy raises, or returns something else.
        """
        from probe_flow.records import Verdict

        try:
            found = list(self._policy.judge(rows))
        except Exception as error:
            raise POLICIES.unusable(self._registered, f"its `judge` raised {raised(error)}") from error
        if len(found) != len(rows) or not all(isinstance(each, Verdict) for each in found):
            kinds = ", ".join(sorted({type(each).__name__ for each in found})) or "nothing"
            why = f"of {len(rows)} rows of a node its `judge` gave {len(found)} verdicts ({kinds})"
            raise POLICIES.unusable(self._registered, why)
        return found


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
