"""The texts that one workflow is made of, under the names that spans give them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from probe_flow.errors import Diagnostic, Span
from probe_flow.errors.diagnostics import split_lines
from probe_flow.files.opening import open_bytes

COMMAND_LINE = "command line"
"""What spans call the ``--set`` options; its text has one option a line."""

PYTHON = "call from Python"
"""What spans call the arguments of a call; its text has one argument a line."""

OPTION = "--set "
"""What stands before a parameter on the command line."""

MAX_SHOWN = 200
"""Characters of a value from Python in that text."""

TEMPLATE = "template:"
"""What stands before the name of a packaged workflow where a file could be named."""

MAX_FILE_BYTES = 1 << 20
"""Larger files are no workflows written by hand, and YAML costs about a kilobyte of memory a node."""


class Given(Struct, frozen=True):
    """Values of parameters from whoever runs a workflow: texts of ``--set``, or arguments of a call from Python.

    Args:
        values: by parameter; texts on the command line.
        place: `COMMAND_LINE` or `PYTHON`.
        spans: where each value is in the text of that place.
    """

    values: Mapping[str, object]
    place: str
    spans: Mapping[str, Span]

    @property
    def is_typed(self) -> bool:
        """Whether values have the types of Python, and are no texts to be read."""
        return self.place == PYTHON

    def written(self, name: str, value: str = "VALUE") -> str:
        """Return how a parameter is given there."""
        return f"{name}={value}" if self.is_typed else f"{OPTION}{name}={value}"

    def name_span(self, name: str) -> Span:
        """Return the place of a parameter's name."""
        at = self.spans[name]
        return Span(at.file, at.line, at.column - 1 - len(name), at.line, at.column - 1)


class Sources:
    """Reads files once, and remembers their texts and folders.

    Args:
        cwd: working directory; files below it are shown relative to it.
    """

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd.absolute()
        self.texts: dict[str, str] = {}
        self._lines: dict[str, list[str]] = {}
        self._folders: dict[str, str] = {COMMAND_LINE: str(self._cwd), PYTHON: str(self._cwd)}

    def absolute(self, path: Path) -> Path:
        """Return a path from the working directory as an absolute one."""
        return self._cwd / path

    def shown(self, path: Path) -> str:
        """Return the name of a file in messages."""
        absolute = os.path.normpath(self._cwd / path)
        relative = os.path.relpath(absolute, self._cwd)
        return absolute if relative.startswith("..") else relative

    def read(self, path: Path) -> str | Diagnostic:
        """Return the name of a file whose text is now in `texts`, or why it cannot be read."""
        name = self.shown(path)
        if name in self.texts:
            return name
        absolute = self._cwd / path
        try:
            if absolute.is_dir():
                return _unreadable(name, "it is a folder", "name the workflow file in it")
            with open_bytes(absolute) as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            from probe_flow.files.existing import why_missing

            return _unreadable(name, "there is no such file", why_missing(absolute)[1])
        except (OSError, ValueError) as error:
            return _unreadable(name, (getattr(error, "strerror", None) or str(error)).lower(), None)
        if len(data) > MAX_FILE_BYTES:
            return Diagnostic(
                "PF1006",
                f"workflow file `{name}` is larger than {MAX_FILE_BYTES >> 20} MiB",
                path=name,
                help="a workflow names data, it does not hold them: is this the right file?",
            )
        try:
            self.texts[name] = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            return Diagnostic(
                "PF1009",
                f"workflow file `{name}` is not UTF-8 text: byte 0x{data[error.start]:02x} on line {line}",
                path=name,
                help="save the file as UTF-8",
            )
        self._folders[name] = os.path.normpath(absolute.parent)
        return name

    def add_text(self, path: Path, text: str) -> None:
        """Register the text of a workflow that is in no file; paths in it start from the working directory."""
        name = self.shown(path)
        self.texts[name], self._folders[name] = text, str(self._cwd)

    def add_given(self, values: Mapping[str, object], place: str) -> Given:
        """Register the values of parameters and return where each is."""
        lead = OPTION if place == COMMAND_LINE else ""
        shown = {name: str(value) if lead else in_a_line(value) for name, value in values.items()}
        self.texts[place] = "\n".join(f"{lead}{name}={text}" for name, text in shown.items())
        spans = {}
        for line, (name, text) in enumerate(shown.items(), 1):
            column = len(lead) + len(name) + 2
            spans[name] = Span(place, line, column, line, column + len(text))
        return Given(values, place, spans)

    def folder(self, file: str) -> str:
        """Return the absolute folder that relative paths written in a file start from."""
        return self._folders[file]

    def locate(self, span: Span, parts: Iterable[str]) -> Iterator[Span]:
        """Yield the place of each part of a value as it was written, or the whole value where it was written otherwise.

        Args:
            span: the value.
            parts: texts to look for, each on one line, in the order in which the value has them.
        """
        lines = self._lines_of(span.file)
        last = min(span.end_line, len(lines))
        number, at = span.line, span.column - 1
        for part in parts:
            found = -1
            while number <= last and found < 0:
                end = span.end_column - 1 if number == span.end_line else len(lines[number - 1])
                found = lines[number - 1].find(part, at, end)
                number, at = (number, found + len(part)) if found >= 0 else (number + 1, 0)
            yield span if found < 0 else Span(span.file, number, found + 1, number, at + 1)

    def _lines_of(self, file: str) -> list[str]:
        if file not in self._lines:
            self._lines[file] = split_lines(self.texts.get(file, ""))
        return self._lines[file]


def in_a_line(value: object) -> str:
    """Return a value of Python as its source has it, where that is short and of one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _unreadable(name: str, why: str, cure: str | None) -> Diagnostic:
    return Diagnostic("PF1008", f"workflow file `{name}` cannot be read: {why}", path=name, help=cure)
