"""A dump whose files are as they were is not read again; any change of them is noticed, and no result changes."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.projects import SAMPLE, TORCHAIR, WORKFLOWS, Command, Done, Dumps, samples, settle, write_dumps
from probe_flow.engine.run.kept_catalogs import has_torch
from probe_flow.files.opening import open_regular

LONG_AGO = (1_700_000_000, 1_700_000_000)
BOTH = ["target", "golden"]


@pytest.fixture
def dumps(tmp_path: Path) -> Dumps:
    found = write_dumps(tmp_path / "dumps")
    settle(found.root)
    return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each file of a dump was opened for its header or its elements."""
    counted: Counter[str] = Counter()

    def counting(path, **more):
        counted[str(path)] += 1
        return open_regular(path, **more)

    monkeypatch.setattr("probe_flow.files.binary_file.open_regular", counting)
    return counted


def recalled(done: Done) -> list[str]:
    """Names of the stages whose dumps were not read."""
    events = [json.loads(line) for line in (done.folder / "events.jsonl").read_text().splitlines()]
    return [event["stage"] for event in events if event["event"] == "dump.recalled"]


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "v2" / "catalogs").glob("*"))


WITHOUT_TABLES = {"build_graph"}
"""Workflows that write graphs only, whose names have the time."""

RUNS_MODELS = {
    *("offline_caffe_oneclick", "offline_onnx_oneclick", "offline_tensorflow_oneclick", "onnx_vs_onnx"),
    *("torch_vs_torch", "mindspore_vs_pytorch", "tf_training_oneclick"),
}
"""Workflows whose dumps are made anew in each run."""


@pytest.mark.parametrize(
    "workflow",
    [
        path.stem
        for path in sorted(WORKFLOWS.glob("*.yaml"))
        if "check" not in path.stem and path.stem not in WITHOUT_TABLES | RUNS_MODELS
    ],
)
def test_results_are_those_of_the_first_run(probe_flow: Command, workflow):
    found = []
    for _ in range(2):
        done = probe_flow("run", WORKFLOWS / f"{workflow}.yaml", cache="c")
        results = [path for path in done.folder.iterdir() if path.suffix in (".csv", ".jsonl", ".md")]
        # The times in names of tables change.
        contents = sorted((path.suffix, path.read_bytes()) for path in results if path.name != "events.jsonl")
        found.append((done.code, done.record["inputs"], done.record["problems"], contents))
    assert found[0] == found[1]
    assert len(found[0][3]) >= 2


def test_an_unchanged_dump_is_not_opened(probe_flow: Command, dumps: Dumps, opened):
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")) == []
    assert opened
    opened.clear()
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="two", cache="c")) == BOTH
    assert not opened


@pytest.mark.usefixtures("all_kept")
def test_a_plan_reads_no_unchanged_dump_and_writes_nothing(tmp_path, probe_flow: Command, dumps: Dumps, opened):
    sets = dumps.sets()
    probe_flow("plan", TORCHAIR, *sets, output=None, cache="c")
    assert not (tmp_path / "c").exists()
    probe_flow("run", TORCHAIR, *sets, cache="c")
    opened.clear()
    before = {path: path.stat().st_mtime_ns for path in kept(tmp_path / "c")}
    for command in (("plan", TORCHAIR), ("cache", "why", TORCHAIR)):
        found = probe_flow(*command, *sets, output=None, cache="c")
        assert "results are kept" in found.out
    assert not opened
    assert before == {path: path.stat().st_mtime_ns for path in kept(tmp_path / "c")}


def in_place(path: Path) -> None:
    """Write other bytes of the same size and time."""
    path.write_bytes(path.read_bytes()[:-1] + b"\x42")
    os.utime(path, LONG_AGO)


def another(path: Path) -> None:
    """Put another file of the same bytes and time in its place."""
    copy = path.with_name("copy")
    copy.write_bytes(path.read_bytes())
    os.utime(copy, LONG_AGO)
    copy.replace(path)


def added(path: Path) -> None:
    new = path.with_name("notes.txt")
    new.write_text("new")
    os.utime(new, LONG_AGO)


def link(path: Path) -> None:
    path.with_name("link").symlink_to(path.name)


CHANGES: dict[str, Callable[[Path], object]] = {
    "touched": lambda path: os.utime(path, (1_700_000_009, 1_700_000_009)),
    "written in place": in_place,
    "another in its place": another,
    "renamed": lambda path: path.rename(path.with_name("renamed")),
    "gone": Path.unlink,
    "mode": lambda path: path.chmod(0o600),
    "folder": lambda path: path.parent.chmod(0o700),
    "file added": added,
    "folder added": lambda path: path.with_name("empty").mkdir(),
    "link added": link,
}


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_a_dump_is_noticed(probe_flow: Command, dumps: Dumps, change):
    probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    path = dumps.array("mul-*OUTPUT*")
    path.parent.chmod(0o755)
    probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    CHANGES[change](path)
    changed = probe_flow("run", TORCHAIR, *dumps.sets(), output="two", cache="c")
    assert recalled(changed) == ["target"]
    fresh = probe_flow("run", TORCHAIR, *dumps.sets(), output="three", cache="d")
    assert [done.rows for done in (changed, fresh)] == [fresh.rows] * 2
    again = probe_flow("run", TORCHAIR, *dumps.sets(), output="four", cache="c")
    assert recalled(again) == (["target"] if change == "link added" else BOTH)


