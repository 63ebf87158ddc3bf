"""`match.model_graph`: pair two dumps of one model in another precision, quantised or optimised, by its graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from probe_flow.stages.base import Kind, StageType
from probe_flow.stages.match.match_options import MatchOptions
from probe_flow.work import Context


class Options(MatchOptions):
    """Pair tensors of one name, else of operators of one name; across casts, quantisation and fused operators.

    Both dumps are of `dump.onnx`, or of another stage whose manifest has the model's graph.
    """

    uses: Literal["match.model_graph"]


def run(options: Options, inputs: Mapping[str, Sequence[Any]], context: Context) -> object:
    """Return the pairs."""
    from probe_flow.matching.model_graph.match_model_graph import match_model_graph

    return options.matched(match_model_graph, inputs)


STAGE = StageType(
    uses="match.model_graph",
    produces=Kind.PAIRS,
    options=Options,
    run=run,
    summary="Pair two dumps of one model in another precision, quantised or optimised, by its graph.",
)
