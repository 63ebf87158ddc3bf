"""Our own metrics of tensors pass the tests that packages run on theirs, against numpy in float64 or wider."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from probe_flow.metrics.catalogue.registry import METRICS, THIRD_SIDE
from probe_flow.records import Mode
from probe_flow.testing.metrics import Floats, MetricTests

EPS32 = 1.1920929e-07
"""Golden elements that are no larger count as zeros for the masked metrics; those of a drawn tensor are all larger."""


def errors(target: Floats, golden: Floats) -> Floats:
    return np.abs(target - golden)


def relative(target: Floats, golden: Floats) -> Floats:
    return np.abs(target - golden) / np.abs(golden)


def cosine(target: Floats, golden: Floats) -> float:
    return float(np.dot(target, golden) / (np.linalg.norm(target) * np.linalg.norm(golden)))


def relative_distance(target: Floats, golden: Floats) -> float:
    return float(np.linalg.norm(target - golden) / np.linalg.norm(golden))


def divergence(p: Floats, q: Floats) -> float:
    """Kullback-Leibler divergence of q from p, as a sum of terms that are never negative."""
    ratio = q / p
    return float(np.sum(p * (ratio - 1 - np.log(ratio))) + np.sum(p - q))


def softmax(values: Floats) -> Floats:
    weights = np.exp(values.astype(np.longdouble) - values.max())
    return weights / weights.sum()


def fractions(values: Floats) -> Floats:
    wide = values.astype(np.longdouble)
    parts = np.maximum((wide - wide.min()) / (wide.max() - wide.min()), EPS32)
    return parts / parts.sum()


def bias(target: Floats, golden: Floats) -> float:
    return float(np.abs(np.sum(target - golden)) / np.sum(errors(target, golden))) if (target != golden).any() else 0.0


ORACLES: Mapping[str, Callable[[Floats, Floats], float]] = {
    "cosine": cosine,
    "cosine_or_zero": cosine,
    "euclidean_distance": lambda t, g: float(np.linalg.norm(t - g)),
    "relative_euclidean_distance": relative_distance,
    "relative_euclidean_distance_or_zero": relative_distance,
    "max_abs_err": lambda t, g: errors(t, g).max(),
    "mean_abs_err": lambda t, g: errors(t, g).mean(),
    "rmse": lambda t, g: np.sqrt(np.mean((t - g) ** 2)),
    "max_rel_err": lambda t, g: relative(t, g).max(),
    "mean_rel_err": lambda t, g: relative(t, g).mean(),
    "err_ratio_1e3": lambda t, g: np.mean(relative(t, g) < 0.001),
    "err_ratio_5e3": lambda t, g: np.mean(relative(t, g) < 0.005),
    "max_rel_err_eps": lambda t, g: relative(t, g).max(),
    "mean_rel_err_eps": lambda t, g: relative(t, g).mean(),
    "err_ratio_1e3_eps": lambda t, g: np.mean(relative(t, g) < 0.001),
    "err_ratio_5e3_eps": lambda t, g: np.mean(relative(t, g) < 0.005),
    "unequal_count": lambda t, g: np.sum(t != g),
    "unequal_ratio": lambda t, g: np.mean(t != g),
    "mean_target": lambda t, g: t.mean(),
    "mean_golden": lambda t, g: g.mean(),
    "std_target": lambda t, g: t.std(),
    "std_golden": lambda t, g: g.std(),
    "mean_err": lambda t, g: np.mean(t - g),
    "bias_ratio": bias,
    "acc_rel_err": lambda t, g: relative(t, g).sum(),
    "max_rel_err_masked": lambda t, g: relative(t, g).max(),
    "mean_rel_err_masked": lambda t, g: relative(t, g).mean(),
    "max_rel_err_masked_eps32": lambda t, g: relative(t, g).max(),
    "mean_rel_err_masked_eps32": lambda t, g: relative(t, g).mean(),
    "max_abs_err_masked_eps32": lambda t, g: errors(t, g).max(),
    "mean_abs_err_masked_eps32": lambda t, g: errors(t, g).mean(),
    "kl_minmax": lambda t, g: divergence(fractions(t), fractions(g)),
    "kl_softmax": lambda t, g: divergence(softmax(g), softmax(t)),
}


OF_THREE_SIDES = {metric.id for metric in THIRD_SIDE}
OF_TENSORS = [name for name in METRICS.built_in if METRICS[name].mode is Mode.TENSOR and name not in OF_THREE_SIDES]
DIFFERENCES_OF_SUMS = {"kl_minmax": 1e-13, "kl_softmax": 1e-13}
"""Metrics that are exact only in comparison with the terms that they add."""


@pytest.mark.parametrize("name", OF_TENSORS)
class TestMetrics(MetricTests):
    @pytest.fixture(autouse=True)
    def _named(self, name: str) -> None:
        assert name in ORACLES, f"no oracle for the metric `{name}`: add one to ORACLES"
        self.metric, self.absolute = METRICS[name], DIFFERENCES_OF_SUMS.get(name, self.absolute)

    def oracle(self, target: Floats, golden: Floats) -> float:
        return float(ORACLES[self.metric.id](target, golden))


def test_what_has_an_oracle_is_a_metric() -> None:
    assert set(ORACLES) <= set(OF_TENSORS)
