"""Codes of the plan (PF2xxx): 20xx how stages are wired, 21xx what a run needs."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF2001",
        "No stages",
        "`stages` is empty: there is nothing to run.",
        "stages: {}",
        "Add stages; `probe-flow templates` lists ready workflows.",
    ),
    Code(
        "PF2002",
        "Unknown stage type",
        "`uses` names a stage type that neither probe_flow nor an installed package has.",
        "target: {uses: dump.torchair, path: dump}",
        "Use one of the types that the message lists.",
    ),
    Code(
        "PF2003",
        "Dangling reference",
        "An option names a stage that the workflow does not have.",
        "pairs: {uses: match.torchair, target: target, golden: gold}",
        "Use the name of a stage; the message lists those that fit.",
    ),
    Code(
        "PF2004",
        "Stage of the wrong kind",
        "An option names a stage whose result is of another kind: a comparison needs pairs, not a dump.",
        "result: {uses: compare, pairs: target}",
        "Name a stage that gives the kind in the message.",
    ),
    Code(
        "PF2005",
        "Cycle",
        "Stages wait for each other's results, so none can start.",
        "a: {uses: compare, pairs: p, only: {comparison: b, where: {}}}\n"
        "b: {uses: compare, pairs: p, only: {comparison: a, where: {}}}",
        "Remove one of the references that the message shows.",
    ),
    Code(
        "PF2006",
        "Matrix variants that go with nothing",
        "A stage consumes two stages whose matrix entries have the same name but different values; the values that "
        "only one of them has would be left out.",
        "target: {matrix: {run: [a, b]}, ...}\ngolden: {matrix: {run: [a, c]}, ...}",
        "Give both entries the same values, or different names to compare every combination.",
    ),
    Code(
        "PF2007",
        "Unusable matrix",
        "A matrix entry has no values, has a value twice, or the variants are too many.",
        "matrix: {run: []}",
        "List every value once.",
    ),
    Code(
        "PF2101",
        "a path does not exist",
        "A stage names a file or folder that is not there. Paths in a workflow file start from that file's folder, "
        "paths given with `--set` from the working directory.",
        "path of stage `target`: `dumps/msprobe_ge_dum` does not exist",
        "Correct the path; `probe-flow plan WORKFLOW` shows every path as it is resolved.",
    ),
    Code(
        "PF2102",
        "a path cannot be read",
        "The file or folder exists, and you have no right to read it.",
        "path of stage `golden`: `/data/fx` cannot be read: permission denied",
        "Give yourself the right to read it, or name a copy.",
    ),
    Code(
        "PF2103",
        "an unknown scheduler",
        "Work runs in the calling thread (`sync`), on `threads` or in `processes` of this machine, or on the workers "
        "of a Dask cluster (`distributed`); `auto` chooses one of the first three.",
        "probe-flow run workflow.yaml --scheduler thread",
        "Use one of these names.",
    ),
    Code(
        "PF2108",
        "the command line names a stage that the workflow does not have",
        "`--only` and `--until` take names of stages of the workflow.",
        "probe-flow run workflow.yaml --only resutl",
        "Use one of the names listed.",
    ),
    Code(
        "PF2110",
        "two stages read the same dump",
        "A dump compared with itself always agrees: the run passes and says nothing about the model.",
        "stages `target` and `golden` read the same dump `dumps/a`",
        "Name the other side's dump.",
    ),
    Code(
        "PF2120",
        "an option of a compatible command is not part of this version",
        "`compare` takes the options that users know from the tool it replaces. Some of them belong to scenarios that "
        "this version does not have.",
        "probe-flow compare -tp a/dump.json -gp b/dump.json --consistent_check",
        "Leave the option out, or write a workflow file with the stages that this version has.",
    ),
    Code(
        "PF2122",
        "the two sides of a comparison are of different kinds",
        "One path is a `dump.json` or a folder that holds one, the other is not; or the target of a TorchAir "
        "comparison is an FX dump, or one side's folder lies in that of the other.",
        "probe-flow compare -tp step0/rank0/dump.json -gp dumps/golden",
        "Name two `dump.json` files, or choose the scenario with `-m`; for TorchAir name the GE dump with `-tp` and "
        "one other dump with `-gp`.",
    ),
    Code(
        "PF2123",
        "a dump of PyTorch is judged by one of MindSpore",
        "Comparisons between the two frameworks take the MindSpore program as the one under test: mapping files and "
        "result tables are written from its side.",
        "probe-flow compare -tp pytorch/step0 -gp mindspore/step0",
        "Give the MindSpore dump with `-tp` and the PyTorch dump with `-gp`.",
    ),
    Code(
        "PF2124",
        "an API mapping for two dumps of PyTorch",
        "`-am` translates names of MindSpore APIs into names of PyTorch APIs; here no side is of MindSpore.",
        "probe-flow compare -tp npu/step0 -gp gpu/step0 -am",
        "Leave `-am` out. For classes or layers with other names use `-cm FILE` or `-lm FILE`.",
    ),
    Code(
        "PF2125",
        "the two sides were dumped with different tasks",
        "One side holds tensors, the other only statistics (`task` in their dump.json), so most columns of a result "
        "table could not be filled.",
        "the target with `tensor`, the golden side with `statistics`",
        "Dump both with the same `task`. A workflow file (`probe-flow init pytorch_compare`) compares what both "
        "recorded.",
    ),
    Code(
        "PF2126",
        "one side is a file, the other a folder",
        "A folder may hold many ranks and steps, a dump.json is one of them: which is meant cannot be told.",
        "probe-flow compare -tp npu/step0/rank0/dump.json -gp gpu/step0",
        "Name two folders, or two files.",
    ),
    Code(
        "PF2127",
        "several ways of matching at once",
        "`-fm`, `-cm`, `-am`, `-dm` and `-lm` each decide how the tensors of two dumps are paired.",
        "probe-flow compare -tp a -gp b -cm cells.yaml -am",
        "Keep one of them.",
    ),
    Code(
        "PF2128",
        "the framework of the command line is not that of the dumps",
        "`-f` stands before `compare` for users who are used to it; what a dump holds is read from the dump.",
        "probe-flow -f mindspore compare -tp pytorch_dump -gp pytorch_dump",
        "Leave `-f` out, or name the right dumps.",
    ),
    Code(
        "PF2129",
        "an option that dumps of this scenario do not have",
        "TorchAir dumps are paired by the graphs that lie in them, offline models by their fusion rules, dumps with a "
        "dump.json by names or mapping files: options of one way do not fit the others.",
        "probe-flow compare -m torchair -tp ge -gp fx -fm",
        "Leave the option out.",
    ),
)
