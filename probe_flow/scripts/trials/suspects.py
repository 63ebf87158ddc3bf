"""Reproduce suspects: a script for each, all of them tried below one process, and what the run's record says of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.exit_codes import EXIT_GATE_FAILED, EXIT_INCOMPLETE, EXIT_PASSED
from probe_flow.records import SELF, Catalog, Comparison, FindingKind, Node, NodeKey, NodeKind
from probe_flow.records.frameworks import NPY, OM, TORCHAIR_FX, TORCHAIR_GE
from probe_flow.scripts.fx_operator import ComparedTensor
from probe_flow.scripts.repro import FORMAT, Entries, Script, entries_of, write_script
from probe_flow.scripts.suspect import Suspect, computed_call
from probe_flow.scripts.trials.trial import NOT_RUN, Limits, try_scripts

_ACCUSING = (
    (FindingKind.ORIGIN, FindingKind.CHECKSUM_ORIGIN),
    (FindingKind.FAILURE,),
    (FindingKind.SUSPECT,),
    (FindingKind.NONFINITE_ORIGIN,),
)
"""Kinds of findings that name a suspect, in the order in which a run lists them."""

EXIT_CODES: Mapping[str, int] = {
    "not_reproduced": EXIT_PASSED,
    "no_error": EXIT_PASSED,
    "reproduced": EXIT_GATE_FAILED,
    "error": EXIT_GATE_FAILED,
    "undecided": EXIT_INCOMPLETE,
    NOT_RUN: EXIT_INCOMPLETE,
}


class Writer(Protocol):
    """Writes the script of a suspect into a folder, as `write_script` and `write_random_script` do."""

    def __call__(
        self,
        suspect: Suspect,
        folder: Path,
        *,
        taken: Collection[str],
        announce: Callable[[Path], object],
        entries: Entries | None,
    ) -> Script: ...


class Trial(Struct, frozen=True):
    """How scripts are tried.

    Args:
        python: the interpreter that has the framework; empty = this one.
        limits: of each script.
    """

    python: str = ""
    limits: Limits = Limits()


class Reproduction(Struct, frozen=True):
    """A suspect and what came of it.

    Args:
        suspect: it.
        script: what computes it.
        said: what the script found: ``status``, ``relative_error``, ``why``, ``differs``, ``versions``.
        was_tried: False where only the script was wanted.
        unrecorded: why the record of the run does not say so.
    """

    suspect: Suspect
    script: Script
    said: Mapping[str, Any]
    was_tried: bool = True
    unrecorded: str = ""

    @property
    def code(self) -> int:
        """The exit code of the script."""
        return EXIT_CODES[self.said["status"]] if self.was_tried else 0

    def fields(self, folder: Path) -> dict[str, Any]:
        """Return what the record of a run says of it.

        Args:
            folder: of the run, from which the path of the script is told where it lies in it.
        """
        execution, path = self.suspect.node.key.execution, Path(os.path.abspath(self.script.path))  # noqa: PTH100
        home = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay as the user typed them
        shown = path.relative_to(home) if path.is_relative_to(home) else path
        told = ("status", "relative_error", "why", "differs", "versions")
        return {
            "entry": self.script.entry,
            "suspect": self.suspect.name,
            "rank": execution.rank,
            "step": execution.step,
            "row": self.suspect.row,
            "script": str(shown),
            **{name: self.said[name] for name in told if name in self.said},
        }


class Unscripted(Struct, frozen=True):
    """A suspect of which no script can be made, so that whether it is wrong stays undecided.

    Args:
        suspect: it.
        problem: PF6631, with the reason and what to do.
    """

    suspect: Suspect
    problem: Diagnostic

    def fields(self) -> dict[str, Any]:
        """Return what the record of a run says of it."""
        execution = self.suspect.node.key.execution
        why = self.problem.message.partition(f"`{self.suspect.name}`: ")[2] or self.problem.message
        return {
            "entry": self.suspect.name,
            "suspect": self.suspect.name,
            "rank": execution.rank,
            "step": execution.step,
            "row": self.suspect.row,
            "status": "undecided",
            "why": f"{why}; {self.problem.help}" if self.problem.help else why,
            "script": "",
        }


def reproduce(
    suspects: Sequence[Suspect],
    folder: Path,
    trial: Trial | None,
    *,
    write: Writer = write_script,
    announce: Callable[[Path], object] = lambda _path: None,
) -> tuple[list[Reproduction], list[Unscripted]]:
    """Write a script for each suspect and try all of them; return what came of them, and those that have no script.

    Args:
        suspects: calls of the target.
        folder: of the scripts; made where it is missing.
        trial: how they are tried; None = they are only written.
        write: writes the script of one.
        announce: is told of every file before it is begun.

    Raises:
        IncompleteError: PF7001 a file cannot be written.
    """
    scripts: list[tuple[Suspect, Script]] = []
    problems: list[Unscripted] = []
    entries = _entries(suspects)
    written: dict[NodeKey, Script] = {}
    for suspect in suspects:
        taken = {each.path.stem for _, each in scripts}
        key = _stand_in(suspect)
        try:
            script = written.get(key) or write(suspect, folder, taken=taken, announce=announce, entries=entries)
        except IncompleteError as error:
            if error.diagnostic.code != "PF6631":
                raise
            problems.append(Unscripted(suspect, error.diagnostic))
            continue
        written[key] = script
        scripts.append((suspect, script))
    if trial is None:
        said = {"status": NOT_RUN, "why": "only the script was asked for"}
        return [Reproduction(*each, said, was_tried=False) for each in scripts], problems
    for path in dict.fromkeys(script.path for _, script in scripts):
        announce(path.with_suffix(".json"))
    found: dict[Path, Mapping[str, Any]] = {}
    for modules in dict.fromkeys(script.modules for _, script in scripts):
        paths = list(dict.fromkeys(script.path for _, script in scripts if script.modules == modules))
        results = try_scripts(paths, modules, python=trial.python or sys.executable, limits=trial.limits)
        found.update(zip(paths, results, strict=True))
    return [Reproduction(suspect, script, found[script.path]) for suspect, script in scripts], problems


def _stand_in(suspect: Suspect) -> NodeKey:
    """Return the call that is computed for a suspect: modules that end with one API share its script."""
    if suspect.node.kind is NodeKind.MODULE and suspect.target.attrs.get("format") == FORMAT:
        with suppress(IncompleteError):  # `write` says so again
            call = computed_call(suspect)
            return suspect.node.key if call.brings_gradients else call.node.key
    return suspect.node.key


def _entries(suspects: Sequence[Suspect]) -> Entries:
    """Return what the dumps have of all suspects, each dump.json read once."""
    wanted: dict[str, list[tuple[Node, Catalog]]] = {"target": [], "golden": []}
    for suspect in suspects:
        with suppress(IncompleteError):  # `write` says so again
            call = computed_call(suspect)
            wanted["target"].append((call.node, suspect.target))
            if call.golden is not None and suspect.golden is not None:
                wanted["golden"].append((call.golden, suspect.golden))
    entries: dict[tuple[str, NodeKey], dict[str, Any]] = {}
    for side, nodes in wanted.items():
        for catalog in {id(each): each for _, each in nodes}.values():
            if catalog.attrs.get("format") == FORMAT:
                found = entries_of(catalog, [node for node, each in nodes if each is catalog])
                entries |= {(side, key): calls for key, calls in found.items()}
    return entries


def compute_alike(target: Catalog, golden: Catalog) -> bool:
    """Return True where calls of the target can be computed with what a golden has of them."""
    pairs = ((TORCHAIR_GE, TORCHAIR_FX), (OM, NPY))
    return golden.framework == target.framework or (target.framework, golden.framework) in pairs


def same_call(golden: Catalog | None, node: Node) -> Node | None:
    """Return the call of the golden that has the name and the execution of one of the target.

    That is its counterpart only where nothing says what it was compared with: calls shift, and mappings pair others.
    """
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


def suspects_of(
    comparison: Comparison,
    *,
    dumps: Sequence[Catalog] = (),
    limit: int | None = None,
    calls: Sequence[NodeKey] | None = None,
) -> list[Suspect]:
    """Return the calls of the target that a comparison suspects, each once.

    Args:
        comparison: it.
        dumps: target, and maybe golden, where it compared something that was made of them.
        limit: at most so many.
        calls: the calls to take; None = those that it names as origins, as failing, or as coming near to one.
    """
    pairs = comparison.pairs
    target = dumps[0] if dumps else pairs.target
    golden = dumps[1] if len(dumps) > 1 else None if dumps else pairs.golden
    if golden is not None and not compute_alike(target, golden):
        golden = None
    rows: dict[NodeKey, int | None] = {}
    for kinds in _ACCUSING:
        for each in comparison.findings:
            if each.kind in kinds and each.node is not None:
                rows.setdefault(each.node, each.row)
    wanted = [key for key in (rows if calls is None else calls) if key in target.nodes][:limit]
    others: dict[NodeKey, NodeKey | None] = {}
    tensors: dict[NodeKey, list[ComparedTensor]] = {key: [] for key in wanted}
    for row in comparison.rows if wanted else ():
        pair = row.pair
        if pair.target is not None and pair.target.node in tensors:
            others.setdefault(pair.target.node, None)
            if pair.golden is not None:
                if pair.rule is not SELF:
                    others[pair.target.node] = others[pair.target.node] or pair.golden.node
                rows.setdefault(pair.target.node, row.order)
            slot = pair.target.slot
            tensors[pair.target.node].append(ComparedTensor(slot.role, slot.index, pair.target, pair.golden))
    found = []
    for key in wanted:
        node = target.nodes[key]
        other = same_call(golden, node)
        if golden is not None and key in others:
            compared_with = others[key]
            other = None if compared_with is None else golden.nodes.get(compared_with)
        found.append(Suspect(target, node, golden, other, rows.get(key), tuple(tensors[key])))
    return found
