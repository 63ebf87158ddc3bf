"""Pairs of a TorchAir device dump and its golden FX dump with known truth: the generator and the suites made with it.

`SINGLE_FAULTS` and `HEALTHY` are for the tests; `EXTRA_FAULTS` and `EXTRA_HEALTHY` are held out, to measure rules on
cases that nobody tuned them to. ``for spec in SINGLE_FAULTS: case = spec.generate(folder / spec.name)``.
"""

from generate.torchair_cases import EXTRA_FAULTS, EXTRA_HEALTHY, HEALTHY, SINGLE_FAULTS
from generate.torchair_faults import Fault
from generate.torchair_models import MODELS
from generate.torchair_pairs import LAYOUTS, Case, Run, Spec, Truth, generate

__all__ = [
    "EXTRA_FAULTS",
    "EXTRA_HEALTHY",
    "HEALTHY",
    "LAYOUTS",
    "MODELS",
    "SINGLE_FAULTS",
    "Case",
    "Fault",
    "Run",
    "Spec",
    "Truth",
    "generate",
]
