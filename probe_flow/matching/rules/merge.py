"""Rule files merged into the rules of one comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from probe_flow.dumps.rules.records import RuleFile
from probe_flow.errors import Diagnostic, Severity
from probe_flow.matching.rules.groups import fusion_groups, key_of, key_of_originals, keys_of
from probe_flow.matching.rules.operators import fusion_ops
from probe_flow.matching.rules.quant_rules import unquantised
from probe_flow.matching.rules.quantised_filter import unexpected_types
from probe_flow.matching.rules.records import FusionGroup, FusionOp, FusionOutput, FusionRules, clean_name
from probe_flow.matching.rules.unknown_names import UnknownNames


def unfused(ops: Sequence[FusionOp], close: Sequence[FusionOp], unknown: UnknownNames) -> list[FusionOp]:
    """Return the operators with operators of the unfused model as originals; groups stay as they are.

    Args:
        ops: of the fused model.
        close: of the unfused model, in order of their ids.
        unknown: is told the originals that the unfused model does not have.
    """
    table = _Table(close)
    return [
        replace(
            op,
            originals=_mapped(op.originals, table, unknown),
            outputs=tuple(_output(output, table, unknown) for output in op.outputs),
        )
        for op in ops
    ]


class _Table:
    """Where the originals are in the unfused model."""

    def __init__(self, close: Sequence[FusionOp]) -> None:
        self.op_of: dict[str, str] = {}
        self._outputs: dict[tuple[str, int | None], tuple[str, int]] = {}
        for op in close:
            self.op_of |= dict.fromkeys(op.originals, op.name)
        # A later operator may list an original whose output an earlier one gives: the giver stands for it.
        for op in close:
            given = {output.origin_name for output in op.outputs}
            self.op_of |= {name: op.name for name in op.originals if name in given}
        for op in close:
            for number, output in enumerate(op.outputs):
                self._add(op, number, output)

    def output_of(self, output: FusionOutput) -> tuple[str, int] | None:
        """Return operator and output number that give the same original output; None when nothing does."""
        return self._outputs.get((output.origin_name, output.origin_index))

    def _add(self, op: FusionOp, number: int, output: FusionOutput) -> None:
        """Note an output; that of the operator that stands for the original goes before copies of it."""
        key = (output.origin_name, output.origin_index)
        if output.origin_name and (key not in self._outputs or self.op_of.get(output.origin_name) == op.name):
            self._outputs[key] = (op.name, number)


def _mapped(originals: Sequence[str], table: _Table, unknown: UnknownNames) -> tuple[str, ...]:
    known = [name for name in originals if unknown.tell(name, is_known=name in table.op_of)]
    return tuple(dict.fromkeys(table.op_of[name] for name in known))


def _output(output: FusionOutput, table: _Table, unknown: UnknownNames) -> FusionOutput:
    found = table.output_of(output)
    if found is not None:
        name, number = found
        return replace(output, origin_name=name, origin_index=number)
    if not output.origin_name or not unknown.tell(output.origin_name, is_known=output.origin_name in table.op_of):
        return output
    unknown.tell(f"{output.origin_name}:{output.origin_index}", is_known=False)
    return replace(output, origin_name=table.op_of[output.origin_name])


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
    before_close: dict[str, FusionOp] = {}
    if close is not None:
        before_close = {op.name: op for op in reversed(ops)}
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
        before_close=before_close,
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
            "a dump file that does not hold the name of its operator counts as the first's",
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
