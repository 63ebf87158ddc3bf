"""Tests that every reader of dumps has to pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probe_flow.dumps.registry import ReaderSpec
from probe_flow.dumps.selection import Selection
from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import ProbeFlowError
from probe_flow.records import Catalog, TensorKind, TensorRef
from probe_flow.testing.expect import expect

_ODD_NAMES = ("", ".", "a" * 255, "no dump.xyz", "\udcff", "1.2.3", "ünïcode.bin")
_CUTS = (0.0, 0.5, 0.9)


class ReaderTests:
    """Tests of a `ReaderSpec`: name it as ``reader``, and write a dump in `write_dump`."""

    reader: ReaderSpec

    def write_dump(self, folder: Path) -> Mapping[str, object]:
        """Write a small dump into an empty folder, from the description of its format and not with the reader's help.

        Returns:
            The id of each of its tensors -> its elements, nested or flat; None for those without elements.
        """
        raise NotImplementedError

    def test_its_files_show_the_format(self, tmp_path: Path) -> None:
        """At least one file of a dump shows what it is."""
        self.write_dump(tmp_path)
        shown = [path for path in _files(tmp_path) if self._shows(tmp_path, path)]
        expect(shown, f"`shows` of `{self.reader.name}` knows no file of a dump of its own")

    def test_other_files_do_not_show_the_format(self) -> None:
        """Names of any kind are answered, and not taken for a dump."""
        for name in _ODD_NAMES:
            expect(
                self.reader.shows(("folder",), name) is False,
                f"`shows` of `{self.reader.name}` does not say False of a file called {name!r}",
            )

    def test_the_catalog_fits_together(self, tmp_path: Path) -> None:
        """Nodes are found by their keys, and hold every tensor, each with an id of its own."""
        self.write_dump(tmp_path)
        catalog = self._read(tmp_path)
        expect(isinstance(catalog, Catalog), f"`read` gives no `Catalog` but a `{type(catalog).__name__}`")
        expect(catalog.side == "golden", f"`side` of the catalog is `{catalog.side}`, not the one that was given")
        expect(catalog.framework.name, "the catalog does not say what framework wrote the dump")
        expect(not catalog.problems, f"a healthy dump has problems: {[each.message for each in catalog.problems]}")
        expect(
            all(key == node.key for key, node in catalog.nodes.items()),
            "a node is found under another key than its own",
        )
        lost = [ref.id for ref in catalog.tensors if ref.node not in catalog.nodes]
        expect(not lost, f"these tensors belong to no node of the catalog: {lost}")
        known = {(ref.node, ref.slot) for ref in catalog.tensors}
        expect(len(known) == len(catalog.tensors), "two tensors have one node and one slot")

    def test_every_tensor_is_there_with_its_values(self, tmp_path: Path) -> None:
        """What was written is what is read: the tensors, and every element."""
        written = self.write_dump(tmp_path)
        found = {ref.id: ref for ref in self._read(tmp_path).tensors}
        expect(
            found.keys() == written.keys(),
            f"the catalog has the tensors {sorted(found)}, the dump {sorted(written)}",
        )
        for name, values in written.items():
            if values is None:
                continue
            ref = found[name]
            expect(ref.kind is TensorKind.TENSOR, f"`{name}` has elements and is of the kind `{ref.kind.value}`")
            expected = np.asarray(values, dtype=np.float64).reshape(-1)
            actual = _elements(ref)
            expect(
                ref.numel == expected.size, f"`{name}` has {expected.size} elements, and the shape {ref.logical_shape}"
            )
            expect(np.array_equal(actual, expected, equal_nan=True), f"`{name}` holds {expected}, and {actual} is read")

    def test_bytes_of_tensors_are_in_the_dump(self, tmp_path: Path) -> None:
        """No tensor lies outside the folder that was given, or beyond the end of its file."""
        self.write_dump(tmp_path)
        for ref in self._read(tmp_path).tensors:
            for extent in ref.extents:
                file = Path(extent.file).resolve()
                expect(file.is_relative_to(tmp_path.resolve()), f"`{ref.id}` is in `{file}`, outside the dump")
                expect(
                    0 <= extent.offset <= extent.offset + extent.nbytes <= file.stat().st_size,
                    f"`{ref.id}` ends beyond its file `{file.name}`",
                )

    def test_reading_changes_nothing_and_is_repeatable(self, tmp_path: Path) -> None:
        """The files are as they were, and a second catalog is equal to the first."""
        self.write_dump(tmp_path)
        before = {path: path.read_bytes() for path in _files(tmp_path)}
        first, second = self._read(tmp_path), self._read(tmp_path)
        expect({path: path.read_bytes() for path in _files(tmp_path)} == before, "reading changed the dump")
        expect(
            (tuple(first.nodes), first.tensors) == (tuple(second.nodes), second.tensors),
            "two catalogs of one dump differ",
        )

    def test_a_selection_narrows_the_dump(self, tmp_path: Path) -> None:
        """`select: {nodes: [NAME]}` leaves the tensors of that node."""
        self.write_dump(tmp_path)
        name = self._read(tmp_path).tensors[0].node.name
        chosen = self.reader.catalog(str(tmp_path), side="golden", select=Selection(nodes=[name]))
        expect(
            {ref.node.name for ref in chosen.tensors} == {name},
            f"a selection of the node `{name}` leaves other tensors",
        )

    def test_an_empty_folder_is_never_an_empty_catalog(self, tmp_path: Path) -> None:
        """Nothing to read is an error, or a problem of the catalog."""
        try:
            catalog = self._read(tmp_path)
        except ProbeFlowError:
            return
        expect(catalog.problems, "an empty folder is read without a word")

    def test_damaged_files_are_problems_and_no_crash(self, tmp_path: Path) -> None:
        """A file that ends too early costs a diagnostic, wherever it ends."""
        self.write_dump(tmp_path)
        for path in _files(tmp_path):
            content = path.read_bytes()
            for share in _CUTS:
                path.write_bytes(content[: int(len(content) * share)])
                self._read_all(tmp_path, path)
            path.write_bytes(content)

    def _read_all(self, folder: Path, damaged: Path) -> None:
        try:
            for ref in self._read(folder).tensors:
                if ref.kind is TensorKind.TENSOR:
                    _elements(ref)
        except ProbeFlowError:
            return
        except Exception as error:
            raise AssertionError(f"`{damaged.name}` cut short ends in {type(error).__name__}: {error}") from error

    def _read(self, folder: Path) -> Catalog:
        return self.reader.catalog(str(folder), side="golden")

    def _shows(self, root: Path, path: Path) -> bool:
        folders = (root.name, *path.parent.relative_to(root).parts)
        return self.reader.shows(folders, path.name)


def _files(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for path in folder.rglob("*") if path.is_file()))


def _elements(ref: TensorRef) -> NDArray[np.float64]:
    with open_tensor(ref) as blocks:
        return np.asarray(blocks.read(0, ref.numel or 0), dtype=np.float64)
