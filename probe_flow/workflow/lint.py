"""What is valid in a workflow file and most likely wrong: each finding a diagnostic with its place and a code.

A finding is left out where its line, or the one above, has the comment ``# lint: ignore PF1404`` (several codes with
commas, or none for all).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from probe_flow.errors import Diagnostic, Severity, Span, WorkflowError
from probe_flow.files.yaml.places import Place, nearest
from probe_flow.stages.base import IsPath, Kind
from probe_flow.workflow.loading.extends import Layers, workflow_file
from probe_flow.workflow.loading.fields import marked
from probe_flow.workflow.loading.loader import load_workflow
from probe_flow.workflow.model import ResolvedStage, Workflow
from probe_flow.workflow.sources import Sources
from probe_flow.workflow.templates.packaged import packaged_root

RULES = ("PF1401", "PF1402", "PF1403", "PF1404", "PF1405", "PF1406", "PF1407", "PF1408")
"""Codes of the findings, in the order in which they are looked for."""

UNSET = "PF1302"

_IGNORE = re.compile(r"#\s*lint:\s*ignore\b([^#]*)")
_STAND_INS = {"path": "not-set", "str": "not-set", "int": "1", "float": "1.0", "bool": "true", "list": "a"}
_GOLDEN_ONLY = frozenset({"dump.torchair_fx", "dump.npy"})
"""Readers of what a device is judged by: on the target's side only where the other side is one too."""

_RANGES: Mapping[str, tuple[float, float]] = {
    "[0, inf]": (0.0, float("inf")),
    "[0, 1]": (0.0, 1.0),
    "[-1, 1]": (-1.0, 1.0),
}
_USUAL_COVERAGE = 0.9


class Linted(Struct, frozen=True):
    """What was found in a file.

    Args:
        findings: in the order of their places.
        sources: texts of the files that they name.
    """

    findings: tuple[Diagnostic, ...]
    sources: Mapping[str, str]


class _File(Struct, frozen=True):
    """A workflow, resolved and as it is written."""

    workflow: Workflow
    values: Mapping[str | int, Any]
    place: Place
    cwd: Path

    def is_packaged(self, span: Span) -> bool:
        """Return True if a place is in a packaged workflow, which this one may extend."""
        folder = (packaged_root() / "workflows").resolve()
        return (self.cwd / span.file).resolve().is_relative_to(folder)


def lint_file(path: Path, *, env: Mapping[str, str], cwd: Path, sets: Mapping[str, str]) -> Linted:
    """Return what looks wrong in a workflow file. Parameters without a value have a stand-in; no data path is read.

    Raises:
        WorkflowError: the file is not valid.
    """
    path, sources = workflow_file(path), Sources(cwd)
    document = Layers(sources).load(path)
    values = document.values if document is not None else {}
    try:
        workflow = load_workflow(path, env=env, cwd=cwd, sets=sets)
    except WorkflowError as error:
        if any(each.severity is Severity.ERROR and each.code != UNSET for each in error.diagnostics):
            raise
        workflow = load_workflow(path, env=env, cwd=cwd, sets={**_stand_ins(values, sets), **sets})
    assert document is not None, "a file that loads can be read"
    file = _File(workflow, values, document.place, cwd)
    found = [each for rule in _CHECKS for each in rule(file)]
    once = {(each.code, each.span, each.message): each for each in found}.values()
    kept = [each for each in once if not _is_ignored(each, workflow.sources)]
    ordered = sorted(kept, key=lambda each: (each.span.line if each.span else 0, each.code))
    return Linted(tuple(ordered), workflow.sources)


def _stand_ins(values: Mapping[str | int, Any], sets: Mapping[str, str]) -> dict[str, str]:
    """Return a value for each parameter that has to be set, so that the rest of the file can be looked at."""
    found = {}
    for name, param in values.get("params", {}).items():
        if isinstance(param, dict) and param.get("default") is None and not param.get("optional") and name not in sets:
            choices = param.get("choices")
            found[str(name)] = str(choices[0]) if choices else _STAND_INS[str(param["type"])]
    return found


def _is_ignored(found: Diagnostic, sources: Mapping[str, str]) -> bool:
    if found.span is None or found.span.file not in sources:
        return False
    lines = sources[found.span.file].splitlines()
    line = found.span.line - 1
    above = lines[line - 1] if line > 0 and lines[line - 1].lstrip().startswith("#") else ""
    for text in (lines[line], above):
        said = _IGNORE.search(text)
        if said is not None and (not said[1].strip() or found.code in re.findall(r"PF\d{4}", said[1])):
            return True
    return False


