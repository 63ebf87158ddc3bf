"""Codes of fusion rules (PF4301 to PF4319)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF4301",
        "a rule file cannot be read",
        "The file does not exist, may not be read, or is no regular file.",
        "rule file `model.json` cannot be read: no such file or directory",
        "Correct the path; paths in a workflow are relative to the workflow file.",
    ),
    Code(
        "PF4302",
        "a rule file is too large",
        "A rule JSON, or the definition inside an offline model, is larger than any model needs. The weights of an "
        "offline model do not count.",
        "`model.json` has 612 MiB; at most 512 MiB are read",
        "Check that it is the JSON of one model; name the `.om` instead of its JSON.",
    ),
    Code(
        "PF4303",
        "a rule file is neither JSON nor an offline model",
        "Rules come from the JSON that ATC or AMCT writes, or from the `.om` itself. This file is of another kind, or "
        "its JSON is cut off or damaged.",
        "`model.json` is neither a rule JSON nor an offline model: the file ends in the middle",
        "Make the JSON again with `atc --mode=1 --om=MODEL.om --json=MODEL.json`.",
    ),
    Code(
        "PF4304",
        "a rule file holds no fusion rules",
        "The file is valid, and of another purpose: it has no graph with operators.",
        "`config.json` holds no fusion rules: its top level has no list `graph`",
        "Name the JSON that ATC or AMCT wrote for the model, not one of their configuration files.",
    ),
    Code(
        "PF4305",
        "a value in a rule file is of another kind",
        "A key that rules need is missing, or holds another kind of value. The place is a JSON pointer.",
        "`model.json` has at `/graph/0/op/3/name` nothing, not a name",
        "Make the JSON again; files that were edited by hand are the usual cause.",
    ),
    Code(
        "PF4306",
        "an offline model is damaged or cut off",
        "Its table of partitions, or the definition of the model, does not fit into the file.",
        "the offline model `model.om` is damaged or cut off: it has 200 bytes, its header alone has 256",
        "Copy or convert the model again.",
    ),
    Code(
        "PF4307",
        "an offline model is encrypted",
        "Nothing but ATC's own loader can read it.",
        "the offline model `model.om` is encrypted",
        "Name the JSON of the model, or a model that was built without encryption.",
    ),
    Code(
        "PF4308",
        "rule files do not name each other's operators",
        "The second rule file says what the names in the first one are called in the golden dump. Names that it does "
        "not know keep what they are, or lose their counterpart.",
        "3 of the names of `fr.json` are not in the quantisation rules `quant.json`",
        "Check that both files come from the same model and the same conversion.",
    ),
    Code(
        "PF4309",
        "operators of a rule file share a name",
        "References to inputs, and names of dump files, mean the first of them.",
        "in `model.json`, names that several operators have: 2",
        "Nothing to do when the operators lie in subgraphs that are not dumped; otherwise rename them in the model.",
    ),
    Code(
        "PF4310",
        "a quantising operator has an unexpected output type",
        "Quantisation is expected to give integers and dequantisation floats. This operator is treated like any other, "
        "so that integers may be compared with floats after it.",
        "output 0 of `conv1_quant_layer` is DT_FLOAT: neither quantised nor dequantised",
        "Exclude the operator with `select.nodes` if its figures mislead.",
    ),
)
