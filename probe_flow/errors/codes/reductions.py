"""Codes of reducing dumps (PF3231 to PF3234, PF6301 to PF6308, PF6334 to PF6339)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

READING: tuple[Code, ...] = (
    Code(
        "PF3231",
        "a dumped file is not written to its end",
        "Its size is not what its header accounts for, or it changed while it was reduced: it is still being written, "
        "or its writer was killed. Nothing is reduced from a part.",
        "`add-aten.add.Tensor.OUTPUT.0.20260101000000000009.npy` has 4100 bytes, its header accounts for 8320",
        "Reduce the folder again when the dump is complete, or watch it; dump again if the writer was killed.",
    ),
    Code(
        "PF3232",
        "an array without numbers is not reduced",
        "It holds text, Python objects or records, which have no statistics. It is neither reduced nor ever deleted.",
        "`fa-npu.fa.default.INPUT.4.20260101000000000009.npy` is left as it is: the array holds text, not a tensor",
        "Nothing to do.",
    ),
    Code(
        "PF3233",
        "a user's function failed on a tensor",
        "It raised an error, returned another number of figures than at its trial, or the tensor is larger than what "
        "functions get in one piece. The file is not reduced.",
        "`my_statistics:quantiles` failed: ZeroDivisionError: division by zero",
        "Correct the function: it must take empty, integer and bool tensors too. Then reduce the folder again.",
    ),
    Code(
        "PF3234",
        "a reduced file has tensors without figures",
        "The dumped file has tensors that are damaged, of a type that is no number, or in a layout that cannot be "
        "converted. Their rows are NaN, and the dumped file is kept even where deleting was asked for.",
        "`Print.Print_1.44.6.1706596912161941` has 1 tensors without figures: input.0: `DT_STRING` elements are no "
        "numbers",
        "Nothing to do, or delete the file yourself.",
    ),
)

EXECUTION: tuple[Code, ...] = (
    Code(
        "PF6301",
        "another process reduces this folder",
        "Two reducers in one folder, or in one inside the other, would delete what the other one reads. The lock file "
        "`.probe_flow_reduce.lock` names the process; a lock whose process is gone, or that another machine has not "
        "touched for two minutes, is taken over.",
        "`/data/msprobe_ge_dump` is being reduced by process 4242 on `node7`",
        "Let that process finish, or end it with SIGTERM.",
    ),
    Code(
        "PF6302",
        "a folder to reduce cannot be written",
        "Reduced files are written beside the dumped ones, and so is the lock file.",
        "`/data/msprobe_ge_dump` cannot be written: Read-only file system",
        "Give yourself the right to write there, or name another folder with `output`.",
    ),
    Code(
        "PF6303",
        "a function for reducing cannot be used",
        "It cannot be imported, or at its trial with a small float32 array it failed or did not return 1 to 1024 "
        "numbers.",
        "`my_statistics:quantile` cannot be used: AttributeError: module 'my_statistics' has no attribute 'quantile'",
        "Name it as `module:function`; the module must be importable, e.g. through PYTHONPATH.",
    ),
    Code(
        "PF6304",
        "a file or folder could not be reduced",
        "The disk is full, a right is missing, or memory ran out. The dumped file is kept; a watch tries again later.",
        "`Add.Add_1.44.6.1706596912161941` cannot be reduced: No space left on device",
        "Free some disk and check your rights, then reduce the folder again.",
    ),
    Code(
        "PF6305",
        "the summary of a reduction cannot be written",
        "The reduced files are there; only the summary is not.",
        "the summary `/data/summary.json` cannot be written: Permission denied",
        "Name another place with `summary`.",
    ),
    Code(
        "PF6306",
        "a dump is not reduced as a whole",
        "Some files failed or are not written to their end; each has its reason.",
        "3 files of `/data/msprobe_ge_dump` are not reduced",
        "Follow the reasons and reduce the folder again: what is reduced already is not done twice.",
    ),
    Code(
        "PF6307",
        "a stage waits for one that never ends",
        "A stage with `watch` ends only when it is told to, unless `stop_when` says otherwise; what consumes it would "
        "never run.",
        "stage `pairs` consumes `small`, which watches its dump for ever",
        "Give the watch `stop_when: idle` or `stop_when: file`, or compare in a workflow of its own.",
    ),
    Code(
        "PF6308",
        "there is nothing to reduce",
        "The folder holds neither dumped files nor reduced ones.",
        "`/data/dump` holds no dumped file to reduce",
        "Give the folder of a dump: device files, or arrays of an FX dump. With `--watch` an empty folder may fill.",
    ),
    Code(
        "PF6334",
        "nothing of a stage's dump can be reduced",
        "`source` of a `reduce` stage names a dump whose tensors lie in no device file and no `.npy` array, or of "
        "which there are statistics only.",
        "nothing of the dump of stage `eager` can be reduced: e.g. `Torch.add.0.output.0`: `Torch.add.0.output.0.pt` "
        "is neither a device file nor a `.npy` array",
        "Compare such a dump as it is: statistics of elements are computed where the other side has statistics.",
    ),
    Code(
        "PF6335",
        "reduced files of a stage would lie in its dump",
        "With `source` the dump stays as it is, since other stages read it; `output` names its folder, or one inside.",
        "the reduced files of a stage would lie in its dump, at `/data/msprobe_ge_dump`",
        "Name another folder; to reduce a dump where it lies, give its folder as `path`.",
    ),
    Code(
        "PF6336",
        "some tensors of a stage's dump are not reduced",
        "They lie in several files (slices of one tensor), in files of another kind, or the dump has statistics of "
        "them only. They stay as they are.",
        "2 tensors of `eager` are not reduced and stay as they are",
        "Nothing to do: compare reduces them where the other side holds statistics.",
    ),
)
