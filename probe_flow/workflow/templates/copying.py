"""Copy a packaged workflow to a folder of the user's, with the sample dumps that its parameters name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import Span
from probe_flow.files.opening import read_text
from probe_flow.files.whole_files import write_whole
from probe_flow.files.yaml.positions import parse_yaml
from probe_flow.workflow.templates.guide import guided
from probe_flow.workflow.templates.packaged import packaged_root
from probe_flow.workflow.templates.samples import at_hand

SAMPLE_FOLDER = "sample"


class WouldOverwriteError(Exception):
    """Something is where the copy should go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(str(path))


class LinkInTheWayError(Exception):
    """A folder that the copy goes into is a link to another place."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(str(path))


class SampleMissingError(Exception):
    """A packaged workflow names sample data that is not there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(str(path))


class Copied(Struct, frozen=True):
    """What was copied.

    Args:
        workflow: the new file.
        samples: new folders and files of sample data.
        unset: parameters whose sample data was not copied and which have to be set.
    """

    workflow: Path
    samples: tuple[Path, ...]
    unset: tuple[str, ...]


class _Sample(Struct, frozen=True):
    """A parameter with sample data: where it lies, where its copy goes, where key and value of it are written."""

    param: str
    help: str
    source: Path
    relative: Path
    key: Span
    value: Span


def copy_template(
    template: Path, output: Path, *, with_sample: bool, force: bool, cache: Path, root: Path | None = None
) -> Copied:
    """Copy a packaged workflow into a folder.

    Args:
        template: the packaged file.
        output: folder to copy to; it is made where it is not there.
        with_sample: copy the sample data as well, and let the copied workflow name the copy; else it names none.
        force: replace files that are there, and links to files: what they lead to stays as it is.
        cache: folder of the user's cache, where packed samples are unpacked if they cannot be at their place.
        root: folder that holds ``examples/``; default: the installed one.

    Raises:
        WouldOverwriteError: a file or sample is there and ``force`` is not given; nothing was copied.
        LinkInTheWayError: a folder for the sample is a link; nothing was copied.
        SampleMissingError: the sample data is not installed; nothing was copied.
        UsageError: PF2111 when the sample data is packed and cannot be unpacked.
    """
    text = read_text(template)
    samples = list(_samples(template, text, (root or packaged_root()) / "examples"))
    workflow = output / template.name
    wanted = samples if with_sample else []
    copies = {output / SAMPLE_FOLDER / sample.relative: at_hand(sample.source, cache) for sample in wanted}
    for source in copies.values():
        if not source.exists():
            raise SampleMissingError(source)
    for path in (workflow, *copies):
        if os.path.lexists(path) and not force:
            raise WouldOverwriteError(path)
    for copy, source in copies.items():
        _check_folders(output, copy, source)
    output.mkdir(parents=True, exist_ok=True)
    for copy, source in copies.items():
        for file in _files_of(source):
            _copy_over(file, copy / file.relative_to(source))
    text = _with_copied_paths(text, samples) if with_sample else _without_samples(text, samples)
    unset = {} if with_sample else {sample.param: sample.help for sample in samples}
    named = [sample.relative.as_posix() for sample in wanted]
    text = guided(text, template=template.stem, file=template.name, unset=unset, samples=named)
    write_whole(workflow, text.encode())
    return Copied(workflow, tuple(copies), tuple(unset))


def _files_of(source: Path) -> Sequence[Path]:
    """Return the files of a sample: they are copied one by one, so that a full disk ends it at the first."""
    inside = [Path(folder, name) for folder, _, names in os.walk(source) for name in names]
    return inside if source.is_dir() else [source]


def _copy_over(source: Path, copy: Path) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.unlink(missing_ok=True)
    shutil.copyfile(source, copy)


def _check_folders(output: Path, copy: Path, source: Path) -> None:
    """Raise LinkInTheWayError where a folder that a sample is copied into leads out of the output folder."""
    inside = [copy / Path(folder).relative_to(source) for folder, _, _ in os.walk(source)]
    above = [folder for folder in copy.parents if folder.is_relative_to(output) and folder != output]
    for folder in (*reversed(above), *inside):
        if folder.is_symlink():
            raise LinkInTheWayError(folder)


def _samples(template: Path, text: str, examples: Path) -> Iterator[_Sample]:
    document, _ = parse_yaml(text, template.name)
    assert document is not None
    params = document.values.get("params")
    for name, param in (params if isinstance(params, dict) else {}).items():
        sample = param.get("sample")
        if isinstance(sample, str):
            source = Path(os.path.normpath(template.parent / sample))
            place = document.place.children["params"].children[name].children["sample"]
            yield _Sample(
                str(name),
                str(param.get("help") or ""),
                source,
                source.relative_to(examples),
                place.name_span,
                place.span,
            )


def _with_copied_paths(text: str, samples: list[_Sample]) -> str:
    """Return the workflow with its sample paths pointing at the copies."""
    return _replaced(text, [(each.value, f"{SAMPLE_FOLDER}/{each.relative.as_posix()}") for each in samples])


def _without_samples(text: str, samples: list[_Sample]) -> str:
    """Return the workflow without its samples: the keys, their values, and the comma behind them."""
    lines = text.split("\n")
    spans = []
    for sample in samples:
        rest = lines[sample.value.line - 1][sample.value.end_column - 1 :]
        comma = len(rest) - len(rest.removeprefix(",").lstrip(" "))
        spans.append(replace(sample.value, column=sample.key.column, end_column=sample.value.end_column + comma))
    return _replaced(text, [(span, "") for span in spans])


def _replaced(text: str, changes: list[tuple[Span, str]]) -> str:
    """Return a text with something else in places of one line each; from the end, so that columns stay right."""
    lines = text.split("\n")
    for span, new in sorted(changes, key=lambda each: (each[0].line, each[0].column), reverse=True):
        line = lines[span.line - 1]
        lines[span.line - 1] = line[: span.column - 1] + new + line[span.end_column - 1 :]
    return "\n".join(lines)
