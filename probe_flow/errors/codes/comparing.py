"""Codes of comparing (PF5xxx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF5102",
        "element counts differ",
        "the two tensors of a pair do not hold the same number of logical elements, so no element has a partner",
        "target float16 (2, 4096), golden float32 (2, 2048)",
        "check which tensors were paired; if one of them is a slice, say so in the match stage",
    ),
    Code(
        "PF5110",
        "layout not convertible",
        "the device stored the tensor in a private layout whose element order is not published",
        "a weight in layout `FRACTAL_Z_3D`",
        "convert the tensor to ND before it is dumped, or list it as not comparable with this reason",
    ),
    Code(
        "PF5111",
        "dtype not decodable",
        "the elements are no numbers (strings, handles), or the packing of a sub-byte type is not established",
        "an output of dtype `float4_e2m1`",
        "add a cast to a wider dtype to the model before dumping, or list the tensor as not comparable",
    ),
    Code(
        "PF5112",
        "tensor holds too few bytes",
        "the shape and the dtype of a tensor ask for more bytes than the dump holds for it",
        "elements 0 to 1024 of a `float16` tensor need 2048 bytes, it has 1000",
        "dump the tensor again; the writer was interrupted or recorded a wrong shape",
    ),
    Code(
        "PF5113",
        "stored and logical shape contradict each other",
        "the padded shape of a private layout must cover the logical shape with exactly as many blocks as it needs",
        "stored shape (2, 1, 16, 16) in layout `FRACTAL_NZ` for logical shape (3, 40)",
        "check the format and the original shape that the dump records; nothing is compared rather than wrong data",
    ),
    Code(
        "PF5114",
        "unknown metric",
        "a metric id that is neither ours nor that of an installed package",
        "metrics: [cosin]",
        "pick an id of docs/reference/metrics.md or install the package that provides it",
    ),
    Code(
        "PF5115",
        "metric of a package cannot be used",
        "an entry point `probe_flow.metrics` gives something other than metrics, or an id that is taken",
        "the entry point `mypkg` gives the metric `cosine`, which exists",
        "rename the metric, or remove or update the package that provides it",
    ),
    Code(
        "PF5116",
        "metrics backend cannot be used",
        "the workflow asks for the compiled backend and numba is not installed or does not load, or for an unknown one",
        "`metrics_backend: numba` where only the core dependencies are installed",
        "pip install 'probe-flow[accel]', or leave the choice to `metrics_backend: auto`",
    ),
    Code(
        "PF5001",
        "unknown policy",
        "`policy:` names neither one of ours nor that of an installed package",
        "policy: torchiar",
        "use `torchair` or `dump_json`, install the package that provides it, or write a list of rules",
    ),
    Code(
        "PF5002",
        "policy of a package cannot be used",
        "an entry point `probe_flow.policies` gives something without a `name` and a `judge` method",
        "the entry point `mypkg` gives a module",
        "update or remove the package that provides it",
    ),
    Code(
        "PF5103",
        "value is no numeric tensor",
        "one side holds text, an object or a dtype whose bits are not known",
        "the golden cannot be measured: a value of type `<U3` is no numeric tensor",
        "nothing to do if the argument is no tensor; otherwise dump it in a numeric dtype",
    ),
    Code(
        "PF5104",
        "sides are of different kinds",
        "one side is a tensor, the other statistics, a scalar or nothing",
        "the target is a tensor, the golden a scalar",
        "check which tensors were paired, or dump both sides in the same way",
    ),
    Code(
        "PF5117",
        "checksums of different dtypes",
        "both dumps recorded checksums and nothing else of the tensor, but of elements of different dtypes, which have "
        "different bytes even where the values are equal",
        "checksums of float16 and float32 values cannot be compared",
        "reduce the dumps to statistics instead, or run both sides in the same dtype",
    ),
    Code(
        "PF5118",
        "operators ran and left no output in the dump",
        "A graph text, a call tree or fusion rules say that operators ran, and the dump holds no output of them: files "
        "were lost, or the dump was stopped or limited. The outputs count as missing, also where the other side lacks "
        "them too.",
        "36 operators of the target ran and left no output in the dump: `Gelu_1`, `MatMul_2`, `Add_7` and 33 more",
        "dump again; or name with `select` what is meant",
    ),
    Code(
        "PF5130",
        "tensors of the reference cannot be measured",
        "They are unreadable, or of another number of elements than the golden's, so the golden alone judges the "
        "target there. Coverage counts target and golden only.",
        "1 tensor of the reference cannot be measured: `addmm.output.0`; judged by the golden alone",
        "read the reasons of these rows, and dump them again in high precision",
    ),
    Code(
        "PF5131",
        "golden and reference have little in common",
        "The golden is off from the reference by more than half its size, which precision does not explain. Such a "
        "reference judges nothing well.",
        "golden and reference have little in common in 12 tensors: `addmm.output.0`, `gelu.output.0` and 10 more",
        "check that both ran the same model with the same weights and inputs",
    ),
    Code(
        "PF5132",
        "a repeated run cannot be read",
        "A dump stage ran its model several times, and the dump of a further run is gone or damaged, so that what the "
        "runs differ by is not known.",
        "a repeated run of `golden` cannot be read: the folder holds no FX dump",
        "run the stage again",
    ),
    Code(
        "PF5105",
        "nothing recorded on both sides",
        "both dumps know the tensor but no figure of it that the other has too: no statistics, and no checksums of "
        "equal dtype",
        "the target recorded a checksum only, the golden statistics only",
        "dump both sides with the same `summary_mode`",
    ),
)
