"""Read a workflow file: every mistake at once, or a `Workflow`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import cast

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, ValidationError

from probe_flow.errors import Diagnostic, Severity, Span, WorkflowError
from probe_flow.files.yaml.places import Place
from probe_flow.files.yaml.positions import Document
from probe_flow.packages import metadata_put_off
from probe_flow.stages.base import StageOptions, StageType
from probe_flow.stages.registry import STAGES
from probe_flow.workflow.loading.extends import Layers, workflow_file
from probe_flow.workflow.loading.fields import Subject
from probe_flow.workflow.loading.graph import check_endless, check_wires, find_cycles, topological
from probe_flow.workflow.loading.interpolation import DROP, Scope
from probe_flow.workflow.loading.matrix import Instance, expand
from probe_flow.workflow.loading.params import ParamTable, resolve_paths
from probe_flow.workflow.loading.raw_stages import Draft, DraftReader, odd_name
from probe_flow.workflow.model import NAME, ResolvedStage, Workflow, WorkflowFile
from probe_flow.workflow.sources import COMMAND_LINE, PYTHON, Given, Sources

with metadata_put_off(), suppress(ImportError):  # where pydantic would look for plugins, were it not told to let it be
    import pydantic.plugin._loader  # noqa: F401


def arrange(problems: Sequence[Diagnostic], sources: Sources, extended_at: Mapping[str, Span]) -> list[Diagnostic]:
    """Return each diagnostic once, sorted by place; those of a base file say who extends it.

    Args:
        problems: as found; variants of a stage repeat each other's.
        sources: in the order in which files were read, the workflow itself first.
        extended_at: of each base file, where it is named.
    """
    once: dict[object, Diagnostic] = {}
    for problem in problems:
        once.setdefault((problem.code, problem.span, problem.message), problem)
    files = (name for name in sources.texts if name not in (COMMAND_LINE, PYTHON))
    ranks = {COMMAND_LINE: -1, PYTHON: -1, **{name: i for i, name in enumerate(files)}}

    def order(problem: Diagnostic) -> tuple[int, int, int, str]:
        span = problem.span or Span("")
        return ranks.get(span.file, -1), span.line, span.column, problem.code

    return [_with_origin(problem, extended_at) for problem in sorted(once.values(), key=order)]


def _with_origin(problem: Diagnostic, extended_at: Mapping[str, Span]) -> Diagnostic:
    at = extended_at.get(problem.span.file) if problem.span else None
    if at is None:
        return problem
    return replace(problem, notes=(*problem.notes, f"`{at}` extends this file"))


MAX_STAGES = 1000
"""Stages that a workflow may write; names that are wrong are compared with all of them."""

_NOTHING: Mapping[str | int, object] = MappingProxyType({})


def load_workflow(
    path: Path,
    *,
    env: Mapping[str, str],
    cwd: Path,
    sets: Mapping[str, object] = MappingProxyType({}),
    given_at: str = COMMAND_LINE,
    text: str | None = None,
) -> Workflow:
    """Return the validated workflow of a file. No data path is touched.

    Args:
        path: the file, from ``cwd``, or ``template:NAME``.
        env: environment variables that ``${env.X}`` sees.
        cwd: working directory; paths set by ``--set`` start from it.
        sets: values by parameter: texts of ``--set``, or what a call from Python gives.
        given_at: which of these: `COMMAND_LINE` or `PYTHON`.
        text: of the workflow, where it is in no file; ``path`` only names it then.

    Raises:
        WorkflowError: all mistakes of the file and of those it extends, sorted by place, with the sources' texts.
    """
    sources = Sources(cwd)
    if text is None:
        path = workflow_file(path)
    else:
        sources.add_text(path, text)
    layers = Layers(sources)
    document = layers.load(path)
    reader = _FileReader(sources, env, sources.add_given(sets, given_at), STAGES, layers.problems)
    try:
        workflow = reader.read(path, document) if document else None
    except WorkflowError as too_large:
        workflow = None
        reader.problems += too_large.diagnostics
    problems = arrange(reader.problems, sources, layers.extended_at)
    if workflow is None or _any_error(problems):
        raise WorkflowError(problems, sources.texts)
    return replace(workflow, warnings=tuple(problems), templates=tuple(layers.templates))


def _any_error(problems: Iterable[Diagnostic]) -> bool:
    return any(problem.severity is Severity.ERROR for problem in problems)


class _FileReader(Struct):
    """Reads the merged file step by step; each step goes on with what the ones before could make out."""

    sources: Sources
    env: Mapping[str, str]
    given: Given
    types: Mapping[str, StageType]
    problems: list[Diagnostic] = field(default_factory=list)

    def read(self, path: Path, document: Document) -> Workflow | None:
        values, place = document.values, document.place
        table = ParamTable(self.sources, place.span.file, self.given, self.problems)
        early = Scope(self.sources, self.env, problems=self.problems)
        declared, declared_place = self._declared(values, place, early)
        params = table.resolve(declared, declared_place)
        scope = replace(early, params=params, used=set())
        header = self._header(values, place, scope, declared=declared, declared_place=declared_place)
        stages = self._stages(values, place, replace(scope, has_run=True))
        if header is None or _any_error(self.problems):
            return None
        table.warn_unused(declared, declared_place, scope.used)
        return Workflow(
            path=path,
            name=header.name,
            description=header.description,
            params={name: None if found.value is DROP else found.value for name, found in params.items()},
            stages=tuple(stages),
            executor=header.executor,
            cache=header.cache,
            io=header.io,
            metrics_backend=header.metrics_backend,
            samples=tuple(Path(str(params[name].value)) for name in sorted(table.samples)),
            warnings=(),
            sources=self.sources.texts,
        )

    def _declared(
        self, values: Mapping[str | int, object], place: Place, scope: Scope
    ) -> tuple[Mapping[str | int, object], Place]:
        """Return the declarations of parameters, whose defaults may use environment variables."""
        at = place.children.get("params")
        if at is None:
            return _NOTHING, place
        declared, at = scope.interpolate(values["params"], at)
        if not isinstance(declared, dict):
            return _NOTHING, at
        for name in declared:
            if isinstance(name, str) and not re.match(NAME, name):
                self.problems.append(odd_name("parameter", name, at.children[name].name_span))
        return declared, at

    def _header(
        self,
        values: Mapping[str | int, object],
        place: Place,
        scope: Scope,
        *,
        declared: Mapping[str | int, object],
        declared_place: Place,
    ) -> WorkflowFile | None:
        """Return everything but the stages, or None where something is wrong with it."""
        own = {key: value for key, value in values.items() if key not in ("params", "stages", "extends")}
        interpolated, at = scope.interpolate(own, place)
        content = cast("dict[str | int, object]", interpolated)
        children = {**place.children, **at.children}
        for key in ("params", "stages", "extends"):
            if key in values:
                content[key] = values[key]
        if "params" in content and isinstance(content["params"], dict):
            content["params"] = declared
            children["params"] = declared_place
        if not content.get("stages", True):  # reported with the stages
            content["stages"] = {}
        at = replace(place, children=MappingProxyType(children))
        return cast("WorkflowFile | None", self._validate(content, Subject(WorkflowFile, at)))

    def _stages(self, values: Mapping[str | int, object], place: Place, scope: Scope) -> list[ResolvedStage]:
        """Return the stages in topological order; the list means nothing where there are problems."""
        at = place.children.get("stages")
        written = values.get("stages")
        if at is None:
            return []
        if not written:
            self.problems.append(
                Diagnostic(
                    "PF2001",
                    "the workflow has no stages",
                    span=at.name_span,
                    label="expected at least one stage",
                    help="a comparison has two `dump` stages, a `match`, a `compare` and a `report`",
                )
            )
        if not isinstance(written, dict):
            return []
        if len(written) > MAX_STAGES:
            self.problems.append(
                Diagnostic(
                    "PF1313",
                    f"the workflow has {len(written):,} stages, at most {MAX_STAGES:,} work",
                    span=at.name_span,
                    help="write stages that differ in a value as one with `matrix`, or split the workflow",
                )
            )
            return []
        reader = DraftReader(self.types, replace(scope, used=set()), self.problems)
        drafts: dict[str, Draft] = {}
        for name, raw in written.items():
            if isinstance(name, str) and not re.match(NAME, name):
                self.problems.append(odd_name("stage", name, at.children[name].name_span))
            drafts[str(name)] = reader.read(str(name), raw, at.children[name])
        wiring = [*check_wires(drafts), *find_cycles(drafts)]
        instances, clashes = expand(topological(drafts))
        self.problems += [*wiring, *clashes]
        ordered = {instance.draft.name for instance in instances}
        # Stages of a cycle have no inputs, but their options can be checked all the same.
        instances += [
            Instance(name, draft, own, {})
            for name, draft in drafts.items()
            if name not in ordered
            for own, _ in draft.variants
        ]
        is_broken = bool(wiring or clashes) or any(draft.type is None for draft in drafts.values())
        entries = frozenset(str(key) for draft in drafts.values() for own, _ in draft.variants for key in own)
        scope = replace(scope, silent_matrix=entries if is_broken else frozenset())
        first = {instance.draft.name: instance for instance in reversed(instances)}
        stages = [
            stage
            for instance in instances
            for stage in self._resolve(instance, scope, is_first=first[instance.draft.name] is instance)
        ]
        self.problems += check_endless(stages)
        return stages

    def _resolve(self, instance: Instance, scope: Scope, *, is_first: bool) -> Iterable[ResolvedStage]:
        """Return the stage of one variant, or nothing where its options are wrong; the first one checks the matrix."""
        draft = instance.draft
        raw = {key: value for key, value in draft.raw.items() if is_first or key != "matrix"}
        interpolated, place = replace(scope, matrix=instance.variant).interpolate(raw, draft.place)
        if draft.type is None:
            return ()
        content = cast("dict[str | int, object]", interpolated)
        subject = Subject(draft.type.options, place, stage=draft.name, uses=draft.type.uses)
        options = cast("StageOptions | None", self._validate(content, subject))
        if options is None:
            return ()
        return (
            ResolvedStage(
                name=instance.name,
                type=draft.type,
                options=options.model_copy(update={"matrix": None}),
                inputs=instance.inputs,
                span=draft.place.name_span,
                variant=instance.variant,
                place=place,
            ),
        )

    def _validate(self, content: dict[str | int, object], subject: Subject) -> BaseModel | None:
        self.problems += resolve_paths(subject, content, self.sources)
        try:
            return subject.model.model_validate(content)
        except ValidationError as error:
            from probe_flow.workflow.loading.validation_errors import complaints

            self.problems += complaints(error, subject)
        except Exception as error:  # a validator of a package may raise anything
            if subject.uses is None or subject.uses in STAGES.built_in:
                raise
            (problem,) = STAGES.unusable(
                subject.uses, f"its options cannot be checked: {type(error).__name__}: {error}"
            ).diagnostics
            self.problems.append(replace(problem, span=subject.place.name_span, stage=subject.stage))
        return None
