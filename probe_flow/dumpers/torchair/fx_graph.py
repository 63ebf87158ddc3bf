"""One compiled graph: runs in place of the compiler's code, and counts its executions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node

from probe_flow.dumpers.dump_files import Ticks, make_folder, write_json
from probe_flow.dumpers.torchair.fx_interpreter import DumpingInterpreter, is_dumped
from probe_flow.dumpers.torchair.fx_options import FxDumpOptions
from probe_flow.dumpers.torchair.fx_step import StepDump
from probe_flow.dumps.torchair.fx_manifest import GRAPH_MANIFEST, GRAPH_SCHEMA

_LOCAL = re.compile(r"^L\['(\w+)'\]")
_ATTRIBUTE = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")
"""How torch writes where an argument comes from: ``L['self']._modules['fc']._parameters['weight']``."""


class DumpedGraph:
    """A graph as the runtime calls it: with a list of arguments, which it empties so that they can be freed.

    Args:
        module: the graph.
        folder: of this graph in the dump.
        kind: ``forward``, ``backward`` or ``inference``.
        options: what is dumped.
        ticks: gives each node its time.
        arguments: what the user's code calls the arguments of the captured graph, see `argument_names`.
    """

    def __init__(
        self,
        module: GraphModule,
        folder: Path,
        kind: str,
        options: FxDumpOptions,
        ticks: Ticks,
        arguments: Sequence[str] = (),
    ) -> None:
        # An attribute of the instance: torch's wrappers of a backward graph copy those, not those of the class.
        self._boxed_call = True
        self._module = module
        self._folder = folder
        self._options = options
        self._ticks = ticks
        self._steps = 0
        make_folder(folder)
        write_json(folder / GRAPH_MANIFEST, graph_facts(module, kind, arguments))

    def __call__(self, args: list[Any]) -> Any:
        number, self._steps = self._steps, self._steps + 1
        step = None
        if self._options.takes_step(number):
            step = StepDump(self._folder / str(number), self._options, self._ticks)
            step.open()
        with torch.no_grad():
            result = DumpingInterpreter(self._module, self._options, step).boxed_run(args)
        if step is not None:
            step.close()
        return result


def argument_names(captured: GraphModule) -> tuple[str, ...]:
    """Return what the user's code calls the arguments of a graph that torch captured: ``self.fc.weight``, ``x``.

    Where torch does not tell, it is the name that torch gave the argument.
    """
    return tuple(_argument_name(node) for node in captured.graph.nodes if node.op == "placeholder")


def _argument_name(node: Node) -> str:
    source = getattr(getattr(node.meta.get("grapharg"), "source", None), "name", None)
    text = source() if callable(source) else source  # a method in older versions of torch
    return _ATTRIBUTE.sub(r".\1", _LOCAL.sub(r"\1", text)) if isinstance(text, str) else str(node.target)


def graph_facts(module: GraphModule, kind: str, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """Return what the manifest says of a graph: its inputs and outputs, its operators, what these read, their code."""
    nodes = list(module.graph.nodes)
    operators = [node for node in nodes if is_dumped(node)]
    others = [node for node in nodes if node.op == "call_function" and not is_dumped(node)]
    output = next(node for node in reversed(nodes) if node.op == "output")
    return {
        "schema": GRAPH_SCHEMA,
        "kind": kind,
        "signature": hashlib.sha256(str(module.graph).encode()).hexdigest(),
        "placeholders": [_placeholder(node, arguments) for node in nodes if node.op == "placeholder"],
        "outputs": [node.name for node in output.all_input_nodes],
        "operators": [_operator(node) for node in operators],
        "not_dumped": [{"name": node.name, "target": str(node.target)} for node in others],
    }


def _operator(node: Node) -> dict[str, Any]:
    reads = [each.name for each in node.all_input_nodes]
    return {"name": node.name, "target": str(node.target), "reads": reads, "source": _source(node)}


def _placeholder(node: Node, arguments: Sequence[str]) -> dict[str, Any]:
    value = node.meta.get("val")
    facts: dict[str, Any] = {"name": node.name}
    if isinstance(value, torch.Tensor):
        facts |= {"dtype": str(value.dtype).removeprefix("torch."), "shape": [str(size) for size in value.shape]}
    if "desc" in node.meta:
        facts["is"] = _told(node.meta["desc"], arguments)[:500]
    return facts


def _told(what: object, arguments: Sequence[str]) -> str:
    """Return what torch says of a placeholder, in the names of the user's code where it is one of the arguments."""
    number = getattr(what, "idx", None)
    if type(what).__name__ == "PlainAOTInput" and isinstance(number, int) and number < len(arguments):
        return arguments[number]
    return str(what)


def _source(node: Node) -> str | None:
    """Return the innermost frame of the user's code that led to a node."""
    lines = [line.strip() for line in (node.meta.get("stack_trace") or "").splitlines() if line.strip(" ^~")]
    frames = [index for index, line in enumerate(lines) if line.startswith("File ")]
    return " ".join(lines[frames[-1] :])[:500] if frames else None
