"""What is fuzzed: healthy folders, and what reads one of them after it was damaged."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fuzz.mutate import mutated
from fuzz.tree import Tree
from probe_flow.elements.blocks import open_tensor
from probe_flow.errors import CODES, Diagnostic, FormatError, NotComparableError, ProbeFlowError
from probe_flow.errors.render import render_all
from probe_flow.records import Catalog, TensorKind, TensorRef
from probe_flow.tensors.encoding import TORCH

MAX_ELEMENTS = 1 << 16
"""Elements of a tensor that are read: its file decides how many there are, so more would only cost time."""
MAX_TENSORS = 40
SAME_SEED = 50
"""Inputs in a row that come from one healthy folder, of which only what differs is written."""


@dataclass(frozen=True)
class Target:
    """One reader, or one way through several.

    Args:
        name: of the target, and of the folder of its regressions.
        make_seeds: returns healthy folders.
        read: reads the folder at a path and checks what comes out; raises `ProbeFlowError` for what it refuses.
        renames: whether names of files are damaged too.
        changes: beginnings of the paths of files that are damaged; all of them by default.
        quick: inputs that `make test` reads.
    """

    name: str
    make_seeds: Callable[[], Sequence[Tree]]
    read: Callable[[Path], object]
    renames: bool = True
    changes: tuple[str, ...] = ("",)
    quick: int = 200

    @cached_property
    def seeds(self) -> Sequence[Tree]:
        """The healthy folders."""
        return self.make_seeds()

    def input(self, number: int) -> Tree:
        """Return input ``number``, the same each time; numbers below that of the seeds are the seeds themselves."""
        if number < len(self.seeds):
            return self.seeds[number]
        dice = random.Random(f"{self.name} {number}")
        return mutated(
            self.seeds[number // SAME_SEED % len(self.seeds)], dice, renames=self.renames, changes=self.changes
        )


def only_file(folder: Path) -> Path:
    """Return the one file of a folder."""
    (file,) = folder.iterdir()
    return file


def check_diagnostics(found: Sequence[Diagnostic], sources: Mapping[str, str] | None = None) -> None:
    """Expect codes that are documented, and that people can be shown what is wrong."""
    for each in found:
        assert each.code in CODES, each.code
        assert not each.code.startswith("PF9"), each.message
        assert each.message, each.code
    assert not found or render_all(found[:20], sources=sources or {}, color=False, width=100)


def check_catalog(catalog: Catalog) -> None:
    """Expect a catalog that fits together, and tensors that hold what they say; problems of it count as a refusal."""
    check_diagnostics(catalog.problems)
    assert {tensor.node for tensor in catalog.tensors} <= catalog.nodes.keys()
    for number, ref in enumerate(catalog.tensors):
        assert ref.kind is not TensorKind.UNREADABLE or ref.reason, ref
        if ref.kind is TensorKind.TENSOR and number < MAX_TENSORS:
            check_elements(ref)
    if catalog.problems:
        raise FormatError(catalog.problems)


def check_elements(ref: TensorRef) -> None:
    """Read the elements of a tensor: as many, and of the type, as it says; or it is refused."""
    if any(extent.encoding == TORCH for extent in ref.extents):  # torch is not here, and no business of ours
        return
    assert ref.id
    try:
        with open_tensor(ref) as blocks:
            stop = min(blocks.numel, MAX_ELEMENTS)
            found = blocks.read(0, stop)
            assert (len(found), found.dtype) == (stop, blocks.block_dtype), ref
            if blocks.numel > stop:
                assert len(blocks.read(blocks.numel - 1, blocks.numel)) == 1, ref
    except (NotComparableError, ProbeFlowError) as error:
        check_diagnostics(error.diagnostics)


def catalog_target(
    name: str, make_seeds: Callable[[], Sequence[Tree]], read: Callable[..., Catalog], **more: Any
) -> Target:
    """Return the target of a reader of dumps."""
    return Target(name, make_seeds, lambda folder: check_catalog(read(folder, side="target")), **more)


def file_target(name: str, make_seeds: Callable[[], Sequence[Tree]], read: Callable[[Path], object]) -> Target:
    """Return the target of a reader of one file."""
    return Target(name, make_seeds, lambda folder: read(only_file(folder)), renames=False)
