"""The config.json of msprobe: what says the same here is taken, everything else refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from probe_flow.dumpers.dump_json.config_json import read_config
from probe_flow.dumpers.dump_json.options import checked_options
from probe_flow.errors import UsageError

AS_SHIPPED = {
    "task": "statistics",
    "dump_path": "./dump_path",
    "rank": [],
    "step": [],
    "level": "L1",
    "extra_info": True,
    "async_dump": False,
    "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
    "tensor": {"scope": [], "list": [], "data_mode": ["all"]},
    "acc_check": {"white_list": [], "black_list": [], "error_data_path": "./"},
}


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_the_file_that_msprobe_brings(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, AS_SHIPPED))

    assert config.dump_path == "./dump_path"
    options = checked_options(config.options)
    assert (options.level, options.data, options.steps, options.ranks) == ("L1", "statistics", None, None)
    assert (options.scope, options.include, options.writes_checksums) == (None, (), False)
    assert options.phases == ("forward", "backward")


def test_every_key_that_is_taken(tmp_path: Path) -> None:
    content = {
        "task": "tensor",
        "rank": [0, "2"],
        "step": ["4-6", 1],
        "level": "mix",
        "tensor": {
            "scope": ["Module.a.Linear.forward.0", "Functional.relu.0.forward"],
            "list": ["relu"],
            "data_mode": ["backward", "output"],
            "summary_mode": "md5",
        },
    }
    config = read_config(written(tmp_path, content))

    options = checked_options(config.options)
    assert config.dump_path is None
    assert (options.ranks, options.steps) == ((0, 2), (1, 4, 5, 6))
    assert options.scope == ("Module.a.Linear.forward.0", "Functional.relu.0.forward")
    assert options.include == ("relu",)
    assert (options.phases, options.direction) == (("backward",), ("output",))
    assert options.writes_tensors
    assert options.writes_statistics
    assert options.writes_checksums


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "it cannot be read"),
        ("[]", "its top level is no object"),
        ({"task": "structure"}, "`task` is `structure`"),
        ({"level": "L2"}, "`level` is `L2`"),
        ({"async_dump": True}, "`async_dump: true` is not done"),
        ({"risk_level": "ALL"}, '`risk_level: "ALL"` is not done'),
        ({"dump_enable": True}, "`dump_enable` is not taken"),
        ({"statistics": {"tensor_list": ["relu"]}}, '`statistics.tensor_list: ["relu"]` is not done'),
        ({"statistics": {"bench_path": "x"}}, "`statistics.bench_path` is not taken"),
        ({"statistics": {"summary_mode": "xor"}}, "`statistics.summary_mode` is `xor`"),
        ({"statistics": {"data_mode": ["sideways"]}}, '`statistics.data_mode` is ["sideways"]'),
        ({"statistics": {"list": "relu"}}, "`statistics.list` is no list of texts"),
        ({"statistics": []}, "`statistics` is no object"),
        ({"step": ["6-4"]}, "`step` holds the range `6-4`"),
        ({"step": [True]}, "`step` holds true"),
        ({"step": ["x"]}, '`step` holds "x"'),
        ({"step": 3}, "`step` is no list"),
        ({"rank": [1000001]}, "`rank` holds 1000001"),
        ({"dump_path": 3}, "`dump_path` is no text"),
    ],
)
def test_anything_else_is_refused_by_name(content: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        read_config(written(tmp_path, content))

    assert raised.value.diagnostic.code == "PF6350"
    assert words in raised.value.diagnostic.message
    assert raised.value.diagnostic.help


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        read_config(tmp_path / "config.json")
    assert "there is no such file" in raised.value.diagnostic.message
