"""A fusion rule file of whatever kind, told by content: JSON of ATC or AMCT, a graph's text, the offline model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from probe_flow.dumps.rules.records import OM_MAGIC, RuleFile
from probe_flow.dumps.rules.rule_text import read_rule_text
from probe_flow.errors import Diagnostic, FormatError
from probe_flow.files.binary_file import BinaryFile
from probe_flow.files.opening import open_bytes

MAX_BYTES = 512 << 20
"""Largest JSON, or definition inside an offline model, in bytes: about 130,000 operators as ATC prints them."""

MAX_TEXT_BYTES = 8 << 30
"""Largest text of a graph. It is read a piece at a time, so that only the time is bounded."""

_LOOKED_AT_BYTES = 16 << 10
_GRAPH_TEXT = re.compile(rb'\s*(?:[a-z_]+\s*:\s*(?:"[^"\n]*"|[\w.+-]+)\s+){0,50}(?:graph|op|attr)\s*\{')
"""How the text of a graph begins: plain fields, then a message."""
_UNREADABLE = frozenset({"PF3001", "PF3002"})

RULE_FILES = "rule_files"
"""Attribute of a catalog with the paths of the rule files of its models."""


def read_rule_file(path: Path | str) -> RuleFile:
    """Read a rule file.

    Args:
        path: a JSON that ATC or AMCT wrote, the text of a graph (``ge_proto_*_Build.txt``), or an ``.om``.

    Raises:
        FormatError: PF4301 it cannot be read, PF4302 too large, PF4303 neither JSON nor an offline model, PF4304 no
            operators, PF4305 a value of another kind, PF4306 a damaged and PF4307 an encrypted model; of a text PF3220
            cut off, PF3221 malformed, PF4311 without attributes.
    """
    try:
        with BinaryFile(path) as file:
            return _read(file)
    except FormatError as error:
        if error.diagnostic.code in _UNREADABLE:
            raise _unreadable(str(path), error.diagnostic) from error
        raise


def _read(file: BinaryFile) -> RuleFile:
    head = file.read_at(0, len(OM_MAGIC))
    if head == OM_MAGIC:
        from probe_flow.dumps.rules.om_model import read_om_model

        return read_om_model(file, max_bytes=MAX_BYTES)
    if head and _GRAPH_TEXT.match(file.read_at(0, _LOOKED_AT_BYTES)):
        return _of_text(file)
    from probe_flow.dumps.rules.problems import not_json, too_large

    if not head:
        raise not_json(file.path, "it is empty")
    if file.size > MAX_BYTES:
        raise too_large(file.path, file.size, MAX_BYTES)
    from probe_flow.dumps.rules.rule_json import parse_rule_json

    raw = file.read_at(0, file.size)
    return parse_rule_json(raw, file.path)


def _of_text(file: BinaryFile) -> RuleFile:
    if file.size > MAX_TEXT_BYTES:
        from probe_flow.dumps.rules.problems import too_large

        raise too_large(file.path, file.size, MAX_TEXT_BYTES)
    try:
        with open_bytes(file.path) as stream:
            return read_rule_text(stream, file.path)
    except OSError as error:
        raise _unreadable(file.path, Diagnostic("PF3001", f"it: {error.strerror or error}")) from error


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


_TEXT_NAME = re.compile(r"ge_proto_([0-9]{1,18})_([A-Za-z0-9_-]+)\.txt")
BUILD = "Build"
"""The phase of the compiler whose graph is the one that runs; the others are graphs on the way to it."""

_SHOWN = 4


def read_rule_files(path: Path | str) -> tuple[tuple[RuleFile, ...], bool]:
    """Read one rule file, or all of a folder; also tell whether it is a folder.

    Of graph texts those of the phase `Build` count, in order of their numbers; the JSON that another program made of
    one is passed over where the text itself is there.

    Raises:
        FormatError: PF4301 if the folder cannot be listed, PF4409 if it holds no rule file or too many; else as
            `read_rule_file`.
    """
    root = Path(path)
    if not root.is_dir():
        return (read_rule_file(root),), False
    try:
        held = sorted(each for each in root.iterdir() if each.suffix in (".json", ".om", ".txt") and each.is_file())
    except OSError as error:
        message = f"the folder of rule files `{root.name}` cannot be listed: {error.strerror or error}"
        cure = "check that you may read the folder, or name one file of it"
        raise FormatError(Diagnostic("PF4301", message, help=cure, path=str(root))) from error
    texts = _build_texts(held)
    converted = {f"{text.name}.json" for text in texts}
    found = [*texts, *(each for each in held if each.suffix != ".txt" and each.name not in converted)]
    if not found or len(found) > MAX_FILES:
        raise FormatError(_none_or_too_many(root, held, len(found)))
    return tuple(read_rule_file(each) for each in found), True


def _build_texts(held: Sequence[Path]) -> list[Path]:
    numbered = []
    for path in held:
        name = _TEXT_NAME.fullmatch(path.name)
        if name is not None and (name[2] == BUILD or name[2].endswith(f"_{BUILD}")):
            numbered.append((int(name[1]), path.name, path))
    return [path for _, _, path in sorted(numbered)]


def _none_or_too_many(root: Path, held: Sequence[Path], count: int) -> Diagnostic:
    others = [each.name for each in held if _TEXT_NAME.fullmatch(each.name)]
    what = f"holds {count} rule files" if count else "holds no rule file"
    notes: tuple[str, ...] = ()
    if others and not count:
        shown = ", ".join(f"`{name}`" for name in others[:_SHOWN]) + (" ..." if len(others) > _SHOWN else "")
        notes = (f"graph texts of other phases of the compiler: {shown}",)
    return Diagnostic(
        "PF4409",
        f"`{root.name}` {what}",
        help=f"give a folder with up to {MAX_FILES} files: `ge_proto_*_{BUILD}.txt`, or names that end in `.json` or "
        "`.om`",
        notes=notes,
        path=str(root),
    )
