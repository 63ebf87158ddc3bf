"""`precheck`: run every API call of a dump again, alone, beside a benchmark in higher precision."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from probe_flow.errors import Diagnostic, UsageError
from probe_flow.records.frameworks import MINDTORCH, Kernels
from probe_flow.stages.base import DumpOf, Forecast, IsPath, Kind, Only, StageOptions, StageType
from probe_flow.work import Context

if TYPE_CHECKING:
    from collections.abc import Collection

    from probe_flow.records import Catalog, Framework

_MEMORY_SHARE = 0.5
"""Of what the machine or the run has, for the tensors of one call."""


_BENCHMARKS = {Kernels.MINDSPORE: "float64_rounded", Kernels.PYTORCH: "raise_one"}


def _devices(devices: list[int]) -> list[int]:
    if len(set(devices)) != len(devices):
        raise ValueError("a device is named twice")
    return devices


class Options(StageOptions):
    """Check each API of a dump alone: run it on this device and on a benchmark, and compare what both give."""

    uses: Literal["precheck"]
    source: DumpOf = Field(description="Stage that gives the dump: one `dump.json` of level L1 or mix.")
    benchmark: Literal["auto", "float64_rounded", "float64", "raise_one", "same"] = Field(
        "auto",
        description="Precision of the benchmark: float64 with results rounded to the tested type, float64 as it is, "
        "the next wider type, or the same type. `auto`: `float64_rounded` for MindSpore and for overflows, `raise_one` "
        "for PyTorch and for the standards, which are made for it.",
    )
    generator: Literal["per_slot", "ms_seed42"] = Field(
        "per_slot",
        description="How inputs are made of a dump of statistics: differently for each tensor, or as msprobe makes "
        "them, one seed before each.",
    )
    judge: Literal["acc_check", "standard", "overflow"] = Field(
        "acc_check",
        description="What decides. `acc_check`: cosine and largest absolute error for MindSpore, statuses of msprobe "
        "for PyTorch. `standard`, for MindSpore: the precision standard of the API, with torch in the recorded types "
        "as the other device. `overflow`: whether results that are not finite in the dump are so on the benchmark "
        "too; other calls are left out.",
    )
    max_abs_err_threshold: float = Field(
        1e-4, gt=0, description="A result passes if its largest absolute error is below it and its cosine above 0.99."
    )
    standards: Literal["per_api", "benchmark_only"] = Field(
        "per_api",
        description="PyTorch: whether each API has the standard that is listed for it, or all floats that of two "
        "devices.",
    )
    save_error_data: bool = Field(
        default=False,
        description="Whether inputs and results of calls that fail are saved; of MindSpore, for dumps of statistics.",
    )
    error_data: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder that these data go into, in a folder with the time in its name; default: `output`."
    )
    white_list: list[str] = Field([], description="Check these APIs only, e.g. `linear`.", examples=[["linear"]])
    black_list: list[str] = Field([], description="Leave these APIs out.", examples=[["dropout"]])
    filter_api: bool = Field(
        default=False, description="Check only the first of calls of an API that are alike but for their values."
    )
    jit_compile: bool = Field(
        default=False, description="PyTorch on an NPU: compile each operator for its shape, in place of ready ones."
    )
    devices: Annotated[list[int], AfterValidator(_devices)] = Field(
        [0], min_length=1, description="Numbers of the devices; a worker process each.", examples=[[0, 1]]
    )
    time_limit: int = Field(600, gt=0, description="Seconds that one call may take.")
    output: Annotated[str, IsPath(must_exist=False)] | None = Field(
        None, description="Folder of the tables; default: the run's own folder."
    )
    resume: Annotated[str, IsPath(is_data=False)] | None = Field(
        None, description="Table of calls (`accuracy_checking_result_*.csv`) of a check that did not end: continue it."
    )
    force_resume: bool = Field(
        default=False, description="Continue it even if it is of another dump or other options, or was changed."
    )
    only: Only | None = Field(None, description="Check only the APIs that an earlier comparison suspects.")


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs of all calls."""
    from probe_flow.files.machine import memory_of_machine
    from probe_flow.metrics.catalogue.registry import metric_ids, options_for
    from probe_flow.precheck.checked import Choice
    from probe_flow.precheck.jobs import How, data_folder, find_calls
    from probe_flow.precheck.pairs import PrecheckRule, make_pairs
    from probe_flow.precheck.run import Request, check_calls

    source: Catalog = inputs["source"][0]
    choice = Choice(
        _suspects(options, inputs),
        frozenset(options.white_list),
        frozenset(options.black_list),
        options.filter_api,
        options.judge == "overflow",
    )
    found = find_calls(source, choice)
    data, kernels = data_folder(source), source.framework.kernels
    assert kernels is not None, "`find_calls` refuses others"
    if options.judge == "standard" and kernels is Kernels.PYTORCH:
        raise UsageError(
            Diagnostic(
                "PF6613",
                f"`{source.root}` is a dump of {source.framework.name}, and `judge: standard` is for MindSpore",
                path=source.root,
                help="check it on two devices, and hold their tables against each other by `api_precision_compare`",
            )
        )
    if found.entries:
        _check_packages(source, is_run=data is None)
    memory = context.settings.memory_bytes or memory_of_machine() or 1 << 62
    how = How(
        _benchmark(options, kernels),
        options.generator,
        options.max_abs_err_threshold,
        data,
        None,
        int(memory * _MEMORY_SHARE),
        options_for(metric_ids("default")),
        kernels,
        source.framework.name == MINDTORCH.name,
        options.standards,
        options.judge,
        options.jit_compile,
        devices=tuple(options.devices),
    )
    request = Request(
        Path(options.output) if options.output else context.output,
        Path(options.resume) if options.resume else None,
        options.force_resume,
        options.save_error_data and (data is None or kernels is Kernels.PYTORCH),
        Path(options.error_data) if options.error_data else None,
        options.time_limit,
        context.announce,
    )
    outcome = check_calls(source, found, how, request, context.isolate)
    context.report(outcome.problems)
    rule = PrecheckRule.OVERFLOW if options.judge == "overflow" else PrecheckRule.CHECKED
    return make_pairs(source, found, outcome.results, outcome.tables, rule)


