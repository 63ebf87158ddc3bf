"""Problems of a dump.json dump, bounded: a file with a million broken entries yields a handful of diagnostics."""

from __future__ import annotations

from probe_flow.errors import Diagnostic, Severity

PER_CODE = 20
"""Diagnostics kept per code and file; the rest is counted."""


class ProblemList:
    """Collects diagnostics about one file.

    Args:
        path: the file, for people.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._kept: dict[str, list[Diagnostic]] = {}
        self._dropped: dict[str, int] = {}

    def add(
        self,
        code: str,
        message: str,
        *,
        severity: Severity = Severity.ERROR,
        tensor: str | None = None,
        help: str | None = None,  # noqa: A002 - the name of the diagnostic's field
    ) -> None:
        """Add one problem of this file."""
        kept = self._kept.setdefault(code, [])
        if len(kept) < PER_CODE:
            kept.append(Diagnostic(code, message, severity=severity, path=self.path, tensor=tensor, help=help))
        else:
            self._dropped[code] = self._dropped.get(code, 0) + 1

    def finish(self) -> list[Diagnostic]:
        """Return the problems, each code followed by the number of those left out."""
        result: list[Diagnostic] = []
        for code, kept in self._kept.items():
            result.extend(kept)
            if code in self._dropped:
                severity = kept[0].severity
                message = f"`{self.path}` has {self._dropped[code]} more problems of this kind"
                result.append(Diagnostic(code, message, severity=severity, path=self.path))
        return result
