"""What a reduction did, in numbers and with the reason of every file that it left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.files.whole_files import write_whole
from probe_flow.transform.reduce.reduce_file import Done, Ending
from probe_flow.transform.reduce.reducible_files import REDUCED

SCHEMA = "probe_flow/reduction/1"
MAX_NOTES = 1000


class Summary(Struct):
    """Totals over all folders and passes.

    Args:
        reduced, already, deleted: files.
        read_bytes: of the files that were reduced.
        written_bytes: of their reduced files.
        freed_bytes: of the files that were deleted.
        gaps: what is wrong with a file, by path: why it is not reduced, or why its reduced file has gaps.
        no_tensors: why an array is skipped, by path.
        skipped: files of no interest, by reason.
        notes: what is worth knowing of figures, at most `MAX_NOTES`.
        nan_tensors: tensors with a NaN in them.
        left: files that were not looked at, because the work was stopped.
    """

    reduced: int = 0
    already: int = 0
    deleted: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    freed_bytes: int = 0
    gaps: dict[str, tuple[Ending, Diagnostic]] = field(default_factory=dict)
    no_tensors: dict[str, Diagnostic] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    nan_tensors: int = 0
    left: int = 0

    @property
    def saved_bytes(self) -> int:
        """Disk that is free again; negative while the dumped files are still there."""
        return self.freed_bytes - self.written_bytes

    @property
    def failed(self) -> int:
        """Files that could not be reduced, and folders that could not be listed."""
        return sum(ending is Ending.FAILED for ending, _ in self.gaps.values()) + len(self.unreadable)

    @property
    def unfinished(self) -> int:
        """Files that do not look written to their end."""
        return sum(ending is Ending.UNFINISHED for ending, _ in self.gaps.values())

    @property
    def is_empty(self) -> bool:
        """Whether no dumped file was found, nor one that was reduced before."""
        known = (self.reduced, self.already, self.left, self.gaps, self.no_tensors, self.unreadable)
        return not any(known) and not self.skipped.get(REDUCED)

    def is_complete(self, *, is_stopped: bool) -> bool:
        """Tell whether nothing failed; a file that was still being written when a watch was stopped is no failure."""
        return not self.failed and (is_stopped or not self.unfinished)

    def add(self, done: Done) -> bool:
        """Take the end of one file; return whether its trouble is news."""
        path = done.job.source
        before = self.gaps.pop(path, None)
        if done.ending is Ending.REDUCED:
            self.reduced += 1
            self.read_bytes += done.job.size
            self.written_bytes += done.result_bytes
            self.nan_tensors += done.nan_tensors
            self.notes += [f"`{done.job.name}` {note}" for note in done.notes][: MAX_NOTES - len(self.notes)]
        elif done.ending is Ending.ALREADY:
            self.already += 1
        if done.is_deleted:
            self.deleted += 1
            self.freed_bytes += done.job.size
        if done.ending is Ending.SKIPPED and done.problem is not None:
            self.no_tensors[path] = done.problem
        elif done.problem is not None:
            self.gaps[path] = (done.ending, done.problem)
            return before is None or before[1].code != done.problem.code
        return False

    def problems(self) -> tuple[Diagnostic, ...]:
        """Return why files are not reduced, in order of their paths."""
        unreadable = tuple(
            Diagnostic("PF6304", f"the folder `{path}` cannot be listed: {why}", path=path, help="check your rights")
            for path, why in sorted(self.unreadable.items())
        )
        return (*unreadable, *(problem for _, (_, problem) in sorted(self.gaps.items())))

    def as_dict(self, paths: Sequence[Path]) -> dict[str, object]:
        """Return the machine form."""
        return {
            "schema": SCHEMA,
            "paths": [str(path) for path in paths],
            "files": {
                "reduced": self.reduced,
                "already_reduced": self.already,
                "deleted": self.deleted,
                "left": self.left,
            },
            "bytes": {
                "read": self.read_bytes,
                "written": self.written_bytes,
                "freed": self.freed_bytes,
                "saved": self.saved_bytes,
            },
            "skipped": dict(sorted(Counter({**self.skipped, "no tensor": len(self.no_tensors)}).items())),
            "failed": [
                {"ending": ending.value, **problem.to_dict(), "file": path}
                for path, (ending, problem) in sorted(self.gaps.items())
            ],
            "unreadable": dict(sorted(self.unreadable.items())),
            "no_tensors": {path: problem.message for path, problem in sorted(self.no_tensors.items())},
            "nan_tensors": self.nan_tensors,
            "notes": self.notes,
        }

    def write(self, path: Path, paths: Sequence[Path]) -> None:
        """Write the machine form as JSON.

        Raises:
            IncompleteError: PF6305 when that fails.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, (json.dumps(self.as_dict(paths), indent=2) + "\n").encode("utf-8", "backslashreplace"))
        except OSError as exc:
            text = f"the summary `{path}` cannot be written: {exc.strerror or exc}"
            raise IncompleteError(
                Diagnostic("PF6305", text, path=str(path), help="the reduced files are there; name another place")
            ) from exc

    def line(self) -> str:
        """Return the totals for people."""
        parts = [f"{self.reduced} files reduced"]
        if self.already:
            parts.append(f"{self.already} were already")
        if self.deleted:
            parts.append(f"{self.deleted} deleted, {megabytes(self.saved_bytes)} saved")
        elif self.reduced:
            parts.append(f"{megabytes(self.read_bytes)} read, {megabytes(self.written_bytes)} written")
        if self.no_tensors:
            parts.append(f"{len(self.no_tensors)} arrays without numbers skipped")
        if self.nan_tensors:
            parts.append(f"{self.nan_tensors} tensors with NaN")
        if self.left:
            parts.append(f"{self.left} left")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.unfinished:
            parts.append(f"{self.unfinished} not written to their end")
        return ", ".join(parts)


def megabytes(size: int) -> str:
    """Return a size for people.

    >>> megabytes(2_500_000), megabytes(-60)
    ('2.5 MB', '0.0 MB')
    """
    if abs(size) >= 10**9:
        return f"{size / 1e9:.2f} GB"
    return f"{round(size / 1e6, 1) + 0.0:.1f} MB"  # never -0.0
