"""Make the paths of a workflow absolute: relative ones start from the file that wrote them."""

from __future__ import annotations

import os
from typing import cast

from probe_flow.errors import Diagnostic
from probe_flow.files.yaml.places import Loc, nearest
from probe_flow.stages.base import IsPath
from probe_flow.workflow.loading.fields import Subject, marked
from probe_flow.workflow.model.resolved import RUN_OUTPUT
from probe_flow.workflow.sources import Sources


def resolve_paths(subject: Subject, content: dict[str | int, object], sources: Sources) -> list[Diagnostic]:
    """Make every path of ``content`` absolute, in place, and return what is wrong with them.

    Args:
        subject: says which options are paths, and where they were written.
        content: interpolated values of the subject's model.
        sources: know the folders of files.
    """
    problems = []
    for option in marked(subject.model, IsPath):
        for loc, value in list(option.find(content)):
            if not isinstance(value, str):
                continue
            at = nearest(subject.place, loc)
            if not value or "\0" in value:
                found = "a text with a NUL character" if value else "empty"
                message = f"{subject.name(loc)} is {found}, expected a path"
                problems.append(
                    Diagnostic("PF1205", message, span=at.span, label="expected a path", stage=subject.stage)
                )
            elif not value.startswith(RUN_OUTPUT) and (path := option.marker.in_value(value)) is not None:
                folder = at.folder or sources.folder((at.definition or at.span).file)
                _put(content, loc, absolute(path, folder) + value[len(path) :])
    return problems


def absolute(path: str, folder: str) -> str:
    """Return a path without ``.`` and ``..``, read from an absolute folder."""
    return os.path.normpath(os.path.join(folder, path))  # noqa: PTH118 (pathlib keeps `..`)


def _put(content: dict[str | int, object], loc: Loc, value: str) -> None:
    inner: object = content
    for step in loc[:-1]:
        inner = cast("dict[str | int, object]", inner)[step]
    cast("dict[str | int, object]", inner)[loc[-1]] = value
