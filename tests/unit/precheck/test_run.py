"""A whole check in this process, with a framework in numpy: what is written, saved, continued and lost."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from api_dumps import backward, forward, read_dump, small_net, tensor, write_dump
from msgspec.structs import replace as changed
from numpy_side import NumpySide
from raw_pairs import context as in_order

from probe_flow.comparing.asked import Asked
from probe_flow.comparing.steps import compare_pairs
from probe_flow.engine.run.outcome import exit_code
from probe_flow.errors import Diagnostic, UsageError
from probe_flow.metrics.catalogue.registry import metric_ids, options_for
from probe_flow.precheck import run as precheck_run
from probe_flow.precheck import worker
from probe_flow.precheck.jobs import How, Job, data_folder, find_calls
from probe_flow.precheck.pairs import make_pairs
from probe_flow.precheck.results import ApiResult, Status
from probe_flow.precheck.run import Outcome, Request, check_calls
from probe_flow.records import Catalog, Comparison
from probe_flow.testing.run_records import run_record

DATA = Path(__file__).parents[2] / "data" / "precheck"
HOW = How("float64_rounded", "per_slot", 1e-4, None, None, 1 << 30, options_for(metric_ids("default")))
STAMP = "20260102030405"


class Bench:
    """Both sides, the clock, and the worker processes: all of them this one."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.tested, self.benchmark = NumpySide("tested"), NumpySide("benchmark")
        self.stamp = STAMP
        self.order: Callable[[Sequence[Job]], Sequence[Job]] = list
        self.lost: dict[str, str] = {}
        self.stops_after: int | None = None
        self.asked: list[tuple[int, int | None]] = []
        self.ran: list[str] = []
        patch.setattr(worker, "_mindspore", lambda _device: self.tested)
        patch.setattr(worker, "_benchmark", lambda: self.benchmark)
        self._patch = patch

    def isolate(self, workers: int, seconds: int | None, unit: str) -> Any:
        self.asked.append((workers, seconds))
        taken: list[dict[str, int]] = [{} for _ in range(workers)]

        def tasks(
            function: Any, jobs: Sequence[Job], *, sizes: Sequence[int], lost: Any
        ) -> Iterator[tuple[int, ApiResult]]:
            assert len(sizes) == len(jobs)
            assert unit == "calls"
            for done, job in enumerate(self.order(jobs)):
                if done == self.stops_after:
                    raise KeyboardInterrupt
                self._patch.setattr(worker, "_taken", taken[done % workers])  # each worker has its own
                if job.name in self.lost:
                    yield jobs.index(job), lost(job, Diagnostic("PF6106", self.lost[job.name]))
                    continue
                self.ran.append(job.name)
                yield jobs.index(job), function(job)

        return tasks

    def check(self, source: Catalog, folder: Path, how: How = HOW, **request: Any) -> Outcome:
        moment = datetime.strptime(self.stamp, "%Y%m%d%H%M%S")

        class Clock:
            @staticmethod
            def now() -> datetime:
                return moment

        self._patch.setattr(precheck_run, "datetime", Clock)
        self.ran = []
        return check_calls(source, find_calls(source), how, Request(folder, **request), self.isolate)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


@pytest.fixture
def net(tmp_path: Path) -> Catalog:
    return read_dump(write_dump(tmp_path / "dump", small_net()))


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))[1:]


def states(outcome: Outcome) -> dict[str, tuple[str, str]]:
    return {row[0]: (row[1], row[2]) for row in rows_of(outcome.tables[0])}


