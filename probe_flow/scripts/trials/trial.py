"""Try scripts before they are offered: all of them below one process, which imports their framework once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from probe_flow.files.atomic import atomic_text
from probe_flow.files.machine import KILL_S, memory_of_machine
from probe_flow.files.opening import read_text
from probe_flow.scripts.trials import trial_process

SCRIPT_S = 600.0
"""Seconds that a script may take."""

IMPORT_S = 300.0
"""Seconds that a framework may take to be imported: from a cold network disk, minutes."""

MEMORY_SHARE = 0.5
"""Of the machine's memory, what a script may take."""

NOT_RUN = "not_run"

_MAX_WHY = 500


class Limits(Struct, frozen=True):
    """What a script may take, by itself.

    Args:
        seconds: of time.
        memory_bytes: of its own memory (mapped files do not count); 0 = half of the machine's.
    """

    seconds: float = SCRIPT_S
    memory_bytes: int = 0


def try_scripts(
    scripts: Sequence[Path], modules: Sequence[str], *, python: str, limits: Limits
) -> list[dict[str, Any]]:
    """Run scripts one after another; return what each found, which lies in a JSON file beside it too.

    A script gives ``status``, ``relative_error``, ``why``, ``differs``, ``outputs`` and ``versions``. One that gives
    nothing is ``undecided``, with the reason; where nothing can be run at all, each is ``not_run``.

    Args:
        scripts: of one framework.
        modules: what is imported before: the framework.
        python: the interpreter that has it.
        limits: of each script.

    Raises:
        IncompleteError: PF7001 a result cannot be written.
    """
    results = [script.with_suffix(".json") for script in scripts]
    for result in results:
        result.unlink(missing_ok=True)
    memory = limits.memory_bytes or int((memory_of_machine() or 0) * MEMORY_SHARE)
    job = {
        "modules": list(modules),
        "scripts": [
            {"script": str(script), "result": str(result)} for script, result in zip(scripts, results, strict=True)
        ],
        "seconds": limits.seconds,
        "memory_bytes": memory,
    }
    told, why = _tried(job, python, IMPORT_S + len(scripts) * (limits.seconds + KILL_S))
    found = []
    for number, (script, result) in enumerate(zip(scripts, results, strict=True)):
        said = _said(told.get(number), result, why)
        if said is None:
            found.append(json.loads(read_text(result)))
            continue
        with atomic_text(result) as file:
            json.dump({"entry": script.stem.removeprefix("repro_"), **said}, file, indent=2)
        found.append(said)
    return found


def _said(told: Mapping[str, Any] | None, result: Path, why: str) -> dict[str, Any] | None:
    """Return what is said of a script that left no result; None where it left one."""
    if told is None:
        return _nothing(NOT_RUN, why)
    if told["code"] is not None and result.is_file():
        return None
    return _nothing("undecided", told["why"] or told["last"] or "it wrote no result")


def _nothing(status: str, why: str) -> dict[str, Any]:
    shown = why if len(why) <= _MAX_WHY else f"{why[:_MAX_WHY]} ..."
    return {"status": status, "relative_error": None, "why": shown, "differs": None, "outputs": [], "versions": {}}


def _tried(job: Mapping[str, Any], python: str, seconds: float) -> tuple[dict[int, Mapping[str, Any]], str]:
    """Return what the process said of each script, by number, and why it said no more."""
    command = [python, str(Path(trial_process.__file__))]
    try:
        process = subprocess.Popen(  # noqa: S603 (the interpreter that the user names)
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return {}, f"`{python}` cannot be run: {error.strerror or error}"
    why = "the process that tries scripts ended"
    try:
        out, err = process.communicate(json.dumps(job), timeout=seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = process.communicate(timeout=KILL_S)
        why = "the framework was not imported, or the scripts did not end, in time"
    except BaseException:
        _end(process)
        raise
    lines = list(_lines(out))
    told: dict[int, Mapping[str, Any]] = {line["number"]: line for line in lines if "number" in line}
    failed = next((line["failed"] for line in lines if "failed" in line), None)
    if failed is not None:
        modules = " and ".join(f"`{name}`" for name in job["modules"])
        return told, f"{python} does not import {modules}: {failed}"
    last = (err.strip().splitlines() or [""])[-1]
    return told, f"{why}: {last}" if last else why


def _end(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _lines(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found
