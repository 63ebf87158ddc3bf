"""The tensor files of a dump.json dump: which file holds a value, and whether it is what the dump.json says.

They lie in ``dump_tensor_data`` beside the dump.json; what `dump_data_dir` says is wrong as soon as a dump is copied.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from probe_flow.dumps.dump_json.problems import ProblemList
from probe_flow.errors import Diagnostic, FormatError, Severity
from probe_flow.files.arrays.npy import read_npy_header
from probe_flow.files.existing import real_path
from probe_flow.files.torch.torch_file import read_torch_header
from probe_flow.files.torch.torch_load import has_torch, needs_torch
from probe_flow.records import Extent, TensorKind
from probe_flow.tensors.dtypes import DTYPES, DTypeKind
from probe_flow.tensors.encoding import held_as

FOLDER = "dump_tensor_data"
_What = tuple[str, tuple[int, ...]]
"""Dtype and shape."""

_WIDENED = frozenset({"bfloat16"} | {name for name in DTYPES if name.startswith(("float8_", "hifloat8"))})
"""Floats that MindSpore's collector saves as float32, because numpy has no such type."""


class Held(Struct, frozen=True):
    """What a tensor file holds: fields of the `TensorRef` that it decides. ``source`` is None when it is unusable."""

    kind: TensorKind
    source: str | None
    dtype: str
    shape: tuple[int, ...]
    extents: tuple[Extent, ...] = ()
    reason: str | None = None


class TensorFiles:
    """The files beside one dump.json.

    Args:
        dump: folder of the dump.json.
        problems: gets what is wrong with a file.
    """

    def __init__(self, dump: Path, problems: ProblemList) -> None:
        self._folder = dump / FOLDER
        self._problems = problems
        self._text = os.fspath(self._folder.absolute())
        self._is_link: Mapping[str, bool] = {}
        self._trouble: str | None = None
        self._named: set[str] = set()
        self._root = real_path(dump)
        try:
            if not real_path(self._folder).is_relative_to(self._root):
                self._trouble = f"`{FOLDER}` is a link that leads out of the dump"
            else:
                with os.scandir(self._folder) as entries:
                    self._is_link = {entry.name: entry.is_symlink() for entry in entries}
        except OSError as error:
            self._trouble = f"the folder `{FOLDER}` cannot be read: {error.strerror or error}"

    def look_up(self, data_name: str, item: str, dtype: str, shape: tuple[int, ...]) -> Held:
        """Return what the file of an item holds; what is wrong with it becomes a problem and its reason.

        Args:
            data_name: name of the file, as the dump.json says.
            item: the item, for people.
            dtype, shape: canonical dtype and shape that the dump.json says.
        """
        source = f"{self._text}/{data_name}"
        try:
            self._check_name(data_name)
            self._named.add(data_name)
            if data_name.endswith(".npy"):
                return self._npy(source, item, dtype, shape)
            return self._torch(source, item, dtype, shape)
        except FormatError as error:
            found = error.diagnostic
            self._problems.add(found.code, found.message, tensor=item, help=found.help)
            return Held(TensorKind.UNREADABLE, None, dtype, shape, reason=found.message)

    def report_unnamed(self) -> None:
        """Note the files that no item named."""
        unnamed = sorted(name for name in self._is_link if name not in self._named)
        if unnamed:
            count = "1 file" if len(unnamed) == 1 else f"{len(unnamed)} files"
            verb = "is" if len(unnamed) == 1 else "are"
            where = f"in `{FOLDER}` beside `{self._problems.path}`"
            message = f"{count} {where} {verb} named by no entry, e.g. `{unnamed[0]}`"
            self._problems.add("PF3427", message, severity=Severity.NOTE)

    def _check_name(self, name: str) -> None:
        if "/" in name or "\\" in name or "\0" in name or name in ("", ".", ".."):
            raise self._error("PF3419", f"is no name of a file in `{FOLDER}`", name, "use the dump as it was written")
        if not name.endswith((".pt", ".npy")):
            raise self._error("PF3426", "is neither `.pt` nor `.npy`", name, "dump again, or report the file")
        is_link = self._is_link.get(name)
        if is_link is None:
            what = self._trouble or f"is not in `{FOLDER}`"
            code = "PF3419" if self._trouble and "link" in self._trouble else "PF3418"
            joined = what if what.startswith("is") else f"cannot be read: {what}"
            raise self._error(code, joined, name, "copy the folder again, or dump again")
        if is_link and not real_path(self._folder / name).is_relative_to(self._root):
            raise self._error("PF3419", "is a link that leads out of the dump", name, "copy what it leads to in")

    def _error(self, code: str, what: str, name: str, cure: str) -> FormatError:
        message = f"`{name}`, which `{self._problems.path}` names, {what}"
        return FormatError(Diagnostic(code, message, path=self._problems.path, help=cure))

    def _npy(self, source: str, item: str, dtype: str, shape: tuple[int, ...]) -> Held:
        header = read_npy_header(source)
        if header.dtype is None:
            return Held(TensorKind.OPAQUE, source, header.descr, header.shape, reason=header.reason)
        encoding, held = header.encoding, header.dtype
        if dtype in _WIDENED and held == "float32":
            encoding, held = held_as(encoding, held), dtype
        self._compare(source, item, (dtype, shape), (held, header.shape))
        extent = Extent(source, header.offset, header.nbytes, encoding)
        return Held(TensorKind.TENSOR, source, held, header.shape, (extent,))

    def _torch(self, source: str, item: str, dtype: str, shape: tuple[int, ...]) -> Held:
        header = read_torch_header(source)
        extent = Extent(source, header.offset, header.nbytes, header.encoding)
        if header.dtype is not None and header.shape is not None:
            self._compare(source, item, (dtype, shape), (header.dtype, header.shape))
            return Held(TensorKind.TENSOR, source, header.dtype, header.shape, (extent,))
        if not has_torch():
            raise needs_torch(source, header.reason or "")
        known = DTYPES.get(dtype)
        is_plain = known is not None and known.kind is not DTypeKind.OPAQUE
        return Held(TensorKind.TENSOR, source, dtype if is_plain else "float32", shape, (extent,))

    def _compare(
        self,
        source: str,
        item: str,
        said: _What,
        held: _What,
    ) -> None:
        if held == said:
            return
        shown = [f"`{dtype}` {list(shape)}" for dtype, shape in (held, said)]
        message = f"`{Path(source).name}` holds {shown[0]}, `{self._problems.path}` says {shown[1]}"
        self._problems.add(
            "PF3420", message, severity=Severity.WARNING, tensor=item, help="the file counts; dump again to be sure"
        )
