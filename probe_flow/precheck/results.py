"""What became of the API calls of a dump: plain records, which travel from workers and are kept line by line."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct, field

Scalar = int | float | bool | str | None
Figure = float | str | None
"""A figure of the tables; text (``inf``) where it is not finite, since JSON has no such number."""


def figure(value: float | None) -> Figure:
    """Return a figure as it is kept."""
    return value if value is None or math.isfinite(value) else repr(value)


def writable(text: str) -> str:
    r"""Return text that UTF-8 can carry: half of a surrogate pair, which JSON may hold, becomes ``\udcNN``."""
    return text.encode("utf-8", "backslashreplace").decode()


class Status(enum.Enum):
    """What became of one direction of a call. ``SKIP``: it was not checked."""

    PASS = "pass"
    WARNING = "warning"
    ERROR = "error"
    SKIP = "SKIP"


class Side(Struct, frozen=True):
    """One side of a result.

    Args:
        dtype: element type, or name of the Python type of what is no tensor.
        shape: of a tensor.
        value: what is no tensor, where it is a number or a text.
        file: where its elements were saved, relative to the folder of the tables.
    """

    dtype: str
    shape: tuple[int, ...] | None = None
    value: Scalar = None
    file: str | None = None


class Output(Struct, frozen=True):
    """One result of a call.

    Args:
        tested, benchmark: its two sides.
        is_right: whether it passes.
        cosine, max_abs, max_rel: the figures of the tables; None where there are none.
        message: why it does not pass.
        measured: what the kernel measured of the two, as text (`metrics.brought`); empty where it did not.
        is_doubtful: whether it neither passes nor fails.
        named: figures of the standard that its API has (`apis.preliminary.FIGURES`), by their names.
        is_empty: whether there was nothing to judge: no tensor on either side, or for PyTorch one without elements.
    """

    tested: Side
    benchmark: Side
    is_right: bool
    cosine: Figure = None
    max_abs: Figure = None
    max_rel: Figure = None
    message: str = ""
    measured: str = ""
    is_doubtful: bool = False
    named: dict[str, Figure] = field(default_factory=dict)
    is_empty: bool = False

    @property
    def is_absent(self) -> bool:
        """Whether it is None on both sides."""
        return self.tested.shape is None and self.tested.value is None and self.benchmark == self.tested

    @property
    def status(self) -> Status:
        """What became of it; of what is empty nothing."""
        if self.is_empty or self.is_absent:
            return Status.SKIP
        return Status.PASS if self.is_right else Status.WARNING if self.is_doubtful else Status.ERROR


def of_all(outputs: Sequence[Output]) -> Status:
    """Return the status of several results together: that of the worst."""
    found = {output.status for output in outputs}
    return next((each for each in (Status.ERROR, Status.WARNING) if each in found), Status.PASS)


class Direction(Struct, frozen=True):
    """What became of one direction.

    Args:
        status: of all its results together.
        outputs: its results.
        reason: why it was not checked.
        is_expected: whether it could not be checked anywhere, so that this is no gap.
        is_left_out: whether it was not asked for.
        ran: what ran on the tested side.
        fallback: what ran there in place of the API itself, and why; empty where that ran.
    """

    status: Status
    outputs: tuple[Output, ...] = ()
    reason: str = ""
    is_expected: bool = False
    is_left_out: bool = False
    ran: str = ""
    fallback: str = ""


class ApiResult(Struct, frozen=True):
    """What became of one call.

    Args:
        name: of the call, without its direction: ``Mint.where.0``.
        forward, backward: None where the dump has no such entry.
        device: number of the device that ran it; None for what none did, or none to its end.
        unsaved: why its data could not be saved; empty where it was, or had not to be.
        saved: the saved files, relative to the folder of the tables.
    """

    name: str
    forward: Direction | None = None
    backward: Direction | None = None
    device: int | None = None
    unsaved: str = ""
    saved: tuple[str, ...] = field(default=())

    @classmethod
    def alike(cls, name: str, phases: Collection[str], direction: Direction) -> ApiResult:
        """Return the result of a call in whose directions the same became of all."""
        forward, backward = (direction if phase in phases else None for phase in ("forward", "backward"))
        return cls(name, forward, backward)

    def directions(self) -> Iterator[tuple[str, Direction]]:
        """Yield the directions that the dump has, with their names."""
        for name, found in (("forward", self.forward), ("backward", self.backward)):
            if found is not None:
                yield name, found

    @property
    def phases(self) -> list[str]:
        """Names of the directions that the dump has."""
        return [name for name, _ in self.directions()]
