"""The content of a `.pt` file of one tensor, as `torch.save` writes it."""

from __future__ import annotations

import io

import torch


def pt_content(tensor: torch.Tensor) -> memoryview:
    """Return the bytes of the file: the tensor alone, contiguous, on the host, without gradient."""
    held = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if held.untyped_storage().nbytes() != held.numel() * held.element_size():
        held = held.clone()
    buffer = io.BytesIO()
    torch.save(held, buffer)
    return buffer.getbuffer()
