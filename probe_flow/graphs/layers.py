"""Layer mappings as msprobe reads them: the calls of both sides in trees of layers, the target's of which are renamed.

A call lies at a path: of a module its own; of an API that of the module that made it, then the function of the
framework that it was called in, then its name. The n-th call of a path and direction meets the n-th of the renamed one.
Source: `msprobe.core.compare.layer_mapping`, versions 1.2.1 and 26.2.0.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from probe_flow.mappings.mapping_file import ClassEntries
from probe_flow.records import Catalog, Node
from probe_flow.records.frameworks import PYTORCH
from probe_flow.records.model_graph import GraphLayout, ModelGraph

TOP = "TopLayer"
_GRADIENTS = "parameters_grad"
_LAYERS = ("Cell", "Module")
_WITHOUT_FRAMES = ("Primitive", "Jit", "Cell", "Module")
_FRAMEWORK_FILES = ("site-packages/torch", "package/torch", "site-packages/mindspore", "package/mindspore")
_OTHER_FILES = ("msprobe", "MindSpeed")
_OTHER_FUNCTIONS = ("construct", "__call__")


class _Call(Struct):
    """One call: its entry, its class or API, direction, path, and its number among the calls of these two."""

    entry: str
    type_name: str
    state: str
    scope: str
    place: int = 0


class _Layer(Struct):
    """A node of a tree of layers, with the calls at its path by direction."""

    type_name: str
    calls: dict[str, list[_Call]] = field(default_factory=dict)
    inside: dict[str, _Layer] = field(default_factory=dict)


_Rules = Mapping[str, Mapping[str, Sequence[tuple[list[str], str]]]]
"""Class -> first part of what is renamed -> all its parts and the new name, the longest first."""


def layer_mapping(target: ModelGraph, golden: ModelGraph, entries: Sequence[ClassEntries]) -> dict[str, str | None]:
    """Return the golden's entry for each entry of the target, None where there is none. Two may have the same one.

    Args:
        target, golden: the graphs.
        entries: of the mapping file.
    """
    rules = _rules(entries)
    mine, theirs = _calls(target), _calls(golden)
    tree, other = _tree(mine), _tree(theirs)
    return {call.entry: _partner(call, tree, other, rules) for call in mine}


def _rules(entries: Sequence[ClassEntries]) -> _Rules:
    found: dict[str, dict[str, list[tuple[list[str], str]]]] = {}
    for owner in entries:
        of_class = found.setdefault(TOP if owner.owner == "Cell" else owner.owner, {})
        for entry in owner.entries:
            if entry.golden is None:
                continue
            parts = entry.target.split(".")
            of_class.setdefault(parts[0], []).append((parts, entry.golden.partition("(")[0]))
    for of_class in found.values():
        for renamed in of_class.values():
            renamed.sort(key=lambda each: -len(each[0]))
    return found


def _calls(graph: ModelGraph) -> list[_Call]:
    catalog, run = graph.catalog, graph.execution
    counts_twice = graph.layout is GraphLayout.MSPROBE_VIS
    found = {}
    for key, node in catalog.nodes.items():
        if key.execution == run and node.entry is not None and node.entry.count(".") >= 3:
            found[node.entry] = _call(node, node.entry, catalog, is_first_version=counts_twice)
    for entry, call in found.items():
        parts = entry.split(".")
        if "backward" in parts[-2:]:
            parts[-2:] = [part.replace("backward", "forward") for part in parts[-2:]]
            forward = found.get(".".join(parts))
            if forward is not None:
                call.scope = forward.scope
    calls = [*found.values()]
    _renumber(calls)
    return calls


def _call(node: Node, entry: str, catalog: Catalog, *, is_first_version: bool) -> _Call:
    parts = entry.split(".")
    caller = node.caller
    if parts[-1] == _GRADIENTS:
        kind, name, type_name, state = _GRADIENTS, parts[-3], parts[-2], _GRADIENTS
        path = parts[:-3]
    elif parts[-2] == _GRADIENTS and parts[-1].isdigit() and not is_first_version:
        # Its name counts twice in the path, so that a renamed layer never meets.
        kind, name, type_name, state = _GRADIENTS, parts[-4], parts[-3], _GRADIENTS
        path = parts[:-3]
    else:
        kind, type_name = parts[0], parts[-3]
        if kind in _LAYERS:
            name, state, path = parts[-4], parts[-2], parts[:-4]
        else:
            name, state = type_name, parts[-1]
            path = caller.split(".")[:-3] if caller else [TOP]
    frames: list[str] = []
    if kind not in _WITHOUT_FRAMES and node.stack_id is not None:
        frames = _framework_function(catalog.stacks.get(node.stack_id, ()), is_torch=catalog.framework == PYTORCH)
    return _Call(entry, type_name, state, ".".join((*path, *frames, name)))


def _framework_function(frames: Sequence[str], *, is_torch: bool) -> list[str]:
    """Return the function of the framework that the user's code called, if frames tell one."""
    ends = re.compile(r"in (for|back)ward," if is_torch else "construct")
    start, end = -1, len(frames)
    for place, frame in enumerate(frames):
        if "Template" in frame:
            start = place
        elif start >= 0 and ends.search(frame):
            end = place
            break
    last = None
    for frame in frames[start + 1 : end]:
        if not any(file in frame.split(",")[0] for file in _FRAMEWORK_FILES):
            break
        last = frame
    if last is None:
        return []
    parts = last.split(",")
    if any(file in parts[0] for file in _OTHER_FILES) or len(parts) < 3:
        return []
    words = parts[2].split()
    return [words[1]] if len(words) > 1 and not any(word in parts[2] for word in _OTHER_FUNCTIONS) else []


