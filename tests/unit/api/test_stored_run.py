"""A run as Python sees it: conclusions, rows, nodes, tensors; and runs that cannot be read."""

from __future__ import annotations

import gc
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import probe_flow as pf

ROOT = Path(__file__).resolve().parents[3]
SAMPLE = ROOT / "examples" / "torchair" / "faulty"
GE, FX = SAMPLE / "msprobe_ge_dump", SAMPLE / "msprobe_fx_dump"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> pf.Run:
    folder = tmp_path_factory.mktemp("stored")
    return pf.compare(GE, FX, output=folder / "run")


def copied(run: pf.Run, place: Path) -> Path:
    return Path(shutil.copytree(run.folder, place / "copy"))


def test_the_origin_has_node_type_place_and_evidence(faulty: pf.Run) -> None:
    origin = faulty.origin

    assert origin is not None
    assert (origin.node, origin.op_type, origin.tensor) == ("Gelu_1", "Gelu", "output 0")
    assert origin.place == "rank 0, graph 1, step 0"
    assert origin.evidence.startswith("inputs agree")
    assert origin.finding == faulty.record.first == faulty.suspects[0]
    assert str(origin) == "Gelu_1 (Gelu) output 0, rank 0, graph 1, step 0, 25.5 x rounding, scale +2.15%"


def test_a_run_says_what_it_is(faulty: pf.Run) -> None:
    assert repr(faulty).startswith("<Run FAIL Gelu_1 (Gelu) output 0, rank 0, graph 1, step 0: 25.5 x rounding")
    assert "143 of 143 compared" in repr(faulty)
    html = faulty._repr_html_()
    assert "<b>FAIL</b>" in html
    assert "Gelu_1 (Gelu)" in html


def test_names_of_a_dump_are_no_html(stored: pf.Run, tmp_path: Path) -> None:
    folder = copied(stored, tmp_path)
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace('"node": "Gelu_1"', '"node": "<script>x</script>"'))

    html = pf.open_run(folder)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_healthy_run_has_no_origin_and_passes_its_check() -> None:
    healthy = ROOT / "examples" / "torchair" / "healthy"
    run = pf.compare(healthy / "msprobe_ge_dump", healthy / "msprobe_fx_dump")

    assert (run.verdict, run.exit_code, run.origin, run.suspects) == ("pass", 0, None, ())
    assert run.check() is run


def test_a_run_is_reopened_from_its_folder(stored: pf.Run) -> None:
    again = pf.open_run(str(stored.folder))

    assert again.record == stored.record
    assert again.origin == stored.origin
    assert list(again.rows()) == list(stored.rows())


def test_rows_are_chosen(faulty: pf.Run) -> None:
    rows = faulty.rows()
    assert len(rows) == 272
    assert [row.order for row in rows] == list(range(272))
    failed = faulty.rows(verdict="fail")
    assert {row.verdict.value for row in failed} == {"fail"}
    assert len(failed) == faulty.record.counts[next(iter(failed)).verdict]
    assert {row.node for row in faulty.rows(role="origin")} == {"Gelu_1"}
    assert {row.op_type for row in faulty.rows(node="MatMul*")} == {"MatMulV2"}
    with pytest.raises(pf.UsageError, match="did you mean `fail`"):
        faulty.rows(verdict="failed")
    with pytest.raises(pf.UsageError, match="did you mean `origin`"):
        faulty.rows(role="orign")
    with pytest.raises(pf.UsageError, match="no stage `other` compared"):
        faulty.rows(comparison="other")


def test_nodes_have_their_source_frames(faulty: pf.Run) -> None:
    nodes = list(faulty.nodes())

    assert {node.side for node in nodes} == {"target", "golden"}
    assert len(nodes) == faulty.record.nodes
    assert all(isinstance(node.stack, tuple) for node in nodes)


def test_nodes_that_share_a_stack_all_have_it(tmp_path: Path) -> None:
    dumps = ROOT / "examples" / "dump_json"
    run = pf.compare(dumps / "target", dumps / "golden", output=tmp_path / "run")
    lines = [json.loads(line) for line in (run.folder / "nodes.jsonl").read_text().splitlines()]
    shared = [number for number, line in enumerate(lines) if isinstance(line["stack"], int)]
    assert shared, "the sample has calls from one place"

    nodes = list(run.nodes())
    for number in shared:
        assert nodes[number].stack == tuple(lines[lines[number]["stack"] - 1]["stack"]) != ()