def _benchmark(options: Options, kernels: Kernels) -> str:
    if options.benchmark != "auto":
        return options.benchmark
    if options.judge == "acc_check":
        return _BENCHMARKS[kernels]
    return "float64_rounded" if options.judge == "overflow" else "raise_one"


def _suspects(options: Options, inputs: Mapping[str, Sequence[Any]]) -> Collection[tuple[object, str]] | None:
    if options.only is None:
        return None
    from probe_flow.comparing.asked import suspect_nodes
    from probe_flow.stages.compare import asked_only

    return suspect_nodes(inputs["only.comparison"][0], asked_only(options.only))


def _check_packages(source: Catalog, *, is_run: bool) -> None:
    problems = [*_lacking(source.framework, is_run=is_run)]
    if problems:
        raise UsageError(problems)


def _lacking(framework: Framework | None, *, is_run: bool) -> Iterator[Diagnostic]:
    """Yield why calls of a framework cannot be checked on this machine; every benchmark runs in torch.

    Args:
        framework: that wrote the dump; None where that is not known yet.
        is_run: whether the calls run in it, as those of a dump of statistics do; one of tensors has their results.
    """
    needed = ["torch"]
    if is_run and framework is not None and framework.kernels is Kernels.MINDSPORE:
        needed.insert(0, "mindspore")
    lacking = [package for package in needed if find_spec(package) is None]
    if lacking:
        whose = "" if framework is None else f" of {framework.name}"
        names = " and ".join(f"`{package}`" for package in lacking)
        yield Diagnostic(
            "PF6604",
            f"checking APIs{whose} needs {names}, not installed here",
            help=f"pip install {' '.join(lacking)}, in the environment that runs probe_flow",
        )
    if is_run and framework is not None and framework.name == MINDTORCH.name:
        yield from _lacking_torch()


def _lacking_torch() -> Iterator[Diagnostic]:
    from probe_flow.precheck.far_torch import folders_of_torch

    found = folders_of_torch(sys.path)
    if len(found) == 1:
        yield Diagnostic(
            "PF6604",
            "checking APIs of mindtorch needs two packages named `torch`, MSAdapter and PyTorch, and there is only "
            f"that in `{found[0]}`",
            help="install PyTorch in the environment that runs probe_flow, and put the folder of MSAdapter first "
            "on PYTHONPATH",
        )


def forecast(options: Options) -> Forecast:
    """Say what will run, and what it lacks on this machine."""
    where = options.output or "the run's folder"
    does = f"runs each API of the dump in {len(options.devices)} worker processes, and writes into {where}"
    return Forecast(does, problems_with=_lacking_for)


def _lacking_for(given: Mapping[str, Sequence[StageOptions]]) -> Iterator[Diagnostic]:
    """Yield what the check of a dump lacks, as far as the head of the dump says what it needs."""
    from probe_flow.dumps.dump_json.head import read_head

    path = getattr(given["source"][0], "path", None)
    head = read_head(Path(path)) if path is not None else None
    framework = head.framework if head is not None else None
    yield from _lacking(framework, is_run=head is not None and head.task == "statistics")


STAGE = StageType(
    uses="precheck",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Run every API call of a dump again, alone, beside a benchmark in higher precision.",
    forecast=forecast,
)
