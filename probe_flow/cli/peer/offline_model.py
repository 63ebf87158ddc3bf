"""Offline models whose original is at hand: `compare -m offline_model` runs it on this machine, and then compares.

The device side is a dump, or the `.om` itself on the machine that has the device.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from probe_flow.cli.peer.compare_workflow import Wanted, replaced, with_options
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.existing import is_folder

if TYPE_CHECKING:
    from probe_flow.workflow.model import ResolvedStage, Workflow

TEMPLATES: Mapping[str, str] = MappingProxyType(
    {
        ".onnx": "offline_onnx_oneclick",
        ".prototxt": "offline_caffe_oneclick",
        ".pb": "offline_tensorflow_oneclick",
        ".meta": "offline_tensorflow_oneclick",
        "/": "offline_tensorflow_oneclick",
    }
)
"""Ending of the original model's file, ``/`` for a folder -> the packaged workflow that runs it."""

OM = ".om"
"""Ending of an offline model, which the device runs."""

OFFLINE_MODEL = "offline_model"
"""Value of `compare -m`."""

_LEVELS = 8
_MAX_SHAPES = 1000
_SIZE = r"\d{1,9}"
_RANGE = re.compile(rf"{_SIZE}(?:~{_SIZE}(?:~{_SIZE})?|(?:-{_SIZE})*)")


class ModelInputs(Struct, frozen=True):
    """What the original model is fed with, as the command line has it.

    Args:
        data: files with commas between them.
        shape: ``x:1,3,224,224;y:1,5``.
        shape_range: the same with ranges ``200~224~8`` and lists ``224-230``.
        output_size: bytes of the outputs on the device, of use where it runs the model.
        fusion_switch: ``True`` to optimise the graph first.
    """

    data: str | None = None
    shape: str | None = None
    shape_range: str | None = None
    output_size: str | None = None
    fusion_switch: str | None = None


class Variant(Struct, frozen=True):
    """One run of a model: its shapes as text, and the name of its folder; empty for the only one."""

    shape: str | None
    folder: str = ""


def template_for(model: Path, option: str) -> str:
    """Return the name of the packaged workflow that runs a model.

    Raises:
        UsageError: PF2140 for a model that only the device runs, or none that is known.
    """
    if model.suffix == OM:
        raise UsageError(
            Diagnostic(
                "PF2140",
                f"`{option}`: `{model.name}` runs on the device only",
                help="give the original model here, and the `.om` or its dump as `-tp`",
            )
        )
    found = TEMPLATES.get("/" if is_folder(model) else model.suffix)
    if found is None:
        kinds = ", ".join(f"`{ending}`" for ending in TEMPLATES if ending != "/") + ", or the folder of a SavedModel"
        what = f"`{option}`: `{model.name}` is no model that can be run here"
        raise UsageError(Diagnostic("PF2140", what, help=f"it takes {kinds}"))
    return found


def variants_of(inputs: ModelInputs) -> list[Variant]:
    """Return the runs that the shapes ask for, one a combination of sizes.

    Raises:
        UsageError: PF2141 for shapes that cannot be read, or too many of them.
    """
    if inputs.shape_range is None:
        return [Variant(inputs.shape)]
    parts = [part for part in inputs.shape_range.split(";") if part]
    axes = [[_sizes(size, inputs.shape_range) for size in part.rpartition(":")[2].split(",")] for part in parts]
    names = [part.rpartition(":")[0] for part in parts]
    count = 1
    for sizes in itertools.chain.from_iterable(axes):
        count *= len(sizes)
    if not all(names) or not parts or count > _MAX_SHAPES:
        raise _no_range(inputs.shape_range, f"it means {count} shapes" if count > _MAX_SHAPES else "")
    each = [[",".join(map(str, sizes)) for sizes in itertools.product(*part)] for part in axes]
    found = []
    for chosen in itertools.product(*each):
        text = ";".join(f"{name}:{sizes}" for name, sizes in zip(names, chosen, strict=True))
        found.append(Variant(text, re.sub(r"[^A-Za-z0-9_.-]", "_", re.sub(r"[:;]", "-", text.replace(",", "_")))))
    return found


