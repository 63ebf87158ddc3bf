"""Checkpoints of TensorFlow: where they lie, and hashes of what they hold, by which two are told apart.

A hash is that of a variable's dtype, shape and values, so that the same weights have the same one whatever the files
are: of one shard or several, of this TensorFlow or another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from probe_flow.dumpers.tensorflow.library import tf
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.files.existing import is_folder

FOLDER, NAME = "checkpoints", "ckpt"
"""Where the checkpoint before the step lies in a dump."""

_INDEX = ".index"


class Weights(Struct, frozen=True):
    """What a checkpoint holds: the hash of each variable, and one of all of them, names included."""

    variables: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """The hash of all variables with their names."""
        digest = hashlib.sha256()
        for name in sorted(self.variables):
            digest.update(f"{name}\0{self.variables[name]}\0".encode())
        return digest.hexdigest()


def prefix_of(path: str, option: str) -> str:
    """Return the prefix of a checkpoint: as it is given, of one of its files, or the newest of a folder.

    Raises:
        UsageError: PF6322 there is none.
    """
    place = Path(path)
    found = tf.train.latest_checkpoint(path) if is_folder(place) else path
    if found is not None:
        stem = found.removesuffix(_INDEX).removesuffix(".meta").partition(".data-")[0]
        if Path(stem + _INDEX).is_file():
            return stem
    what = "folder holds none" if is_folder(place) else f"lacks `{place.name}{_INDEX}`"
    cure = "give the prefix of its files, such as `model.ckpt-1000` for `model.ckpt-1000.index`, or their folder"
    raise UsageError(Diagnostic("PF6322", f"`{option}: {path}` is no checkpoint: its {what}", help=cure, path=path))


def files_of(prefix: str) -> list[Path]:
    """Return the files of a checkpoint with its values; not the graph that lies beside them."""
    place = Path(prefix)
    return sorted(
        each for each in place.parent.iterdir() if each.name.startswith((place.name + _INDEX, place.name + ".data-"))
    )


def weights_in(prefix: str, option: str) -> Weights:
    """Return the hashes of a checkpoint's variables; text, such as the tree of objects beside them, is left out.

    Raises:
        UsageError: PF6322 it is damaged.
    """
    try:
        reader: Any = tf.train.load_checkpoint(prefix)
        dtypes = reader.get_variable_to_dtype_map()
        names = [name for name in dtypes if dtypes[name] != tf.string]
        return Weights({name: _digest(reader.get_tensor(name)) for name in names})
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        message = f"`{option}: {prefix}` cannot be read: {str(error).splitlines()[0][:300]}"
        cure = "copy the checkpoint (`.index`, `.data-*`) again"
        raise UsageError(Diagnostic("PF6322", message, help=cure, path=prefix)) from error


def _digest(value: Any) -> str:
    array = np.ascontiguousarray(value)
    digest = hashlib.sha256(f"{array.dtype.name}\0{array.shape}\0".encode())
    digest.update(array.tobytes())
    return digest.hexdigest()


def differences(own: Weights, other: Weights) -> tuple[Sequence[str], Sequence[str]]:
    """Return which variables have other values in the other checkpoint, and which it lacks."""
    different = [
        name for name in own.variables if name in other.variables and own.variables[name] != other.variables[name]
    ]
    return sorted(different), sorted(own.variables.keys() - other.variables.keys())
