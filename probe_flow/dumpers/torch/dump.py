"""`dump_torch`: record what a model computes while a script of the user's own runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from probe_flow.dumpers.dump_json.config_json import options_of_script
from probe_flow.dumpers.dump_json.folder import StepFolders
from probe_flow.dumpers.dump_json.options import DumpOptions
from probe_flow.dumpers.dump_json.recorder import Recorder
from probe_flow.dumpers.dump_json.session import ProgramDump, Taps, no_model
from probe_flow.dumpers.torch.diagnostics import require_torch


def dump_torch(
    model: Any,
    folder: str | os.PathLike[str] | None = None,
    *,
    config: str | os.PathLike[str] | None = None,
    level: str | None = None,
    data: str | None = None,
    phases: Sequence[str] | None = None,
    direction: Sequence[str] | None = None,
    steps: Sequence[int] | None = None,
    ranks: Sequence[int] | None = None,
    scope: Sequence[str] | None = None,
    include: Sequence[str] | None = None,
    max_tensor_bytes: int | None = None,
    overwrite: bool = False,
) -> TorchDump:
    """Return a context in which everything that torch computes is dumped, as msprobe writes it (dump.json).

    What the model computes stays as it is, bit for bit: nothing is added to its graph, and no random number is drawn.

    Use it as ``with dump_torch(model, "dump") as dump:`` around the steps of a program, each of which ends with
    ``dump.step()``.

    Args:
        model: the model, or a list of several, whose modules are recorded; None with level ``L1``.
        folder: of the dump, new or empty; each step of a process is a folder ``step{n}/rank{r}`` or ``step{n}/proc0``.
        config: a `config.json` of msprobe in place of the options below; its ``dump_path`` is the folder where none is
            given.
        level: ``L0`` records modules, ``L1`` calls of APIs, ``mix`` (the default) both.
        data: ``statistics`` of each tensor (maximum, minimum, mean, L2 norm); ``tensor`` (the default): its elements
            too; ``md5``: its checksum alone (CRC-32, as msprobe has it); ``both``: all of that.
        phases: ``forward``, ``backward``; None = both.
        direction: ``input``, ``output``; None = both.
        steps: steps to dump, from 0; None = all.
        ranks: ranks to dump; None = all.
        scope: names of the first and the last entry to dump.
        include: texts, one of which has to be in the name of an entry; at level mix, everything that runs in a module
            whose name has it.
        max_tensor_bytes: elements of larger tensors are left out, and named in the manifest.
        overwrite: replace an earlier dump of probe_flow in this folder.

    Raises:
        UsageError: PF6320 without torch, PF6321 for a folder that cannot be used, PF6331 for a wrong option, PF6350 for
            a configuration that cannot be used.
    """
    given = {
        "level": level,
        "data": data,
        "phases": phases,
        "direction": direction,
        "steps": steps,
        "ranks": ranks,
        "scope": scope,
        "include": include,
        "max_tensor_bytes": max_tensor_bytes,
    }
    place, options = options_of_script(folder, config, given)
    return TorchDump(model, place, options, overwrite=overwrite)


class TorchDump(ProgramDump):
    """What `dump_torch` returns."""

    def __init__(self, model: Any, folder: Path, options: DumpOptions, *, overwrite: bool = False) -> None:
        require_torch()
        _check_model(model, options)
        from probe_flow.dumpers.torch.api_names import LOW_RISK
        from probe_flow.dumpers.torch.leaves import TorchLeaves

        root = StepFolders(folder, "pytorch", _rank, ("torch", "numpy", "torch-npu"), overwrite=overwrite)
        super().__init__(folder, Recorder(root, options, TorchLeaves, LOW_RISK))
        self._model = model

    def _make_taps(self, options: DumpOptions) -> Iterator[Taps]:
        from probe_flow.dumpers.torch.api_taps import ApiTaps
        from probe_flow.dumpers.torch.module_taps import ModuleTaps
        from probe_flow.dumpers.torch.watching import Watch

        self._watch = Watch(self._recorder)
        if options.has_modules:
            yield ModuleTaps(self._watch, self._model)
        if options.has_calls:
            yield ApiTaps(self._watch)

    def _step_ended(self) -> None:
        self._watch.begin_step()


def _rank() -> int | None:
    from probe_flow.dumpers.torch.ranks import world_and_rank

    known = world_and_rank()
    return None if known is None else known[1]


def _check_model(model: Any, options: DumpOptions) -> None:
    if not options.has_modules and model is None:
        return
    import torch

    for each in model if isinstance(model, (list, tuple)) else (model,):
        if not isinstance(each, torch.nn.Module):
            raise no_model(each, "torch.nn.Module")
