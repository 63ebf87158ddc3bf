"""Codes of reading and formats (PF3xxx)."""

from __future__ import annotations

from probe_flow.errors.codes import eager_dumps, kernel_dumps, offline_dumps, recorded_dumps, reductions
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
        "PF3018",
        "the header of a nano dump is malformed",
        "Some edge devices write tagged blocks as header, announced by the bytes 5A5A5A5A. A block or a record in it "
        "is longer than what holds it, or no block describes tensors: the file is damaged, or still being written.",
        "the header of the nano dump is malformed: output 0 needs 52 bytes, 12 are left",
        "Dump the operator again, or exclude it with `select.nodes`.",
    ),
    Code(
        "PF3019",
        "a nano dump has bytes behind its tensors",
        "The sizes that the header gives do not fill the file. Writers of this container leave no surplus, so the "
        "header may describe other tensors than the file holds.",
        "the nano dump `Add.Add_1.44.6.1706596912161941` goes on for 64 bytes behind its last tensor",
        "Dump the operator again if its values look wrong.",
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
        "PF3023",
        "the description of an operator's slices is malformed",
        "The device cut the operator into slices, each in a file of its own, and describes the cuts as JSON in the "
        "first attribute of each header. That text is no JSON, or lists, numbers and ranges in it are not what they "
        "should be, so the slices cannot be put together.",
        "the description of the slices in `Conv2D.conv.12.7.1767225600000020.4.1.0.0` is malformed: ValueError: the "
        "range 8 to 4 runs backwards",
        "Dump the operator again, or exclude it with `select.nodes`.",
    ),
    Code(
        "PF3024",
        "the slices of an operator do not make up its tensors",
        "Slices are missing or unreadable, their shapes or types do not fit together, the operator is cut along "
        "several axes, or only statistics of its slices were kept. Its outputs count as unreadable. Inputs of which "
        "the threads take overlapping parts are passed over.",
        "3 slices of `conv` do not make up its tensors: `output.0`: 4 slices were made, 3 are there (number 0, 1, 3)",
        "Dump the operator again, with all of its slices, or exclude it with `select.nodes`.",
    ),
    Code(
        "PF3025",
        "one slice stands for a whole operator",
        "Several files are slices of one operator, and none says along which axis it was cut. The newest is compared "
        "as if it were whole.",
        "nothing says how the 2 slices of `pool` were cut; `MaxPool.pool_lxslice1.13.7.1767225600000031`, the newest, "
        "stands for all",
        "Exclude the operator with `select.nodes` if its tensors differ in shape.",
    ),
    Code(
        "PF3026",
        "`mapping.csv` gives a hash two names",
        "Two rows have the same number and different real names. The last one counts.",
        "`0/graph_1_0/1/0/mapping.csv` line 9 gives `1122334455` another name than line 2",
        "Dump into an empty folder: the file was written by two runs.",
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
        "The tensor is spread over several files (slices or shards) whose sizes do not add up to its shape, which are "
        "not numbered along one axis, or which store their elements in an order of their own.",
        "the 3 parts of `Conv2D_1.output.0` cannot be put together: together they have 6 along axis 1, shape [2, 8]",
        "Dump without slicing, or join the parts first.",
    ),
    Code(
        "PF3201",
        "a dump folder does not exist",
        "The path of a dump stage names nothing, or a file; or `time:` names a run that the dump does not hold.",
        "the dump folder `dumps/msprobe_ge_dump` does not exist",
        "Check the path: it is relative to the workflow file, or to the working directory when given by `--set`.",
    ),
    Code(
        "PF3202",
        "a folder holds no dump of this kind",
        "The folder exists, but no file name in it has the form that the reader looks for: the dump is empty, "
        "was written by another mode, or the sides are swapped.",
        "`msprobe_ge_dump` holds no device dump file; found 12 x FX array in 12 files",
        "Give the folder that the dump was written to; use the dump stage that fits its kind.",
    ),
    Code(
        "PF3203",
        "a link in a dump is not followed",
        "Links to files are followed inside the dump folder only, links to folders never, so that a dump "
        "cannot make a run read other files. What a link out of the dump leads to is not compared, so the run is "
        "incomplete.",
        "the link `0/graph_1_0/1/0/Add.Add.1.2.1767225600000000` leads out of the dump folder and is not followed",
        "Copy what it leads to into the dump folder if it belongs to the dump, or remove the link.",
    ),
    Code(
        "PF3204",
        "a file or folder of a dump cannot be listed or opened",
        "You may not read it, it vanished, or the disk failed.",
        "`20260101000000/1` cannot be read: Permission denied",
        "Check its permissions, or copy the dump again.",
    ),
    Code(
        "PF3205",
        "a file in a dump folder is passed over",
        "Its name is not that of a dumped tensor: a hidden file, an editor's swap file, a record of an "
        "overflow, the output of another program.",
        "`0/graph_1_0/1/0/notes.json` is passed over: file of another kind",
        "Nothing to do if you know the file; otherwise check that the dump is complete.",
    ),
    Code(
        "PF3206",
        "an operator was dumped twice in one execution",
        "Two files of one folder name the same operator. One of them counts.",
        "`Add.Add_1.44.6.1706596912161941` is skipped: `Add.Add_1.44.6.1706596912161999` holds the same "
        "operator and is the newest",
        "Choose with `duplicates: newest`, `largest` or `first`; dump into an empty folder to avoid it.",
    ),
    Code(
        "PF3207",
        "a dump holds several runs",
        "The dump folder has several 14-digit folders. Where they hold the same executions they are different "
        "runs and only the newest is read; where they do not, one run crossed a time boundary and all are "
        "read.",
        "the dump holds several runs, `20260101000000`, `20260102000000`; the newest, `20260102000000`, is read",
        "Choose with `time:`, or dump every run into a folder of its own.",
    ),
    Code(
        "PF3208",
        "a hashed file name cannot be resolved",
        "Names that are too long for the file system are replaced by a number, and `mapping.csv` beside the "
        "file gives the real name. It is missing or does not have this number.",
        "`0/graph_1_0/1/0/1122334455` is skipped: its name is a hash and `mapping.csv` beside it does not name it",
        "Copy the dump together with its `mapping.csv` files.",
    ),
    Code(
        "PF3212",
        "a dump folder nests too deep",
        "Folders more than eight levels below the dump folder are not read.",
        "the folder `a/b/c/d/e/f/g/h/i` lies more than 8 levels below the dump folder and is not read",
        "Give the dump folder itself as `path`, not one of its parents.",
    ),
    Code(
        "PF3213",
        "a rank or a graph id was inferred",
        "The folders of an earlier layout do not name the rank or the graph. It was inferred from the device "
        "number, from graph texts or from common operator names.",
        "the dump gives devices but no ranks; taken as device 0 = rank 0, device 1 = rank 1",
        "Check the inference; select one rank or dump each rank into its own folder if it is wrong.",
    ),
    Code(
        "PF3214",
        "an execution has no graph text",
        "No `dynamo_original_graph_*.txt` has the rank and graph id of the execution, so the operators have "
        "no FX names and no edges.",
        "no graph text (`dynamo_original_graph_*.txt`) belongs to rank 0 graph 2 step 0",
        "Copy the graph texts from the folder of the dump: they lie beside the `worldsize*` or time folders.",
    ),
    Code(
        "PF3215",
        "a graph has several texts",
        "Several `dynamo_original_graph_*.txt` have the same rank and graph id: the folder was used for "
        "several runs. The one that fits the dumped operators best is used.",
        "graph 1 has several texts; `dynamo_original_graph_1_rank_0_pid_2_ts_20260102000000000001.txt` fits best",
        "Dump every run into a folder of its own.",
    ),
    Code(
        "PF3216",
        "a row of `mapping.csv` is malformed",
        "Rows have exactly two cells, the number in the file name and the real name.",
        "`0/graph_1_0/1/0/mapping.csv` line 3 is not `hash,real name`",
        "Copy the file again from the machine that dumped.",
    ),
    Code(
        "PF3217",
        "a selection of ranks, steps or graphs narrows nothing",
        "Rank, step and graph of an execution are read from the names of folders. This dump, or a part of it, has no "
        "such folders, so it is read whole: it may be what was asked for, or not.",
        "the selection of ranks narrows nothing: no name of a folder tells the rank, so that all of the dump is read",
        "Leave the selection out if the dump is of the rank, step or graph that you mean, else give that one's folder.",
    ),
    Code(
        "PF3220",
        "a graph text ends too early",
        "The file ends inside a block, or before the first operator: it was cut off while it was written or copied. "
        "The operators before that place are used.",
        "`dynamo_original_graph_1_rank_0_pid_2_ts_20260101000000000001.txt` ends inside a block; 61 complete "
        "operators before it are used",
        "Copy the file again, or dump again with enough free disk.",
    ),
    Code(
        "PF3221",
        "a graph text is malformed",
        "The text breaks the grammar of the protobuf text format. The operators before that place are used.",
        '`dynamo_original_graph_1.txt` is not protobuf text at `type "Add"`',
        "Do not edit graph texts; copy the file again.",
    ),
    Code(
        "PF3223",
        "a graph was compiled but has no dump",
        "A graph text exists, but no dumped execution belongs to it: the graph never ran, or its steps were "
        "not selected for the dump.",
        "graph 2 was compiled but holds no dumped execution",
        "Nothing to do if the graph was not meant to run.",
    ),
    Code(
        "PF3224",
        "the name of a device operator has several meanings",
        "A fused operator's name is a concatenation of operator names, and it can be taken apart in several "
        "equally good ways; or two operators differ only in characters that file names cannot hold.",
        "`Add_1Add_12` can be Add_1 + Add_12 or Add_1Add_1 + 2; the first is taken",
        "Compare the operators before and after it to see whether the choice is right.",
    ),
    Code(
        "PF3230",
        "a reduced dump file is malformed",
        "Its name says that it holds the statistics of dumped tensors (`*_min_max.npz`, `*_min_max.npy`), and its "
        "content does not: it was cut off, changed, or written by another program.",
        "`Add.Add_1.44.6.1706596912161941_min_max.npz` is named like a reduced file and is none: File is not a zip "
        "file",
        "Reduce the dumped file again, or dump again.",
    ),
    *reductions.READING,
    Code(
        "PF3190",
        "tensor could not be read",
        "the file system or the memory of the machine failed while a tensor was being read",
        "`Add_1.output.0` could not be read: [Errno 5] Input/output error",
        "check the disk and run again; the other tensors are not affected",
    ),
    Code(
        "PF3191",
        "paired tensor is unreadable",
        "the reader found this tensor malformed; the reason stands in the message",
        "the target is unreadable: payload ends 12 bytes early",
        "dump it again, or leave the node out with `select.nodes`",
    ),
    Code(
        "PF3192",
        "file changed while it was being read",
        "size or time of a dump file differ before and after the measurement: the dump is still being written",
        "a file of `Add_1.output.0` changed while it was being read",
        "wait until the dump is complete and run again; other tensors are not affected",
    ),
    *eager_dumps.SECTION,
    *kernel_dumps.SECTION,
    *offline_dumps.SECTION,
    *recorded_dumps.SECTION,
)
