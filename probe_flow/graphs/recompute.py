"""Modules that a backward pass ran again (activation checkpointing): where in the graph they belong.

They are called by autograd, so that construct.json has them at the top. The rules are those of msprobe 26.2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from probe_flow.records import Catalog, Node
from probe_flow.records.frameworks import PYTORCH
from probe_flow.records.model_graph import GRAPH_ROOT, NO_PARTNER, GraphKind

_FORWARD = re.compile(r"\.forward\.(\d+)$")
_BACKWARD = re.compile(r"\.backward\.(\d+)$")
_FRAME = re.compile(r"(?:File )?(.*?), line .*?, in ([^,]*)", re.DOTALL)
_CHECKPOINT, _AUTOGRAD = "torch/utils/checkpoint.py", "torch/autograd/function.py"


def recomputed(
    numbers: Mapping[str, int],
    kinds: Sequence[GraphKind],
    calls: Sequence[Node | None],
    parents: Sequence[int],
    top: Sequence[int],
    catalog: Catalog,
) -> Iterator[tuple[int, int]]:
    """Yield each node that was computed again with the backward call that did so; both ran below the root.

    The n-th time that a module runs again belongs to its n-th run inside another module.

    Args:
        numbers: name -> number, in order of creation.
        kinds, calls: of the nodes.
        parents: of the nodes; the caller moves each node before it takes the next one.
        top: nodes below the root.
        catalog: has their stacks.
    """
    names = [*numbers]
    again = _again([names[number] for number in top], numbers, kinds, calls, catalog)
    if not again:
        return
    modules = set(again.values())
    forward: dict[str, list[int]] = {}
    for name, number in numbers.items():
        if kinds[number] is not GraphKind.MODULE or parents[number] in (GRAPH_ROOT, NO_PARTNER):
            continue
        found = _FORWARD.search(name)
        if found is not None and name[: found.start()] in modules:
            forward.setdefault(name[: found.start()], []).append(number)
    waiting = {True: {m: iter(n) for m, n in forward.items()}, False: {m: iter(n) for m, n in forward.items()}}
    for name, module in again.items():
        first = next(waiting[_FORWARD.search(name) is not None].get(module, iter(())), None)
        if first is None:
            continue
        around = numbers.get(_FORWARD.sub(r".backward.\1", names[parents[first]]))
        number = numbers[name]
        if around is not None and not _holds(number, around, parents):
            yield number, around


def _holds(number: int, inner: int, parents: Sequence[int]) -> bool:
    """Return True if a node is another one or lies around it."""
    seen = set()
    while inner != NO_PARTNER and inner not in seen:
        if inner == number:
            return True
        seen.add(inner)
        inner = parents[inner]
    return False


def _again(
    top: Sequence[str],
    numbers: Mapping[str, int],
    kinds: Sequence[GraphKind],
    calls: Sequence[Node | None],
    catalog: Catalog,
) -> dict[str, str]:
    """Return what ran again, with the module: it has a forward and a backward call below the root."""
    found: dict[str, str] = {}
    at_top, twins = set(top), set()
    for name in top:
        if kinds[numbers[name]] is not GraphKind.MODULE:
            continue
        if catalog.framework == PYTORCH:
            number = numbers.get(_BACKWARD.sub(r".forward.\1", name))
            call = calls[number] if number is not None else None
            frames = catalog.stacks.get(call.stack_id or "", ()) if call is not None else ()
            if not _is_in_checkpoint(frames):
                continue
        parts = name.split(".")
        if name not in twins:
            if not _is_below_top(parts):
                continue
            twin = ".".join((*parts[:-2], "backward" if parts[-2] == "forward" else "forward", parts[-1]))
            if twin not in at_top:
                continue
            twins.add(twin)
        found[name] = ".".join(parts[:-2])
    return found


def _is_below_top(parts: Sequence[str]) -> bool:
    """Return True if a name is not that of a module at the top: ``Module.0.name.0.Class.forward.0``, numbers or not."""
    if len(parts) > 7:
        return True
    if len(parts) == 7:
        return not (parts[1].isdigit() and parts[3].isdigit())
    return len(parts) == 6 and not parts[1].isdigit()


@lru_cache(maxsize=1024)
def _is_in_checkpoint(frames: tuple[str, ...]) -> bool:
    """Return True if a call was made by a function that computes activations again."""
    parsed = [(found[1].strip(), found[2].strip()) for frame in frames if (found := _FRAME.match(frame.strip()))]
    if any(function == "recompute_fn" and file.endswith(_CHECKPOINT) for file, function in parsed):
        return True
    for place, (file, function) in enumerate(parsed):
        is_backward = function == "backward" or (function == "checkpoint_function_backward" and "megatron" in file)
        if is_backward and any(file.endswith(_AUTOGRAD) for file, _ in parsed[place + 1 : place + 3]):
            return True
    return False
