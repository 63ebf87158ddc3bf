"""Convert dumped files one by one, as `probe-flow parse` does: every tensor of a file becomes a file of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from probe_flow.dumps.device.dumped_file import DumpedFile, read_dumped_file
from probe_flow.dumps.device.overflow_records import op_debug_json, read_op_debug
from probe_flow.elements.converted.files import ConvertedFile, FileKind, form_of, write_converted
from probe_flow.elements.converted.relayout import Relaid, as_stored, in_layout
from probe_flow.elements.extent_bytes import shrunk
from probe_flow.errors import Diagnostic, NotComparableError, ProbeFlowError
from probe_flow.files.binary_file import BinaryFile
from probe_flow.files.streamed_file import StreamedFile
from probe_flow.records import Extent, SlotRole, TensorKind, TensorRef
from probe_flow.transform.convert.names import converted_name, short_name
from probe_flow.transform.convert.writes import Ending, Outcome, Wish, fulfil

OP_DEBUG = "Opdebug.Node_OpDebug."
"""What the names of overflow records begin with."""

_COPIED_BYTES = 4 * 2**20

Make = Callable[[Path], StreamedFile | ConvertedFile]
"""Writes a file under a temporary name beside the path that it is to get."""


class Wanted(Struct, frozen=True):
    """What becomes of the tensors.

    Args:
        output: folder of the converted files.
        kind: what is written.
        layout: storage layout to bring them into; None = as they are stored.
        shape: logical shape in place of the one that the dump gives.
        inputs, outputs: numbers of the tensors; None = none when the other is given, else all.
        replaces: whether other files of these names may go.
    """

    output: Path
    kind: FileKind = FileKind.NPY
    layout: str | None = None
    shape: tuple[int, ...] | None = None
    inputs: tuple[int, ...] | None = None
    outputs: tuple[int, ...] | None = None
    replaces: bool = False

    @property
    def is_selective(self) -> bool:
        """Whether only some tensors are wanted."""
        return self.inputs is not None or self.outputs is not None

    def takes(self, ref: TensorRef) -> bool:
        """Tell whether a tensor is wanted."""
        numbers = self.inputs if ref.slot.role is SlotRole.INPUT else self.outputs
        return not self.is_selective or ref.slot.path[0] in (numbers or ())


class Source(Struct, frozen=True):
    """One dumped file: its path, its true name where that is a hash, and its size."""

    path: Path
    name: str
    size: int


class Batch(Struct, frozen=True):
    """Dumped files for one worker."""

    sources: tuple[Source, ...]
    wanted: Wanted


class Parsed(Struct):
    """What became of one dumped file.

    Args:
        source: the file.
        written, already: files that were written, and those that were there with the same bytes.
        nbytes: size of both.
        names: true names of files whose names are digests.
        problems: why tensors, or the whole file, are not converted.
        chosen: tensors that were wanted, those without bytes included.
        empty: slots without a type and bytes.
    """

    source: Source
    written: int = 0
    already: int = 0
    nbytes: int = 0
    names: dict[str, str] = field(default_factory=dict)
    problems: list[Diagnostic] = field(default_factory=list)
    chosen: int = 0
    empty: int = 0


def parse_batch(batch: Batch) -> list[Parsed]:
    """Convert the files of a batch; what is wrong with one tensor costs that one."""
    ended = [Parsed(source) for source in batch.sources]
    for outcome in fulfil(_wishes(ended, batch.wanted), replaces=batch.wanted.replaces):
        _take(ended[outcome.wish.key], outcome)
    return ended


def lost_batch(batch: Batch, reason: Diagnostic) -> list[Parsed]:
    """Return the ends of a batch whose worker died each time that it was tried."""
    return [Parsed(source, problems=[reason]) for source in batch.sources]


def _take(parsed: Parsed, outcome: Outcome) -> None:
    if outcome.problem is not None:
        parsed.problems.append(outcome.problem)
    parsed.written += outcome.ending is Ending.WRITTEN
    parsed.already += outcome.ending is Ending.ALREADY
    parsed.nbytes += outcome.nbytes


def _wishes(ended: list[Parsed], wanted: Wanted) -> Iterator[Wish]:
    for key, parsed in enumerate(ended):
        for name, make in _results(parsed, wanted):
            short = short_name(name)
            if short != name:
                parsed.names[short] = name
            path = wanted.output / short
            yield Wish(key, path, partial(make, path))


def _results(parsed: Parsed, wanted: Wanted) -> Iterator[tuple[str, Make]]:
    """Yield the name of every file that a dumped file becomes, and what makes it; note what is wrong with it."""
    source = parsed.source
    try:
        if source.name.startswith(OP_DEBUG):
            results = _records(parsed)
        else:
            results = _tensors(parsed, read_dumped_file(source.path, source.name), wanted)
    except ProbeFlowError as error:
        parsed.problems.append(error.diagnostic)
    except Exception as error:  # a defect must cost one file, not the others
        text = f"reading `{source.path.name}` failed: {type(error).__name__}: {error}"
        parsed.problems.append(Diagnostic("PF9002", text, path=str(source.path)))
    else:
        yield from results


def _records(parsed: Parsed) -> list[tuple[str, Make]]:
    texts = [op_debug_json(record) for record in read_op_debug(parsed.source.path)]
    parsed.chosen = len(texts)
    name = parsed.source.path.name
    return [(f"{name}.output.{i}.json", partial(_write_text, f"{text}\n")) for i, text in enumerate(texts)]


def _tensors(parsed: Parsed, dumped: DumpedFile, wanted: Wanted) -> list[tuple[str, Make]]:
    name = parsed.source.path.name
    results: list[tuple[str, Make]] = []
    for ref in dumped.tensors:
        if not wanted.takes(ref):
            continue
        parsed.chosen += 1
        if ref.kind is TensorKind.NULL:
            parsed.empty += 1
            continue
        try:
            results.append(_tensor(name, ref, dumped.op_name, wanted))
        except ProbeFlowError as error:
            parsed.problems.append(_named(error.diagnostic, name, ref))
    if wanted.layout is None and not wanted.is_selective:
        parsed.problems += dumped.problems
        parsed.chosen += len(dumped.sections)
        results += [(f"{name}.{part.label}.bin", partial(_copy, part.extent)) for part in dumped.sections]
    return results


def _named(problem: Diagnostic, name: str, ref: TensorRef) -> Diagnostic:
    """Say which tensor it is that has a problem."""
    if problem.tensor is not None:
        return problem
    return replace(problem, message=f"{ref.slot} of `{name}`: {problem.message}", path=ref.source, tensor=ref.id)


def _tensor(source: str, ref: TensorRef, op_name: str, wanted: Wanted) -> tuple[str, Make]:
    if ref.kind is not TensorKind.TENSOR:
        text = f"{ref.slot} of `{source}` cannot be converted: {ref.reason or ref.kind.value}"
        cure = "dump this operator again; its other tensors are converted"
        raise NotComparableError(Diagnostic("PF6504", text, path=ref.source, help=cure, tensor=ref.id))
    relaid = as_stored(ref) if wanted.layout is None else in_layout(ref, wanted.layout, given=wanted.shape)
    name = converted_name(
        source,
        ref.slot,
        wanted.kind,
        shape=relaid.shape,
        dtype=form_of(relaid, wanted.kind).name,
        layout=relaid.layout,
        is_relaid=wanted.layout is not None,
        op_name=op_name,
    )
    return name, partial(_write_tensor, relaid, wanted.kind)


def _write_tensor(relaid: Relaid, kind: FileKind, path: Path) -> ConvertedFile:
    return write_converted(relaid, path, kind)


def _write_text(text: str, path: Path) -> StreamedFile:
    draft = StreamedFile(path)
    try:
        draft.write(text.encode())
    except BaseException:
        draft.discard()
        raise
    return draft


def _copy(extent: Extent, path: Path) -> StreamedFile:
    draft = StreamedFile(path)
    try:
        with BinaryFile(extent.file) as file:
            for start in range(0, extent.nbytes, _COPIED_BYTES):
                wanted = min(_COPIED_BYTES, extent.nbytes - start)
                content = file.read_at(extent.offset + start, wanted)
                if len(content) < wanted:
                    raise shrunk(extent, extent.offset + start + len(content))
                draft.write(content)
    except BaseException:
        draft.discard()
        raise
    return draft
