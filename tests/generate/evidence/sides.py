"""Run both sides of a pair, write their dumps with and without tensors, and measure where the fault begins.

The truth is not assumed: the target is run once more without its fault, and the first tensor in the order of the dump
that differs bit by bit is where it begins. It ends at the first that stands out: with tensors from `CLEAR` times the
healthy difference at the same place, with statistics from a change that shows in them (`dump_json_pairs.VISIBLE`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch_collector import Collector

from generate.dump_json_pairs import ROLES, is_visible, leaves
from generate.evidence.faults import Fault, spoiler

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

CLEAR = 4.0
"""How many times the healthy difference a change must be, as root mean square or at one element, to stand out."""

FINE = 2.0**-20
"""Least healthy difference, in the size of a tensor."""

FAR = 8
"""Entries after which a fault that no statistic shows is given up: it may show anywhere then."""

Train = Callable[[torch.nn.Module, int], None]
"""What happens between steps: ``train(model, step)``."""


def sgd() -> Train:
    """Return plain gradient descent."""

    def train(model: torch.nn.Module, _step: int) -> None:
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad, alpha=0.05)
                    parameter.grad = None

    return train


def of_optimizer(make: Callable[[Any], torch.optim.Optimizer], *, every: int = 1, keeps: bool = True) -> Train:
    """Return the steps of an optimizer, made when the first comes.

    Args:
        make: of the parameters.
        every: gradients of so many steps are added up.
        keeps: whether they are; else those of the last step count alone.
    """
    made: list[torch.optim.Optimizer] = []

    def train(model: torch.nn.Module, step: int) -> None:
        if not made:
            made.append(make(model.parameters()))
        if (step + 1) % every:
            if not keeps:
                made[0].zero_grad()
            return
        made[0].step()
        made[0].zero_grad()

    return train


@dataclass(frozen=True)
class Case:
    """A pair that was drawn.

    Args:
        kind: of the table's row.
        name: of model, places and kinds of fault, to find it again.
        build: makes the model, the same one every time.
        dtype: of the target; ``golden`` that of the golden.
        faults: on the target, in order of time.
        steps: that are dumped.
        train: of each side (target, golden), made anew for each run.
        backward: whether gradients are computed.
        noise: relative error that the target's sums and products have beyond their dtype's.
        seeds: of what is drawn at random while the sides run (target, golden).
        as_mindspore: how the target is made one of MindSpore, empty where it is not.
        checksums: whether statistics come with checksums.
    """

    kind: str
    name: str
    build: Callable[[], torch.nn.Module]
    dtype: str = "float32"
    golden: str = "float32"
    faults: tuple[Fault, ...] = ()
    steps: int = 1
    train: tuple[Callable[[], Train], Callable[[], Train]] = (sgd, sgd)
    backward: bool = True
    noise: float = 0.0
    seeds: tuple[int, int] = (1, 1)
    as_mindspore: str = ""
    checksums: bool = False
    is_faulty: bool = False
    """Whether something is wrong: a fault, or the optimizer of the target."""
    is_of_parameters: bool = False
    """Whether all parameters of a step are wrong, so that each of them is a right answer."""


@dataclass(frozen=True)
class Run:
    """What one side computed: entries and tensors of each step."""

    entries: Sequence[Mapping[str, Any]]
    tensors: Sequence[Mapping[str, torch.Tensor]]


SUMS = ("linear", "matmul", "conv2d", "index_add", "sum", "mean", "__matmul__", "scaled_dot_product_attention")


def run(case: Case, side: int, folder: Path | None, *, is_faulty: bool) -> Run:
    """Run the target (0) or the golden (1), and write its dumps below ``folder``: ``tensor`` and ``statistics``."""
    model = case.build().to(DTYPES[case.golden if side else case.dtype])
    torch.manual_seed(case.seeds[side])
    train = case.train[1 if side or not is_faulty else 0]()
    entries, tensors = [], []
    for step in range(case.steps):
        spoil = spoiler(list(case.faults) if is_faulty else [], step)

        def change(entry: str, out: object, spoil=spoil) -> Callable | None:
            if case.noise and not side and entry.split(".")[1] in SUMS and isinstance(out, torch.Tensor):
                _disturb(out, entry, case.noise)
            return spoil(entry, out)

        with Collector(change) as collector, torch.set_grad_enabled(case.backward):
            loss = model.loss()
        if case.backward:
            loss.backward()
        if folder is not None:
            for task in ("tensor", "statistics"):
                collector.write(folder / task, step, task=task)
        entries.append(collector.data)
        tensors.append(collector.tensors)
        train(model, step)
    return Run(entries, tensors)


def _disturb(out: torch.Tensor, entry: str, noise: float) -> None:
    with torch._C.DisableTorchFunction(), torch.no_grad():
        if out.is_floating_point():
            chance = torch.Generator().manual_seed(zlib.crc32(entry.encode()))
            size = out.data.double().pow(2).mean().sqrt()
            drawn = torch.randn(out.shape, generator=chance, dtype=torch.float64)
            out.data.copy_((out.data.double() + noise * size * drawn).to(out.dtype))


@dataclass(frozen=True)
class Truth:
    """Where a fault begins, and in which step.

    Args:
        tensor: entries from the first changed tensor to the first that stands out; empty: none does.
        statistics: the same by recorded statistics.
    """

    step: int
    tensor: tuple[str, ...]
    statistics: tuple[str, ...]


def _items(entries: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry, value in entries.items():
        for role in (key for key in ROLES if key in value):
            for _, leaf in leaves(value[role], role):
                yield entry, leaf


def truth_of(case: Case, target: Run, twin: Run, golden: Run) -> Truth | None:
    """Return where the target differs from its twin without the fault; None where it does not."""
    has_begun = False
    for step in range(case.steps):
        found: dict[str, list[str]] = {"tensor": [], "statistics": []}
        done: set[str] = set()
        for (entry, leaf), (_, right) in zip(_items(target.entries[step]), _items(twin.entries[step]), strict=False):
            if leaf == right and _is_same(leaf, target, twin, step):
                continue
            has_begun = True
            for mode in found:
                if mode not in done and entry not in found[mode]:
                    found[mode].append(entry)
            if stands_out(leaf, target, twin, golden, step):
                done.add("tensor")
            if is_visible(leaf, right, case.dtype):
                done.add("statistics")
            if len(done) == len(found):
                break
        if done:
            return Truth(step, *(tuple(found[mode]) if _is_near(found[mode], mode in done) else () for mode in found))
    return Truth(0, (), ()) if has_begun else None


def _is_near(entries: Sequence[str], is_shown: bool) -> bool:
    return is_shown and len(entries) <= FAR


def _is_same(leaf: Mapping[str, Any], target: Run, twin: Run, step: int) -> bool:
    item = str(leaf.get("data_name", ""))[:-3]
    if item not in target.tensors[step]:
        return True
    return torch.equal(target.tensors[step][item].nan_to_num(), twin.tensors[step][item].nan_to_num())


def stands_out(leaf: Mapping[str, Any], target: Run, twin: Run, golden: Run, step: int) -> bool:
    """Whether a tensor is changed by more than the healthy difference explains."""
    item = str(leaf.get("data_name", ""))[:-3]
    sides = [each.tensors[step].get(item) for each in (target, twin, golden)]
    if sides[0] is None:
        return True  # an argument
    if sides[2] is None or any(each.shape != sides[0].shape for each in sides):
        return True
    wrong, right, gold = (each.double().nan_to_num(0.0, 0.0, 0.0) for each in sides)
    if not sides[0].is_floating_point():
        return not torch.equal(wrong, right)
    size = float(gold.pow(2).mean().sqrt())
    changes = (float((wrong - right).pow(2).mean().sqrt()), float((wrong - right).abs().max()))
    usual = (float((right - gold).pow(2).mean().sqrt()), float((right - gold).abs().max()))
    return any(change > CLEAR * max(each, FINE * size) for change, each in zip(changes, usual, strict=True))
