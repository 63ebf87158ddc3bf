"""What a machine needs to run an offline model: CANN, and the tool that loads models into it. Runs nothing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from probe_flow.dumpers.requirements import missing_modules
from probe_flow.errors import Diagnostic

CANN = "ASCEND_TOOLKIT_HOME"
"""Environment variable with CANN's folder; its own `set_env.sh` sets it."""

DEFAULT_TOOL = "ais_bench"
"""Module of the tool, which the running interpreter runs unless the workflow names another one."""


def cann_problems() -> Iterator[Diagnostic]:
    """Yield PF6328 if CANN is not here."""
    home = os.environ.get(CANN)
    if not home:
        yield not_here(f"CANN is not set up: `{CANN}` is not set")
    elif not Path(home).is_dir():
        yield not_here(f"`{CANN}` names `{home}`, which is no folder")


def tool_problems(tool: Sequence[str] | None) -> Iterator[Diagnostic]:
    """Yield PF6328 if the tool that runs the model is not here.

    Args:
        tool: program and first arguments; None = the module `DEFAULT_TOOL`.
    """
    if tool is None:
        if any(missing_modules(DEFAULT_TOOL)):
            what = f"`{DEFAULT_TOOL}` is not installed in this interpreter; `tool` names another one that has it"
            yield not_here(what)
    elif shutil.which(tool[0]) is None:
        yield not_here(f"`tool`: `{tool[0]}` is no program that can be run")


def tool_command(tool: Sequence[str] | None) -> list[str]:
    """Return program and first arguments of the tool."""
    return [*tool] if tool is not None else [sys.executable, "-m", DEFAULT_TOOL]


def not_here(why: str) -> Diagnostic:
    """Return PF6328."""
    return Diagnostic(
        "PF6328",
        f"an offline model runs on a machine with an Ascend device: {why}",
        help="adopt a dump that was made there with `path:`; `probe-flow init --snippet om` prints the commands that "
        "make it",
    )
