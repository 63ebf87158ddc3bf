"""APIs of dump.json dumps whose recorded values say nothing of whether a program is right."""

from __future__ import annotations

UNDEFINED = frozenset(
    (
        "empty",
        "empty_like",
        "numpy",
        "to",
        "__setitem__",
        "empty_with_format",
        "new_empty_strided",
        "new_empty",
        "empty_strided",
    )
)
"""Second part of an entry's name: results are undefined memory or mere copies."""

WITH_BUFFERS = frozenset(("_reduce_scatter_base", "_all_gather_base", "all_to_all_single", "batch_isend_irecv"))
"""Collectives whose inputs hold buffers yet to be filled."""
