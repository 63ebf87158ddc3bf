"""Codes of questions to a stored run (PF72xx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF7201",
        "no node or tensor of that name",
        "`show --node`, `show --tensor` or a line of `shell` names something that the run does not hold. Names are "
        "found by themselves, then with every character that file names cannot hold read as `_`, then by a part.",
        "there is no node `MatMull_3` in this run; did you mean `MatMul_3`?",
        "Use one of the names that the message suggests, or a part of one. `show RUN --verdict fail` lists rows with "
        "their names.",
    ),
    Code(
        "PF7202",
        "a metric that the run does not have",
        "No row of the run has the metric of a threshold: its name is wrong, or `metrics:` of the compare stage did "
        "not ask for it, or the dumps hold statistics, of which other metrics are computed than of elements.",
        "`cosine` was not measured in this run",
        "Use one of the metrics that the message lists.",
    ),
    Code(
        "PF7203",
        "a threshold has a wrong form",
        "`--below`, `--at-most` and `--above` take the id of a metric, an equals sign and a number.",
        "probe-flow show probe_flow_runs/x --below cosine",
        "Write METRIC=VALUE, for example `--below cosine=0.98`.",
    ),
    Code(
        "PF7204",
        "the nodes of a run cannot be read",
        "`nodes.jsonl` is missing, cut off, has not as many lines as run.json counts, or one of them is no record. It "
        "holds what is known of operators: attributes, originals, who feeds whom.",
        "the nodes of the run cannot be read from `nodes.jsonl`: it is missing",
        "Copy the folder again, or repeat the run. Rows are still shown.",
    ),
    Code(
        "PF7205",
        "questions that exclude each other",
        "One call of `show` answers one question: about a threshold, a node, a tensor, what was not matched, or the "
        "origin.",
        "probe-flow show probe_flow_runs/x --origin --unmatched",
        "Ask one after the other; `probe-flow shell RUN` keeps a prompt open for that.",
    ),
    Code(
        "PF7206",
        "the folder of a dump is wrongly named",
        "`--dump SIDE=PATH` says where the dump of a side lies now. The side is `target`, `golden` or `reference`.",
        "probe-flow show probe_flow_runs/x --tensor Add_1.output.0 --dump npu=/data/new",
        "Write for example `--dump target=/data/new/msprobe_ge_dump`.",
    ),
    Code(
        "PF7207",
        "the prompt has neither completion nor history",
        "`shell` uses prompt_toolkit for them, which a plain installation of probe_flow does not bring.",
        "probe-flow shell probe_flow_runs/x",
        "Install the extra `shell`, or go on: every command works without it.",
    ),
    Code(
        "PF7208",
        "two tensors cannot be compared at the prompt",
        "`cp` compares element by element, so both must have elements that can be read and equally many of them.",
        "`a.npy` has 6 elements and `b.npy` has 8",
        "Name tensors of the same shape whose dumps are still there, or `.npy` files.",
    ),
)
