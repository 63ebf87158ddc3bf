"""Generate pairs of a TorchAir device dump and a golden FX dump with one known fault, or none. No torch needed.

A model (`torchair_models`) runs twice: in float32 (golden) and as the simulated device of the bundled sample runs it,
in float16 or bfloat16 storage, each operator on what the device computed before. So a healthy pair has the noise of a
real one, and a fault travels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fx_writer import Array, FxNode, Ref, write_fx_dump
from ge_device import Device, Execution, Outputs, Tamper, execute, original_graph, write_tasks
from ge_kernels import HOST
from ge_lowering import GeOp, Lowered, lower

from generate.torchair_faults import OPERATOR_KINDS, PLACEHOLDER_KINDS, Fault, Scene, random_for
from generate.torchair_models import MODELS, Model
from generate.torchair_ops import CONVERTERS

LAYOUTS = ("old", "7.1.0", "later")

TIME14 = "20260101000000"
TS20 = 20260101000000000001
MICROSECONDS_BETWEEN_TOKENS = 1_000_000
PROCESS = 4242

FUSION_PATTERNS = {("Mul", "Add"), ("Add", "Relu"), ("Sub", "Mul"), ("Sigmoid", "Mul"), ("Swish", "Mul")}
"""Neighbours that the simulated device runs as one buffer-fused operator."""

BLOCKED_PRODUCTS = 3
"""Every so many matrix products one is stored in FRACTAL_NZ."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The first tensor in execution order that is wrong although its inputs are right, and that the dump shows.

    Args:
        node: name of the dumped device operator.
        role: ``output``, or ``input`` where the producer leaves no file or is no operator.
        index: which of them.
        golden_node: FX node whose dump is the golden side of that tensor.
        accept: device operators that are right answers too: the one that went wrong, if the dump names it.
    """

    node: str
    role: str
    index: int
    golden_node: str
    token: int
    rank: int
    accept: frozenset[str]


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
    """
    assert layout in LAYOUTS
    assert ranks == 1 or layout == "later"
    built = MODELS[model](np.random.default_rng(seed))
    lowered = lower(built.trace, CONVERTERS)
    device = _device(lowered, built, dtype, fault, fused=fused, private=private)
    runs = []
    for rank in range(ranks):
        rank_runs = _runs(built, lowered, device, fault, seed=seed, rank=rank, tokens=tokens)
        _write_rank(root, layout, built, lowered, rank_runs, dtype, ranks=ranks)
        runs += rank_runs
    truth = None if fault is None else _truth(built, lowered, runs, fault)
    golden = {"old": "data_dump", "7.1.0": "msprobe_fx_dump/data_dump", "later": "msprobe_fx_dump"}[layout]
    return Case(root / "msprobe_ge_dump", root / golden, truth, lowered, runs)


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
    model: Model, lowered: Lowered, device: Device, fault: Fault | None, *, seed: int, rank: int, tokens: int
) -> list[Run]:
    runs: list[Run] = []
    for token in range(tokens):
        feeds = model.feeds(np.random.default_rng([seed, rank, token]))
        golden = execute(lowered, feeds, None, arithmetic=HOST)
        clean = execute(lowered, feeds, device)
        wrong = clean
        if fault is not None and fault.rank == rank and fault.token in (None, token):
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


def _write_rank(
    root: Path, layout: str, model: Model, lowered: Lowered, runs: Sequence[Run], dtype: str, *, ranks: int
) -> None:
    rank = runs[0].rank
    folder = f"worldsize{ranks}_global_rank{rank}"
    device_root = root / "msprobe_ge_dump"
    stem = f"graph_{TS20}" if layout == "old" else f"graph_1_rank_{rank}_pid_{PROCESS + rank}_ts_{TS20}"
    tokens_root = (device_root / folder if layout == "later" else device_root) / TIME14 / str(rank) / "graph_1_0" / "1"
    for run in runs:
        delay = run.token * MICROSECONDS_BETWEEN_TOKENS
        write_tasks(tokens_root / str(run.token), run.device, start=1_767_225_600_000_000 + delay)
        values = {ref: run.golden.tensors[edge] for ref, edge in lowered.edges.items()}
        write_fx_dump(root / _fx_folder(layout, folder, run.token), model.trace, values, start=TS20 + delay)
    text = original_graph(lowered, runs[0].clean, dtype, graph=1, has_constants=layout != "old")
    (device_root / f"dynamo_original_{stem}.txt").write_text(text, encoding="utf-8")


def _fx_folder(layout: str, rank_folder: str, token: int) -> str:
    if layout == "later":
        return f"msprobe_fx_dump/{rank_folder}/graph_1/{token}"
    parent = "data_dump" if layout == "old" else "msprobe_fx_dump/data_dump"
    return f"{parent}/{token + 1}/gm_{TS20}_dump"


def _truth(model: Model, lowered: Lowered, runs: Sequence[Run], fault: Fault) -> Truth:
    """Follow the graph from the fault to the first dumped tensor that has a golden side."""
    spoiled = _descendants(lowered, fault.place)
    names = _fx_names(lowered)
    by_name = {op.name: op for op in lowered.ops}
    fx_nodes = {node.name: node for node in model.trace.nodes}
    for task in runs[0].device.tasks:
        held = [("input", k, held.edge) for k, held in enumerate(task.inputs)]
        held += [("output", k, held.edge) for k, held in enumerate(task.outputs)]
        for role, index, edge in held if task.parts else ():
            golden = names.get(edge)
            if edge in spoiled and golden is None and role == "input":
                readers = [by_name[part] for part in task.parts if edge in by_name[part].inputs]
                golden = _own_argument(readers[0], edge, fx_nodes)
            if edge in spoiled and golden is not None:
                token = fault.token or 0
                accept = frozenset({task.name, *([fault.place] if by_name[fault.place].is_executed else [])})
                return Truth(task.name, role, index, golden.split("-aten.")[0], token, fault.rank, accept)
    raise AssertionError(f"no dumped tensor shows {fault}")


def _descendants(lowered: Lowered, place: str) -> frozenset[str]:
    assert any(op.name == place for op in lowered.ops), place
    spoiled = {f"{place}:0"}
    for op in lowered.ops:
        if not spoiled.isdisjoint(op.inputs):
            spoiled.update(f"{op.name}:{index}" for index in range(len(op.fx_names)))
    return frozenset(spoiled)


def _fx_names(lowered: Lowered) -> dict[str, str]:
    return {
        f"{op.name}:{index}": name for op in lowered.ops for index, name in enumerate(op.fx_names) if name is not None
    }


def _own_argument(reader: GeOp, edge: str, fx_nodes: Mapping[str, FxNode]) -> str | None:
    """Return the reader's own FX name if its dump holds this placeholder or scalar as an argument."""
    producer = edge.partition(":")[0]
    has_name = reader.fx_names[0] is not None and reader.fx_node in fx_nodes
    is_argument = producer.startswith("Const") or Ref(producer) in fx_nodes[reader.fx_node].args
    return reader.fx_names[0] if has_name and is_argument else None
