"""What a script does that reproduces a call of PyTorch or MindSpore: by their functions, and in float64 by torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from probe_flow.apis.calls import UnusableError
from probe_flow.apis.mindspore_side import MindSporeSide
from probe_flow.apis.scripts.repro_statistics import GROSS, gross_error
from probe_flow.apis.scripts.repro_steps import REPRODUCED, Output, decided, reproduce
from probe_flow.apis.side import Side
from probe_flow.apis.torch_side import TorchSide


def main(frozen: Mapping[str, Any], arguments: Sequence[str] | None = None) -> int:
    """Compute the call again and print what comes of it.

    Args:
        frozen: ``framework``, whether it has ``statistics`` only, and what `repro_steps.reproduce` takes.
        arguments: of the command line.

    Returns:
        0 where the dumped result is what this processor gives too, 1 where it is not, 3 where that cannot be told.
    """
    is_mindspore = frozen["framework"] == "mindspore"

    def decide(outputs: list[Output]) -> tuple[str, str]:
        side: Side = MindSporeSide() if is_mindspore else TorchSide()
        if frozen.get("statistics"):
            return _by_statistics(frozen, side)
        return decided(frozen, outputs, lambda _: (side, TorchSide()))

    return reproduce(frozen, arguments, decide, ("torch", "mindspore", "numpy") if is_mindspore else ("torch", "numpy"))


def _by_statistics(frozen: Mapping[str, Any], side: Side) -> tuple[str, str]:
    why = gross_error(frozen, side)
    if not why:
        raise UnusableError(
            f"the dump has statistics only: random values in the recorded ranges show errors above {GROSS:g} times at "
            "best, and none here"
        )
    return REPRODUCED, why
