"""Measurements that pairs bring along: made where the values were, in a worker that computed them, as text.

The text is what the cache keeps of a pair, so that pairs which bring one and pairs which were measured before are the
same to a comparison.
"""

from __future__ import annotations

from probe_flow.metrics.accumulators.registry import MeasureOptions
from probe_flow.metrics.backends.choice import backend_named
from probe_flow.metrics.kernel.compare import measure
from probe_flow.metrics.kernel.kept_blocks import Blocks
from probe_flow.metrics.kernel.record_text import record_of, record_text
from probe_flow.metrics.sums.record import Record, SpanRecord


def measured_text(target: Blocks, golden: Blocks, options: MeasureOptions | None = None) -> str:
    """Measure two tensors and return the text for `Pairs.measured`.

    Args:
        target, golden: the tensors, with as many elements.
        options: of the metrics that will be derived (`metrics.catalogue.registry.options_for`); a metric that needs
            more than they name is None for this pair.

    Raises:
        NotComparableError: PF5102 if the element counts differ.
        UsageError: PF5116 if the backend cannot be used.
    """
    backend = backend_named(options.backend if options is not None else "numpy")
    return kept_text(backend.label, measure(target, golden, options))


def kept_text(backend: str, part: SpanRecord | Record) -> str:
    """Return the text of what a backend, named by its label, measured."""
    return f"{backend}\n{record_text(part)}"


def kept_part(text: str) -> tuple[str, SpanRecord | Record]:
    """Return the label of the backend and what it measured.

    Raises:
        ValueError: it is no such text.
    """
    backend, _, measured = text.partition("\n")
    return backend, record_of(measured)
