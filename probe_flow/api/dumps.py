"""Dumps and pairs without a run: by the stages that read and match, which also find the dumps of a stored run again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from probe_flow.api.problems import told_whole
from probe_flow.errors import UsageError
from probe_flow.record.run_folder import read_run
from probe_flow.runs.queries.asker import Asker

if TYPE_CHECKING:
    from probe_flow.record.types.run import RunRecord
    from probe_flow.records import Catalog, Pairs
    from probe_flow.stages.base import StageOptions, StageType
    from probe_flow.work import Context

ADOPTS_ANY = "dump.auto"

AUTO = "auto"
"""What an argument is that leaves the choice to what the dumps are."""

_SELECT = ("ranks", "steps", "graphs", "nodes")


@told_whole()
def read_dump(
    path: str | os.PathLike[str],
    kind: str = AUTO,
    *,
    side: str = "target",
    ranks: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    graphs: Sequence[int | str] | None = None,
    nodes: Sequence[str] | None = None,
) -> Catalog:
    """Return the catalog of a dump: its nodes, and of each tensor where its elements are. No tensor is read.

    Args:
        path: the dump: a folder, a `dump.json` or a `.npy` file.
        kind: what it is, as the option `kind` of `dump.auto`; `auto`: found out by the names of its files.
        side: what messages and pairs call it.
        ranks, steps, graphs: read only these.
        nodes: read only nodes that one of these patterns fits, e.g. ``MatMul*``.

    Raises:
        UsageError: PF3401 no such path, PF3430 no known dump, PF3431 several; arguments that are wrong.
        IncompleteError: nothing in it can be read.

    >>> import probe_flow as pf
    >>> catalog = pf.read_dump("examples/torchair/healthy/msprobe_fx_dump")
    >>> catalog.framework.name, len(catalog.nodes), len(catalog.tensors), catalog.problems
    ('torchair_fx', 54, 191, ())
    """
    from probe_flow.api.arguments import stage_of
    from probe_flow.engine.run.paths import locating

    given = {"kind": None if kind == AUTO else kind, "ranks": ranks, "steps": steps, "graphs": graphs, "nodes": nodes}
    arguments = {"path": path, **{name: value for name, value in given.items() if value is not None}}
    stage, options = stage_of(ADOPTS_ANY, arguments, nested={"select": _SELECT})
    with locating(options):
        return cast("Catalog", stage.run(options, {}, _context(side)))


@told_whole()
def match(target: Catalog, golden: Catalog, match: str = AUTO, **options: object) -> Pairs:
    """Return which tensors of two dumps are compared with each other, and why others have no counterpart.

    Args:
        target, golden: catalogs of `read_dump`.
        match: how they are paired: `name`, `structure`, `layer_mapping`, `torchair` and so on, as the stages `match.*`;
            `auto`: as the packaged workflow for such dumps has it.
        options: of that stage, e.g. ``mapping="layers.yaml"``.

    Raises:
        UsageError: PF2002 for an unknown way to match, PF2122 when `auto` knows none; options that are wrong.

    >>> import probe_flow as pf
    >>> folder = "examples/torchair/healthy"
    >>> ge, fx = pf.read_dump(f"{folder}/msprobe_ge_dump"), pf.read_dump(f"{folder}/msprobe_fx_dump", side="golden")
    >>> pairs = pf.match(ge, fx)
    >>> len(pairs.pairs), pairs.pairs[0].target.id, pairs.pairs[0].golden.id
    (272, 'GatherV2.input.0', 'embedding.input.0')
    """
    from probe_flow.api.arguments import expect, stage_of
    from probe_flow.api.scenario import scenario_of
    from probe_flow.records import Catalog

    expect("target", target, Catalog, "a catalog of `read_dump`")
    expect("golden", golden, Catalog, "a catalog of `read_dump`")
    expect("match", match, str, "a text")
    uses = scenario_of(target.framework, golden.framework).match if match == AUTO else match_stage(match)
    stage, checked = stage_of(uses, {"target": "target", "golden": "golden", **options}, nested={})
    return cast("Pairs", stage.run(checked, {"target": [target], "golden": [golden]}, _context("match")))


def match_stage(name: str) -> str:
    """Return the stage of a way to match, which may be named with or without `match.`."""
    return name if name.startswith("match.") else f"match.{name}"


def asker_of(folder: Path, moved: Iterable[str] = ()) -> Asker:
    """Return the run in a folder, with ``SIDE=PATH`` of dumps that were moved; errors as `read_run`, PF7206."""
    from probe_flow.runs.reopen import parse_dumps

    run = read_run(folder)
    return Asker(run, str(folder), partial(adopt, run.record), parse_dumps(moved) if moved else {})


def adopt(record: RunRecord, name: str, uses: str, path: str) -> object:
    """Return the catalog of the dump at a path; errors as the stage's.

    Args:
        record: of the run.
        name: of the stage in the run.
        uses: what the stage was; `dump.auto` stands in where it is no dump stage, or takes other options.
        path: where the dump lies.
    """
    stage, options = _stage(uses, path)
    return stage.run(options, {}, _context(name, record))


def _stage(uses: str, path: str) -> tuple[StageType, StageOptions]:
    from pydantic import ValidationError

    from probe_flow.stages.registry import STAGES

    if uses.startswith("dump.") and uses in STAGES:
        try:
            stage = STAGES[uses]
            return stage, stage.options.model_validate({"uses": uses, "path": path})
        except (ValidationError, UsageError):  # a package's stage may name its path otherwise, or be broken
            pass
    return STAGES[ADOPTS_ANY], STAGES[ADOPTS_ANY].options.model_validate({"uses": ADOPTS_ANY, "path": path})


def _context(stage: str, record: RunRecord | None = None) -> Context:

    def no_map(*_: object, **__: object) -> Iterator[tuple[int, Any]]:
        raise NotImplementedError("adopting a dump needs no workers")

    from probe_flow.record.run_json import begun
    from probe_flow.record.types.run import WorkflowRecord
    from probe_flow.work import Context, Settings

    return Context(
        stage=stage,
        output=Path(os.devnull),
        map=no_map,
        emit=_silent,
        report=lambda _problems: None,
        settings=Settings(),
        facts=record or begun(WorkflowRecord("", "", str(Path.cwd()), None, sample=False), {}),
    )


def _silent(event: str, **fields: Any) -> None:
    """Send nothing: a question leaves no trace in the run's folder."""
