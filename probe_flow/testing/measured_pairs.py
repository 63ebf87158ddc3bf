"""A stage whose pairs bring their measurements: what rounding the tensors of a dump to a narrower type costs.

It shows what such a stage is made of. The worker computes a value, measures it there, and sends back the text of that;
the value is in no file. `run` makes the pairs, and an ordinary `compare` judges them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from probe_flow.errors import Diagnostic, ProbeFlowError
from probe_flow.records import Catalog, Flow, Group, Pair, Pairs, Relation, Rule, TensorKind, TensorRef
from probe_flow.stages.base import CatalogOf, Forecast, Kind, StageOptions, StageType
from probe_flow.work import Context

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from probe_flow.metrics.accumulators.registry import MeasureOptions
    from probe_flow.metrics.kernel.kept_blocks import Blocks

ROUNDED = Rule("rounded")
TENSORS_PER_BATCH = 16


class Options(StageOptions):
    """Round every tensor of a dump, and say what that costs."""

    uses: Literal["testing.rounded"]
    catalog: CatalogOf = Field(description="Stage that gives the dump.")
    dtype: Literal["float16", "bfloat16"] = Field("float16", description="Type that values are rounded to.")
    metrics: str = Field("default", description="Set of the metrics that the comparison will want.")


class Batch(Struct, frozen=True):
    """Tensors that one worker rounds."""

    tensors: tuple[TensorRef, ...]
    dtype: str
    options: MeasureOptions
    io: str


class Rounded:
    """The elements of a tensor, rounded."""

    def __init__(self, values: Blocks, dtype: str) -> None:
        import ml_dtypes
        import numpy as np

        self._values = values
        self._type: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
        self.dtype, self.numel = dtype, values.numel

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return elements ``[start, stop)``, flat; what is too large becomes infinite."""
        import numpy as np

        with np.errstate(all="ignore"):
            found: NDArray[Any] = self._values.read(start, stop).astype(self._type)
        return found


def round_batch(batch: Batch) -> list[str | Diagnostic]:
    """Return what was measured of each tensor, or why nothing was."""
    return [_measured(tensor, batch) for tensor in batch.tensors]


def _measured(tensor: TensorRef, batch: Batch) -> str | Diagnostic:
    from probe_flow.elements.blocks import open_tensor
    from probe_flow.metrics.brought import measured_text

    try:
        with open_tensor(tensor, io=batch.io) as golden:
            return measured_text(Rounded(golden, batch.dtype), golden, batch.options)
    except ProbeFlowError as error:
        return error.diagnostic


def lost_batch(batch: Batch, reason: Diagnostic) -> list[str | Diagnostic]:
    """Return the reason for each tensor of a batch whose worker died."""
    return [reason for _ in batch.tensors]


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return a pair for each tensor with float elements: the rounded one, which is in no file, and the dump's own."""
    from probe_flow.metrics.catalogue.registry import metric_ids, options_for

    dump: Catalog = inputs["catalog"][0]
    tensors = [each for each in dump.tensors if each.kind is TensorKind.TENSOR and each.dtype.startswith("float")]
    wanted = options_for(metric_ids(options.metrics))
    some = [tuple(tensors[n : n + TENSORS_PER_BATCH]) for n in range(0, len(tensors), TENSORS_PER_BATCH)]
    batches = [Batch(each, options.dtype, wanted, context.settings.io) for each in some]
    sizes = [sum(tensor.nbytes for tensor in each) for each in some]
    results: dict[int, list[str | Diagnostic]] = dict(context.map(round_batch, batches, sizes=sizes, lost=lost_batch))
    found = [each for number in range(len(batches)) for each in results[number]]
    rounded = [_without_file(each, options.dtype, why) for each, why in zip(tensors, found, strict=True)]
    pairs = [Pair(one, other, other.id, ROUNDED) for one, other in zip(rounded, tensors, strict=True)]
    target = replace(dump, side="target", tensors=tuple(rounded), flow=Flow.NONE, problems=())
    golden = replace(dump, side="golden", tensors=tuple(tensors), flow=Flow.NONE)
    return Pairs(
        target,
        golden,
        tuple(pairs),
        tuple(Group(each.id, Relation.ONE_TO_ONE, each.node, each.node) for each in tensors),
        measured={number: each for number, each in enumerate(found) if isinstance(each, str)},
    )


def _without_file(tensor: TensorRef, dtype: str, found: str | Diagnostic) -> TensorRef:
    is_there = isinstance(found, str)
    return TensorRef.of(
        tensor.node,
        tensor.slot,
        TensorKind.TENSOR if is_there else TensorKind.UNREADABLE,
        dtype=dtype,
        stored_dtype=dtype,
        shape=tensor.shape,
        logical_shape=tensor.logical_shape,
        reason=None if isinstance(found, str) else found.message,
    )


STAGE = StageType(
    uses="testing.rounded",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Round every tensor of a dump, and say what that costs.",
    forecast=lambda _options: Forecast("rounds every tensor of the dump in workers"),
)
