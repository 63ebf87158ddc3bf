"""Codes of reading and formats (PF3xxx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF3001",
        "a file of a dump cannot be read",
        "The file vanished between listing and reading, you may not read it, or the disk failed.",
        "`Add.Add_1.44.6.1706596912161941` cannot be read: Permission denied",
        "Check that the file still exists and that you may read it; do not delete dumps while a run reads them.",
    ),
    Code(
        "PF3002",
        "a dump holds something that is no regular file",
        "A pipe, a device or a folder stands where a tensor file should be; reading it could block for ever.",
        "`Add.Add_1.44.6.1706596912161941` is not a regular file",
        "Remove it from the dump folder, or select other nodes.",
    ),
    Code(
        "PF3010",
        "a device dump file is empty",
        "The device creates the file before it writes it; one without a header was never finished.",
        "`Add.Add_1.44.6.1706596912161941` holds 0 bytes and no header",
        "Wait until the dump is written; if the model has ended, free some disk and dump again.",
    ),
    Code(
        "PF3011",
        "a device dump file ends inside its header",
        "The first eight bytes give the length of the header, and the file is shorter: it is still being written, was "
        "cut off, or is no device dump.",
        "the header of `Add.Add_1.44.6.1706596912161941` claims 300 bytes, 120 are there",
        "Wait until the dump is written, or dump again; move files of other kinds out of the dump folder.",
    ),
    Code(
        "PF3012",
        "the header of a device dump file is too large",
        "Real headers hold some kilobytes. A larger one than the limit, or one with an absurd number of fields, is not "
        "read, so that a damaged file cannot take all memory.",
        "the header of `Add.Add_1.44.6.1706596912161941` claims 4000000000 bytes; at most 67108864 are read",
        "Dump the operator again, or exclude it with `select.nodes`.",
    ),
    Code(
        "PF3013",
        "the header of a device dump file is malformed",
        "The header is no valid message: a length points past its end, or an integer does not end. The note gives the "
        "byte.",
        "the dump header is malformed: field 3 claims 900 bytes, 40 are left",
        "Dump the operator again, or exclude it with `select.nodes`.",
    ),
    Code(
        "PF3014",
        "a device dump file is a nano container",
        "Some edge devices write another container, with tagged blocks instead of a message as header; it is not read "
        "yet.",
        "`Add.Add_1.44.6.1706596912161941` is a nano dump (its header begins with 5A5A5A5A)",
        "Convert the dump with the vendor's tool, or dump on another device.",
    ),
    Code(
        "PF3015",
        "the data of a device dump tensor are cut off",
        "The header announces more bytes than the file holds. Tensors that lie before the cut are still read.",
        "output 0 of `Add_1` is cut off: bytes 4096 to 8192 are announced, the file ends at 6000",
        "Wait until the dump is written; if it is, dump again with more free disk.",
    ),
    Code(
        "PF3016",
        "a device dump tensor is smaller than its shape",
        "Shape and element type need more bytes than the slot holds, so one of the three is wrong.",
        "output 0 of `Add_1`: shape [2, 3] of DT_FLOAT needs 24 bytes, its slot has 12",
        "Dump the operator again; if it stays so, report it to the maker of the device software.",
    ),
    Code(
        "PF3017",
        "the shape of a device dump tensor is absurd",
        "A dimension is negative (unknown until run time), there are too many dimensions, or their product exceeds any "
        "memory.",
        "output 0 of `Add_1` has the shape [-1, 16], which is no size",
        "Dump the operator again; for dynamic shapes let the device software write the shape of the run.",
    ),
    Code(
        "PF3020",
        "a file is no `.npy` file",
        "The file ends in `.npy` and does not begin with the mark of that format; often it is still empty.",
        "`add_1.OUTPUT.0.npy` (0 bytes) does not begin like a `.npy` file",
        "Wait until the dump is written; if it is, dump again.",
    ),
    Code(
        "PF3021",
        "the header of a `.npy` file is malformed",
        "The header is cut off, is no literal, or names a type, an order or a shape that cannot be.",
        "the header of `add_1.OUTPUT.0.npy` is malformed: the dimension -3 is not a count",
        "The file is damaged or was not written by numpy: dump again.",
    ),
    Code(
        "PF3022",
        "the data of a `.npy` file are cut off",
        "The file is shorter than its own shape and element type need.",
        "`add_1.OUTPUT.0.npy` is cut off: shape [2, 3] of `<f4` needs 24 bytes, 12 are there",
        "Wait until the dump is written; if it is, dump again.",
    ),
    Code(
        "PF3101",
        "a file changed after it was listed",
        "The file is shorter now than when the dump was listed: something rewrites the dump while it is read.",
        "`Add.Add_1.44.6.1706596912161941` ends at byte 4096; output.0 of `Add_1` needs bytes up to 8192",
        "Run again when nothing writes to the dump any more.",
    ),
    Code(
        "PF3102",
        "a tensor has no numeric meaning here",
        "Text, objects, and element types whose packing is not published cannot be turned into numbers.",
        "`Const_1.output.0` cannot be read as numbers: DT_STRING holds text",
        "Nothing to do for text and objects; for packed types let the model dump an unpacked copy.",
    ),
    Code(
        "PF3103",
        "the parts of a tensor cannot be put together",
        "The tensor is spread over several files (slices or shards), which this reader does not join.",
        "`Conv2D_1.output.0` consists of 4 parts",
        "Dump without slicing, or join the parts first.",
    ),
    Code(
        "PF3401",
        "the path of a dump does not exist",
        "The path was mistyped, or the dump lies elsewhere.",
        "`dumps/stpe0` does not exist",
        "Correct the path; paths in a workflow file are relative to the file, `--set` paths to the working directory.",
    ),
    Code(
        "PF3402",
        "a dump.json holds nothing",
        "The collector was not started around the model, its `list`, `scope`, `rank` or `step` filtered everything "
        "out, or the task was `structure`, which records names only.",
        "`step0/rank0/dump.json` holds no entry",
        "Dump again with task `statistics`, with start before the model runs and stop after it.",
    ),
    Code(
        "PF3403",
        "a folder holds no dump.json",
        "The folder is no dump of an eager program, or the dumps lie deeper.",
        "`dumps` holds no `dump.json`",
        "Give a dump.json, the folder that holds it, a step folder, or the folder of the step folders.",
    ),
    Code(
        "PF3404",
        "`select` keeps nothing of a dump.json dump",
        "No execution has the ranks and steps that are asked for, or no node has such a name. A single-process dump "
        "has no rank.",
        "`select` keeps nothing of `dumps/run1`",
        "Leave a key of `select` out, or use the ranks, steps and names that the message lists.",
    ),
    Code(
        "PF3405",
        "a step holds several processes without ranks",
        "Processes that are not distributed write folders named after their process id, so the two sides cannot be "
        "paired by rank.",
        "`dumps/step0` holds 2 process folders and no `rank*` folder",
        "Give one of the process folders as the path.",
    ),
    Code(
        "PF3406",
        "a step or rank folder without dump.json",
        "That process died before it wrote, or the copy is incomplete.",
        "`step0/rank3` holds no `dump.json`",
        "Copy or dump again, or leave the rank out with `select.ranks`.",
    ),
    Code(
        "PF3407",
        "a dump.json is not valid JSON",
        "The file was cut off (collector killed, copy interrupted, disk full) or edited. NaN and Infinity are fine.",
        "`step0/rank0/dump.json` is not valid JSON: the file ends in the middle",
        "Copy the file again, or dump again.",
    ),
    Code(
        "PF3408",
        "a dump.json without the top level of a dump",
        "The file is JSON, but no object with a `data` object: it is some other file of that name.",
        "`dump.json` is no dump: its `data` is missing",
        "Give the dump.json that the collector wrote.",
    ),
    Code(
        "PF3409",
        "a dump.json cannot be read",
        "You may not read the file or folder, it vanished meanwhile, or the disk failed.",
        "`step0/rank0/dump.json` cannot be read: Permission denied",
        "Check permissions; do not delete dumps while a run reads them.",
    ),
    Code(
        "PF3410",
        "an entry whose name is no call",
        "Names are `Type.api.count.direction` for APIs and `Module.path.Class.direction.count` for modules; this one "
        "follows neither, so its call number and direction are unknown.",
        "`weird` of `dump.json` is not named like a call of an API or a module",
        "Nothing, if the other side has an entry of the same name; it is compared under its full name.",
    ),
    Code(
        "PF3411",
        "a value of a dump.json entry that cannot be read",
        "A statistic is no number, a shape is no list of sizes, or a bare value stands where an object is expected.",
        "`Torch.add.0.forward.output.0` of `dump.json` cannot be read: `Max` is a list instead of a number",
        "Dump again; the rest of the entry is compared.",
    ),
    Code(
        "PF3412",
        "the same name twice in a dump.json",
        "A key occurs twice in one object, or two entries name the same call. The collectors do not write that; files "
        "joined by hand do.",
        "`Functional.linear.0.forward` is written more than once in one object of `dump.json`; the last one counts",
        "Use the file as the collector wrote it.",
    ),
    Code(
        "PF3413",
        "construct.json or stack.json cannot be used",
        "The file beside dump.json is malformed, so parents or source lines of some nodes are unknown. Repeated calls "
        "are then aligned by shapes only.",
        "`construct.json` beside `dump.json`: its top level is no object",
        "Copy the file again if the origin of a divergence matters.",
    ),
    Code(
        "PF3414",
        "saved tensors of a dump.json dump are not compared",
        "The dump has task `tensor`. Its recorded statistics are compared; the saved files are not read yet.",
        "`dump.json` is a dump of tensors; their recorded statistics are compared, not the saved files",
        "Nothing; the result is that of a statistics dump.",
    ),
    Code(
        "PF3415",
        "process folders beside rank folders",
        "Helper processes of a distributed run dump into `proc*` folders. They have no rank and no counterpart.",
        "1 `proc*` folder(s) beside the `rank*` folders of `step0` are left out",
        "Give the process folder as the path to compare it by itself.",
    ),
    Code(
        "PF3416",
        "a dump.json entry of unknown shape",
        "The value of an entry is no object, or none of its keys is known.",
        "`Torch.add.0.forward` of `dump.json` is a list and is left out",
        "Dump again; if the collector is newer than this program, report the entry.",
    ),
    Code(
        "PF3417",
        "a link that leads out of a dump",
        "A step folder, rank folder or dump.json is a symbolic link to somewhere outside the dump. Dumps may come from "
        "others, so such links are not followed.",
        "`step0/rank1` is a link that leads out of the dump and is not followed",
        "Give what it leads to as a dump of its own, or copy it in.",
    ),
)
