"""The gradients at the borders of a module: of what it gave, and of what it read, without a node of our own.

msprobe puts an autograd node at each border, which changes the order in which gradients of a tensor are added up, and
so their last bits. Here the gradient of what a module gave is taken where it arrives, and that of what it read is
the sum of what the module's own autograd nodes give for it, which are found by going back from the module's results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from probe_flow.dumpers.dump_json.encoding import leaves_in
from probe_flow.dumpers.torch.watching import Watch

_Edge = tuple[Any, int]


class ModuleGradients:
    """One run of a module, from its beginning to the end of its backward pass.

    Args:
        watch: gets the gradients.
        name: of the entry.
        args: positional arguments of the module.
    """

    def __init__(self, watch: Watch, name: str, args: Sequence[Any]) -> None:
        self._watch = watch
        self._name = name
        self._first = torch.autograd._get_sequence_nr()
        with watch.quiet():
            self._edges: list[_Edge] = [_edge(tensor) for tensor in leaves_in(args, _has_gradient)]
        self._inputs = len(self._edges)
        self._outputs = 0
        self._parts: list[int] = []
        self._reset()

    def _reset(self) -> None:
        self._given: list[Any] = [None] * self._outputs
        self._read: list[Any] = [None] * self._inputs
        self._missing = list(self._parts)
        self._waits_for = self._outputs if not self._inputs else sum(self._parts)
        self._has_begun = False

    def close(self, output: Any) -> None:
        """Look for the nodes of the module, now that it ran."""
        given = list(leaves_in(output, _has_gradient)) if torch.is_grad_enabled() else []
        with self._watch.quiet():
            places: dict[_Edge, list[int]] = {}
            for place, edge in enumerate(self._edges):
                places.setdefault(edge, []).append(place)
            self._edges = []
            self._outputs = len(given)
            counts = [0] * self._inputs
            edges = [_edge(tensor) for tensor in given]
            for number, (tensor, edge) in enumerate(zip(given, edges, strict=True)):
                passed_on = places.get(edge, [])
                for place in passed_on:
                    counts[place] += 1
                self._watch.at_boundary(tensor).add_module(partial(self._arrived, number, passed_on))
            for node, number, found in _readers([edge[0] for edge in edges if edge not in places], places, self._first):
                for place in found:
                    counts[place] += 1
                node.register_hook(partial(self._computed, number, found))
            self._parts = counts
            self._reset()

    def _arrived(self, number: int, passed_on: Sequence[int], gradient: torch.Tensor) -> None:
        """Take the gradient of a result."""
        watch = self._watch
        if not watch.is_open():
            return
        recorder = watch.recorder
        with recorder.lock, watch.quiet():
            recorder.settle()
            if not self._has_begun:
                self._has_begun = True
                recorder.tree.begin(self._name)
                recorder.selection.begin_module(self._name)
                # What gets no gradient, in a part of the module that was not used, is not waited for.
                torch.autograd.Variable._execution_engine.queue_callback(self._end_of_pass)
            self._given[number] = recorder.gradient(self._name, "input", number, gradient)
            for place in passed_on:
                self._add(place, gradient)
            if not self._inputs:
                self._count()

    def _computed(self, number: int, places: Sequence[int], outgoing: Sequence[Any], _: Sequence[Any]) -> None:
        """Take what a node of the module gives for what the module read."""
        watch = self._watch
        if not watch.is_open() or not self._has_begun:
            return
        with watch.recorder.lock, watch.quiet():
            for place in places:
                self._add(place, outgoing[number])

    def _add(self, place: int, part: torch.Tensor | None) -> None:
        self._missing[place] -= 1
        known = self._read[place]
        if part is not None:
            self._read[place] = part if known is None else known + part
        if not self._missing[place]:
            # Only a sum that is not complete is kept as a tensor.
            self._read[place] = self._watch.recorder.gradient(self._name, "output", place, self._read[place])
        self._count()

    def _count(self) -> None:
        self._waits_for -= 1
        if self._waits_for:
            return
        given, read = list(self._given), list(self._read)
        self._reset()
        if self._inputs:
            self._watch.recorder.settle_later(lambda: self._end(given, read))
        else:
            self._end(given, read)

    def _end(self, given: list[Any], read: list[Any]) -> None:
        recorder = self._watch.recorder
        recorder.module_gradients(self._name, given, read)
        recorder.tree.end(self._name)
        recorder.selection.end_module(self._name)

    def _end_of_pass(self) -> None:
        recorder = self._watch.recorder
        if not self._watch.is_open():
            return
        with recorder.lock, self._watch.quiet():
            recorder.settle()
            if not self._has_begun:
                return
            for place, missing in enumerate(self._missing):
                if missing:
                    self._read[place] = recorder.gradient(self._name, "output", place, self._read[place])
            if any(part > left for part, left in zip(self._parts, self._missing, strict=True)):
                self._end(self._given, self._read)
            else:
                recorder.tree.end(self._name)
                recorder.selection.end_module(self._name)
            self._reset()


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _edge(tensor: torch.Tensor) -> _Edge:
    """Return the autograd node that gets a tensor's gradient, and which of its results the tensor is."""
    node = tensor.grad_fn
    if node is not None:
        return node, tensor.output_nr
    with torch.enable_grad():
        return tensor.view_as(tensor).grad_fn.next_functions[0][0], 0


def _readers(nodes: Sequence[Any], wanted: dict[_Edge, list[int]], first: int) -> Iterator[tuple[Any, int, list[int]]]:
    """Yield the nodes that read one of the wanted results: node, which of its gradients is for it, its places.

    Args:
        nodes: where to begin.
        wanted: results by node and number.
        first: sequence number of the first node that counts; older ones were there before the module.
    """
    if not wanted:
        return
    seen: set[Any] = set()
    waiting = [node for node in nodes if node is not None]
    while waiting:
        node = waiting.pop()
        if node in seen or node._sequence_nr() < first:
            continue
        seen.add(node)
        for number, edge in enumerate(node.next_functions):
            if edge[0] is None:
                continue
            places = wanted.get(edge)
            if places is not None:
                yield node, number, places
            elif edge[0] not in seen:
                waiting.append(edge[0])