def _renumber(calls: Sequence[_Call], type_name: str = "ParallelTransformer", inside: str = "layers") -> None:
    """Count the layers of pipelined transformers from 0: one framework counts over all ranks, the other on its own."""
    for prefix in dict.fromkeys(f"{call.scope}.{inside}" for call in calls if call.type_name == type_name):
        following = re.compile(rf"{re.escape(prefix)}\.([^.]+)")
        matches = [(call, found) for call in calls if (found := following.match(call.scope)) is not None]
        numbered = [(call, found, digits) for call, found in matches if (digits := re.findall(r"\d+", found[1]))]
        if numbered:
            first = min(int(digits[-1]) for _, _, digits in numbered)
            for call, found, digits in numbered:
                call.scope = f"{prefix}.{int(digits[-1]) - first}{call.scope[found.end() :]}"


def _tree(calls: Sequence[_Call]) -> _Layer:
    root = _Layer(TOP)
    for call in calls:
        layer = root
        for name in call.scope.split(".")[1:]:
            inner = layer.inside.get(name)
            if inner is None:
                inner = layer.inside[name] = _Layer(name)
            layer = inner
        calls = layer.calls.setdefault(call.state, [])
        call.place = len(calls)
        calls.append(call)
        layer.type_name = call.type_name
    return root


def _partner(call: _Call, tree: _Layer, other: _Layer, rules: _Rules) -> str | None:
    """Return the golden's entry for one of the target."""
    parts = call.scope.split(".")[1:]
    layer, place = tree, 0
    there: _Layer | None = other
    while place < len(parts):
        renamed = rules.get(layer.type_name, {}).get(parts[place], ())
        step, names = 1, [parts[place]]
        for old, new in renamed:
            if parts[place : place + len(old)] == old:
                step, names = len(old), new.split(".")
                break
        for name in parts[place : place + step]:
            layer = layer.inside[name]
        for name in names:
            there = there.inside.get(name) if there is not None else None
        place += step
    calls = there.calls.get(call.state, []) if there is not None else []
    return calls[call.place].entry if call.place < len(calls) else None
