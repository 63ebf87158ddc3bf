"""Adopt again the dump that a stage of a stored run has read, as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from probe_flow.errors import UsageError
from probe_flow.stages.base import StageOptions, StageType
from probe_flow.stages.registry import stage_types
from probe_flow.work import Context, Settings

AUTO = "dump.auto"


def adopt_stored(name: str, uses: str, path: str) -> object:
    """Return the catalog of the dump at a path; errors as the stage's.

    Args:
        name: of the stage in the run.
        uses: what the stage was; `dump.auto` stands in where it is no dump stage, or takes other options.
        path: where the dump lies.
    """
    stage, options = _stage(uses, path)
    return stage.run(options, {}, _context(name))


def _stage(uses: str, path: str) -> tuple[StageType, StageOptions]:
    from pydantic import ValidationError

    known = stage_types()
    if uses.startswith("dump.") and uses in known:
        try:
            stage = known[uses]
            return stage, stage.options.model_validate({"uses": uses, "path": path})
        except (ValidationError, UsageError):  # a package's stage may name its path otherwise, or be broken
            pass
    return known[AUTO], known[AUTO].options.model_validate({"uses": AUTO, "path": path})


def _context(stage: str) -> Context:
    def no_map(*_: object, **__: object) -> Iterator[tuple[int, Any]]:
        raise NotImplementedError("adopting a dump needs no workers")

    return Context(
        stage=stage,
        output=Path(os.devnull),
        map=no_map,
        emit=_silent,
        report=lambda _problems: None,
        settings=Settings(),
        facts={},
    )


def _silent(event: str, **fields: Any) -> None:
    """Send nothing: a question leaves no trace in the run's folder."""
