"""Codes of running a model to make a dump (PF6320 to PF6349)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF6320",
        "torch is not installed",
        "A stage shall run a model, or a script asks for a dump, and torch cannot be imported.",
        'golden: {uses: dump.torchair_fx, model: "net:build"}',
        "Install the extra `torch`, or adopt an existing dump with `path`.",
    ),
    Code(
        "PF6321",
        "Dump folder cannot be used",
        "The folder holds something already: two dumps in one folder could not be told apart, and nothing that another "
        "program left is ever replaced.",
        "the dump folder `worldsize1_global_rank0` is not empty",
        "Name a new or an empty folder, or allow the replacement (`overwrite`) where the dump is one of probe_flow.",
    ),
    Code(
        "PF6322",
        "Model cannot be loaded",
        "The module of `model` or `inputs` cannot be imported, lacks the attribute, or gives nothing callable.",
        "`model: net:built`: `net` has no `built`",
        "Correct the name; `import_from` names the folder that the module lies in.",
    ),
    Code(
        "PF6323",
        "Inputs cannot be used",
        "A file of the inputs cannot be read, a dtype does not exist, or the code that gives inputs raises an error or "
        "ends too early.",
        "`x.npy` cannot be read as input: ValueError: Object arrays cannot be loaded",
        "Give `.npy` arrays of numbers, `.pt` files of tensors, or as many calls as there are inputs.",
    ),
    Code(
        "PF6324",
        "Model failed",
        "The model, or a library that it uses, raised an error or called `sys.exit` while it ran.",
        "`net:build` failed in call 0: RuntimeError: mat1 and mat2 shapes cannot be multiplied",
        "Read the traceback in `model.log` beside the dump; check that the inputs are what the model takes.",
    ),
    Code(
        "PF6325",
        "Process of the model ended",
        "The child process crashed in native code, was killed, or ended by itself.",
        "the process that ran `net:build` ended by signal SIGSEGV",
        "Read the end of `model.log` beside the dump; SIGKILL usually means that memory ran out.",
    ),
    Code(
        "PF6326",
        "Dump cannot be written",
        "The disk is full, or the folder cannot be written. The execution that was dumped has no manifest.",
        "the dump cannot be written: No space left on device",
        "Free some disk or narrow the dump (`steps`, `filter`, `data: statistics`), and dump again.",
    ),
    Code(
        "PF6327",
        "Nothing was dumped",
        "torch compiled no graph of the model, or the filter leaves no node of it.",
        "nothing was dumped of 2 graphs",
        "Widen `filter`, `steps` or `direction`; a model that torch cannot follow at all has no graph.",
    ),
    Code(
        "PF6328",
        "No Ascend device",
        "A GE dump is made by the device, and `torch_npu` or `torchair` is not installed or does not load here.",
        'target: {uses: dump.torchair_ge, model: "net:build"}',
        "Make the dump on the device with the code that `probe-flow init --snippet torchair` prints, and adopt it with "
        "`path`.",
    ),
    Code(
        "PF6329",
        "torchair does not take an option",
        "The installed torchair has no such attribute in its CompilerConfig, or rejects the value.",
        "`dump_config.dump_layer` of torchair's CompilerConfig is not there",
        "Leave the option out, or use a newer torchair.",
    ),
    Code(
        "PF6330",
        "Run is not deterministic",
        "Repeated runs of the model gave other values; the operators are named where the difference begins.",
        "3 tensors of repeated runs differ; 1 operator is not deterministic",
        "Set a seed in the model, or read differences up to these as noise of the run.",
    ),
    Code(
        "PF6331",
        "Wrong option of a dump",
        "A script gives the backend a value that it does not have.",
        "`data` cannot be `stats`",
        "Use one of the values that the message lists.",
    ),
    Code(
        "PF6332",
        "Model has graph breaks",
        "torch cannot follow some of the model's code, which then runs between two graphs; operators there are not "
        "dumped.",
        "2 kinds of graph breaks: what the model computes between its graphs is not dumped",
        "Nothing, if that code computes no tensors (printing, logging); else rewrite it with operators of torch.",
    ),
    Code(
        "PF6333",
        "Operation without a deterministic form",
        "`deterministic: true` asks torch for deterministic algorithms; for these operations it has none on this "
        "device, and they ran as they are.",
        "torch has no deterministic form of `put_`",
        "Set `repeat: 2`, so that differences between runs become the noise floor, or write the model without them.",
    ),
    Code(
        "PF6340",
        "Dump of an execution is not complete",
        "The run ended in the middle of an execution, files were removed, or tensors were left out when it was dumped.",
        "the execution `worldsize1_global_rank0/graph_1/3` did not end: it has no manifest",
        "Look at why the dump ended, and dump again; what is there is compared.",
    ),
)
