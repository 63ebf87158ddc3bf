"""The Diagnostic, a problem as data (code, place, message, next step), and the exceptions that carry diagnostics.

Their tree is drawn in the package's docstring.
"""

from __future__ import annotations

import enum
import errno
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from msgspec import Struct, field
from msgspec.structs import replace

NO_SOURCES: Mapping[str, str] = MappingProxyType({})
"""Texts of the files that spans name, where none is at hand."""

_LINE_BREAKS = ("\r\n", "\r", "\x85", "\u2028", "\u2029")
"""Those of YAML 1.1 beside the line feed, which the YAML scanner counts."""


def split_lines(text: str) -> list[str]:
    """Return the lines of a source text as spans count them."""
    for each in _LINE_BREAKS:
        text = text.replace(each, "\n")
    return text.split("\n")


class Severity(enum.Enum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Span(Struct, frozen=True):
    """A place in a text file. Lines and columns count from 1; the end is exclusive; 0 means "the whole file"."""

    file: str
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file

    @property
    def brief(self) -> str:
        """The place with the file's own name only, which is the same from every working directory."""
        name = self.file.replace("\\", "/").rpartition("/")[2]
        return f"{name}:{self.line}:{self.column}" if self.line else name


class Diagnostic(Struct, frozen=True):
    """One problem that a user can see and act on.

    Args:
        code: ``PFnnnn``, a key of `probe_flow.errors.CODES`.
        message: what happened to which object, present tense, names in backquotes.
        severity: errors stop, warnings are shown and counted, notes only inform.
        span: where it was written, for problems of text files.
        label: the few words that stand beside the caret under the snippet.
        help: the next step.
        notes: further facts, one sentence each.
        related: other places that belong to the problem (a first definition, a base file).
        stage: name of the workflow stage concerned.
        tensor: id of the tensor concerned.
        path: file or folder concerned, for problems that have no span.
    """

    code: str
    message: str
    severity: Severity = Severity.ERROR
    span: Span | None = None
    label: str | None = None
    help: str | None = None
    notes: tuple[str, ...] = ()
    related: tuple[tuple[Span, str], ...] = ()
    stage: str | None = None
    tensor: str | None = None
    path: str | None = None
    fields: Mapping[str, object] = field(default_factory=dict)

    def at(self, span: Span) -> Diagnostic:
        """Return the same diagnostic with a place."""
        return replace(self, span=span)

    def to_dict(self) -> dict[str, object]:
        """Return the machine form, one JSON object: stable keys, ``None`` where there is nothing to say."""
        span = self.span
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "file": span.file if span else self.path,
            "line": span.line or None if span else None,
            "column": span.column or None if span else None,
            "end_line": span.end_line or None if span else None,
            "end_column": span.end_column or None if span else None,
            "path": self.path,
            "help": self.help,
            "notes": list(self.notes),
            "stage": self.stage,
            "tensor": self.tensor,
        }


def did_you_mean(name: str, candidates: Iterable[str], *, limit: int = 3) -> str | None:
    """Return ``did you mean `x`?`` (at most `limit` names, nearest first), or None when nothing is near."""
    import difflib  # 2 ms, which only mistakes cost

    near = difflib.get_close_matches(name, sorted(set(candidates)), n=limit, cutoff=0.6)
    if not near:
        return None
    return "did you mean " + " or ".join(f"`{candidate}`" for candidate in near) + "?"


class ProbeFlowError(Exception):
    """Base of every error that probe_flow raises on purpose.

    Args:
        diagnostic: the problem, or a sequence of problems found together (never empty).
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, diagnostic: Diagnostic | Sequence[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = (
            (diagnostic,) if isinstance(diagnostic, Diagnostic) else tuple(diagnostic)
        )
        super().__init__("; ".join(f"[{d.code}] {d.message}" for d in self.diagnostics))

    @property
    def diagnostic(self) -> Diagnostic:
        """The first (often only) problem."""
        return self.diagnostics[0]

    def __reduce__(self) -> tuple[Any, ...]:
        # The default reduce would hand the message text to __init__; workers send errors across processes.
        return type(self), (self.diagnostics,)


class UsageError(ProbeFlowError):
    """The command line, the workflow or a mapping file is wrong; nothing ran."""

    exit_code = 2


class WorkflowError(UsageError):
    """One or more mistakes in a workflow file.

    Args:
        diagnostic: the problem, or all of them.
        sources: texts of the files that spans name, for `errors.render`.
    """

    def __init__(
        self, diagnostic: Diagnostic | Sequence[Diagnostic], sources: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.sources = dict(sources)
        super().__init__(diagnostic)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.diagnostics, self.sources)


class IncompleteError(ProbeFlowError):
    """Something that was asked for could not be done."""


class FormatError(ProbeFlowError):
    """One file, or one tensor of it, is malformed."""


class NotComparableError(ProbeFlowError):
    """A pair cannot be measured."""


class InternalError(ProbeFlowError):
    """A defect of probe_flow itself."""


class Stopped(KeyboardInterrupt):
    """A signal ends what is under way; whatever handles Ctrl-C handles it.

    Args:
        number: the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number = number


_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "can't start new thread", "unable to allocate")
"""What the loader of libraries, the system, Python and numpy say when memory runs out."""


def ran_out(error: BaseException) -> Diagnostic | None:
    """Return the diagnostic of an error that is a full disk, or is or comes from a lack of memory; None for others."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = "the output" if error.filename is None else f"`{error.filename}`"
        return Diagnostic("PF6011", f"{where} cannot be written: {error.strerror}", help="free some space on that disk")
    found: BaseException | None = error
    while found is not None:
        said = str(found)
        if isinstance(found, MemoryError) or any(words in said.lower() for words in _NO_MEMORY):
            return Diagnostic(
                "PF7404",
                f"memory ran out: {said or type(found).__name__}",
                help="raise the limit (`ulimit -v`, `memory_limit`, the container's), or use fewer `--workers`",
            )
        found = found.__cause__ or found.__context__
    return None
