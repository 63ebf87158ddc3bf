"""Compile a model for the device with a GE dump, on a machine that has torch_npu and torchair."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumpers.requirements import missing_modules
from probe_flow.dumpers.torch.diagnostics import not_on_device
from probe_flow.dumpers.torchair.ge import GeDumpOptions, configure_ge_dump
from probe_flow.errors import UsageError

_TORCHAIR = ("torchair", "torch_npu.dynamo.torchair")
"""Where torchair lies: a package of its own, or inside torch_npu."""


def import_torchair() -> Any:
    """Return torchair; torch_npu is imported with it, which makes the device known to torch.

    Raises:
        UsageError: PF6328 where they are not installed or do not load.
    """
    try:
        import_module("torch_npu")
        for name in _TORCHAIR:
            if not any(missing_modules(name)):
                return import_module(name)
    except Exception as error:  # a device package that finds no driver may raise anything
        raise UsageError(not_on_device(f"`torch_npu` does not load: {type(error).__name__}: {error}")) from error
    raise UsageError(not_on_device("`torchair` is not installed"))


def ge_backend(job: ModelJob, folder: Path) -> tuple[Any, dict[str, object]]:
    """Return torchair's backend, set up to dump into the folder, and the attributes that were set.

    Raises:
        UsageError: PF6321, PF6328, PF6329.
    """
    torchair = import_torchair()
    config = torchair.CompilerConfig()
    options = dict(job.dump)
    for name in ("steps", "layers"):
        if options.get(name) is not None:
            options[name] = tuple(options[name])
    done = configure_ge_dump(config, folder, GeDumpOptions(**options))
    return torchair.get_npu_backend(compiler_config=config), dict(done)
