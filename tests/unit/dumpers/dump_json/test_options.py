"""Options of a dump: what they mean for each kind of data, and which values are refused."""

from __future__ import annotations

from typing import Any

import pytest

from probe_flow.dumpers.dump_json.options import DumpOptions, checked_options
from probe_flow.errors import UsageError


@pytest.mark.parametrize(
    ("data", "tensors", "statistics", "checksums"),
    [
        ("statistics", False, True, False),
        ("tensor", True, True, False),
        ("md5", False, False, True),
        ("both", True, True, True),
    ],
)
def test_what_each_kind_of_data_writes(data: str, *, tensors: bool, statistics: bool, checksums: bool) -> None:
    options = checked_options({"data": data})
    assert (options.writes_tensors, options.writes_statistics, options.writes_checksums) == (
        tensors,
        statistics,
        checksums,
    )


def test_none_is_the_default() -> None:
    assert checked_options({"level": None, "steps": None, "scope": None}) == DumpOptions()


def test_levels() -> None:
    has = {level: checked_options({"level": level}) for level in ("L0", "L1", "mix")}
    assert [(has[level].has_modules, has[level].has_calls) for level in has] == [
        (True, False),
        (False, True),
        (True, True),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"level": "L2"}, "`level` cannot be `L2`"),
        ({"phases": ["sideways"]}, "`phases` cannot be `sideways`"),
        ({"direction": "input"}, "`direction` is text"),
        ({"include": [""]}, "`include` holds ''"),
        ({"steps": [True]}, "`steps` holds True"),
        ({"ranks": ["0"]}, "`ranks` holds '0'"),
        ({"scope": ["a", "b", "c"]}, "`scope` has 3 names"),
        ({"level": "L0", "scope": ["Torch.a.0.forward"] * 2}, "which level L0 does not record"),
        ({"level": "L1", "scope": ["Module.a.A.forward.0"] * 2}, "a module, which level L1 does not record"),
    ],
)
def test_wrong_values_are_said(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError) as raised:
        checked_options(options)
    assert raised.value.diagnostic.code == "PF6331"
    assert words in raised.value.diagnostic.message
