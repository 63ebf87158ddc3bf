"""Names of one rule file that another does not have, gathered into one warning."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from probe_flow.errors import Diagnostic, Severity

_SHOWN = 5


class UnknownNames:
    """Counts the names that were looked up in a second rule file.

    Args:
        file: rule file that the names come from.
        other: rule file that they were looked up in.
        what: what the other holds, for people.
        unsaid: names that nobody expects there: the first file does not call them originals.
    """

    def __init__(self, file: str, other: str, *, what: str, unsaid: Iterable[str]) -> None:
        self._file = file
        self._other = other
        self._what = what
        self._unsaid = frozenset(unsaid)
        self._known = 0
        self._unknown: dict[str, None] = {}

    def tell(self, name: str, *, is_known: bool) -> bool:
        """Note one look-up and return whether it found something."""
        if is_known:
            self._known += 1
        elif name not in self._unsaid:
            self._unknown[name] = None
        return is_known

    def problems(self) -> tuple[Diagnostic, ...]:
        """Return the warning, if there is something to warn of."""
        if not self._unknown:
            return ()
        count = len(self._unknown)
        which = f"{count} of the names" if self._known else "none of the names"
        verb = "is" if count == 1 or not self._known else "are"
        negation = " not" if self._known else ""
        return (
            Diagnostic(
                "PF4308",
                f"{which} of `{Path(self._file).name}` {verb}{negation} in the {self._what} `{Path(self._other).name}`",
                severity=Severity.WARNING,
                path=self._other,
                help="check that both files come from the same model and the same conversion",
                notes=tuple(f"`{name}` is unknown" for name in list(self._unknown)[:_SHOWN]),
            ),
        )
