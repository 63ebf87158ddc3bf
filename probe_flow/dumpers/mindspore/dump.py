"""`dump_mindspore`: record what a model computes in PyNative mode while a script of the user's own runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from probe_flow.dumpers.dump_json.config_json import options_of_script
from probe_flow.dumpers.dump_json.folder import StepFolders
from probe_flow.dumpers.dump_json.options import DumpOptions
from probe_flow.dumpers.dump_json.recorder import Recorder
from probe_flow.dumpers.dump_json.session import ProgramDump, Taps, no_model
from probe_flow.dumpers.requirements import framework_missing, missing_modules
from probe_flow.errors import Diagnostic, UsageError


def dump_mindspore(
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
) -> MindSporeDump:
    """Return a context in which everything that MindSpore computes in PyNative mode is dumped (dump.json).

    Gradients are reported by nodes of MindSpore's own, as in msprobe; results pass through them unchanged. Kernels run
    one after another from then on (``launch_blocking``), so that an error is that of the call that raises it.

    Use it as ``with dump_mindspore(model, "dump") as dump:`` around the steps of a program, each of which ends with
    ``dump.step()``.

    Args:
        model: the model, or a list of several, whose cells are recorded; None with level ``L1``.
        folder: of the dump, new or empty; each step of a process is a folder ``step{n}/rank{r}`` or ``step{n}/proc0``.
        config: a `config.json` of msprobe in place of the options below; its ``dump_path`` is the folder where none is
            given.
        level: ``L0`` records cells, ``L1`` calls of APIs and primitives, ``mix`` (the default) both.
        data: ``statistics`` of each tensor (maximum, minimum, mean, L2 norm); ``tensor`` (the default): its elements
            too; ``md5``: its checksum alone (CRC-32, as msprobe has it); ``both``: all of that.
        phases: ``forward``, ``backward``; None = both.
        direction: ``input``, ``output``; None = both.
        steps: steps to dump, from 0; None = all.
        ranks: ranks to dump; None = all.
        scope: names of the first and the last entry to dump.
        include: texts, one of which has to be in the name of an entry; at level mix, everything that runs in a cell
            whose name has it.
        max_tensor_bytes: elements of larger tensors are left out, and named in the manifest.
        overwrite: replace an earlier dump of probe_flow in this folder.

    Raises:
        UsageError: PF6320 without MindSpore, PF6321 for a folder that cannot be used, PF6331 for a wrong option or in
            graph mode, PF6350 for a configuration that cannot be used.
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
    return MindSporeDump(model, place, options, overwrite=overwrite)


class MindSporeDump(ProgramDump):
    """What `dump_mindspore` returns."""

    def __init__(self, model: Any, folder: Path, options: DumpOptions, *, overwrite: bool = False) -> None:
        if any(missing_modules("mindspore")):
            raise UsageError(framework_missing("MindSpore", "mindspore"))
        _check_model(model, options)
        from probe_flow.dumpers.mindspore.leaves import MindSporeLeaves

        root = StepFolders(folder, "mindspore", _rank, ("mindspore", "numpy"), overwrite=overwrite)
        super().__init__(folder, Recorder(root, options, MindSporeLeaves, ()))
        self._model = model

    @property
    def failed_api(self) -> str | None:
        """The API whose call failed last."""
        return self._watch.failed

    def _make_taps(self, options: DumpOptions) -> Iterator[Taps]:
        from probe_flow.dumpers.mindspore.api_taps import ApiTaps, PrimitiveTaps
        from probe_flow.dumpers.mindspore.cell_taps import CellTaps
        from probe_flow.dumpers.mindspore.watching import Watch

        _require_pynative()
        self._watch = Watch(self._recorder)
        if options.has_modules:
            yield CellTaps(self._watch, self._model)
        if options.has_calls:
            if self._model is not None:
                yield PrimitiveTaps(self._watch, self._model)
            yield ApiTaps(self._watch)

    def _step_ended(self) -> None:
        self._watch.begin_step()


def _require_pynative() -> None:
    """Have kernels run one after another.

    Raises:
        UsageError: PF6331 in graph mode, where hooks of cells do not fire.
    """
    import mindspore

    if mindspore.get_context("mode") != mindspore.PYNATIVE_MODE:
        raise UsageError(
            Diagnostic(
                "PF6331",
                "MindSpore is in graph mode, where hooks of cells do not fire",
                help="call `mindspore.set_context(mode=mindspore.PYNATIVE_MODE)` first; in graph mode MindSpore dumps "
                "its kernels itself (`MINDSPORE_DUMP_CONFIG`), see `dump.mindspore_graph`",
            )
        )
    with suppress(AttributeError, RuntimeError):
        mindspore.runtime.launch_blocking()


def _rank() -> int | None:
    """Return the rank of this process, of MindSpore's process group or as launchers tell it; None for neither."""
    with suppress(ImportError, AttributeError, RuntimeError, ValueError):
        from mindspore.communication import GlobalComm, get_rank

        if GlobalComm.INITED:
            return int(get_rank())
    number, size = os.environ.get("RANK_ID", ""), os.environ.get("RANK_SIZE", "")
    return int(number) if number.isdecimal() and size.isdecimal() and int(size) > 1 else None


def _check_model(model: Any, options: DumpOptions) -> None:
    if not options.has_modules and model is None:
        return
    from mindspore import nn

    for each in model if isinstance(model, (list, tuple)) else (model,):
        if not isinstance(each, nn.Cell):
            raise no_model(each, "mindspore.nn.Cell")
