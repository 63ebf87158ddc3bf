"""A workflow: the file as people write it (`WorkflowFile`), and what is made of it to run (`Workflow`).

Stages bring their own models (`probe_flow.stages`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, cast

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, Field, model_validator

from probe_flow.errors import Diagnostic, Span
from probe_flow.files.yaml.places import Place
from probe_flow.stages.base import IsPath, Model, StageOptions, StageType
from probe_flow.stages.sizes import SIZES, Size

NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
"""Names of stages, parameters and matrix entries."""

WORKFLOW_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
"""Names of workflows; they become folder names."""

RUN_OUTPUT: Final = "${run.output}"

ParamType = Literal["path", "str", "int", "float", "bool", "list"]
Scalar = str | int | float | bool


class Param(Model):
    """A value that whoever runs the workflow may set."""

    type: ParamType = Field(description="What the value is; a `path` is relative to the file that wrote it.")
    default: Scalar | list[Scalar] | None = Field(
        None, description="Value when it is not set. Without one the parameter must be set, unless it is optional."
    )
    sample: str | None = Field(
        None,
        description="Path used when the file itself is run and none of its parameters with a sample has a value: data "
        "to try the workflow on. A workflow that extends this one, or sets one of these parameters, sets them all.",
    )
    help: str | None = Field(None, description="What the parameter is for.")
    optional: bool = Field(default=False, description="Without a value, a key that uses the parameter is dropped.")
    choices: list[Scalar] | None = Field(None, min_length=1, description="The only values allowed.")

    @model_validator(mode="after")
    def _only_paths_have_samples(self) -> Param:
        if self.sample is not None and self.type != "path":
            raise ValueError(
                f"a `sample` is data in a file or folder; a parameter of type `{self.type}` has a `default`"
            )
        return self


TLS = "tls://"

Trust = Literal["network"]


class UntrustedAddressError(ValueError):
    """Nobody proves who answers at an address, and the user does not vouch for it."""

    code = "PF6110"

    def __init__(self, address: str) -> None:
        super().__init__(
            f"nothing proves who answers at `{address}`, and who answers there can run code here; give the cluster "
            "certificates and its address as `tls://...`, or add `trust: network`"
        )


def check_trust(address: str, trust: Trust | None) -> None:
    """Raise `UntrustedAddressError` for the address of a cluster that is neither authenticated nor trusted."""
    if not address.startswith(TLS) and trust != "network":
        raise UntrustedAddressError(address)


class Executor(Model):
    """How the work is run."""

    scheduler: Literal["auto", "sync", "threads", "processes", "distributed"] = Field(
        "auto", description="Where tasks run; `auto` chooses by the bytes to read and the cores there are."
    )
    address: str | None = Field(
        None, description="Address of a running Dask scheduler, for `distributed`.", examples=["tls://host:8786"]
    )
    trust: Trust | None = Field(
        None,
        description="`network`: use an `address` that is not `tls://`, though whoever answers there, or reads and "
        "changes what is sent, can run code on this machine.",
    )
    workers: int | None = Field(None, gt=0, description="Tasks that run at once; default: the cores there are.")
    memory_limit: Size | None = Field(
        None, description="Memory for all workers together, and for the rows of a comparison (PF6109).", examples=SIZES
    )
    batch_timeout: int | None = Field(
        None,
        gt=0,
        description="Seconds that a batch (about 128 MB) may take before its worker is ended; it is tried once more, "
        "then its rows are errors. Needs `scheduler: processes`. Default: as long as its worker lives.",
        examples=[600],
    )

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Executor:
        if self.batch_timeout is not None and self.scheduler != "processes":
            raise ValueError("`batch_timeout` needs `scheduler: processes`, whose workers can be ended")
        if self.address is not None and self.scheduler != "distributed":
            raise ValueError("`address` needs `scheduler: distributed`")
        if self.trust is not None and self.address is None:
            raise ValueError("`trust` needs `address`")
        if self.address is not None:
            check_trust(self.address, self.trust)
        return self


class Cache(Model):
    """What is kept between runs, and where."""

    dir: Annotated[str, IsPath(must_exist=False)] | None = Field(None, description="Folder of the cache.")
    key: Literal["stat", "content"] = Field(
        "stat",
        description="What identifies an input file: its path, size, times and inode, or its bytes, which takes longer. "
        "Copied files, and some remote file systems that number files anew, keep their results by `content` only.",
    )
    tensors: Literal["auto", "always", "never"] = Field(
        "auto", description="Whether converted tensors are kept; `auto` keeps those whose conversion is costly."
    )
    max_size: Size | None = Field(None, description="Size above which the oldest entries are removed.", examples=SIZES)


class WorkflowFile(Model):
    """A workflow: where dumps come from, how they pair up, what is measured, what passes, what is reported."""

    version: Literal[1] = Field(description="Version of this file format.")
    name: str = Field(
        pattern=WORKFLOW_NAME,
        description="Name of the workflow (letters, digits, `.`, `_`, `-`); the run's folder is named after it.",
        examples=["torchair-ge-vs-fx"],
    )
    description: str | None = Field(None, description="What the workflow is for.")
    extends: str | None = Field(
        None,
        description="Workflow that this one changes: a path, or `template:NAME` for one that probe_flow or an "
        "installed package brings.",
    )
    params: dict[str, Param] = Field(default_factory=dict, description="Parameters, read as `${params.NAME}`.")
    stages: dict[str, object] = Field(description="The stages by name; their order does not matter.")
    executor: Executor = Field(default_factory=Executor, description="How the work is run.")
    cache: Cache = Field(default_factory=Cache, description="What is kept between runs.")
    io: Literal["auto", "mmap", "read"] = Field(
        "auto", description="How tensor files are read: in windows (`auto`, `read`), or mapped (`mmap`)."
    )
    metrics_backend: Literal["auto", "numpy", "numba"] = Field(
        "auto",
        description="What computes the metrics. `auto` is numba where there is much to measure and its machine code "
        "is compiled already, which a large run has done when it ends, or `probe-flow doctor --warm-up` does; else "
        "numpy. `numba` compiles what it needs at once. The two differ in the last digits of sums.",
    )


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
