"""Generate pairs of two device dumps of one graph, fusion on against fusion off, with one known fault, or none.

The target fuses neighbours and keeps tensors in private layouts. The golden device runs every operator alone, may store
another element type, and keeps plain layouts (matrix products in FRACTAL_NZ at other places than the target).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from fx_writer import Array
from ge_device import Device, Execution, Outputs, execute, original_graph, write_tasks
from ge_lowering import GeOp, Lowered, lower

from generate.torchair_faults import OPERATOR_KINDS, PLACEHOLDER_KINDS, Fault, Scene, random_for
from generate.torchair_models import MODELS
from generate.torchair_ops import CONVERTERS
from generate.torchair_pairs import fusion_groups

STARTS = {"fusion_on": 1_767_225_600_000_000, "fusion_off": 1_767_226_100_000_000}
MICROSECONDS_BETWEEN_TOKENS = 1_000_000
GRAPH_FILE = "dynamo_original_graph_1_rank_{rank}_pid_{pid}_ts_20260101000000000001.txt"
BLOCKED_PRODUCTS = 3


@dataclass(frozen=True, slots=True)
class FirstWrong:
    """The first dumped tensor of the target that the fault changed.

    Args:
        node, role, index: which.
        token, rank: in which execution.
        clearance: how far it is from the right one, in distances of that from the golden one.
    """

    node: str
    role: str
    index: int
    token: int
    rank: int
    clearance: float


@dataclass(frozen=True, slots=True)
class FusionCase:
    """A generated pair, and what a diagnosis has to say (None: nothing is wrong)."""

    target: Path
    golden: Path
    truth: FirstWrong | None


@dataclass(frozen=True, slots=True)
class FusionSpec:
    """One pair.

    Args:
        name: of the case.
        model: a key of `generate.torchair_models.MODELS`.
        dtype: storage type of the target, ``float16`` or ``bfloat16``.
        golden_dtype: storage type of the golden device.
        fault: what goes wrong on the target.
        private: both devices insert TransData and Cast operators of their own, numbered as they come.
        tokens, ranks: how many.
        seed: draws parameters and inputs.
    """

    name: str
    model: str
    dtype: str
    golden_dtype: str
    fault: Fault | None = None
    private: bool = False
    tokens: int = 1
    ranks: int = 1
    seed: int = 0

    def generate(self, root: Path) -> FusionCase:
        """Write both dumps below ``root``."""
        built = MODELS[self.model](np.random.default_rng(self.seed))
        lowered = lower(built.trace, CONVERTERS)
        devices = self._devices(lowered, is_image=built.is_image)
        truth: FirstWrong | None = None
        for rank in range(self.ranks):
            for token in range(self.tokens):
                feeds = built.feeds(np.random.default_rng([self.seed, rank, token]))
                clean = execute(lowered, feeds, devices["fusion_on"])
                wrong = self._run(lowered, feeds, devices["fusion_on"], rank, token) or clean
                golden = execute(lowered, feeds, devices["fusion_off"])
                truth = truth or _first_changed(clean, wrong, golden, token, rank)
                for side, run in (("fusion_on", wrong), ("fusion_off", golden)):
                    _write(root / side, lowered, run, devices[side], clean, side, rank, token, ranks=self.ranks)
        return FusionCase(root / "fusion_on", root / "fusion_off", truth)

    def _devices(self, lowered: Lowered, *, is_image: bool) -> dict[str, Device]:
        groups = fusion_groups(lowered)
        inside = {name for group in groups for name in group}
        products = [op.name for op in lowered.ops if op.type == "MatMulV2"]
        alone = [op.name for op in lowered.ops if op.type == "Add" and op.name not in inside]
        return {
            "fusion_on": Device(
                storage=self.dtype,
                fused=groups,
                fractal_nz=frozenset(products[1::BLOCKED_PRODUCTS]),
                is_image=is_image,
                converted=tuple(alone[:2]) if self.private else (),
            ),
            "fusion_off": Device(
                storage=self.golden_dtype,
                fractal_nz=frozenset(products[2::BLOCKED_PRODUCTS]),
                converted=tuple(alone[1:3]) if self.private else (),
            ),
        }

    def _run(
        self, lowered: Lowered, feeds: dict[str, Array], device: Device, rank: int, token: int
    ) -> Execution | None:
        """Run with the fault; None where it does not happen."""
        fault = self.fault
        if fault is None or fault.rank != rank or fault.token not in (None, token):
            return None
        if fault.kind in PLACEHOLDER_KINDS:
            scene = Scene((), feeds[fault.place], None, fault.strength, device.storage, random_for(fault))
            return execute(lowered, {**feeds, fault.place: PLACEHOLDER_KINDS[fault.kind](scene)}, device)

        def tamper(op: GeOp, inputs: Sequence[Array], outputs: Outputs) -> Outputs:
            if op.name != fault.place:
                return outputs
            scene = Scene(inputs, outputs[0], None, fault.strength, device.storage, random_for(fault))
            wrong = OPERATOR_KINDS[fault.kind](scene)
            return wrong if isinstance(wrong, tuple) else (wrong, *outputs[1:])

        return execute(lowered, feeds, device, tamper=tamper)


def _first_changed(clean: Execution, wrong: Execution, golden: Execution, token: int, rank: int) -> FirstWrong | None:
    for right, task in zip(clean.tasks, wrong.tasks, strict=True):
        for role in ("input", "output"):
            pairs = zip(getattr(right, f"{role}s"), getattr(task, f"{role}s"), strict=True)
            for index, (before, after) in enumerate(pairs):
                is_float = before.array.dtype.kind == "f"
                if not np.array_equal(before.array, after.array, equal_nan=is_float):
                    clearance = _clearance(after.array, before.array, golden.tensors[after.edge])
                    return FirstWrong(task.name, role, index, token, rank, clearance)
    return None


def _clearance(wrong: Array, right: Array, golden: Array) -> float:
    if not np.array_equal(np.isfinite(wrong), np.isfinite(right)):
        return math.inf
    finite = np.isfinite(wrong)
    fault = abs(wrong[finite].astype(np.float64) - right[finite])
    noise = abs(right[finite].astype(np.float64) - golden[finite])
    return float(max(fault.max() / max(noise.max(), 1e-30), np.linalg.norm(fault) / max(np.linalg.norm(noise), 1e-30)))


def _write(
    root: Path, lowered: Lowered, run: Execution, device: Device, clean: Execution, side: str, rank: int, token: int,
    *, ranks: int,
) -> None:  # fmt: skip
    dump = root / "msprobe_ge_dump"
    folder = (
        dump / f"worldsize{ranks}_global_rank{rank}" / "20260101000000" / str(rank) / "graph_1_0" / "1" / str(token)
    )
    write_tasks(folder, run, start=STARTS[side] + token * MICROSECONDS_BETWEEN_TOKENS)
    text = original_graph(lowered, clean, device.storage, graph=1, has_constants=True)
    (dump / GRAPH_FILE.format(rank=rank, pid=4242 + rank)).write_text(text, encoding="utf-8")


FUSION_FAULTS: list[FusionSpec] = [
    # inside fused operators: only the result of the group is dumped
    FusionSpec("first_part_scale", "transformer", "float16", "float16", Fault("scale", "Mul_1", 0.03), seed=81),
    FusionSpec("first_part_low_precision", "transformer", "bfloat16", "bfloat16", Fault("scale", "Mul_3", 0.1),
               private=True, seed=82),
    FusionSpec("first_part_against_float32", "convolution", "float16", "float32", Fault("scale_channel", "Mul_3", 0.05),
               seed=83),
    FusionSpec("last_part_row", "rotary", "float16", "float16", Fault("flip_row", "Add_10"), seed=84),
    FusionSpec("gate_tail", "recurrent", "float16", "float16", Fault("zero_tail", "Sub_2", 3), seed=85),
    FusionSpec("gate_approximated", "mixer", "float16", "float32", Fault("hard_sigmoid", "Sigmoid_1"), seed=86),
    FusionSpec("later_token_scale", "rotary", "float16", "float16", Fault("scale", "Swish_1", 0.02, token=1), tokens=2,
               private=True, seed=87),
    FusionSpec("one_rank_mask", "masked", "float16", "float16", Fault("unmasked_entry", "Add_8", rank=1), ranks=2,
               seed=88),
    # in private layouts that the golden does not have
    FusionSpec("image_channel", "convolution", "float16", "float16", Fault("scale_channel", "Conv2D_2", 0.03), seed=89),
    FusionSpec("image_against_float32", "convolution", "bfloat16", "float32",
               Fault("scale_channel", "Conv2D_1", 0.2), seed=90),
    FusionSpec("filter_weight", "convolution", "float16", "float16", Fault("wrong_weight_element", "params_9", 3.0),
               seed=91),
    FusionSpec("blocked_product", "deep", "float16", "float16", Fault("repeat_row", "MatMulV2_22"), private=True,
               seed=92),
]  # fmt: skip
"""One fault each."""

FUSION_HEALTHY: list[FusionSpec] = [
    FusionSpec("healthy_transformer", "transformer", "bfloat16", "bfloat16", private=True, seed=95),
    FusionSpec("healthy_image", "convolution", "float16", "float32", seed=96),
    FusionSpec("healthy_gates", "recurrent", "float16", "float16", private=True, tokens=2, seed=97),
    FusionSpec("healthy_ranks", "rotary", "float16", "float16", private=True, ranks=2, seed=98),
    FusionSpec("healthy_cancellation", "reduction", "bfloat16", "float32", seed=99),
]
"""Nothing is wrong."""
