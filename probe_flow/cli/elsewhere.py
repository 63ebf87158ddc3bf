"""What msprobe has and this command line has not, and what does the job here: verbs, modes, options."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from probe_flow.errors import Diagnostic


class Lack(NamedTuple):
    """Something of msprobe's.

    Args:
        what: what it is for.
        instead: what to use here, as a sentence that goes on after the semicolon.
    """

    what: str
    instead: str


VERBS: Mapping[str, Lack] = MappingProxyType(
    {
        "run_ut": Lack("msprobe's older name for checking APIs", "use `probe-flow acc_check -api_info FILE`"),
        "multi_run_ut": Lack(
            "msprobe's older name for checking APIs on several devices",
            "use `probe-flow multi_acc_check -api_info FILE -d 0 1`",
        ),
        "nan_analyze": Lack("msprobe's older name for finding NaN", "use `probe-flow overflow_check -i STEP`"),
        "config_check": Lack(
            "comparing two environments and checkpoints",
            "run `probe-flow doctor --format json` on both machines and compare the texts; weights and inputs are "
            "compared with the dumps of a first step: `probe-flow compare -tp A -gp B`",
        ),
        "config_checking": Lack(
            "comparing two environments", "run `probe-flow doctor --format json` on both machines and compare the texts"
        ),
        "data2db": Lack(
            "trends over training steps",
            "compare a dump with several `step*` folders: the report shows the error by rank and step, and a "
            "growing one is the finding `drift`",
        ),
        "install_deps": Lack(
            "installing packages", "`probe-flow doctor` says what each extra adds and how to install it"
        ),
        "monitor": Lack(
            "watching gradients and optimizer states while a model trains",
            "it is a library of msprobe's, not a command; what it stops at can be dumped and compared here",
        ),
        "parse_tool": Lack(
            "msprobe's interactive prompt", "use `probe-flow shell`, and `probe-flow parse` to convert files"
        ),
        "free_benchmark": Lack(
            "perturbing a model to find what is sensitive",
            "compare with a reference in higher precision: `reference` of a workflow (templates `*_with_reference`)",
        ),
        "grad_probe": Lack(
            "comparing gradients of steps", "dump with `level: mix` and compare the dumps: `probe-flow compare`"
        ),
        "msaccucmp": Lack("the comparator of offline models", "use `probe-flow compare -m offline_data`"),
    }
)
"""Verbs of msprobe, of its older versions, and of the tools around it."""

MODES: Mapping[str, Lack] = MappingProxyType(
    {
        "atb": Lack(
            "dumps of ATB operators",
            "save the tensors as `.npy` files of equal names and compare the two folders without `-m`",
        ),
    }
)
"""Values of `compare -m`."""


def verb_elsewhere(name: str) -> Diagnostic | None:
    """Return what to say of a verb of msprobe's that is not here; None for one that nobody knows."""
    lack = VERBS.get(name.replace("-", "_"))
    if lack is None:
        return None
    return Diagnostic("PF2120", f"`{name}` ({lack.what}) is not part of probe_flow", help=lack.instead)
