"""Run an FX graph node by node and hand arguments and results of its operators to a dump."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from probe_flow.dumpers.torchair.fx_options import FxDumpOptions
from probe_flow.dumpers.torchair.fx_precision import call_wide, narrowed, widened
from probe_flow.dumpers.torchair.fx_step import StepDump


def is_dumped(node: Node) -> bool:
    """Tell whether a node is an operator; reading from a tuple, arithmetic on sizes and nested graphs are not."""
    return node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)


class DumpingInterpreter(Interpreter):  # type: ignore[misc]
    """Executes a graph; values are dropped after their last use.

    Args:
        module: the graph.
        options: which nodes are dumped, and in which precision they run.
        step: takes the files; None = run without dumping.
    """

    def __init__(self, module: GraphModule, options: FxDumpOptions, step: StepDump | None) -> None:
        super().__init__(module)
        self._options = options
        self._step = step
        self._is_wide = options.precision == "float64"
        self._node: Node | None = None

    def run_node(self, n: Node) -> Any:
        self._node = n
        result = super().run_node(n)
        if not self._is_wide:
            return result
        return narrowed(result, n.args[0]) if n.op == "output" else widened(result)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        node = self._node
        assert node is not None, "run_node comes first"
        if not is_dumped(node):
            return super().call_function(target, args, kwargs)
        name = str(target)
        step = self._step if self._options.nodes.takes(node.name, name) else None
        dump = step.inputs(node.name, name, args, kwargs) if step is not None else None
        if self._is_wide:
            run = super().call_function
            result, why = call_wide(lambda own_args, own_kwargs: run(target, own_args, own_kwargs), node, args, kwargs)
            if dump is not None and why is not None:
                dump.facts["own_precision"] = why
        else:
            result = super().call_function(target, args, kwargs)
        if step is not None and dump is not None:
            step.outputs(dump, result)
        return result
