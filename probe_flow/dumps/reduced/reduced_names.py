"""Names of reduced dump files: which one stands for which dumped file."""

from __future__ import annotations

SUFFIX = "_min_max"
SUFFIX_PATTERN = r"^_[A-Za-z0-9_]{1,40}$"


def reduced_name(name: str, suffix: str = SUFFIX) -> str:
    """Return the file name that stands for a dumped file.

    >>> reduced_name("add-aten.add.OUTPUT.0.20260101000000000009.npy"), reduced_name("Add.Add_1.2.3.4")
    ('add-aten.add.OUTPUT.0.20260101000000000009_min_max.npy', 'Add.Add_1.2.3.4_min_max.npz')
    """
    if name.endswith(".npy"):
        return f"{name.removesuffix('.npy')}{suffix}.npy"
    return f"{name}{suffix}.npz"


def source_name(name: str, suffix: str = SUFFIX) -> str | None:
    """Return the name of the file that a reduced one stands for, None for other names.

    >>> source_name("Add.Add_1.2.3.4_min_max.npz"), source_name("Add.Add_1.2.3.4")
    ('Add.Add_1.2.3.4', None)
    """
    for extension, restored in ((".npy", ".npy"), (".npz", "")):
        ending = suffix + extension
        if name.endswith(ending) and len(name) > len(ending):
            return name.removesuffix(ending) + restored
    return None
