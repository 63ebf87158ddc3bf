"""Tell when rules and dumps have next to no names in common: one of them is of another model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.offline.groups import GroupMatch
from probe_flow.matching.offline.origins import HELD_TYPES, NETWORK_INPUTS
from probe_flow.matching.rules.merge import FusionRules

FEW = 0.1
"""Share of dumped operators that rules name below which the rules are taken for those of another model."""

_SHOWN = 3


def strangers(match: GroupMatch) -> Iterator[Diagnostic]:
    """Yield PF4403 when the rules know hardly any dumped operator, PF4410 when the golden has none that they name."""
    dumped, named = len(match.target.nodes), len(match.taken)
    if named < FEW * dumped:
        yield _other_rules(match, named, dumped)
        return
    promised = [
        output.origin_name
        for op in match.taken.values()
        if op.op_type not in NETWORK_INPUTS | HELD_TYPES
        for output in op.outputs
        if output.origin_name
    ]
    if promised and not any(match.golden.node(name) for name in promised):
        yield _other_golden(match, promised)


def _other_rules(match: GroupMatch, named: int, dumped: int) -> Diagnostic:
    mine = (key.name for key in match.target.nodes if key not in match.taken)
    return Diagnostic(
        "PF4403",
        f"the rules name {named} of the {dumped} operators that the device dumped: they are of another model",
        severity=Severity.WARNING,
        help="convert the offline model that was run with `atc --mode=1 --om=MODEL.om --json=RULES.json`, or give the "
        "`.om` itself",
        notes=(f"the device dumped {_some(mine)}", f"the rules name {_some(op.name for op in match.rules.ops)}"),
        path=_file(match.rules),
    )


def _other_golden(match: GroupMatch, promised: list[str]) -> Diagnostic:
    return Diagnostic(
        "PF4410",
        f"the golden has none of the {len(promised)} tensors that the rules name: it is of another model",
        severity=Severity.WARNING,
        help="give the dump of the model that was converted; the names of its operators must be those of that model",
        notes=(f"the rules name {_some(promised)}", f"the golden has {_some(match.golden.names())}"),
        path=_file(match.rules),
    )


def _some(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in islice(dict.fromkeys(names), _SHOWN)) or "nothing"


def _file(rules: FusionRules) -> str | None:
    return rules.files[0] if rules.files else None
