"""What one part of a run computed and later parts read: it is fed to them, in place of being computed again.

So each part costs what its own operators cost, and reads the values that the dump has: an operator that draws random
numbers would draw others when it runs again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

_OLD_CONTROL_FLOW = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"})
"""Tensors between these belong to a branch or a loop, into which nothing can be fed. Source: TensorFlow's
`control_flow_ops`; graphs of TensorFlow 2 have `If` and `While` operators instead."""


class PassedOn:
    """The values that later parts of a run read.

    Args:
        graph: whose parts run one after another, each in the order of the operators.
        operations: of the graph, in an order in which each stands behind those that it reads.
        parts: the tensors that each run fetches.
        limit: bytes that are held at most; what is beyond is computed again.
    """

    def __init__(self, graph: Any, operations: Sequence[Any], parts: Sequence[Sequence[Any]], limit: int) -> None:
        self.values: dict[Any, Any] = {}
        self._graph = graph
        self._limit = limit
        self._bytes = 0
        self._place = {op.name: number for number, op in enumerate(operations)}
        self._last_use: dict[str, int] = {}
        self._end = -1
        if len(parts) > 1 and not any(op.type in _OLD_CONTROL_FLOW for op in operations):
            self._follow(operations, {tensor.name for part in parts for tensor in part})

    def _follow(self, operations: Sequence[Any], fetched: Collection[str]) -> None:
        """Note the last operator that reads each tensor; one that is not fetched runs whenever its results are read."""
        for number, op in reversed([*enumerate(operations)]):
            again = [self._last_use.get(each.name, 0) for each in op.outputs if each.name not in fetched]
            last = max([number, *again])
            for tensor in op.inputs:
                self._last_use[tensor.name] = max(last, self._last_use.get(tensor.name, 0))

    def begin(self, part: Sequence[Any]) -> None:
        """Forget what neither this part nor any later one reads.

        Args:
            part: the tensors that are fetched next.
        """
        for tensor in [each for each in self.values if self._last_use[each.name] <= self._end]:
            self._bytes -= self.values.pop(tensor).nbytes
        self._end = max(self._place[tensor.op.name] for tensor in part)

    def add(self, tensor: Any, value: Any) -> None:
        """Hold a tensor that was computed, if an operator of a later part reads it."""
        array = np.asarray(value)
        is_read_later = self._last_use.get(tensor.name, -1) > self._end
        if is_read_later and self._bytes + array.nbytes <= self._limit and self._can_be_fed(tensor):
            self.values[tensor] = array
            self._bytes += array.nbytes

    def _can_be_fed(self, tensor: Any) -> bool:
        dtype = tensor.dtype
        is_number = dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool
        # What is assigned to has to be the variable itself; quantised values come out as records.
        is_plain = is_number and not dtype.is_quantized and dtype.base_dtype == dtype
        return is_plain and bool(self._graph.is_feedable(tensor))
