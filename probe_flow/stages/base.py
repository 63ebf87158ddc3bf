"""What a stage is: options (the only place a field is described), what it consumes and produces, and a short run.

A stage module defines ``class Options(StageOptions)``, ``def run(options, inputs, context)`` and
``STAGE = StageType(...)``. Everything heavy is imported inside ``run``: `validate` loads the options only.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, TypeAlias

from msgspec import Struct
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from probe_flow.errors import Diagnostic
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.dumps.selection import Selection


class Kind(enum.Enum):
    """The type of a stage's result; a stage that consumes another kind is rejected before anything runs."""

    CATALOG = "catalog"
    PAIRS = "pairs"
    COMPARISON = "comparison"
    REPORT = "report"
    SCRIPTS = "scripts"


class Consumes(Struct, frozen=True):
    """Marks an option as the name of a stage whose result is of ``kind``; ``family``: the only stages that it may be.

    >>> Consumes(Kind.CATALOG, "dump").takes("dump.om"), Consumes(Kind.CATALOG, "dump").takes("convert.npy")
    (True, False)
    """

    kind: Kind
    family: str = ""

    def takes(self, uses: str) -> bool:
        """Tell whether a stage is of the family that is asked for."""
        return not self.family or uses.partition(".")[0] == self.family


CatalogOf = Annotated[str, Consumes(Kind.CATALOG)]
DumpOf = Annotated[str, Consumes(Kind.CATALOG, "dump")]
PairsOf = Annotated[str, Consumes(Kind.PAIRS)]
ComparisonOf = Annotated[str, Consumes(Kind.COMPARISON)]


class IsPath(Struct, frozen=True):
    """Marks an option as a path: relative to the workflow file, or to the working directory when set by ``--set``.

    Args:
        must_exist: before the run.
        is_data: False for what a run uses but does not compare, such as the folder of a model's code.
        path_in: for values that are more than a path, or none: returns what they begin with that is one.
    """

    must_exist: bool = True
    is_data: bool = True
    path_in: Callable[[str], str | None] | None = None

    def in_value(self, value: str) -> str | None:
        """Return the path in a value of the option; None if it is none."""
        return value if self.path_in is None else self.path_in(value)


DumpPath = Annotated[str, IsPath()]


class Model(BaseModel):
    """Base of everything in a workflow file: unknown keys are errors, values are not converted, nothing mutates."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, arbitrary_types_allowed=False, defer_build=True)


MatrixValue: TypeAlias = str | int | float | bool
"""What an entry of a matrix may be."""


class Matrix(Model):
    """Entries, each with its values; one variant for every combination of them."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, list[MatrixValue]]

    include: list[dict[str, MatrixValue]] | None = Field(
        None, description="Further combinations, each with a value for every entry."
    )
    exclude: list[dict[str, MatrixValue]] | None = Field(
        None, description="Combinations to leave out: those that have all values of one of these."
    )


class Select(Model):
    """Narrow a dump to some executions or nodes. An absent key selects everything."""

    ranks: list[int] | None = Field(None, description="Global ranks to read.", examples=[[0, 1]])
    steps: list[int] | None = Field(None, description="Steps (tokens, iterations) to read, from 0.", examples=[[0]])
    graphs: list[int | str] | None = Field(None, description="Graph ids to read.", examples=[[1]])
    nodes: list[str] | None = Field(
        None, description="Glob patterns of node names to read, e.g. `MatMul*`.", examples=[["MatMul*"]]
    )

    @property
    def selection(self) -> Selection:
        """The same for a reader."""
        from probe_flow.dumps.selection import Selection

        return Selection(self.ranks, self.steps, self.graphs, self.nodes)


_FACTS = ("verdict", "role", "node", "op_type")
"""Keys that take patterns; every other key is a metric id with a bound."""


