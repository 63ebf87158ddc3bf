"""Make the paths of a workflow absolute: relative ones start from the file that wrote them."""

from __future__ import annotations

import os
from typing import cast

from pydantic import BaseModel

from probe_flow.errors import Diagnostic, Span
from probe_flow.stages.base import IsPath
from probe_flow.workflow.fields import marked
from probe_flow.workflow.interpolation import RUN_OUTPUT
from probe_flow.workflow.places import Loc, Place, nearest
from probe_flow.workflow.sources import Sources


def resolve_paths(
    model: type[BaseModel], content: dict[str | int, object], place: Place, sources: Sources
) -> list[Diagnostic]:
    """Make every path of ``content`` absolute, in place, and return what is wrong with them.

    Args:
        model: says which options are paths.
        content: interpolated values of the model.
        place: of the content.
        sources: know the folders of files.
    """
    problems = []
    for option in marked(model, IsPath):
        for loc, value in list(option.find(content)):
            if not isinstance(value, str):
                continue
            at = nearest(place, loc)[0]
            if not value or "\0" in value:
                problems.append(_bad_path(option.name, at.span, "a text with a NUL character" if value else "empty"))
            elif not value.startswith(RUN_OUTPUT):
                folder = at.folder or sources.folder((at.definition or at.span).file)
                _put(content, loc, absolute(value, folder))
    return problems


def absolute(path: str, folder: str) -> str:
    """Return a path without ``.`` and ``..``, read from an absolute folder."""
    return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 (pathlib keeps `..`)


def _put(content: dict[str | int, object], loc: Loc, value: str) -> None:
    inner: object = content
    for step in loc[:-1]:
        inner = cast("dict[str | int, object]", inner)[step]
    cast("dict[str | int, object]", inner)[loc[-1]] = value


def _bad_path(option: str, span: Span, what: str) -> Diagnostic:
    return Diagnostic("PF1205", f"the path `{option}` is {what}", span=span, label="expected a path")
