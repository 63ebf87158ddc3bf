"""What a run tells whoever watches it; `cli` draws it."""

from __future__ import annotations

from typing import Protocol

from probe_flow.engine.run.outcome import StageOutcome
from probe_flow.jobs import BYTES


class Progress(Protocol):
    """Receives the steps of a run, all in the thread that runs it."""

    def stage_started(self, name: str, uses: str) -> None:
        """A stage begins."""
        ...

    def stage_advanced(self, name: str, done: int, total: int, unit: str = BYTES) -> None:
        """A batch of the stage is done; bytes count both sides of the pairs."""
        ...

    def stage_ended(self, outcome: StageOutcome) -> None:
        """A stage ended, in whatever way, or will not run."""
        ...


class Silent:
    """Tells nobody."""

    def stage_started(self, name: str, uses: str) -> None:
        """Do nothing."""

    def stage_advanced(self, name: str, done: int, total: int, unit: str = BYTES) -> None:
        """Do nothing."""

    def stage_ended(self, outcome: StageOutcome) -> None:
        """Do nothing."""
