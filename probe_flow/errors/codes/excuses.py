"""Codes of waivers, baselines and the difference of two runs (PF73xx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF7301",
        "a waiver is of no use",
        "It matches no tensor of the run, or none that fails, or only what a waiver before it covers. A waiver that "
        "nobody needs hides the next failure of that operator.",
        "the waiver of node MatMul_1* by jane is of no use: none of the 12 tensors that it matches fails",
        "Correct its pattern, or remove it.",
    ),
    Code(
        "PF7302",
        "a waiver has expired",
        "The day on which the run began lies behind the last day of the waiver, so it covers nothing any more and what "
        "it matches counts again. The day is that of `timings.started` in `run.json`.",
        "the waiver of node Softmax_3 by jane has expired on 2026-06-30; 2 failures that it matches count again",
        "Repair the operator, or agree on a new date with the owner.",
    ),
    Code(
        "PF7303",
        "a failure is beyond the bound of its waiver",
        "The waiver matches the failing tensor, but an error is larger than its `bound` allows, or the tensor has NaN "
        "or infinities that the golden does not have. The failure counts.",
        "the waiver of node MatMul_* by jane does not cover 1 failure, which are beyond its bound "
        "`relative_euclidean_distance < 0.02`",
        "Find out what changed since the waiver was written; set a wider bound only if that is accepted too.",
    ),
    Code(
        "PF7310",
        "a baseline file cannot be read",
        "The file is missing, is no baseline, or was edited into something that has no meaning.",
        "`nodes` is a list, one line a node",
        "Correct the line that the message names, or write the file anew with `probe-flow baseline accept RUN`.",
    ),
    Code(
        "PF7311",
        "a baseline belongs to something else",
        "Its workflow or its stage is another one than that of the run, or its format is a later one. What was "
        "accepted of one workflow says nothing of another.",
        "the baseline `baseline.yaml` belongs to the workflow `resnet`, not to `llama`",
        "Name the file of this workflow, or accept a run of it.",
    ),
    Code(
        "PF7312",
        "a baseline was accepted under another gate",
        "With the gate `findings` a baseline holds findings, with `all_pass` failing rows. Under the other gate most "
        "of what fails is new to it.",
        "the baseline was accepted under the gate `findings`, this run is judged by `all_pass`",
        "Accept a run under the gate of the workflow as it is now.",
    ),
    Code(
        "PF7313",
        "something is worse than the baseline",
        "A failure that the baseline does not have, or one whose error has grown by more than `baseline_tolerance`. It "
        "fails the run.",
        "`Add_2.output.0`: origin has an error of 0.05, accepted was 0.0124",
        "Look at the operator with `probe-flow show RUN --node NAME`. Accept the run only if the error is to stay.",
    ),
    Code(
        "PF7314",
        "something is better than the baseline",
        "An accepted failure does not occur any more, or its error has shrunk.",
        "`Add_2.output.0`: origin is in the baseline and does not occur any more",
        "Accept the run, so that the next step back fails.",
    ),
    Code(
        "PF7315",
        "a baseline names a node that the run does not have",
        "The operator was renamed, fused or removed, or its rank or step was not dumped.",
        "the baseline names `Add_2.output.0`, and this run compares no such node",
        "Accept the run if the operator is gone for good.",
    ),
    Code(
        "PF7316",
        "fewer tensors are compared than when the baseline was accepted",
        "Tensors lost their partners, or less was dumped. What is not compared cannot fail.",
        "90 tensors of the target were compared, 96 when the baseline was accepted",
        "Look at `probe-flow diff` of the two runs, or at the unmatched rows; accept the run if it is to stay so.",
    ),
    Code(
        "PF7320",
        "a run cannot be accepted as a baseline",
        "It is incomplete, was interrupted, or compares nothing: what it did not see would be accepted unseen.",
        "the run is incomplete: only 40 % of the outputs were compared",
        "Remove the causes, run again, and accept that run.",
    ),
    Code(
        "PF7321",
        "a file in the way is no baseline of this workflow",
        "`baseline accept` replaces an older baseline of the same workflow, but no other file.",
        "`notes.yaml` is no baseline and is not replaced",
        "Name another file with `-o`, or remove that one.",
    ),
    Code(
        "PF7330",
        "two runs have nothing in common",
        "No tensor that one of them compared occurs in the other under the same name, rank, graph and step.",
        "the runs have no tensor in common",
        "Name two runs of the same workflow. Where names changed, compare the dumps of the two with a workflow.",
    ),
    Code(
        "PF7331",
        "two runs are of different workflows",
        "Their rows are set side by side by name all the same, but different options may explain differences.",
        "run A is of the workflow `ge-vs-fx`, run B of `ge-vs-fx-fast`",
        "Nothing is to do if you meant these two.",
    ),
    Code(
        "PF7332",
        "a run that is to be compared with another is incomplete",
        "It was interrupted, a stage failed, or something selected was not compared. What is missing in the first run "
        "only shows as new; what is missing in the second may be worse, so that the answer is exit code 3.",
        "run B is incomplete: 1 selected tensor could not be read",
        "Remove the causes and run again.",
    ),
    Code(
        "PF7333",
        "two runs read different dumps",
        "The files of a dump have other names, sizes or times in the second run, so errors may have changed with the "
        "data. Where only the target is another one, one golden judges both.",
        "the target and golden of run B are other dumps than in run A",
        "Compare runs whose golden is the same; where both sides are new, see that they ran on the same data.",
    ),
)
