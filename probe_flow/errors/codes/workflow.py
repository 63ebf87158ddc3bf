"""Codes of YAML and schema (PF1xxx): 10xx the text, 11xx `extends`, 12xx keys and values, 13xx parameters."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF1001",
        "YAML syntax error",
        "The text is not YAML: a bracket or quote is not closed, a line is indented differently from its siblings, "
        "or a text starts with a reserved character.",
        "formats: [csv, jsonl",
        "Look at the marked place and at the line before it; quote texts that contain `: `, `{`, `[` or `#`.",
    ),
    Code(
        "PF1002",
        "Several documents in one file",
        "A line `---` starts a second YAML document; a workflow file holds one.",
        "name: first\n---\nname: second",
        "Remove the `---`, or put the second workflow into a file of its own.",
    ),
    Code(
        "PF1003",
        "Duplicate key",
        "A mapping has the same key twice; YAML libraries would silently keep one of them.",
        "stages:\n  target: {uses: dump.torchair_ge, path: a}\n  target: {uses: dump.torchair_ge, path: b}",
        "Keep one of the two, or rename one.",
    ),
    Code(
        "PF1004",
        "Not a workflow",
        "The file is empty, or its top level is a list or a text instead of a mapping.",
        "- uses: compare",
        "Start with `version: 1`, `name:` and `stages:`, or copy a ready workflow with `probe-flow init`.",
    ),
    Code(
        "PF1005",
        "Key of the wrong type",
        "A key is a boolean, empty, a number with a fraction or of more than 63 bits, a list or a mapping, or a number "
        "where a name belongs.",
        "stages:\n  7: {uses: compare, pairs: pairs}",
        "Quote the key, or choose a name that starts with a letter.",
    ),
    Code(
        "PF1006",
        "Larger than a workflow can be",
        "The file, its nesting, a number, or the expansion of its aliases is beyond the limits of the reader.",
        "a: &a [x, x]\nb: &b [*a, *a]  # and so on, doubling each time",
        "Check that this is the right file; write repeated parts with `matrix` or `extends`.",
    ),
    Code(
        "PF1007",
        "Tag not allowed",
        "A YAML tag asks for a type that a workflow does not have, or does not fit the text behind it.",
        "path: !!python/object:os.system x",
        "Remove the tag.",
    ),
    Code(
        "PF1008",
        "Workflow file cannot be read",
        "The file does not exist, is a folder, or may not be read.",
        "probe-flow validate no_such_file.yaml",
        "Check the path; a path after `extends` starts from the folder of the file that names it.",
    ),
    Code(
        "PF1009",
        "Not UTF-8",
        "The file contains bytes that are not UTF-8 text.",
        "a comment in Latin-1 or GBK",
        "Save the file as UTF-8.",
    ),
    Code(
        "PF1010",
        "Tab in the indentation",
        "YAML does not allow tabs for indentation.",
        "stages:\n\ttarget: ...",
        "Indent with spaces.",
    ),
    Code(
        "PF1011",
        "Merge of something that is no mapping",
        "`<<` merges the keys of a mapping into the one around it; what it names is something else.",
        "base: &base [1]\nstages:\n  a: {<<: *base}",
        "Put the anchor on a mapping, or name the values one by one.",
    ),
    Code(
        "PF1020",
        "Stage of a package cannot be used",
        "An installed package announces a stage, but it cannot be imported, or what it gives is no stage of that name. "
        "Only a workflow that uses the stage is concerned.",
        "the stage `dump.acme` cannot be used: ModuleNotFoundError: No module named 'acme_formats'",
        "Update or remove the package, or use another stage.",
    ),
    Code(
        "PF1021",
        "Too many workflows extend each other",
        "A workflow extends another one, that one a third, and so on, through more files than the limit "
        "(docs/explanation/limits.md).",
        "w1.yaml: `extends: w2.yaml`, w2.yaml: `extends: w3.yaml`, and so on",
        "Write what the lowest ones have in common into one file.",
    ),
    Code(
        "PF1101",
        "Unknown template",
        "`extends: template:NAME` names a workflow that neither probe_flow nor an installed package brings.",
        "extends: template:torchair",
        "`probe-flow templates` lists the names.",
    ),
    Code(
        "PF1102",
        "Workflows extend each other",
        "Following `extends` from file to file leads back to a file that was there before.",
        "a.yaml: `extends: b.yaml`, b.yaml: `extends: a.yaml`",
        "Remove `extends` from one of them.",
    ),
    Code(
        "PF1201",
        "Key is missing",
        "A stage, a parameter or the workflow itself lacks a key that it needs, or the key was dropped because its "
        "value uses an optional parameter that is not set.",
        "pairs: {uses: match.torchair, target: target}",
        "Add the key; the message says what it is for.",
    ),
    Code(
        "PF1202",
        "Value of the wrong type",
        "A value is text where a number belongs, a single value where a list belongs, and so on. Nothing is converted.",
        "select: {ranks: 0}",
        "Write the value as the message says; quote a number that is meant as text.",
    ),
    Code(
        "PF1203",
        "Unknown key",
        "A mapping has a key that means nothing there, often a typing mistake.",
        "pairs: {uses: match.torchair, target: target, goldn: golden}",
        "Use one of the keys that the message lists.",
    ),
    Code(
        "PF1204",
        "Not one of the choices",
        "A value must be one of a few words and is another.",
        "gate: finding",
        "Use one of the words that the message lists.",
    ),
    Code(
        "PF1205",
        "Value out of range",
        "A value has the right type but breaks a condition: a range, a pattern, an empty path, options that exclude "
        "each other.",
        "executor: {workers: 0}",
        "Change the value so that it meets the condition in the message.",
    ),
    Code(
        "PF1206",
        "Name with odd characters",
        "Names of stages, parameters and matrix entries are used in references and file names.",
        "stages:\n  my.stage: {uses: compare, pairs: pairs}",
        "Start with a letter or `_`, go on with letters, digits, `_` and `-`.",
    ),
    Code(
        "PF1301",
        "Unknown parameter",
        "`${params.NAME}` names a parameter that the workflow does not declare.",
        'path: "${params.goldn}"',
        "Declare it under `params`, or correct the name.",
    ),
    Code(
        "PF1302",
        "Parameter without a value",
        "A parameter has no default, is not optional, and `--set` does not give it a value. A `sample` is no default: "
        "it is used only where the file that names it is run itself and none of its parameters with a sample is set.",
        "params:\n  golden: {type: path}",
        "Pass `--set NAME=VALUE`, or add a `default`, or `optional: true`. `validate` accepts such a file.",
    ),
    Code(
        "PF1303",
        "`--set` of an unknown parameter",
        "`--set NAME=VALUE` names a parameter that the workflow does not declare.",
        "probe-flow run w.yaml --set goldn=/data/fx",
        "Use one of the parameters that the message lists.",
    ),
    Code(
        "PF1304",
        "Parameter of the wrong type",
        "A default or a `--set` value is not of the parameter's type, or not among its `choices`.",
        "params:\n  ranks: {type: int, default: all}",
        "Give a value of the declared type; lists are set as `--set ranks=0,1`.",
    ),
    Code(
        "PF1305",
        "Malformed interpolation",
        "`${...}` holds something other than a parameter, an environment variable, a matrix entry or `run.output`, "
        "or it is not closed.",
        'path: "${golden}"',
        "Write `${params.golden}`; `$${` stands for the characters `${`.",
    ),
    Code(
        "PF1306",
        "Environment variable is not set",
        "`${env.NAME}` names a variable that the environment does not have.",
        'path: "${env.DUMPS}/golden"',
        "Set the variable, or use a parameter with a default.",
    ),
    Code(
        "PF1307",
        "Unknown matrix entry",
        "`${matrix.NAME}` names an entry that neither the stage nor one that it consumes has.",
        'target: {uses: dump.torchair_ge, path: "${matrix.run}"}',
        "Add the entry to the stage's `matrix`, or correct the name.",
    ),
    Code(
        "PF1308",
        "Interpolation has no value here",
        "The name is a right one, but not in this place: `run.output` and `matrix` exist in stages only, the default "
        "of a parameter cannot use parameters, `extends` uses nothing, and a list cannot stand inside a text.",
        'cache: {dir: "${run.output}/cache"}',
        "Write the value out, or use an environment variable.",
    ),
    Code(
        "PF1310",
        "Parameter that nothing uses",
        "A parameter is declared but no value uses it, so setting it changes nothing (a warning).",
        "params:\n  ranks: {type: list, default: [0]}",
        "Use it as `${params.ranks}`, or remove it.",
    ),
    Code(
        "PF1311",
        "Workflow expands to too much",
        "What `${...}` inserts and what `matrix` multiplies is far more than a workflow can mean: a long text inserted "
        "thousands of times, or long stages with a thousand variants.",
        'path: "${params.long}${params.long}"  # and so on, thousands of times',
        "Shorten the values that are inserted, or split the workflow.",
    ),
    Code(
        "PF1313",
        "Too many stages",
        "A workflow has more stages than it can mean, or `matrix` makes too many variants of them "
        "(docs/explanation/limits.md).",
        "stages:\n  s0: ...\n  s1: ...  # and so on, thousands of them",
        "Write stages that differ in a value as one with `matrix`, give `matrix` fewer values, or split the workflow.",
    ),
    Code(
        "PF1312",
        "Further wrong interpolations",
        "A workflow has more wrong `${...}` than are listed.",
        "a list of a thousand `${params.goldn}1`, `${params.goldn}2`, ...",
        "Correct those that are listed, and look again; one correction often mends many.",
    ),
)