def _sizes(text: str, whole: str) -> Sequence[int]:
    """Return the sizes of one axis: ``224``, ``200~224``, ``200~224~8`` or ``224-230``.

    >>> list(_sizes("200~224~8", "")), list(_sizes("224-230", ""))
    ([200, 208, 216, 224], [224, 230])
    """
    if not _RANGE.fullmatch(text.strip()):
        raise _no_range(whole, f"`{text}` is no size, range or list")
    first, *more = map(int, text.split("~")) if "~" in text else (0, 0)
    if "~" in text:
        if not first <= more[0] or (len(more) > 1 and not more[1]):
            raise _no_range(whole, f"`{text}` holds nothing")
        return range(first, more[0] + 1, more[1] if len(more) > 1 else 1)
    return [int(size) for size in text.split("-")]


def _no_range(text: str, why: str) -> UsageError:
    return UsageError(
        Diagnostic(
            "PF2141",
            f"`--dym_shape_range`: `{text}` cannot be used" + (f": {why}" if why else ""),
            help="write `x:1,3,200~224~8,224-230`: `from~to[~step]` is a range, `a-b-c` a list",
        )
    )


def model_workflow(
    template: str,
    paths: Mapping[str, Path],
    rule: Path | None,
    inputs: ModelInputs,
    variant: Variant,
    *,
    cwd: Path,
    ranks: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
) -> Workflow:
    """Return the packaged workflow that compares a dump with a model, as the command line wants it.

    Args:
        template: its name.
        paths: of `target` and `golden`.
        rule: fusion rules; None = those beside the dump, else pairs are guessed.
        inputs: of the model.
        variant: the shapes of this run.
        cwd: the working directory.
        ranks, steps: of the dump to keep; of a model, the device that runs it.

    Raises:
        UsageError: PF2140 for several devices to run a model on.
    """
    from probe_flow.workflow.loading.loader import load_workflow
    from probe_flow.workflow.templates.packaged import templates

    sets = {name: str(path) for name, path in paths.items()} | files_of(paths["golden"])
    is_model = paths["target"].suffix == OM
    beside = paths["target"] if is_model else rule_beside(paths["target"])
    found = rule if rule is not None else beside
    # A parameter that is not optional, and that the stages below lose again.
    sets["fusion_rule"] = str(found if found is not None else paths["target"])
    if variant.shape is not None:
        sets["input_shape"] = variant.shape
    workflow = load_workflow(templates()[template], sets=sets, env=os.environ, cwd=cwd)
    stages = tuple(_adapted(stage, inputs, cwd, has_rule=found is not None) for stage in workflow.stages)
    if is_model:
        if len(ranks or ()) > 1 or steps is not None:
            what = f"the model `{paths['target'].name}` runs once, on one device"
            raise UsageError(Diagnostic("PF2140", what, help="give one number with `--rank`, and leave `--step` out"))
        run = on_device(paths["target"], inputs, variant, cwd, device=ranks[0] if ranks else None)
        stages = tuple(replaced(stage, "dump.om", run) if stage.name == "target" else stage for stage in stages)
    else:
        kept = {name: list(chosen) for name, chosen in (("ranks", ranks), ("steps", steps)) if chosen is not None}
        stages = tuple(with_options(stage, select=kept) if stage.name == "target" else stage for stage in stages)
    return replace(workflow, stages=stages)


