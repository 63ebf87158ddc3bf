"""Codes of reading dumps that hold statistics instead of tensors (PF3250 to PF3269)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF3250",
        "reduced files are passed over because the tensors are there too",
        "A dump was reduced to statistics without deleting what it was made of. Tensors say more, so they are read.",
        "341 files are passed over: the tensors that they were made of are there too, and are read",
        "Nothing to do. To compare statistics, delete the dumped tensors, or compare with a dump that is reduced.",
    ),
    Code(
        "PF3251",
        "a file of device statistics is no such table",
        "A device that dumps statistics writes one `.csv` for each operator, whose first line names `Input/Output` and "
        "`Index`. This file is cut off, still being written, or of another program.",
        "`Add.Add_1.44.6.1706596912161941.csv` is named like device statistics and is no such table: its first line "
        "does not name `Input/Output` and `Index`",
        "Wait until the dump is written; move files of other programs out of the dump folder.",
    ),
)
