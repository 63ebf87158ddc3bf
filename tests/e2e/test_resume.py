"""Runs that are killed: at most one batch is lost, and the resumed run ends in the same bytes.

The victim is a real process that kills itself with SIGKILL at a chosen point of the code: nothing is cleaned up.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from e2e.projects import KEEPS_ALL, settle
from probe_flow.measure.result_keys import LEAST_KEPT_BYTES
from probe_flow.record.run_folder import read_run

ROOT = Path(__file__).parents[2]
TORCHAIR = ROOT / "workflows" / "torchair_ge_vs_fx.yaml"
TASKS_PER_BATCH = 20

VICTIM = """
import os, signal, sys
from pathlib import Path
import probe_flow.measure.batches as measuring
import probe_flow.measure.result_keys as result_keys

measuring.MAX_TASKS_PER_BATCH = {tasks}
result_keys.LEAST_KEPT_BYTES = {least}
point, number = sys.argv[1], int(sys.argv[2])
seen = 0


def die_at(what):
    global seen
    if what == point:
        seen += 1
        if seen == number:
            os.kill(os.getpid(), signal.SIGKILL)


def around(owner, name, what, *, after=False):
    original = getattr(owner, name)

    def wrapper(*args, **kwargs):
        if not after:
            die_at(what)
        result = original(*args, **kwargs)
        if after:
            die_at(what)
        return result

    setattr(owner, name, wrapper)


import probe_flow.measure.run as measure_pairs
from probe_flow.files.shards import ShardStore
import probe_flow.files.shards as shards
import probe_flow.engine.run.results as results
import probe_flow.engine.run.execute as execute

if point == "batch":
    measure_batch = measuring.measure_batch
    def counted(batch):
        die_at("batch")
        return measure_batch(batch)
    counted.__module__, counted.__qualname__ = "probe_flow.measure.batches", "measure_batch"
    measure_pairs.measure_batch = counted
around(shards, "_write", "written", after=True)
around(Path, "replace", "renamed", after=True)
around(ShardStore, "add", "kept", after=True)
around(results, "write_comparison_jsonl", "jsonl")
around(results, "write_nodes_jsonl", "nodes")
around(execute, "write_run_json", "record")

