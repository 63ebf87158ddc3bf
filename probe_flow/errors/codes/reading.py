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
        "The device creates the file before it writes it; one without a header was never finished, or the disk was full.",
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
        "a storage layout cannot be undone",
        "The device stores the tensor in a private layout and either this layout has no known conversion or the stored "
        "and the original shape do not fit together.",
        "`Conv3D_1.input.1` is stored as FRACTAL_Z_3D [27, 1, 16, 16], which cannot be turned into [8, 3, 3, 3, 3]",
        "Compare a neighbouring tensor, or let the model insert a conversion to ND before it.",
    ),
    Code(
        "PF3104",
        "the parts of a tensor cannot be put together",
        "The tensor is spread over several files (slices or shards), which this reader does not join.",
        "`Conv2D_1.output.0` consists of 4 parts",
        "Dump without slicing, or join the parts first.",
    ),
)
