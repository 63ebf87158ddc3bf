"""What a file format of `formats:` is: its word and option, which files it makes of a comparison, and how."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from probe_flow.errors import Diagnostic

if TYPE_CHECKING:
    from probe_flow.record.types.run import RunRecord
    from probe_flow.records import Comparison


class ReportFile(Struct, frozen=True):
    """One file of a report.

    Args:
        name: its name, which may begin with a folder.
        write: writes it, whole or not at all; raises UsageError (PF7101) when a package is missing, IncompleteError
            (PF7001) when the file cannot be written, or what the format says.
    """

    name: str
    write: Callable[[Path], None]


class Request(Struct, frozen=True):
    """What is reported, and what a format may ask of the stage that reports.

    Args:
        comparison: it.
        run: the record of the run so far, with what this comparison concludes and nothing of others.
        root: folder that paths in annotations are shown relative to.
        suffix: follows the name of every file, when there are several comparisons.
        columns: further columns of the tables that have some.
        chosen: every format of this report with its option.
        in_run_folder: whether the files go where the engine writes comparison.jsonl and nodes.jsonl itself.
        io: how dumped files are read (`Settings.io`), for formats that look at elements again.
        names: of all files of this report; complete when the first of them is written.
        problems: takes what there is to say of the files, and why some are not there.
    """

    comparison: Comparison
    run: RunRecord
    root: Path
    suffix: str = ""
    columns: tuple[str, ...] = ()
    chosen: Sequence[Chosen] = ()
    in_run_folder: bool = True
    io: str = "auto"
    names: list[str] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)

    @property
    def started(self) -> datetime:
        """When the run began."""
        return datetime.fromisoformat(self.run.timings.started)

    def one(self, stem: str, ending: str, write: Callable[[Path], None]) -> tuple[ReportFile, ...]:
        """Return the only file of a format: ``{stem}{suffix}{ending}``."""
        return (ReportFile(f"{stem}{self.suffix}{ending}", write),)

    def options_of(self, word: str) -> Any:
        """Return the option of the first entry of a format, None where the report has none."""
        return next((each.option for each in self.chosen if each.format.word == word), None)


def _nothing(_written: Sequence[tuple[str, Any]]) -> None:
    return None


def _no_problem(_option: Any) -> None:
    return None


class FileFormat(Struct, frozen=True):
    """One word of `formats:`.

    Args:
        word: what people write, alone or with an option: ``html``, ``{csv: torchair}``.
        files: returns the files of a comparison by the option. It may read, and take its time; what is wrong goes to
            `Request.problems`.
        option: type of the option, as pydantic takes it; None = it takes none. Only paths in options of our own
            formats start from the workflow's file.
        description: of the option.
        stands_alone: whether the plain word will do.
        plain: returns the option that the plain word means, given word and option of the entries that have one.
        is_joint: whether all entries of the word make one set of files; the option is then a tuple of theirs.
        needs_rows: whether it shows what was measured; if not, `report.pairs` can write it.
        problem: returns why it cannot be written with an option, as far as that is known before anything is measured.
    """

    word: str
    files: Callable[[Request, Any], Iterable[ReportFile]]
    option: Any = None
    description: str = ""
    stands_alone: bool = True
    plain: Callable[[Sequence[tuple[str, Any]]], Any] = _nothing
    is_joint: bool = False
    needs_rows: bool = True
    problem: Callable[[Any], Diagnostic | None] = _no_problem


class Chosen(Struct, frozen=True):
    """A format with its option."""

    format: FileFormat
    option: Any = None

    @property
    def label(self) -> str:
        """What tells its files from those of other entries, as part of a name: a short option, or the word."""
        option = self.option if isinstance(self.option, str | int | float) else self.format.word
        return re.sub(r"[^\w.-]+", "_", str(option))

    def __str__(self) -> str:
        return f"{self.format.word}: {self.option}" if isinstance(self.option, str) else self.format.word
