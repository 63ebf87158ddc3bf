"""Codes of reporting (PF7xxx)."""

from __future__ import annotations

from probe_flow.errors.codes.code import Code

SECTION: tuple[Code, ...] = (
    Code(
        "PF7001",
        "a result file cannot be written",
        "The disk is full, the folder is not yours to write, or the file system refused the name. What stood there "
        "before is unchanged; nothing half-written is left.",
        "`comparison.jsonl` cannot be written: No space left on device",
        "Free some disk or name another folder with `--output`, then run again with `--resume`: what is cached is not "
        "measured twice.",
    ),
    Code(
        "PF7002",
        "unknown report layout",
        "A CSV format names a layout that neither probe_flow nor an installed package has.",
        "unknown report layout `torchar`; did you mean `torchair`?",
        "Use one of the layouts that the message lists, or install the package that has it.",
    ),
    Code(
        "PF7003",
        "a report layout of an installed package does not load",
        "An installed package announces a layout (entry point `probe_flow.reports`), but importing it failed, or what "
        "it names is no function.",
        "report layout `sheet` of `acme_reports:write` does not load: No module named 'acme_reports'",
        "Update or remove that package, or use another layout.",
    ),
    Code(
        "PF7101",
        "a report format needs a package that is not installed",
        "The format `xlsx` is written by XlsxWriter, which a plain installation of probe_flow does not bring.",
        "the format `xlsx` needs the package XlsxWriter, which is not installed",
        "Install the extra that the message names, or remove the format. The other files of the run are written.",
    ),
    Code(
        "PF7102",
        "a report file is not written",
        "The writer of one format stopped with an error that it did not foresee. The other formats are written; the "
        "run counts as incomplete, because a file that was asked for is missing.",
        "`junit.xml` is not written: ValueError: ...",
        "Read the traceback in `events.jsonl` (event `report.crashed`) and report it; run again without that format.",
    ),
    Code(
        "PF7110",
        "there is no run at that place",
        "The path does not exist, or it is a folder without a `run.json` that probe_flow wrote.",
        "probe-flow show results/",
        "Name the folder of a run: the one that `--output` named, or one below `probe_flow_runs`.",
    ),
    Code(
        "PF7111",
        "the record of a run cannot be read",
        "`run.json` is cut off, is no JSON, or lacks what every record has: it was copied while it was written, or "
        "edited.",
        "`run.json` is no record of a run: it ends in the middle (line 12, column 1)",
        "Copy the folder again, or repeat the run.",
    ),
    Code(
        "PF7112",
        "the record of a run is of another version",
        "Records carry the version of their format. This one was written by a probe_flow that is newer, or older than "
        "any that this one can read.",
        "`run.json` has the newer format `probe_flow.run/2`; this probe_flow reads `probe_flow.run/1`",
        "Use the probe_flow that wrote it (`versions.probe_flow` in the file), or repeat the run with this one.",
    ),
    Code(
        "PF7113",
        "the rows of a run cannot be read",
        "`comparison.jsonl` is missing, cut off, or one of its lines is no record.",
        "the rows of the run cannot be read from `comparison.jsonl`: it ends in the middle of line 4711",
        "Copy the folder again, or repeat the run.",
    ),
    Code(
        "PF7114",
        "no stage of that name compared",
        "`show --comparison` names a stage that is not in the record of the run, or that is no comparison.",
        "probe-flow show probe_flow_runs/x --comparison reslt",
        "Name one of the stages that the message lists.",
    ),
    Code(
        "PF7140",
        "there is no first difference",
        "`diff_analyze` looks for the first entry that differs from the golden or has no counterpart there, and every "
        "entry agrees. The files per rank are written, `diff_analyze_*.json` is not.",
        "no entry differs from the golden, so `diff_analyze` writes no file of first differences",
        "Nothing is to do. Lower the thresholds of `diff_analyze` to look for smaller differences.",
    ),
)
