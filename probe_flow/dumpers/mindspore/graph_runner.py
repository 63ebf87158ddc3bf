"""Run a model of MindSpore in graph mode, whose runtime writes the inputs and outputs of every kernel itself.

What is dumped is set by a file that the environment variable `MINDSPORE_DUMP_CONFIG` names, which is read when
the first graph is compiled. Source: MindSpore's documentation of its dump function; fields as MindSpore 2.10 takes them
on a processor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mindspore

from probe_flow.dumpers.dump_files import write_json
from probe_flow.dumpers.mindspore.runner import MindSporeRunner
from probe_flow.errors import Diagnostic, IncompleteError

MINDSPORE_CONFIG = "mindspore_dump.json"
"""What the runtime reads: which kernels it dumps, and where."""

CONFIG_VARIABLE = "MINDSPORE_DUMP_CONFIG"
NET = "net"
"""Name of the network in the dump: a folder of it."""

_PARTS = {"all": 0, "input": 1, "output": 2}
"""What of a kernel is dumped -> its number in the file."""


class MindSporeGraphRunner(MindSporeRunner):
    """Each call of the model is an iteration."""

    def begin(self) -> None:
        path = Path(self.job.output) / MINDSPORE_CONFIG
        write_json(path, self._config())
        os.environ[CONFIG_VARIABLE] = str(path)
        mindspore.set_context(mode=mindspore.GRAPH_MODE)
        mindspore.set_device(self.job.device or "CPU")

    def _config(self) -> dict[str, Any]:
        kernels: Sequence[str] = self.job.dump.get("kernels") or ()
        return {
            "common_dump_settings": {
                "op_debug_mode": 0,
                "dump_mode": 1 if kernels else 0,
                "path": str(self.folder.absolute()),
                "net_name": NET,
                "iteration": "all",
                "saved_data": "tensor",
                "input_output": _PARTS[self.job.dump.get("direction", "all")],
                "kernels": list(kernels),
                "support_device": list(range(8)),
                "file_format": "npy",
            },
            "e2e_dump_settings": {"enable": True, "trans_flag": True},
        }

    def open(self, model: Any) -> None:
        if self.job.threads is not None:
            mindspore.set_context(runtime_num_threads=self.job.threads)
        model.set_train(False)
        self._model = model

    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._model(*args, **kwargs)
        mindspore.runtime.synchronize()

    def words(self, error: BaseException) -> str:
        """Return what an error of the compiler says: its first line, behind which its own stack stands."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
        return f"{type(error).__name__}: {lines[0]}"

    def finish(self) -> Mapping[str, Any]:
        files = sum(1 for _ in self.folder.rglob("*.npy")) if self.folder.is_dir() else 0
        if not files:
            raise IncompleteError(
                Diagnostic(
                    "PF6327",
                    "nothing was dumped: MindSpore ran no kernel of a graph that is asked for",
                    help="correct `kernels`; a model that leaves graph mode is dumped by `dump.mindspore`",
                )
            )
        return {"tensors": files, "config": self._config()}
