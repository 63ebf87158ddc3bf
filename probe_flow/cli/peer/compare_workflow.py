"""The packaged workflow that a `compare` command line stands for, with its match, its tables and its selection."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.api.scenario import ACROSS, MINDSPORE_DUMPS, OFFLINE_MODELS, packaged_for
from probe_flow.cli.peer.compare_sides import ARRAYS, OFFLINE, Sides
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.existing import is_folder

if TYPE_CHECKING:
    from probe_flow.workflow.model import ResolvedStage, Workflow

FLAGS: Mapping[str, str] = MappingProxyType(
    {
        "fuzzy_match": "-fm",
        "cell_mapping": "-cm",
        "api_mapping": "-am",
        "data_mapping": "-dm",
        "layer_mapping": "-lm",
    }
)
"""Options that choose a match, and how they are written."""

RULE_FLAGS: Mapping[str, str] = MappingProxyType(
    {"fusion_rule": "-fr", "close_fusion_rule": "-cfr", "quant_fusion_rule": "-qfr"}
)
"""Options of the match of offline models, and how they are written."""

_REPLACED: Mapping[str, Sequence[str]] = MappingProxyType(
    {ACROSS: ("mapping",), OFFLINE_MODELS: ("fusion_rule", "close_fusion_rule")}
)
"""Parameters of a packaged workflow that only its match uses, which the command line replaces as a whole."""

NO_FILE = ""
"""Value of a mapping option that was given without a file."""

_SHARED = ("description", "target", "golden", "pair_ranks", "step_offset")
"""Options that every match has."""


class Wanted(Struct, frozen=True):
    """What a command line asks for beside the two dumps.

    Args:
        output: folder of the tables.
        match: option of `FLAGS` -> its file, or `NO_FILE`.
        rules: option of `RULE_FLAGS` -> its file.
        ranks, steps: keep only these; None keeps all.
        is_xlsx: workbooks in place of CSV.
        finds_first: also writes the first difference of every rank.
        shows_overflow: the tables of offline models tell which tensors overflow.
    """

    output: Path
    match: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    ranks: Sequence[int] | None = None
    steps: Sequence[int] | None = None
    is_xlsx: bool = False
    finds_first: bool = False
    shows_overflow: bool = False


def check_match(wanted: Wanted, sides: Sides) -> None:
    """Refuse options that contradict each other or the dumps.

    Raises:
        UsageError: PF2124, PF2127 or PF2129.
    """
    given = [FLAGS[name] for name in wanted.match]
    rules = [RULE_FLAGS[name] for name in wanted.rules] + (["-overflow_detection"] if wanted.shows_overflow else [])
    if sides.scenario != "dump_json" and (odd := [*given, *(["-da"] if wanted.finds_first else [])]):
        ways = {OFFLINE: "offline models are paired by fusion rules", ARRAYS: "arrays by their names"}
        paired = ways.get(sides.scenario, "TorchAir by graphs")
        raise UsageError(
            Diagnostic("PF2129", f"{_listed(odd)} is for dumps with a dump.json; {paired}", help="leave it out")
        )
    if sides.scenario != OFFLINE and rules:
        raise UsageError(Diagnostic("PF2129", f"{_listed(rules)} is for dumps of offline models", help="leave it out"))
    if len(given) > 1:
        raise UsageError(
            Diagnostic(
                "PF2127",
                f"{_listed(given)} were given together; each is a way of its own to pair the two dumps",
                help="keep one of them; a data mapping (`-dm`) can hold what another one pairs, entry by entry",
            )
        )
    if "api_mapping" in wanted.match and sides.is_pytorch:
        raise UsageError(
            Diagnostic(
                "PF2124",
                "`-am` maps the APIs of MindSpore to those of PyTorch, and both dumps are of PyTorch",
                help="leave it out; where classes or layers have other names, use `-cm FILE` or `-lm FILE`",
            )
        )


def comparison_workflow(sides: Sides, paths: Mapping[str, Path], *, cwd: Path, wanted: Wanted) -> Workflow:
    """Return the packaged workflow of a comparison with its dumps, and everything as the command line wants it."""
    from probe_flow.workflow.loading.loader import load_workflow
    from probe_flow.workflow.templates.packaged import templates

    sets = {name: str(path) for name, path in paths.items()}
    # Whether offline dumps are the wrong way round is for their match to say; what is no framework, the tensors tell.
    template = OFFLINE_MODELS if sides.scenario == OFFLINE else packaged_for(*sides.frameworks) or MINDSPORE_DUMPS
    unused = dict.fromkeys(_REPLACED.get(template, ()), sets["target"])
    workflow = load_workflow(templates()[template], sets={**unused, **sets}, env=os.environ, cwd=cwd)
    stages = tuple(each for stage in workflow.stages for each in _adapted(stage, sides, wanted, cwd))
    files = {name: str(cwd / file) for name, file in wanted.match.items() if file != NO_FILE}
    params = {**sets, **files, **_rules(wanted, cwd)}
    if sides.scenario == OFFLINE:  # one packaged workflow serves all kinds of golden sides
        return replace(workflow, stages=stages, name=OFFLINE, description=None, params=params)
    return replace(workflow, stages=stages, params=params)


def _adapted(stage: ResolvedStage, sides: Sides, wanted: Wanted, cwd: Path) -> Iterator[ResolvedStage]:
    """Yield a stage as the command line has it."""
    from probe_flow.stages.base import Kind

    kind = stage.type.produces
    if kind is Kind.REPORT:
        yield from _reports(stage, wanted)
    elif kind is Kind.CATALOG:
        adapted = with_options(stage, select=_selection(stage, wanted))
        yield _of_model(adapted, sides, wanted, cwd) if sides.scenario == OFFLINE else adapted
    elif kind is Kind.PAIRS and sides.scenario == OFFLINE:
        yield replaced(stage, stage.type.uses, _shared(stage) | _rules(wanted, cwd))
    elif kind is Kind.PAIRS and sides.scenario == "dump_json":
        yield matched(stage, wanted.match, cwd)
    else:
        yield stage


def _selection(stage: ResolvedStage, wanted: Wanted) -> Mapping[str, Any]:
    select: dict[str, Any] = dict(_values(stage)["select"])
    for name, numbers in (("ranks", wanted.ranks), ("steps", wanted.steps)):
        if numbers is not None:
            select[name] = list(numbers)
    return select


def matched(stage: ResolvedStage, match: Mapping[str, str], cwd: Path) -> ResolvedStage:
    """Return the match that the command line names, by name without any."""
    options = _shared(stage)
    (name, file), *_ = (*match.items(), ("", NO_FILE))
    uses = "match.name"
    if name == "fuzzy_match":
        options["fuzzy"] = True
    elif name:
        uses = f"match.{name}"
        if file != NO_FILE:
            options["mapping"] = str(cwd / file)
    return replaced(stage, uses, options)


def _of_model(stage: ResolvedStage, sides: Sides, wanted: Wanted, cwd: Path) -> ResolvedStage:
    """Return the reader of one side of offline models: of device files, or of the arrays of a framework."""
    values = _values(stage)
    uses = f"dump.{(sides.target if stage.name == 'target' else sides.golden).name}"
    options = {name: values[name] for name in ("description", "path", "select")}
    if uses == "dump.npy" and stage.name == "golden":
        options["select"] = {}  # arrays are of no rank or step: they judge those of the target that are selected
    rule = wanted.rules.get("fusion_rule")
    if uses == "dump.om" and rule is not None and is_folder(cwd / rule):
        options["last_step"] = True  # as the published batch comparison has it
    return replaced(stage, uses, options)


def _rules(wanted: Wanted, cwd: Path) -> dict[str, Any]:
    return {name: str(cwd / file) for name, file in wanted.rules.items()}


def _shared(stage: ResolvedStage) -> dict[str, Any]:
    values = _values(stage)
    return {name: values[name] for name in _SHARED}


def replaced(stage: ResolvedStage, uses: str, options: Mapping[str, Any]) -> ResolvedStage:
    """Return a stage of another kind in the place of this one."""
    from probe_flow.stages.registry import STAGES

    found = STAGES[uses]
    return replace(stage, type=found, options=found.options.model_validate({**options, "uses": uses}))


def _reports(stage: ResolvedStage, wanted: Wanted) -> Iterator[ResolvedStage]:
    """Yield the tables, which go to the output folder, and the other formats, which go to the run's own."""
    formats = _values(stage)["formats"]
    tables: list[Any] = [entry for entry in formats if isinstance(entry, dict)]
    if wanted.is_xlsx:
        tables = [{"xlsx": entry["csv"]} if entry.get("csv") else entry for entry in tables]
    if wanted.finds_first:
        tables.append("diff_analyze")
    if "layer_mapping" in wanted.match:
        tables.append("data_mapping")
    columns = {"columns": ["overflow"]} if wanted.shows_overflow else {}
    yield with_options(stage, formats=tables, output=str(wanted.output), **columns)
    others = [entry for entry in formats if not isinstance(entry, dict)]
    yield replace(with_options(stage, formats=others), name=f"{stage.name}_files")


def with_options(stage: ResolvedStage, **changed: Any) -> ResolvedStage:
    """Return a stage with other values of some options."""
    # Only what was set: some options refuse others, though not their defaults.
    given = stage.options.model_dump(by_alias=True, exclude_unset=True)
    return replace(stage, options=stage.type.options.model_validate({**given, **changed}))


def _values(stage: ResolvedStage) -> dict[str, Any]:
    return stage.options.model_dump(by_alias=True, exclude_none=False)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)
