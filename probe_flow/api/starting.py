"""Two paths, and the workflow that compares what lies there: what they are, how they pair, what is still to be said."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from probe_flow.api.scenario import ACROSS, OFFLINE_MODELS, framework_at, packaged_for
from probe_flow.errors import Diagnostic, ProbeFlowError, Severity, UsageError
from probe_flow.files.existing import first_names, is_folder, real_path
from probe_flow.records import Framework
from probe_flow.records.frameworks import NPY, OM

if TYPE_CHECKING:
    from probe_flow.records import Catalog

_RULES, _CLOSE, _QUANT = "fusion_rule", "close_fusion_rule", "quant_fusion_rule"
_OF_ARRAYS = "offline_om_vs_onnx"


MAX_PROBLEMS = 3
"""Problems of a dump that are told before the comparison runs."""


class Found(Struct, frozen=True):
    """What lies at a path.

    Args:
        side: ``target`` or ``golden``.
        path: as it was typed.
        kind: of the dump, a name of `READERS`.
        framework: what wrote it.
        tensors, nodes, executions: how many there are in it.
        problems: what its reader found wrong.
        files: that its tensors are read from, links to folders followed.
        is_quantised: whether it is of a quantised offline model.
    """

    side: str
    path: Path
    kind: str
    framework: Framework
    tensors: int
    nodes: int
    executions: int
    problems: tuple[Diagnostic, ...] = ()
    files: frozenset[str] = frozenset()
    is_quantised: bool = False

    @property
    def line(self) -> str:
        """What people read."""
        runs = f" in {self.executions} executions" if self.executions > 1 else ""
        held = f"{self.tensors:,} tensors of {self.nodes:,} nodes{runs}"
        return f"{self.side:<6}  `{self.path}` is a dump of `{self.framework.name}`: {held}"


class Proposal(Struct, frozen=True):
    """How two dumps may be compared.

    Args:
        sides: what they are.
        template: the packaged workflow that the proposed one follows.
        text: of the workflow; paths in it are absolute or relative to `folder`.
        notes: what the user should know or can add.
    """

    sides: tuple[Found, Found]
    template: str
    text: str
    notes: tuple[str, ...]


def look_at(side: str, path: Path) -> Found:
    """Return what lies at a path; no tensor is read.

    Raises:
        UsageError: PF3401 no such path, PF3430 no known dump, PF3431 several.
        IncompleteError: nothing in it can be read.
    """
    from probe_flow.api.dumps import read_dump
    from probe_flow.dumps.sniff import kind_of_dump

    kind = kind_of_dump(str(path))
    framework = framework_at(path, kind)
    catalog = read_dump(path, side=side)
    executions = {key.execution for key in catalog.nodes}
    problems = tuple(each for each in catalog.problems if each.severity is not Severity.NOTE)
    return Found(
        side,
        path,
        kind,
        framework,
        len(catalog.tensors),
        len(catalog.nodes),
        len(executions),
        problems,
        _files_of(catalog),
        bool(catalog.attrs.get("is_quantised")),
    )


def _files_of(catalog: Catalog) -> frozenset[str]:
    @cache
    def real(folder: str) -> str:
        return str(real_path(Path(folder)))

    split = (os.path.split(tensor.source) for tensor in catalog.tensors if tensor.source is not None)
    return frozenset(f"{real(folder)}/{name}" for folder, name in split)


def propose(target: Path, golden: Path, *, folder: Path) -> Proposal:
    """Return how two dumps may be compared.

    Args:
        target, golden: the paths, from the working directory.
        folder: where the workflow will lie, from which the paths in it start.

    Raises:
        UsageError: all that is wrong with either path; PF2122 when nothing is known for the two; PF2151 when both are
            the same dump; PF2152 when they are the wrong way round.
        IncompleteError: one of them cannot be read.
    """
    found = _both(target, golden)
    ours, theirs = (each.files for each in found)
    if real_path(target) == real_path(golden) or (ours and theirs and (ours <= theirs or theirs <= ours)):
        message = f"both sides are the same dump, `{target}`: nothing in it can differ"
        raise UsageError(Diagnostic("PF2151", message, path=str(golden), help="name the dump to judge it by"))
    kinds = [each.framework for each in found]
    template = packaged_for(kinds[0], kinds[1])
    if template is None and packaged_for(kinds[1], kinds[0]) is not None:
        message = f"the sides are the wrong way round: `{golden}` is what is tested, `{target}` what it is judged by"
        cure = f"`{shlex.join(['probe-flow', 'start', str(golden), str(target)])}`"
        raise UsageError(Diagnostic("PF2152", message, path=str(target), help=cure))
    if template is None:
        names = " and ".join(f"`{kind.name}`" for kind in kinds)
        cure = "`probe-flow templates` lists the comparisons there are: dump both sides in a way that one of them names"
        raise UsageError(Diagnostic("PF2122", f"no workflow compares dumps of {names}", path=str(target), help=cure))
    return _proposal(found, template, folder)


def _both(target: Path, golden: Path) -> tuple[Found, Found]:
    looks = _found("target", target), _found("golden", golden)
    ours, theirs = looks
    if isinstance(ours, UsageError) and isinstance(theirs, UsageError):
        raise UsageError([*ours.diagnostics, *theirs.diagnostics])
    if isinstance(ours, ProbeFlowError):
        raise ours
    if isinstance(theirs, ProbeFlowError):
        raise theirs
    return ours, theirs


def _found(side: str, path: Path) -> Found | ProbeFlowError:
    try:
        return look_at(side, path)
    except ProbeFlowError as error:
        return error


def _proposal(found: tuple[Found, Found], template: str, folder: Path) -> Proposal:
    from probe_flow.dumps.registry import DUMP_JSON

    if template == OFFLINE_MODELS and found[1].framework == NPY:
        template = _OF_ARRAYS
    values = _values(template)
    notes = [note for side in found for note in _wrong_with(side)]
    params: dict[str, Any] = {}
    for side in found:
        declared = values["params"][side.side]
        params[side.side] = {"type": "path", "default": _shown(side.path, folder), "help": declared["help"]}
    stages: dict[str, Any] = {name: dict(stage) for name, stage in values["stages"].items()}
    for side in found:
        if side.kind != DUMP_JSON:  # which has a stage for each framework
            stages[side.side]["uses"] = f"dump.{side.kind}"
    if template == ACROSS:
        del stages["pairs"]["mapping"]
        stages["pairs"]["uses"] = "match.structure"
        notes.append(
            "modules are paired by the structure of the two programs; where that fails, "
            f"`probe-flow suggest-mapping -tp {found[0].path} -gp {found[1].path}` writes a mapping to correct"
        )
    if _RULES in stages["pairs"]:
        for option in (_RULES, _CLOSE):
            stages["pairs"].pop(option, None)
        rules = _rules_beside(*found)
        stages["pairs"] |= {option: _shown(file, folder) for option, file in rules.items()}
        if not rules:
            stages["result"]["require"] = {"coverage": 0.5}
            notes.append(
                "without fusion rules operators are paired by names and shapes, which is a guess; to give the `.om` or "
                f"ATC's JSON of it, add `{_RULES}: FILE` to `pairs` and take `require` out"
            )
    text = "\n".join(_lines(template, values, params, stages)) + "\n"
    return Proposal(found, template, text, tuple(notes))


def _wrong_with(side: Found) -> list[str]:
    """Return what is wrong with a dump that can be read, one sentence for each of the first problems."""
    told = [f"{side.side}: {problem.message} ({problem.code})" for problem in side.problems[:MAX_PROBLEMS]]
    more = len(side.problems) - len(told)
    return [*told, f"{side.side}: and {more} more problems, which the run shows"] if more else told


def _values(template: str) -> Mapping[str, Any]:
    """Return the packaged workflow as data; only its text is read."""
    from probe_flow.workflow.loading.extends import Layers
    from probe_flow.workflow.sources import Sources
    from probe_flow.workflow.templates.packaged import templates

    document = Layers(Sources(Path.cwd())).load(templates()[template])
    assert document is not None, "tests run every packaged workflow"
    return {str(key): value for key, value in document.values.items()}


def _rules_beside(target: Found, golden: Found) -> dict[str, Path]:
    """Return the files beside two offline dumps that can hold their rules, by the option that takes them.

    Of an option only what is the one file of that kind; the offline model itself holds its fusion rules.
    """
    ours, theirs = _rule_files(target), _rule_files(golden)
    rules: dict[str, Path] = {}
    if target.framework == OM and _RULES in ours:
        rules[_RULES] = ours[_RULES]
        close = theirs.get(_CLOSE) or ours.get(_CLOSE)
        if golden.framework == OM and close is not None:
            rules[_CLOSE] = close
    if target.is_quantised and not golden.is_quantised and _QUANT in ours:
        rules[_QUANT] = ours[_QUANT]
    return rules


def _rule_files(side: Found) -> dict[str, Path]:
    above = side.path.parent if is_folder(side.path) else side.path.parent.parent
    found: dict[str, list[Path]] = {}
    for name in first_names(above):
        option = next((each for each in (_CLOSE, _QUANT, _RULES) if name.endswith(f"{each}.json")), None)
        if option is not None or name.endswith(".om"):
            found.setdefault(option or _RULES, []).append(above / name)
    return {option: files[0] for option, files in found.items() if len(files) == 1}


def _shown(path: Path, folder: Path) -> str:
    """Return a path as a file in a folder names it: relative where both lie below one folder of the user's."""
    relative = os.path.relpath(path, folder)
    return _escaped(str(path) if path.is_absolute() else relative)


def _escaped(text: str) -> str:
    """Return a text that means itself where `${` would mean a parameter."""
    return text.replace("${", "$${")


def _lines(
    template: str, values: Mapping[str, Any], params: Mapping[str, Any], stages: Mapping[str, Any]
) -> Iterator[str]:
    yield "# yaml-language-server: $schema=workflow.schema.json"
    yield f"# Made by `probe-flow start`, after the packaged workflow {template}."
    yield "version: 1"
    yield f"name: {values['name']}"
    yield f"description: {json.dumps(values['description'], ensure_ascii=False)}"
    yield "params:"
    yield from (f"  {name}: {_flow(param)}" for name, param in params.items())
    yield "stages:"
    yield from (f"  {name}: {_flow(stage)}" for name, stage in stages.items())


def _flow(value: Any) -> str:
    """Return a value in YAML's flow style; texts that could be read as something else are quoted."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str) and all(char.isalnum() or char in "_." for char in value) and value[:1].isalpha():
        return value if value not in ("null", "true", "false") else json.dumps(value)
    return json.dumps(value, ensure_ascii=False)
