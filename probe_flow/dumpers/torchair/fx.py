"""A `torch.compile` backend that runs the graph node by node and writes an FX dump as TorchAir does.

Layout: ``{path}/worldsize{W}_global_rank{R}/graph_{N}/{step}/{node}-{target}.{INPUT|OUTPUT}.{i}[.{j}].{time}.npy``;
graphs count from 1 as they are compiled, forward and backward apart, steps from 0 for each graph.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from probe_flow.dumpers.base.node_filter import NodeFilter
from probe_flow.dumpers.torchair.fx_options import FxDumpOptions
from probe_flow.errors import Diagnostic, UsageError, did_you_mean

_CHOICES = {"data": ("tensor", "statistics", "both"), "precision": (None, "float64"), "direction": ("input", "output")}


def torchair_fx_backend(
    path: str | os.PathLike[str] = "dump",
    *,
    steps: Sequence[int] | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    types: Sequence[str] = (),
    direction: Sequence[str] = ("input", "output"),
    peer_compatible: bool = False,
    data: str = "tensor",
    precision: str | None = None,
    max_tensor_bytes: int | None = None,
    overwrite: bool = False,
) -> FxBackend:
    """Return a backend for `torch.compile` that dumps every operator of the graph.

    The result of the model is that of eager execution, bit for bit. Only one tensor at a time is held beside what the
    model holds itself.

    Args:
        path: folder of the dump; it must be new or empty, or hold the dump of another rank of the same world.
        steps: executions of each graph to dump, from 0; None = all.
        include: patterns of node names; a text without wildcard may stand anywhere in the name, capitals do not matter.
        exclude: patterns of node names that are left out.
        types: patterns of targets such as ``aten.mm.*``.
        direction: ``input``, ``output`` or both.
        peer_compatible: write arguments that are no tensors too, and leave out keyword arguments, as TorchAir does.
        data: ``tensor``, or ``statistics`` for minimum, maximum, mean and L2 norm alone, or ``both``, in files of
            their own; readers then take the tensors.
        precision: ``float64`` computes each graph in float64, with its nodes named as in the model's own precision;
            between graphs (at a graph break, from forward to backward) values are rounded to that of the model.
        max_tensor_bytes: larger tensors are left out, and named in the manifest.
        overwrite: replace an earlier dump of probe_flow in this folder.

    Raises:
        UsageError: PF6320 without torch, PF6321 for a folder that cannot be used, PF6331 for a wrong option.
    """
    options = FxDumpOptions(
        NodeFilter(_texts("include", include), _texts("exclude", exclude), _texts("types", types)),
        None if steps is None else tuple(steps),
        _texts("direction", direction),
        peer_compatible,
        data,
        precision,
        max_tensor_bytes,
    )
    for name, value in (("data", data), ("precision", precision), *(("direction", item) for item in direction)):
        _check_choice(name, value)
    return FxBackend(Path(path), options, overwrite=overwrite)


class FxBackend:
    """What `torch.compile(model, backend=...)` calls with each graph that it captures."""

    def __init__(self, path: Path, options: FxDumpOptions, *, overwrite: bool = False) -> None:
        from probe_flow.dumpers.dump_files import Ticks
        from probe_flow.dumpers.torch.diagnostics import require_torch
        from probe_flow.dumpers.torchair.fx_folder import open_fx_folder

        require_torch()
        self._folder = open_fx_folder(path, options.to_dict(), overwrite=overwrite)
        self._options = options
        self._ticks = Ticks()
        self.graphs = 0
        """Graphs compiled so far."""

    @property
    def folder(self) -> Path:
        """The folder of this rank."""
        return self._folder

    def __call__(self, module: Any, example_inputs: Sequence[Any]) -> Any:
        from torch._dynamo.backends.common import aot_autograd

        from probe_flow.dumpers.torchair.fx_graph import argument_names

        arguments = argument_names(module)
        backend = aot_autograd(
            fw_compiler=self._compiler("forward", arguments),
            bw_compiler=self._compiler("backward", arguments),
            inference_compiler=self._compiler("inference", arguments),
            decompositions={},
        )
        return backend(module, example_inputs)

    def _compiler(self, kind: str, arguments: Sequence[str]) -> Callable[[Any, Sequence[Any]], Any]:
        def compile_graph(module: Any, example_inputs: Sequence[Any]) -> Any:  # noqa: ARG001
            from probe_flow.dumpers.torchair.fx_graph import DumpedGraph

            self.graphs += 1
            folder = self._folder / f"graph_{self.graphs}"
            return DumpedGraph(module, folder, kind, self._options, self._ticks, arguments)

        return compile_graph


def _texts(name: str, values: Sequence[str]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise UsageError(
            Diagnostic("PF6331", f"`{name}` is text, expected a list", help=f"write `{name}=[{values!r}]`")
        )
    return tuple(values)


def _check_choice(name: str, value: object) -> None:
    choices = _CHOICES[name]
    if value not in choices:
        known = ", ".join(f"`{choice}`" for choice in choices)
        near = did_you_mean(str(value), [choice for choice in choices if choice])
        raise UsageError(Diagnostic("PF6331", f"`{name}` cannot be `{value}`", help=near or f"choices: {known}"))
