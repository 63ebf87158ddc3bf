"""Which rank this process is, of how many."""

from __future__ import annotations

import os
from contextlib import suppress


def world_and_rank() -> tuple[int, int] | None:
    """Return world size and global rank, of torch's process group or as launchers tell them; None for neither."""
    with suppress(ImportError, AttributeError, RuntimeError, ValueError):
        import torch

        if torch.distributed.is_available() and torch.distributed.is_initialized():
            return torch.distributed.get_world_size(), torch.distributed.get_rank()
    world, rank = (os.environ.get(name, "") for name in ("WORLD_SIZE", "RANK"))
    return (int(world), int(rank)) if world.isdecimal() and rank.isdecimal() else None