def compared(source: Catalog, outcome: Outcome) -> tuple[Comparison, int]:
    """Return what the comparison makes of it, with the exit code of a run that does nothing else."""
    pairs = make_pairs(source, find_calls(source), outcome.results, outcome.tables)
    asked = Asked(policy="precheck", gate="all_pass")
    found = compare_pairs(pairs, asked, changed(in_order(), facts=run_record()), None)
    return found, exit_code(
        stopped_by=0,
        wrong_input=False,
        stage_failed=False,
        incomplete=bool(found.incomplete),
        gate_failed=not found.gate_passed,
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


NET = {
    "Mint.mul.0": ("pass", "pass"),
    "Mint.add.0": ("pass", ""),
    "Primitive.Custom.net.0": ("SKIP", ""),
    "Mint.fail.0": ("SKIP", ""),
    "Mint.rot.0": ("SKIP", ""),
    "Mint.max.0": ("pass", "pass"),
    "Mint.mul.1": ("pass", ""),
}


def test_the_quick_start_byte_for_byte(bench: Bench, tmp_path: Path) -> None:
    source = read_dump(DATA / "quickstart_dump.json")
    found = bench.check(source, tmp_path)
    assert [path.name for path in found.tables] == [
        f"accuracy_checking_result_{STAMP}.csv",
        f"accuracy_checking_details_{STAMP}.csv",
    ]
    assert found.tables[0].read_bytes() == (DATA / "quickstart_result.csv").read_bytes()
    assert found.tables[1].read_bytes() == (DATA / "quickstart_details.csv").read_bytes()
    _, code = compared(source, found)
    assert code == 0


def test_every_call_has_its_row_in_the_order_of_the_dump(bench: Bench, net: Catalog, tmp_path: Path) -> None:
    found = bench.check(net, tmp_path / "out", seconds=7)
    assert states(found) == NET
    assert list(states(found)) == list(NET)
    assert bench.asked == [(1, 7)]
    assert [row[0] for row in rows_of(found.tables[1])] == [
        "Mint.mul.0.forward.output.0",
        "Mint.mul.0.backward.output.0",
        "Mint.mul.0.backward.output.1",
        "Mint.add.0.forward.output.0",
        "Mint.max.0.forward.output.0",
        "Mint.max.0.forward.output.1",
        "Mint.max.0.backward.output.0",
        "Mint.mul.1.forward.output.0",
    ]
    messages = {row[0]: row[3] for row in rows_of(found.tables[0])}
    assert messages["Mint.fail.0"] == "ZeroDivisionError: the device is on fire", "the first line"
    assert messages["Mint.rot.0"] == "benchmark has no `Mint.rot`"
    comparison, code = compared(net, found)
    assert (comparison.coverage["target"].missing, code) == (1, 3), "of the four that are skipped, one should have run"


def test_a_kernel_that_is_wrong_by_one_percent_is_found_and_no_other(
    bench: Bench, net: Catalog, tmp_path: Path
) -> None:
    bench.tested = NumpySide("tested", {"mul": 1.01})
    source = read_dump(write_dump(tmp_path / "pure", {k: v for k, v in small_net().items() if "fail" not in k}))
    found = bench.check(source, tmp_path / "out")
    wrong = {"Mint.mul.0": ("error", "error"), "Mint.mul.1": ("error", "")}
    assert states(found) == {name: each for name, each in (NET | wrong).items() if "fail" not in name}
    comparison, code = compared(source, found)
    assert {each.node.name for each in comparison.findings if each.node} == {"Mint.mul"}
    assert code == 1


def test_what_the_kernel_measured_comes_along(bench: Bench, net: Catalog, tmp_path: Path) -> None:
    bench.tested = NumpySide("tested", {"mul": 1.01})
    found = bench.check(net, tmp_path / "out")
    comparison, _ = compared(net, found)
    for row in comparison.rows:
        if row.pair.golden is None:
            continue
        assert row.measurement is not None
        (output,) = [
            each
            for result in found.results
            for phase, direction in result.directions()
            for number, each in enumerate(direction.outputs)
            if (result.name, phase, number)
            == (
                f"{row.pair.shown.node.name}.{row.pair.shown.node.call}",
                row.pair.shown.node.phase.value,
                row.pair.shown.slot.path[0],
            )
        ]
        assert row.measurement.metrics["max_abs_err"] == pytest.approx(output.max_abs, rel=1e-12)


class TestData:
    """Inputs and results of what fails."""

    def test_are_saved_with_an_index(self, bench: Bench, tmp_path: Path) -> None:
        data = {
            "Mint.mul.0.forward": forward(tensor(), tensor(dtype="Float16")),
            "Mint.scale.0.forward": forward(tensor(), by=tensor(1)),
            "Mint.add.0.forward": forward(tensor(), tensor()),
            "Mint.square.0.forward": forward(tensor()),
            "Mint.square.0.backward": backward(tensor()),
        }
        bench.tested = NumpySide("tested", {"mul": 1.01, "scale": 0.5, "square": 2.0})
        source = read_dump(write_dump(tmp_path / "dump", data))
        told: list[Path] = []
        found = bench.check(source, tmp_path / "out", saves=True, announce=told.append)
        folder = tmp_path / "out" / "error_data"
        index = json.loads((folder / "index.json").read_text())
        assert list(index) == ["Mint.mul.0", "Mint.scale.0", "Mint.square.0"]
        assert sorted(index["Mint.scale.0"]) == [
            "error_data/Mint.scale.0.forward.input.0.npy",
            "error_data/Mint.scale.0.forward.input.by.npy",
            "error_data/Mint.scale.0.forward.output.0.bench.npy",
            "error_data/Mint.scale.0.forward.output.0.npy",
        ]
        assert {
            "error_data/Mint.square.0.backward.input.0.npy",
            "error_data/Mint.square.0.backward.output.0.npy",
            "error_data/Mint.square.0.backward.output.0.bench.npy",
        } <= set(index["Mint.square.0"])
        assert sorted(name for names in index.values() for name in names) == sorted(
            f"error_data/{path.name}" for path in folder.iterdir() if path.suffix == ".npy"
        ), "each file is named once"

        x, y, tested, benchmark = (
            np.load(folder / f"Mint.mul.0.forward.{place}.npy")
            for place in ("input.0", "input.1", "output.0", "output.0.bench")
        )
        assert (x.dtype, y.dtype) == (np.float32, np.float16)
        assert np.array_equal(benchmark, (x.astype(float) * y.astype(float)).astype(np.float32))
        assert tested == pytest.approx(1.01 * benchmark, rel=1e-6)
        x, g, of_x = (
            np.load(folder / f"Mint.square.0.{place}.npy")
            for place in ("forward.input.0", "backward.input.0", "backward.output.0.bench")
        )
        assert of_x == pytest.approx(2.0 * x * g, rel=1e-6), "as in dump.json the incoming gradient is the input"

        saved = {
            side.file
            for each in found.results
            if each.forward
            for out in each.forward.outputs
            for side in (out.tested, out.benchmark)
        }
        assert "error_data/Mint.mul.0.forward.output.0.bench.npy" in saved
        assert {*found.tables, folder / "index.json"} <= set(told)

        pairs = make_pairs(source, find_calls(source), found.results, found.tables)
        *inputs, wrong = [pair for pair in pairs.pairs if pair.shown.node.name == "Mint.mul"]
        assert [str(pair.shown.slot) for pair in inputs] == ["input.0", "input.1"]
        assert [pair.shown.dtype for pair in inputs] == ["float32", "float16"]
        places = [f"{pair.shown.node.name}.{pair.shown.slot}" for pair in pairs.pairs]
        assert {"Mint.scale.input.0", "Mint.scale.input.by"} <= set(places)
        assert places.count("Mint.square.input.0") == 2, "the argument, and the gradient that came in"
        assert "Mint.add.input.0" not in places, "of what passes nothing is saved"
        comparison, code = compared(source, found)
        assert code == 1
        states = {(row.pair.shown.node.name, str(row.pair.shown.slot)): row.verdict.status for row in comparison.rows}
        assert states["Mint.mul", "input.1"].value == "pass"
        assert states["Mint.mul", "output.0"].value == "fail"
        (row,) = [
            each
            for each in comparison.rows
            if (each.pair.shown.node.name, str(each.pair.shown.slot)) == ("Mint.mul", "input.0")
        ]
        assert row.measurement.metrics["max_abs_err"] == 0
        assert wrong.target is not None
        (extent,) = wrong.target.extents
        kept = Path(extent.file).read_bytes()[extent.offset : extent.offset + extent.nbytes]
        assert kept == tested.tobytes(), "where a closer look finds the elements"

    def test_are_not_saved_unasked_nor_of_what_passes(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        bench.check(net, tmp_path / "right", saves=True)
        assert not (tmp_path / "right" / "error_data").exists()
        bench.tested = NumpySide("tested", {"mul": 1.01})
        bench.check(net, tmp_path / "unasked")
        assert len(files(tmp_path / "unasked")) == 3

    def test_go_to_the_folder_that_is_named_for_them(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        bench.tested = NumpySide("tested", {"mul": 1.01})
        found = bench.check(net, tmp_path / "out", saves=True, data=tmp_path / "errors")
        (folder,) = (tmp_path / "errors").iterdir()
        assert folder.name == f"ut_error_data{STAMP}"
        assert (folder / "index.json").exists()
        assert not (tmp_path / "out" / "error_data").exists()
        pairs = make_pairs(net, find_calls(net), found.results, found.tables)
        wrong = next(pair for pair in pairs.pairs if str(pair.shown.slot) == "output.0")
        assert wrong.target is not None
        assert Path(wrong.target.extents[0].file).parent == folder

    def test_that_cannot_be_saved_change_no_verdict(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        bench.tested = NumpySide("tested", {"mul": 1.01})
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "error_data").write_text("a file where the folder should be")
        found = bench.check(net, tmp_path / "out", saves=True)
        assert states(found) == NET | {"Mint.mul.0": ("error", "error"), "Mint.mul.1": ("error", "")}
        messages = {row[0]: row[3] for row in rows_of(found.tables[0])}
        assert "Its data could not be saved: " in messages["Mint.mul.1"]
        assert messages["Mint.add.0"] == ""
        (problem,) = [each for each in found.problems if each.code == "PF6609"]
        assert "the data of 2 calls" in problem.message

    def test_whose_index_cannot_be_written_change_no_verdict(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        bench.tested = NumpySide("tested", {"mul": 1.01})
        (tmp_path / "out" / "error_data" / "index.json").mkdir(parents=True)
        found = bench.check(net, tmp_path / "out", saves=True)
        assert states(found)["Mint.mul.1"] == ("error", "")
        (problem,) = [each for each in found.problems if each.code == "PF6609"]
        assert problem.message.startswith("`index.json` cannot be written")


class TestResume:
    """A check that did not end is continued."""

    def stopped(self, bench: Bench, net: Catalog, folder: Path, after: int, **request: Any) -> Path:
        bench.stops_after = after
        with pytest.raises(KeyboardInterrupt):
            bench.check(net, folder, **request)
        bench.stops_after = None
        bench.stamp = "20260102030406"
        return folder / f"accuracy_checking_result_{STAMP}.csv"

    @pytest.mark.parametrize("after", range(6))
    def test_to_what_one_run_gives(self, after: int, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        bench.tested = NumpySide("tested", {"mul": 1.01})
        whole = bench.check(net, tmp_path / "whole", saves=True)
        ran = list(bench.ran)
        table = self.stopped(bench, net, tmp_path / "out", after, saves=True)
        assert bench.ran == ran[:after]
        found = bench.check(net, tmp_path / "out", resume=table, saves=True)
        assert bench.ran == ran[after:], "no call twice"
        assert list(found.results) == list(whole.results)
        assert found.tables[0] == table
        assert files(tmp_path / "out") == files(tmp_path / "whole")

    def test_of_figures_that_are_infinite(self, bench: Bench, tmp_path: Path) -> None:
        wide = {"dtype": "Float64", "Max": 1e308, "Min": -1e308}
        data = {
            "Mint.square.0.forward": forward(tensor(**wide)),
            "Mint.add.0.forward": forward(tensor(**wide), tensor()),
        }
        bench.tested = NumpySide("tested", {"add": -1.0})
        source = read_dump(write_dump(tmp_path / "dump", data))
        whole = bench.check(source, tmp_path / "out")
        (row,) = [row for row in rows_of(whole.tables[1]) if row[0].startswith("Mint.add")]
        assert (row[5], row[7]) == ("inf", "error")
        again = bench.check(source, tmp_path / "out", resume=whole.tables[0])
        assert (bench.ran, list(again.results)) == ([], list(whole.results))

    def test_in_the_folder_of_its_tables(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        table = self.stopped(bench, net, tmp_path / "out", 2)
        found = bench.check(net, tmp_path / "elsewhere", resume=table)
        assert found.tables[0] == table
        assert states(found) == NET

    def test_of_one_that_ended_runs_nothing(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        whole = bench.check(net, tmp_path / "out")
        before = files(tmp_path / "out")
        found = bench.check(net, tmp_path / "out", resume=whole.tables[0])
        assert (bench.ran, list(found.results)) == ([], list(whole.results))
        assert files(tmp_path / "out") == before

    @pytest.mark.parametrize(
        "how", [changed(HOW, benchmark="same"), changed(HOW, generator="ms_seed42"), changed(HOW, max_abs_limit=1e-3)]
    )
    def test_with_other_options_is_refused(self, how: How, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        table = self.stopped(bench, net, tmp_path / "out", 2)
        with pytest.raises(UsageError) as caught:
            bench.check(net, tmp_path / "out", how, resume=table)
        assert caught.value.diagnostic.code == "PF6607"
        assert states(bench.check(net, tmp_path / "out", how, resume=table, is_forced=True)) == NET

    def test_of_another_dump_is_refused(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        table = self.stopped(bench, net, tmp_path / "out", 2)
        data = small_net()
        data["Mint.mul.1.forward"]["input_args"][0]["Max"] = 2.5
        other = read_dump(write_dump(tmp_path / "other", data))
        with pytest.raises(UsageError) as caught:
            bench.check(other, tmp_path / "out", resume=table)
        assert caught.value.diagnostic.code == "PF6607"

    def test_of_another_dump_by_force_has_each_of_its_calls(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        table = bench.check(net, tmp_path / "out").tables[0]
        data = {"Mint.mul.0.forward": forward(tensor(), tensor()), "Mint.exp.0.forward": forward(tensor())}
        other = read_dump(write_dump(tmp_path / "other", data))
        found = bench.check(other, tmp_path / "out", resume=table, is_forced=True)
        assert [each.name for each in found.results] == ["Mint.mul.0", "Mint.exp.0"]
        comparison, code = compared(other, found)
        assert code == 0
        assert len(comparison.rows) == 2

    def test_a_check_in_the_second_of_another_one_takes_a_later_name(
        self, bench: Bench, net: Catalog, tmp_path: Path
    ) -> None:
        first, second = (bench.check(net, tmp_path / "out").tables for _ in range(2))
        assert int(second[0].stem.rpartition("_")[2]) == int(first[0].stem.rpartition("_")[2]) + 1
        for one, other in zip(first, second, strict=True):
            assert one.read_bytes() == other.read_bytes()


class TestDevices:
    """Several devices."""

    HOW = changed(HOW, devices=(0, 3))

    def test_have_tables_of_their_own_and_one_pair_in_the_order_of_the_dump(
        self, bench: Bench, net: Catalog, tmp_path: Path
    ) -> None:
        one = bench.check(net, tmp_path / "one")
        bench.order = lambda jobs: list(jobs)[::-1]
        found = bench.check(net, tmp_path / "two", self.HOW)
        assert bench.asked[-1] == (2, 600)
        for mine, other in zip(found.tables, one.tables, strict=True):
            assert mine.read_bytes() == other.read_bytes()
        assert [replaced_device(each) for each in found.results] == [replaced_device(each) for each in one.results]
        assert {each.name: each.device for each in found.results if each.device not in (0, 3)} == {
            "Primitive.Custom.net.0": None
        }, "what ran nowhere has none"
        parts = [rows_of(tmp_path / "two" / f"device{each}_{STAMP}" / one.tables[0].name) for each in (0, 3)]
        checked = [name for name in NET if not name.startswith("Primitive")]
        assert sorted(row[0] for part in parts for row in part) == sorted(checked)
        assert all(len(part) == 3 for part in parts)
        details = [rows_of(tmp_path / "two" / f"device{each}_{STAMP}" / one.tables[1].name) for each in (0, 3)]
        assert sorted(row for part in details for row in part) == sorted(rows_of(one.tables[1]))

    def test_save_into_a_folder_with_the_time(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        bench.tested = NumpySide("tested", {"mul": 1.01})
        bench.check(net, tmp_path / "out", self.HOW, saves=True)
        index = json.loads((tmp_path / "out" / f"ut_error_data{STAMP}" / "index.json").read_text())
        assert list(index) == ["Mint.mul.0", "Mint.mul.1"]

    def test_are_continued(self, bench: Bench, net: Catalog, tmp_path: Path) -> None:
        whole = bench.check(net, tmp_path / "whole", self.HOW)
        bench.stops_after = 3
        with pytest.raises(KeyboardInterrupt):
            bench.check(net, tmp_path / "out", self.HOW)
        bench.stops_after, bench.stamp = None, "20260102030406"
        found = bench.check(net, tmp_path / "out", self.HOW, resume=tmp_path / "out" / whole.tables[0].name)
        assert len(bench.ran) == 3
        assert [path.read_bytes() for path in found.tables] == [path.read_bytes() for path in whole.tables]

    def test_no_more_workers_than_calls(self, bench: Bench, tmp_path: Path) -> None:
        source = read_dump(write_dump(tmp_path / "dump", {"Mint.exp.0.forward": forward(tensor())}))
        bench.check(source, tmp_path / "out", changed(HOW, devices=(0, 1, 2)))
        assert bench.asked == [(1, 600)]


def replaced_device(result: ApiResult) -> ApiResult:
    return changed(result, device=0)


def test_a_worker_that_dies_costs_the_call_it_ran(bench: Bench, net: Catalog, tmp_path: Path) -> None:
    bench.lost["Mint.mul.0"] = "batch 0 of 6 ended its process each of 3 times: killed by SIGSEGV"
    found = bench.check(net, tmp_path)
    assert states(found) == NET | {"Mint.mul.0": ("SKIP", "SKIP")}
    (message,) = [row[3] for row in rows_of(found.tables[0]) if row[0] == "Mint.mul.0"]
    assert "its worker ended each time: killed by SIGSEGV" in message
    lost = next(iter(found.results))
    assert lost.forward is not None
    assert not lost.forward.is_expected
    assert compared(net, found)[1] == 3


def test_a_dump_with_nothing_to_run_starts_no_worker(bench: Bench, tmp_path: Path) -> None:
    source = read_dump(write_dump(tmp_path / "dump", {"Cell.a.0.forward": forward(tensor())}))
    found = bench.check(source, tmp_path / "out")
    assert bench.asked == []
    assert states(found) == {"Cell.a.0": ("SKIP", "")}
    comparison, _ = compared(source, found)
    assert comparison.coverage["target"].missing == 0


@pytest.mark.parametrize(
    "words",
    [
        "The kernel Mul unregistered.\n- C++ call stack",
        "Select CPU operator[Mul] fail! Unsupported data type!",
        "Not found op Mul on device CPU",
        "KernelMod Init Failed: Mul",
        "'mul' is not supported on this device.",
        "mul only supports Ascend.",
    ],
)
def test_where_mindspore_has_no_kernel_the_other_framework_runs_and_that_is_said(
    bench: Bench, net: Catalog, tmp_path: Path, words: str
) -> None:
    def lacks(*_: Any) -> Any:
        raise RuntimeError(words)

    bench.tested = NumpySide("tested", others={"mul": lacks})
    found = bench.check(net, tmp_path)
    assert states(found) == NET
    (problem,) = [each for each in found.problems if each.code == "PF6610"]
    assert problem.message.startswith("2 calls ran in torch")
    first, second = [*found.results][:2]
    assert first.forward is not None
    assert first.forward.fallback == "Mint.mul of benchmark, for MindSpore has no kernel here"
    assert second.forward is not None
    assert second.forward.fallback == ""


def test_without_the_framework_each_call_is_a_gap(bench: Bench, net: Catalog, tmp_path: Path, monkeypatch: Any) -> None:
    def absent(_device: int) -> Any:
        raise ModuleNotFoundError("No module named 'mindspore'", name="mindspore")

    monkeypatch.setattr(worker, "_mindspore", absent)
    found = bench.check(net, tmp_path)
    assert {each for pair in states(found).values() for each in pair} == {"SKIP", ""}
    (message,) = [row[3] for row in rows_of(found.tables[0]) if row[0] == "Mint.add.0"]
    assert message == "`mindspore` is not installed"
    assert compared(net, found)[1] == 3


def test_entries_that_cannot_be_used_cost_their_call_alone(bench: Bench, tmp_path: Path) -> None:
    data = {
        "Mint.add.0.forward": forward(tensor(), {"type": "int", "value": float("nan")}),
        "Mint.add.1.backward": backward(tensor()),
        "Mint.add.2.forward": forward(tensor(dtype="Float128"), tensor()),
        "Mint.square.3.forward": forward(tensor(10**6, 25_000)),
        "Mint.add.4.forward": forward(tensor(), {"type": "mystery", "value": 1}),
        "Mint.add.5.forward": forward(tensor(), tensor()),
        "Mint.add.5.backward": {"input": {"not": "a list"}, "output": []},
        "Mint.square.6.forward": forward(tensor(Max=None, Min=None)),
    }
    source = read_dump(write_dump(tmp_path / "dump", data))
    found = bench.check(source, tmp_path / "out")
    messages = {row[0]: row[3] for row in rows_of(found.tables[0])}
    for name, words in {
        "Mint.add.0": "recorded as nan",
        "Mint.add.1": "no forward entry",
        "Mint.add.2": "`Float128` is not known",
        "Mint.square.3": "1,200,000,000,288 bytes",
        "Mint.add.4": "type `mystery`",
        "Mint.square.6": "no range of values",
    }.items():
        assert words in messages[name]
        assert "SKIP" in states(found)[name]
    assert states(found)["Mint.add.5"][0] == "pass"
    for result in found.results:
        for _, direction in result.directions():
            assert direction.status is not Status.SKIP or not direction.is_expected
    assert compared(source, found)[1] == 3


class TestTensorsOfTheDump:
    """Nothing runs on the tested side."""

    def dump(self, folder: Path, tampered: str = "") -> Catalog:
        data, store = {}, folder / "dump_tensor_data"
        store.mkdir(parents=True)
        random = np.random.default_rng(5)

        def stored(name: str, values: Any) -> Any:
            np.save(store / f"{name}.npy", values)
            return tensor(*values.shape, data_name=f"{name}.npy")

        for number in range(4):
            name = f"Mint.mul.{number}"
            x, y, g = (random.normal(size=20).astype(np.float32) for _ in range(3))
            z = x * y
            z[7] += 0.01 if name == tampered else 0
            data[f"{name}.forward"] = forward(
                stored(f"{name}.x", x), stored(f"{name}.y", y), output=[stored(f"{name}.z", z)]
            )
            given, of_y = stored(f"{name}.g", g), stored(f"{name}.gy", g * x)
            data[f"{name}.backward"] = backward(given, output=[None, of_y])
        return read_dump(write_dump(folder, data, task="tensor", dump_data_dir="/on/another/machine"))

    def how(self, source: Catalog) -> How:
        return changed(HOW, data=data_folder(source))

    def test_all_pass(self, bench: Bench, tmp_path: Path) -> None:
        source = self.dump(tmp_path / "dump")
        found = bench.check(source, tmp_path / "out", self.how(source))
        assert set(states(found).values()) == {("pass", "pass")}
        assert bench.tested.calls == []
        assert compared(source, found)[1] == 0

    def test_one_tampered_result_is_found_alone(self, bench: Bench, tmp_path: Path) -> None:
        source = self.dump(tmp_path / "dump", "Mint.mul.2")
        found = bench.check(source, tmp_path / "out", self.how(source))
        assert {name for name, each in states(found).items() if "error" in each} == {"Mint.mul.2"}
        assert states(found)["Mint.mul.2"] == ("error", "pass")
        comparison, code = compared(source, found)
        assert [(each.node.name, each.node.call) for each in comparison.findings if each.node] == [("Mint.mul", 2)]
        assert code == 1


def test_names_that_are_no_unicode_are_written_escaped(bench: Bench, tmp_path: Path) -> None:
    half = "\ud800"
    data = {
        f"Mint.{half}.0.forward": forward(tensor()),
        "Mint.exp.0.forward": forward(tensor()),
        "Mint.exp.1.forward": forward(tensor(), **{half: tensor()}),
    }
    source = read_dump(write_dump(tmp_path / "dump", data))
    found = bench.check(source, tmp_path / "out")
    assert list(states(found)) == [r"Mint.\ud800.0", "Mint.exp.0", "Mint.exp.1"]
    assert len(compared(source, found)[0].rows) == 3
    assert states(found)["Mint.exp.0"] == ("pass", "")
