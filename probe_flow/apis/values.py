"""Values for the arguments of a call: random ones within the recorded range, or those of the dump's own files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path as FilePath
from pickle import UnpicklingError
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from probe_flow.apis.calls import FLOATS, TensorSpec, UnusableError

Values: TypeAlias = "NDArray[Any]"

Source: TypeAlias = "Callable[[TensorSpec, str], Values]"
"""Returns the elements of a tensor that stands at a named place: in a type of numpy that holds each of them, maybe
before they are rounded to the tensor's own."""

SEED = 42
PARTLY_FINITE = 1e-3
"""Share of the largest finite number that fills a tensor whose recorded extreme is infinite."""

_LARGEST = MappingProxyType(
    {
        "float16": 65504.0,
        "bfloat16": 3.3895313892515355e38,
        "float32": 3.4028234663852886e38,
        "float64": 1.7976931348623157e308,
        "float8_e4m3fn": 448.0,
        "float8_e5m2": 57344.0,
    }
)


def numpy_dtype(dtype: str) -> str:
    """Return the type of numpy that holds all values of an element type: its own, float32 for those numpy lacks."""
    if dtype == "int4":
        return "int8"
    return "float32" if dtype == "bfloat16" or dtype.startswith("float8") else dtype


def per_slot(api: str) -> Source:
    """Return the source of values that differ from tensor to tensor and are the same in every run.

    Floats are uniform between the recorded extremes, which stand first and last; integers are uniform with both
    extremes; booleans are as the extremes allow. An infinite or NaN extreme is put into one place of finite values.

    Args:
        api: the call, part of the seed of each tensor.
    """

    def make(spec: TensorSpec, place: str) -> Values:
        if 0 in spec.shape:
            return np.zeros(spec.shape, numpy_dtype(spec.dtype))
        low, high = _range(spec, place)
        digest = hashlib.sha256(f"{SEED}\0{api}\0{place}".encode()).digest()
        random = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        if spec.dtype == "bool":
            return random.integers(int(low > 0), int(high > 0), spec.shape, endpoint=True).astype(bool)
        if spec.dtype in FLOATS or spec.dtype.startswith("complex"):
            return _floats(spec, low, high, random)
        limits = np.iinfo(numpy_dtype(spec.dtype))
        if not (math.isfinite(low) and math.isfinite(high)):
            raise UnusableError(f"the range of `{place}`, {low} to {high}, is not that of integers")
        first, last = (min(max(int(bound), int(limits.min)), int(limits.max)) for bound in (low, high))
        return random.integers(first, max(first, last), spec.shape, limits.dtype, endpoint=True)

    return make


def _floats(spec: TensorSpec, low: float, high: float, random: np.random.Generator) -> Values:
    largest = _LARGEST.get(spec.dtype, _LARGEST["float32"])
    odd = [bound for bound in (low, high) if not math.isfinite(bound)]
    first, last = _finite(low, spec.finite_low), _finite(high, spec.finite_high)
    if first is None and last is None:
        first, last = -largest * PARTLY_FINITE, largest * PARTLY_FINITE
    elif first is None or last is None:
        known = last if first is None else first
        assert known is not None
        spread = max(abs(known), 1.0)
        # Not beyond what the type holds, or the finite values become infinite too.
        first = max(known - spread, -largest) if first is None else known
        last = min(known + spread, largest) if last is None else known
    # Half of each, for the difference of the largest numbers is infinite.
    share = random.random(spec.shape)
    values: Values = np.asarray(first * (1 - share) + last * share)
    flat = values.reshape(-1)
    flat[0] = first
    flat[-1] = last
    for number, bound in enumerate(dict.fromkeys(map(str, odd))):  # NaN is no equal of itself
        flat[min(number, flat.size - 1) if bound == "-inf" else -1 - min(number, flat.size - 1)] = float(bound)
    return values.astype(spec.dtype) if spec.dtype.startswith("complex") else values


def _finite(bound: float, other: object) -> float | None:
    """Return an extreme, or that of the finite elements where it is not finite and the other is known."""
    if math.isfinite(bound):
        return bound
    return float(other) if isinstance(other, int | float) and math.isfinite(other) else None


