"""The head of a dump.json: framework and task, whatever lies behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from probe_flow.dumps.dump_json.head import read_head

DATA = Path(__file__).parents[3] / "data" / "dump_json"


def head(folder: Path, text: str | bytes, name: str = "dump.json") -> tuple[str | None, str | None]:
    (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    found = read_head(folder / name)
    assert found is not None
    return found.framework and found.framework.name, found.task


@pytest.mark.parametrize(
    ("name", "framework", "task"),
    [
        ("ms_tensor_base", "mindspore", "tensor"),
        ("pt_stat_base/step0", "pytorch", "statistics"),
        ("pt_debug", "pytorch", "tensor"),
    ],
)
def test_real_dumps_say_what_they_are(name, framework, task):
    found = read_head(DATA / name)
    assert found is not None
    assert (found.framework and found.framework.name, found.task) == (framework, task)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"task": "tensor", "framework": "mindtorch", "data": {}}', ("mindtorch", "tensor")),
        ('{"task": "md5", "data": {"a": {"input": [{"type": "mindspore.Tensor"}]}}}', ("mindspore", "md5")),
        ('{"data": {"a": {"input": [{"type": "torch.Tensor", "task": "tensor"}]}}}', ("pytorch", None)),
        ('{"data": {"a": {"input_kwargs": {"framework": "x", "task": "y"}}}}', (None, None)),
        ("", (None, None)),
        ("[", (None, None)),
        (b"\xff\xfe\x00", (None, None)),
    ],
)
def test_what_a_head_does_not_say_is_none(tmp_path, text, expected):
    assert head(tmp_path, text) == expected


def test_the_first_rank_and_step_speak_for_a_folder(tmp_path):
    for step, task in (("step10", "tensor"), ("step2", "statistics")):
        folder = tmp_path / step / "rank0"
        folder.mkdir(parents=True)
        head(folder, f'{{"task": "{task}"}}')
    found = read_head(tmp_path)
    assert found is not None
    assert found.task == "statistics"


@pytest.mark.parametrize("name", ["other.json", "dump.json.bak"])
def test_other_files_are_no_dumps(tmp_path, name):
    (tmp_path / name).write_text('{"task": "tensor"}')
    assert read_head(tmp_path / name) is None
    assert read_head(tmp_path) is None
    assert read_head(tmp_path / "missing") is None


def test_a_head_is_read_without_the_rest(tmp_path):
    text = '{"task": "tensor", "framework": "pytorch", "data": {' + " " * (3 << 20)
    assert head(tmp_path, text) == ("pytorch", "tensor")
