"""Packed samples: unpacked whole, once, where they may be, and never over what is not ours."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from probe_flow.engine.run.plan import make_plan
from probe_flow.errors import UsageError
from probe_flow.workflow.loading.loader import load_workflow
from probe_flow.workflow.templates import samples
from probe_flow.workflow.templates.samples import at_hand

FILES = {"ge/a/one.bin": b"1" * 1000, "ge/two.bin": b"2", "fx/three.bin": b"3"}


def pack(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / "samples.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return folder


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    return pack(tmp_path / "examples" / "demo", FILES)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_a_sample_is_unpacked_at_its_own_path_with_the_others(demo: Path, cache: Path) -> None:
    assert at_hand(demo / "ge", cache) == demo / "ge"
    assert {name: (demo / name).read_bytes() for name in FILES} == FILES
    assert not cache.exists()
    assert {path.name for path in demo.iterdir()} == {".samples-fx", ".samples-ge", "fx", "ge", "samples.zip"}


def test_files_of_one_size_have_different_times_of_which_none_is_new(tmp_path: Path, cache: Path) -> None:
    demo = pack(tmp_path / "demo", {"healthy/out.bin": b"1234", "faulty/out.bin": b"1235", "again/out.bin": b"1234"})
    times = {
        name: (at_hand(demo / name, cache) / "out.bin").stat().st_mtime_ns for name in ("healthy", "faulty", "again")
    }
    assert times["healthy"] == times["again"] != times["faulty"]
    packed = (demo / "samples.zip").stat().st_mtime_ns
    assert all(0 <= packed - time < 5 * 10**9 for time in times.values())


def test_what_is_unpacked_stays(demo: Path, cache: Path) -> None:
    at_hand(demo / "ge", cache)
    before = (demo / "ge" / "two.bin").stat()
    assert at_hand(demo / "ge" / "a", cache) == demo / "ge" / "a"
    assert (demo / "ge" / "two.bin").stat() == before


def test_a_new_archive_takes_the_place_of_the_old_one(demo: Path, cache: Path) -> None:
    at_hand(demo / "ge", cache)
    pack(demo, {**FILES, "ge/two.bin": b"new"})
    at_hand(demo / "fx", cache)
    assert (demo / "ge" / "two.bin").read_bytes() == b"new"


def test_what_somebody_else_put_there_stays(demo: Path, cache: Path) -> None:
    (demo / "ge").mkdir()
    assert at_hand(demo / "ge", cache) == demo / "ge"
    at_hand(demo / "fx", cache)
    assert list((demo / "ge").iterdir()) == []
    assert (demo / "fx" / "three.bin").read_bytes() == b"3"


def test_a_path_that_no_archive_has_is_left_alone(demo: Path, cache: Path) -> None:
    assert at_hand(demo / "other", cache) == demo / "other"
    assert at_hand(demo.parent / "ge", cache) == demo.parent / "ge"
    assert [path.name for path in demo.iterdir()] == ["samples.zip"]


def test_where_nothing_can_be_written_the_samples_lie_in_the_cache(
    demo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = samples.mkdtemp
    monkeypatch.setattr(samples, "mkdtemp", lambda **given: refused(given["dir"], demo) or plain(**given))
    place = at_hand(demo / "ge" / "a", cache)
    assert place.parent.parent.parent == cache / "samples"
    assert (place / "one.bin").read_bytes() == FILES["ge/a/one.bin"]
    assert [path.name for path in demo.iterdir()] == ["samples.zip"]
    cache.joinpath("samples").rename(cache / "gone")
    monkeypatch.setattr(samples, "mkdtemp", lambda **given: refused(given["dir"], given["dir"]))
    with pytest.raises(UsageError, match="cannot be unpacked") as caught:
        at_hand(demo / "ge", cache)
    assert [problem.code for problem in caught.value.diagnostics] == ["PF2111"]


def refused(folder: Path, closed: Path) -> None:
    if folder == closed:
        raise PermissionError(13, "Permission denied")


def test_a_plan_takes_samples_from_the_cache(demo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = demo.parents[1] / "workflows" / "demo.yaml"
    workflow.parent.mkdir()
    workflow.write_text(
        "version: 1\nname: demo\nparams:\n  target: {type: path, sample: ../examples/demo/ge}\n"
        'stages:\n  target: {uses: dump.torchair_ge, path: "${params.target}"}\n'
    )
    monkeypatch.setenv("PROBE_FLOW_CACHE", str(cache))
    plain = samples.mkdtemp
    monkeypatch.setattr(samples, "mkdtemp", lambda **given: refused(given["dir"], demo) or plain(**given))
    loaded = load_workflow(workflow, env={}, cwd=demo)
    assert loaded.params["target"] == str(demo / "ge")
    assert not cache.exists(), "reading the workflow unpacks nothing"
    plan = make_plan(loaded)
    (planned,) = plan.stages
    assert planned.sizes[0].path == plan.workflow.params["target"]
    assert planned.sizes[0].path.startswith(str(cache))
    assert planned.sizes[0].files == 2


@pytest.mark.parametrize("name", ["../x/y", "/x/y", "ge/../../y", "y", ".hidden/y"])
def test_nothing_leaves_the_folder(demo: Path, cache: Path, name: str) -> None:
    pack(demo, {**FILES, name: b""})
    with pytest.raises(UsageError, match="no file of a sample"):
        at_hand(demo / "ge", cache)
    assert [path.name for path in demo.iterdir()] == ["samples.zip"]


@pytest.mark.parametrize(("limit", "value"), [("MAX_FILES", 2), ("MAX_ARCHIVE_BYTES", 900)])
def test_archives_have_bounds(demo: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    monkeypatch.setattr(samples, limit, value)
    with pytest.raises(UsageError, match=r"more than|larger than"):
        at_hand(demo / "ge", cache)


@pytest.mark.parametrize("at", [0, 40, -30])
def test_a_damaged_archive_leaves_nothing(demo: Path, cache: Path, at: int) -> None:
    content = bytearray((demo / "samples.zip").read_bytes())
    content[at] ^= 0xFF
    (demo / "samples.zip").write_bytes(content[: len(content) - 25] if at == -30 else content)
    with pytest.raises(UsageError) as caught:
        at_hand(demo / "ge", cache)
    assert [problem.code for problem in caught.value.diagnostics] == ["PF2111"]
    assert [path.name for path in demo.iterdir()] == ["samples.zip"]


def test_processes_that_unpack_at_once_make_one_folder(demo: Path, cache: Path) -> None:
    code = "import sys, pathlib; from probe_flow.workflow.templates.samples import at_hand;"
    code += "sample = pathlib.Path(sys.argv[1]); sys.stdin.read(1);"
    code += "assert at_hand(sample, sample) == sample and (sample / 'two.bin').read_bytes() == b'2'"
    many = [
        subprocess.Popen([sys.executable, "-c", code, str(demo / "ge")], stdin=subprocess.PIPE, env=os.environ)
        for _ in range(4)
    ]
    for each in many:
        assert each.stdin
        each.stdin.close()
    assert [each.wait(60) for each in many] == [0] * 4
    assert {path.name for path in demo.iterdir()} == {".samples-fx", ".samples-ge", "fx", "ge", "samples.zip"}
