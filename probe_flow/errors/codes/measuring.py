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
    Code(
        "PF6402",
        "an element-wise view of nothing",
        "`detail` of a report names a node, direction or index that no target tensor of the comparison has.",
        "`detail` shows nothing: there is no output 0 of `fcc`",
        "take names from `nodes.jsonl` or `comparison.jsonl` of a run",
    ),
    Code(
        "PF6403",
        "a tensor has no element-wise view",
        "`detail` names a tensor that has no partner, cannot be read, was not selected, or is complex.",
        "`detail` cannot show `fc.input.1`: there is no golden dump",
        "read the reason, and name other tensors",
    ),
    Code(
        "PF6404",
        "more tensors than `detail` shows",
        "The patterns of `detail` fit more tensors than its `limit`; views are as large as the tensors themselves.",
        "`detail` shows the first 16 of 40 tensors that are output of `conv*`",
        "name fewer nodes, or raise `limit`",
    ),
    Code(
        "PF6405",
        "elements left out",
        "`max_elements` of `compare` limits how much of each pair is measured. Errors behind the limit are not seen, "
        "so a run that passes says nothing of them.",
        "only the first 1000 elements of 12 tensors were compared",
        "remove `max_elements` to compare all",
    ),
    Code(
        "PF6406",
        "arguments of a metric that is not measured",
        "`metric_args` of `compare` names a metric that neither `metrics` nor the policy asks for.",
        "`metric_args` of `my_metric` are of no use: it is not measured",
        "add the metric to `metrics`, or remove its arguments",
    ),
)
