"""How results of PyTorch are judged: a preliminary status, and the figures of the standard that their API has."""

from __future__ import annotations

from dataclasses import asdict

from probe_flow.apis.acc_check import Figures, Judgement
from probe_flow.apis.preliminary import PreliminaryStatus, preliminary
from probe_flow.apis.side import Held, Result
from probe_flow.apis.standards import Profile, standard_figures, standard_of

FIGURES = (
    "cosine",
    "max_abs",
    "within_hundredth",
    "within_thousandth",
    "within_ten_thousandth",
    "error_rate",
    "error_balance",
    "rmse",
    "small_ratio",
    "max_rel",
    "mean_rel",
    "inf_nan_ratio",
    "rel_ratio",
    "abs_ratio",
    "max_ulp",
    "mean_ulp",
    "ulp_ratio",
)
"""Names of the figures, in the order of their columns."""


def judge_torch(api: str, input_dtype: str, profile: Profile, tested: Result, benchmark: Result) -> Judgement:
    """Judge one result of an API of PyTorch by its benchmark.

    Args:
        api: name without kind and number.
        input_dtype: element type of the inputs, where one of them has eight bits.
        profile: how standards go by APIs.
        tested, benchmark: the results of both sides.
    """
    found = preliminary(api, tested.value, benchmark.value)
    named = {name: value for name, value in asdict(found).items() if name in FIGURES and value is not None}
    one, other = tested.value, benchmark.value
    if isinstance(one, Held) and isinstance(other, Held) and one.values.shape == other.values.shape:
        standard = standard_of(api, one.dtype, input_dtype, profile=profile)
        if standard is not None and "dropout" not in api:
            figures = asdict(standard_figures(standard, one, other))
            # What a preliminary test measured too is the same figure; the standard's stands where it asked for it.
            named |= {name: value for name, value in figures.items() if value is not None}
    return Judgement(
        is_right=found.status in (PreliminaryStatus.PASS, PreliminaryStatus.SKIP),
        figures=Figures(named.get("cosine"), named.get("max_abs"), named.get("max_rel")),
        message=found.message,
        is_doubtful=found.status is PreliminaryStatus.WARNING,
        named=named,
        is_empty=found.status is PreliminaryStatus.SKIP,
    )
