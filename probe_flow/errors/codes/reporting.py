"""Codes of reporting (PF7xxx)."""

from __future__ import annotations

from probe_flow.errors.codes import asking, excuses, next_steps, team_templates
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
        "Install the extra that the message names, or ask for another format. Nothing has run yet.",
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
        "`comparison.jsonl` is missing, has not as many lines as run.json counts, or one of them is no record.",
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
        "PF7120",
        "a merge configuration has a wrong form",
        "The file that `merge_result -config` or `rank_merge` names is a mapping with `api`, a list of names, and "
        "perhaps `compare_index`, a list of columns. Something else stands there.",
        "`apis` is no key of a merge configuration",
        "Correct the line that the message shows.",
    ),
    Code(
        "PF7121",
        "a column that cannot be merged",
        "`compare_index` names something that is no measure of the result tables, or one of tables of another mode "
        "than those at hand: tables of tensors have `Cosine`, tables of statistics have `Max diff`.",
        "`Max dif` is no column that can be merged; did you mean `Max diff`?",
        "Name columns of the tables, or leave `compare_index` out to merge all of them.",
    ),
    Code(
        "PF7122",
        "there is nothing to merge",
        "Merging takes the result tables of at least two ranks, and rows whose names begin with one of the APIs.",
        "`output` holds the result tables of 1 rank, and merging takes at least two",
        "Compare several ranks first (folders that hold `rank0`, `rank1` ...), and name APIs that occur there.",
    ),
    Code(
        "PF7123",
        "a result table cannot be read",
        "The file is damaged, is no workbook or no UTF-8 text, or is larger or more deeply packed than any table.",
        "`compare_result_rank1_20260102030405.xlsx` cannot be read: File is not a zip file",
        "Copy or write the file again. The tables of the other ranks are merged; the result counts as incomplete.",
    ),
    Code(
        "PF7124",
        "a file is no result table that can be merged",
        "Its first line is not exactly that of a table of dump.json comparison, or the table holds checksums, which "
        "have no measures, or it is of another mode than the tables before it.",
        "`compare_result_rank1_20260102030405.csv` holds checksums, which have no measures to merge",
        "Compare all ranks in one mode. The tables of the other ranks are merged; the result counts as incomplete.",
    ),
    Code(
        "PF7125",
        "two result tables of one rank",
        "Two files of the folder are tables of the same rank and step, from two runs, so it is open which one counts.",
        "rank 0 has two result tables: `compare_result_rank0_20260102030405.csv` and "
        "`compare_result_rank0_20260102040506.csv`",
        "Move the tables of other runs away.",
    ),
    Code(
        "PF7126",
        "an API of a merge configuration matches nothing",
        "No row of any rank has a name that begins with this API.",
        "`Distributed.all_reduc` begins the name of no row",
        "Write the leading part of the names in column `NPU Name`: type, API, call and direction, with dots.",
    ),
    Code(
        "PF7127",
        "a file is not merged",
        "Its name is not that of a result table of a rank, such as `compare_result_rank0_20260102030405.csv`.",
        "`compare_result_proc1000_20260102030405.csv` is not the result table of a rank and is not merged",
        "Nothing is to do if it does not belong to the ranks; else give it such a name.",
    ),
    Code(
        "PF7128",
        "reading or writing workbooks needs a package that is not installed",
        "Workbooks are read by openpyxl and written by XlsxWriter, which a plain installation of probe_flow does not "
        "bring.",
        "`compare_result_rank0_20260102030405.xlsx` needs the package openpyxl, which is not installed",
        "Install the extra `xlsx`, or compare without `--xlsx` and merge the CSV tables; merged tables are then CSV.",
    ),
    Code(
        "PF7140",
        "there is no first difference",
        "`diff_analyze` looks for the first entry that differs from the golden or has no counterpart there, and every "
        "entry agrees. The files per rank are written, `diff_analyze_*.json` is not.",
        "no entry differs from the golden, so `diff_analyze` writes no file of first differences",
        "Nothing is to do. Lower the thresholds of `diff_analyze` to look for smaller differences.",
    ),
    Code(
        "PF7404",
        "memory ran out",
        "The system, or a limit of this process (`ulimit -v`, a container, `memory_limit`), refused memory, or a "
        "library could not be loaded without it.",
        "memory ran out: Unable to allocate 2.00 GiB for an array with shape (536870912,)",
        "Raise the limit, use fewer `--workers`, or end what else runs on the machine. What was measured is kept: "
        "`probe-flow run ... --resume` goes on.",
    ),
    Code(
        "PF7405",
        "too little address space to begin",
        "`ulimit -v` leaves less address space than numpy takes when it is loaded; its library of algebra (OpenBLAS) "
        "reserves 40 MiB for each CPU and ends the process when it cannot.",
        "this process may use 300 MiB of address space, and needs 800 MiB to begin",
        "Raise `ulimit -v`, or set OPENBLAS_NUM_THREADS=1 in the environment; probe_flow itself does not need more "
        "threads of that library.",
    ),
    *asking.SECTION,
    *excuses.SECTION,
    *team_templates.SECTION,
    *next_steps.SECTION,
)