def test_what_may_still_change_unseen_is_read_again(tmp_path, probe_flow: Command, dumps: Dumps):
    os.utime(dumps.graph)
    for output in ("one", "two"):
        assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output=output, cache="c")) == (
            [] if output == "one" else ["golden"]
        )
    assert len(kept(tmp_path / "c")) == 1


def test_other_options_find_other_things(tmp_path, probe_flow: Command, dumps: Dumps):
    probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    part = tmp_path / "part.yaml"
    part.write_text(
        f"extends: {TORCHAIR}\nversion: 1\nname: part\nstages:\n  target: {{select: {{nodes: [Mul, Add]}}}}\n"
    )
    found = probe_flow("run", part, *dumps.sets(), output="two", cache="c")
    assert recalled(found) == ["golden"]
    assert not any(name.startswith("Relu") for name in found.seen("target"))
    assert recalled(probe_flow("run", part, *dumps.sets(), output="three", cache="c")) == BOTH
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="four", cache="c")) == BOTH
    forced = probe_flow("run", TORCHAIR, *dumps.sets(), "--force", "target", output="five", cache="c")
    assert recalled(forced) == ["golden"]


def test_other_readers_find_other_things(probe_flow: Command, dumps: Dumps, monkeypatch):
    probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    for name, value in (
        ("has_torch", lambda: not has_torch()),
        ("source_digest", lambda: "changed"),
        ("__version__", "99"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"probe_flow.engine.run.kept_catalogs.{name}", value)
            assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output=name, cache="c")) == []
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="last", cache="c")) == BOTH


def test_nothing_is_kept_without_a_cache_or_by_content(tmp_path, probe_flow: Command, dumps: Dumps):
    probe_flow("run", TORCHAIR, *dumps.sets(), "--no-cache", cache="c")
    assert kept(tmp_path / "c") == []
    workflow = tmp_path / "content.yaml"
    workflow.write_text(f"extends: {TORCHAIR}\nversion: 1\nname: content\ncache: {{key: content}}\n")
    probe_flow("run", workflow, *dumps.sets(), cache="c")
    assert kept(tmp_path / "c") == []


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:-9] + b"x" + data[-8:], lambda _: b""])
def test_what_is_damaged_is_read_again_and_kept_anew(tmp_path, probe_flow: Command, dumps: Dumps, damage):
    first = probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    for path in kept(tmp_path / "c"):
        path.write_bytes(damage(path.read_bytes()))
    assert probe_flow("cache", "verify", output=None, cache="c").code == 3
    second = probe_flow("run", TORCHAIR, *dumps.sets(), output="two", cache="c")
    assert (recalled(second), second.rows) == ([], first.rows)
    assert ("PF6206" in second.codes) == bool(damage(b"0123456789"))
    assert second.code == first.code
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="three", cache="c")) == BOTH
    assert probe_flow("cache", "verify", output=None, cache="c").code == 0


def test_the_command_knows_what_is_kept(tmp_path, probe_flow: Command, dumps: Dumps):
    probe_flow("run", TORCHAIR, *dumps.sets(), cache="c")
    assert "2 descriptions of dumps" in probe_flow("cache", "ls", output=None, cache="c").out
    assert "2 descriptions of dumps sound" in probe_flow("cache", "verify", output=None, cache="c").out
    path = kept(tmp_path / "c")[0]
    path.write_bytes(path.read_bytes()[:-9])
    found = probe_flow("cache", "gc", "--max-size", "1GiB", output=None, cache="c")
    assert "deleted 1 damaged files" in found.out
    assert len(kept(tmp_path / "c")) == 1
    probe_flow("cache", "gc", "--max-size", "0B", output=None, cache="c")
    assert kept(tmp_path / "c") == []


def test_a_dump_json_stands_for_its_folder(tmp_path, probe_flow: Command):
    import shutil

    given = samples("pytorch_compare")
    sides = {}
    for side in BOTH:
        source = next(iter([path for path in (given[side],) if path.is_dir()]), given[side].parent)
        shutil.copytree(source, tmp_path / side)
        settle(tmp_path / side)
        sides[side] = next((tmp_path / side).rglob("dump.json"))
    arguments = ("compare", "-tp", sides["target"], "-gp", sides["golden"], "-o", tmp_path / "out")
    runs = []
    for change in (None, None, "stack.json"):
        if change is not None:
            (sides["golden"].parent / change).write_text("{}")
            os.utime(sides["golden"].parent / change, LONG_AGO)
        done = probe_flow(*arguments, output=None, cache="c")
        runs.append(recalled(Done(done.code, "", "", tmp_path / "out" / "probe_flow")))
    assert runs == [[], BOTH, ["target"]]


def test_what_packages_may_read_is_read_again(tmp_path, probe_flow: Command):
    workflow = tmp_path / "auto.yaml"
    path = SAMPLE / "healthy" / "msprobe_fx_dump"
    workflow.write_text(
        "version: 1\nname: auto\nstages:\n"
        + "".join(f"  {side}: {{uses: dump.auto, path: {path}}}\n" for side in BOTH)
        + "  pairs: {uses: match.name, target: target, golden: golden}\n  result: {uses: compare, pairs: pairs}\n"
    )
    for output in ("one", "two"):
        assert recalled(probe_flow("run", workflow, output=output, cache="c")) == []
