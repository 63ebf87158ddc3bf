"""`probe-flow cache` and what `plan` says of the cache, on a copy of the bundled sample."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from probe_flow.measure.result_keys import LEAST_KEPT_BYTES

ROOT = Path(__file__).parents[2]
WORKFLOW = str(ROOT / "workflows" / "torchair_ge_vs_fx.yaml")
PAIRS = 141
RESULTS = PAIRS + 65  # and a closer look at the rows that fail the row rule
SHARDS = Path("cache") / "v2" / "pairs"

pytestmark = pytest.mark.usefixtures("all_kept")


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Copy the healthy sample with old times, and use a cache of its own."""
    sample = shutil.copytree(ROOT / "examples" / "torchair" / "healthy", tmp_path / "dumps")
    for path in sample.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    monkeypatch.setenv("PROBE_FLOW_CACHE", str(tmp_path / "cache"))
    return "--set", f"target={sample / 'msprobe_ge_dump'}", "--set", f"golden={sample / 'msprobe_fx_dump'}"


def touch_one(tmp_path: Path) -> None:
    (changed,) = (tmp_path / "dumps").rglob("gelu_1-*.OUTPUT.0.*.npy")
    os.utime(changed, (1_700_000_001, 1_700_000_001))


def zeros_like(path: Path) -> bytes:
    """Return a `.npy` file of the same size that holds zeros only."""
    data = path.read_bytes()
    start = 10 + int.from_bytes(data[8:10], "little")
    return data[:start] + bytes(len(data) - start)


def cache_facts(outcome) -> dict[str, int]:
    return outcome.json["cache"]


def test_plan_and_why_name_the_field_that_caused_a_miss(probe_flow, sets, tmp_path):
    assert "cache: nothing is kept" in probe_flow("plan", WORKFLOW, *sets).out
    probe_flow("run", WORKFLOW, *sets, "--quiet")
    whole = f"cache: result: all {RESULTS} results are kept, and the comparison that they make\n"
    assert whole in probe_flow("plan", WORKFLOW, *sets).out
    shutil.rmtree(tmp_path / SHARDS.with_name("comparisons"))
    assert "cache: result: all 141 results are kept\n" in probe_flow("plan", WORKFLOW, *sets).out
    touch_one(tmp_path)
    expected = "result: 139 results are kept, 2 are not: golden.source (2)"
    assert f"cache: {expected}" in probe_flow("plan", WORKFLOW, *sets).out
    why = probe_flow("cache", "why", WORKFLOW, *sets).out.splitlines()
    assert why == [expected, "  Gelu_1.output.0: golden.source", "  MatMulV2_7.input.0: golden.source"]


def test_why_compares_with_results_of_the_same_files(probe_flow, sets, tmp_path):
    """Another model has operators of the same names, and was measured later with other options."""
    probe_flow("run", WORKFLOW, *sets, "--quiet")
    shutil.copytree(tmp_path / "dumps", tmp_path / "others")
    others = [value.replace(str(tmp_path / "dumps"), str(tmp_path / "others")) for value in sets]
    part = tmp_path / "part.yaml"
    part.write_text(f"extends: {WORKFLOW}\nversion: 1\nname: part\nstages:\n  result: {{max_elements: 7}}\n")
    probe_flow("run", str(part), *others, "--quiet")
    touch_one(tmp_path)
    why = probe_flow("cache", "why", WORKFLOW, *sets).out.splitlines()
    assert why[0] == "result: 139 results are kept, 2 are not: golden.source (2)"
    why = probe_flow("cache", "why", str(part), *sets, "--limit", "1").out.splitlines()
    assert why[0].startswith("result: 0 results are kept, ")
    assert "target.source" not in why[0], "the files are those of the first run; only what is asked for is another"


def test_an_unchanged_second_run_measures_nothing(probe_flow, sets, tmp_path):
    first = probe_flow("run", WORKFLOW, *sets, "--format", "json")
    assert (cache_facts(first)["hits"], cache_facts(first)["written"]) == (0, RESULTS)
    second = probe_flow("run", WORKFLOW, *sets, "--format", "json")
    assert (cache_facts(second)["hits"], cache_facts(second)["misses"]) == (RESULTS, 0)
    touch_one(tmp_path)
    third = probe_flow("run", WORKFLOW, *sets, "--format", "json")
    assert 2 <= cache_facts(third)["misses"] <= 4, "two pairs, and the closer looks at them"


def test_force_measures_again_and_no_cache_leaves_it_alone(probe_flow, sets, tmp_path):
    probe_flow("run", WORKFLOW, *sets, "--quiet")
    forced = probe_flow("run", WORKFLOW, *sets, "--force", "result", "--format", "json")
    assert (cache_facts(forced)["hits"], cache_facts(forced)["written"]) == (0, RESULTS)
    shards = len(list((tmp_path / SHARDS).iterdir()))
    probe_flow("run", WORKFLOW, *sets, "--no-cache", "--quiet")
    assert len(list((tmp_path / SHARDS).iterdir())) == shards


