"""Reproduce a suspect of a stored run: find its call in the dumps, write the script, run it in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from probe_flow.api.dumps import adopt
from probe_flow.errors import Diagnostic, IncompleteError, UsageError, did_you_mean
from probe_flow.files.existing import is_there
from probe_flow.files.opening import read_text
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.records import Catalog, Node
from probe_flow.scripts.repro import Suspect, unusable, write_script

RUN_S = 600.0
"""Seconds that a script may take."""


class Reproduction(Struct, frozen=True):
    """What came of it: the script; where it ran, its result (``status``, ``relative_error``, ``why``) and exit code."""

    script: Path
    said: Mapping[str, Any] = {}
    code: int = 0


def reproduce(
    run: StoredRun,
    folder: Path,
    *,
    node: str = "",
    suspect: int = 1,
    moved: Mapping[str, str] = MappingProxyType({}),
    python: str | None = None,
    runs: bool = True,
) -> Reproduction | None:
    """Write the script of a suspect, and run it; None where the run has no suspect and none is named.

    Args:
        run: the run.
        folder: of the script.
        node: entry of the call, or its name without call number (its first call); empty = a suspect.
        suspect: number of the suspect, from 1.
        moved: where dumps lie now, by side.
        python: the interpreter that has the framework; None = this one.
        runs: whether the script is run.

    Raises:
        UsageError: PF2134 no such suspect or call.
        IncompleteError: PF6631 no script can be made of it; PF6632 a dump is gone or has changed.
    """
    found = None if node else _finding(run, suspect)
    if not node and found is None:
        return None
    target = _catalog(run, "target", moved)
    if target is None:
        raise _gone("target", "the run read no dump of that name")
    call = _node(target, node) if found is None else _node_of(target, found)
    golden = _catalog(run, "golden", moved)
    if golden is not None and golden.framework != target.framework:
        golden = None
    folder.mkdir(parents=True, exist_ok=True)
    script = write_script(Suspect(target, call, golden, _same(golden, call)), folder)
    return _run(script, python or sys.executable) if runs else Reproduction(script)


def _finding(run: StoredRun, number: int) -> FindingRecord | None:
    suspects = [each for each in map(run.record.at, run.record.suspects) if each is not None and each.name]
    if not suspects:
        return None
    if number > len(suspects):
        help_ = "`show` lists them"
        raise UsageError(Diagnostic("PF2134", f"there is no suspect {number}: the run has {len(suspects)}", help=help_))
    return suspects[number - 1]


def _catalog(run: StoredRun, side: str, moved: Mapping[str, str]) -> Catalog | None:
    """Return the dump of a side as it was read; None where the run has none."""
    uses = {stage.name: stage.uses for stage in run.record.stages}
    given = next((each for each in run.record.inputs if each.stage == side), None)
    if given is None:
        return None
    path = moved.get(side, given.path)
    if not is_there(path):
        raise _gone(side, f"there is no dump at `{path}`")
    found = adopt(run.record, side, uses.get(side, ""), path)
    if not isinstance(found, Catalog):
        return None
    if side not in moved and given.fingerprint and found.fingerprint != given.fingerprint:
        raise _gone(side, f"the dump at `{path}` has changed since the run")
    return found


def _node_of(catalog: Catalog, found: FindingRecord) -> Node:
    for node in catalog.nodes.values():
        run = node.key.execution
        if node.entry == found.name and (run.rank, run.step) == (found.rank, found.step):
            return node
    raise unusable(str(found.name), "the dump has no such call any more")


def _node(catalog: Catalog, name: str) -> Node:
    for node in catalog.nodes.values():
        if name in (node.entry, node.key.name):
            return node
    names = {node.entry or node.key.name: None for node in catalog.nodes.values()}
    help_ = did_you_mean(name, names) or "names are those of `nodes.jsonl`"
    raise UsageError(Diagnostic("PF2134", f"the target has no call `{name}`", help=help_))


def _same(golden: Catalog | None, node: Node) -> Node | None:
    """Return the call of the golden that has the same name and execution."""
    if golden is None:
        return None
    found = golden.nodes.get(node.key)
    if found is not None:
        return found
    run = node.key.execution
    return next(
        (
            each
            for each in golden.nodes.values()
            if each.entry == node.entry and (each.key.execution.rank, each.key.execution.step) == (run.rank, run.step)
        ),
        None,
    )


def _run(script: Path, python: str) -> Reproduction:
    """Run a script, with its result in a file beside it."""
    result = script.with_suffix(".json")
    result.unlink(missing_ok=True)
    command = [python, str(script), "--json", str(result)]
    try:
        done = subprocess.run(  # noqa: S603 (the interpreter that the user names)
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=RUN_S
        )
    except subprocess.TimeoutExpired:
        return _undecided(script, f"it took more than {RUN_S:g} s")
    except OSError as error:
        return _undecided(script, f"`{python}` cannot be run: {error.strerror or error}")
    if not result.is_file():
        if done.returncode < 0:
            return _undecided(script, f"it ended its process with signal {-done.returncode}")
        last = (done.stderr.strip().splitlines() or ["it wrote no result"])[-1]
        return _undecided(script, last)
    return Reproduction(script, json.loads(read_text(result)), done.returncode)


def _undecided(script: Path, why: str) -> Reproduction:
    return Reproduction(script, {"status": "undecided", "relative_error": None, "why": why}, IncompleteError.exit_code)


def _gone(side: str, why: str) -> IncompleteError:
    help_ = f"say where it lies now with `--dump {side}=PATH`, or run the workflow again"
    return IncompleteError(Diagnostic("PF6632", f"the call cannot be reproduced: {why}", help=help_))
