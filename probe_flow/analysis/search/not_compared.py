"""Outputs before a suspect that could not be compared, and are named in its place.

What the suspect is blamed for may have happened between it and the nearest compared tensors before it: nothing measured
lies there. Where no edge says what lies between, a suspect that reads a tensor of another size than the golden's has it
from where the sizes part first. A decision that may have been taken otherwise explains other sizes; then nothing is
said of them. And who wrote a tensor that only the target has is found by what was recorded of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence

from probe_flow.analysis.search.diagnosis import Diagnosis, Suspect
from probe_flow.analysis.search.proof import Proof, proof_of
from probe_flow.records import Execution, NodeKey, TensorKind, TensorRef
from probe_flow.records.row import Row

_WITH_ELEMENTS = frozenset({TensorKind.TENSOR, TensorKind.STATISTICS})


class NotCompared:
    """Finds such outputs.

    Args:
        rows: all rows, in execution order.
        diagnosis: of them.
    """

    def __init__(self, rows: Sequence[Row], diagnosis: Diagnosis) -> None:
        self._rows = rows
        self._passed = diagnosis.passed
        self._outputs = _outputs(rows) if any(diagnosis.passed.values()) else {}
        self._shaken = diagnosis.shaken
        self._resized = _Resized(rows) if diagnosis.suspects else None

    def before(self, suspect: Suspect) -> int | None:
        """Return the earliest output that both sides have, that was not compared, and that may explain a suspect."""
        row = self._rows[suspect.row]
        if not row.is_produced:
            return None
        found = self._passed_before(row) if self._outputs else None
        if found is None and self._resized is not None and suspect.row not in self._shaken:
            return self._resized.before(suspect.row)
        return found

    def _passed_before(self, row: Row) -> int | None:
        passed = self._passed.get(row.node, ())
        return min((number for node in passed for number in self._outputs.get(node, ())), default=None)

    def differs(self, number: int) -> bool:
        """Say whether such an output has another number of elements than the golden's: there the two sides part."""
        return _differs(self._rows[number])

    def read_by(self, suspect: Suspect) -> int | None:
        """Return an input of a suspect's call that has another number of elements than the golden's."""
        return None if self._resized is None else self._resized.read_by(self._rows[suspect.row].node)

    def told(self, number: int) -> str:
        """Return both shapes in words."""
        pair = self._rows[number].pair
        target, golden = (None if ref is None else ref.logical_shape or ref.shape for ref in (pair.target, pair.golden))
        return f"{list(target or ())}, golden {list(golden or ())}"


class _Resized:
    """The tensors that could not be compared since they have another number of elements than the golden's."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._written: dict[Execution, int] = {}
        self._reading: dict[NodeKey, int] = {}
        for number, row in enumerate(rows):
            if row.measurement is None and _are_tensors(row) and _differs(row):
                if row.is_produced:
                    self._written.setdefault(row.node.execution, number)
                else:
                    self._reading.setdefault(row.node, number)

    def read_by(self, node: NodeKey) -> int | None:
        """Return such an input of a node."""
        return self._reading.get(node)

    def before(self, number: int) -> int | None:
        """Return the first output of another size in the execution of a row whose node reads one."""
        node = self._rows[number].node if self._written else None
        first = self._written.get(node.execution) if node is not None and node in self._reading else None
        return first if first is not None and first < number else None


def _differs(row: Row) -> bool:
    sides = row.pair.target, row.pair.golden
    assert sides[0] is not None
    assert sides[1] is not None
    return sides[0].numel != sides[1].numel


def _are_tensors(row: Row) -> bool:
    return all(side is not None and side.kind in _WITH_ELEMENTS for side in (row.pair.target, row.pair.golden))


def _outputs(rows: Sequence[Row]) -> Mapping[NodeKey, Sequence[int]]:
    found: defaultdict[NodeKey, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        if row.measurement is None and row.is_produced and _are_tensors(row):
            found[row.node].append(number)
    return found


class Writers:
    """Finds the target-only row that wrote what a row reads, or was made of, by equal recorded statistics.

    An operator that only the target executes is never compared, so the fault shows at whatever reads its output: at an
    input, or at a result that recomputing proves to be what its own inputs make, one of which the golden does not show.

    Args:
        rows: all rows, in execution order.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._written: dict[object, list[int]] = defaultdict(list)
        self._read: dict[NodeKey, list[int]] = defaultdict(list)
        self._skipped: dict[object, TensorRef] = {}
        for number, row in enumerate(rows):
            if row.pair.target is None and row.pair.golden is not None and row.is_produced:
                self._skipped[_recorded(row.pair.golden)] = row.pair.golden
            if row.pair.golden is None and row.is_produced:
                self._written[_recorded(row.pair.target)].append(number)
            elif row.pair.golden is None:
                self._read[row.node].append(number)

    def of(self, number: int) -> int | None:
        """Return the last such row before this one, or None."""
        row = self._rows[number]
        if row.is_produced:
            read = self._read.get(row.node, ()) if proof_of(row) is Proof.RIGHT else ()
            return next((found for each in read if (found := self._writer(each)) is not None), None)
        return self._writer(number)

    def skipped(self, row: Row) -> TensorRef | None:
        """Return what a call of the golden alone wrote that a row read in the golden, or None."""
        known = None if row.is_produced else _recorded(row.pair.golden)
        return None if known is None else self._skipped.get(known)

    def _writer(self, number: int) -> int | None:
        key = _recorded(self._rows[number].pair.target)
        if key is None:
            return None
        earlier = self._written.get(key, [])
        place = bisect_left(earlier, number)
        return earlier[place - 1] if place else None


def _recorded(tensor: TensorRef | None) -> object:
    """Return what identifies a tensor of one execution by what was recorded, None when that says too little."""
    if tensor is not None and tensor.checksum is not None:
        return tensor.node.execution, tensor.shape, tensor.checksum.lower()
    if tensor is None or tensor.recorded is None or tensor.recorded.l2norm is None:
        return None
    return tensor.node.execution, tensor.shape, tensor.recorded
