"""`compare`: two dumps without a workflow file. The workflow is made here, and runs as any other."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from probe_flow.api.arguments import expect, known_names, names, one_of, path_of, plain, wrong_argument
from probe_flow.api.dumps import AUTO, match_stage
from probe_flow.api.problems import told_whole
from probe_flow.api.run import finished, planned
from probe_flow.api.running import How
from probe_flow.api.scenario import OF_OTHERS, framework_at, scenario_of
from probe_flow.api.stored_run import remove_folder
from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.files.existing import exists
from probe_flow.files.leftovers import temporary_path
from probe_flow.workflow.sources import PYTHON

if TYPE_CHECKING:
    from probe_flow.api.stored_run import Run
    from probe_flow.engine.run.plan import Plan
    from probe_flow.engine.run.tasks import Progress
    from probe_flow.workflow.model import Workflow

NAME = "pf.compare"
"""What messages call the workflow of a call."""

SIDES = ("target", "golden", "reference")

_GIVEN = ("uses", "pairs", "matrix", "only", "policy")
"""Options of the stage that a call gives another way, or that need a workflow of several comparisons."""


@told_whole()
def compare(
    target: str | os.PathLike[str],
    golden: str | os.PathLike[str],
    *,
    match: str | Mapping[str, object] = AUTO,
    policy: str | Sequence[Mapping[str, object]] = AUTO,
    reference: str | os.PathLike[str] | None = None,
    kind: str | Mapping[str, str] = AUTO,
    ranks: Sequence[int] | None = None,
    steps: Sequence[int] | None = None,
    graphs: Sequence[int | str] | None = None,
    nodes: Sequence[str] | None = None,
    reports: str | Sequence[object] = (),
    output: str | os.PathLike[str] | None = None,
    resume: bool = False,
    cache: bool = True,
    strict: str | Sequence[str] = (),
    scheduler: str | None = None,
    workers: int | None = None,
    progress: bool | Progress = False,
    **options: object,
) -> Run:
    """Compare two dumps and return what came of it, as `run` does for a workflow.

    Without `output` the run's folder is a hidden one in the system's folder for temporary files. It is removed with the
    result, at the latest when the process ends. What was measured stays in the cache.

    Args:
        target: the dump under test.
        golden: the dump that it is judged by.
        match: how tensors are paired: `name`, `structure`, `torchair` ... (the stages `match.*`), or such a stage as a
            workflow has it, ``{"uses": "match.layer_mapping", "mapping": "layers.yaml"}``; `auto`: as the packaged
            workflow for such dumps.
        policy: what judges the rows: a name, or rules as a workflow has them; `auto`: as `match`.
        reference: an optional third dump, of the golden's model in higher precision, that judges both.
        kind: what the dumps are, as the option `kind` of `dump.auto`, or that by side; `auto`: by the names of files.
        ranks, steps, graphs, nodes: read only these of each dump.
        reports: files to write, as `formats` of a report stage: ``"html"``, ``["junit", {"csv": "torchair"}]``.
        output: folder of the run, where it stays.
        resume: continue the run in `output` that did not end.
        cache: whether what was measured before is used, and what is measured is kept.
        strict: codes of warnings that count as errors, ``x`` for any digit.
        scheduler, workers, progress: as for `run`.
        options: further options of the stage `compare`: ``metrics``, ``gate``, ``waivers``, ``baseline`` ...

    Raises:
        WorkflowError: options that are wrong, all at once; PF2101 for paths that do not exist.
        UsageError: PF3430 for a path without a known dump, PF2122 when `auto` knows no way to pair the two, and as for
            `run`.
        KeyboardInterrupt: Ctrl-C; with `output`, `resume` continues the run.

    >>> import probe_flow as pf
    >>> run = pf.compare("examples/torchair/faulty/msprobe_ge_dump", "examples/torchair/faulty/msprobe_fx_dump")
    >>> run
    <Run FAIL ...>
    >>> run.origin
    <Origin Gelu_1 (Gelu) output 0, rank 0, graph 1, step 0, 25.5 x rounding, scale +2.15%>
    """
    _check_options(options)
    paths = {"target": path_of("target", target), "golden": path_of("golden", golden)}
    if reference is not None:
        paths["reference"] = path_of("reference", reference)
    select = {"ranks": ranks, "steps": steps, "graphs": graphs, "nodes": nodes}
    kinds = _kinds(kind)
    how_to = _match_and_policy(paths, kinds, match, policy)
    stages = _stages(
        paths,
        kinds,
        select={name: value for name, value in select.items() if value is not None},
        match=how_to[0],
        compare={"policy": how_to[1], **options},
        reports=reports,
    )
    how = How(no_cache=not cache, resume=resume, strict=names("strict", strict))
    plan = planned(_workflow(paths, stages), scheduler=scheduler, workers=workers)
    if output is not None:
        return finished(plan, output=path_of("output", output), how=how, progress=progress)
    return _in_temporary_folder(plan, how, progress=progress)


def _check_options(options: Mapping[str, object]) -> None:
    """Refuse names that neither `compare` nor its stage has."""
    from probe_flow.stages.compare import STAGE

    known = [*known_names(compare), *(name for name in STAGE.options.model_fields if name not in _GIVEN)]
    for name in options:
        if name not in known:
            cure = did_you_mean(name, known) or "arguments: " + ", ".join(known)
            raise UsageError(Diagnostic("PF2130", f"there is no argument `{name}` of `compare`", help=cure))


def _kinds(kind: str | Mapping[str, str]) -> Mapping[str, str]:
    """Return the kinds that are given, by side."""
    expect("kind", kind, (str, Mapping), "a text, or a text by side")
    given = kind if isinstance(kind, Mapping) else dict.fromkeys(SIDES, kind)
    for side in given:
        one_of("kind", side, SIDES)
    return {side: each for side, each in given.items() if each != AUTO}


def _match_and_policy(
    paths: Mapping[str, Path],
    kinds: Mapping[str, str],
    match: str | Mapping[str, object],
    policy: str | Sequence[Mapping[str, object]],
) -> tuple[dict[str, object], object]:
    """Return the match stage without the sides that it pairs, and the policy."""
    expect("match", match, (str, Mapping), "a text or a stage")
    own: dict[str, object] = {"uses": match_stage(match)} if isinstance(match, str) else dict(match)
    scenario = OF_OTHERS
    if AUTO in (match, policy) and all(map(exists, paths.values())):  # else the plan says which do not exist
        target, golden = (framework_at(paths[side], kinds.get(side)) for side in ("target", "golden"))
        try:
            scenario = scenario_of(target, golden)
        except UsageError:
            if match == AUTO:
                raise
    return {"uses": scenario.match} if match == AUTO else own, scenario.policy if policy == AUTO else policy


def _stages(
    paths: Mapping[str, Path],
    kinds: Mapping[str, str],
    *,
    select: Mapping[str, object],
    match: Mapping[str, object],
    compare: Mapping[str, object],
    reports: str | Sequence[object],
) -> dict[str, dict[str, object]]:
    """Return the stages of a comparison as a workflow has them."""
    stages: dict[str, dict[str, object]] = {}
    for side in paths:
        kind = {"kind": kinds[side]} if side in kinds else {}
        stages[side] = {"uses": "dump.auto", "path": f"${{params.{side}}}", **kind}
        if select:
            stages[side]["select"] = _escaped(plain(select))
    stages["pairs"] = {**{side: side for side in paths}, **_options(match)}
    stages["result"] = {"uses": "compare", "pairs": "pairs", **_options(compare)}
    if reports:
        formats = [reports] if isinstance(reports, str) else reports
        stages["report"] = {"uses": "report", "comparison": "result", **_options({"formats": formats})}
    return stages


def _options(given: Mapping[str, object]) -> dict[str, object]:
    return {str(name): _escaped(plain(value)) for name, value in given.items()}


def _escaped(value: object) -> object:
    """Return a value whose texts mean themselves where `${` would mean a parameter."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return {key: _escaped(item) for key, item in value.items()} if isinstance(value, dict) else value


