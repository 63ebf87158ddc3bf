"""What a stage gets from the engine: names of files about several results."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from probe_flow.testing.stages import context


@pytest.mark.parametrize(
    ("names", "suffixes"),
    [
        (("result",), [""]),
        (("result[run=a]",), [""]),
        (("result[run=a]", "result[run=b]"), ["_run=a", "_run=b"]),
        (("result[run=a,type=float16]", "result[run=a,type=bf16]"), ["_run=a_type=float16", "_run=a_type=bf16"]),
        (("result[path=#0]", "result[path=#1]"), ["_path0", "_path1"]),
        (("left[run=a]", "right[run=a]"), ["_1", "_2"]),
        (("left", "right"), ["_1", "_2"]),
        ((), ["_1", "_2"]),
        (("result[run=a]",), ["_1", "_2"]),
    ],
)
def test_files_about_variants_are_named_after_them(names: tuple[str, ...], suffixes: list[str], tmp_path: Path) -> None:
    given = replace(context(tmp_path), consumed={"comparison": names})
    assert given.file_suffixes("comparison", len(suffixes)) == suffixes