def _finding(
    code: str, message: str, span: Span, *, label: str = "", cure: str, stage: str | None = None
) -> Diagnostic:
    return Diagnostic(code, message, Severity.WARNING, span, label or None, cure, stage=stage)


def _unused(file: _File) -> Iterator[Diagnostic]:
    """PF1401: a stage whose result nobody takes, and that leaves nothing by itself."""
    stages = file.workflow.stages
    taken = {name for stage in stages for names in stage.inputs.values() for name in names}
    does_more = any(stage.type.produces in (Kind.COMPARISON, Kind.REPORT) for stage in stages)
    for stage in stages:
        is_idle = stage.type.uses.startswith("match.") or (
            stage.type.uses.startswith("dump.") and stage.type.foresee(stage.options) is None and does_more
        )
        if is_idle and stage.name not in taken:
            yield _finding(
                "PF1401",
                f"nothing uses the result of stage `{stage.name}`",
                stage.span,
                label="read for nothing",
                cure="name it in the stage that should use it, or take it out",
                stage=stage.name,
            )


def _sides(file: _File) -> Iterator[tuple[ResolvedStage, ResolvedStage, ResolvedStage]]:
    """Yield each stage that pairs two dumps, with its two sides."""
    by_name = {stage.name: stage for stage in file.workflow.stages}
    for stage in file.workflow.stages:
        if stage.type.uses.startswith("match."):
            for target in stage.inputs.get("target", ()):
                for golden in stage.inputs.get("golden", ()):
                    yield stage, by_name[target], by_name[golden]


def _swapped(file: _File) -> Iterator[Diagnostic]:
    """PF1402: sides that are the wrong way round, by their names or by what reads them."""
    for stage, target, golden in _sides(file):
        names = (target.name.partition("[")[0], golden.name.partition("[")[0])
        uses = target.type.uses, golden.type.uses
        by_name = names == ("golden", "target")
        by_reader = uses[0] in _GOLDEN_ONLY and uses[1] not in (*_GOLDEN_ONLY, "dump.auto", "dump.arrays")
        if by_name or by_reader or uses == ("dump.torch", "dump.mindspore"):
            yield _finding(
                "PF1402",
                f"the sides of stage `{stage.name}` look swapped: `{names[0]}` (`{uses[0]}`) is judged by `{names[1]}` "
                f"(`{uses[1]}`)",
                _option_span(stage, "target"),
                label="this is the side under test",
                cure=f"`target: {names[1]}, golden: {names[0]}`",
                stage=stage.name,
            )


def _same_dump(file: _File) -> Iterator[Diagnostic]:
    """PF1403: a dump that is compared with itself."""
    for stage, target, golden in _sides(file):
        if target is golden or _read(target) == _read(golden):
            yield _finding(
                "PF1403",
                f"both sides of stage `{stage.name}` are the same dump",
                _option_span(stage, "golden"),
                label="nothing in it can differ",
                cure="name the dump that judges the target",
                stage=stage.name,
            )


def _read(stage: ResolvedStage) -> object:
    """Return what a dump stage reads, nothing equal for one without a value of its own."""
    path = getattr(stage.options, "path", None)
    if not isinstance(path, str) or path.endswith(_STAND_INS["path"]):
        return object()
    return stage.type.uses, stage.options.model_dump(exclude={"description", "matrix"}, mode="json")


def _bounds(file: _File) -> Iterator[Diagnostic]:
    """PF1404: a bound that no value meets, or that every value does."""
    from probe_flow.analysis.policies.bounds import parse_bound
    from probe_flow.metrics.catalogue.registry import METRICS

    for stage in file.workflow.stages:
        for loc, metric, text in _stated(stage.options.model_dump(by_alias=True, mode="json")):
            bound = parse_bound(text)
            limits = _RANGES.get(METRICS[metric].range) if metric in METRICS else None
            if bound is None or limits is None:
                continue
            met = _always_or_never(bound.symbol, bound.limit, *limits)
            if met:
                yield _finding(
                    "PF1404",
                    f"{met} value of `{metric}` meets `{bound}`: it lies in {METRICS[metric].range}",
                    nearest(stage.place, loc).span if stage.place is not None else stage.span,
                    label=f"{met} value meets this",
                    cure="state a limit that some tensors meet and others miss, for example `cosine: '>= 0.99'`",
                    stage=stage.name,
                )


