"""Rule files of several models: every JSON and offline model of a folder."""

from __future__ import annotations

from pathlib import Path

from probe_flow.dumps.rules.records import RuleFile
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.errors import Diagnostic, FormatError

MAX_FILES = 1000
"""Rule files of one folder; a training run has one per graph."""


def read_rule_files(path: Path | str) -> tuple[tuple[RuleFile, ...], bool]:
    """Read one rule file, or all of a folder; also tell whether it is a folder.

    Raises:
        FormatError: PF4301 if the folder cannot be listed, PF4409 if it holds no rule file or too many; else as
            `read_rule_file`.
    """
    root = Path(path)
    if not root.is_dir():
        return (read_rule_file(root),), False
    try:
        found = sorted(each for each in root.iterdir() if each.suffix in (".json", ".om") and each.is_file())
    except OSError as error:
        message = f"the folder of rule files `{root.name}` cannot be listed: {error.strerror or error}"
        cure = "check that you may read the folder, or name one file of it"
        raise FormatError(Diagnostic("PF4301", message, help=cure, path=str(root))) from error
    if not found or len(found) > MAX_FILES:
        what = f"holds {len(found)} rule files" if found else "holds no rule file"
        raise FormatError(
            Diagnostic(
                "PF4409",
                f"`{root.name}` {what}",
                help=f"give a folder with up to {MAX_FILES} files that end in `.json` or `.om`",
                path=str(root),
            )
        )
    return tuple(read_rule_file(each) for each in found), True
