"""Every tensor metric worked out slowly with 60 digits, element by element, from the definitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mpmath import mp, mpf

from probe_flow.testing.builders import ArrayBlocks

Number = int | float | complex

EPS32 = mpf(1.1920929e-07)
EPS64 = mpf(2) ** -52


def exact(blocks: ArrayBlocks) -> list[Any]:
    """Return the elements of a tensor in memory as Python numbers, without rounding."""
    array = blocks.array
    if array.dtype.kind in "biufc" and array.dtype.itemsize > 1:
        return list(array.tolist())
    if array.dtype.kind in "biu":
        return [int(value) for value in array]
    return [float(value) for value in array]


def parts(value: Number) -> tuple[float | int, ...]:
    return (value.real, value.imag) if isinstance(value, complex) else (value,)


def is_finite(value: Number) -> bool:
    return all(isinstance(part, int) or math.isfinite(part) for part in parts(value))


def modulus(*terms: mpf) -> mpf:
    return mp.sqrt(sum((term * term for term in terms), mpf(0)))


def oracle(target: Sequence[Number], golden: Sequence[Number], eps: float) -> dict[str, float | None]:
    """Return id -> value; None where the metric cannot be computed."""
    with mp.workdps(60):
        return _oracle(target, golden, mpf(eps))


def _oracle(target: Sequence[Number], golden: Sequence[Number], eps: mpf) -> dict[str, float | None]:
    places = [i for i, (t, g) in enumerate(zip(target, golden, strict=True)) if is_finite(t) and is_finite(g)]
    found: dict[str, object] = dict.fromkeys(IDS)
    found |= _side_figures(target, "target") | _side_figures(golden, "golden")
    found["unequal_count"] = sum(not _same(t, g) for t, g in zip(target, golden, strict=True))
    found["unequal_ratio"] = mpf(found["unequal_count"]) / len(target) if target else None
    if not places:
        return {key: value if value is None else float(value) for key, value in found.items()}
    t = [[mpf(p) for p in _pair(target[i], golden[i])[0]] for i in places]
    g = [[mpf(p) for p in _pair(target[i], golden[i])[1]] for i in places]
    n = len(places)
    err = [modulus(*(a - b for a, b in zip(x, y, strict=True))) for x, y in zip(t, g, strict=True)]
    mag = [modulus(*y) for y in g]
    norm_t = mp.sqrt(sum(p * p for x in t for p in x))
    norm_g = mp.sqrt(sum(p * p for y in g for p in y))
    norm_e = mp.sqrt(sum(e * e for e in err))
    dot = sum(a * b for x, y in zip(t, g, strict=True) for a, b in zip(x, y, strict=True))
    if norm_t and norm_g:
        cosine = either = dot / (norm_t * norm_g)
    elif not norm_t and not norm_g:
        cosine = either = mpf(1)
    else:
        cosine, either = mp.nan, mpf(0)
    found["cosine"] = None if len(target) == 1 else cosine
    found["cosine_or_zero"] = either
    found["euclidean_distance"] = norm_e
    rel_euc = norm_e / norm_g if norm_g else (mp.inf if norm_e else mpf(0))
    found["relative_euclidean_distance"] = rel_euc
    found["relative_euclidean_distance_or_zero"] = mpf(0) if norm_g <= EPS32 else rel_euc
    found["max_abs_err"], found["mean_abs_err"] = max(err), sum(err) / n
    found["rmse"] = mp.sqrt(sum(e * e for e in err) / n)
    strict = [e / m if m else (mp.inf if e else mpf(0)) for e, m in zip(err, mag, strict=True)]
    loose = [e / m if m else e / eps for e, m in zip(err, mag, strict=True)]
    for suffix, rel in (("", strict), ("_eps", loose)):
        found["max_rel_err" + suffix], found["mean_rel_err" + suffix] = max(rel), sum(rel) / n
        found["err_ratio_1e3" + suffix] = mpf(sum(r < mpf("0.001") for r in rel)) / n
        found["err_ratio_5e3" + suffix] = mpf(sum(r < mpf("0.005") for r in rel)) / n
    kept = [(e, e / m) for e, m in zip(err, mag, strict=True) if m > EPS32]
    found["max_abs_err_masked_eps32"] = max((e for e, _ in kept), default=mpf(0))
    found["max_rel_err_masked_eps32"] = max((r for _, r in kept), default=mpf(0))
    found["mean_abs_err_masked_eps32"] = sum((e for e, _ in kept), mpf(0)) / n
    found["mean_rel_err_masked_eps32"] = sum((r for _, r in kept), mpf(0)) / n
    beyond = [e / m for e, m in zip(err, mag, strict=True) if m > EPS64]
    nothing = mp.nan if max(err) else mpf(0)
    found["acc_rel_err"] = sum(beyond) if beyond else nothing
    found["max_rel_err_masked"] = max(beyond) if beyond else nothing
    found["mean_rel_err_masked"] = sum(beyond) / n if beyond else nothing
    if len(t[0]) == 1:
        bias = sum((x[0] - y[0] for x, y in zip(t, g, strict=True)), mpf(0))
        found["mean_err"], found["bias_ratio"] = bias / n, abs(bias) / sum(err) if any(err) else mpf(0)
        found["kl_minmax"] = _range_divergence([x[0] for x in t], [y[0] for y in g])
    if n == len(target) and len(t[0]) == 1:
        found["kl_softmax"] = _divergence([y[0] for y in g], [x[0] for x in t])
    return {key: value if value is None else float(value) for key, value in found.items()}


def _pair(t: Number, g: Number) -> tuple[Sequence[float], Sequence[float]]:
    if isinstance(t, complex) or isinstance(g, complex):
        return (t.real, t.imag), (g.real, g.imag)
    return (t,), (g,)


def _same(t: Number, g: Number) -> bool:
    if t == g:
        return True
    return any(p != p for p in parts(t)) and any(p != p for p in parts(g))


def _side_figures(values: Sequence[Number], side: str) -> dict[str, object]:
    numbers = [mpf(p) for value in values if is_finite(value) for p in parts(value)]
    if not numbers:
        return {f"mean_{side}": None, f"std_{side}": None}
    mean = sum(numbers) / len(numbers)
    return {
        f"mean_{side}": mean,
        f"std_{side}": mp.sqrt(sum((v - mean) ** 2 for v in numbers) / len(numbers)),
    }


def _divergence(golden: list[mpf], target: list[mpf]) -> mpf:
    def softmax(values: list[mpf]) -> list[mpf]:
        top = max(values)
        weights = [mp.exp(v - top) for v in values]
        return [w / sum(weights) for w in weights]

    p, q = softmax(golden), softmax(target)
    return max(mpf(0), sum(a * (mp.log(a) - mp.log(b)) for a, b in zip(p, q, strict=True)))


def _range_divergence(target: list[mpf], golden: list[mpf]) -> mpf:
    def fractions(values: list[mpf]) -> list[mpf]:
        low, high = min(values), max(values)
        parts = [max((v - low) / (high - low), EPS32) if high > low else mpf(1) for v in values]
        return [part / sum(parts) for part in parts]

    p, q = fractions(target), fractions(golden)
    return max(mpf(0), sum(a * mp.log(a / b) for a, b in zip(p, q, strict=True)))


IDS = (
    "cosine", "euclidean_distance", "relative_euclidean_distance", "max_abs_err", "mean_abs_err", "rmse",
    "max_rel_err", "mean_rel_err", "err_ratio_1e3", "err_ratio_5e3", "max_rel_err_eps", "mean_rel_err_eps",
    "err_ratio_1e3_eps", "err_ratio_5e3_eps", "unequal_count", "mean_target", "mean_golden", "std_target",
    "std_golden", "cosine_or_zero", "relative_euclidean_distance_or_zero", "max_rel_err_masked_eps32",
    "mean_rel_err_masked_eps32", "max_abs_err_masked_eps32", "mean_abs_err_masked_eps32", "kl_softmax",
    "unequal_ratio", "acc_rel_err", "max_rel_err_masked", "mean_rel_err_masked", "kl_minmax",
    "mean_err", "bias_ratio",
)  # fmt: skip
