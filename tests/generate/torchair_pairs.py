"""Generate pairs of a TorchAir device dump and a golden dump with one known fault, or none. No torch needed.

A model (`torchair_models`) runs twice: as the simulated device of the bundled sample runs it, in float16 or bfloat16
storage, each operator on what the device computed before; and as golden, in float32 (an FX dump) or on the same device
without fusion (a GE dump). So a healthy pair has the noise of a real one, and a fault travels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fx_writer import Array, write_fx_dump
from ge_device import Device, Execution, Outputs, Tamper, execute, original_graph, write_tasks
from ge_kernels import DEVICE, HOST
from ge_lowering import GeOp, Lowered, lower

from generate.torchair_faults import OPERATOR_KINDS, PLACEHOLDER_KINDS, Fault, Scene, random_for
from generate.torchair_models import MODELS, Model
from generate.torchair_ops import CONVERTERS
from generate.torchair_truth import Truth, truth_of

LAYOUTS = ("old", "7.1.0", "later")
GOLDEN_FOLDERS = {"old": "data_dump", "7.1.0": "msprobe_fx_dump/data_dump", "later": "msprobe_fx_dump"}

TIME14 = "20260101000000"
TS20 = 20260101000000000001
MICROSECONDS_BETWEEN_TOKENS = 1_000_000
PROCESS = 4242

FUSION_PATTERNS = {("Mul", "Add"), ("Add", "Relu"), ("Sub", "Mul"), ("Sigmoid", "Mul"), ("Swish", "Mul")}
"""Neighbours that the simulated device runs as one buffer-fused operator."""

BLOCKED_PRODUCTS = 3
"""Every so many matrix products one is stored in FRACTAL_NZ."""


@dataclass(slots=True)
class Run:
    """One token on one rank, in memory."""

    token: int
    rank: int
    golden: Execution
    device: Execution
    clean: Execution
    """What the device computes without the fault."""


@dataclass(slots=True)
class Case:
    """A generated pair: its two folders and what a diagnosis has to say (None: nothing is wrong)."""

    target: Path
    golden: Path
    truth: Truth | None
    lowered: Lowered
    runs: list[Run]
    golden_kind: str = "fx"


@dataclass(frozen=True, slots=True)
class Spec:
    """The arguments of `generate` for one case of a suite."""

    name: str
    model: str
    dtype: str
    layout: str = "later"
    fault: Fault | None = None
    fused: bool = False
    tokens: int = 1
    private: bool = False
    ranks: int = 1
    seed: int = 0
    golden: str = "fx"
    also: Fault | None = None

    def generate(self, root: Path) -> Case:
        return generate(
            root,
            model=self.model,
            dtype=self.dtype,
            seed=self.seed,
            fault=self.fault,
            fused=self.fused,
            layout=self.layout,
            tokens=self.tokens,
            private=self.private,
            ranks=self.ranks,
            golden=self.golden,
            also=self.also,
        )


def generate(
    root: Path,
    *,
    model: str,
    dtype: str,
    seed: int,
    fault: Fault | None,
    fused: bool,
    layout: str,
    tokens: int = 1,
    private: bool = False,
    ranks: int = 1,
    golden: str = "fx",
    also: Fault | None = None,
) -> Case:
    """Write both dumps of one case below ``root``.

    Args:
        root: folder for the case; made if missing, must hold no dump yet.
        model: a key of `generate.torchair_models.MODELS`.
        dtype: storage type of the device, ``float16`` or ``bfloat16``.
        seed: draws parameters and inputs.
        fault: what goes wrong, or None for a healthy pair.
        fused: run neighbouring elementwise operators as fused ones.
        layout: ``old`` (up to 7.0.0), ``7.1.0`` or ``later``; only the last has more than one rank.
        tokens: number of steps.
        private: the device inserts TransData and Cast operators that the graph lacks.
        ranks: number of processes.
        golden: ``fx``, or ``ge`` for the same device without fusion and without operators of its own.
        also: a second fault, in another execution and later; the truth remains the first.
    """
    assert layout in LAYOUTS
    assert golden in ("fx", "ge")
    assert ranks == 1 or layout == "later"
    built = MODELS[model](np.random.default_rng(seed))
    lowered = lower(built.trace, CONVERTERS)
    device = _device(lowered, built, dtype, fault, fused=fused, private=private)
    reference = None if golden == "fx" else replace(device, fused=(), undumped=frozenset(), converted=())
    folder = root / ("golden_ge_dump" if reference else GOLDEN_FOLDERS[layout])
    runs = []
    for rank in range(ranks):
        rank_runs = _runs(built, lowered, device, reference, (fault, also), seed=seed, rank=rank, tokens=tokens)
        written = [(run.token, run.device) for run in rank_runs]
        clean = rank_runs[0].clean
        _write_ge(root / "msprobe_ge_dump", layout, lowered, written, clean, dtype, rank=rank, ranks=ranks)
        if reference is not None:
            written = [(run.token, run.golden) for run in rank_runs]
            _write_ge(folder, layout, lowered, written, rank_runs[0].golden, dtype, rank=rank, ranks=ranks)
        else:
            _write_fx(root, layout, built, lowered, rank_runs, rank=rank, ranks=ranks)
        runs += rank_runs
    truth = None if fault is None else truth_of(built, lowered, runs[0].device.tasks, fault, golden=golden)
    return Case(root / "msprobe_ge_dump", folder, truth, lowered, runs, golden)


def _device(lowered: Lowered, model: Model, dtype: str, fault: Fault | None, *, fused: bool, private: bool) -> Device:
    products = [op.name for op in lowered.ops if op.type == "MatMulV2"]
    additions = [op.name for op in lowered.ops if op.type == "Add"]
    groups = fusion_groups(lowered) if fused else ()
    inside = {name for group in groups for name in group}
    return Device(
        storage=dtype,
        fused=groups,
        fractal_nz=frozenset(products[1::BLOCKED_PRODUCTS]),
        is_image=model.is_image,
        undumped=frozenset({fault.place} if fault is not None and fault.is_undumped else ()),
        converted=tuple([name for name in additions if name not in inside][:2]) if private else (),
    )


def fusion_groups(lowered: Lowered) -> tuple[tuple[str, ...], ...]:
    """Return pairs of neighbours that fit `FUSION_PATTERNS`; the first's result has no other reader."""
    by_name = {op.name: op for op in lowered.ops}
    readers: dict[str, list[str]] = {}
    for op in lowered.ops:
        for edge in op.inputs:
            readers.setdefault(edge, []).append(op.name)
    groups: list[tuple[str, ...]] = []
    taken: set[str] = set()
    for op in lowered.ops:
        following = readers.get(f"{op.name}:0", [])
        is_inner = op.fx_names[0] is None
        if len(following) != 1 or is_inner or not taken.isdisjoint({op.name, following[0]}):
            continue
        if (op.type, by_name[following[0]].type) in FUSION_PATTERNS:
            groups.append((op.name, following[0]))
            taken.update(groups[-1])
    return tuple(groups)


