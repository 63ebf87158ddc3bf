"""Reproduce a suspect of a stored run: find its call in the dumps, write and try its script, record what it found."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from msgspec.structs import replace

from probe_flow.api.dumps import adopt
from probe_flow.errors import Diagnostic, IncompleteError, UsageError, did_you_mean
from probe_flow.files.existing import is_there
from probe_flow.files.lock_file import RUN_LOCK, HeldError, LockFile
from probe_flow.record.json_values import number
from probe_flow.record.row_index import call_code
from probe_flow.record.run_folder import RECORD, VERSION, StoredRun, read_run
from probe_flow.record.run_json import write_run_json
from probe_flow.record.types.conclusions import FindingRecord
from probe_flow.record.types.rows import RowRecord
from probe_flow.records import SELF, Catalog, Node, NodeKind, Phase, TensorKind, TensorRef
from probe_flow.records.frameworks import NPY
from probe_flow.runs.queries.tensor import side_view
from probe_flow.runs.reopen import StoredDumps
from probe_flow.scripts.fx_operator import ComparedTensor
from probe_flow.scripts.repro import write_script
from probe_flow.scripts.suspect import Suspect, computed_call, unusable
from probe_flow.scripts.trials.suspects import Reproduction, Trial, Writer, compute_alike, same_call
from probe_flow.scripts.trials.suspects import reproduce as reproduce_all
from probe_flow.stages.scripts.onnx_models import onnx_models


def reproduce(
    run: StoredRun,
    folder: Path,
    *,
    node: str = "",
    suspect: int = 1,
    moved: Mapping[str, str] = MappingProxyType({}),
    trial: Trial | None = None,
    write: Writer = write_script,
    models: tuple[str | None, str | None] = (None, None),
) -> Reproduction | None:
    """Write the script of a suspect, and try it; None where the run has no suspect and none is named.

    What it found is added to the record of the run, which `show` and reports tell.

    Args:
        run: the run.
        folder: of the script.
        node: entry of the call, or its name without call number (its first call); empty = a suspect.
        suspect: number of the suspect, from 1.
        moved: where dumps lie now, by side.
        trial: how it is tried; None = it is only written.
        write: writes the script.
        models: files of the ONNX models that operators of offline models are computed by: of the target (or that the OM
            was made of), and of the golden.

    Raises:
        UsageError: PF2134 no such suspect or call; PF6322 a model cannot be read.
        IncompleteError: PF6631 no script can be made of it; PF6632 a dump is gone or has changed; PF7001 a file cannot
            be written.
    """
    found = None if node else _finding(run, suspect)
    if not node and found is None:
        return None
    target = _catalog(run, "target", moved)
    if target is None:
        raise _gone("target", "the run read no dump of that name")
    call = _node(target, node) if found is None else _node_of(target, found)
    golden = _catalog(run, "golden", moved)
    if golden is not None and not compute_alike(target, golden):
        golden = None
    catalogs = {"target": target, **({"golden": golden} if golden is not None else {})}
    tensors = tuple(_compared(run, call, catalogs, moved))
    row = (
        found.row if found is not None else next((each.row for each in run.record.findings if _is_of(each, call)), None)
    )
    _check_producers(run, call, catalogs, moved)
    other = _partner(run, call, golden)
    wanted = Suspect(target, call, golden, other, row, tensors, *onnx_models(target, golden, *models))
    _check_computed(run, wanted, catalogs, moved)
    reproductions, problems = reproduce_all([wanted], folder, trial, write=write)
    if problems:
        if trial is not None:
            _record(run, problems[0].fields())
        raise IncompleteError([each.problem for each in problems])
    (reproduction,) = reproductions
    if not reproduction.was_tried or not reproduction.script.is_of_dump:
        return reproduction
    return replace(reproduction, unrecorded=_record(run, reproduction.fields(run.folder)))


def _record(run: StoredRun, found: Mapping[str, object]) -> str:
    """Add what was found to the record of a run; return why that was not done, empty where it was."""
    if run.version != VERSION:
        return f"its record has the older format {run.version}"
    try:
        lock = LockFile(run.folder / RUN_LOCK)
    except HeldError as error:
        return f"{error.holder} is at work in it"
    except OSError as error:
        return error.strerror or str(error)
    try:
        now = read_run(run.folder).record
        write_run_json(now.with_reproductions([found]), run.folder / RECORD)
    except IncompleteError as error:
        return error.diagnostic.message
    finally:
        lock.release()
    return ""


def _finding(run: StoredRun, number: int) -> FindingRecord | None:
    suspects = run.record.suspected_calls
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


def _compared(
    run: StoredRun, call: Node, catalogs: Mapping[str, Catalog], moved: Mapping[str, str]
) -> Iterator[ComparedTensor]:
    """Yield the tensors of a call with what each was compared with.

    Raises:
        IncompleteError: PF6632 a dump does not hold any more what was compared: it is another one, or has changed.
    """

    def known(stage: str, uses: str, path: str) -> object:
        return catalogs[stage] if stage in catalogs else adopt(run.record, stage, uses, path)

    dumps = StoredDumps(run, moved, known)
    for row in _rows(run, call):
        if row.kind not in (TensorKind.TENSOR, TensorKind.STATISTICS):
            continue
        refs: dict[str, TensorRef | None] = {}
        for side, tensor in row.sides:
            if side in catalogs:
                refs[side], why = _as_compared(catalogs[side], dumps, row, side)
                if why:
                    place = f"the dump at `{catalogs[side].root}` does not hold what was compared"
                    raise _gone(side, f"{place}: `{tensor.name}`: {why}")
        yield ComparedTensor(row.direction, row.index, refs.get("target"), refs.get("golden"))


def _rows(run: StoredRun, call: Node) -> Iterator[RowRecord]:
    """Yield the rows of a call."""
    key = call.key
    code = call_code(key.execution, key.name, key.call, key.phase)
    for rows in run.stored_rows():
        yield from rows.rows(rows.index.numbers_of_calls((code,)))


def _partner(run: StoredRun, call: Node, golden: Catalog | None) -> Node | None:
    """Return the call of the golden that a call of the target was compared with; None where it has no counterpart."""
    rows = [row for row in _rows(run, call) if row.target is not None]
    if golden is None or not rows:
        return same_call(golden, call)
    paired = next((row for row in rows if row.golden is not None and row.rule != SELF.name), None)
    if paired is None or paired.golden is None:
        return None
    named = [ref for ref in golden.tensors if ref.id == paired.golden.name]
    here = (paired.rank, paired.step)
    named.sort(key=lambda ref: (ref.node.execution.rank, ref.node.execution.step) != here)
    return golden.nodes.get(named[0].node) if named else None


def _check_producers(run: StoredRun, call: Node, catalogs: Mapping[str, Catalog], moved: Mapping[str, str]) -> None:
    """Check what an operator of a dump of results only reads: the results of others.

    Raises:
        IncompleteError: PF6632 a dump does not hold any more what was compared.
    """
    if catalogs["target"].framework != NPY:
        return
    for producer in {edge.producer for edge in catalogs["target"].edges if edge.consumer == call.key}:
        node = catalogs["target"].nodes.get(producer)
        if node is not None:
            deque(_compared(run, node, catalogs, moved), maxlen=0)


def _check_computed(
    run: StoredRun, suspect: Suspect, catalogs: Mapping[str, Catalog], moved: Mapping[str, str]
) -> None:
    """Check the API that is computed in the place of a module.

    Raises:
        IncompleteError: PF6632 a dump does not hold any more what was compared.
    """
    if suspect.node.kind not in (NodeKind.MODULE, NodeKind.PARAMETERS_GRAD):
        return
    calls: list[Node] = []
    with suppress(IncompleteError):  # that there is none is said where its script is written
        call = computed_call(suspect).node
        forward = suspect.target.nodes.get(replace(call.key, phase=Phase.FORWARD))
        calls = [call] if forward is None or forward is call else [call, forward]
    for each in calls:
        deque(_compared(run, each, catalogs, moved), maxlen=0)


def _as_compared(catalog: Catalog, dumps: StoredDumps, row: RowRecord, side: str) -> tuple[TensorRef | None, str]:
    """Return the tensor of a row with its elements, None where it has none; or why it is another one."""
    tensor = dict(row.sides)[side]
    if catalog.task == "tensor":
        view = side_view(dumps, row, side, tensor)
        return view.ref, view.why if view.ref is None and tensor.value is None else ""
    known = [ref.recorded for ref in catalog.tensors if ref.id == tensor.name and ref.recorded is not None]
    told = number(tensor.min), number(tensor.max)
    is_same = not known or any((number(each.min), number(each.max)) == told for each in known)
    return None, "" if is_same else "its statistics are others"


def _is_of(found: FindingRecord, node: Node) -> bool:
    run = node.key.execution
    name = node.entry or node.key.name
    return name == found.name and (run.rank, run.step, run.graph) == (found.rank, found.step, found.graph)


def _node_of(catalog: Catalog, found: FindingRecord) -> Node:
    for node in catalog.nodes.values():
        if _is_of(found, node):
            return node
    raise unusable(str(found.name), "the dump has no such call any more")


def _node(catalog: Catalog, name: str) -> Node:
    for node in catalog.nodes.values():
        if name in (node.entry, node.key.name):
            return node
    names = {node.entry or node.key.name: None for node in catalog.nodes.values()}
    help_ = did_you_mean(name, names) or "names are those of `nodes.jsonl`"
    raise UsageError(Diagnostic("PF2134", f"the target has no call `{name}`", help=help_))


def _gone(side: str, why: str) -> IncompleteError:
    help_ = f"say where it lies now with `--dump {side}=PATH`, or run the workflow again"
    return IncompleteError(Diagnostic("PF6632", f"the call cannot be reproduced: {why}", help=help_))
