"""Inputs of a model that names them itself: each is looked for by name or place, and has to fit what the model says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from probe_flow.dumpers.base.runner import DeclaredInput, Runner
from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.files.existing import is_folder
from probe_flow.files.opening import open_bytes

Array = NDArray[Any]

_LARGEST_DRAWN = 1 << 34
"""Bytes of one drawn input: beyond it, a wrong `input_shape` is likelier than such a model."""


def by_name(args: Sequence[Any], kwargs: Mapping[str, Any], declared: Sequence[DeclaredInput]) -> dict[str, Any]:
    """Return the inputs of a call by their names; those without are taken in the order of the model.

    Raises:
        UsageError: PF6323 for one too many, a name that the model lacks, or one that is missing.
    """
    names = [each.name for each in declared]
    if len(args) > len(names):
        raise unusable(f"there are {len(args)} inputs, and the model takes {len(names)}", _takes(declared))
    found = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            near = did_you_mean(name, names)
            raise unusable(f"the model has no input `{name}`", near or _takes(declared))
        if name in found:
            raise unusable(f"input `{name}` is given twice", "name each input once")
        found[name] = value
    missing = [each.name for each in declared if each.name not in found and not each.has_default]
    if missing:
        raise unusable(f"input `{missing[0]}` of the model is not given", _takes(declared))
    return found


def checked(array: Array, wanted: DeclaredInput, what: str) -> Array:
    """Return an array that an input takes as it is.

    Raises:
        UsageError: PF6323 where dtype or shape differ; nothing is converted.
    """
    held = "string" if array.dtype.kind in "OUS" else str(array.dtype)
    if held != wanted.dtype:
        raise unusable(f"{what} holds {held}, and input `{wanted.name}` takes {wanted.dtype}", "convert it first")
    if wanted.shape is not None and not _fits(array.shape, wanted.shape):
        shape = _text(wanted.shape)
        raise unusable(
            f"{what} has the shape {_text(array.shape)}, and input `{wanted.name}` takes {shape}",
            "give an input of that shape; names stand for sizes that the model leaves open",
        )
    return array


def read_array(path: Path, wanted: DeclaredInput, runner: Runner, *, widens: bool = False) -> Array:
    """Return the array of an `.npy` file, of one that the framework reads, or of raw little-endian bytes.

    Args:
        path: of the file.
        wanted: what the input takes.
        runner: of the framework.
        widens: whether an array of a narrower dtype is taken, which loses nothing.

    Raises:
        UsageError: PF6323 where it cannot be read or does not fit.
    """
    what = f"`{path.name}`"
    try:
        if path.suffix in runner.input_files:
            return checked(runner.read_inputs(path), wanted, what)
        with open_bytes(path) as file:
            if path.suffix == ".npy":
                array = np.load(file, allow_pickle=False)
                is_narrower = widens and np.can_cast(array.dtype, dtype_of(wanted), "safe")
                return checked(array.astype(dtype_of(wanted)) if is_narrower else array, wanted, what)
            content = file.read()
    except UsageError:
        raise
    except Exception as error:  # frameworks raise errors of many kinds for a malformed file
        raise unusable(f"{what} cannot be read as input: {error}", runner.input_help) from error
    shape, dtype = known_shape(wanted), dtype_of(wanted)
    size = math.prod(shape) * dtype.itemsize
    if len(content) != size:
        half = "; a float16 array has half the bytes: convert it" if 2 * len(content) == size else ""
        takes = f"input `{wanted.name}` ({wanted.dtype} {_text(shape)}) takes {size:,}"
        raise unusable(
            f"{what} has {len(content):,} bytes, and {takes}",
            f"raw bytes carry neither dtype nor shape, so their number has to fit{half}",
        )
    return np.frombuffer(content, dtype.newbyteorder("<")).astype(dtype, copy=False).reshape(shape)


def files_at(path: Path, declared: Sequence[DeclaredInput]) -> tuple[list[Path], dict[str, Path]]:
    """Return the input files at a path in order, and by name: itself, or the `.npy` files of a folder.

    Files of a folder are named as the inputs are, or numbered in their order where a name is no name of a file.

    Raises:
        UsageError: PF6323 when nothing is there.
    """
    if not is_folder(path):
        return [path], {}
    names = {each.name for each in declared}
    found = {file.stem: file for file in sorted(path.glob("*.npy"))}
    if not found:
        raise unusable(f"the folder `{path}` holds no `.npy` file", "name the folder of the inputs, or the files")
    by_number = {declared[int(stem)].name: stem for stem in found if stem.isdecimal() and int(stem) < len(declared)}
    chosen = {name: found[stem] for name, stem in by_number.items() if stem not in names}
    return [], {**{stem: file for stem, file in found.items() if stem not in by_number.values()}, **chosen}


def in_order(
    recorded: Sequence[tuple[str, str]], declared: Sequence[DeclaredInput]
) -> tuple[list[str], dict[str, str]]:
    """Return recorded inputs in order, or by name where all of them are called as inputs of the model are."""
    names = {each.name for each in declared}
    if all(name in names for name, _ in recorded):
        return [], dict(recorded)
    return [file for _, file in recorded], {}


def drawn(wanted: DeclaredInput, generator: np.random.Generator, runner: Runner, high: float | None = None) -> Array:
    """Return random numbers for an input: floats uniform in [0, 1), integers from 0 to 9, bools fair.

    Raises:
        UsageError: PF6323 where its shape is open or its elements are no numbers.
    """
    kind = runner.drawn(wanted.dtype)
    if kind is None:
        raise unusable(f"input `{wanted.name}` of {wanted.dtype} cannot be drawn", "give it as a file")
    shape = known_shape(wanted)
    if math.prod(shape) * 8 > _LARGEST_DRAWN:
        raise unusable(f"input `{wanted.name}` of shape {_text(shape)} is too large to draw", "correct `input_shape`")
    if kind == "bool":
        return np.asarray(generator.integers(0, 2, shape) == 1)
    if kind == "float":
        return np.asarray(generator.uniform(0.0, 1.0 if high is None else high, shape), dtype_of(wanted))
    return np.asarray(generator.integers(0, 10 if high is None else int(high), shape), dtype_of(wanted))


def dtype_of(wanted: DeclaredInput) -> np.dtype[Any]:
    """Return the dtype of an input, those of numpy's extensions among them.

    Raises:
        UsageError: PF6323 where its elements are no numbers.
    """
    try:
        return np.dtype(getattr(ml_dtypes, wanted.dtype, wanted.dtype))
    except TypeError as error:
        raise unusable(f"input `{wanted.name}` takes {wanted.dtype}", "give it as a file of the framework") from error


def known_shape(wanted: DeclaredInput) -> tuple[int, ...]:
    """Return the shape of an input that leaves no size open.

    Raises:
        UsageError: PF6323 where it does, with the sizes.
    """
    if wanted.shape is None:
        raise unusable(f"the model does not say the shape of input `{wanted.name}`", _set_shape(wanted, "1, 3, 16, 16"))
    sizes = [size for size in wanted.shape if isinstance(size, int)]
    if len(sizes) < len(wanted.shape):
        open_ones = ", ".join(
            f"`{size}`" if size else "one without name" for size in wanted.shape if not isinstance(size, int)
        )
        example = ", ".join(str(size) if isinstance(size, int) else "1" for size in wanted.shape)
        raise unusable(
            f"input `{wanted.name}` of shape {_text(wanted.shape)} leaves sizes open: {open_ones}",
            _set_shape(wanted, example),
        )
    return tuple(sizes)


def with_shapes(declared: Sequence[DeclaredInput], shapes: Mapping[str, Sequence[int]]) -> list[DeclaredInput]:
    """Return the inputs with the shapes that are given for some.

    Raises:
        UsageError: PF6323 for a name that the model lacks, another number of axes, or another size than a fixed one.
    """
    known = {each.name: each for each in declared}
    for name, shape in shapes.items():
        if name not in known:
            near = did_you_mean(name, list(known))
            raise unusable(f"`input_shape`: the model has no input `{name}`", near or _takes(declared))
        wanted = known[name]
        if wanted.shape is not None and not _fits(shape, wanted.shape):
            raise unusable(
                f"`input_shape` gives `{name}` the shape {_text(shape)}, and the model says {_text(wanted.shape)}",
                "only sizes that the model leaves open can be chosen",
            )
        known[name] = DeclaredInput(name, wanted.dtype, tuple(shape), wanted.has_default)
    return list(known.values())


def _fits(shape: Sequence[int], wanted: Sequence[int | str | None]) -> bool:
    return len(shape) == len(wanted) and all(
        not isinstance(size, int) or size == given for given, size in zip(shape, wanted, strict=True)
    )


def _text(shape: Sequence[int | str | None]) -> str:
    return f"({', '.join(str(size) if size is not None else '?' for size in shape)})"


def _takes(declared: Sequence[DeclaredInput]) -> str:
    each = ", ".join(
        f"`{one.name}` ({one.dtype} {_text(one.shape) if one.shape is not None else '?'})" for one in declared
    )
    return f"it takes {each}" if declared else "it takes none"


def _set_shape(wanted: DeclaredInput, example: str) -> str:
    return (
        f"set `input_shape: {{{wanted.name}: [{example}]}}` with the sizes to use, or give the input as an `.npy` file"
    )


def unusable(what: str, cure: str) -> UsageError:
    """Return PF6323."""
    return UsageError(Diagnostic("PF6323", what, help=cure))
