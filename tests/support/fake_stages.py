"""Stages without heavy work, to run whole workflows through the engine and the command line.

A fake dump is a text file with one number a line: tensor ``i`` of node ``n<i>``. `compare.fake` squares the differences
in batches; every non-zero difference is a failing row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from probe_flow.errors import Diagnostic, FormatError, IncompleteError, Severity, UsageError
from probe_flow.records import (
    Catalog,
    Comparison,
    Coverage,
    Execution,
    Finding,
    FindingKind,
    Framework,
    Measurement,
    Mode,
    Node,
    NodeKey,
    Pair,
    Pairs,
    Row,
    Rule,
    Slot,
    SlotRole,
    Status,
    TensorKind,
    TensorRef,
    Verdict,
)
from probe_flow.stages.base import CatalogOf, ComparisonOf, DumpPath, Kind, PairsOf, StageOptions, StageType
from probe_flow.work import Context

EXECUTION = Execution(rank=0, step=0, graph=1)

Trouble = Literal["usage", "incomplete", "defect", "interrupt", "wrong_kind", "warning", "error", "batch", "uncompiled"]


class DumpOptions(StageOptions):
    uses: Literal["dump.fake"]
    path: DumpPath
    task: str = "tensor"
    trouble: Trouble | None = None


class MatchOptions(StageOptions):
    uses: Literal["match.fake"]
    target: CatalogOf
    golden: CatalogOf


class CompareOptions(StageOptions):
    uses: Literal["compare.fake"]
    pairs: PairsOf
    trouble: Trouble | None = None
    incomplete: list[str] = Field(default_factory=list)
    batch_bytes: int = 1


class ReportOptions(StageOptions):
    uses: Literal["report.fake"]
    comparison: ComparisonOf
    file: str = "table.csv"


def _make_trouble(trouble: Trouble | None, context: Context) -> None:
    if trouble == "usage":
        raise UsageError(Diagnostic("PF4999", "the mapping file is wrong"))
    if trouble == "incomplete":
        raise IncompleteError(Diagnostic("PF3999", "the dump is empty"))
    if trouble == "defect":
        raise ZeroDivisionError("a defect")
    if trouble == "interrupt":
        raise KeyboardInterrupt
    if trouble == "uncompiled":
        context.compile_later()
    if trouble in ("warning", "error"):
        severity = Severity.WARNING if trouble == "warning" else Severity.ERROR
        context.report([Diagnostic("PF3998", f"a reported {trouble}", severity)])


def run_dump(options: DumpOptions, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    _make_trouble(options.trouble, context)
    if options.trouble == "wrong_kind":
        return [1, 2]
    values = [float(line) for line in Path(options.path).read_text().split()]
    keys = [NodeKey(EXECUTION, f"n{number}") for number in range(len(values))]
    tensors = [
        TensorRef.of(key, Slot(SlotRole.OUTPUT), TensorKind.SCALAR, "float64", value=value)
        for key, value in zip(keys, values, strict=True)
    ]
    return Catalog(
        side=context.stage,
        framework=Framework("fake"),
        task=options.task,
        root=options.path,
        nodes={key: Node(key, "Fake", order=number) for number, key in enumerate(keys)},
        tensors=tuple(tensors),
        fingerprint=f"fingerprint of {context.stage}",
    )


def run_match(options: MatchOptions, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    target, golden = inputs["target"][0], inputs["golden"][0]
    both = zip(target.tensors, golden.tensors, strict=True)
    return Pairs(target, golden, tuple(Pair(t, g, f"g{n}", Rule("exact")) for n, (t, g) in enumerate(both)))


def square_difference(pair: Pair) -> float:
    assert pair.target is not None
    assert pair.golden is not None
    return (pair.target.value - pair.golden.value) ** 2


def broken_batch(pair: Pair) -> float:
    raise FormatError(Diagnostic("PF3997", f"tensor {pair.group} is wreckage"))


def run_compare(options: CompareOptions, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    _make_trouble(options.trouble, context)
    pairs: Pairs = inputs["pairs"][0]
    function = broken_batch if options.trouble == "batch" else square_difference
    sizes = [options.batch_bytes] * len(pairs.pairs)
    found = dict(context.map(function, pairs.pairs, sizes=sizes))
    rows = [
        Row(
            pair,
            Measurement.of(Mode.VALUE, {"squared": found[number]}),
            Verdict(Status.FAIL if found[number] else Status.PASS),
            number,
        )
        for number, pair in enumerate(pairs.pairs)
    ]
    failing = [row for row in rows if row.verdict.status is Status.FAIL]
    findings = [
        Finding(FindingKind.ORIGIN, row.pair.shown.node, row.pair.shown.slot, "differs", 1.0, row=row.order)
        for row in failing[:1]
    ]
    coverage = Coverage(tensors=len(rows), compared=len(rows), outputs_compared=len(rows))
    return Comparison(
        pairs=pairs,
        rows=tuple(rows),
        findings=tuple(findings),
        coverage={"target": coverage, "golden": coverage},
        gate="findings",
        gate_passed=not failing,
        incomplete=tuple(options.incomplete),
        policy="fake",
    )


def run_report(options: ReportOptions, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    path = context.output / options.file
    path.write_text(f"{context.facts.workflow.name},{len(inputs['comparison'])}\n")
    return [path]


STAGES = {
    stage.uses: stage
    for stage in (
        StageType("dump.fake", Kind.CATALOG, DumpOptions, run_dump, "Read numbers."),
        StageType("match.fake", Kind.PAIRS, MatchOptions, run_match, "Pair by position."),
        StageType("compare.fake", Kind.COMPARISON, CompareOptions, run_compare, "Square differences."),
        StageType("report.fake", Kind.REPORT, ReportOptions, run_report, "Write a table."),
    )
}

WORKFLOW = """\
version: 1
name: demo
params:
  target: {{type: path, default: target.txt}}
  golden: {{type: path, default: golden.txt}}
stages:
  target: {{uses: dump.fake, path: "${{params.target}}"{target}}}
  golden: {{uses: dump.fake, path: "${{params.golden}}"{golden}}}
  pairs: {{uses: match.fake, target: target, golden: golden}}
  result: {{uses: compare.fake, pairs: pairs{result}}}
  table: {{uses: report.fake, comparison: result{table}}}
{more}"""


def write_project(
    folder: Path, *, target: str = "1 2 3", golden: str = "1 2 3", more: str = "", **options: str
) -> Path:
    """Write a workflow with two dumps and return its path.

    ``options`` adds text to a stage: ``on_target="trouble: usage"``; ``more`` adds lines to the file.
    """
    (folder / "target.txt").write_text(target)
    (folder / "golden.txt").write_text(golden)
    names = ("target", "golden", "result", "table")
    extra = {name: f", {options[f'on_{name}']}" if f"on_{name}" in options else "" for name in names}
    path = folder / "demo.yaml"
    path.write_text(WORKFLOW.format(**extra, more=more))
    return path
