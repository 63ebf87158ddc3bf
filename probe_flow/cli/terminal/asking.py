"""Ask a stored run from the command line: its dumps are opened by the stages that read them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probe_flow.errors import UsageError
from probe_flow.record.run_folder import read_run
from probe_flow.runs.queries.asker import Asker

if TYPE_CHECKING:
    from probe_flow.record.types.run import RunRecord
    from probe_flow.stages.base import StageOptions, StageType
    from probe_flow.work import Context

ADOPTS_ANY = "dump.auto"


def asker_of(folder: Path, moved: Iterable[str] = ()) -> Asker:
    """Return the run in a folder, with ``SIDE=PATH`` of dumps that were moved; errors as `read_run`, PF7206."""
    from probe_flow.runs.reopen import parse_dumps

    run = read_run(folder)
    return Asker(run, str(folder), partial(_adopt, run.record), parse_dumps(moved) if moved else {})


def _adopt(record: RunRecord, name: str, uses: str, path: str) -> object:
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


def _context(stage: str, record: RunRecord) -> Context:
    def no_map(*_: object, **__: object) -> Iterator[tuple[int, Any]]:
        raise NotImplementedError("adopting a dump needs no workers")

    from probe_flow.work import Context, Settings

    return Context(
        stage=stage,
        output=Path(os.devnull),
        map=no_map,
        emit=_silent,
        report=lambda _problems: None,
        settings=Settings(),
        facts=record,
    )


def _silent(event: str, **fields: Any) -> None:
    """Send nothing: a question leaves no trace in the run's folder."""
