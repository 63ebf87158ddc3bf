"""Codes of arguments of metrics and of element-wise views (PF64xx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF6401",
        "a metric does not take its arguments",
        "`metric_args` names a metric that takes none, or arguments that the package of the metric refuses.",
        "the metric `cosine` takes no arguments",
        "remove them, or correct them by the documentation of the package",
    ),
)
