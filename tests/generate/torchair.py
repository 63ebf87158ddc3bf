"""Pairs of a TorchAir device dump and its golden FX dump with known truth: the generator and the suites made with it.

`SINGLE_FAULTS` and `HEALTHY` are for the tests, as are `PLACED_FAULTS` and `PLACED_HEALTHY` (fused operators, private
layouts, later tokens, one rank, a device as golden); `EXTRA_FAULTS` and `EXTRA_HEALTHY` are held out, to measure rules
on cases that nobody tuned them to. ``for spec in SINGLE_FAULTS: case = spec.generate(folder / spec.name)``.
"""

from generate.torchair_cases import EXTRA_FAULTS, EXTRA_HEALTHY, HEALTHY, SINGLE_FAULTS
from generate.torchair_faults import Fault
from generate.torchair_models import MODELS
from generate.torchair_pairs import LAYOUTS, Case, Run, Spec, generate
from generate.torchair_placed_cases import PLACED_FAULTS, PLACED_HEALTHY
from generate.torchair_truth import Truth

__all__ = [
    "EXTRA_FAULTS",
    "EXTRA_HEALTHY",
    "HEALTHY",
    "LAYOUTS",
    "MODELS",
    "PLACED_FAULTS",
    "PLACED_HEALTHY",
    "SINGLE_FAULTS",
    "Case",
    "Fault",
    "Run",
    "Spec",
    "Truth",
    "generate",
]
