"""Which pairs a suite holds: faults drawn at random over models, kinds, places and dtypes, and the healthy pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from generate.dump_json_kernels import BACKWARD, FORWARD, fits
from generate.dump_json_specs import Spec

SETTINGS = (("float32", 0.0), ("float32", 1e-7), ("bfloat16", 0.0), ("float16", 0.0))
"""Dtype of the target, and the noise of its products."""

STRENGTHS = {
    "scale": (0.02, 0.05, 0.1),
    "channel": (-1.0, 0.5, -0.3),
    "element": (6.0, 15.0, 40.0),
    "shift": (0.05, 0.2),
    "coarse": (3.0, 4.0),
    "eps": (0.1, 0.5),
    "grad_scale": (0.03, 0.1, -0.5),
    "grad_weight": (0.05, 0.5),
    "grad_channel": (-1.0, 0.5),
    "grad_element": (6.0, 20.0),
    "grad_shift": (0.1, 0.3),
    "param_scale": (0.02, 0.1),
    "param_element": (8.0, 20.0),
    "eps_argument": (0.1, 0.5),
    "scale_argument": (0.05, 0.3),
    "extra_call": (0.05, 0.1),
    "wrong_input": (2.0, 5.0),
    "late_parameter": (0.05, 0.2),
}
CHANGES_OF = {
    "param_scale": (),
    "param_element": (),
    "param_zero": (),
    "wrong_input": (),
    "late_parameter": (),
    "param_transpose": ("transformer", "llama", "sdpa", "tied"),
    "eps_argument": ("transformer", "cnn", "unet", "patches", "deep"),
    "scale_argument": ("transformer", "tied"),
    "undumped_swap": ("transformer", "tied", "sdpa"),
    "extra_call": ("transformer", "deep", "mixture", "sdpa"),
    "dropped_call": ("transformer", "mixture", "patches"),
}
"""Faults of the model and the models they can happen to (empty: all)."""

RESIDUAL = ("transformer", "tied", "cnn", "recurrent", "llama", "mixture", "unet", "patches", "sdpa", "deep")

Census = Sequence[Sequence[object]]


def draw(model: str, seed: int, census: Census, count: int) -> list[Spec]:
    """Return ``count`` faults of one model: kinds in turn, places at random."""
    random = np.random.default_rng([seed, *map(ord, model)])
    kinds = [*FORWARD, *BACKWARD, *(kind for kind, models in CHANGES_OF.items() if not models or model in models)]
    random.shuffle(kinds)
    specs: list[Spec] = []
    turn = 0
    while len(specs) < count and turn < 4 * count:
        kind = kinds[turn % len(kinds)]
        turn += 1
        dtype, noise = SETTINGS[random.integers(len(SETTINGS))]
        choices = STRENGTHS.get(kind, (0.0,))
        strength = choices[random.integers(len(choices))]
        label, call = "", 0
        if kind not in CHANGES_OF:
            possible = [row for row in census if _fits(kind, row)]
            if not possible:
                continue
            row = possible[random.integers(len(possible))]
            label, call = str(row[1]), int(str(row[2]))
        place = f"{label.replace('.', '_')}{call}" if label else ""
        late = kind == "late_parameter"
        specs.append(
            Spec(
                name=f"{model}-{seed}-{kind}-{place}-{dtype}{'n' if noise else ''}",
                model=model, seed=seed, kind=kind, label=label, call=call, strength=strength, dtype=dtype, noise=noise,
                steps=2 if late else 1, step=1 if late else 0,
            )
        )  # fmt: skip
    return specs


def _fits(kind: str, row: Sequence) -> bool:
    step, label, _call, shape, grad, square, has_bias, previous = row
    bias = square if kind == "transposed" else has_bias
    if kind == "grad_weight" and label == "Functional.conv2d":
        return False  # the smallest gradient is that of a bias, which is zero before a batch norm: nothing to see
    return step == 0 and fits(kind, label.partition(".")[2], tuple(shape), grad, bias, previous)


def healthy(model: str, seed: int) -> list[Spec]:
    """Return the healthy pairs of one model."""
    pairs = []
    for dtype, noise in SETTINGS[1:]:
        for steps in (1, 2):
            if steps == 2 and model == "deep":
                continue
            name = f"{model}-{seed}-healthy-{dtype}{'n' if noise else ''}-{steps}"
            pairs.append(Spec(name, model, seed, dtype=dtype, noise=noise, steps=steps))
    if model in ("transformer", "cnn", "llama", "tied"):
        for recompute in (True, False):
            name = f"{model}-{seed}-healthy-recompute-{recompute}"
            pairs.append(Spec(name, model, seed, recompute=recompute, noise=1e-7))
            pairs.append(Spec(name + "-bf16", model, seed, recompute=recompute, dtype="bfloat16"))
    return pairs
