"""The reference page of the workflow file (docs/reference/workflow-file.md), made from the models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from probe_flow.stages.base import StageOptions, StageType
from probe_flow.workflow.loading.fields import KIND_WORDS, alternatives, field_type, fields_of, is_model, type_words
from probe_flow.workflow.model import WorkflowFile

_HEAD = """# The workflow file

A workflow is one YAML file. Unknown keys are errors everywhere, values are not converted, and plain words follow YAML
1.2: `1e-3` is a number, `no` and `on` are text, `012` is 12, `12:30` is text. Duplicate keys and several documents in
one file are errors. This page is made from the program; do not edit it.

`${params.NAME}`, `${env.NAME}`, `${matrix.NAME}` and `${run.output}` stand for values that are known later. A value
that is one of them as a whole keeps its type; inside a text it becomes text. `$${` stands for the characters `${`. A
key that uses an optional parameter without a value is dropped.

Relative paths start from the file that wrote them; paths given by `--set` start from the working directory.

`extends: other.yaml` or `extends: template:NAME` lays the file over another one: mappings merge, lists and single
values replace, and `null` removes a key of the base.
"""

_MATRIX = """## Matrix

A stage with `matrix: {run: [a, b]}` has one variant for every combination of its entries, named `stage[run=a]`. A stage
that consumes it has the same variants; entries of equal name go together. A `report` collects all variants, and names
the files of each after it: `report_run=a.html`. `exclude` leaves combinations out, `include` adds some:

```yaml
matrix:
  model: [base, large]
  type: [float16, bfloat16]
  exclude: [{model: large, type: float16}]
  include: [{model: tiny, type: float32}]
```

On the command line `stage` means all variants of a stage (`--only result`), `stage[run=a]` one of them, and
`stage[type=float16]` all that have this value.
"""


def workflow_page(types: Mapping[str, StageType]) -> str:
    """Return the page as Markdown.

    Args:
        types: the stages by ``uses``.
    """
    seen: list[type[BaseModel]] = []
    parts = [_HEAD, "## Top level\n", _table(WorkflowFile, fields_of(WorkflowFile)), *_models(WorkflowFile, seen)]
    common = fields_of(StageOptions)
    parts += ["## Stages\n", "Every stage has these keys.\n", _table(StageOptions, common), _MATRIX]
    shared = list(seen)
    inner: list[str] = []
    for uses, type_ in types.items():
        own = {name: field for name, field in fields_of(type_.options).items() if name not in common}
        parts += [
            f"## `{uses}`\n",
            f"{type_.summary} Gives {KIND_WORDS[type_.produces]}.\n",
            _table(type_.options, own),
        ]
        inner += _models(type_.options, shared)
    return "\n".join([*parts, *inner])


def _models(model: type[BaseModel], seen: list[type[BaseModel]]) -> Iterator[str]:
    """Yield the sections of the models inside a model, each once."""
    for field in fields_of(model).values():
        for inner in _models_in(field.annotation):
            if inner not in seen:
                seen.append(inner)
                yield f"### {inner.__name__}\n\n{(inner.__doc__ or '').splitlines()[0]}\n\n" + _table(
                    inner, fields_of(inner)
                )
                yield from _models(inner, seen)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    for inner in alternatives(annotation):
        if is_model(inner):
            yield inner
        else:
            for part in getattr(inner, "__args__", ()):
                yield from _models_in(part) if not isinstance(part, str | int) else ()


def _table(model: type[BaseModel], fields: Mapping[str, FieldInfo]) -> str:
    rows = [
        f"| `{name}` | {_type(field)} | {_default(field)} | {_cell(field.description or '')} |"
        for name, field in fields.items()
    ]
    assert rows, model
    return "\n".join(["| key | value | default | meaning |", "|---|---|---|---|", *rows, ""])


def _type(field: FieldInfo) -> str:
    return _cell(type_words(field_type(field)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value is PydanticUndefined or isinstance(value, BaseModel) or value == {}:
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return f"`[{', '.join(str(item) for item in value)}]`"
    return f"`{value}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
