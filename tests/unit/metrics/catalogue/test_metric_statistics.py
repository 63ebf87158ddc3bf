"""Statistics mode: differences and plain ratios of recorded statistics."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probe_flow.metrics.catalogue.statistics import compare_statistics
from probe_flow.records import Statistics

NAN, INF = math.nan, math.inf


def test_differences_and_ratios_by_hand() -> None:
    values = compare_statistics(
        Statistics(max=2.1, min=-4.0, mean=0.5, l2norm=3.0), Statistics(max=2.0, min=-5.0, mean=-0.5, l2norm=3.0)
    )
    assert list(values) == [
        "max_diff", "max_diff_rel", "min_diff", "min_diff_rel", "mean_diff", "mean_diff_rel", "l2norm_diff",
        "l2norm_diff_rel",
    ]  # fmt: skip
    assert values["max_diff"] == pytest.approx(0.1)
    assert values["max_diff_rel"] == pytest.approx(0.05)
    assert (values["min_diff"], values["min_diff_rel"]) == (1.0, 0.2)
    assert (values["mean_diff"], values["mean_diff_rel"]) == (1.0, 2.0)
    assert (values["l2norm_diff"], values["l2norm_diff_rel"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("target", "golden", "difference", "ratio"),
    [
        (1.0, 0.0, 1.0, INF), (0.0, 0.0, 0.0, 0.0), (0.0, 2.0, -2.0, 1.0),
        (NAN, 1.0, NAN, NAN), (1.0, NAN, NAN, NAN), (NAN, NAN, NAN, NAN), (NAN, INF, NAN, NAN),
        (INF, INF, 0.0, 0.0), (-INF, -INF, 0.0, 0.0), (INF, 1.0, INF, INF), (INF, -INF, INF, INF),
        (-INF, 1.0, -INF, INF), (-INF, INF, -INF, INF), (1.0, INF, -INF, INF), (1.0, -INF, INF, INF),
        (True, False, 1, INF), (True, True, 0, 0.0), (False, True, -1, 1.0), (True, 2.0, -1.0, 0.5),
        (2**53 + 1, 2**53, 1, 2.0**-53), (10**400, 1, 10**400 - 1, INF), (10**400, 1.5, INF, INF),
        (-(10**400), 1.5, -INF, INF), (None, 1.0, None, None), (1.0, None, None, None), (None, None, None, None),
    ],
)  # fmt: skip
def test_special_cases(target: float | None, golden: float | None, difference: object, ratio: object) -> None:
    values = compare_statistics(Statistics(max=target), Statistics(max=golden))
    for got, want in ((values["max_diff"], difference), (values["max_diff_rel"], ratio)):
        if want is None:
            assert got is None
        else:
            assert got == pytest.approx(want, nan_ok=True, rel=1e-15)
    assert values["min_diff"] is None


def test_integer_differences_stay_integers() -> None:
    difference = compare_statistics(Statistics(max=2**62 + 1), Statistics(max=2**62))["max_diff"]
    assert difference == 1
    assert isinstance(difference, int)


NUMBERS = st.one_of(
    st.floats(), st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan])
)


@given(st.lists(NUMBERS, min_size=8, max_size=8))
def test_usual_floats_follow_the_definition(values: list[float]) -> None:
    target, golden = (Statistics(*values[at : at + 4]) for at in (0, 4))
    found = compare_statistics(target, golden)

    assert list(found) == [f"{name}_{end}" for name in ("max", "min", "mean", "l2norm") for end in ("diff", "diff_rel")]
    for name in ("max", "min", "mean", "l2norm"):
        one, other = getattr(target, name), getattr(golden, name)
        difference = 0.0 if one == other else one - other
        ratio: float = abs(difference) if not math.isfinite(difference) else 0.0
        if math.isfinite(difference) and difference:
            ratio = abs(difference) / abs(other) if other else math.inf
        for wanted, end in ((difference, "diff"), (ratio, "diff_rel")):
            got = found[f"{name}_{end}"]
            assert isinstance(got, float)
            assert got.hex() == wanted.hex()
