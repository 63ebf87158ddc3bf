"""The child process of a dump stage: imports the user's model, runs it under the dump, and records what came of it."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from probe_flow.dumpers.dump_files import write_json
from probe_flow.dumpers.model_job import (
    INPUT_FOLDER,
    RUN_FILE,
    RUN_SCHEMA,
    ModelJob,
    file_digest,
    read_job,
)
from probe_flow.dumpers.requirements import require_torch
from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError

_LIBRARIES = ("torch", "numpy", "torch-npu", "torchair")
_RECOMPILES = 1024
"""Recompilations of one function before torch would silently go on without the backend, and so without the dump."""

_TOLD, _WORDS = "Explanation:", 300


def main(job_path: str) -> int:
    """Run the job and return the exit code: 0 done, 1 failed with a record that says why."""
    job = read_job(Path(job_path))
    record: dict[str, Any] = {"schema": RUN_SCHEMA, "ok": False, "job": asdict(job)}
    try:
        record |= run_job(job)
        record["ok"] = True
    except ProbeFlowError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        record["failure"] = _failure(error.diagnostic)
    except SystemExit as error:
        traceback.print_exc()
        record["failure"] = _failure(_model_exited(job, error))
    write_json(Path(job.output) / RUN_FILE, record)
    return 0 if record["ok"] else 1


def _failure(first: Diagnostic) -> dict[str, Any]:
    return {"code": first.code, "message": first.message, "help": first.help, "path": first.path}


def end_with(lifeline: int) -> None:
    """End this process, and what it started, as soon as the other end of a pipe is closed: its parent is gone then."""

    def wait() -> None:
        os.read(lifeline, 1)
        os.killpg(0, signal.SIGKILL)

    os.set_inheritable(lifeline, False)  # noqa: FBT003 (it takes no keywords)
    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def run_job(job: ModelJob) -> dict[str, Any]:
    """Run the model as often as asked for, and return the record of it.

    Raises:
        ProbeFlowError: PF6320 to PF6329, see `errors/codes/PF6300_making_dumps.yaml`.
    """
    require_torch()
    sys.path.insert(0, job.import_from or str(Path.cwd()))
    from probe_flow.dumpers.model_source import load_model

    if job.is_on_device:
        # The devices that this package brings must be known before the model is made.
        from probe_flow.dumpers.torchair.npu import import_torchair

        import_torchair()
    _seed(job)
    if job.memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (job.memory_bytes, job.memory_bytes))
    model, source = load_model(job.model)
    import torch

    if isinstance(model, torch.nn.Module):
        if job.device is not None:
            model = model.to(job.device)
        if not job.has_backward:
            model = model.eval()
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    compiled, finish = _compiled(job, model)
    # The seed counts from here, so that the model's initial weights do not decide what random operators draw.
    _seed(job)
    inputs = _run_calls(job, compiled)
    return {
        **finish(),
        "inputs": inputs,
        "source": {"path": str(source), "sha256": file_digest(source)} if source else None,
        "versions": _versions(),
    }


def _compiled(job: ModelJob, model: Any) -> tuple[Any, Callable[[], dict[str, Any]]]:
    """Return the model behind the dumping backend, and what says at the end how it went."""
    import torch

    for name in ("cache_size_limit", "recompile_limit", "accumulated_cache_size_limit", "accumulated_recompile_limit"):
        with contextlib.suppress(AttributeError):
            setattr(torch._dynamo.config, name, _RECOMPILES)
    torch._dynamo.reset()
    if job.is_on_device:
        from probe_flow.dumpers.torchair.npu import ge_backend

        backend, settings = ge_backend(job)
        return torch.compile(model, backend=backend, dynamic=job.dynamic), lambda: {"settings": settings}
    from probe_flow.dumpers.torchair.fx import torchair_fx_backend

    fx = torchair_fx_backend(job.dump_folder, **job.dump)
    compiled = torch.compile(model, backend=fx, dynamic=job.dynamic)

    def finish() -> dict[str, Any]:
        if not fx.graphs or not any(fx.folder.rglob("*.npy")):
            raise IncompleteError(_nothing_dumped(fx.graphs))
        return {"graphs": fx.graphs, "graph_breaks": _graph_breaks()}

    return compiled, finish


def _graph_breaks() -> list[str]:
    """Return why torch left code of the model out of its graphs, each reason once."""
    from torch._dynamo.utils import counters

    return [
        str(reason).strip().splitlines()[0][:200] for reason in counters.get("graph_break", {}) if str(reason).strip()
    ]


def _run_calls(job: ModelJob, compiled: Any) -> list[Any]:
    import torch

    from probe_flow.dumpers.model_inputs import keep_inputs, model_calls, moved

    folder = Path(job.output) / INPUT_FOLDER
    kept = []
    for number, call in enumerate(model_calls(job.inputs, job.calls)):
        if not number or "callable" in job.inputs:
            kept.append(keep_inputs(call, folder / str(number)))
        args, kwargs = moved(call, job.device)
        try:
            with contextlib.nullcontext() if job.has_backward else torch.no_grad():
                result = compiled(*args, **kwargs)
            if job.has_backward:
                _backward(result)
        except ProbeFlowError:
            raise
        except Exception as error:  # the user's model may raise anything
            if (own := _own_error(error)) is not None:
                raise own from error
            raise IncompleteError(_model_failed(job, number, error)) from error
    return kept


def _own_error(error: BaseException) -> ProbeFlowError | None:
    """Return the error of the dump that torch wrapped in its own."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ProbeFlowError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _backward(result: Any) -> None:
    import torch
    from torch.utils._pytree import tree_leaves

    leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not leaves:
        raise IncompleteError(
            Diagnostic(
                "PF6324",
                "the model has no result to differentiate: none requires a gradient",
                help="leave out `backward`, or make parameters that require gradients",
            )
        )
    torch.stack([leaf.sum().real.to(torch.float32) for leaf in leaves]).sum().backward()


def _seed(job: ModelJob) -> None:
    import numpy as np
    import torch

    random.seed(job.seed)
    np.random.seed(job.seed)
    torch.manual_seed(job.seed)
    if job.is_deterministic:
        # What has no deterministic form warns, into the log, and still runs.
        torch.use_deterministic_algorithms(True, warn_only=True)  # noqa: FBT003


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _model_failed(job: ModelJob, number: int, error: Exception) -> Diagnostic:
    return Diagnostic(
        "PF6324",
        f"`{job.model}` failed in call {number}: {_in_words(error)}",
        help="the traceback stands in the log; check that the inputs are what the model takes",
    )


def _in_words(error: BaseException) -> str:
    """Return kind and first line of an error, of one that torch met while it captured the model what torch tells of it.

    torch puts its own heading first then, and the error itself into a line that begins with ``Explanation``.
    """
    lines = str(error).strip().splitlines() or [""]
    told = [line.strip() for line in lines if line.strip().startswith(_TOLD)]
    text = told[0].removeprefix(_TOLD).strip() if told else lines[0]
    _, met, inner = text.partition(": got ")
    return inner[:_WORDS] if met else f"{type(error).__name__}: {text[:_WORDS]}"


def _model_exited(job: ModelJob, error: SystemExit) -> Diagnostic:
    return Diagnostic(
        "PF6324",
        f"`{job.model}` ended its process: it, its module or its inputs called `sys.exit({error.code!r})`",
        help="a model is called and has to return; keep what ends a script out of it, "
        "e.g. below `if __name__ == '__main__':`",
    )


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


if __name__ == "__main__":
    end_with(int(sys.argv[2]))
    sys.exit(main(sys.argv[1]))
