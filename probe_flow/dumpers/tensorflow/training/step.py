"""What the runner needs of a training step, whether a session runs it or a Keras model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probe_flow.dumpers.base.runner import DeclaredInput
from probe_flow.dumpers.tensorflow.training.operators import Draw
from probe_flow.errors import Diagnostic, UsageError


class Step(ABC):
    """One training step, not yet run. `prepare` comes first, `run` last."""

    inputs: Sequence[DeclaredInput] | None = None
    """What the model takes; None where only its code knows."""
    own_inputs: Mapping[str, Any] = {}
    """Inputs that the model brings, by name."""
    draws: Sequence[Draw] = ()
    """Operators that draw random numbers, known once it is prepared."""
    layers: Sequence[str] = ()
    """Layers that do, where there are any."""
    fetches: Sequence[str] = ()
    """What the step is asked for."""

    @abstractmethod
    def prepare(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Make all variables, and know all operators, for a batch.

        Raises:
            UsageError: PF6344 the step trains nothing, PF6323 the batch cannot be used.
        """

    @abstractmethod
    def restore(self, prefix: str) -> Sequence[str]:
        """Give the variables the values of a checkpoint, and return the names of those that it lacks."""

    @abstractmethod
    def save(self, prefix: str) -> str:
        """Write a checkpoint and return its prefix."""

    @abstractmethod
    def run(self, folder: Path) -> None:
        """Run the step once under the debugger, which writes into the folder."""

    def close(self) -> None:  # noqa: B027 (a Keras model holds nothing)
        """Give back what the step holds."""


def trains_nothing(model: str, what: str, cure: str) -> UsageError:
    """Return PF6344."""
    return UsageError(Diagnostic("PF6344", f"`{model}` {what}", help=cure))


def no_model(model: str, what: str, cure: str) -> UsageError:
    """Return PF6322."""
    return UsageError(Diagnostic("PF6322", f"`model: {model}` {what}", help=cure))
