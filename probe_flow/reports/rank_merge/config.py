"""What is merged of the result tables of several ranks: the YAML file of ``merge_result``.

``api`` lists leading parts of row names (``Distributed.all_reduce``), ``compare_index`` the columns to merge; without
it all measures of the tables are. Every mistake is told with its line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, field

from probe_flow.errors import Diagnostic, Span, UsageError, WorkflowError, did_you_mean
from probe_flow.files.opening import open_bytes
from probe_flow.files.yaml.places import HOLE, Place
from probe_flow.files.yaml.positions import parse_value
from probe_flow.reports.dump_json_columns import CONSISTENT, DIFFERENCES, METRICS

MAX_FILE_BYTES = 2**20

MEASURES = tuple(dict.fromkeys((*DIFFERENCES, *METRICS, CONSISTENT)))
"""Columns that can be merged, of tables of any mode."""

_KEYS = ("api", "compare_index")
_WHAT = "merge configuration"


class MergeConfig(Struct, frozen=True):
    """What is merged.

    Args:
        apis: leading parts of row names, at dots.
        measures: columns; empty = all of the mode.
        spans: where each of these was written.
        source: name and text of the file, for messages.
    """

    apis: tuple[str, ...]
    measures: tuple[str, ...] = ()
    spans: Mapping[str, Span] = field(default_factory=dict)
    source: tuple[str, str] = ("", "")

    @property
    def sources(self) -> Mapping[str, str]:
        """The file by its name, for the display of messages."""
        return dict([self.source])


def read_merge_config(path: str | Path) -> MergeConfig:
    """Read a merge configuration.

    Raises:
        UsageError: PF7120 unreadable, or of wrong form; PF7121 unknown column; PF1xxx no YAML.
    """
    name = os.path.relpath(path)
    name = str(path) if name.startswith("..") else name
    text = _text(Path(path), name)
    written, problems = parse_value(text, name, what=_WHAT)
    if written is None:
        raise WorkflowError(problems, {name: text})
    spans: dict[str, Span] = {}
    lists: dict[str, tuple[str, ...]] = {}
    if isinstance(written.value, dict):
        problems += [_unknown_key(key, written.place) for key in written.value if key not in _KEYS]
        for key in _KEYS:
            place = written.place.children.get(key, Place(Span(name)))
            lists[key] = _names(key, written.value.get(key), place, spans, problems)
    elif written.value is not HOLE:
        found = "is empty" if written.value is None else "does not start with a mapping"
        span = Span(name) if written.value is None else written.place.span
        problems.append(_wrong(f"the {_WHAT} `{name}` {found}", span))
    if isinstance(written.value, dict) and not lists["api"] and not problems:
        problems.append(_wrong(f"the {_WHAT} `{name}` names no `api`", Span(name)))
    measures = lists.get("compare_index", ())
    problems += [_unknown_measure(measure, spans) for measure in measures if measure not in MEASURES]
    if problems:
        raise WorkflowError(problems, {name: text})
    apis = tuple(dict.fromkeys(api.rstrip(".") for api in lists["api"]))
    spans.update({api.rstrip("."): spans[api] for api in lists["api"]})
    return MergeConfig(apis, tuple(dict.fromkeys(measures)), spans, (name, text))


def _names(
    key: str, value: object, place: Place, spans: dict[str, Span], problems: list[Diagnostic]
) -> tuple[str, ...]:
    if value is None or value is HOLE:
        return ()
    if not isinstance(value, list):
        problems.append(_wrong(f"`{key}` is not a list", place.span))
        return ()
    names = []
    for number, item in enumerate(value):
        at = place.children[number].span
        if isinstance(item, str) and item.strip(". "):
            names.append(item.strip())
            spans.setdefault(item.strip(), at)
        elif item is not HOLE:
            problems.append(_wrong(f"an entry of `{key}` is no name", at))
    return tuple(names)


def _unknown_key(key: object, place: Place) -> Diagnostic:
    hint = did_you_mean(str(key), _KEYS) or "keys: " + ", ".join(f"`{known}`" for known in _KEYS)
    span = place.children[key].name_span if isinstance(key, (str, int)) else place.span
    return Diagnostic("PF7120", f"`{key}` is no key of a {_WHAT}", span=span, help=hint)


def _unknown_measure(measure: str, spans: Mapping[str, Span]) -> Diagnostic:
    hint = did_you_mean(measure, MEASURES) or "columns: " + ", ".join(f"`{known}`" for known in MEASURES)
    return Diagnostic("PF7121", f"`{measure}` is no column that can be merged", span=spans[measure], help=hint)


def _wrong(message: str, span: Span) -> Diagnostic:
    form = "it holds `api:` with a list of names such as `Distributed.all_reduce`, and perhaps `compare_index:`"
    return Diagnostic("PF7120", message, span=span, path=span.file, help=form)


def _text(path: Path, name: str) -> str:
    try:
        with open_bytes(path) as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        why = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", error)
        raise UsageError(_wrong(f"the {_WHAT} `{name}` cannot be read: {why}", Span(name))) from error
    if len(data) > MAX_FILE_BYTES:
        message = f"the {_WHAT} `{name}` is larger than {MAX_FILE_BYTES >> 20} MiB"
        raise UsageError(_wrong(message, Span(name)))
    return text
