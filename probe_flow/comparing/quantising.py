"""Products of an input that was quantised to 8 bits, computed from the target's own dump where the golden has floats.

What rounding and clipping the input makes of the result is no fault, but how large it is depends on the scale that a
tool chose: one that clips the largest values leaves more than a step, and leaves it in few channels. No figure of
either side tells that, but the device's dump does: the operator that quantises has its input and its result, and a
product is linear, so what it makes of the difference of both is what its own result is off by.

The whole numbers are computed exactly, so a result that is not what they make is wrong whatever came in. That is
believed where the golden's input, quantised alike, makes about the golden's result. A result that is what they make
clears nobody: scales and weights were compared with nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from msgspec import Struct
from msgspec.structs import astuple

from probe_flow.analysis.limits import BEYOND
from probe_flow.analysis.number_types import UNIT
from probe_flow.analysis.search.diagnosis import Diagnosis
from probe_flow.apis.calls import UnusableError
from probe_flow.apis.numpy_core.quantised_product import QuantisedProduct
from probe_flow.comparing.asked import Recompute
from probe_flow.comparing.recompute import LIMIT_BYTES, Work, each_done
from probe_flow.comparing.recompute_calls import Side
from probe_flow.comparing.recompute_worker import SideCall
from probe_flow.elements.blocks import array_of
from probe_flow.errors import Diagnostic, FormatError, NotComparableError
from probe_flow.files.machine import at_most
from probe_flow.measure.sides import aligned_sides
from probe_flow.records import Mode, Node, NodeKey, Pairs, TensorRef
from probe_flow.records.row import Quantised, Recomputed, Row, Rows
from probe_flow.work import Context

LIMIT = 256
"""Products that are looked at: others are judged by their types."""

QUANTISE, DEQUANTISE = "AscendQuant", "AscendDequant"


class Quantising(Struct, frozen=True):
    """A product of an input that was quantised.

    Args:
        row: number of the row of its result.
        call: what computes it.
        target: its result.
        tensors: as of `quantised_product.Tensors`; None for those that are not there.
    """

    row: int
    call: QuantisedProduct
    target: TensorRef
    tensors: tuple[TensorRef | None, ...]


class Found(Struct, frozen=True):
    """What a result is off by because its input was quantised, and by itself; None where that is not known."""

    quantised: Quantised | None = None
    own: Recomputed | None = None


def find_quantised(rows: Rows, pairs: Pairs, wanted: Recompute, diagnosis: Diagnosis, context: Context) -> bool:
    """Give rows of results `Row.quantised` and, to those that are wrong by themselves, `Row.recomputed`.

    Asked are rows that are suspect or nearly so, and all others too where anything is suspect. A product is left out if
    its dump lacks a tensor or an attribute, or if it takes too much memory.

    Args:
        rows: measured; changed in place.
        pairs: of the comparison.
        wanted: how much is computed again.
        diagnosis: what the search found without.
        context: worker processes.

    Returns:
        Whether any row has one of both now.
    """
    asked = dict.fromkeys(wanted.candidates(rows, diagnosis))
    if diagnosis.suspects:
        asked |= dict.fromkeys(range(len(rows)))
    jobs = [*islice(_jobs(rows, pairs, asked), LIMIT)] if asked else []
    done = False
    for job, found in zip(jobs, each_done(jobs, _WORK, context), strict=True):
        if found.quantised is not None or found.own is not None:
            rows[job.row] = rows[job.row].with_aside(quantised=found.quantised, recomputed=found.own)
            done = True
    return done


def _jobs(rows: Sequence[Row], pairs: Pairs, asked: Iterable[int]) -> Iterator[Quantising]:
    producers = {(edge.consumer, edge.input): edge.producer for edge in pairs.target.edges}
    nodes = pairs.target.nodes
    chains: dict[int, tuple[NodeKey, NodeKey, NodeKey]] = {}
    for number in asked:
        row, key = rows[number], rows[number].node
        if row.measurement is None or row.measurement.mode is not Mode.TENSOR or not row.is_produced:
            continue
        product = producers.get((key, 0), key) if _type(nodes.get(key)) == DEQUANTISE else key
        source = producers.get((product, 0))
        if source is not None and _type(nodes.get(source)) == QUANTISE:
            chains[number] = (source, product, key)
    keys = {key for chain in chains.values() for key in chain}
    side = Side(pairs.target, keys)
    read = {row.node: row for row in rows if row.node in keys and row.measurement is not None and not row.is_produced}
    for number, chain in chains.items():
        with suppress(UnusableError):
            quantise, call, last = (side.call(each) for each in chain)
            yield _job(number, rows[number], read.get(chain[0]), quantise, call, last)


def _type(node: Node | None) -> str:
    return node.op_type if node is not None else ""


def _job(number: int, row: Row, read: Row | None, quantise: SideCall, product: SideCall, last: SideCall) -> Quantising:
    """Return what there is to compute for a row; ``read`` is that of what was quantised, ``last`` gives the result.

    Raises:
        UnusableError: the dump does not hold all of it, or it takes too much memory.
    """
    source, whole, weights = quantise.inputs.get((0,)), product.inputs.get((0,)), product.inputs.get((1,))
    biases = [ref for place, ref in product.inputs.items() if place > (1,) and ref.dtype == "int32"]
    scales = [ref for ref in last.inputs.values() if ref.dtype == "uint64"]
    if source is None or whole is None or weights is None or len(scales) != 1 or len(biases) > 1:
        raise UnusableError("the dump lacks a tensor of it", is_expected=True)
    call = QuantisedProduct(dataclasses.replace(product.call, args=product.call.args[:2]), quantise.call)
    if call.needed_bytes > LIMIT_BYTES:
        raise UnusableError("it takes too much memory")
    is_compared = read is not None and read.pair.golden is not None and read.pair.target is source
    fed = aligned_sides(read.pair)[1] if read is not None and is_compared else None
    bias, (target, golden) = biases[0] if biases else None, aligned_sides(row.pair)
    return Quantising(number, call, target, (source, whole, weights, bias, scales[0], target, golden, fed))


def measured(job: Quantising) -> Found:
    """Return what quantising made of a result, and how far that is from what its whole numbers make."""
    unit = UNIT.get(job.target.dtype, 0.0)
    try:
        left, own = job.call.of([None if each is None else array_of(each) for each in job.tensors], unit)
    except (UnusableError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError):
        return Found()  # the row keeps its judgement
    except (FormatError, NotComparableError):  # it was readable a moment ago: the dump is changing
        return Found()
    quantised = None if left is None else Quantised(*astuple(left))
    if own is None or own.score <= BEYOND:
        return Found(quantised)
    return Found(quantised, Recomputed("rms", own.found, own.explained, own.score, golden=own.golden))


def lost(job: Quantising, reason: Diagnostic) -> Found:  # noqa: ARG001
    """Return what became of a job that hangs, or ended its worker each time."""
    return Found()


def _needed(job: Quantising) -> float:
    return job.call.surely_bytes


def _nbytes(job: Quantising) -> int:
    return sum(each.nbytes or 0 for each in job.tensors if each is not None)


def _measured_apart(job: Quantising) -> Found:
    with at_most(LIMIT_BYTES):
        return measured(job)


_WORK = Work(_needed, _nbytes, measured, _measured_apart, lost)