def on_device(
    model: Path, inputs: ModelInputs, variant: Variant, cwd: Path, *, device: int | None, output: Path | None = None
) -> dict[str, Any]:
    """Return the options of the stage that has the device run an offline model.

    Args:
        model: its file.
        inputs: of the model.
        variant: the shapes of this run.
        cwd: the working directory.
        device: its number; None = the first.
        output: folder of the dump; None = below that of the run.
    """
    options = {
        "model": str(model),
        "inputs": {"files": _files(inputs.data, cwd)} if inputs.data is not None else None,
        "input_shape": variant.shape,
        "output_size": inputs.output_size,
        "device": device,
        "output": str(output) if output is not None else None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _files(text: str, cwd: Path) -> list[str]:
    return [str(cwd / file) for file in text.split(",") if file]


def _adapted(stage: ResolvedStage, inputs: ModelInputs, cwd: Path, *, has_rule: bool) -> ResolvedStage:
    """Return a stage as the command line has it."""
    changed: dict[str, Any] = {}
    given = stage.options.model_dump(by_alias=True, exclude_unset=True)
    if "fusion_rule" in given and not has_rule:
        changed["fusion_rule"] = None
    changed_stage = with_options(stage, **changed) if changed else stage
    return _fed(changed_stage, inputs, cwd) if "model" in given else changed_stage


def as_stage_has_it(stage: ResolvedStage, inputs: ModelInputs, cwd: Path, *, output: Path) -> ResolvedStage:
    """Return the stage that runs a model, by itself: fed from files or a seed, its dump in a folder."""
    alone = with_options(stage, recorded_by=None, fusion_rule=None, output=str(output))
    return _fed(replace(alone, inputs={}), inputs, cwd)


def _fed(stage: ResolvedStage, inputs: ModelInputs, cwd: Path) -> ResolvedStage:
    """Return the stage that runs a model with the inputs that the command line names."""
    changed: dict[str, Any] = {}
    if inputs.data is not None:
        changed["inputs"] = {"files": _files(inputs.data, cwd)}
    if (inputs.fusion_switch or "").lower() == "true" and "optimizations" in type(stage.options).model_fields:
        changed["optimizations"] = "all"
    return with_options(stage, **changed) if changed else stage


def files_of(model: Path) -> dict[str, str]:
    """Return the other files of a model by the parameters of its workflow: a Caffe model has its weights beside it.

    Raises:
        UsageError: PF2140 when they are not there.
    """
    if model.suffix != ".prototxt":
        return {}
    found = sorted(model.parent.glob("*.caffemodel"))
    same = [path for path in found if path.stem == model.stem]
    if not same and len(found) != 1:
        what = f"`{model.name}` has no `{model.stem}.caffemodel` beside it"
        cure = "copy the weights there under that name, or name them with `weights` in a workflow"
        raise UsageError(Diagnostic("PF2140", what, help=cure, path=str(model)))
    return {"weights": str((same or found)[0])}


def rule_beside(dump: Path) -> Path | None:
    """Return the rules that the tool which dumped a model left beside the dump, `model/{name}.json`."""
    for above in [dump, *dump.parents][:_LEVELS]:
        if is_folder(above / "model"):
            found = sorted((above / "model").glob("*.json"))
            return found[0] if len(found) == 1 else None
    return None


def reports_in(workflow: Workflow, output: Path, *, is_xlsx: bool, shows_overflow: bool) -> Workflow:
    """Return a workflow whose tables go to a folder, and all other reports to that of the run."""

    def reported(stage: ResolvedStage) -> Iterator[ResolvedStage]:
        from probe_flow.stages.base import Kind

        if stage.type.produces is not Kind.REPORT:
            yield stage
            return
        formats = stage.options.model_dump(by_alias=True)["formats"]
        tables: list[Any] = [entry for entry in formats if isinstance(entry, dict)]
        if is_xlsx:
            tables = [{"xlsx": entry["csv"]} if entry.get("csv") else entry for entry in tables]
        columns = ["model_flags", *(["overflow"] if shows_overflow else [])]
        yield with_options(stage, formats=tables, output=str(output), columns=columns)
        others = [entry for entry in formats if not isinstance(entry, dict)]
        yield replace(with_options(stage, formats=others, columns=[]), name=f"{stage.name}_files")

    return replace(workflow, stages=tuple(each for stage in workflow.stages for each in reported(stage)))


class Running(Struct, frozen=True):
    """How the runs are made: working directory, folder of their records, and how work is spread."""

    cwd: Path
    folder: Path | None
    scheduler: str | None
    workers: int | None
    strict: tuple[str, ...]


def check_not_fed(inputs: ModelInputs) -> None:
    """Refuse options of a model's run where none is run.

    Raises:
        UsageError: PF2129.
    """
    names = ("--input_data", "--input_shape", "--dym_shape_range", "--output_size", "-ofs")
    given = [name for name, value in zip(names, asdict(inputs).values(), strict=True) if value is not None]
    if given:
        what = " and ".join(f"`{name}`" for name in given)
        cure = f"leave it out, or give the model as the golden side with `-m {OFFLINE_MODEL}`"
        raise UsageError(Diagnostic("PF2129", f"{what} is for running offline models", help=cure))


def compare_model(
    paths: Mapping[str, Path],
    inputs: ModelInputs,
    wanted: Wanted,
    checked: Callable[[Workflow], Workflow],
    running: Running,
) -> int:
    """Run the golden model once for each shape, compare it with the dump of that shape, and return the exit code.

    Args:
        paths: of `target`, a dump or an offline model, and `golden`, the original model.
        inputs: of the model.
        wanted: tables and rules.
        checked: sets what a run must cover.
        running: how the runs are made.

    Raises:
        UsageError: PF2101, PF2129, PF2140, PF2141.
    """
    if wanted.match or wanted.finds_first or wanted.rules.keys() - {"fusion_rule"}:
        what = "an original model is paired by the fusion rules of the OM (`-fr`) alone"
        raise UsageError(Diagnostic("PF2129", what, help="leave the other options that pair out"))
    template = template_for(paths["golden"], "-gp")
    is_model = paths["target"].suffix == OM and paths["target"].is_file()
    if paths["target"].is_file() and not is_model:
        template_for(paths["target"], "-tp")
    variants = variants_of(inputs)
    rule = wanted.rules.get("fusion_rule")
    codes = []
    for variant in variants:
        target = paths["target"] if is_model else paths["target"] / variant.folder
        if not is_model and not target.is_dir():
            cure = "the dumps of several shapes lie in a folder each, named by the shapes"
            what = f"`-tp`: there is no dump of the shapes `{variant.shape}`: `{target}` does not exist"
            raise UsageError(Diagnostic("PF2101", what, path=str(target), help=cure))
        chosen = {**paths, "target": target}
        rules = running.cwd / rule if rule is not None else None
        selected = {"ranks": wanted.ranks, "steps": wanted.steps}
        workflow = checked(model_workflow(template, chosen, rules, inputs, variant, cwd=running.cwd, **selected))
        output = wanted.output / variant.folder
        workflow = reports_in(workflow, output, is_xlsx=wanted.is_xlsx, shows_overflow=wanted.shows_overflow)
        codes.append(show_variant(workflow, variant, running))
    return worst_of(codes)


def show_variant(workflow: Workflow, variant: Variant, running: Running) -> int:
    """Run a workflow, show what came of it, and return the exit code."""
    from probe_flow.api.running import How
    from probe_flow.cli.terminal.running import show_run
    from probe_flow.engine.run.plan import make_plan

    plan = make_plan(workflow, scheduler=running.scheduler, workers=running.workers)
    folder = running.folder / variant.folder if running.folder is not None else None
    return show_run(plan, output=folder, cwd=running.cwd, how=How(strict=running.strict, output_option="-o"))


def worst_of(codes: Sequence[int]) -> int:
    """Return the exit code of several runs: incomplete outranks failed, which outranks passed."""
    return next((code for code in (130, 2, 3, 1) if code in codes), 0)
