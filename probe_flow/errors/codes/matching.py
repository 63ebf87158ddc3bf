"""Codes of matching (PF4xxx)."""

from __future__ import annotations

from probe_flow.errors.codes import offline_matching, rules
from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF4202",
        "executions of different number are paired",
        "Each side has one rank (or step), with different numbers. They are compared: nothing else could be meant.",
        "target step 3 is compared with golden step 0: neither side has another",
        "State `pair_ranks` or `step_offset` to say that it is meant.",
    ),
    Code(
        "PF4203",
        "an execution has no counterpart",
        "A rank or step was dumped on one side only, or the numbers differ between the sides.",
        "rank 3 step 0 of the target has no counterpart in the golden",
        "State `pair_ranks` or `step_offset`, dump the other side too, or narrow the dump with `select`.",
    ),
    Code(
        "PF4204",
        "an entry of `pair_ranks`, or `step_offset`, matches nothing",
        "A rank that it names was not dumped on its side, or the dumps tell no steps.",
        "`pair_ranks` entry 4: 0 matches nothing: there is no target rank 4",
        "Correct or remove the entry.",
    ),
    Code(
        "PF4210",
        "a mapping file cannot be read",
        "The file that a match stage names as its mapping does not exist, is too large, or is not UTF-8 text.",
        "cell mapping file `maps/cell.yaml` cannot be read: no such file or directory",
        "Correct the path; paths in a workflow are relative to the workflow file.",
    ),
    Code(
        "PF4211",
        "a mapping file has another form",
        "A cell mapping and a data mapping are one mapping of names (`fc2.Dense: fc2.Linear`), a layer mapping holds "
        "one such mapping per class (`MLP: {dense1: fc1}`), an API mapping is an object, or a list of objects, with "
        "`ms_api` and `pt_api`.",
        "the partner of `fc2.Dense` is a list, not a name",
        "Write the file in the form of its kind; quote names that look like numbers or are empty.",
    ),
    Code(
        "PF4212",
        "an API mapping has an unknown key",
        "Only the documented keys mean something; a mistyped one would silently compare the wrong arguments.",
        "unknown key `ms_arg` in an API mapping",
        "Use `ms_api`, `pt_api`, and the lists `ms_args`, `ms_outputs`, `ms_parameters`, `ms_parameters_grad` with "
        "their `pt_` counterparts.",
    ),
    Code(
        "PF4213",
        "an entry of an API mapping lacks an API",
        "Each entry says which MindSpore API is which PyTorch API.",
        "an entry of the API mapping has no `pt_api`",
        "Add the missing name.",
    ),
    Code(
        "PF4214",
        "two lists of an API mapping differ in length",
        "The lists of both sides correspond item by item.",
        "`ms_args` has 3 items, `pt_args` has 2: they correspond one by one",
        "Give both lists equally many items; leave an argument out of both to leave it out of the comparison.",
    ),
    Code(
        "PF4215",
        "a list of an API mapping is given twice",
        "`ms_output` and `ms_outputs` are two spellings of one key, and both are there.",
        "`ms_outputs` gives a list a second time",
        "Keep one of them.",
    ),
    Code(
        "PF4216",
        "an entry of a mapping matches nothing",
        "The target has no name that the entry speaks of: it is mistyped, or the file belongs to another model. "
        "Names match whole segments between dots.",
        "the cell mapping entry `fc2.Dnse` matches nothing in the target",
        "Correct the name (the nearest ones are listed), or remove the entry.",
    ),
    Code(
        "PF4217",
        "an entry of a mapping leads to nothing",
        "The target has the name, but what the entry makes of it is not in the golden dump.",
        "the cell mapping entry `fc2.Dense` leads to `Module.fc2.Liner`, which the golden does not have",
        "Correct the golden name (the nearest ones are listed), or dump that part of the golden.",
    ),
    Code(
        "PF4218",
        "several tensors of the target are mapped to one of the golden",
        "Two entries of a data mapping name the same golden item. Both are compared with it, as the file says.",
        "`Functional.linear.1.forward.output.0` is the partner of 2 target items",
        "Correct the entry unless it is meant.",
    ),
    Code(
        "PF4219",
        "a layer mapping has no call tree to work on",
        "Which layer an API ran in is told by construct.json, which dumps of level L1 leave empty.",
        "the target has no module and no call tree: no layer can be told apart",
        "Dump with level `mix` or `L0` and `extra_info: true`, or use `match.api_mapping`.",
    ),
    Code(
        "PF4240",
        "two dumps have little structure in common",
        "`match.structure` pairs calls by what modules hold, their order, shapes and values. Less than half of the "
        "calls found a counterpart, so these are hardly two runs of one model.",
        "rank 0 step 0: 12 of 400 calls could be paired by structure",
        "Check that both dumps are of one model; pair by name or with a mapping file.",
    ),
    Code(
        "PF4241",
        "calls are paired by guess",
        "Other calls fit as well, the calls do different work at the same place, or they stand in another order. "
        "Each row of such a pair says what speaks for it.",
        "step 0: 3 calls are paired by guess: `Module.layers.7.Layer.forward.0`, `Functional.linear.28.forward` and 1 "
        "more",
        "Look at these rows; write a layer mapping (`probe-flow suggest-mapping` makes a draft) to decide yourself.",
    ),
    Code(
        "PF4242",
        "a dump does not tell what called what",
        "`construct.json` is missing or empty (level L1), so calls are paired by their order alone.",
        "step 0: the golden does not tell what called what; calls are paired by order",
        "Dump with `extra_info` at level mix, and keep `construct.json` beside `dump.json`.",
    ),
    Code(
        "PF4243",
        "a module pair cannot be written as a layer mapping",
        "A layer mapping names children per class of the owner. Two owners of one class would need different entries, "
        "or the golden module lies outside the counterpart of the owner.",
        "`Module.layers.1.ffn.FFN` -> `Module.layers.1.mlp.MLP` cannot be written: `Layer` already maps `ffn` to `ff`",
        "Give the owners different classes, or use a data mapping for these modules.",
    ),
    Code(
        "PF4244",
        "no layer mapping can be suggested",
        "No module of one dump could be paired with a module of the other: the dumps hold no modules (level L1), or "
        "they are of different models.",
        "no module of `target` could be paired with one of `golden`",
        "Where a side has no modules, dump it at level mix or L0, with `extra_info`. Else check that both dumps are of "
        "one model, or pair tensors with a data mapping.",
    ),
    Code(
        "PF4220",
        "an entry is left out of a suggested mapping",
        "`suggest-mapping` applies what it suggests to the dumps it was made from. This entry would pair tensors whose "
        "values differ, although the golden has the same values at another place.",
        "`a: b` of `Block` is left out: `Module.blocks.0.a.Linear.forward.0.parameters.weight` differs from "
        "`Module.blocks.0.b.Linear.forward.0.parameters.weight` and has the values of "
        "`Module.blocks.0.c.Linear.forward.0.parameters.weight`; 0 pairs agree",
        "Decide by hand which layers correspond, and write it into the file.",
    ),
    Code(
        "PF4245",
        "the file of a suggested mapping exists",
        "`suggest-mapping` does not write over a file, which a person may have edited.",
        "`layer_mapping.yaml` exists and is not written over",
        "Name another file with `-o`, or remove this one.",
    ),
    Code(
        "PF4001",
        "a target execution has no golden counterpart",
        "The golden dump holds no execution of the same rank, graph and step, so none of its tensors can be compared.",
        "rank 0 graph 1 step 3 of `target` is not compared (177 tensors): the golden dump has no rank 0 graph 1 step 3",
        "Dump the same steps on both sides; use `pair_ranks` or `step_offset` where the numbers differ, or "
        "select what both sides have.",
    ),
    Code(
        "PF4002",
        "a golden execution has no target counterpart",
        "The target dump holds no execution of the same rank, graph and step.",
        "rank 0 graph 1 step 3 of `golden` is not compared (284 tensors): the target dump has no rank 0 graph 1 step 3",
        "Dump the same steps on both sides; use `pair_ranks` or `step_offset` where the numbers differ, or "
        "select what both sides have.",
    ),
    Code(
        "PF4004",
        "a dump is not of the kind that the matcher pairs",
        "`match.torchair` pairs a device dump (target) with an FX dump or with another device dump (golden). Another "
        "kind was wired in, or the sides are swapped.",
        "`match.torchair` needs a device dump (`dump.torchair_ge`) as target, but `target` is a `torchair_fx` dump",
        "Swap `target` and `golden`, or read the dump with the stage that fits it.",
    ),
    Code(
        "PF4005",
        "an execution cannot be matched without its graph text",
        "Only the graph text tells which FX tensor a device tensor is. There is none, or it is that of another graph.",
        "nothing of rank 0 graph 1 step 0 can be matched: it has no graph text",
        "Copy `dynamo_original_graph_*.txt` from the folder of the device dump.",
    ),
    Code(
        "PF4006",
        "graphs were paired by inference",
        "One of the dumps names no graph ids, so graphs were paired by the FX names that graph text and FX "
        "dump have in common; the share is given.",
        "target graph 1 is compared with golden graph `gm_20260101000000000000_dump`: both sides have one "
        "graph, 100% of the names agree",
        "Nothing to do when the share is high; otherwise select one graph on each side.",
    ),
    Code(
        "PF4007",
        "the golden dump names no ranks",
        "FX dumps of the earlier layouts do not tell ranks, but the target has several. Graphs were shared "
        "out in order.",
        "the golden dump names no ranks; its graphs are shared out among 2 target ranks",
        "Select one rank on the target side, or dump each golden rank into a folder of its own.",
    ),
    Code(
        "PF4008",
        "two target executions share a golden one",
        "Several models of one graph ran in one step, and the folders do not tell which is meant.",
        "rank 0 graph 1 step 0 (model `graph_1_0/2`) is compared with golden rank 0 graph 1 step 0, like "
        "another target execution",
        "Remove the folder of the model that you do not mean from the copy that is compared.",
    ),
    Code(
        "PF4009",
        "an entry of `pair_ranks` matches nothing",
        "It names a rank that one of the dumps does not have.",
        "`pair_ranks` names target rank 3 and golden rank 0, which are not both there",
        "Use the ranks that the message lists.",
    ),
    Code(
        "PF4011",
        "an execution is left out by a selection of the other side",
        "One side was read with a selection of ranks, steps or graphs, the other was not.",
        "rank 0 graph 1 step 1 of `golden` is not compared (284 tensors): rank 0 graph 1 step 1 is not "
        "selected on the target side",
        "Nothing to do; give both dump stages the same `select` to avoid the note.",
    ),
    Code(
        "PF4012",
        "the graph text of one device dump serves for both",
        "Two device dumps are compared, and one lacks the text of a graph. Both are compiled from the same graph, so "
        "the other's text is taken: it tells which operators a fused one was made of.",
        "the golden dump has no graph text for rank 0 graph 1 step 0; that of the target dump is used for both",
        "Copy `dynamo_original_graph_*.txt` from the folder of the device dump.",
    ),
    Code(
        "PF4013",
        "the graph texts of two device dumps differ",
        "Fusion changes what runs, not the graph that is compiled. Where the texts differ, the dumps are of different "
        "models, shapes or releases, and equal names may mean different operators.",
        "the graph texts of the two sides differ: 2 operators on one side only, 1 of another type, 4 with other "
        "inputs, 311 equal: `Add_7`, `Relu`, `Mul_3`",
        "Compile both sides from one model and one input shape.",
    ),
    Code(
        "PF4030",
        "the reference is a dump of another framework than the golden",
        "Tensors of the reference are found by the names of the golden's nodes, which are the same only in a dump of "
        "the same model by the same framework.",
        "the reference `exact` is a `pytorch` dump, the golden `golden` a `torchair_fx` dump",
        "Dump the golden's model once more in high precision, e.g. float64, and wire that dump as `reference`.",
    ),
    Code(
        "PF4031",
        "the reference lacks tensors that the golden has",
        "A run in another precision may drop casts, or was dumped with other options. These tensors are judged by the "
        "golden alone.",
        "the reference lacks 2 tensors that the golden has: `_to_copy.output.0`, "
        "`_to_copy_1.output.0`; judged without it",
        "Nothing to do if precision is the only difference; else dump the same nodes on both sides.",
    ),
    Code(
        "PF4032",
        "the reference lacks executions that the golden has",
        "It has no dump of these ranks, graphs or steps, so their tensors are judged by the golden alone.",
        "the reference has no rank 0 graph 1 step 3 of the golden: judged without it",
        "Dump the same ranks, graphs and steps in high precision.",
    ),
    Code(
        "PF4033",
        "the reference is the folder of another side",
        "A dump that judges itself is never wrong: the reference must be a dump of its own.",
        "the reference is the folder of `golden`, `dumps/msprobe_fx_dump`",
        "Dump the golden's model in high precision into a folder of its own and check the paths.",
    ),
    Code(
        "PF4034",
        "the reference has nothing of the golden",
        "No node of the reference has the name, rank, graph, step and slot of any golden tensor.",
        "the reference `exact` has none of the 284 tensors of the golden `golden`",
        "Check that both are dumps of the same model and the same graph.",
    ),
    *rules.SECTION,
    *offline_matching.SECTION,
)
