"""Run a compiled model and dump its graphs: node by node on any machine (FX), or by the device itself (GE)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch

from probe_flow.dumpers.torch.runner import TorchRunner
from probe_flow.dumpers.torchair.npu import ge_backend, import_torchair
from probe_flow.errors import Diagnostic, IncompleteError

_RECOMPILES = 1024
"""Recompilations of one function before torch would silently go on without the backend, and so without the dump."""


class FxRunner(TorchRunner):
    """Each graph that torch captures runs node by node, and is written as TorchAir writes it."""

    def dumping(self, model: Any) -> Any:
        from probe_flow.dumpers.torchair.fx import torchair_fx_backend

        _prepare_compiler()
        self._backend = torchair_fx_backend(self.folder, **self.job.dump)
        return torch.compile(model, backend=self._backend, dynamic=self.job.dynamic)

    def finish(self) -> Mapping[str, Any]:
        graphs = self._backend.graphs
        if not graphs or not any(self._backend.folder.rglob("*.npy")):
            raise IncompleteError(_nothing_dumped(graphs))
        return {"graphs": graphs, "graph_breaks": _graph_breaks()}


class GeRunner(TorchRunner):
    """The device compiles the model, runs it, and writes its own dump."""

    def begin(self) -> None:
        # The devices that this package brings must be known before the model is made.
        import_torchair()

    def dumping(self, model: Any) -> Any:
        _prepare_compiler()
        backend, self._settings = ge_backend(self.job, self.folder)
        return torch.compile(model, backend=backend, dynamic=self.job.dynamic)

    def finish(self) -> Mapping[str, Any]:
        return {"settings": self._settings}


def _prepare_compiler() -> None:
    for name in ("cache_size_limit", "recompile_limit", "accumulated_cache_size_limit", "accumulated_recompile_limit"):
        with contextlib.suppress(AttributeError):
            setattr(torch._dynamo.config, name, _RECOMPILES)
    torch._dynamo.reset()


def _graph_breaks() -> list[str]:
    """Return why torch left code of the model out of its graphs, each reason once."""
    from torch._dynamo.utils import counters

    return [
        str(reason).strip().splitlines()[0][:200] for reason in counters.get("graph_break", {}) if str(reason).strip()
    ]


def _nothing_dumped(graphs: int) -> Diagnostic:
    if not graphs:
        return Diagnostic(
            "PF6327",
            "nothing was dumped: torch compiled no graph of this model",
            help="the model must do its work in tensors of torch; a function that torch cannot follow is not captured",
        )
    return Diagnostic(
        "PF6327",
        f"nothing was dumped of {graphs} graphs",
        help="widen `filter`, `steps` or `direction`",
    )
