"""Rule files merged into the rules of one comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from probe_flow.dumps.rules.records import RuleFile
from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.rules.close_rules import unfused
from probe_flow.matching.rules.groups import fusion_groups, key_of, key_of_originals, keys_of
from probe_flow.matching.rules.operators import fusion_ops
from probe_flow.matching.rules.quant_rules import unquantised
from probe_flow.matching.rules.quantised_filter import unexpected_types
from probe_flow.matching.rules.records import FusionGroup, FusionOp, FusionOutput, FusionRules, clean_name
from probe_flow.matching.rules.unknown_names import UnknownNames

__all__ = ["FusionGroup", "FusionOp", "FusionOutput", "FusionRules", "clean_name", "fusion_rules"]

_SHOWN = 5


def fusion_rules(rule: RuleFile, *, close: RuleFile | None = None, quant: RuleFile | None = None) -> FusionRules:
    """Merge rule files into the rules of one comparison.

    Args:
        rule: of the target model; for a quantised model run in a framework, that of the quantisation tool.
        close: of the golden model without fusion, when the golden dump comes from a device too.
        quant: of the quantisation tool, when the target is quantised and the golden model is not.
    """
    ops = fusion_ops(rule)
    problems = [*unexpected_types(ops, rule.path), *_repeated(ops, rule.path)]
    unsaid = {op.name for graph in rule.graphs for op in graph.ops if op.originals is None}
    if quant is not None:
        unknown = UnknownNames(rule.path, quant.path, what="quantisation rules", unsaid=unsaid)
        ops = unquantised(ops, fusion_ops(quant), unknown)
        problems += unknown.problems()
    keys = keys_of(ops, key_of if quant is None else key_of_originals)
    if close is not None:
        unknown = UnknownNames(rule.path, close.path, what="rules without fusion", unsaid=unsaid)
        ops = unfused(ops, fusion_ops(close), unknown)
        problems += unknown.problems()
    return FusionRules(
        ops=tuple(ops),
        groups=fusion_groups(ops, keys),
        by_name={op.name: op for op in reversed(ops)},
        by_clean_name={clean_name(op.name): op for op in reversed(ops)},
        problems=tuple(problems),
        files=tuple(file.path for file in (rule, close, quant) if file is not None),
    )


def _repeated(ops: Sequence[FusionOp], file: str) -> Iterator[Diagnostic]:
    """Yield a warning about names, and one about names in dump files, that several operators have."""
    names = _several(op.name for op in ops)
    if names:
        yield _shared(names, file, "names that several operators have", "references to them mean the first")
    cleaned = _several(clean_name(name) for name in dict.fromkeys(op.name for op in ops))
    if cleaned:
        yield _shared(
            cleaned,
            file,
            "names in dump files that several operators have",
            "dump files of that name count as the first's",
        )


def _several(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]


def _shared(names: Sequence[str], file: str, what: str, effect: str) -> Diagnostic:
    return Diagnostic(
        "PF4309",
        f"in `{Path(file).name}`, {what}: {len(names)}",
        severity=Severity.WARNING,
        path=file,
        help=f"{effect}; rename them in the model if both are dumped",
        notes=tuple(f"`{name}`" for name in names[:_SHOWN]),
    )
