"""`repro`: compute what a comparison suspects again, from its own inputs: is the operator itself wrong?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from probe_flow.stages.base import ComparisonOf, DumpOf, Forecast, IsPath, Kind, Only, StageOptions, StageType
from probe_flow.stages.sizes import SIZES, Size
from probe_flow.work import Context

if TYPE_CHECKING:
    from probe_flow.records import Catalog, Comparison
    from probe_flow.scripts.suspect import Suspect

_MOST = 3
"""Suspects that are taken where nothing says how many."""


class Options(StageOptions):
    """Write a script for each suspect that computes its call again, from its own inputs, and try it.

    What the scripts find is in `reproductions` of run.json, in `show --node` and among the next steps. It changes no
    verdict.
    """

    uses: Literal["repro"]
    comparison: ComparisonOf = Field(description="Stage whose suspects are taken.")
    only: Only | None = Field(
        None,
        description="Take the nodes with such rows, of this comparison or of an earlier one; default: its suspects, at "
        f"most {_MOST}.",
    )
    dumps: list[DumpOf] = Field(
        [],
        max_length=2,
        description="Stages that give the dumps with the tensors, target first; default: what was compared.",
    )
    model: Annotated[str, IsPath(must_exist=True)] | None = Field(
        None,
        description="Of offline models: the ONNX file that the OM was made of, or that the target is a dump of; "
        "default: the file that `dump.onnx` ran.",
        examples=["model.onnx"],
    )
    golden_model: Annotated[str, IsPath(must_exist=True)] | None = Field(
        None, description="The ONNX file that the golden is a dump of, where the target is one of ONNX too."
    )
    python: str | None = Field(
        None, description="The interpreter that has the framework; default: the one that runs probe_flow."
    )
    run_scripts: bool = Field(default=True, description="Whether the scripts are tried, or only written.")
    time_limit: int = Field(600, gt=0, description="Seconds that one script may take.")
    memory_limit: Size | None = Field(
        None, description="What one script may take of memory; default: half of the machine's.", examples=SIZES
    )
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder of the scripts; default: `repro` in the run's own folder."
    )


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the scripts, and what they found."""
    from probe_flow.errors import Diagnostic, Severity
    from probe_flow.scripts.trials.suspects import Trial, reproduce
    from probe_flow.scripts.trials.trial import NOT_RUN, Limits
    from probe_flow.stages.sizes import size_bytes
    from probe_flow.work import Scripts

    suspects = _suspects(options, inputs)
    if not suspects:
        return Scripts(())
    memory = context.settings.memory_bytes or 0
    if options.memory_limit is not None:
        memory = size_bytes(options.memory_limit)
    trial = Trial(options.python or "", Limits(options.time_limit, memory)) if options.run_scripts else None
    folder = Path(options.output) if options.output else context.output / "repro"
    found, problems = reproduce(suspects, folder, trial, announce=context.announce)
    context.report(
        Diagnostic(each.problem.code, each.problem.message, Severity.WARNING, help=each.problem.help)
        for each in problems
    )
    not_run = [each for each in found if each.was_tried and each.said["status"] == NOT_RUN]
    if not_run:
        context.report(
            [
                Diagnostic(
                    "PF6633",
                    f"{len(not_run)} script{'s were' if len(not_run) > 1 else ' was'} written and not run: "
                    f"{not_run[0].said['why']}",
                    Severity.WARNING,
                    help="name the interpreter that has the framework with `python`, or run them where it is installed",
                )
            ]
        )
    files = [path for each in found for path in (each.script.path, *each.script.tensors)]
    results = [each.script.path.with_suffix(".json") for each in found if each.was_tried]
    told = [*(each.fields(context.output) for each in found), *(each.fields() for each in problems)]
    return Scripts(list(dict.fromkeys([*files, *results])), told)


def _suspects(options: Options, inputs: Mapping[str, Sequence[Any]]) -> list[Suspect]:
    from probe_flow.scripts.trials.suspects import suspects_of

    comparison: Comparison = inputs["comparison"][0]
    dumps: Sequence[Catalog] = inputs.get("dumps", ())
    if options.only is None:
        found = suspects_of(comparison, dumps=dumps, limit=_MOST)
        return _with_models(found, options)
    from probe_flow.comparing.asked import suspect_calls
    from probe_flow.stages.compare import asked_only

    calls = suspect_calls(inputs["only.comparison"][0], asked_only(options.only))
    return _with_models(suspects_of(comparison, dumps=dumps, limit=options.only.limit, calls=calls), options)


def _with_models(suspects: list[Suspect], options: Options) -> list[Suspect]:
    from msgspec.structs import replace

    from probe_flow.stages.scripts.onnx_models import onnx_models

    if not suspects:
        return []
    model, other = onnx_models(suspects[0].target, suspects[0].golden, options.model, options.golden_model)
    return [replace(each, model=model, golden_model=other) for each in suspects]


def forecast(options: Options) -> Forecast:
    """Say what will run."""
    where = options.output or "the run's folder"
    if not options.run_scripts:
        return Forecast(f"writes scripts into {where}")
    return Forecast(f"writes scripts into {where}, and runs them in a process of their own")


STAGE = StageType(
    uses="repro",
    produces=Kind.SCRIPTS,
    options=Options,
    run=run,
    summary="Compute what a comparison suspects again, from its own inputs, by scripts that need the framework only.",
    forecast=forecast,
)
