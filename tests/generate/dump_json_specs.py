"""What a generated pair is made of: a model, the way each side runs, and what goes wrong on the target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Spec:
    """One pair of dumps.

    Args:
        name: folder of the pair.
        model, seed: which network with which weights and batch.
        kind: what goes wrong: a kind of `dump_json_kernels`, or one of the model's own (`dump_json_changes`); empty
            for a healthy pair.
        label, call: for kernels which call goes wrong, e.g. ``Functional.linear``, 3.
        strength: what it means is the kind's own business.
        step: in which step; ``steps``: how many are dumped.
        dtype: of the target; the golden runs in float32.
        noise: relative error added to every product of the target: another order of summation.
        level: of the collector, mix, L0 or L1.
        recompute: how the target recomputes activations (`Model.recompute`).
        ranks: processes; the fault is on the last one.
        optimizer: of both sides between steps, ``sgd`` or ``adamw``.
    """

    name: str
    model: str
    seed: int = 0
    kind: str = ""
    label: str = ""
    call: int = 0
    strength: float = 0.0
    step: int = 0
    steps: int = 1
    dtype: str = "float32"
    noise: float = 0.0
    level: str = "mix"
    recompute: bool | None = None
    ranks: int = 1
    optimizer: str = "sgd"
