"""Let torch load a tensor that does not lie in its file as plain numbers; nothing else in the file is ever run."""

from __future__ import annotations

import importlib.util
import pickle
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probe_flow.errors import FormatError
from probe_flow.files.binary_file import malformed
from probe_flow.files.opening import regular

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RENAMED = {"float8_e8m0fnu": "float8_e8m0"}


@cache
def has_torch() -> bool:
    """Say whether torch is installed, without importing it."""
    return importlib.util.find_spec("torch") is not None


def load_with_torch(path: str, dtype: str, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Return the bytes of the tensor in a torch file: little endian, C order; quantised ones as float32.

    Args:
        path: the file.
        dtype, shape: what it must hold.

    Raises:
        FormatError: PF3423 it holds more than a tensor, PF3425 torch cannot load it or it is another tensor.
    """
    value = _loaded(path)
    try:
        value = value.detach()
        if value.is_quantized:
            value = value.dequantize()
        if str(value.layout) != "torch.strided":
            value = value.to_dense()
        value = value.resolve_conj().resolve_neg().contiguous()
        found = str(value.dtype).removeprefix("torch.")
        if (_RENAMED.get(found, found), tuple(value.shape)) != (dtype, shape):
            raise _unusable(path, f"it holds `{value.dtype}` of shape {list(value.shape)}, not `{dtype}` {list(shape)}")
        import torch

        content: NDArray[np.uint8] = value.reshape(-1).view(torch.uint8).numpy()
    except (RuntimeError, TypeError, NotImplementedError, AttributeError) as error:
        raise _unusable(path, _first_line(error)) from error
    return content


def _loaded(path: str) -> Any:
    try:
        import torch
    except ImportError as error:
        raise needs_torch(path, f"torch cannot be imported here: {error}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(regular(path), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise malformed(
            "PF3423",
            path,
            f"`{Path(path).name}` is refused by torch: {_first_line(error)}",
            help_text="nothing of it was run; dump the tensor again, and find out where the file comes from",
        ) from error
    except Exception as error:  # of damaged files torch says so in any way
        raise _unusable(path, _first_line(error)) from error


def needs_torch(path: str, reason: str) -> FormatError:
    """Return the error of a file that only torch can decode, where there is no torch."""
    return malformed(
        "PF3424",
        path,
        f"`{Path(path).name}` can only be decoded by torch, which is not installed: {reason}",
        help_text="install it with `pip install 'probe-flow[torch]'`, or dump plain tensors",
    )


def _unusable(path: str, what: str) -> FormatError:
    return malformed(
        "PF3425",
        path,
        f"`{Path(path).name}` cannot be loaded by torch: {what}",
        help_text="dump this tensor again, or leave it out with `select.nodes`",
    )


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