def _always_or_never(symbol: str, limit: float, low: float, high: float) -> str:
    """Return ``every`` or ``no`` where every or no value of a range meets a bound, else nothing.

    >>> _always_or_never(">=", 1.5, -1.0, 1.0), _always_or_never("<=", 2.0, -1.0, 1.0), _always_or_never("<", 1.0, 0, 1)
    ('no', 'every', '')
    """
    if limit == float("inf"):
        return ""  # what is not NaN: a way to ask that a value can be computed
    every = {
        ">=": limit <= low,
        ">": limit < low,
        "<=": limit >= high,
        "<": limit > high,
        "!=": not low <= limit <= high,
    }
    none = {
        ">=": limit > high,
        ">": limit >= high,
        "<=": limit < low,
        "<": limit <= low,
        "==": not low <= limit <= high,
    }
    return "every" if every.get(symbol) else "no" if none.get(symbol) else ""


def _stated(value: Any, loc: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Yield the bounds in the options of a stage: place, metric, text."""
    items: Iterable[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        if isinstance(item, str) and loc and loc[-1] in ("pass", "warn", "where", "bound"):
            yield (*loc, key), str(key), item
        elif isinstance(item, dict | list):
            yield from _stated(item, (*loc, key))


def _absolute(file: _File) -> Iterator[Diagnostic]:
    """PF1405: a path that only this machine has."""
    params = file.values.get("params", {})
    for name, param in params.items() if isinstance(params, dict) else ():
        if isinstance(param, dict) and param.get("type") == "path":
            for key in ("default", "sample"):
                if _is_absolute(param.get(key)):
                    place = nearest(file.place, ("params", name, key))
                    yield _absolute_at(param[key], place.span, None)
    stages = file.values.get("stages", {})
    for stage in {stage.name.partition("[")[0]: stage for stage in file.workflow.stages}.values():
        written = stages.get(stage.name.partition("[")[0])
        for option in marked(stage.type.options, IsPath) if isinstance(written, dict) else ():
            for loc, value in option.find(written):
                if _is_absolute(value):
                    place = nearest(file.place, ("stages", stage.name.partition("[")[0], *loc))
                    yield _absolute_at(str(value), place.span, stage.name)


def _is_absolute(value: object) -> bool:
    return isinstance(value, str) and "${" not in value and Path(value).is_absolute()


def _absolute_at(value: str, span: Span, stage: str | None) -> Diagnostic:
    return _finding(
        "PF1405",
        f"`{value}` is an absolute path, which other machines do not have",
        span,
        cure="start it from the folder of this file, or make it a parameter that is set by `--set`",
        stage=stage,
    )


def _samples(file: _File) -> Iterator[Diagnostic]:
    """PF1406: sample data in a file that is not a packaged one."""
    params = file.values.get("params", {})
    for name, param in params.items() if isinstance(params, dict) else ():
        place = nearest(file.place, ("params", name, "sample"))
        if isinstance(param, dict) and param.get("sample") and not file.is_packaged(place.span):
            yield _finding(
                "PF1406",
                f"the parameter `{name}` has sample data: run without `--set`, this file compares that",
                place.span,
                label="not your dump",
                cure="write `default: PATH` with a dump of yours, or leave it out, so that it has to be set",
            )


def _coverage(file: _File) -> Iterator[Diagnostic]:
    """PF1407: a comparison that passes on a part."""
    for stage in file.workflow.stages:
        require = getattr(stage.options, "require", None)
        coverage = getattr(require, "coverage", None)
        if coverage is not None and coverage < _USUAL_COVERAGE:
            place = nearest(stage.place, ("require", "coverage")) if stage.place is not None else None
            yield _finding(
                "PF1407",
                f"stage `{stage.name}` passes with {coverage:.0%} of the outputs compared, where "
                f"{_USUAL_COVERAGE:.0%} are usual",
                place.span if place is not None else stage.span,
                cure="if a part is meant, narrow the dumps by `select`, which says which; else require 0.9",
                stage=stage.name,
            )


def _unused_params(file: _File) -> Iterator[Diagnostic]:
    """PF1408: a parameter that nothing reads."""
    params = file.values.get("params", {})
    rest = repr({key: value for key, value in file.values.items() if key != "params"})
    for name in params if isinstance(params, dict) else ():
        if f"params.{name}}}" not in rest.replace(" ", ""):
            yield _finding(
                "PF1408",
                f"nothing reads the parameter `{name}`",
                nearest(file.place, ("params", name)).name_span,
                cure=f"use it as `${{params.{name}}}`, or take it out",
            )


def _option_span(stage: ResolvedStage, option: str) -> Span:
    return nearest(stage.place, (option,)).span if stage.place is not None else stage.span


_CHECKS: Sequence[Callable[[_File], Iterator[Diagnostic]]] = (
    _unused,
    _swapped,
    _same_dump,
    _bounds,
    _absolute,
    _samples,
    _coverage,
    _unused_params,
)
