"""The child process of a dump stage: imports the user's model, has a runner run it, and records what came of it."""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import asdict

from probe_flow.dumpers.base.inputs import input_files, keep_inputs, model_calls
from probe_flow.dumpers.base.job import INPUT_FOLDER, RUN_FILE, RUN_SCHEMA, ModelJob, digests, read_job
from probe_flow.dumpers.base.runner import Runner
from probe_flow.dumpers.base.source import load_model
from probe_flow.dumpers.dump_files import write_json
from probe_flow.errors import Diagnostic, IncompleteError, ProbeFlowError, UsageError


def main(job_path: str, runner: str, folder: str) -> int:
    """Run the job and return the exit code: 0 done, 1 failed with a record that says why.

    Args:
        job_path: file of the job.
        runner: class of the runner as ``module:attribute``.
        folder: name of the dump's folder.
    """
    job = read_job(Path(job_path))
    record: dict[str, Any] = {"schema": RUN_SCHEMA, "ok": False, "job": asdict(job)}
    try:
        record |= run_job(job, _runner(runner, job, folder))
        record["ok"] = True
    except ProbeFlowError as error:
        if error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        record["failure"] = _failure(error)
    except SystemExit as error:
        traceback.print_exc()
        record["failure"] = _failure(IncompleteError(_model_exited(job, error)))
    write_json(Path(job.output) / RUN_FILE, record)
    return 0 if record["ok"] else 1


def _runner(place: str, job: ModelJob, folder: str) -> Runner:
    """Return the runner, whose module imports the framework."""
    module, _, attribute = place.partition(":")
    runner = getattr(import_module(module), attribute)(job, Path(job.output) / folder)
    assert isinstance(runner, Runner), f"`{place}` is no Runner"
    return runner


def _failure(error: ProbeFlowError) -> dict[str, Any]:
    first = error.diagnostic
    what = {"code": first.code, "message": first.message, "help": first.help, "path": first.path}
    return {**what, "is_wrong_request": isinstance(error, UsageError)}


def end_with(lifeline: int) -> None:
    """End this process, and what it started, as soon as the other end of a pipe is closed: its parent is gone then."""

    def wait() -> None:
        os.read(lifeline, 1)
        os.killpg(0, signal.SIGKILL)

    os.set_inheritable(lifeline, False)  # noqa: FBT003 (it takes no keywords)
    threading.Thread(target=wait, name="lifeline", daemon=True).start()


def run_job(job: ModelJob, runner: Runner) -> dict[str, Any]:
    """Run the model as often as asked for, and return the record of it.

    Raises:
        ProbeFlowError: PF6320 to PF6329, see `errors/codes/PF6300_making_dumps.yaml`.
    """
    sys.path.insert(0, job.import_from or str(Path.cwd()))
    runner.begin()
    _seed(job, runner)
    if job.memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (job.memory_bytes, job.memory_bytes))
    model, source = load_model(job.model, runner)
    runner.open(model)
    # The seed counts from here, so that the model's initial weights do not decide what random operators draw.
    _seed(job, runner)
    inputs = _run_calls(job, runner)
    record = {
        **runner.finish(),
        "inputs": inputs,
        "source": digests([source])[0] if source else None,
        "files": digests([*input_files(job.inputs), *runner.model_parts()]),
        "versions": _versions(runner.libraries),
    }
    runner.conclude(record)
    return record


def _run_calls(job: ModelJob, runner: Runner) -> list[Any]:
    folder = Path(job.output) / INPUT_FOLDER
    kept = []
    for number, (args, kwargs) in enumerate(model_calls(job.inputs, job.calls, runner)):
        if not number or "callable" in job.inputs:
            kept.append(keep_inputs((args, kwargs), folder / str(number), runner))
        try:
            runner.step(args, kwargs)
        except ProbeFlowError:
            raise
        except Exception as error:  # the user's model may raise anything
            if (own := _own_error(error)) is not None:
                raise own from error
            raise IncompleteError(_model_failed(job, number, runner.words(error))) from error
    return kept


def _own_error(error: BaseException) -> ProbeFlowError | None:
    """Return the error of the dump that a framework wrapped in its own."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ProbeFlowError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _seed(job: ModelJob, runner: Runner) -> None:
    random.seed(job.seed)
    np.random.seed(job.seed)
    runner.seed()


def _versions(libraries: Iterable[str]) -> dict[str, str]:
    found = {}
    for name in libraries:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _model_failed(job: ModelJob, number: int, words: str) -> Diagnostic:
    return Diagnostic(
        "PF6324",
        f"`{job.model}` failed in call {number}: {words}",
        help="the traceback stands in the log; check that the inputs are what the model takes",
    )


def _model_exited(job: ModelJob, error: SystemExit) -> Diagnostic:
    return Diagnostic(
        "PF6324",
        f"`{job.model}` ended its process: it, its module or its inputs called `sys.exit({error.code!r})`",
        help="a model is called and has to return; keep what ends a script out of it, "
        "e.g. below `if __name__ == '__main__':`",
    )


if __name__ == "__main__":
    end_with(int(sys.argv[2]))
    sys.exit(main(sys.argv[1], *sys.argv[3:5]))
