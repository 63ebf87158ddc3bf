"""Dumps of a program on several ranks, simulated with numpy, with one fault on one rank and the tensors in files.

Every rank computes on its own batch with shared weights; twice the ranks add up what they have. What is wrong on one
rank reaches the others through that sum.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch_writer import call, torch_file

Array = npt.NDArray[np.float32]
WIDTH, TOKENS = 16, 12


@dataclass(frozen=True)
class Fault:
    """What goes wrong in which call (``Torch.relu.0``) of which rank.

    ``kind``: one of `_wrong`, or ``parameter``, ``argument``, ``no bias``.
    """

    kind: str
    call: str
    rank: int


@dataclass
class Rank:
    """One rank's dump in the making."""

    number: int
    folder: Path
    task: str
    fault: Fault | None
    is_turned: bool = False
    late: str = ""
    entries: dict[str, dict[str, object]] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)

    def next_call(self, api: str) -> str:
        """Return the name of the call, with its number."""
        self.calls[api] = self.calls.get(api, -1) + 1
        return f"{api}.{self.calls[api]}"

    def spoils(self, kind: str, name: str) -> bool:
        """Whether this is the call of the fault."""
        return self.fault is not None and (kind, name, self.number) == (
            self.fault.kind,
            self.fault.call,
            self.fault.rank,
        )

    def record(self, name: str, read: Sequence[Array | float], written: Array) -> Array:
        """Note a call down; return what it wrote, spoilt where the fault is."""
        if self.fault is not None and (name, self.number) == (self.fault.call, self.fault.rank):
            written = _wrong(self.fault.kind, written, read)
        entry = f"{name}.forward"
        leaves = [self._leaf(value, f"{entry}.input.{place}") for place, value in enumerate(read)]
        if name == self.late and self.task == "md5":
            leaves[0]["md5"] = _checksum(written)
        self.entries[entry] = {
            "input_args": leaves,
            "input_kwargs": {},
            "output": [self._leaf(written, f"{entry}.output.0")],
        }
        return written

    def _leaf(self, value: Array | float, name: str) -> dict[str, object]:
        if isinstance(value, float):
            return {"type": "float", "value": value}
        leaf: dict[str, object] = {
            "type": "torch.Tensor", "dtype": "torch.float32", "shape": list(value.shape), "Max": float(value.max()),
            "Min": float(value.min()), "Mean": float(value.mean()), "Norm": float(np.linalg.norm(value)),
            "requires_grad": self.is_turned,
        }  # fmt: skip
        if self.task == "md5":
            leaf["md5"] = _checksum(value)
        if self.task == "tensor":
            leaf["data_name"] = f"{name}.pt"
            file = self.folder / "dump_tensor_data" / f"{name}.pt"
            turned = self.is_turned and value.ndim == 2
            strides = (1, value.shape[0]) if turned else None
            file.write_bytes(
                torch_file(call("float32", value.shape, strides=strides), (value.T if turned else value).tobytes())
            )
        return leaf

    def write(self) -> None:
        """Write dump.json."""
        task = "tensor" if self.task == "tensor" else "statistics"
        top = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": self.entries}
        (self.folder / "dump.json").write_text(json.dumps(top))
        (self.folder / "construct.json").write_text(json.dumps(dict.fromkeys(self.entries)))


def _checksum(value: Array) -> str:
    return f"{zlib.crc32(np.ascontiguousarray(value).tobytes()):08x}"


def _wrong(kind: str, right: Array, read: Sequence[Array | float]) -> Array:
    wrong = right.copy()
    if kind == "scale":
        wrong *= np.float32(1.03)
    elif kind == "element":
        wrong.flat[7] += np.float32(20.0)
    elif kind == "nan":
        wrong.flat[5] = np.nan
    elif kind == "own sum":
        wrong = np.float32(2.0) * np.asarray(read[0])
    return wrong


def write_ranks(
    folder: Path,
    *,
    task: str,
    fault: Fault | None = None,
    seed: int = 1,
    exact: bool = True,
    is_turned: bool = False,
    late: str = "",
    count: int = 2,
) -> Path:
    """Write the dumps of some ranks and return their folder.

    Args:
        folder: where to.
        task: ``statistics``, ``tensor``, or ``md5``: statistics with checksums.
        fault: what goes wrong.
        seed: of weights and batches.
        exact: False sums products up in another order.
        is_turned: store tensors column by column, and say that they require gradients.
        late: call whose input is hashed when the call, which works in place, is over.
        count: of ranks.
    """
    ranks = []
    for number in range(count):
        place = folder / "step0" / f"rank{number}"
        (place / "dump_tensor_data").mkdir(parents=True)
        ranks.append(Rank(number, place, task, fault, is_turned, late))
    random = np.random.default_rng(seed)
    weights = [_normal(random, WIDTH, WIDTH) / np.float32(4.0) for _ in range(4)]
    biases = [_normal(random, WIDTH) for _ in range(4)]
    hidden = [_normal(random, TOKENS, WIDTH) for _ in ranks]
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        hidden = [_linear(rank, h, weight, bias, exact=exact) for rank, h in zip(ranks, hidden, strict=True)]
        hidden = [rank.record(rank.next_call("Torch.relu"), [h], np.maximum(h, 0)) for rank, h in _each(ranks, hidden)]
        if layer % 2 == 0:
            total = np.sum(hidden, axis=0, dtype=np.float32)
            summed = [
                rank.record(rank.next_call("Distributed.all_reduce"), [h], total) for rank, h in _each(ranks, hidden)
            ]
            halves = [_halved(rank, h) for rank, h in _each(ranks, summed)]
            hidden = [
                rank.record(rank.next_call("Tensor.__add__"), [h, half], h + half)
                for rank, h, half in zip(ranks, hidden, halves, strict=True)
            ]
    for rank in ranks:
        rank.write()
    return folder


def _each(ranks: Sequence[Rank], values: Sequence[Array]) -> zip[tuple[Rank, Array]]:
    return zip(ranks, values, strict=True)


def _linear(rank: Rank, value: Array, weight: Array, bias: Array, *, exact: bool) -> Array:
    name = rank.next_call("Functional.linear")
    used = weight * np.float32(1.05) if rank.spoils("parameter", name) else weight
    product = value @ used.T if exact else (value[:, ::-1].astype(np.float64) @ used.T[::-1]).astype(np.float32)
    return rank.record(name, [value, used, bias], product if rank.spoils("no bias", name) else product + bias)


def _halved(rank: Rank, value: Array) -> Array:
    name = rank.next_call("Tensor.__mul__")
    factor = 0.25 if rank.spoils("argument", name) else 0.5
    return rank.record(name, [value, factor], value * np.float32(factor))


def _normal(random: np.random.Generator, *shape: int) -> Array:
    return random.standard_normal(shape).astype(np.float32)
