"""`dump_torch`: record what a model computes while a script of the user's own runs."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from probe_flow.dumpers.dump_json.config_json import options_of_script
from probe_flow.dumpers.dump_json.options import DumpOptions
from probe_flow.dumpers.torch.diagnostics import require_torch
from probe_flow.errors import Diagnostic, IncompleteError, UsageError

if TYPE_CHECKING:
    from probe_flow.dumpers.dump_json.recorder import Recorder

_open = threading.Lock()


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


class TorchDump:
    """What `dump_torch` returns."""

    def __init__(self, model: Any, folder: Path, options: DumpOptions, *, overwrite: bool = False) -> None:
        require_torch()
        _check_model(model, options)
        from probe_flow.dumpers.dump_json.folder import DumpFolder
        from probe_flow.dumpers.dump_json.recorder import Recorder
        from probe_flow.dumpers.torch.api_names import LOW_RISK
        from probe_flow.dumpers.torch.leaves import TorchLeaves

        self.folder = folder.absolute()
        """The folder of the dump."""
        root = DumpFolder(folder, "pytorch", _rank, ("torch", "numpy", "torch-npu"), overwrite=overwrite)
        self._recorder: Recorder = Recorder(root, options, TorchLeaves, LOW_RISK)
        self._model = model
        self._taps: list[Any] = []

    @property
    def entries(self) -> int:
        """Entries that were recorded so far, of all steps."""
        return self._recorder.entries

    def __enter__(self) -> TorchDump:  # noqa: PYI034 (typing has no Self in Python 3.10)
        from probe_flow.dumpers.torch.api_taps import ApiTaps
        from probe_flow.dumpers.torch.module_taps import ModuleTaps
        from probe_flow.dumpers.torch.watching import Watch

        if not _open.acquire(blocking=False):
            raise _another()
        try:
            self._watch = Watch(self._recorder)
            options = self._recorder.options
            if options.has_modules:
                self._add(ModuleTaps(self._watch, self._model))
            if options.has_calls:
                self._add(ApiTaps(self._watch))
            self._recorder.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._recorder.stop(is_complete=error is None)
        except IncompleteError:
            if error is None:
                raise
        finally:
            self._remove()

    def step(self) -> None:
        """End a step: what comes next is written as the next one.

        Raises:
            IncompleteError: PF6326 when the step cannot be written.
        """
        self._recorder.end_step()
        self._watch.begin_step()

    def stop(self) -> None:
        """Record nothing until `start`: what an optimizer computes, say. The step goes on."""
        self._recorder.pause()

    def start(self) -> None:
        """Record again after `stop`."""
        self._recorder.start()

    def _add(self, taps: Any) -> None:
        self._taps.append(taps)
        taps.install()

    def _remove(self) -> None:
        while self._taps:
            self._taps.pop().remove()
        _open.release()


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
            raise UsageError(
                Diagnostic(
                    "PF6331",
                    f"`model` is of type `{type(each).__name__}`, expected a `torch.nn.Module`",
                    help="give the model, or a list of models; only level `L1` does without",
                )
            )


def _another() -> UsageError:
    return UsageError(
        Diagnostic(
            "PF6331",
            "another dump is being made in this process",
            help="end it before the next one begins: its calls would be recorded twice",
        )
    )
