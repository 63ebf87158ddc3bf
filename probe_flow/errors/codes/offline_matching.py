"""Codes of matching offline models (PF4401 to PF4419)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF4401",
        "`match.fusion_rule` got a dump of another kind",
        "It pairs device dumps of offline models (`dump.om`) with arrays of the original model (`dump.npy`), or with "
        "other such dumps.",
        "`match.fusion_rule` needs dumps of offline models, but `golden` is a `pytorch` dump",
        "Read the folder with the stage that fits it, or use the match stage of that scenario.",
    ),
    Code(
        "PF4402",
        "two offline dumps, or their rule files, do not belong together",
        "Arrays cannot be judged by a device dump, nor an unquantised model by a quantised one; each rule file has "
        "its own scenario: `fusion_rule` for device dumps, `close_fusion_rule` where the golden is one too, "
        "`quant_fusion_rule` where only the target is quantised. Whether a model is quantised is told by the names "
        "of its operators.",
        "`close_fusion_rule` is for two device dumps, but the golden holds arrays",
        "Swap the sides or leave the file out; say `quantised` where names mislead.",
    ),
    Code(
        "PF4403",
        "the rule file is of another model",
        "Hardly any operator that the device dumped is named in it.",
        "the rules name 3 of the 412 operators that the device dumped: they are of another model",
        "Convert the offline model that was run: `atc --mode=1 --om=MODEL.om --json=RULES.json`, or give the `.om`.",
    ),
    Code(
        "PF4404",
        "a selection of operators is wrong",
        "`select.range` is `start,end,step` with 1 <= start <= end <= last id and 1 <= step < last id; an end of -1 "
        "is the last id. `select.ids` names at least one id of the rule file.",
        "`select` of `match.fusion_rule`: the range starts at 900",
        "Take ids from the rule file; the message says which there are.",
    ),
    Code(
        "PF4405",
        "some ids to select do not exist",
        "No operator of the rule file has them; the others are compared.",
        "no operator has the id 900",
        "Correct the ids.",
    ),
    Code(
        "PF4406",
        "device tensors are paired by a guess",
        "Without rule file nothing says what the compiler made of the model, so names, shapes and order decide. Such "
        "pairs have a confidence below 1 and say in their reason what speaks for them.",
        "no rule file: 12 of 40 outputs of the device are compared by a guess, 9 of them by name",
        "Give `fusion_rule`: the JSON that ATC makes of the offline model, or the `.om` itself.",
    ),
    Code(
        "PF4407",
        "rules of another generation of the graph are used",
        "The model that ran and the graph of the rule file have other times in their names, but the same number.",
        "model `ge_default_20260101000000_11` is compared by the rules of graph `ge_default_20260102000000_11`, which "
        "was not generated at the same time",
        "Convert the graph of the run that was dumped.",
    ),
    Code(
        "PF4408",
        "a model has no rule file",
        "In a folder of rule files none has a graph of the model's name, nor one with the same number.",
        "no rule file has a graph named `ge_default_20260101000000_21`: that model is not compared",
        "Convert the graph of this model too, or narrow the dump with `select`.",
    ),
    Code(
        "PF4409",
        "a folder of rule files is empty or too large",
        "Rule files of several models are the `.json` and `.om` files of one folder.",
        "`rules` holds no rule file",
        "Give the folder that holds them, or one file.",
    ),
    Code(
        "PF4410",
        "the golden dump is of another model",
        "The rules say which original tensors the device computes, and the golden dump has none of them.",
        "the golden has none of the 96 tensors that the rules name",
        "Give the dump of the model that was converted; names of operators must be those of that model.",
    ),
)
