"""How bad an overflow of a node is, by the statistics of its dump alone.

``critical``: clean inputs, NaN or infinities in an output. ``high``: both have them, or the norm of the outputs is more
than 100 times that of the inputs. ``medium``: the inputs have them and the outputs do not. Source: `overflow_check` in
`msprobe.core`, which knows PyTorch only and looks at neither parameters, nor their gradients, nor norms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from probe_flow.dumps.unjudged_apis import UNDEFINED
from probe_flow.records import Node, NodeKind, SlotRole, TensorRef
from probe_flow.records.frameworks import PYTORCH
from probe_flow.records.levels import Level
from probe_flow.records.model_graph import GraphLayout, ModelGraph
from probe_flow.relations.levels import growth_of, is_abnormal, level_of

BUFFERS: Mapping[str, frozenset[int | str]] = {
    "distributed.recv": frozenset((0, "tensor")),
    "distributed.all_gather": frozenset((0,)),
    "distributed.reduce_scatter": frozenset((0, "output")),
    "distributed._reduce_scatter_base": frozenset((0,)),
    "distributed.all_gather_into_tensor": frozenset((0,)),
    "distributed.reduce_scatter_tensor": frozenset((0,)),
    "tensor.masked_fill_": frozenset((0,)),
}
"""APIs that overwrite an argument, by position or keyword: what it held before is no input."""

_MASKS = frozenset(("masked_fill", "masked_fill_", "where"))
_READ = frozenset((SlotRole.INPUT, SlotRole.PARAMETER, SlotRole.BUFFER))
_ORDER = {level: number for number, level in enumerate(Level)}


def overflow_levels(graph: ModelGraph) -> dict[int, Level]:
    """Return the level of each node that has one; in our layout what lies around a node has its level at least."""
    is_own = graph.layout is GraphLayout.OWN
    found: dict[int, Level] = {}
    for number, node in enumerate(graph.nodes):
        if node.call is not None:
            tensors = graph.tensors_of(number)
            level = _level(node.call, tensors) if is_own else _msprobe_level(graph, node.name, tensors)
            if level is not None:
                found[number] = level
    if is_own:
        for number in graph.ended():
            if found.get(number) is Level.CRITICAL and graph.nodes[number].parent in found:
                call = graph.nodes[number].call
                if call is not None and call.kind is NodeKind.PARAMETERS_GRAD:
                    found[number] = Level.HIGH  # what the backward call around it read or gave is bad already
            inside = [found[child] for child in graph.children[number] if child in found]
            if inside:
                found[number] = max((*inside, found.get(number, Level.MEDIUM)), key=_ORDER.__getitem__)
    return found


def _level(call: Node, tensors: Sequence[TensorRef]) -> Level | None:
    """Return the level of a call by our rules: parameters, their gradients and norms count."""
    api = call.key.name.rpartition(".")[2]
    if api in UNDEFINED and "empty" in api:  # it hands out memory as it is
        return None
    buffers = BUFFERS.get(_api(call.key.name), frozenset())
    read = [each for each in tensors if each.slot.role in _READ and each.slot.path[0] not in buffers]
    given = [each for each in tensors if each.slot.role not in _READ]
    before, after = any(map(_is_bad, read)), any(map(_is_bad, given))
    if after and not before and api in _MASKS and not any(map(_has_nan, given)):
        return None  # a mask writes infinity on purpose
    return level_of(reads_abnormal=before, writes_abnormal=after, growth=growth_of(_norms(read), _norms(given)))


def _msprobe_level(graph: ModelGraph, name: str, tensors: Sequence[TensorRef]) -> Level | None:
    """Return the level of an entry by the rules of msprobe."""
    read = [each for each in tensors if each.slot.role is SlotRole.INPUT]
    given = [each for each in tensors if each.slot.role is SlotRole.OUTPUT]
    before, after = any(map(_is_seen, read)), any(map(_is_seen, given))
    is_torch = graph.catalog.framework == PYTORCH
    growth = growth_of(_norms(_flat(read)), _norms(_flat(given))) if is_torch else None
    level = level_of(reads_abnormal=before, writes_abnormal=after, growth=growth)
    if level is None:
        return None
    api = _api(name)
    if api in ("torch.empty", "torch.empty_like", "torch.empty_strided"):
        is_ignored = not any(_is_seen(each) for each in _flat(given) if each.slot.path[0] != 0)
    elif api in BUFFERS:
        buffers = BUFFERS[api]
        kinds = {type(buffer) for buffer in buffers}  # positions alone leave keywords aside
        others = (each for each in _flat(read) if type(each.slot.path[0]) in kinds and each.slot.path[0] not in buffers)
        is_ignored = not any(map(_is_seen, others))
    else:
        is_ignored = False
    return None if is_ignored else level


def _api(name: str) -> str:
    return ".".join(name.split(".")[:2]).lower()


def _flat(tensors: Iterable[TensorRef]) -> list[TensorRef]:
    """Return the tensors that lie in no list of their own."""
    return [each for each in tensors if len(each.slot.path) == 1]


def _is_seen(tensor: TensorRef) -> bool:
    """Return True where msprobe sees NaN or infinities: it does not look at the norm."""
    found = tensor.recorded
    return found is not None and _any_nonfinite((found.max, found.min, found.mean))


def _is_bad(tensor: TensorRef) -> bool:
    return tensor.recorded is not None and is_abnormal(tensor.recorded, tensor.numel, tensor.dtype)


def _any_nonfinite(values: Iterable[object]) -> bool:
    return any(isinstance(value, float) and not math.isfinite(value) for value in values)


def _has_nan(tensor: TensorRef) -> bool:
    found = tensor.recorded
    return found is not None and any(isinstance(value, float) and math.isnan(value) for value in (found.max, found.min))


def _norms(tensors: Iterable[TensorRef]) -> list[float | None]:
    return [each.recorded.l2norm for each in tensors if each.has_numbers and each.recorded is not None]
