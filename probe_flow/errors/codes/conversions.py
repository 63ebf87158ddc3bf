"""Codes of converting dumped tensors to files (PF6501 to PF6519)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF6501",
        "converted files would lie among the dumped ones",
        "The output folder is the folder of the dump, or one of its files is. The next reader would take converted "
        "files for dumped ones.",
        "`probe-flow parse -d dump -o dump`",
        "Name another folder with `--output_path` (`output` in a workflow).",
    ),
    Code(
        "PF6502",
        "the folder of converted files cannot be used",
        "It cannot be made, it is a file, or it cannot be written.",
        "`/data/out` cannot be used: Permission denied",
        "Name another folder, or give yourself the right to write there.",
    ),
    Code(
        "PF6503",
        "another file has the name of a converted one",
        "A file of that name is there and holds other bytes. It is left as it is.",
        "`Add.Add_1.2.3.4.output.0.npy` is there already with other content",
        "Name an empty folder, or allow that files are replaced (`--replace`, `replace: true`).",
    ),
    Code(
        "PF6504",
        "a tensor cannot be converted",
        "Its elements are no numbers, their packing is not published, or the slot is damaged.",
        "output 0 of `Print.Print_1.44.6.1706596912161941`: `DT_STRING` elements are no numbers",
        "Nothing to do, or dump the tensor in another type.",
    ),
    Code(
        "PF6505",
        "the logical shape of a tensor in a private layout is unknown",
        "The dump gives only the stored shape, which has padding in it: how much, nothing says.",
        "the dump does not say which shape `a.output.0` has without the blocks of `FRACTAL_NZ`",
        "Give the shape with `--shape`, or convert the tensor as it is stored (without `--format`).",
    ),
    Code(
        "PF6506",
        "a file has no tensor of that number",
        "`--input_index` or `--output_index` names a tensor that no given file has.",
        "no given file has output 3",
        "Give a smaller number; without these options all tensors are converted.",
    ),
    Code(
        "PF6507",
        "there is nothing to convert",
        "The folder holds no file, or none that holds tensors. Folders inside it are not searched: dumps repeat names "
        "in each of them.",
        "`dump_data` holds no file; it holds folders such as `20260101000000`",
        "Give the folder in which the dumped files lie.",
    ),
    Code(
        "PF6508",
        "tensors of a dump are not converted",
        "Some could not be read or written; each has its reason. The others are there.",
        "3 of 120 tensors of stage `target` are not converted",
        "Follow the reasons; what is converted already is not done twice.",
    ),
    Code(
        "PF6509",
        "a converted file cannot be written",
        "The disk is full, a right is missing, or memory ran out. No part of the file is left.",
        "`Add.Add_1.2.3.4.output.0.npy` cannot be written: No space left on device",
        "Free some disk and convert again.",
    ),
    Code(
        "PF6510",
        "tensors that have no such layout stay as they are",
        "A layout of blocks takes tensors of a certain number of axes: NC1HWC0 four of them, NDC1HWC0 five. The "
        "others, such as the bias of a convolution, are not converted: they stay as the dump has them.",
        "12 tensors of stage `blocks` have no layout `NC1HWC0` and stay as they are",
        "Nothing to do, or name the nodes to convert with `nodes`.",
    ),
    Code(
        "PF6511",
        "no tensor has the wanted layout",
        "None of the tensors to convert has as many axes as the layout takes.",
        "no tensor of stage `blocks` has a layout `NDC1HWC0`: their number of axes is another one",
        "Name a layout for tensors of that many axes, or `ND`.",
    ),
)
