"""What an FX dump writes: which nodes, steps and values, and in which form."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from probe_flow.dumpers.base.node_filter import NodeFilter


class FxDumpOptions(Struct, frozen=True):
    """Options of an FX dump.

    Args:
        nodes: which nodes are dumped.
        steps: executions of each graph that are dumped, counted from 0; None = all.
        direction: ``input``, ``output`` or both.
        peer_compatible: also write arguments that are no tensors, and leave out keyword arguments, as TorchAir does.
        data: ``tensor`` writes the elements, ``statistics`` only minimum, maximum, mean and L2 norm, ``both`` both.
        precision: ``float64`` computes each graph in float64; None = as the model is.
        max_tensor_bytes: larger tensors are left out, and named in the manifest.
    """

    nodes: NodeFilter = field(default_factory=NodeFilter)
    steps: tuple[int, ...] | None = None
    direction: tuple[str, ...] = ("input", "output")
    peer_compatible: bool = False
    data: str = "tensor"
    precision: str | None = None
    max_tensor_bytes: int | None = None

    def takes_step(self, step: int) -> bool:
        """Tell whether an execution is dumped."""
        return self.steps is None or step in self.steps

    def to_dict(self) -> dict[str, Any]:
        """Return the options for the manifest."""
        return {**asdict(self), "nodes": asdict(self.nodes)}
