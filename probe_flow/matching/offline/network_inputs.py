"""Find what the golden side read where the network's inputs enter: inputs of golden operators, which few dumps hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property

from probe_flow.matching.offline.align import Aligned, align
from probe_flow.matching.offline.axes import Told
from probe_flow.matching.offline.index import DumpIndex
from probe_flow.matching.offline.origins import NETWORK_INPUTS, PASSED_TYPES, Origin, Origins
from probe_flow.matching.rules.merge import FusionOp, FusionRules
from probe_flow.records import Reason, SlotRole, TensorRef

Reader = tuple[FusionOp, int]


class FedInputs:
    """Finds golden inputs by the operators that read what is fed to the network.

    Args:
        rules: the fusion rules.
        origins: follows them.
        golden: the golden side.
    """

    def __init__(self, rules: FusionRules, origins: Origins, golden: DumpIndex) -> None:
        self._rules = rules
        self._origins = origins
        self._golden = golden

    def golden_of(self, op: FusionOp, ref: TensorRef, origin: Origin) -> tuple[TensorRef, Aligned] | None:
        """Return the golden input that holds the same value as a tensor of `op`, aligned with it.

        The input of the same number of the first original is taken where it fits; else the only one that fits.
        """
        index = ref.slot.path[0]
        own = [(op, index)] if ref.slot.role is SlotRole.INPUT and isinstance(index, int) else []
        readers = [reader for reader in own if reader[0].op_type not in PASSED_TYPES]
        readers = readers or self._readers.get(origin.op.name, [])
        told = Told() if origin.output is None else Told(origin.output.origin_layout, origin.output.origin_shape)
        for reader, number in readers:
            golden = self._golden.tensor(reader.originals[0], SlotRole.INPUT, number) if reader.originals else None
            aligned = None if golden is None else align(ref, golden, told=told)
            if golden is not None and aligned is not None and aligned.problem is None:
                return golden, aligned
        fitting = [
            (golden, aligned)
            for golden in self._inputs(readers)
            if (aligned := align(ref, golden, told=told)).problem is None
        ]
        return fitting[0] if len(fitting) == 1 else None

    def _inputs(self, readers: list[Reader]) -> Iterator[TensorRef]:
        names = dict.fromkeys(name for reader, _ in readers for name in reader.originals)
        for name in names:
            key = self._golden.node(name)
            if key is not None:
                yield from self._golden.of(key, SlotRole.INPUT)

    @cached_property
    def _readers(self) -> dict[str, list[Reader]]:
        """Return the operators that read each network input, through casts and changes of layout."""
        found: dict[str, list[Reader]] = defaultdict(list)
        for op in self._rules.ops:
            if op.op_type in PASSED_TYPES:
                continue
            for number in range(len(op.inputs)):
                origin = self._origins.of(op, SlotRole.INPUT, number)
                if not isinstance(origin, Reason) and origin.op.op_type in NETWORK_INPUTS:
                    found[origin.op.name].append((op, number))
        return found
