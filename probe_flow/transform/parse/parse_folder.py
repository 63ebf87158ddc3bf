"""Convert the dumped files of a folder, or single ones, to files that other tools read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field

from probe_flow.dumps.file_names import is_hashed, read_name_mapping, real_name
from probe_flow.errors import Diagnostic, IncompleteError, Severity, UsageError
from probe_flow.files.existing import is_file, is_folder
from probe_flow.files.opening import read_whole
from probe_flow.files.streamed_file import clear_stale
from probe_flow.files.whole_files import write_whole
from probe_flow.jobs import TaskMap, in_batches
from probe_flow.transform.convert.names import MAPPING_FILE, add_to_mapping
from probe_flow.transform.parse.parse_files import Batch, Parsed, Source, Wanted, lost_batch, parse_batch
from probe_flow.transform.reduce.reduce_summary import megabytes

FAILED_LIST = "convert_failed_file_list.txt"
"""Names the files of which something is not converted, one a line."""

BATCH_BYTES = 64 * 2**20
MAX_LIST_BYTES = 64 * 2**20
BATCH_FILES = 64

_OTHER_KINDS = (".json", ".csv", ".txt", ".md", ".log", ".pt", ".bin", ".npz", ".om", ".pbtxt", ".prototxt", ".onnx")
"""Endings of files that lie beside dumped ones and are none."""

_SHOWN_FOLDERS = 3


class Outcome(Struct):
    """What became of all files.

    Args:
        sources: number of dumped files.
        written, already, nbytes: converted files, see `Parsed`.
        chosen: tensors and sections that were wanted.
        without: dumped files that hold none of them.
        passed_over: files of other kinds beside them.
        failed: dumped files of which something is not converted.
        problems: all that went wrong.
    """

    sources: int = 0
    written: int = 0
    already: int = 0
    nbytes: int = 0
    chosen: int = 0
    without: int = 0
    passed_over: int = 0
    failed: list[str] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """Whether everything that was asked for is there."""
        return not any(problem.severity is Severity.ERROR for problem in self.problems)

    def add(self, parsed: Parsed) -> None:
        """Take the end of one dumped file."""
        self.written += parsed.written
        self.already += parsed.already
        self.nbytes += parsed.nbytes
        self.chosen += parsed.chosen
        self.names |= parsed.names
        self.problems += parsed.problems
        self.without += not parsed.chosen and not parsed.problems
        if any(problem.severity is Severity.ERROR for problem in parsed.problems):
            self.failed.append(str(parsed.source.path))

    def line(self, output: Path) -> str:
        """Return the totals for people."""
        parts = [f"{self.sources} dumped files: {self.written} files written to `{output}` ({megabytes(self.nbytes)})"]
        if self.already:
            parts.append(f"{self.already} were there")
        if self.without:
            parts.append(f"{self.without} dumped files hold no such tensor")
        if self.passed_over:
            parts.append(f"{self.passed_over} files of other kinds passed over")
        if self.failed:
            parts.append(f"{len(self.failed)} dumped files not converted as a whole, see `{output / FAILED_LIST}`")
        return ", ".join(parts)


def parse_paths(paths: Sequence[Path], wanted: Wanted, map_: TaskMap) -> Outcome:
    """Convert dumped files.

    Args:
        paths: files, and folders whose files are meant (not those of folders inside).
        wanted: what they become.
        map_: runs batches.

    Raises:
        UsageError: PF2101 no such path, PF6501 output among the dumped files, PF6502 output unusable.
        IncompleteError: PF6507 nothing to convert, PF6506 no tensor of the numbers that are asked for.
    """
    outcome = Outcome()
    sources = _sources(paths, outcome)
    _check_output(sources, wanted.output)
    clear_stale(wanted.output)
    filled = in_batches(([source.size] for source in sources), most_bytes=BATCH_BYTES, most_jobs=BATCH_FILES)
    batches = [Batch(tuple(sources[piece]), wanted) for piece in filled]
    sizes = [sum(source.size for source in batch.sources) for batch in batches]
    # Gathering and writing wait for the disk more than for the interpreter.
    found = map_(parse_batch, batches, sizes=sizes, lost=lost_batch, serial_bytes=0)
    ended = sorted(found, key=lambda each: each[0])
    for parsed in (parsed for _, batch in ended for parsed in batch):
        outcome.add(parsed)
    _write_lists(wanted.output, outcome, frozenset({source.path for source in sources} | {*paths}))
    if not outcome.chosen and not outcome.failed:
        raise IncompleteError(_no_such_tensor(wanted) if wanted.is_selective else _no_tensor(len(sources)))
    return outcome


def _sources(paths: Iterable[Path], outcome: Outcome) -> list[Source]:
    sources: list[Source] = []
    for path in dict.fromkeys(paths):
        if is_file(path):
            sources.append(_source(path, {}))
        elif is_folder(path):
            sources += _files_of(path, outcome)
        else:
            found = "is neither a file nor a folder" if os.path.lexists(path) else "does not exist"
            raise UsageError(
                Diagnostic("PF2101", f"`{path}` {found}", path=str(path), help="check the path of the dump")
            )
    outcome.sources = len(sources)
    return sources


def _files_of(folder: Path, outcome: Outcome) -> list[Source]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        message = f"the folder `{folder}` cannot be listed: {error.strerror or error}"
        raise IncompleteError(Diagnostic("PF6507", message, path=str(folder), help="check your rights")) from error
    foreign = [entry.name for entry in found if entry.is_symlink() and not _stays(Path(entry.path), folder)]
    outcome.problems += [_link(folder / name) for name in foreign]
    outcome.failed += [str(folder / name) for name in foreign]
    files = [Path(folder, entry.name) for entry in found if entry.name not in foreign and entry.is_file()]
    taken = [path for path in files if not path.name.startswith(".") and not path.name.endswith(_OTHER_KINDS)]
    outcome.passed_over += len(files) - len(taken)
    if not taken:
        below = [entry.name for entry in found if entry.is_dir()][:_SHOWN_FOLDERS]
        held = f"; it holds folders such as {', '.join(f'`{name}`' for name in below)}" if below else ""
        message = f"`{folder}` holds no dumped file{held}"
        cure = "give the folder in which the dumped files lie"
        raise IncompleteError(Diagnostic("PF6507", message, path=str(folder), help=cure))
    mapping: dict[str, str] = {}
    if any(is_hashed(path.name) for path in taken) and Path(folder, MAPPING_FILE).is_file():
        names, problems = read_name_mapping(Path(folder, MAPPING_FILE), str(folder / MAPPING_FILE))
        mapping.update(names)
        outcome.problems += problems
    return [_source(path, mapping) for path in taken]


def _stays(link: Path, folder: Path) -> bool:
    """Tell whether a link leads to something in its own folder."""
    try:
        return link.resolve(strict=True).is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a link to itself is a RuntimeError before Python 3.13
        return False


def _link(path: Path) -> Diagnostic:
    message = f"the link `{path}` leads out of the dump folder, or nowhere, and is not followed"
    cure = "copy what it leads to into the dump folder, or remove the link"
    return Diagnostic("PF3203", message, path=str(path), help=cure)


def _source(path: Path, mapping: dict[str, str]) -> Source:
    name = real_name(path.name, mapping) if is_hashed(path.name) else None
    return Source(path, name or path.name, path.stat().st_size)


def _check_output(sources: Sequence[Source], output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
        place = output.resolve()
    except OSError as error:
        message = f"`{output}` cannot be used: {error.strerror or error}"
        cure = "name another folder, or give yourself the right to write there"
        raise UsageError(Diagnostic("PF6502", message, path=str(output), help=cure)) from error
    for folder in {source.path.parent for source in sources}:
        if folder.resolve() == place:
            message = f"`{output}` is the folder of the dumped files"
            cure = "name another folder with `--output_path`"
            raise UsageError(Diagnostic("PF6501", message, path=str(output), help=cure))
    if not os.access(output, os.W_OK | os.X_OK):
        message = f"`{output}` cannot be used: Permission denied"
        raise UsageError(Diagnostic("PF6502", message, path=str(output), help="name another folder"))


def _write_lists(output: Path, outcome: Outcome, tried: frozenset[Path]) -> None:
    """Write the names of overlong files, and what failed: files and folders that were tried now, others as before."""
    try:
        if outcome.names:
            add_to_mapping(output, outcome.names)
        path = output / FAILED_LIST
        earlier = read_whole(path, MAX_LIST_BYTES) if path.is_file() else b""
        names = earlier.decode("utf-8", "surrogateescape").split("\n")
        failed = [name for name in names if name and tried.isdisjoint((Path(name), Path(name).parent))]
        failed += outcome.failed
        if failed:
            text = "".join(f"{name}\n" for name in failed)
            write_whole(path, text.encode("utf-8", "surrogateescape"))
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        message = f"a list in `{output}` cannot be written: {error.strerror or error}"
        outcome.problems.append(Diagnostic("PF6509", message, path=str(output), help="free some disk"))


def _no_such_tensor(wanted: Wanted) -> Diagnostic:
    named = [f"input {number}" for number in wanted.inputs or ()]
    named += [f"output {number}" for number in wanted.outputs or ()]
    return Diagnostic(
        "PF6506",
        f"no given file has {' or '.join(named)}",
        help="give a smaller number; without these options all tensors are converted",
    )


def _no_tensor(count: int) -> Diagnostic:
    message = f"none of the {count} dumped files holds a tensor"
    return Diagnostic("PF6507", message, help="dump inputs and outputs too (`dump_mode` of the dump's settings)")
