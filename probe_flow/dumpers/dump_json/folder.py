"""The root folder of a dump: which step and process a folder below is for, that it is new, what may be replaced."""

from __future__ import annotations

import json
import platform
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from probe_flow.dumpers.dump_files import make_folder
from probe_flow.dumpers.dump_json.options import DumpOptions
from probe_flow.dumpers.dump_json.step_files import StepFiles
from probe_flow.dumps.manifest import DUMP_MANIFEST, DUMP_SCHEMA
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.opening import read_text
from probe_flow.version import __version__

_STEP = re.compile(r"step\d+")
_PROCESS = re.compile(r"(rank|proc)\d+")
_SINGLE = "proc0"
"""The folder of a process that is no rank."""


class StepFolders:
    """``{root}/step{n}/rank{r}`` for each step and process.

    Args:
        root: of the dump.
        framework: as dump.json names it.
        rank: returns the rank of this process, None where it has none.
        libraries: distributions whose versions are recorded.
        overwrite: replace what an earlier dump of probe_flow left of the same rank.

    Raises:
        UsageError: PF6321 if the root holds something that a dump must not be mixed with.
        IncompleteError: PF6326 if it cannot be made.
    """

    def __init__(
        self,
        root: Path,
        framework: str,
        rank: Callable[[], int | None],
        libraries: Iterable[str],
        *,
        overwrite: bool,
    ) -> None:
        self.root = root.absolute()
        self.rank = rank
        self._framework = framework
        self._versions = _versions(libraries)
        self._started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._check()
        self._clear(self._process(), overwrite=overwrite)
        make_folder(self.root)

    def step(self, number: int, options: DumpOptions) -> StepFiles:
        """Make the folder of a step of this process.

        Raises:
            UsageError: PF6321 if there is one.
            IncompleteError: PF6326 when it cannot be written.
        """
        process = self._process()
        folder = self.root / f"step{number}" / process
        if folder.exists():
            raise _refusal(folder, "exists already", "dump into a new folder; ranks have to know their numbers by then")
        task = "tensor" if options.writes_tensors else "statistics"
        head = {"task": task, "level": options.level, "framework": self._framework}
        facts = {
            "started": self._started,
            "versions": self._versions,
            "step": number,
            "rank": self.rank(),
            "options": options.to_dict(),
        }
        return StepFiles(folder, head, facts, writes_tensors=options.writes_tensors)

    def _process(self) -> str:
        rank = self.rank()
        return _SINGLE if rank is None else f"rank{rank}"

    def _check(self) -> None:
        """Refuse a root with other things than steps: a reader would take them for one dump."""
        root = self.root
        if not root.exists():
            return
        if not root.is_dir():
            raise _refusal(root, "is a file, not a folder", "name a new folder")
        for entry in sorted(root.iterdir()):
            if _STEP.fullmatch(entry.name) and entry.is_dir():
                foreign = [each.name for each in entry.iterdir() if not _PROCESS.fullmatch(each.name)]
                if not foreign:
                    continue
                raise _refusal(root, f"holds `{entry.name}/{foreign[0]}`, which is no part of this dump", _NEW)
            raise _refusal(root, f"holds `{entry.name}`, which is no part of this dump", _NEW)

    def _clear(self, process: str, *, overwrite: bool) -> None:
        steps = sorted(self.root.iterdir()) if self.root.is_dir() else []
        is_rank = process != _SINGLE
        for step in steps:
            for folder in sorted(step.iterdir()):
                if is_rank and folder.name.startswith("rank") and folder.name != process:
                    continue  # of another process of this run
                if not overwrite:
                    raise _refusal(
                        self.root, "holds an earlier dump", "name a new folder, or pass `overwrite` to replace it"
                    )
                if folder.is_symlink() or not _is_ours(folder / DUMP_MANIFEST):
                    raise _refusal(folder, "holds no dump of probe_flow, so it is not replaced", _NEW)
                shutil.rmtree(folder)
            with suppress(OSError):
                step.rmdir()


_NEW = "name a new or an empty folder"


def _is_ours(manifest: Path) -> bool:
    try:
        content = json.loads(read_text(manifest))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get("schema") == DUMP_SCHEMA


def _versions(libraries: Iterable[str]) -> Mapping[str, Any]:
    versions = {"probe_flow": __version__, "python": platform.python_version()}
    for name in libraries:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _refusal(path: Path, what: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF6321", f"the dump folder `{path.name}` {what}", help=cure, path=str(path)))
