"""Find and read the IR texts that a user names: files, or folders of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from probe_flow.dumps.mindspore_graph.ir import IrError, read_ir
from probe_flow.dumps.mindspore_graph.ir_code import IrFile
from probe_flow.errors import Diagnostic, Severity, UsageError
from probe_flow.files.existing import exists
from probe_flow.files.walk import list_dump, list_dump_or_file
from probe_flow.records import Problem

_SUFFIX = ".ir"


def read_ir_files(paths: Sequence[Path]) -> tuple[tuple[IrFile, ...], tuple[Problem, ...]]:
    """Read IR texts; those of a folder that cannot be used are problems.

    Args:
        paths: files, and folders whose ``*.ir`` at any depth are meant.

    Raises:
        UsageError: PF3460 a path is not there, a file is no IR, or there is no IR at all.
    """
    files: list[IrFile] = []
    problems: list[Problem] = []
    seen: set[Path] = set()
    for path in paths:
        if not exists(path):
            raise _unusable(f"the IR `{path}` does not exist", path)
        is_named = not path.is_dir()
        for found in _texts(path, problems):
            if found in seen:
                continue
            seen.add(found)
            try:
                text = read_ir(found)
            except IrError as error:
                if is_named:
                    raise _unusable(f"`{path}` is no IR of MindSpore: it {error}", path) from error
                problems.append(_left_out(found, str(error)))
                continue
            if text.cut_in is not None:
                problems.append(_cut_off(found))
            files.append(IrFile(found, text))
    if not files:
        raise _unusable(f"there is no IR of MindSpore in {', '.join(f'`{path}`' for path in paths)}", paths[0])
    return tuple(files), tuple(problems)


def _texts(path: Path, problems: list[Problem]) -> Iterator[Path]:
    if not path.is_dir():
        yield Path(list_dump_or_file(path).files[0].path)
        return
    listing = list_dump(path.resolve())
    problems.extend(listing.problems)
    for file in listing.files:
        if file.name.endswith(_SUFFIX):
            yield Path(file.path)


def _unusable(message: str, path: Path) -> UsageError:
    return UsageError(
        Diagnostic(
            "PF3460",
            message,
            path=str(path),
            help="MindSpore writes IR texts with MS_DEV_SAVE_GRAPHS=1, and each dump has some in `rank_0/graphs`",
        )
    )


def _left_out(path: Path, why: str) -> Problem:
    return Diagnostic(
        "PF3461",
        f"`{path.name}` {why} and is left out",
        severity=Severity.WARNING,
        path=str(path),
        help="name the texts that are meant with `--ir`",
    )


def _cut_off(path: Path) -> Problem:
    return Diagnostic(
        "PF3462",
        f"`{path.name}` is cut off: what stood behind its end is not bound",
        path=str(path),
        help="copy it again, or save the graphs again",
    )
