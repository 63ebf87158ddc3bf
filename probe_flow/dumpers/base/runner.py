"""What a framework adds to the run of a model: a runner, which works in the child process, and its registration.

`child` calls a runner's methods in the order in which they stand here, those for inputs before each `step`. Everything
else is the same for every framework and is done by the other modules of this folder.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from msgspec import Struct, field

from probe_flow.dumpers.base.job import ModelJob
from probe_flow.dumpers.requirements import framework_missing, missing_modules
from probe_flow.errors import Diagnostic, Severity

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORDS = 300
"""Characters of an error's first line that messages show."""


class DeclaredInput(Struct, frozen=True):
    """An input that the model itself names.

    Args:
        name: as the model has it.
        dtype: name of the dtype, e.g. ``float32``.
        shape: sizes; where the model leaves one open, its name, or None.
        has_default: whether the model runs without it.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None
    has_default: bool = False


class NotHeldError(Exception):
    """A tensor that an array cannot hold; the text says why."""


def _nothing(*_: object) -> Iterator[Diagnostic]:
    return iter(())


class RunnerSpec(Struct, frozen=True):
    """The registration of a runner: what is known of it without importing its framework.

    Args:
        name: the kind of its jobs.
        runner: its class as ``module:attribute``, imported in the child process only.
        framework: in words, for messages.
        modules: that must be installed.
        extra: of this package that installs them.
        folder: name of the dump's folder below the output folder.
        leaves: what it writes into the output folder beside the dump.
        said: what the framework only says in its log: name in the record -> pattern with one group.
        device_problems: what else the machine lacks, found without importing anything.
        notes: what the record of a finished run means to the user.
        tested: distribution -> the newest version that was tested; later ones may do otherwise.
    """

    name: str
    runner: str
    framework: str
    modules: tuple[str, ...]
    extra: str
    folder: str
    leaves: frozenset[str] = frozenset()
    said: Mapping[str, str] = field(default_factory=dict)
    device_problems: Callable[[], Iterator[Diagnostic]] = _nothing
    notes: Callable[[Mapping[str, Any]], Iterator[Diagnostic]] = _nothing
    tested: Mapping[str, str] = field(default_factory=dict)

    def problems(self) -> Iterator[Diagnostic]:
        """Yield what this machine lacks to run a model, PF6320 among it; nothing is imported for that."""
        if any(missing_modules(*self.modules)):
            yield framework_missing(self.framework, self.extra)
        yield from self.device_problems()

    def remarks(self, record: Mapping[str, Any]) -> Iterator[Diagnostic]:
        """Yield what is worth saying of a finished run: its notes, and PF6342 for versions later than those tested."""
        yield from self.notes(record)
        versions = record.get("versions") or {}
        for name, newest in self.tested.items():
            found = str(versions.get(name, ""))
            if _numbers(found) > _numbers(newest):
                yield Diagnostic(
                    "PF6342",
                    f"{name} {found} is later than {newest}, the last one that was tested",
                    Severity.WARNING,
                    help="compare a tensor with what the framework gives by itself, or install the tested version",
                )

    def dump_folder(self, job: ModelJob) -> Path:
        """Return the folder of a job's dump."""
        return Path(job.output) / self.folder


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, fewer where it has fewer."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


class Runner(ABC):
    """One run of a model by a framework, in a process of its own. Its module imports the framework.

    Args:
        job: what is run.
        folder: of the dump; it does not exist yet.
    """

    framework: ClassVar[str]
    """In words, for messages."""
    libraries: ClassVar[tuple[str, ...]]
    """Distributions whose versions are recorded."""
    model_word: ClassVar[str] = "a model"
    """What a model is, for messages."""
    model_files: ClassVar[tuple[str, ...]] = ()
    """Endings of the model files that `read_model` reads; ``/`` for folders."""
    takes_code: ClassVar[bool] = True
    """Whether objects of Python code can be models."""
    input_files: ClassVar[tuple[str, ...]] = ()
    """Endings of files that `read_inputs` reads for a model that declares its inputs; others are raw bytes."""
    input_help: ClassVar[str] = "give `.npy` arrays of numbers"
    """Which files can be inputs, as help for one that cannot be read."""

    def __init__(self, job: ModelJob, folder: Path) -> None:
        self.job = job
        self.folder = folder

    def begin(self) -> None:  # noqa: B027 (most frameworks need nothing there)
        """Do what must come before the model's code is imported."""

    @abstractmethod
    def seed(self) -> None:
        """Seed the framework's generators, and ask for deterministic algorithms if the job does.

        Called before the model is made and again before its first step.
        """

    @abstractmethod
    def is_model(self, found: object) -> bool:
        """Return True if an object of the user's code is itself a model; others are called, and must return one."""

    def read_model(self, path: Path) -> Any:
        """Return the model of a file or folder with one of the endings `model_files`."""
        raise NotImplementedError(f"`{type(self).__name__}` has `model_files`, and no `read_model`")

    @abstractmethod
    def open(self, model: Any) -> None:
        """Make the model ready for `step`: device, mode, threads, and what dumps it.

        Raises:
            ProbeFlowError: what was asked for cannot be done.
        """

    def model_parts(self) -> Sequence[Path]:
        """Return the files that the model consists of beside its own, e.g. of its weights."""
        return ()

    # -- inputs

    def declared(self) -> Sequence[DeclaredInput] | None:
        """Return what the model takes, known once it is open; None where only its code knows."""
        return None

    def own_inputs(self) -> Mapping[str, Any]:
        """Return arrays of declared inputs that the model brings itself, by name; what is given replaces them."""
        return {}

    @abstractmethod
    def drawn(self, dtype: str) -> Literal["bool", "float", "integer"] | None:
        """Return which random numbers a dtype takes; None if the framework has no such dtype."""

    @abstractmethod
    def tensor(self, array: NDArray[Any], dtype: str | None) -> Any:
        """Return an array as a tensor of the framework, None: with the array's own dtype. What it raises is shown."""

    def read_inputs(self, path: Path) -> Any:  # noqa: ARG002
        """Return the tensors of a file that is no ``.npy``. What it raises is shown."""
        raise ValueError("it is no `.npy` file")

    def copied(self, inputs: Any) -> Any:
        """Return the arguments of a call with tensors of their own."""
        return copy.deepcopy(inputs)

    @abstractmethod
    def described(self, value: object) -> tuple[str, Sequence[int]] | None:
        """Return dtype and shape of a tensor; None for what is none."""

    @abstractmethod
    def stored(self, tensor: Any) -> tuple[NDArray[Any], bytes]:
        """Return a tensor's elements as an array, widened where numpy lacks the type, and its own bytes in C order.

        Raises:
            NotHeldError: it has no such form.
        """

    # -- running

    @abstractmethod
    def step(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Run the model once, and write the dump of that.

        What it raises counts as a failure of the model, a ProbeFlowError in its causes as one of the dump.
        """

    def words(self, error: BaseException) -> str:
        """Return kind and first line of an error that `step` raised."""
        lines = str(error).strip().splitlines() or [""]
        return f"{type(error).__name__}: {lines[0][:WORDS]}"

    def finish(self) -> Mapping[str, Any]:
        """Return what the record says of the run.

        Raises:
            IncompleteError: PF6327 nothing was dumped.
        """
        return {}

    def conclude(self, record: Mapping[str, Any]) -> None:  # noqa: B027 (a dump may say nothing of its run)
        """Write what the dump says of its run, the manifest; `record` is that of the run."""