def ms_seed42(spec: TensorSpec, place: str) -> Values:
    """Return the values that msprobe makes for a MindSpore tensor: the same seed before each, uniform, cut to the type.

    Raises:
        UnusableError: an extreme is missing or not finite, where msprobe's own generator fails too.
    """
    low, high = _range(spec, place)
    random = np.random.RandomState(SEED)
    if spec.dtype == "bool":
        return np.asarray(random.rand(*spec.shape) > 0.5)
    kept = "float64" if spec.dtype in ("bfloat16", "int4") else spec.dtype
    try:
        with np.errstate(all="ignore"):
            return np.asarray(random.uniform(low, high, spec.shape)).astype(kept)
    except (OverflowError, ValueError) as error:
        raise UnusableError(f"no values between {low} and {high} for `{place}`: {error}") from error


def _range(spec: TensorSpec, place: str) -> tuple[float, float]:
    low, high = spec.low, spec.high
    if not (isinstance(low, bool | int | float) and isinstance(high, bool | int | float)):
        raise UnusableError(f"the dump records no range of values of `{place}` (`Max`, `Min`)")
    if spec.dtype in FLOATS or spec.dtype == "bool" or spec.dtype.startswith("complex"):
        low, high = float(low), float(high)
    return (high, low) if low > high else (low, high)


def of_files(folder: str) -> Source:
    """Return the source of the values that a dump wrote beside its dump.json.

    Args:
        folder: of the tensor files; what a name leads out of it is refused.
    """
    root = FilePath(folder)

    def load(spec: TensorSpec, place: str) -> Values:
        if spec.file is None and 0 in spec.shape:  # collectors write no file of a tensor without elements
            return np.zeros(spec.shape, numpy_dtype(spec.dtype))
        if spec.file is None:
            raise UnusableError(f"the dump has no file of `{place}`")
        file = root / spec.file
        if not file.resolve().is_relative_to(root.resolve()):
            raise UnusableError(f"`{spec.file}` of `{place}` lies outside the dump's folder")
        if not file.is_file():  # a pipe would be waited for
            raise UnusableError(f"`{spec.file}` of `{place}` is not there, or no file")
        try:
            values = _of_torch(file) if file.suffix == ".pt" else np.load(file, allow_pickle=False)
        except (OSError, ValueError, EOFError, RuntimeError, UnpicklingError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UnusableError(f"`{spec.file}` of `{place}` cannot be read: {why}") from error
        if values.shape != spec.shape:
            raise UnusableError(f"`{spec.file}` of `{place}` has shape {values.shape}, the dump says {spec.shape}")
        return values

    return load


def _of_torch(file: FilePath) -> Values:
    """Return the elements of a file of torch, which must hold one tensor and nothing else."""
    torch: Any = import_module("torch")
    tensor = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(tensor, torch.Tensor):
        raise ValueError("it holds no tensor")
    wide = getattr(torch, numpy_dtype(str(tensor.dtype).removeprefix("torch.")))
    values: Values = tensor.detach().to(wide).numpy()
    return values


def one_line(text: str) -> str:
    """Return a text on one line, without what a terminal acts upon: names and types are those of a dump."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def to_bfloat16(values: Values) -> Values:
    """Return the nearest bfloat16 of each float32, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    even = (bits >> 16) & 1
    near = ((bits + 0x7FFF + even) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    found: Values = np.where(np.isnan(values), values, near.reshape(values.shape))
    return found


def hf32(values: Values) -> Values:
    """Return float32 values rounded to 11 bits of fraction, halves away from zero.

    >>> hf32(np.array([1 + 2**-11, 1 + 2**-12, 1 + 2**-13])).tolist()
    [1.00048828125, 1.00048828125, 1.0]
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.int32)
    # An infinity or NaN must not be carried over into the sign.
    rounded: Values = np.where(np.isfinite(values), (((bits >> 11) + 1) >> 1) << 12, bits).astype(np.int32)
    return rounded.view(np.float32).reshape(values.shape)
