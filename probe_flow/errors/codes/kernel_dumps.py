"""Codes of reading the kernel dumps of MindSpore's graph mode (PF3450 to PF3469)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF3450",
        "folder holds no kernel dump of MindSpore",
        "There is no iteration folder with tensor files or a `statistic.csv` below the given folder: the dump was not "
        "switched on, wrote elsewhere, or the folder is one of another kind.",
        "`out` holds no kernel dump of MindSpore; found 3 x json in 3 files",
        "Give the folder that holds `rank_0`, or any one below it down to an iteration; dumps of eager programs "
        "(`dump.json`) are read by `dump.mindspore`.",
    ),
    Code(
        "PF3451",
        "a `statistic.csv` cannot be used",
        "It lacks a column without which its rows name no tensor, is too large, or cannot be read.",
        "`rank_0/Net/0/0/statistic.csv` lacks the columns `slot`",
        "Copy the file again, or dump again with `saved_data: statistic`.",
    ),
    Code(
        "PF3452",
        "rows of a `statistic.csv` are malformed",
        "A row names no tensor, or one of its numbers is none; rows that name a tensor stay in the result as "
        "unreadable ones.",
        "2 rows of `rank_0/Net/0/0/statistic.csv` are malformed",
        "The file was cut off or edited: copy it again, or dump again.",
    ),
    Code(
        "PF3453",
        "a file among the tensors of a kernel dump has another name",
        "Its name does not have the parts that MindSpore writes. An array is kept in the result as unreadable, since "
        "it may be a tensor; other files are only noted.",
        "`rank_0/Net/0/0/copy of MatMul.npy` cannot be taken: its name is not that of a dumped tensor",
        "Give the file the name that MindSpore wrote, or remove it from the dump.",
    ),
    Code(
        "PF3454",
        "a kernel dump holds several runs in one folder",
        "Parameters are written once per iteration; several values of one say that the model ran more than once with "
        "the same dump folder. The runs are told apart by time only.",
        "rank 0 graph 0 step 0 holds 2 values of one parameter: the model was dumped 2 times into one folder",
        "Dump every run into a folder of its own.",
    ),
    Code(
        "PF3455",
        "a graph text or an execution order beside a kernel dump cannot be used",
        "It is damaged, too large, or holds another graph. Tensors are not affected; data flow and scopes that it "
        "would have told are taken from elsewhere or missing.",
        "`rank_0/graphs/ms_output_trace_code_graph_0.ir` holds no operator",
        "Copy the file again from the machine that dumped.",
    ),
    Code(
        "PF3456",
        "an iteration of a kernel dump holds no tensor",
        "The folder exists, but nothing in it is a tensor or a statistic: the run was killed, or the disk was full.",
        "`rank_0/Net/0/1` holds no tensor",
        "Wait until the dump is written; if it is, free some disk and dump again.",
    ),
)
