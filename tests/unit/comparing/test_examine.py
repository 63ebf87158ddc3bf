"""One dump examined by itself: its record, coverage, gate, waivers, whatever wrote it and however it is damaged."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_dumps import WRITERS

import probe_flow as pf
from probe_flow.cli.main import main
from probe_flow.stages.analysis.analysis_nonfinite import Options


def run(dump: Path, folder: Path, **options: Any) -> pf.Run:
    workflow = {
        "version": 1,
        "name": "examine",
        "stages": {
            "dump": {"uses": "dump.auto", "path": str(dump)},
            "nonfinite": {"uses": "analysis.nonfinite", "catalog": "dump", **options},
            "report": {"uses": "report", "comparison": "nonfinite", "formats": ["jsonl", "html", "junit", "markdown"]},
        },
    }
    folder.mkdir(exist_ok=True)
    (folder / "w.yaml").write_text(json.dumps(workflow))
    return pf.run(folder / "w.yaml", output=folder / "run")


def rows(done: pf.Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (done.folder / "comparison.jsonl").read_text().splitlines()]


def spoil(folder: Path, suffix: str) -> None:
    """Put NaN into the last file of arrays."""
    path = sorted(folder.rglob(f"*{suffix}"))[-1]
    values = np.load(path)
    values.reshape(-1)[1] = np.nan
    np.save(path, values)


@pytest.mark.parametrize("format_", sorted({*WRITERS} - {"torchair_ge"}))
def test_a_finite_dump_of_each_format_passes(format_: str, tmp_path: Path) -> None:
    WRITERS[format_](tmp_path / "dump")
    done = run(tmp_path / "dump", tmp_path / "out")
    assert (done.exit_code, done.verdict) == (0, "pass")
    assert {each["verdict"] for each in rows(done)} == {"pass"}
    assert {each["role"] for each in rows(done)} == {"clean"}


@pytest.mark.parametrize("format_", ["dump_json", "torchair_fx", "mindspore_graph", "npy", "arrays"])
def test_nan_in_a_file_of_each_format_is_found(format_: str, tmp_path: Path) -> None:
    WRITERS[format_](tmp_path / "dump")
    spoil(tmp_path / "dump", ".npy")
    done = run(tmp_path / "dump", tmp_path / "out")
    assert (done.exit_code, done.verdict) == (1, "fail")
    found = rows(done)
    (origin,) = [each for each in found if each["role"] == "origin"]
    assert origin["metrics"] == {"max_abs": "nan", "nan_count": 1, "negative_inf_count": 0, "positive_inf_count": 0}
    assert origin["reason"] == "1 NaN of 6 elements"
    assert (origin["target"]["nan"], origin["golden"]) == (1, None)
    assert {each["verdict"] for each in found if each is not origin} <= {"pass"}


def dump_json(folder: Path, data: Mapping[str, object], task: str = "statistics") -> Path:
    folder.mkdir(parents=True)
    (folder / "dump.json").write_text(json.dumps({"task": task, "level": "L1", "dump_data_dir": "", "data": data}))
    return folder


def leaf(high: float | None = 1.0, **more: object) -> dict[str, object]:
    figures = {} if high is None else {"Max": high, "Min": -1.0, "Mean": 0.0, "Norm": 1.0}
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 2], **figures, **more}


def entry(*outputs: object) -> dict[str, object]:
    return {"input_args": [leaf()], "input_kwargs": {}, "output": list(outputs)}


def test_a_dump_of_statistics_is_examined_without_any_tensor(tmp_path: Path) -> None:
    data = {"Torch.exp.0.forward": entry(leaf(math.inf)), "Torch.sub.0.forward": entry(leaf(math.nan))}
    done = run(dump_json(tmp_path / "dump", data), tmp_path / "out")
    assert done.exit_code == 1
    findings = json.loads((done.folder / "run.json").read_text())["findings"]
    assert [(each["name"], each["evidence"]) for each in findings] == [
        ("Torch.exp.0.forward", "maximum inf; its input is finite, up to 1 in size"),
        ("Torch.sub.0.forward", "NaN recorded; its input is finite, up to 1 in size"),
    ]


@pytest.mark.parametrize("norm", [math.nan, None])
def test_sums_that_are_nan_show_nan_although_the_extremes_pass_over_it(tmp_path: Path, norm: float | None) -> None:
    hidden = {**leaf(2.0), "Mean": math.nan, "Norm": norm}
    overflown = {**leaf(3e38), "Norm": math.inf}
    data = {"Torch.exp.0.forward": entry(overflown), "Functional.silu.0.forward": entry(hidden)}
    done = run(dump_json(tmp_path / "dump", data), tmp_path / "out")
    findings = json.loads((done.folder / "run.json").read_text())["findings"]
    assert [(each["name"], each["evidence"]) for each in findings] == [
        (
            "Functional.silu.0.forward",
            "norm or mean NaN, minimum and maximum finite; its input is finite, up to 1 in size",
        )
    ]


def test_where_nothing_is_known_of_the_values_the_run_is_not_green(tmp_path: Path) -> None:
    data = {"Torch.exp.0.forward": {**entry(leaf(None, md5="0123abcd")), "input_args": []}}
    done = run(dump_json(tmp_path / "dump", data, "md5"), tmp_path / "out")
    assert (done.exit_code, done.verdict) == (3, "incomplete")
    record = json.loads((done.folder / "run.json").read_text())
    assert record["incomplete"] == [
        "nothing was examined: the dump has no values, and no minimum or maximum of them",
        "only 0% of the target's outputs were examined (0 of 1, required 90%)",
    ]


def test_arrays_without_elements_are_not_finite_values(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    np.save(tmp_path / "dump" / "x.npy", np.zeros((0, 4), np.float32))
    done = run(tmp_path / "dump", tmp_path / "out")
    assert (done.exit_code, done.verdict) == (3, "incomplete")
    np.save(tmp_path / "dump" / "y.npy", np.zeros(4, np.float32))
    assert run(tmp_path / "dump", tmp_path / "other").exit_code == 0


def test_an_array_that_is_cut_is_an_error_and_the_run_incomplete(tmp_path: Path) -> None:
    WRITERS["arrays"](tmp_path / "dump")
    path = tmp_path / "dump" / "x.npy"
    path.write_bytes(path.read_bytes()[:-4])
    done = run(tmp_path / "dump", tmp_path / "out")
    assert (done.exit_code, done.verdict) == (3, "incomplete")
    (error,) = [each for each in rows(done) if each["verdict"] == "error"]
    assert "x.npy" in error["reason"]


def test_a_second_run_takes_all_from_the_cache_and_says_the_same(tmp_path: Path) -> None:
    WRITERS["arrays"](tmp_path / "dump")
    spoil(tmp_path / "dump", ".npy")
    first, second = (run(tmp_path / "dump", tmp_path / name) for name in ("one", "two"))
    assert rows(first) == rows(second)


def test_a_waiver_and_the_gate_on_all_rows(tmp_path: Path) -> None:
    WRITERS["arrays"](tmp_path / "dump")
    spoil(tmp_path / "dump", ".npy")
    waiver = {"where": {"node": "x"}, "reason": "known", "owner": "me", "expires": "2999-12-31"}
    assert run(tmp_path / "dump", tmp_path / "a", gate="all_pass").exit_code == 1
    done = run(tmp_path / "dump", tmp_path / "b", waivers=[waiver])
    assert (done.exit_code, done.verdict) == (0, "pass")
    assert [each["verdict"] for each in rows(done)].count("fail") == 1


def test_the_reports_name_no_golden_and_say_examined(tmp_path: Path) -> None:
    WRITERS["dump_json"](tmp_path / "dump")
    done = run(tmp_path / "dump", tmp_path / "out")
    for name in ("junit.xml", "report.md"):
        text = (done.folder / name).read_text()
        assert "golden" not in text.replace("unmatched_golden", "")
        assert "examined" in text
    assert "all values are finite" in (done.folder / "report.md").read_text().lower()


def test_the_stored_record_of_an_examination_makes_the_same_reports(tmp_path: Path) -> None:
    WRITERS["arrays"](tmp_path / "dump")
    spoil(tmp_path / "dump", ".npy")
    done = run(tmp_path / "dump", tmp_path / "out")
    again = pf.open_run(done.folder)
    assert again.verdict == "fail"
    assert [each["node"] for each in rows(done) if each["role"] == "origin"] == ["x"]


def test_integers_and_bools_are_finite_and_16_bit_floats_are_counted(tmp_path: Path) -> None:
    (tmp_path / "dump").mkdir()
    with np.errstate(all="ignore"):
        arrays = {
            "b": np.array([True, False]),
            "i": np.array([2**62, -(2**62)]),
            "h": np.array([1.0, np.inf, -np.inf, np.nan, -7.0], dtype=np.float16),
            "z": np.array([1 + 2j, complex(np.nan, 1), complex(1, -np.inf)]),
            "e": np.zeros((0, 3), dtype=np.float32),
        }
    for name, values in arrays.items():
        np.save(tmp_path / "dump" / f"{name}.npy", values)
    done = run(tmp_path / "dump", tmp_path / "out")
    found = {each["node"]: each for each in rows(done)}
    assert {name: each["verdict"] for name, each in found.items()} == {
        "b": "pass", "i": "pass", "h": "fail", "z": "fail", "e": "pass",
    }  # fmt: skip
    assert found["h"]["reason"] == "1 NaN, 1 inf, 1 -inf of 5 elements"
    assert (found["h"]["target"]["min"], found["h"]["target"]["max"]) == (-7.0, 1.0)
    assert found["z"]["reason"] == "1 NaN, 1 -inf of 3 elements"
    assert found["i"]["metrics"]["max_abs"] == 2.0**62


def test_options_are_named_when_they_are_wrong() -> None:
    with pytest.raises(ValueError, match="'findings' or 'all_pass'"):
        Options.model_validate({"uses": "analysis.nonfinite", "catalog": "d", "gate": "none"})


def test_an_operator_of_the_graph_that_left_no_tensor_is_not_examined(tmp_path: Path) -> None:
    WRITERS["torchair_ge"](tmp_path / "dump")  # its graph has an Add that the dump lacks
    done = run(tmp_path / "dump", tmp_path / "out")
    assert (done.exit_code, done.verdict) == (3, "incomplete")
    (cause,) = json.loads((done.folder / "run.json").read_text())["incomplete"]
    assert "outputs were examined (2 of 3, required 90%; 1 of operators that ran" in cause
    assert run(tmp_path / "dump", tmp_path / "half", coverage=0.5).exit_code == 0


@pytest.mark.usefixtures("all_kept")
def test_cache_why_says_what_an_examination_would_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    WRITERS["arrays"](tmp_path / "dump")
    for path in (tmp_path / "dump").rglob("*.npy"):  # what is this young is not kept
        os.utime(path, (1_700_000_000, 1_700_000_000))
    first = run(tmp_path / "dump", tmp_path / "out")
    assert first.exit_code == 0
    assert main(["cache", "why", str(tmp_path / "out" / "w.yaml")]) == 0
    assert capsys.readouterr().out == "nonfinite: all 2 results are kept\n"
    np.save(tmp_path / "dump" / "x.npy", np.arange(7.0))
    os.utime(tmp_path / "dump" / "x.npy", (1_700_000_000, 1_700_000_000))
    assert main(["cache", "why", str(tmp_path / "out" / "w.yaml")]) == 0
    assert capsys.readouterr().out.startswith("nonfinite: 1 results are kept, 1 are not: ")