from probe_flow.cli.main import main
sys.exit(main(sys.argv[3:]))
"""

POINTS = [
    *(("batch", number) for number in (1, 2, 4, 8)),
    *(("written", number) for number in (1, 3, 8)),
    *(("renamed", number) for number in (1, 2, 5)),
    *(("kept", number) for number in (1, 4, 8)),
    ("jsonl", 1),
    ("nodes", 1),
    *(("record", number) for number in (1, 2, 4, 6)),
]


CASES = [
    *((point, number, "cache") for point, number in POINTS),
    *((point, number, "no-cache") for point, number in (("batch", 4), ("written", 3), ("kept", 4), ("record", 4))),
]


@pytest.fixture
def settled_sample(tmp_path: Path) -> Path:
    """Return a copy of the bundled sample whose files are old enough for the cache to trust their times."""
    import shutil

    sample = tmp_path / "dumps"
    shutil.copytree(ROOT / "examples" / "torchair" / "faulty", sample)
    return settle(sample)


def arguments(sample: Path, output: Path, *more: str) -> list[str]:
    sets = ["--set", f"target={sample / 'msprobe_ge_dump'}", "--set", f"golden={sample / 'msprobe_fx_dump'}"]
    return ["run", str(TORCHAIR), *sets, "--output", str(output), "--quiet", "--scheduler", "sync", *more]


def run(command: list[str], cache: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PROBE_FLOW_CACHE": str(cache)}
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cache.parent, check=False)


def victim(point: str, number: int, given: list[str], cache: Path, *, least: int = 0) -> int:
    code = VICTIM.format(tasks=TASKS_PER_BATCH, least=least)
    return run([sys.executable, "-c", code, point, str(number), *given], cache).returncode


def results_of(folder: Path) -> Mapping[str, bytes]:
    (table,) = folder.glob("torchair_result_*.csv")
    names = ("comparison.jsonl", "nodes.jsonl", "details.jsonl")
    return {**{name: (folder / name).read_bytes() for name in names}, "csv": table.read_bytes()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    folder = tmp_path_factory.mktemp("expected")
    given = ["run", str(TORCHAIR), "--output", str(folder / "run"), "--quiet", "--no-cache"]
    done = run([sys.executable, "-m", "probe_flow", *given], folder / "cache")
    assert done.returncode == 1, done.stderr
    return results_of(folder / "run")


@pytest.mark.parametrize(("point", "number", "cached"), CASES)
def test_a_killed_run_resumes_to_the_same_bytes(point, number, cached, settled_sample, tmp_path, expected):
    output, cache = tmp_path / "run", tmp_path / "cache"
    more = ["--no-cache"] if cached == "no-cache" else []
    assert victim(point, number, arguments(settled_sample, output, *more), cache) == -signal.SIGKILL
    record = json.loads((output / "run.json").read_text()) if (output / "run.json").exists() else None
    assert record is None or record["verdict"] == "incomplete", "a killed run never looks finished"
    if point == "record" and record is not None:
        skeleton = read_run(output).record
        ended = ("target", "golden", "pairs", "result", "report")[: number - 2]
        assert [stage.name for stage in skeleton.stages] == list(ended), "a skeleton after each stage"
        assert (skeleton.status, skeleton.findings) == ("running", ())
    given = arguments(settled_sample, output, "--resume", *more)
    done = run([sys.executable, "-c", KEEPS_ALL, *given], cache)
    assert done.returncode == 1, done.stderr
    assert results_of(output) == expected
    record = json.loads((output / "run.json").read_text())
    assert record["verdict"] == "fail"
    assert not (output / ".partial").exists()
    assert not list(output.rglob("*.tmp*"))
    kept_before = {"batch": number - 1, "written": number - 1, "renamed": 0, "kept": number, "record": 0}
    at_least = kept_before.get(point, 8) * TASKS_PER_BATCH
    assert record["cache"]["hits"] >= min(at_least, 141), "more than the batch under way was lost"


@pytest.mark.parametrize(("point", "number"), [("batch", 4), ("jsonl", 1)])
def test_a_killed_run_of_small_pairs_keeps_none_and_resumes_to_the_same_bytes(
    point, number, settled_sample, tmp_path, expected
):
    output, cache = tmp_path / "run", tmp_path / "cache"
    given = arguments(settled_sample, output)
    assert victim(point, number, given, cache, least=LEAST_KEPT_BYTES) == -signal.SIGKILL
    assert not (cache / "v2" / "pairs").exists()
    done = run([sys.executable, "-m", "probe_flow", *given, "--resume"], cache)
    assert done.returncode == 1, done.stderr
    assert results_of(output) == expected
    assert not (cache / "v2" / "pairs").exists()


def test_of_runs_that_begin_at_once_in_one_folder_all_end_whole_or_are_refused_by_name(
    tmp_path, settled_sample, expected
):
    output = tmp_path / "run"
    env = {**os.environ, "PROBE_FLOW_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "probe_flow", *arguments(settled_sample, output)]
    begun = [
        subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=env)
        for _ in range(6)
    ]
    errors = {process: process.communicate(timeout=600)[1] for process in begun}
    pids = {process.pid for process in begun}
    for process, error in errors.items():
        refusal = re.search(r"PF6013.*process (\d+) on `", error)
        assert process.returncode == 1 or (process.returncode == 2 and refusal), error
        assert refusal is None or int(refusal[1]) in pids - {process.pid}
    assert 1 in {process.returncode for process in begun}
    assert results_of(output) == expected
    assert not list(output.glob(".*"))


def test_resuming_nothing_says_so(tmp_path):
    command = [sys.executable, "-m", "probe_flow", "run", str(TORCHAIR), "--resume"]
    done = run(command, tmp_path / "cache")
    assert done.returncode == 2
    assert "PF6012" in done.stderr


def test_a_cache_that_is_full_costs_the_cache_and_not_the_result(tmp_path, expected, settled_sample):
    code = VICTIM.format(tasks=TASKS_PER_BATCH, least=0)
    full = code.replace(
        "from probe_flow.cli.main import main",
        "def no_space(*_):\n    raise OSError(28, 'No space left on device')\n"
        "shards._write = no_space\nfrom probe_flow.cli.main import main",
    )
    output = tmp_path / "run"
    given = [argument for argument in arguments(settled_sample, output) if argument != "--quiet"]
    done = run([sys.executable, "-c", full, "none", "0", *given], tmp_path / "cache")
    assert done.returncode == 1
    assert done.stderr.count("PF6203") == 2, "once for the cache, once for the run's own folder"
    assert "No space left on device" in done.stderr
    assert results_of(output) == expected
