"""Small dumps for the tests of reduction, and a scheduler, a clock and a stop that tests control."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ge_writer
import numpy as np
from ge_writer import DumpTensor

from probe_flow.dumps.reduced.reduced_names import reduced_name
from probe_flow.files.folder_changes import identity_of
from probe_flow.transform.reduce.reduce_file import Batch, Done, Job, reduce_batch
from probe_flow.transform.reduce.reduce_folders import Reduction, Wanted
from probe_flow.transform.reduce.reduce_tensors import Figures
from probe_flow.transform.reduce.reducible_files import SourceKind, source_kind

MIN_MAX = Figures(("min", "max"))
VALUES = np.array([[1.5, -2.0, 3.0], [0.0, 7.0, -1.0]], np.float32)


def fx_name(node: str = "add_1", at: int = 9) -> str:
    return f"{node}-aten.add.Tensor.OUTPUT.0.{20260101000000000000 + at}.npy"


def ge_name(op: str = "Add_2", at: int = 0) -> str:
    return f"Add.{op}.44.7.{1767225600000000 + at}"


def write_fx(folder: Path, values: Any = VALUES, *, node: str = "add_1", at: int = 9) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / fx_name(node, at)
    np.save(path, values)
    return path


def write_ge(
    folder: Path,
    inputs: Sequence[DumpTensor] = (),
    outputs: Sequence[DumpTensor] | None = None,
    *,
    op: str = "Add_2",
    at: int = 0,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    given = [DumpTensor(VALUES.astype(np.float16), "float16")] if outputs is None else outputs
    return ge_writer.write_dump(folder / ge_name(op, at), op_name=f"layer/{op}", inputs=inputs, outputs=given)


def job_of(path: Path) -> Job:
    kind = source_kind(path.name, "_min_max")
    assert isinstance(kind, SourceKind)
    return Job(str(path), str(path.with_name(reduced_name(path.name))), kind, identity_of(path.lstat()))


def reduce_one(path: Path, figures: Figures = MIN_MAX, *, deletes_source: bool = False) -> Done:
    (done,) = reduce_batch(Batch((job_of(path),), figures, deletes_source))
    return done


def in_order(
    function: Callable[[Any], Any], batches: Sequence[Any], *, sizes: Sequence[int], **_: object
) -> Iterator[tuple[int, Any]]:
    assert len(sizes) == len(batches)
    return ((number, function(batch)) for number, batch in enumerate(batches))


@dataclass
class FakeStop:
    """Asks to stop when its script is done; each wait runs the next step of it and lets time pass."""

    path: str
    script: list[Callable[[], None]] = field(default_factory=list)
    now_s: float = 0.0
    signal: int | None = None

    @property
    def is_requested(self) -> bool:
        return self.signal is not None

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        if self.script:
            self.script.pop(0)()
        else:
            self.signal = 15
        return self.is_requested


def reduction(paths: Sequence[Path], stop: FakeStop, **wanted: Any) -> Reduction:
    wanted.setdefault("figures", MIN_MAX)
    return Reduction(list(paths), Wanted(**wanted), in_order, stop, monotonic=lambda: stop.now_s)  # type: ignore[arg-type]
