"""Codes of reading dump.json dumps and their tensor files, and of choosing the reader of a dump (PF3401 to PF3449)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
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
    Code(
        "PF3418",
        "a tensor file that a dump.json names is missing",
        "The file was not copied along, was deleted to save disk, or the collector was killed before it wrote it.",
        "`Functional.linear.0.forward.input.0.pt`, which `dump.json` names, is not in `dump_tensor_data`",
        "Copy or dump again; the row of this tensor cannot be compared.",
    ),
    Code(
        "PF3419",
        "the name of a tensor file leads out of the dump",
        "A `data_name` holds a path, or the file or its folder is a symbolic link to somewhere outside the dump. Dumps "
        "may come from others, so such files are not read.",
        "`../../secret.pt`, which `dump.json` names, is no name of a file in `dump_tensor_data`",
        "Use the dump as the collector wrote it; copy linked files in.",
    ),
    Code(
        "PF3420",
        "a tensor file and its dump.json disagree",
        "Shape or dtype of the file are not those that the dump.json states: files of two runs were mixed, or one of "
        "the two was changed. The file counts.",
        "`Functional.linear.0.forward.input.0.pt` holds `float32` [4, 8], `dump.json` says `float32` [8, 4]",
        "Dump again into an empty folder.",
    ),
    Code(
        "PF3421",
        "a torch file is damaged",
        "It was cut off (collector killed, copy interrupted, disk full), or it is no file that `torch.save` wrote.",
        "`x.pt` is a damaged torch file: its end is missing: the file is cut off",
        "Wait until the dump is written; if it is, copy the file again, or dump again.",
    ),
    Code(
        "PF3422",
        "a torch file holds something other than a tensor",
        "A tensor file of a dump holds one tensor with elements. This one holds a dictionary, a list, an object, or a "
        "tensor without elements of its own.",
        "`x.pt` holds a dict instead of a tensor",
        "Dump again; a checkpoint is no dump.",
    ),
    Code(
        "PF3423",
        "a torch file is refused because loading it could run code",
        "Torch files are pickles, and a pickle can name any function to be called while it is loaded. This one names "
        "something that no tensor needs. Nothing of it was run.",
        "`x.pt` is refused: loading it would use `os.system`, which no tensor needs",
        "Dump the tensor again, and find out where the file comes from.",
    ),
    Code(
        "PF3424",
        "a torch file that only torch can decode, without torch",
        "Plain tensors are read without torch. Sparse, quantised and packed ones, and files from before version 1.6, "
        "are left to torch, which is not installed.",
        "`x.pt` can only be decoded by torch, which is not installed: `qtensor` is no plain layout",
        "Install it with `pip install 'probe-flow[torch]'`, or dump plain tensors.",
    ),
    Code(
        "PF3425",
        "torch cannot load a tensor file",
        "The file is damaged, was written by a newer torch, or holds another tensor than its dump.json says.",
        "`x.pt` cannot be loaded by torch: it holds `torch.float32` of shape [2], not `float32` [3]",
        "Dump this tensor again, or leave it out with `select.nodes`.",
    ),
    Code(
        "PF3426",
        "a tensor file of an unknown kind",
        "Tensors of dump.json dumps are saved as `.pt` or `.npy`.",
        "`Functional.linear.0.forward.input.0.bin`, which `dump.json` names, is neither `.pt` nor `.npy`",
        "Dump again; if the collector is newer than this program, report the file.",
    ),
    Code(
        "PF3427",
        "tensor files that no entry names",
        "Tensors are written before dump.json is: a collector that was killed leaves some without an entry. They are "
        "not compared.",
        "3 files in `dump_tensor_data` beside `dump.json` are named by no entry, e.g. `x.pt`",
        "Nothing, unless the run that was dumped did not end.",
    ),
    Code(
        "PF3428",
        "a dump of another framework than its stage says",
        "The dump.json was written by another framework. It is read all the same: the format is one.",
        "`dumps/golden` is a dump of mindspore",
        "Use `dump.mindspore` for dumps of MindSpore and `dump.torch` for those of PyTorch, so that the file says what "
        "it means.",
    ),
    Code(
        "PF3429",
        "ranks or steps of a dump have different tasks",
        "One process saved tensors, another statistics or checksums: the folders come from different runs.",
        "`step0/rank1/dump.json` has the task `statistics`, `step0/rank0/dump.json` has `tensor`",
        "Dump all ranks with one configuration, or select those that fit together.",
    ),
    Code(
        "PF3430",
        "a path that holds no dump of a known kind",
        "`dump.auto` looks for the files of each kind of dump and found none.",
        "`dumps` holds no dump of a known kind",
        "Give the folder of one dump, and name its kind with `dump.torch` or another stage if you know it.",
    ),
    Code(
        "PF3431",
        "a path that holds dumps of several kinds",
        "`dump.auto` found the files of more than one kind of dump below the path and cannot know which one is meant.",
        "`dumps` holds dumps of 2 kinds: `dump.torchair_ge` (msprobe_ge_dump), `dump.torchair_fx` (msprobe_fx_dump)",
        "Give the folder of one of them, or use the stage of its kind.",
    ),
)
