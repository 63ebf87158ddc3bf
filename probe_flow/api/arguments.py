"""Arguments of calls from Python: plain values of them, and their mistakes as diagnostics at the argument."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from probe_flow.errors import Diagnostic, Span, UsageError, WorkflowError, did_you_mean
from probe_flow.files.yaml.places import Place
from probe_flow.workflow.sources import PYTHON, Sources, in_a_line

if TYPE_CHECKING:
    from probe_flow.stages.base import StageOptions, StageType


def expect(name: str, value: object, kinds: type | tuple[type, ...], words: str) -> None:
    """Raise PF2130 (UsageError) for an argument that is of another type; a truth value is no number.

    Args:
        name: of the argument.
        value: as given.
        kinds: types that it may have.
        words: what it is to be, in words.
    """
    wanted = kinds if isinstance(kinds, tuple) else (kinds,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise UsageError(wrong_argument(name, value, words))


def one_of(name: str, value: str | None, known: Iterable[str]) -> None:
    """Raise PF2130 (UsageError) for an argument that is none of the words that there are."""
    words = list(known)
    if value is not None and value not in words:
        cure = did_you_mean(str(value), words) or "use one of: " + ", ".join(f"`{word}`" for word in words)
        raise UsageError(Diagnostic("PF2130", f"the argument `{name}` cannot be {in_a_line(value)}", help=cure))


def known_names(function: Callable[..., object]) -> list[str]:
    """Return the names of a function's arguments that can be given by name."""
    found = inspect.signature(function).parameters.values()
    return [each.name for each in found if each.kind is not inspect.Parameter.VAR_KEYWORD]


def wrong_argument(name: str, value: object, words: str) -> Diagnostic:
    """Return what is wrong with an argument of another type."""
    message = f"the argument `{name}` must be {words}, not {in_a_line(value)} (of type `{type(value).__name__}`)"
    return Diagnostic("PF2130", message)


def names(name: str, value: str | Sequence[str]) -> tuple[str, ...]:
    """Return a name, or several, as a tuple; raise PF2130 (UsageError) for anything else."""
    found = (value,) if isinstance(value, str) else value
    if not isinstance(found, Sequence) or not all(isinstance(each, str) for each in found):
        raise UsageError(wrong_argument(name, value, "a text or a list of texts"))
    return tuple(found)


def path_of(name: str, value: str | os.PathLike[str]) -> Path:
    """Return a path from the working directory; raise PF2130 (UsageError) for what is none."""
    if not isinstance(value, (str, os.PathLike)) or not str(value) or "\0" in str(value):
        raise UsageError(wrong_argument(name, value, "a path"))
    return Path.cwd() / Path(value).expanduser() if isinstance(value, Path) else Path.cwd() / value


def plain(value: object) -> object:
    """Return a value as YAML would give it: texts for paths, lists for sequences, numbers of Python."""
    if value is None or isinstance(value, (bool, str, int, float)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset, range)) and not isinstance(value, (bytes, bytearray)):
        return [plain(item) for item in value]
    item = getattr(value, "tolist", None)  # arrays and numbers of numpy
    return item() if callable(item) else value


def stage_of(
    uses: str, arguments: Mapping[str, object], *, nested: Mapping[str, Sequence[str]]
) -> tuple[StageType, StageOptions]:
    """Return a stage with options from the arguments of a call.

    Args:
        uses: of the stage.
        arguments: by option.
        nested: options that hold several arguments, with the names of these.

    Raises:
        WorkflowError: every option that is unknown or wrong, shown as it was given.
        UsageError: PF2002 for an unknown stage.
    """
    from pydantic import ValidationError

    from probe_flow.stages.registry import STAGES
    from probe_flow.workflow.loading.fields import Subject
    from probe_flow.workflow.loading.validation_errors import complaints

    stage = STAGES.find(uses)
    sources = Sources(Path.cwd())
    given = sources.add_given(arguments, PYTHON)
    places = {name: Place(span, key=given.name_span(name)) for name, span in given.spans.items()}
    inner = {name: option for option, held in nested.items() for name in held}
    options: dict[str, object] = {"uses": uses}
    children: dict[str | int, Place] = {}
    for option, held in nested.items():
        options[option] = {name: plain(arguments[name]) for name in held if name in arguments}
        children[option] = Place(Span(PYTHON), children={name: places[name] for name in held if name in places})
    for name, value in arguments.items():
        if name not in inner:
            options[name], children[name] = plain(value), places[name]
    try:
        return stage, stage.options.model_validate(options)
    except ValidationError as error:
        subject = Subject(stage.options, Place(Span(PYTHON), children=cast("Mapping[str | int, Place]", children)))
        raise WorkflowError(complaints(error, subject), sources.texts) from None