def _workflow(paths: Mapping[str, Path], stages: Mapping[str, Mapping[str, object]]) -> Workflow:
    """Return the workflow of a comparison; its mistakes are shown in its text.

    Raises:
        WorkflowError: all of them.
    """
    from probe_flow.workflow.loading.loader import load_workflow

    lines = ["version: 1", "name: compare", "params:", *(f"  {side}: {{type: path}}" for side in paths), "stages:"]
    for name, stage in stages.items():
        members = ", ".join(f"{json.dumps(key)}: {_value(key, value)}" for key, value in stage.items())
        lines.append(f"  {name}: {{{members}}}")
    text = "\n".join(lines) + "\n"
    return load_workflow(Path(NAME), env=os.environ, cwd=Path.cwd(), sets=dict(paths), given_at=PYTHON, text=text)


def _value(name: str, value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise UsageError(wrong_argument(name, value, "a value that a workflow can have")) from None


def _in_temporary_folder(plan: Plan, how: How, *, progress: bool | Progress) -> Run:
    """Run a plan in a folder that goes with the run. What a killed process leaves there, later runs remove."""
    folder = temporary_path(Path(tempfile.gettempdir()) / "probe_flow_run")
    try:
        return finished(plan, output=folder, how=how, progress=progress, is_temporary=True)
    except BaseException:
        remove_folder(folder, os.getpid())
        raise
