"""The stages `reduce.*`: their options, what they return, and when nothing may wait for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from pydantic import ValidationError
from raw_pairs import context
from reduce_dumps import fx_name, write_fx

from probe_flow.dumps.reduced.reduced_files import ReducedArray
from probe_flow.dumps.reduced.reduced_names import reduced_name
from probe_flow.errors import IncompleteError, WorkflowError
from probe_flow.stages.reduce import reduce_checksum, reduce_minmax, reduce_statistics
from probe_flow.workflow.loading.loader import load_workflow

STAGES = {stage.STAGE.uses: stage for stage in (reduce_minmax, reduce_statistics, reduce_checksum)}


def run(uses, path, folder, **options):
    stage = STAGES[uses]
    given = stage.Options(uses=uses, path=str(path), **options)
    return stage.run(given, {}, replace(context(), stage="small", output=folder))


@pytest.mark.parametrize(
    ("uses", "names"),
    [
        ("reduce.minmax", ("min", "max")),
        ("reduce.statistics", ("min", "max", "mean", "l2norm", "count", "nan_count", "inf_count")),
        ("reduce.checksum", ("crc32",)),
    ],
)
def test_a_stage_writes_its_statistics_and_returns_the_reduced_dump(tmp_path, uses, names):
    dump = tmp_path / "worldsize1_global_rank0" / "graph_1" / "0"
    write_fx(dump)
    catalog = run(uses, tmp_path / "worldsize1_global_rank0", tmp_path / "run", delete_source=True)
    assert ReducedArray.read(dump / reduced_name(fx_name())).names == names
    assert [str(tensor.slot) for tensor in catalog.tensors] == ["output.0"]
    assert (tmp_path / "run" / "reduce_small.json").is_file()


def test_a_file_that_is_left_fails_the_stage_with_its_reason(tmp_path):
    write_fx(tmp_path / "dump").write_bytes(b"")
    with pytest.raises(IncompleteError) as caught:
        run("reduce.minmax", tmp_path / "dump", tmp_path / "run")
    assert [problem.code for problem in caught.value.diagnostics] == ["PF6306", "PF3020"]


def test_the_summary_goes_where_it_is_asked_to(tmp_path):
    write_fx(tmp_path / "dump")
    run("reduce.minmax", tmp_path / "dump", tmp_path / "run", summary=str(tmp_path / "s.json"))
    assert (tmp_path / "s.json").is_file()
    (tmp_path / "s.json").unlink()
    (tmp_path / "s.json").mkdir()
    with pytest.raises(IncompleteError) as caught:
        run("reduce.minmax", tmp_path / "dump", tmp_path / "run", summary=str(tmp_path / "s.json"))
    assert caught.value.diagnostic.code == "PF6305"


def test_a_watch_ends_as_its_options_say(tmp_path):
    write_fx(tmp_path / "dump")
    watch = {"interval": 0.01, "settle": 0.0, "stop_when": "idle", "idle_s": 0.02}
    catalog = run("reduce.minmax", tmp_path / "dump", tmp_path / "run", watch=watch)
    assert catalog.tensors


@pytest.mark.parametrize(
    "wrong",
    [
        {"watch": {"stop_when": "file"}},
        {"watch": {"stop_file": "x"}},
        {"watch": {"interval": 0.0}},
        {"watch": {"every": 1.0}},
        {"suffix": "min"},
        {"suffix": "_a/b"},
        {"statistics": ["min"]},
        {"delete_source": "yes"},
    ],
)
def test_wrong_options_are_refused(wrong):
    with pytest.raises(ValidationError):
        reduce_minmax.Options(uses="reduce.minmax", path="x", **wrong)


def workflow(tmp_path: Path, watch: str) -> Path:
    path = tmp_path / "w.yaml"
    path.write_text(
        "version: 1\nname: w\nstages:\n"
        f"  small: {{uses: reduce.minmax, path: a, watch: {watch}}}\n"
        "  golden: {uses: dump.torchair_fx, path: b}\n"
        "  pairs: {uses: match.torchair, target: small, golden: golden}\n"
    )
    return path


def test_nothing_may_wait_for_a_watch_that_never_ends(tmp_path):
    with pytest.raises(WorkflowError, match="`pairs` consumes `small`") as caught:
        load_workflow(workflow(tmp_path, "{}"), env={}, cwd=tmp_path)
    assert [problem.code for problem in caught.value.diagnostics] == ["PF6307"]
    assert caught.value.diagnostic.span.line == 6
    load_workflow(workflow(tmp_path, "{stop_when: idle}"), env={}, cwd=tmp_path)


def test_large_reduced_tensors_are_read_block_by_block(tmp_path):
    path = write_fx(tmp_path / "dump", np.arange(3_000_000, dtype=np.float32))
    run("reduce.minmax", tmp_path / "dump", tmp_path / "run")
    assert ReducedArray.read(path.with_name(reduced_name(path.name))).tensor.figures == (0.0, 2_999_999.0)
