"""The exception tree (drawn in the package's docstring)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from probe_flow.errors.diagnostics import Diagnostic


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


def out_of_memory(error: BaseException) -> Diagnostic | None:
    """Return the diagnostic of an error that is, or comes from, a lack of memory; None for any other."""
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