def test_tensors_of_a_row_are_those_of_the_dumps(faulty: pf.Run) -> None:
    assert faulty.origin is not None
    target, golden, reference = faulty.tensors(faulty.origin)
    row = faulty.tensors(faulty.origin.finding)

    assert reference is None
    assert (target.shape, target.dtype, golden.dtype) == ((8, 32), np.float16, np.float32)
    assert np.array_equal(target, row.target)
    file = next(row for row in faulty.rows() if row.order == faulty.origin.finding.row).golden
    assert np.array_equal(golden, np.load(FX / file.file))
    recorded = faulty.origin.finding.metrics["relative_euclidean_distance"]
    error = np.linalg.norm(target.astype(np.float64) - golden) / np.linalg.norm(golden.astype(np.float64))
    assert error == pytest.approx(recorded, rel=1e-9)


def test_each_row_gives_its_tensors_in_the_recorded_shapes(faulty: pf.Run) -> None:
    for row in list(faulty.rows())[:20]:
        found = faulty.tensors(row)
        for name, side in row.sides:
            array = getattr(found, name)
            assert array.shape == side.shape, row.node
            assert side.max is None or float(np.max(array)) == pytest.approx(side.max), row.node


def test_tensors_of_moved_dumps_are_found_where_they_are_said_to_be(stored: pf.Run, tmp_path: Path) -> None:
    shutil.copytree(GE, tmp_path / "ge")
    folder = copied(stored, tmp_path)
    text = (folder / "run.json").read_text()
    (folder / "run.json").write_text(text.replace(str(GE), "/gone"))

    lost = pf.open_run(folder)
    with pytest.raises(pf.IncompleteError, match="there is no dump at `/gone`") as caught:
        lost.tensors(lost.origin)
    assert caught.value.diagnostic.code == "PF7209"
    run = pf.open_run(folder, dumps={"target": tmp_path / "ge"})
    assert run.tensors(run.origin).target.shape == (8, 32)
    with pytest.raises(pf.UsageError, match="did you mean `target`"):
        pf.open_run(folder, dumps={"taget": tmp_path})


def test_tensors_of_statistics_are_refused(tmp_path: Path) -> None:
    dumps = ROOT / "examples" / "dump_json"
    run = pf.compare(dumps / "target", dumps / "golden", output=tmp_path / "run")
    row = next(row for row in run.rows() if row.kind.value == "statistics")

    with pytest.raises(pf.IncompleteError, match="statistics only"):
        run.tensors(row)


def test_what_is_no_row_is_refused(faulty: pf.Run) -> None:
    with pytest.raises(pf.UsageError, match="the argument `row` must be a row, a finding or the origin"):
        faulty.tensors(None)  # type: ignore[arg-type]


def test_the_folder_of_a_temporary_run_goes_with_it() -> None:
    run = pf.compare(GE, FX, nodes=["Gelu*"])
    folder = run.folder
    assert (folder / "run.json").is_file()
    rows = run.rows()

    del run, rows
    gc.collect()
    assert not folder.exists()


@pytest.mark.parametrize(
    ("damage", "code", "said"),
    [
        (lambda folder: (folder / "run.json").unlink(), "PF7110", "there is no `run.json` in it"),
        (lambda folder: shutil.rmtree(folder), "PF7110", "there is no such folder"),
        (lambda folder: (folder / "run.json").write_text('{"a": 1}'), "PF7110", "is no record of a run of probe_flow"),
        (lambda folder: cut(folder / "run.json"), "PF7111", "is no record of a run: "),
        (lambda folder: swapped(folder / "run.json", '"exit_code": 1', '"exit_code": "x"'), "PF7111", "exit_code"),
        (lambda folder: swapped(folder / "run.json", "probe_flow.run/2", "probe_flow.run/9"), "PF7112", "update"),
    ],
)  # fmt: skip
def test_a_folder_without_a_readable_run_is_refused(stored, tmp_path, damage, code, said) -> None:
    folder = copied(stored, tmp_path)
    damage(folder)

    with pytest.raises(pf.ProbeFlowError) as caught:
        pf.open_run(folder)
    assert (caught.value.diagnostic.code, said in str(caught.value)) == (code, True), str(caught.value)


def test_damaged_rows_and_nodes_are_told_when_they_are_read(stored: pf.Run, tmp_path: Path) -> None:
    folder = copied(stored, tmp_path)
    cut(folder / "comparison.jsonl")
    cut(folder / "nodes.jsonl")
    run = pf.open_run(folder)

    assert run.verdict == "fail"
    with pytest.raises(pf.IncompleteError, match=r"error\[PF7113\]: the rows of the run cannot be read"):
        run.rows().columns()
    with pytest.raises(pf.IncompleteError, match=r"error\[PF7204\]: the nodes of the run cannot be read"):
        list(run.nodes())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def swapped(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
