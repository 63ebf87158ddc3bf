"""Whole folders, once and while they are written: nothing is lost, nothing is done twice, everything is told."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ge_writer import DumpTensor
from reduce_dumps import MIN_MAX, VALUES, FakeStop, fx_name, ge_name, reduction, write_fx, write_ge

from probe_flow.dumps.reduced.reduced_files import ReducedDevice
from probe_flow.dumps.reduced.reduced_names import reduced_name
from probe_flow.errors import UsageError
from probe_flow.files import whole_files
from probe_flow.files.folder_lock import LOCK_NAME, FolderLock
from probe_flow.transform.reduce.reduce_folders import IDLE_SHARE, LONGEST_PAUSE_S, Watch
from probe_flow.transform.reduce.reduce_tensors import Figures


@pytest.fixture
def stop(tmp_path_factory):
    return FakeStop(str(tmp_path_factory.mktemp("stop") / "stop"))


def files(root):
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def reduced(*names):
    return sorted(reduced_name(name) for name in names)


def test_a_dump_is_reduced_in_all_its_folders(tmp_path, stop):
    write_ge(tmp_path / "rank0" / "0")
    write_fx(tmp_path / "rank1" / "1")
    (tmp_path / "dynamo_original_graph_1.txt").write_text("graph")
    (tmp_path / "rank0" / "0" / "mapping.csv").write_text("1,2\n")
    (tmp_path / "rank0" / ".hidden").write_text("x")
    summary = reduction([tmp_path], stop).run()
    assert (summary.reduced, summary.already, summary.deleted, summary.failed) == (2, 0, 0, 0)
    assert summary.skipped == {"text": 1, "table": 1, "hidden file": 2}  # one of them is the lock
    assert f"rank0/0/{ge_name()}_min_max.npz" in files(tmp_path)
    assert LOCK_NAME not in files(tmp_path)


@pytest.mark.parametrize(
    ("statistics", "serial"), [(("min", "max", "crc32"), 1), (("min", "max", "mean"), 64), (("nan_count",), 64)]
)
def test_threads_wait_for_each_other_more_for_sums_than_for_extremes(statistics, serial):
    assert Figures(statistics).serial_bytes(64 * 2**30) == serial * 2**30


def test_deleting_frees_the_disk_and_says_how_much(tmp_path, stop):
    path = write_fx(tmp_path, np.zeros(10_000, np.float32))
    size = path.stat().st_size
    summary = reduction([tmp_path], stop, deletes_source=True).run()
    assert files(tmp_path) == reduced(fx_name())
    assert summary.freed_bytes == size
    assert summary.saved_bytes == size - (tmp_path / reduced(fx_name())[0]).stat().st_size
    assert "1 deleted" in summary.line()


def test_a_second_run_does_nothing_again(tmp_path, stop):
    write_ge(tmp_path)
    write_fx(tmp_path)
    reduction([tmp_path], stop).run()
    before = {name: (tmp_path / name).stat().st_mtime_ns for name in files(tmp_path)}
    summary = reduction([tmp_path], stop).run()
    assert (summary.reduced, summary.already) == (0, 2)
    assert {name: (tmp_path / name).stat().st_mtime_ns for name in files(tmp_path)} == before


def test_several_folders_are_reduced_together(tmp_path, stop):
    write_fx(tmp_path / "a")
    write_ge(tmp_path / "b")
    summary = reduction([tmp_path / "a", tmp_path / "b", tmp_path / "a"], stop).run()
    assert summary.reduced == 2


def test_a_folder_that_is_given_twice_or_inside_another_has_one_turn(tmp_path, stop, monkeypatch):
    write_fx(tmp_path / "a" / "rank0")
    monkeypatch.chdir(tmp_path)
    given = [Path("a/rank0"), Path("a"), tmp_path / "a", tmp_path / "a" / "rank0"]
    summary = reduction(given, stop, deletes_source=True).run()
    assert (summary.reduced, summary.deleted, summary.already) == (1, 1, 0)


def test_another_folder_receives_the_reduced_dump_with_what_belongs_to_it(tmp_path, stop):
    source, target = tmp_path / "dump", tmp_path / "out" / "small"
    write_ge(source / "0")
    (source / "dynamo_original_graph_1.txt").write_text("graph")
    (source / "0" / "mapping.csv").write_text("1,2\n")
    (source / "0" / "notes.txt").write_text("mine")
    before = files(source)
    reduction([source], stop, output=target).run()
    assert files(source) == before
    assert files(target) == sorted([f"0/{ge_name()}_min_max.npz", "0/mapping.csv", "dynamo_original_graph_1.txt"])


def test_what_cannot_be_copied_beside_the_reduced_dump_is_told(tmp_path, stop):
    source, target = tmp_path / "dump", tmp_path / "out"
    write_ge(source)
    (source / "mapping.csv").write_text("1,2\n")
    (target / "mapping.csv").mkdir(parents=True)
    summary = reduction([source], stop, output=target).run()
    assert (summary.reduced, summary.failed) == (1, 1)
    (problem,) = summary.problems()
    assert problem.code == "PF6304"
    assert "`mapping.csv` cannot be copied" in problem.message
    assert files(target) == [f"{ge_name()}_min_max.npz"]


def test_who_deletes_from_a_folder_locks_it_wherever_the_reduced_files_go(tmp_path, stop):
    source, target = tmp_path / "dump", tmp_path / "out"
    write_fx(source)
    held = []
    for deletes in (False, True):
        stop.signal = None
        stop.script = [lambda: held.append([(place / LOCK_NAME).exists() for place in (source, target)])]
        reduction([source], stop, output=target, deletes_source=deletes, watch=watching()).run()
    assert held == [[False, True], [True, True]]


def test_a_reducer_at_work_inside_the_folder_is_not_disturbed(tmp_path, stop):
    write_fx(tmp_path / "rank0")
    hold = "import sys, pathlib; from probe_flow.files.folder_lock import FolderLock\n"
    hold += "FolderLock(pathlib.Path(sys.argv[1])); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path / "rank0")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        with pytest.raises(UsageError, match="inside") as caught:
            reduction([tmp_path], stop, deletes_source=True).run()
        other.kill()
    assert caught.value.diagnostic.code == "PF6301"
    assert fx_name() in (path.name for path in tmp_path.rglob("*"))


def test_the_remains_of_a_killed_reducer_are_removed_and_nothing_else(tmp_path, stop):
    write_fx(tmp_path)
    for name in (f".{ge_name()}_min_max.npz.tmp-4242", ".notes.tmp-1", "x.tmp-1", ".bashrc"):
        (tmp_path / name).write_bytes(b"x")
    reduction([tmp_path], stop).run()
    assert files(tmp_path) == sorted([fx_name(), *reduced(fx_name()), ".notes.tmp-1", "x.tmp-1", ".bashrc"])


def test_a_missing_folder_is_told(tmp_path, stop):
    with pytest.raises(UsageError) as caught:
        reduction([tmp_path / "nix"], stop).run()
    assert caught.value.diagnostic.code == "PF3201"


def test_files_that_are_not_complete_are_told_with_their_reason(tmp_path, stop):
    path = write_ge(tmp_path)
    path.write_bytes(path.read_bytes()[:-3])
    summary = reduction([tmp_path], stop, deletes_source=True).run()
    assert summary.unfinished == 1
    assert [problem.code for problem in summary.problems()] == ["PF3015"]
    assert files(tmp_path) == [ge_name()]


def test_a_name_that_is_nearly_that_of_a_device_file_costs_that_file_only(tmp_path, stop):
    write_ge(tmp_path)
    (tmp_path / "Sub.Sub.14.abc.1767225600000000").write_bytes(b"x")
    summary = reduction([tmp_path], stop).run()
    assert (summary.reduced, summary.skipped["file of another kind"]) == (1, 1)


def test_the_summary_is_whole_and_machine_readable(tmp_path, stop):
    write_fx(tmp_path, np.array([1.0, np.nan]), at=1)
    write_fx(tmp_path, np.array("BSH"), at=2)
    write_fx(tmp_path, at=3).write_bytes(b"")
    summary = reduction([tmp_path], stop).run()
    summary.write(tmp_path / "out" / "summary.json", [tmp_path])
    found = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert found["files"] == {"reduced": 1, "already_reduced": 0, "deleted": 0, "left": 0}
    assert found["nan_tensors"] == 1
    assert list(found["no_tensors"]) == [str(tmp_path / fx_name(at=2))]
    assert [each["file"] for each in found["failed"]] == [str(tmp_path / fx_name(at=3))]


def watching(**more):
    return Watch(interval_s=0.5, settle_s=2.0, **more)


def test_a_watch_reduces_what_appears_once_it_rests(tmp_path, stop):
    write_fx(tmp_path, at=1)
    seen = []

    def second():
        seen.append(files(tmp_path))
        write_ge(tmp_path / "later")

    stop.script = [lambda: None, lambda: None, lambda: None, lambda: None, second, *[lambda: None] * 6]
    summary = reduction([tmp_path], stop, watch=watching()).run()
    assert summary.reduced == 2
    assert reduced(fx_name(at=1))[0] in seen[0]
    assert f"later/{ge_name()}_min_max.npz" in files(tmp_path)


def test_a_growing_file_is_reduced_when_it_is_whole(tmp_path, stop):
    content = write_ge(tmp_path / "made").read_bytes()
    path = tmp_path / "dump" / ge_name()
    path.parent.mkdir()

    def append(start, stop):
        def step():
            with path.open("ab") as file:
                file.write(content[start:stop])

        return step

    third = len(content) // 3
    stop.script = [append(0, third), append(third, 2 * third), *[lambda: None] * 9, append(2 * third, None)]
    stop.script += [lambda: None] * 12
    summary = reduction([path.parent], stop, watch=watching(), deletes_source=True).run()
    assert (summary.reduced, summary.deleted, summary.failed, summary.unfinished) == (1, 1, 0, 0)
    assert ReducedDevice.read(path.with_name(f"{ge_name()}_min_max.npz")).outputs[0].figures == (-2.0, 7.0)


def test_a_file_that_vanishes_in_the_middle_is_no_failure(tmp_path, stop):
    path = write_fx(tmp_path)
    stop.script = [path.unlink, *[lambda: None] * 6]
    summary = reduction([tmp_path], stop, watch=watching()).run()
    assert (summary.reduced, summary.failed, summary.unfinished) == (0, 0, 0)


def test_an_unfinished_file_that_vanishes_is_no_failure_any_more(tmp_path, stop):
    path = write_fx(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    stop.script = [*[lambda: None] * 6, path.unlink, lambda: None]
    summary = reduction([tmp_path], stop, watch=watching()).run()
    assert (summary.failed, summary.unfinished) == (0, 0)


def test_a_replaced_file_is_reduced_again(tmp_path, stop):
    path = write_fx(tmp_path)

    def replace():
        write_fx(tmp_path / "new", VALUES * 2).replace(path)
        later = path.stat().st_mtime_ns + 10**9
        os.utime(path, ns=(later, later))

    stop.script = [*[lambda: None] * 6, replace, *[lambda: None] * 12]
    summary = reduction([tmp_path], stop, watch=watching()).run()
    assert summary.reduced == 2
    assert np.load(tmp_path / reduced(fx_name())[0]).tolist() == [-4.0, 14.0]


def test_an_older_file_that_takes_the_place_of_a_reduced_one_is_reduced_too(tmp_path, stop):
    older = write_fx(tmp_path / "kept", VALUES * 2)
    os.utime(older, (5, 5))
    path = write_fx(tmp_path / "dump")
    stop.script = [*[lambda: None] * 6, lambda: older.replace(path), *[lambda: None] * 12]
    summary = reduction([tmp_path / "dump"], stop, watch=watching()).run()
    assert (summary.reduced, summary.already) == (2, 0)
    assert np.load(tmp_path / "dump" / reduced(fx_name())[0]).tolist() == [-4.0, 14.0]


def test_looks_that_cost_much_and_find_nothing_become_rare(tmp_path, stop):
    write_fx(tmp_path)
    spent, waits = [0.0], []
    stop.script = [lambda: None] * 10

    def processor_s():
        spent[0] += 0.05
        return spent[0]

    wait = stop.wait
    work = reduction([tmp_path], stop, watch=watching())
    work.processor_s = processor_s
    stop.wait = lambda seconds: waits.append(seconds) or wait(seconds)
    assert work.run().reduced == 1
    assert waits[0] == 0.5  # a file was new
    assert waits[-1] == pytest.approx(IDLE_SHARE * 0.05)
    assert IDLE_SHARE > 100  # under 1 %


def test_a_look_at_a_huge_folder_is_not_followed_by_a_pause_without_bound(tmp_path, stop):
    waits, spent = [], [0.0]
    stop.script = [lambda: None] * 5

    def processor_s():
        spent[0] += 20.0
        return spent[0]

    wait = stop.wait
    work = reduction([tmp_path], stop, watch=watching())
    work.processor_s = processor_s
    stop.wait = lambda seconds: waits.append(seconds) or wait(seconds)
    work.run()
    assert waits[-1] == LONGEST_PAUSE_S


def test_an_unfinished_file_that_is_gone_is_no_more_in_the_totals_while_one_watches(tmp_path, stop):
    path = write_fx(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    lines = []
    stop.script = [*[lambda: None] * 6, path.unlink, lambda: None]
    work = reduction([tmp_path], stop, watch=watching())
    work.tell = lambda summary, _problem: lines.append(summary.unfinished)
    work.run()
    assert 1 in lines
    assert lines[-1] == 0


def test_a_watch_ends_when_nothing_changes_any_more(tmp_path, stop):
    write_fx(tmp_path)
    stop.script = [lambda: None] * 1000
    summary = reduction([tmp_path], stop, watch=watching(stop_when="idle", idle_s=30.0)).run()
    assert summary.reduced == 1
    assert 30.0 <= stop.now_s <= 40.0
    assert not stop.is_requested


def test_a_watch_ends_when_a_file_appears_and_takes_along_what_rests_by_then(tmp_path, stop):
    told = tmp_path / "done"
    dump = tmp_path / "dump"
    dump.mkdir()

    def finish():
        write_ge(dump)
        told.touch()

    stop.script = [lambda: None, finish, *[lambda: None] * 100]
    summary = reduction([dump], stop, watch=watching(stop_when="file", stop_file=told)).run()
    assert summary.reduced == 1
    assert stop.now_s < 10


def test_a_watch_that_is_told_to_stop_begins_nothing_more(tmp_path, stop):
    write_fx(tmp_path)
    stop.signal = 15
    summary = reduction([tmp_path], stop, watch=watching()).run()
    assert summary.reduced == 0


def test_trouble_is_told_once_and_tried_again_later(tmp_path, stop, monkeypatch):
    write_fx(tmp_path)
    write = os.write
    failing = [True]

    def full(descriptor, view):
        if failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, view)

    monkeypatch.setattr(whole_files.os, "write", full)
    told = []
    stop.script = [*[lambda: None] * 40, failing.clear, *[lambda: None] * 60]
    work = reduction([tmp_path], stop, watch=watching(), deletes_source=True)
    work.tell = lambda _summary, problem: told.append(problem) if problem else None
    summary = work.run()
    assert [problem.code for problem in told] == ["PF6304"]
    assert (summary.reduced, summary.deleted, summary.failed) == (1, 1, 0)


def test_what_failed_is_tried_once_more_before_an_idle_watch_ends(tmp_path, stop, monkeypatch):
    write_fx(tmp_path)
    write = os.write
    full_until_s = 40.0

    def full(descriptor, view):
        if stop.now_s < full_until_s:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, view)

    monkeypatch.setattr(whole_files.os, "write", full)
    stop.script = [lambda: None] * 1000
    summary = reduction([tmp_path], stop, watch=watching(stop_when="idle", idle_s=60.0), deletes_source=True).run()
    assert stop.now_s < 5 + 10 + 20 + 40  # the next try would have been later
    assert (summary.reduced, summary.failed) == (1, 0)


def test_a_file_that_is_still_written_is_told_when_it_has_rested_for_long(tmp_path, stop):
    path = write_fx(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:-2])
    told = []
    growing = [lambda: None] * 40  # 20 s, then a byte
    stop.script = [*growing, lambda: path.write_bytes(content[:-1]), *growing, *[lambda: None] * 100]
    work = reduction([tmp_path], stop, watch=watching())
    work.tell = lambda _summary, problem: told.append((problem.code, stop.now_s)) if problem else None
    summary = work.run()
    assert [code for code, _ in told] == ["PF3022"]
    assert 20 + 30 < told[0][1] < 20 + 40
    assert summary.unfinished == 1


def test_while_one_works_the_folder_is_locked(tmp_path, stop):
    write_fx(tmp_path)
    held = []

    def look():
        held.append((tmp_path / LOCK_NAME).exists())

    stop.script = [look]
    reduction([tmp_path], stop, watch=watching()).run()
    assert held == [True]
    with FolderLock(tmp_path):
        pass


def test_small_and_large_files_share_batches_of_bounded_size(tmp_path, stop):
    for number in range(450):
        write_fx(tmp_path, np.zeros(2, np.float32), at=number)
    batches = []
    work = reduction([tmp_path], stop)
    run = work.map
    work.map = lambda function, found, **more: batches.extend(found) or run(function, found, **more)
    assert work.run().reduced == 450
    assert [len(batch.jobs) for batch in batches] == [200, 200, 50]


def test_statistics_of_the_whole_dump_are_the_same_on_any_way(tmp_path, stop, monkeypatch):
    write_ge(tmp_path / "a", [DumpTensor(np.arange(70_000, dtype=np.float32), "float32")])
    write_ge(tmp_path / "b", [DumpTensor(np.arange(70_000, dtype=np.float32), "float32")])
    figures = Figures((*MIN_MAX.statistics, "mean", "l2norm", "crc32"))
    reduction([tmp_path / "a"], stop, figures=figures).run()
    from probe_flow.metrics import reduction as numbers

    monkeypatch.setattr(numbers, "WINDOW_BYTES", 1000)
    reduction([tmp_path / "b"], stop, figures=figures).run()
    name = f"{ge_name()}_min_max.npz"
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
