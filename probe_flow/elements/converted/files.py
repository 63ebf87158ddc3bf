"""Write a tensor of a dump as a file that other tools read: `.npy`, `.pt` or plain bytes."""

from __future__ import annotations

import enum
import zlib
from pathlib import Path

from msgspec import Struct

from probe_flow.elements.converted.relayout import Relaid, relaid_blocks
from probe_flow.elements.converted.values import Form, array_form, bytes_form, packed, torch_form
from probe_flow.files.arrays.npz import npy_header
from probe_flow.files.streamed_file import StreamedFile
from probe_flow.files.torch.torch_archive import TorchArchive


class FileKind(enum.Enum):
    """What is written: a numpy array, a torch tensor, plain bytes, or an array under the names that MindSpore uses."""

    NPY = "npy"
    PT = "pt"
    BIN = "bin"
    MSNPY = "msnpy"

    @property
    def extension(self) -> str:
        """Ending of its file names."""
        return "npy" if self is FileKind.MSNPY else self.value


class ConvertedFile(Struct, frozen=True):
    """A file that is written and flushed, but not in its place yet.

    Args:
        draft: the file.
        form: how its elements are written.
        offset: first byte of the elements.
        nbytes: their bytes.
    """

    draft: StreamedFile
    form: Form
    offset: int
    nbytes: int


def form_of(relaid: Relaid, kind: FileKind) -> Form:
    """Return how the elements of a tensor are written in a file of a kind.

    Raises:
        NotComparableError: PF5111 when its elements cannot be decoded.
    """
    if kind is FileKind.PT:
        return torch_form(relaid.source)
    return bytes_form(relaid.source) if kind is FileKind.BIN else array_form(relaid.source)


def write_converted(relaid: Relaid, path: Path, kind: FileKind, *, io: str = "auto") -> ConvertedFile:
    """Write a tensor to a temporary file beside ``path``; the caller flushes and commits it.

    Raises:
        FormatError, NotComparableError: the tensor cannot be read.
        OSError: the file cannot be written. Nothing is left of it then.
    """
    form = form_of(relaid, kind)
    nbytes = form.nbytes(relaid.numel)
    archive = TorchArchive(form.name, relaid.shape, nbytes) if kind is FileKind.PT else None
    head = b""
    if archive is not None:
        head = archive.head
    elif kind is not FileKind.BIN:
        head = npy_header(form.dtype, relaid.shape)
    draft = StreamedFile(path)
    try:
        draft.write(head)
        crc = 0
        for block in relaid_blocks(relaid, form, folder=path.parent, io=io):
            content = packed(block, form).view("u1").data
            draft.write(content)
            if archive is not None:
                crc = zlib.crc32(content, crc)
        if archive is not None:
            draft.write(archive.tail(crc))
            draft.patch(*archive.patch(crc))
    except BaseException:
        draft.discard()
        raise
    return ConvertedFile(draft, form, len(head), nbytes)