def _where(where: dict[str, str | list[str]]) -> dict[str, str | list[str]]:
    from probe_flow.analysis.policies.bounds import checked_bound
    from probe_flow.errors import UsageError, did_you_mean
    from probe_flow.metrics.catalogue.registry import find_metric
    from probe_flow.packages import BrokenPackageError
    from probe_flow.records import Role, Status

    words = {"verdict": [each.value for each in Status], "role": [each.value for each in Role]}
    for key, given in where.items():
        wanted = [given] if isinstance(given, str) else given
        if key in _FACTS:
            known = words.get(key, ())
            for glob in wanted if known else ():
                if not any(fnmatchcase(word, glob) for word in known):
                    hint = did_you_mean(glob, known) or f"there are {', '.join(known)}"
                    raise ValueError(f"no {key} is `{glob}`; {hint}")
            continue
        try:
            find_metric(key)
        except BrokenPackageError:
            raise
        except UsageError as error:
            hint = did_you_mean(key, _FACTS) or f"facts: {', '.join(_FACTS)}; {error.diagnostic.help}"
            raise ValueError(f"`{key}` is neither a fact of a row nor a metric; {hint}") from error
        for text in wanted:
            checked_bound(text)
    return where


class Only(Model):
    """Narrow a stage to the nodes that an earlier comparison suspects."""

    comparison: ComparisonOf = Field(description="Stage whose rows are searched.")
    where: Annotated[dict[str, str | list[str]], AfterValidator(_where)] = Field(
        description="Conditions on its rows, all of which must hold: `verdict`, `role`, `node`, `op_type` as glob "
        "patterns, or a metric id with a bound such as `< 0.99`."
    )
    limit: int | None = Field(None, gt=0, description="At most this many nodes, in execution order.")


class StageOptions(Model):
    """Options that every stage has."""

    uses: str = Field(description="`kind.variant` of the stage.")
    description: str | None = Field(None, description="What the stage is for, for people.")
    matrix: Matrix | None = Field(
        None,
        description="Variants of this stage: one instance per combination of the entries' values, read as "
        "`${matrix.NAME}`.",
    )

    @property
    def is_endless(self) -> bool:
        """Whether the stage ends only when it is told to, so that nothing may wait for its result."""
        return False


Duplicates = Literal["newest", "largest", "first"]


class Run(Protocol):
    """``inputs`` maps each consuming option to the results of the stages it names (several for a matrix)."""

    def __call__(self, options: Any, inputs: Mapping[str, Sequence[Any]], context: Context) -> object: ...


class Forecast(Struct, frozen=True):
    """What a stage would do beyond reading its inputs, told without doing it.

    Args:
        does: in words, for the plan: what it runs, and where it writes.
        problems: why it cannot.
        writes: about how many bytes it would write, or what is known of it in words, behind "writes"; asked for by
            those who show a plan. None where there is nothing to say.
        problems_with: why it cannot with what these stages give: the options of those that it takes results from, by
            its own option that names them. Asked when a run is planned, so it may look at the head of a dump.
    """

    does: str
    problems: tuple[Diagnostic, ...] = ()
    writes: Callable[[], int | str | None] | None = None
    problems_with: Callable[[Mapping[str, Sequence[StageOptions]]], Iterable[Diagnostic]] | None = None


class StageType(Struct, frozen=True):
    """A stage as the workflow and the engine see it.

    Args:
        uses: ``kind.variant`` (or just ``kind``).
        produces: kind of the result.
        options: pydantic model of the options.
        run: does the work.
        summary: one line for `templates`, docs and the schema.
        extends: name of the option whose comparison the stage gives back with more findings; the run then has this one
            in its place. Empty for all that judge by themselves; a stage may do either.
        forecast: says what the stage would do with its options if it runs something of the user's, and why it cannot do
            what they ask for; None if neither.
    """

    uses: str
    produces: Kind
    options: type[StageOptions]
    run: Run
    summary: str
    forecast: Callable[[Any], Forecast | None] | None = None
    extends: str = ""

    def foresee(self, options: StageOptions) -> Forecast | None:
        """Return what the stage would do beyond reading; None when it only reads."""
        return self.forecast(options) if self.forecast is not None else None
