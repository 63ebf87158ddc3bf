"""Measure how far repeated runs of a side differ: the noise floor of each of its tensors.

A dump stage that ran its model several times names the folders of the other dumps (`Catalog.repeats`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from probe_flow.analysis.search.reference_check import with_figures
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.measure.run import measure_pairs
from probe_flow.metrics.catalogue.derive import WHOLE, Scope
from probe_flow.records import Catalog, Mode, NodeKey, Pair, Pairs, Rule, Slot, TensorRef
from probe_flow.records.frameworks import NPY, TFDBG, TORCHAIR_FX
from probe_flow.records.row import Row
from probe_flow.work import Context

DUMP_JSON = "dump_json"
"""Format of the dumps of programs, whatever framework they are of."""

_REPEAT = Rule("repeat")

_Tensors = Mapping[tuple[NodeKey, Slot], TensorRef]


def measure_noise(rows: Sequence[Row], pairs: Pairs, context: Context, *, scope: Scope = WHOLE) -> list[Row]:
    """Return the rows with what repeated runs of their sides differ by.

    Only measured rows are asked about. A repeat that cannot be read is a warning (PF5132).
    """
    repeated = {
        side: [_by_slot(catalog) for catalog in _repeats(getattr(pairs, side), context)]
        for side in ("target", "golden")
    }
    twosomes: dict[tuple[int, int], Pair] = {}
    for row in rows:
        for tensor, other in _others(row, repeated):
            run = f"repeat {other.node.name}"
            named = replace(other, node=NodeKey(other.node.execution, run, other.node.call, other.node.phase))
            twosomes.setdefault((id(tensor), id(other)), Pair(tensor, named, row.pair.group, _REPEAT))
    if not twosomes:
        return list(rows)
    found = measure_pairs(list(twosomes.values()), (), context, scope=scope)
    measured = dict(zip(twosomes, found, strict=True))
    return [
        with_figures(row.with_aside(noise=tuple(measured[id(one), id(other)] for one, other in _others(row, repeated))))
        for row in rows
    ]


def _others(row: Row, repeated: Mapping[str, Sequence[_Tensors]]) -> Iterator[tuple[TensorRef, TensorRef]]:
    """Yield each side of a row with the same tensor of each further run."""
    if row.measurement is None or row.measurement.mode is Mode.VALUE or row.pair.rule.is_self:
        return
    for side, runs in repeated.items():
        tensor: TensorRef | None = getattr(row.pair, side)
        for tensors in runs:
            other = tensors.get((tensor.node, tensor.slot)) if tensor is not None else None
            if tensor is not None and other is not None and other.kind is tensor.kind and other.numel == tensor.numel:
                yield tensor, other


def _by_slot(catalog: Catalog) -> _Tensors:
    return {(tensor.node, tensor.slot): tensor for tensor in catalog.tensors}


def _repeats(catalog: Catalog, context: Context) -> Iterator[Catalog]:
    if _reader(catalog) is not None:
        found = (_repeat(catalog, folder, context) for folder in catalog.repeats)
        yield from (run for run in found if run is not None)


def _reader(catalog: Catalog) -> str | None:
    """Return the name of the format of a dump that is made by running a model; None for another."""
    if catalog.attrs.get("format") == DUMP_JSON:
        return DUMP_JSON
    return catalog.framework.name if catalog.framework in (NPY, TFDBG, TORCHAIR_FX) else None


def _repeat(catalog: Catalog, folder: str, context: Context) -> Catalog | None:
    from probe_flow.dumps.registry import READERS

    name = _reader(catalog)
    assert name is not None, "asked for formats that have repeats"
    try:
        return READERS.find(name).catalog(folder, side=catalog.side)
    except (UsageError, IncompleteError) as error:
        message = f"a repeated run of `{catalog.side}` cannot be read: {error.diagnostic.message}"
        cure = "run the stage again; the noise floor of its tensors is unknown"
        context.report([Diagnostic("PF5132", message, severity=Severity.WARNING, help=cure, path=folder)])
        return None
