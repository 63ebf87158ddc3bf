"""Write a workflow that starts from a template of an installed package.

Such a template is not copied: it may name files beside itself, and what its package changes later should reach
everybody who started from it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from probe_flow.errors import WorkflowError
from probe_flow.files.whole_files import write_whole
from probe_flow.workflow.loading.extends import Layers
from probe_flow.workflow.model import WORKFLOW_NAME
from probe_flow.workflow.sources import TEMPLATE, Sources
from probe_flow.workflow.templates.copying import Copied, WouldOverwriteError
from probe_flow.workflow.templates.shelf import Template

_WORD = re.compile(r"[A-Za-z]\w*(?:-\w+)+", re.ASCII)
"""A name that YAML takes for nothing but a text; others are quoted."""


def extend_template(template: Template, output: Path, *, force: bool) -> Copied:
    """Write a workflow into a folder that extends a template and lists its parameters.

    Args:
        template: what it extends.
        output: the folder; it is made where it is not there.
        force: replace a file or link that is there.

    Raises:
        WouldOverwriteError: a file is there and ``force`` is not given; nothing was written.
        WorkflowError: the template, or one that it extends, cannot be read.
    """
    sources = Sources(Path.cwd())
    layers = Layers(sources)
    document = layers.load(template.path)
    if document is None:
        raise WorkflowError(layers.problems, sources.texts)
    workflow = output / f"{template.name}.yaml"
    if os.path.lexists(workflow) and not force:
        raise WouldOverwriteError(workflow)
    params = document.values.get("params")
    declared: Mapping[str | int, object] = params if isinstance(params, dict) else {}
    output.mkdir(parents=True, exist_ok=True)
    text = "\n".join(_lines(template, document.values.get("name"), declared)) + "\n"
    write_whole(workflow, text.encode())
    return Copied(workflow, (), tuple(str(name) for name, param in declared.items() if _must_be_set(param)))


def _lines(template: Template, name: object, params: Mapping[str | int, object]) -> Iterator[str]:
    yield f"# Starts from a template of {template.package} {template.version}".rstrip()
    yield "# What is written here is laid over it: mappings merge, everything else replaces what was there."
    yield "version: 1"
    own = name if isinstance(name, str) and re.fullmatch(WORKFLOW_NAME, name) else template.name
    yield f"name: {own if _WORD.fullmatch(own) else json.dumps(own)}"
    yield f"extends: {TEMPLATE}{template.full_name}"
    if params:
        yield ""
        yield "# Parameters of the template, to be set with `--set NAME=VALUE` or here:"
        yield "# params:"
        yield from (
            f"#   {name}: {{default: ...}}{_help(param)}"
            for name, param in params.items()
            if isinstance(name, str) and name.isprintable()
        )


def _help(param: object) -> str:
    text = param.get("help") if isinstance(param, dict) else None
    if not isinstance(text, str):
        return ""
    return "   # " + "".join(char for char in " ".join(text.split()) if char.isprintable())


def _must_be_set(param: object) -> bool:
    return isinstance(param, dict) and "default" not in param and not param.get("optional")