def test_content_keys_survive_a_copy_and_see_a_changed_byte(probe_flow, sets, tmp_path):
    workflow = tmp_path / "content.yaml"
    workflow.write_text(f"extends: {WORKFLOW}\nversion: 1\nname: content\ncache: {{key: content}}\n")
    probe_flow("run", str(workflow), *sets, "--quiet")
    touch_one(tmp_path)
    again = probe_flow("run", str(workflow), *sets, "--format", "json")
    assert cache_facts(again)["misses"] == 0
    (changed,) = (tmp_path / "dumps").rglob("gelu_1-*.OUTPUT.0.*.npy")
    status, data = changed.stat(), bytearray(changed.read_bytes())
    data[-1] ^= 1
    changed.write_bytes(bytes(data))
    os.utime(changed, ns=(status.st_mtime_ns, status.st_mtime_ns))
    after = probe_flow("run", str(workflow), *sets, "--format", "json")
    assert 2 <= cache_facts(after)["misses"] <= 5, "two pairs, and the closer looks at them"


@pytest.mark.parametrize("replaced", [False, True], ids=["written in place", "another file in its place"])
def test_a_file_of_the_same_size_and_time_is_measured_again(probe_flow, sets, tmp_path, replaced):
    assert probe_flow("run", WORKFLOW, *sets, "--quiet").code == 0
    (changed,) = (tmp_path / "dumps").rglob("gelu_1-*.OUTPUT.0.*.npy")
    status = changed.stat()
    written = changed.with_suffix(".new") if replaced else changed
    written.write_bytes(zeros_like(changed))
    os.utime(written, ns=(status.st_mtime_ns, status.st_mtime_ns))
    written.replace(changed)
    assert (changed.stat().st_size, changed.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert "golden.source (2)" in probe_flow("cache", "why", WORKFLOW, *sets).out
    assert probe_flow("run", WORKFLOW, *sets, "--quiet").code == 1


def test_verify_finds_damage_and_gc_removes_it(probe_flow, sets, tmp_path):
    probe_flow("run", WORKFLOW, *sets, "--quiet")
    sound = probe_flow("cache", "verify")
    assert sound.code == 0
    assert "0 files damaged" in sound.out
    shard = next((tmp_path / SHARDS).glob("*.h5"))
    shard.write_bytes(shard.read_bytes()[:-200])
    found = probe_flow("cache", "verify")
    assert found.code == 3
    assert "PF6201" in found.err
    assert shard.name in found.err
    listed = probe_flow("cache", "ls")
    assert "is damaged" in listed.out
    run = probe_flow("run", WORKFLOW, *sets, "--format", "json")
    assert (run.code, run.json["problems"]) == (0, []), "the comparison is kept, and its results are not asked for"
    shutil.rmtree(tmp_path / SHARDS.with_name("comparisons"))
    run = probe_flow("run", WORKFLOW, *sets, "--format", "json")
    assert run.code == 0
    assert "PF6201" in [problem["code"] for problem in run.json["problems"]]
    probe_flow("cache", "gc", "--max-size", "1GiB")
    assert not shard.exists()
    assert probe_flow("cache", "verify").code == 0


def test_ls_says_which_run_of_which_workflow_measured_which_dump(probe_flow, sets, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(f"extends: {WORKFLOW}\nversion: 1\nname: other\nstages:\n  result: {{max_elements: 7}}\n")
    probe_flow("run", WORKFLOW, *sets, "--quiet", "--output", str(tmp_path / "first"))
    probe_flow("run", str(other), *sets, "--quiet", "--output", str(tmp_path / "second"))

    def listed(*by: str) -> list[str]:
        lines = probe_flow("cache", "ls", *by).out.splitlines()
        return [line.split("B  ", 1)[1] for line in lines if " results  " in line]

    assert listed() == ["167 results  of other, run second", f"{RESULTS} results  of torchair-ge-vs-fx, run first"]
    assert listed("--by", "workflow") == ["167 results  of other", f"{RESULTS} results  of torchair-ge-vs-fx"]
    (of_dump,) = listed("--by", "dump")
    assert str(tmp_path / "dumps" / "msprobe_ge_dump") in of_dump
    assert len(listed("--by", "file")) > 2
    assert all(line.endswith(".h5") for line in listed("--by", "file"))


def test_ls_knows_nothing_of_files_of_earlier_versions_but_their_size(tmp_path):
    from probe_flow.engine.cache_contents import holdings
    from probe_flow.files.shards import Entry, ShardStore

    for name in ("old", "odd", "long"):
        made_by = {"old": "", "odd": "[1]", "long": "x" * 5000}[name]
        ShardStore(tmp_path, made_by=made_by).add({"k" * 32: Entry(name, "no label")})
    (found,) = holdings(ShardStore(tmp_path).shards(), "run")
    assert found.text == "3 results  by a run of an earlier version"
    (found,) = holdings(ShardStore(tmp_path).shards(), "dump")
    assert found.text == "3 results  of files known by their content"


def test_gc_keeps_the_newest(probe_flow, tmp_path, monkeypatch):
    folder = tmp_path / "cache" / "v2" / "pairs"
    folder.mkdir(parents=True)
    from probe_flow.files.shards import Entry, ShardStore

    store = ShardStore(folder)
    paths = [store.add({f"{number:032x}": Entry("x" * 10_000, "")}) for number in range(3)]
    for age, path in enumerate(paths):
        assert path is not None
        os.utime(path, (1_700_000_000 + age, 1_700_000_000 + age))
    size = paths[0].stat().st_size
    out = probe_flow("cache", "gc", "--dir", str(tmp_path / "cache"), "--max-size", f"{2 * size}B").out
    assert "1 old" in out
    assert [path.exists() for path in paths] == [False, True, True]


def test_a_size_that_is_none_is_a_usage_error(probe_flow):
    done = probe_flow("cache", "gc", "--max-size", "much")
    assert done.code == 2
    assert "`much` is no size" in done.err


def test_a_read_only_cache_costs_a_warning(probe_flow, sets, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    done = probe_flow("run", WORKFLOW, *sets, "--format", "json")
    assert done.code == 0
    assert "PF6203" in [problem["code"] for problem in done.json["problems"]]


def test_converted_tensors_are_kept_and_change_no_result(probe_flow, sets, tmp_path):
    folder = tmp_path / "cache" / "v2" / "tensors"
    workflow = tmp_path / "all.yaml"
    workflow.write_text(f"extends: {WORKFLOW}\nversion: 1\nname: all\ncache: {{tensors: always}}\n")
    probe_flow("run", WORKFLOW, *sets, "--output", "plain", "--no-cache", "--quiet")
    assert not folder.exists(), "small tensors are not worth it"
    for name in ("made", "found"):
        probe_flow("run", str(workflow), *sets, "--output", name, "--force", "result", "--quiet")
        kept = sorted(folder.rglob("*.h5"))
        assert len(kept) >= 2, "the sample has an operator in FRACTAL_NZ"
        rows = (tmp_path / name / "comparison.jsonl").read_bytes()
        assert rows == (tmp_path / "plain" / "comparison.jsonl").read_bytes()
    kept[0].write_bytes(b"damaged")
    assert probe_flow("cache", "verify").code == 3
    probe_flow("cache", "gc", "--max-size", "0B")
    assert list(folder.rglob("*.h5")) == []


def test_converted_tensors_that_cannot_be_kept_cost_a_warning(probe_flow, sets, tmp_path):
    workflow = tmp_path / "all.yaml"
    workflow.write_text(f"extends: {WORKFLOW}\nversion: 1\nname: all\ncache: {{tensors: always}}\n")
    (tmp_path / "cache" / "v2").mkdir(parents=True)
    (tmp_path / "cache" / "v2" / "tensors").write_text("a file where the folder should be")
    done = probe_flow("run", str(workflow), *sets, "--format", "json")
    assert done.code == 0
    assert [problem["code"] for problem in done.json["problems"]] == ["PF6205"]


def test_what_is_too_small_to_be_kept_is_no_miss(probe_flow, sets, tmp_path, monkeypatch):
    monkeypatch.setattr("probe_flow.measure.result_keys.LEAST_KEPT_BYTES", LEAST_KEPT_BYTES)
    assert "cache: nothing is kept" in probe_flow("plan", WORKFLOW, *sets).out
    first = probe_flow("run", WORKFLOW, *sets, "--format", "json")
    assert not (tmp_path / SHARDS).exists()
    assert "cache: result: the comparison is kept\n" in probe_flow("plan", WORKFLOW, *sets).out
    second = probe_flow("run", WORKFLOW, *sets, "--format", "json")
    assert [cache_facts(run).get("misses", 0) for run in (first, second)] == [0, 0]
    assert probe_flow("cache", "why", WORKFLOW, *sets).out == "result: the comparison is kept\n"
    shutil.rmtree(tmp_path / SHARDS.with_name("comparisons"))
    expected = "result: there is no result that is worth keeping\n"
    assert probe_flow("cache", "why", WORKFLOW, *sets).out == expected


@pytest.mark.parametrize("words", [("ls",), ("verify",), ("gc", "--max-size", "1GB")], ids=lambda words: words[0])
def test_a_cache_that_is_named_and_not_there_is_a_mistake(probe_flow, tmp_path: Path, words: tuple[str, ...]):
    (tmp_path / "file").write_text("")
    for wrong in ("absent", "file"):
        done = probe_flow("cache", *words, "--dir", wrong)
        assert done.code == 2, done.out
        assert f"'{wrong}'" in done.err


@pytest.mark.parametrize("command", ["ls", "verify"])
def test_a_file_in_the_place_of_the_users_cache_holds_nothing(probe_flow, tmp_path: Path, monkeypatch, command: str):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PROBE_FLOW_CACHE", str(tmp_path / "file"))
    assert probe_flow("cache", command).code == 0
