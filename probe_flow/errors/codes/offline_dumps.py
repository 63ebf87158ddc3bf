"""Codes of reading dumps of offline models, the device's and those of a framework (PF3300 to PF3319)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF3300",
        "one folder holds files of several kinds",
        "Device files and arrays of a framework, or arrays of several suffixes, lie in one folder: both sides were "
        "written to the same place, and nothing says which of them is meant.",
        "`dump` holds files of two kinds: device files such as `Conv2D.conv1.2.3.1700000000002000` and 14 arrays "
        "such as `conv1.0.1700000000001000.npy`",
        "Put the files of each kind into a folder of their own.",
    ),
    Code(
        "PF3301",
        "a device file of an unknown task type",
        "The nine fields of its name give a task type that no device software is known to write (0 to 4 are), so the "
        "file was renamed or is of another program.",
        "`Conv2D.conv1.2.3.1700000000002000.9.1.0.0` is skipped: its name gives the task type 9, known are 0 to 4",
        "Rename the file if its name was changed; else report it to the maker of the device software.",
    ),
    Code(
        "PF3302",
        "a device file has another name than its header",
        "The header of a device file names its operator, and so does the name of the file. They differ by more than "
        "the signs that file names cannot have: the file was renamed or overwritten.",
        "`Conv2D.conv1.2.3.1700000000002000` is named after `conv1`, its header names `conv2`",
        "The name of the file counts. Give the file its own name again, or dump again.",
    ),
    Code(
        "PF3303",
        "folders of device files that cannot be told apart",
        "Several folders hold device files and their names give no device, model or step that differs, so that their "
        "operators would be taken for duplicates of each other.",
        "the device files in `fusion_off` and `fusion_on` cannot be told apart: both are the only execution",
        "Give one of the folders as `path`, and the other to a stage of its own.",
    ),
    Code(
        "PF3304",
        "`select` keeps nothing of a dump",
        "No execution has the ranks, steps and graphs that are asked for, or no operator has such a name.",
        "`select` keeps nothing of the dump",
        "Leave a key of `select` out, or use one of the executions or names that the message lists.",
    ),
    Code(
        "PF3305",
        "dump files in folders below are not read",
        "A folder that holds dump files itself is read as one execution, without the folders below it.",
        "14 device files in `backup` are not read: the folder above it holds device files itself",
        "Nothing to do if they are copies; otherwise give that folder as `path` of a stage of its own.",
    ),
    Code(
        "PF3306",
        "a file does not hold the output that its name gives",
        "A `.pb` or `.quant` file holds a device container with one output, or with that of the index in its name.",
        "`conv1.2.1700000000001000.pb` is named after output 2 and holds 0 outputs",
        "Dump this operator again, or exclude it with `select.nodes`.",
    ),
    Code(
        "PF3310",
        "a file holds no overflow record",
        "A file named `Opdebug.Node_OpDebug.*` should hold what the device reports of an overflow: a record that "
        "begins with 5A5A5A5A, or an old table of 2048 bytes. It is cut off, or in another layout.",
        "`Opdebug.Node_OpDebug.7.3.1700000000000030` holds no overflow record: 12 bytes neither begin with 0x5a5a5a5a "
        "nor are 2048",
        "Dump again with overflow detection on.",
    ),
)
