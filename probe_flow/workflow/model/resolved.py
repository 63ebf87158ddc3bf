"""The workflow after its file was read: checked, with every value known, stages in an order that runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel

from probe_flow.errors import Diagnostic, Span
from probe_flow.files.yaml.places import Place
from probe_flow.stages.base import StageOptions, StageType
from probe_flow.workflow.model.models import Cache, Executor

RUN_OUTPUT: Final = "${run.output}"


class ResolvedStage(Struct, frozen=True):
    """One stage, or one variant of a stage with a matrix.

    Args:
        name: in the workflow; a variant is ``stage[m=a]``.
        type: what it does.
        options: validated; paths are absolute, ``${run.output}`` is still to be replaced (`options_for_run`).
        inputs: names of the consumed stages by option (``pairs``, ``only.comparison``).
        span: where the stage is written.
        variant: matrix values of this variant.
        place: of the options.
    """

    name: str
    type: StageType
    options: StageOptions
    inputs: Mapping[str, tuple[str, ...]]
    span: Span
    variant: Mapping[str, object]
    place: Place | None = None


class Workflow(Struct, frozen=True):
    """A workflow that is ready to be planned. Only `load_workflow` makes one.

    Args:
        path: the file, as it was named.
        params: values of all parameters; None where an optional one is not set.
        stages: in topological order, otherwise as written.
        warnings: what is doubtful but no mistake.
        sources: texts of the files that spans name, for `errors.render`.
        templates: names of the templates that it extends, with package and version.
        samples: paths of the sample data that it brings and compares; none where it compares other data.
    """

    path: Path
    name: str
    description: str | None
    params: Mapping[str, object]
    stages: tuple[ResolvedStage, ...]
    executor: Executor
    cache: Cache
    io: str
    metrics_backend: str
    warnings: tuple[Diagnostic, ...]
    sources: Mapping[str, str]
    templates: tuple[str, ...] = ()
    samples: tuple[Path, ...] = ()

    @property
    def is_sample(self) -> bool:
        """Whether it compares the sample data that it brings."""
        return bool(self.samples)


def options_for_run(options: StageOptions, output: Path) -> StageOptions:
    """Return the options with ``${run.output}`` replaced by the run's folder."""
    return cast("StageOptions", _replaced(options, RUN_OUTPUT, str(output)))


def with_sample_at(workflow: Workflow, sample: Path, place: Path) -> Workflow:
    """Return the workflow with a sample of it at another place."""
    old, new = str(sample), str(place)
    return replace(
        workflow,
        params=cast("Mapping[str, object]", _replaced(dict(workflow.params), old, new)),
        stages=tuple(
            replace(stage, options=cast("StageOptions", _replaced(stage.options, old, new)))
            for stage in workflow.stages
        ),
        samples=tuple(place if each == sample else each for each in workflow.samples),
    )


def _replaced(value: object, old: str, new: str) -> object:
    """Return a value with a text in place of another, in all that it holds."""
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, BaseModel):
        fields = {name: getattr(value, name) for name in value.model_fields_set}
        return value.model_copy(update={name: _replaced(field, old, new) for name, field in fields.items()})
    return value