def _runs(
    model: Model,
    lowered: Lowered,
    device: Device,
    reference: Device | None,
    faults: Sequence[Fault | None],
    *,
    seed: int,
    rank: int,
    tokens: int,
) -> list[Run]:
    runs: list[Run] = []
    for token in range(tokens):
        feeds = model.feeds(np.random.default_rng([seed, rank, token]))
        golden = execute(lowered, feeds, reference, arithmetic=HOST if reference is None else DEVICE)
        clean = execute(lowered, feeds, device)
        wrong = clean
        here = (each for each in faults if each is not None and each.rank == rank and each.token in (None, token))
        fault = next(here, None)
        if fault is not None:
            previous = runs[-1].clean if runs else None
            wrong = _faulty(lowered, feeds, device, fault, previous)
        runs.append(Run(token, rank, golden, wrong, clean))
    return runs


def _faulty(
    lowered: Lowered, feeds: dict[str, Array], device: Device, fault: Fault, previous: Execution | None
) -> Execution:
    if fault.kind in PLACEHOLDER_KINDS:
        return _spoiled(lowered, feeds, device, fault)
    return execute(lowered, feeds, device, tamper=_tamper(fault, device.storage, previous))


def _tamper(fault: Fault, storage: str, previous: Execution | None) -> Tamper:
    def tamper(op: GeOp, inputs: Sequence[Array], outputs: Outputs) -> Outputs:
        if op.name != fault.place:
            return outputs
        before = None if previous is None else previous.tensors[f"{op.name}:0"]
        scene = Scene(inputs, outputs[0], before, fault.strength, storage, random_for(fault))
        wrong = OPERATOR_KINDS[fault.kind](scene)
        return wrong if isinstance(wrong, tuple) else (wrong, *outputs[1:])

    return tamper


def _spoiled(lowered: Lowered, feeds: dict[str, Array], device: Device, fault: Fault) -> Execution:
    """Run with a wrong placeholder or constant; the graph text still has the right one."""
    kind = PLACEHOLDER_KINDS[fault.kind]

    def wrong(right: Array) -> Array:
        return kind(Scene((), right, None, fault.strength, device.storage, random_for(fault)))

    if fault.place in feeds:
        return execute(lowered, {**feeds, fault.place: wrong(feeds[fault.place])}, device)
    ops = [replace(op, value=wrong(op.value)) if op.name == fault.place and op.value is not None else op
           for op in lowered.ops]  # fmt: skip
    return execute(Lowered(ops, lowered.edges), feeds, device)


def _write_ge(
    root: Path,
    layout: str,
    lowered: Lowered,
    executions: Sequence[tuple[int, Execution]],
    clean: Execution,
    dtype: str,
    *,
    rank: int,
    ranks: int,
) -> None:
    folder = root / f"worldsize{ranks}_global_rank{rank}" if layout == "later" else root
    stem = f"graph_{TS20}" if layout == "old" else f"graph_1_rank_{rank}_pid_{PROCESS + rank}_ts_{TS20}"
    tokens = folder / TIME14 / str(rank) / "graph_1_0" / "1"
    for token, execution in executions:
        delay = token * MICROSECONDS_BETWEEN_TOKENS
        write_tasks(tokens / str(token), execution, start=1_767_225_600_000_000 + delay)
    text = original_graph(lowered, clean, dtype, graph=1, has_constants=layout != "old")
    (root / f"dynamo_original_{stem}.txt").write_text(text, encoding="utf-8")


def _write_fx(
    root: Path, layout: str, model: Model, lowered: Lowered, runs: Sequence[Run], *, rank: int, ranks: int
) -> None:
    for run in runs:
        values = {ref: run.golden.tensors[edge] for ref, edge in lowered.edges.items()}
        folder = root / _fx_folder(layout, f"worldsize{ranks}_global_rank{rank}", run.token)
        write_fx_dump(folder, model.trace, values, start=TS20 + run.token * MICROSECONDS_BETWEEN_TOKENS)


def _fx_folder(layout: str, rank_folder: str, token: int) -> str:
    if layout == "later":
        return f"msprobe_fx_dump/{rank_folder}/graph_1/{token}"
    parent = "data_dump" if layout == "old" else "msprobe_fx_dump/data_dump"
    return f"{parent}/{token + 1}/gm_{TS20}_dump"
