"""Where nothing changed nothing is matched or measured again; a change of whatever a comparison depends on shows."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from e2e.projects import TORCHAIR, WORKFLOWS, Command, Done, Dumps, command_in, samples, settle, write_dumps
from e2e.test_kept_catalogs import CHANGES, LONG_AGO
from probe_flow.dumps.onnx.model import MODEL_FILE
from probe_flow.engine.run import kept_comparisons
from probe_flow.errors import Diagnostic, Severity, Span
from probe_flow.stages.match.match_options import MatchOptions

RECALLED = ["pairs", "result"]
KEPT_COMPARISONS = "probe_flow.engine.run.kept_comparisons"


@pytest.fixture
def dumps(tmp_path: Path) -> Dumps:
    found = write_dumps(tmp_path / "dumps")
    settle(found.root)
    return found


def recalled(done: Done) -> list[str]:
    """Names of the matching and comparing stages that did not run."""
    events = [json.loads(line) for line in (done.folder / "events.jsonl").read_text().splitlines()]
    return [event["stage"] for event in events if event["event"] in ("pairs.recalled", "compare.recalled")]


def files(done: Done) -> list[tuple[str, bytes]]:
    """The result files, without times in their names."""
    found = [path for path in done.folder.rglob("*") if path.suffix in (".csv", ".jsonl", ".md", ".index")]
    return sorted((path.suffix, path.read_bytes()) for path in found if path.name != "events.jsonl")


def said(done: Done) -> dict[str, Any]:
    """The record of a run without times and names of its own."""
    record = {**done.record, "artifacts": None, "run_id": None, "timings": None}
    record["stages"] = [{**stage, "wall_s": None} for stage in record["stages"]]
    record["cache"] = {**record["cache"], "folder": None}
    return record


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "v2" / "comparisons").glob("*"))


def variant(tmp_path: Path, name: str, text: str) -> Path:
    """Write a workflow that changes the packaged one, under the same name."""
    path = tmp_path / f"{name}.yaml"
    path.write_text(f"extends: {TORCHAIR}\nversion: 1\nname: torchair-ge-vs-fx\n{text}\n")
    return path


@pytest.mark.usefixtures("all_kept")
def test_a_second_run_says_what_it_would_say_by_measuring(tmp_path, probe_flow: Command, dumps: Dumps, monkeypatch):
    first = probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    assert recalled(first) == []
    with monkeypatch.context() as patch:
        for place in ("comparing.steps.compare_pairs", "matching.torchair.match_torchair.match_torchair"):
            patch.setattr(f"probe_flow.{place}", None)
        second = probe_flow("run", TORCHAIR, *dumps.sets(), output="two", cache="c")
    assert recalled(second) == RECALLED
    shutil.rmtree(tmp_path / "c" / "v2" / "comparisons")
    measured = probe_flow("run", TORCHAIR, *dumps.sets(), output="three", cache="c")
    assert recalled(measured) == []
    assert said(second) == said(measured)
    assert second.record["cache"]["hits"] > 0
    assert second.record["cache"]["misses"] == 0
    assert files(first) == files(second) == files(measured)
    assert (first.code, second.code) == (measured.code, measured.code)


@pytest.mark.usefixtures("all_kept")
def test_a_plan_matches_nothing_where_nothing_changed(tmp_path, probe_flow: Command, dumps: Dumps, monkeypatch):
    hits = probe_flow("run", TORCHAIR, *dumps.sets(), cache="c").record["cache"]["misses"]
    told = f"result: all {hits} results are kept, and the comparison that they make\n"
    monkeypatch.setattr("probe_flow.matching.torchair.match_torchair.match_torchair", None)
    monkeypatch.setattr("probe_flow.dumps.torchair.ge.read_torchair_ge", None)
    assert probe_flow("cache", "why", TORCHAIR, *dumps.sets(), output=None, cache="c").out == told
    assert told in probe_flow("plan", TORCHAIR, *dumps.sets(), output=None, cache="c").out


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_of_a_dump_shows(probe_flow: Command, dumps: Dumps, change):
    probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    path = dumps.array("mul-*OUTPUT*")
    path.parent.chmod(0o755)
    probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    CHANGES[change](path)
    changed = probe_flow("run", TORCHAIR, *dumps.sets(), output="two", cache="c")
    assert recalled(changed) == []
    fresh = probe_flow("run", TORCHAIR, *dumps.sets(), output="three", cache="d")
    assert files(changed) == files(fresh)
    again = probe_flow("run", TORCHAIR, *dumps.sets(), output="four", cache="c")
    assert recalled(again) == ([] if change == "link added" else RECALLED)
    assert files(again) == files(fresh)


OTHERS = {
    "policy": "stages: {result: {policy: dump_json}}",
    "rules": "stages: {result: {policy: [{pass: {cosine: '>= 0.99'}}]}}",
    "metrics": "stages: {result: {metrics: [cosine, max_abs_err]}}",
    "elements": "stages: {result: {max_elements: 1}}",
    "gate": "stages: {result: {gate: all_pass}}",
    "required": "stages: {result: {require: {coverage: 0.1}}}",
    "analysis": "stages: {result: {analysis: {recompute: never}}}",
    "ranks": "stages: {pairs: {step_offset: 1}}",
    "selected": "stages: {target: {select: {nodes: [Mul, Add]}}}",
    "backend": "metrics_backend: numpy",
    "memory": "executor: {memory_limit: 4GiB}",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_options_are_another_comparison(tmp_path, probe_flow: Command, dumps: Dumps, name):
    probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    other = variant(tmp_path, name, OTHERS[name])
    found = probe_flow("run", other, *dumps.sets(), output="two", cache="c")
    fresh = probe_flow("run", other, *dumps.sets(), output="three", cache="d")
    assert recalled(found) == []
    assert files(found) == files(fresh)
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="four", cache="c")) == RECALLED
    assert recalled(probe_flow("run", other, *dumps.sets(), output="five", cache="c")) == RECALLED


@pytest.mark.parametrize("stage", ["target", "golden", "pairs", "result"])
def test_what_is_forced_is_measured(probe_flow: Command, dumps: Dumps, stage):
    probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    forced = probe_flow("run", TORCHAIR, *dumps.sets(), "--force", stage, output="two", cache="c")
    assert recalled(forced) == []
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="three", cache="c")) == RECALLED


def test_another_program_measures_again(tmp_path, probe_flow: Command, dumps: Dumps, monkeypatch):
    packages = tmp_path / "lib" / "site-packages"
    packages.mkdir(parents=True)
    monkeypatch.syspath_prepend(str(packages))
    probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    for name, value in (("source_digest", lambda: "changed"), ("__version__", "99")):
        with monkeypatch.context() as patch:
            patch.setattr(f"probe_flow.engine.run.kept_catalogs.{name}", value)
            assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output=name, cache="c")) == []
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="two", cache="c")) == RECALLED
    (packages / "installed").mkdir()
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="three", cache="c")) == []
    with monkeypatch.context() as patch:
        patch.setattr(f"{KEPT_COMPARISONS}.is_extended", lambda: True)
        assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="four", cache="c")) == []
    assert str(packages) in sys.path


WAIVER = "{where: {node: Mul}, reason: known, owner: me, expires: '2999-01-01'}"
NOT_KEPT = {
    "waiver": f"stages: {{result: {{waivers: [{WAIVER}]}}}}",
    "another reader of the pairs": "stages: {second: {uses: compare, pairs: pairs, gate: all_pass}}",
    "by content": "cache: {key: content}",
}


@pytest.mark.parametrize("name", NOT_KEPT)
def test_what_depends_on_more_is_not_kept(tmp_path, probe_flow: Command, dumps: Dumps, name):
    workflow = variant(tmp_path, "other", NOT_KEPT[name])
    for output in ("one", "two"):
        assert recalled(probe_flow("run", workflow, *dumps.sets(), output=output, cache="c")) == []
    assert kept(tmp_path / "c") == []


def test_what_names_a_line_of_the_workflow_is_not_kept(tmp_path, probe_flow: Command, dumps: Dumps, monkeypatch):
    matched = MatchOptions.matched

    def noting(options, match, inputs):
        problem = Diagnostic("PF4107", "of no use", Severity.WARNING, span=Span(str(TORCHAIR), 3))
        return structs.replace(matched(options, match, inputs), problems=(problem,))

    monkeypatch.setattr(MatchOptions, "matched", noting)
    for output in ("one", "two"):
        assert "PF4107" in probe_flow("run", TORCHAIR, *dumps.sets(), output=output, cache="c").codes
    assert kept(tmp_path / "c") == []


def test_a_model_elsewhere_is_known_by_the_readers_own_word():
    assert kept_comparisons._MODEL_FILE == MODEL_FILE


def test_a_dump_with_itself_stays_incomplete_when_it_is_recalled(tmp_path, probe_flow: Command, dumps: Dumps):
    workflow = variant(tmp_path, "other", "stages: {golden: {uses: dump.torchair_ge}}")
    found = [
        probe_flow("run", workflow, *dumps.sets(golden=dumps.target), output=output, cache="c")
        for output in ("one", "two")
    ]
    assert [recalled(each) for each in found] == [[], ["pairs", "result"]]
    assert [(each.code, "same dump on both sides" in each.out) for each in found] == [(3, True)] * 2


def test_what_cannot_be_read_is_tried_again(tmp_path, probe_flow: Command, dumps: Dumps, monkeypatch):
    def failing(*_: object, **__: object):
        raise OSError("the disk is away")

    with monkeypatch.context() as patch:
        patch.setattr("probe_flow.measure.batches.open_tensor", failing)
        first = probe_flow("run", TORCHAIR, *dumps.sets(), "--scheduler", "sync", output="one", cache="c")
    assert first.verdicts("error")
    second = probe_flow("run", TORCHAIR, *dumps.sets(), output="two", cache="c")
    assert recalled(second) == []
    assert not second.verdicts("error")


def test_nothing_is_kept_of_a_stage_that_lost_something(tmp_path, probe_flow: Command, dumps: Dumps, monkeypatch):
    from probe_flow.comparing.steps import compare_pairs

    def losing(pairs, asked, context, suspects):
        context.emit("batch.lost", batch=0, reason="took longer than 120 s")
        return compare_pairs(pairs, asked, context, suspects)

    with monkeypatch.context() as patch:
        patch.setattr("probe_flow.comparing.steps.compare_pairs", losing)
        probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    assert kept(tmp_path / "c") == []


def test_a_warning_of_the_moment_is_not_lost(tmp_path, probe_flow: Command, dumps: Dumps, monkeypatch):
    from probe_flow.comparing.steps import compare_pairs

    def warning(pairs, asked, context, suspects):
        context.report([Diagnostic("PF6205", "converted tensors cannot be kept", Severity.WARNING)])
        return compare_pairs(pairs, asked, context, suspects)

    with monkeypatch.context() as patch:
        patch.setattr("probe_flow.comparing.steps.compare_pairs", warning)
        probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    assert kept(tmp_path / "c") == []


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:-9] + b"x" + data[-8:], lambda _: b""])
def test_what_is_damaged_is_measured_again_and_kept_anew(tmp_path, probe_flow: Command, dumps: Dumps, damage):
    first = probe_flow("run", TORCHAIR, *dumps.sets(), output="one", cache="c")
    (path,) = kept(tmp_path / "c")
    path.write_bytes(damage(path.read_bytes()))
    assert probe_flow("cache", "verify", output=None, cache="c").code == 3
    second = probe_flow("run", TORCHAIR, *dumps.sets(), output="two", cache="c")
    assert recalled(second) == []
    assert files(second) == files(first)
    assert ("PF6206" in second.codes) == bool(damage(b"0123456789"))
    assert recalled(probe_flow("run", TORCHAIR, *dumps.sets(), output="three", cache="c")) == RECALLED
    assert probe_flow("cache", "verify", output=None, cache="c").code == 0


def test_the_command_knows_what_is_kept(tmp_path, probe_flow: Command, dumps: Dumps):
    probe_flow("run", TORCHAIR, *dumps.sets(), cache="c")
    assert "1 whole comparisons" in probe_flow("cache", "ls", output=None, cache="c").out
    assert "1 whole comparisons" in probe_flow("cache", "verify", output=None, cache="c").out
    probe_flow("cache", "gc", "--max-size", "0B", output=None, cache="c")
    assert kept(tmp_path / "c") == []


def test_a_mapping_file_belongs_to_what_is_kept(tmp_path, probe_flow: Command):
    given_ = samples("mindspore_vs_pytorch_api_mapping")
    mapping = tmp_path / "mapping.yaml"
    shutil.copy(given_["mapping"], mapping)
    os.utime(mapping, LONG_AGO)
    for side in ("target", "golden"):
        shutil.copytree(given_[side], tmp_path / side)
        settle(tmp_path / side)
    sets = [f"--set={name}={tmp_path / name}" for name in ("target", "golden")] + [f"--set=mapping={mapping}"]

    def run(output: str, cache: str = "c") -> Done:
        return probe_flow("run", WORKFLOWS / "mindspore_vs_pytorch_api_mapping.yaml", *sets, output=output, cache=cache)

    assert recalled(run("one")) == []
    assert recalled(run("two")) == RECALLED
    text = mapping.read_text()
    mapping.write_text(text + "# a word\n")
    os.utime(mapping, LONG_AGO)
    assert recalled(run("three")) == []
    assert recalled(run("four")) == RECALLED
    mapping.write_text("".join(f"#{line[1:]}" for line in text.splitlines(keepends=True)) + "# a word\n")
    os.utime(mapping, LONG_AGO)  # of the same size and time, and it says nothing now
    changed = run("five")
    assert recalled(changed) == []
    assert files(changed) == files(run("six", cache="d"))
    mapping.write_text(text)  # too young to be known by its times
    assert recalled(run("seven")) == []
    assert recalled(run("eight")) == []


STEPS = (*(each for each in CHANGES if each != "link added"), *OTHERS, "nothing", "force", "mapping back")


@given(steps=st.lists(st.sampled_from(STEPS), min_size=2, max_size=4))
@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_happens_a_run_says_what_one_without_a_cache_says(tmp_path_factory, capsys, steps):
    folder = tmp_path_factory.mktemp("steps")
    dumps = write_dumps(folder / "dumps")
    settle(dumps.root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        probe_flow = command_in(folder, patch, capsys)
        workflow, more = TORCHAIR, []
        for number, step in enumerate(["nothing", *steps]):
            more = ["--force", "result"] if step == "force" else []
            if step in OTHERS:
                workflow = variant(folder, "other", OTHERS[step])
            elif step in CHANGES and (paths := sorted(dumps.golden.rglob("*.npy"))):
                CHANGES[step](paths[number % len(paths)])
            found = probe_flow("run", workflow, *dumps.sets(), *more, output=f"found{number}", cache="c")
            fresh = probe_flow("run", workflow, *dumps.sets(), *more, output=f"fresh{number}", cache=f"d{number}")
            assert files(found) == files(fresh)
            assert found.code == fresh.code
            assert found.record["problems"] == fresh.record["problems"]
