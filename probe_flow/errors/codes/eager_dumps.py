"""Codes of reading the tensor files of dump.json dumps, and of choosing the reader of a dump (PF3418 to PF3449)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
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
