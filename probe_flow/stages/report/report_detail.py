"""Options of `detail`: which tensors a report shows element by element."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from probe_flow.stages.base import Model


class Detail(Model):
    """An element-wise view of tensors: both sides, absolute and relative error of every element, and the worst."""

    node: str | list[str] = Field(
        description="Name of a target node, or glob patterns of names; `/` and `.` may be written `_`."
    )
    direction: Literal["input", "output"] = Field("output", description="Which of its tensors.")
    index: int | None = Field(None, ge=0, description="Position among them; absent: all of them.")
    top: int = Field(20, ge=1, le=10_000, description="Elements in the lists of the largest errors.")
    lines: int = Field(1_000_000, ge=10_000, le=1_000_000, description="Elements per table.")
    tables: bool = Field(default=True, description="Whether to write tables of all elements.")
    limit: int = Field(16, ge=1, description="At most this many tensors, in execution order.")
