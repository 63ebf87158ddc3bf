"""Which fusion passes took effect, by the `fusion_result.json` that a compiler leaves in its working directory.

Source: the form of such files: an object, a list of them, or several one behind the other, one for each graph, with
``graph_fusion`` and ``ub_fusion``: pass -> ``effect_times`` and ``match_times``, numbers as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import Diagnostic, FormatError, Span
from probe_flow.files.binary_file import BinaryFile

MAX_BYTES = 64 << 20
_GAP = re.compile(r"[\s,]*")
_KINDS = {"graph_fusion": "GraphFusion", "ub_fusion": "UBFusion"}


class PassEffect(Struct, frozen=True):
    """One pass in one graph.

    Args:
        name: of the pass.
        switch: the object of a fusion switch file that turns it off: ``GraphFusion`` or ``UBFusion``.
        graph: id of session and graph, as written.
        effects: how many times it changed the graph.
    """

    name: str
    switch: str
    graph: str
    effects: int


def read_fusion_result(path: Path | str) -> tuple[PassEffect, ...]:
    """Return the passes that took effect, in the order of the file.

    Raises:
        FormatError: PF3001 and PF3002 unreadable, PF4312 it is none, with the line.
    """
    with BinaryFile(path) as file:
        if file.size > MAX_BYTES:
            raise _no_result(file.path, f"it has more than {MAX_BYTES >> 20} MiB")
        raw = file.read_at(0, file.size)
    return tuple(each for graph in _graphs(raw, str(path)) for each in _passes(graph, str(path)))


def _graphs(raw: bytes, path: str) -> Iterator[Mapping[str, object]]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_result(path, f"byte {error.start} is not UTF-8") from error
    decoder, place, found = json.JSONDecoder(), 0, 0
    while True:
        place = _end_of_gap(text, place)
        if place == len(text):
            break
        try:
            value, place = decoder.raw_decode(text, place)
        except (json.JSONDecodeError, RecursionError) as error:
            at = getattr(error, "pos", place)
            span = Span(path, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
            raise _no_result(path, getattr(error, "msg", "values are nested too deeply"), span=span) from error
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict):
                raise _no_result(path, "it holds something else than objects of graphs")
            found += 1
            yield item
    if not found:
        raise _no_result(path, "it is empty")


def _end_of_gap(text: str, place: int) -> int:
    found = _GAP.match(text, place)
    assert found is not None, "the pattern matches the empty text"
    return found.end()


def _passes(graph: Mapping[str, object], path: str) -> Iterator[PassEffect]:
    name = str(graph.get("session_and_graph_id", graph.get("graphId", "")))
    if not any(kind in graph for kind in _KINDS):
        raise _no_result(path, "it has neither `graph_fusion` nor `ub_fusion`")
    for kind, switch in _KINDS.items():
        passes = graph.get(kind) or {}
        if not isinstance(passes, dict):
            raise _no_result(path, f"`{kind}` is no object")
        for each, times in passes.items():
            effects = times.get("effect_times", "0") if isinstance(times, dict) else None
            if not isinstance(effects, (str, int)) or isinstance(effects, bool) or not str(effects).strip().isdigit():
                raise _no_result(path, f"`{each}` says no number of `effect_times`")
            if int(effects):
                yield PassEffect(str(each), switch, name, int(effects))


def _no_result(path: str, what: str, *, span: Span | None = None) -> FormatError:
    return FormatError(
        Diagnostic(
            "PF4312",
            f"`{path.rpartition('/')[2]}` is no list of fusion passes: {what}",
            span=span,
            path=path,
            help="give the `fusion_result.json` of the run, as the compiler wrote it",
        )
    )
