"""Codes of matching (PF4xxx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF4201",
        "target and golden are the same dump",
        "Both dump stages read the same folder, so everything agrees.",
        "target and golden are the same dump `dumps/run1`: everything will agree",
        "Correct the path of one of them; it is fine for a trial.",
    ),
    Code(
        "PF4202",
        "executions of different number are paired",
        "Each side has one rank (or step), with different numbers. They are compared: nothing else could be meant.",
        "target step 3 is compared with golden step 0: neither side has another",
        "State `pair_ranks` or `step_offset` to say that it is meant.",
    ),
    Code(
        "PF4203",
        "an execution has no counterpart",
        "A rank or step was dumped on one side only, or the numbers differ between the sides.",
        "rank 3 step 0 of the target has no counterpart in the golden",
        "State `pair_ranks` or `step_offset`, dump the other side too, or narrow the dump with `select`.",
    ),
    Code(
        "PF4204",
        "an entry of `pair_ranks` matches nothing",
        "A rank that it names was not dumped on its side.",
        "`pair_ranks` entry 4: 0 matches nothing: there is no target rank 4",
        "Correct or remove the entry.",
    ),
)
