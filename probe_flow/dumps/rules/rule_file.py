"""A fusion rule file of whatever kind: the JSON of ATC or AMCT, or the offline model itself, told by content."""

from __future__ import annotations

import re
from pathlib import Path

from probe_flow.dumps.rules.om_model import read_om_model
from probe_flow.dumps.rules.om_partitions import MAGIC
from probe_flow.dumps.rules.problems import graph_text, not_json, too_large
from probe_flow.dumps.rules.records import RuleFile
from probe_flow.dumps.rules.rule_json import parse_rule_json
from probe_flow.errors import Diagnostic, FormatError
from probe_flow.files.binary_file import BinaryFile

MAX_BYTES = 512 << 20
"""Largest JSON, or definition inside an offline model, in bytes: about 130,000 operators as ATC prints them."""

_GRAPH_TEXT = re.compile(rb"\s*(?:[a-z_]+\s*:\s*[^\s{\[,][^\n]*\n\s*){0,50}(?:graph|op|attr)\s*\{")
"""How the text print of a graph begins (``ge_proto_*.txt``): fields of one line, then a message."""
_UNREADABLE = frozenset({"PF3001", "PF3002"})


def read_rule_file(path: Path | str) -> RuleFile:
    """Read a rule file.

    Args:
        path: a JSON that ATC or AMCT wrote, or an ``.om``.

    Raises:
        FormatError: PF4301 it cannot be read, PF4302 too large, PF4303 neither JSON nor an offline model, PF4304 no
            operators, PF4305 a value of another kind, PF4306 a damaged and PF4307 an encrypted model.
    """
    try:
        with BinaryFile(path) as file:
            return _read(file)
    except FormatError as error:
        if error.diagnostic.code in _UNREADABLE:
            raise _unreadable(str(path), error.diagnostic) from error
        raise


def _read(file: BinaryFile) -> RuleFile:
    head = file.read_at(0, len(MAGIC))
    if head == MAGIC:
        return read_om_model(file, max_bytes=MAX_BYTES)
    if not head:
        raise not_json(file.path, "it is empty")
    if file.size > MAX_BYTES:
        raise too_large(file.path, file.size, MAX_BYTES)
    raw = file.read_at(0, file.size)
    if _GRAPH_TEXT.match(raw):
        raise graph_text(file.path)
    return parse_rule_json(raw, file.path)


def _unreadable(path: str, cause: Diagnostic) -> FormatError:
    what = cause.message.rpartition(": ")[2] if cause.code == "PF3001" else "it is no regular file"
    return FormatError(
        Diagnostic(
            "PF4301",
            f"rule file `{Path(path).name}` cannot be read: {what}",
            path=path,
            help="check the path, and that you may read the file",
        )
    )


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
