"""Find the tensors of a stored run's rows in its dumps, as far as these are still where they were or where told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from probe_flow.errors import Diagnostic, ProbeFlowError, UsageError
from probe_flow.files.existing import is_there
from probe_flow.record.run_folder import StoredRun
from probe_flow.record.types.rows import RowRecord
from probe_flow.records import SELF, Catalog, TensorKind, TensorRef

Adopt = Callable[[str, str, str], object]
"""Return the catalog of the dump at a path, given the name of the stage that read it and what this stage uses."""

SIDES = ("target", "golden", "reference")
AUTO = "dump.auto"


def parse_dumps(texts: Iterable[str]) -> dict[str, str]:
    """Return folders of dumps by side, from ``SIDE=PATH``.

    Raises:
        UsageError: PF7206 when a text is none.
    """
    found = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not path or name not in SIDES:
            raise UsageError(
                Diagnostic(
                    "PF7206",
                    f"`--dump {text}` is not SIDE=PATH",
                    help=f"write e.g. `--dump target=PATH`; sides: {', '.join(SIDES)}",
                )
            )
        found[name] = path
    return found


class _Input(Struct, frozen=True):
    """A dump that the run read: stage, how it was read, where it lay."""

    stage: str
    uses: str
    path: str


class StoredDumps:
    """The dumps of a run; each is listed when a tensor of it is first asked for, its tensors are not read.

    Args:
        run: the run.
        moved: where the dumps of some sides lie now.
        adopt: lists a dump as the stage of the run did.
    """

    def __init__(self, run: StoredRun, moved: Mapping[str, str], adopt: Adopt) -> None:
        self._adopt = adopt
        self._inputs = list(_inputs(run))
        self._moved = moved
        self._catalogs: dict[_Input, Catalog | str] = {}
        self._tensors: dict[_Input, Mapping[str, Sequence[TensorRef]]] = {}

    def find(self, row: RowRecord, side: str) -> tuple[list[TensorRef], str]:
        """Return the tensors with elements that may be the row's, the likeliest first; and why there is none."""
        wanted = dict(row.sides)[side]
        reasons, found = [], []
        for given in self._candidates("target" if row.rule == SELF.name else side):
            catalog = self._catalog(given)
            if isinstance(catalog, str):
                reasons.append(catalog)
                continue
            named = self._named(given, catalog).get(wanted.name, ())
            tensors = [ref for ref in named if _is_in(ref, wanted.file, catalog.root)]
            ranked = sorted(tensors, key=lambda ref: not _same_execution(ref, row))
            found += [ref for ref in ranked if ref.kind is TensorKind.TENSOR]
            if named and not found:
                reasons.append(_why_without_elements((tensors or named)[0]))
        if found:
            return found, ""
        return [], reasons[0] if reasons else "no dump of this run has it"

    def _named(self, given: _Input, catalog: Catalog) -> Mapping[str, Sequence[TensorRef]]:
        """Return the tensors of a dump by their ids."""
        if given not in self._tensors:
            found: defaultdict[str, list[TensorRef]] = defaultdict(list)
            for ref in catalog.tensors:
                found[ref.id].append(ref)
            self._tensors[given] = found
        return self._tensors[given]

    def _candidates(self, side: str) -> list[_Input]:
        """Return the dumps that may be a side's: the one named like it first; a moved one only by itself."""
        named = [given for given in self._inputs if given.stage == side]
        if side in self._moved:
            uses = named[0].uses if named else AUTO
            return [_Input(side, uses, self._moved[side])]
        rest = [given for given in self._inputs if given.stage not in SIDES]
        return named or rest

    def _catalog(self, given: _Input) -> Catalog | str:
        if given not in self._catalogs:
            self._catalogs[given] = _read(given, self._adopt)
        return self._catalogs[given]


def _inputs(run: StoredRun) -> Iterator[_Input]:
    uses = {stage.name: stage.uses for stage in run.record.stages}
    for given in run.record.inputs:
        yield _Input(given.stage, uses.get(given.stage, ""), given.path)


def _read(given: _Input, adopt: Adopt) -> Catalog | str:
    """Return the catalog of a dump, or why there is none."""
    if not is_there(given.path):
        return f"there is no dump at `{given.path}` (`--dump SIDE=PATH` says where it is)"
    try:
        catalog = adopt(given.stage, given.uses, given.path)
    except ProbeFlowError as error:
        return f"the dump at `{given.path}` cannot be read: {error.diagnostic.message}"
    return catalog if isinstance(catalog, Catalog) else f"`{given.uses}` reads no dump"


def _why_without_elements(ref: TensorRef) -> str:
    """Return why a tensor of a dump has no elements, or none in the file that the run compared."""
    if ref.kind is TensorKind.UNREADABLE:
        return ref.reason or "its file cannot be read"
    if ref.kind is TensorKind.TENSOR:
        return f"the dump has it in another file, `{ref.holder}`"
    return "the dump holds statistics only" if ref.recorded else "it has no elements"


def _is_in(ref: TensorRef, recorded: str | None, root: str) -> bool:
    """Say whether a tensor lies in the file that a row states."""
    file = ref.holder
    if file is None or recorded is None:
        return True
    start = root.rstrip("/") + "/"
    relative = file[len(start) :] if file.startswith(start) else file.rpartition("/")[2]
    return relative == recorded or relative.rpartition("/")[2] == recorded.rpartition("/")[2]


def _same_execution(ref: TensorRef, row: RowRecord) -> bool:
    execution = ref.node.execution
    return (execution.rank, execution.step, str(execution.graph)) == (row.rank, row.step, str(row.graph))
