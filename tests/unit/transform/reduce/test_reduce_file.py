"""One dumped file: what its reduced file holds, and when the dumped one may go."""

from __future__ import annotations

import errno
import math
import os

import numpy as np
import pytest
from ge_writer import DumpTensor
from reduce_dumps import MIN_MAX, VALUES, fx_name, ge_name, job_of, reduce_one, write_fx, write_ge

from probe_flow.dumps.reduced.reduced_files import ReducedArray, ReducedDevice
from probe_flow.dumps.reduced.reduced_names import reduced_name
from probe_flow.files import whole_files
from probe_flow.metrics.reduction import STATISTICS
from probe_flow.transform.reduce import reduce_file
from probe_flow.transform.reduce.reduce_file import Batch, Ending, reduce_batch
from probe_flow.transform.reduce.reduce_functions import UserFunction
from probe_flow.transform.reduce.reduce_tensors import Figures

NOTHING = (math.nan, math.nan)


def result_of(path):
    return path.with_name(reduced_name(path.name))


def test_an_array_becomes_minimum_and_maximum_beside_it(tmp_path):
    path = write_fx(tmp_path)
    done = reduce_one(path)
    assert done.ending is Ending.REDUCED
    assert done.problem is None
    assert np.load(tmp_path / fx_name().replace(".npy", "_min_max.npy")).tolist() == [-2.0, 7.0]
    assert path.exists()


def test_a_device_file_becomes_rows_of_inputs_and_outputs(tmp_path):
    path = write_ge(
        tmp_path,
        [DumpTensor(np.array([3, -4], np.int32), "int32"), DumpTensor(np.array([True, False]), "bool")],
        [DumpTensor(VALUES.astype(np.float16), "float16", surplus=32)],
    )
    assert reduce_one(path).ending is Ending.REDUCED
    found = ReducedDevice.read(tmp_path / f"{ge_name()}_min_max.npz")
    assert [tensor.figures for tensor in found.inputs] == [(-4.0, 3.0), (0.0, 1.0)]
    assert [tensor.figures for tensor in found.outputs] == [(-2.0, 7.0)]
    assert [tensor.dtype for tensor in (*found.inputs, *found.outputs)] == ["int32", "bool", "float16"]
    assert [tensor.shape for tensor in found.outputs] == [(2, 3)]
    assert (found.op_name, found.op_type, found.timestamp) == ("layer/Add_2", "Add", 1767225600000000)


@pytest.mark.parametrize("layout", ["NC1HWC0", "FRACTAL_Z"])
def test_padding_of_private_layouts_does_not_count(tmp_path, layout):
    values = np.full((2, 3, 1, 2), 5.0, np.float16)
    path = write_ge(tmp_path, (), [DumpTensor(values, "float16", layout=layout)])
    reduce_one(path, Figures(("min", "max", "count")))
    assert ReducedDevice.read(result_of(path)).outputs[0].figures == (5.0, 5.0, 12.0)


def test_all_statistics_of_an_array_stand_under_their_names(tmp_path):
    path = write_fx(tmp_path)
    reduce_one(path, Figures(STATISTICS))
    found = ReducedArray.read(result_of(path))
    assert found.names == STATISTICS
    assert found.tensor.figures[:5] == (-2.0, 7.0, pytest.approx(8.5 / 6), pytest.approx(np.linalg.norm(VALUES)), 6.0)
    assert (found.tensor.dtype, found.tensor.shape) == ("float32", (2, 3))


@pytest.mark.parametrize("values", [np.empty((0, 3), np.float32), np.empty(0, np.int64)])
def test_an_empty_tensor_has_nan_extremes_and_no_elements(tmp_path, values):
    path = write_fx(tmp_path, values)
    reduce_one(path, Figures(("min", "max", "count")))
    assert ReducedArray.read(result_of(path)).tensor.figures == pytest.approx((*NOTHING, 0.0), nan_ok=True)


@pytest.mark.parametrize(
    "values", [np.array([None, 1], object), np.array("BSH"), np.array([b"x"]), np.zeros(2, [("a", "f8")])]
)
def test_an_array_without_numbers_is_neither_reduced_nor_deleted(tmp_path, values):
    path = write_fx(tmp_path, values)
    done = reduce_one(path, deletes_source=True)
    assert done.ending is Ending.SKIPPED
    assert done.problem.code == "PF3232"
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_integers_that_float64_rounds_are_noted(tmp_path):
    done = reduce_one(write_fx(tmp_path, np.array([2**60 + 1])))
    assert "beyond 2**53" in done.notes[0]


def test_tensors_with_nan_are_counted(tmp_path):
    done = reduce_one(write_fx(tmp_path, np.array([1.0, math.nan])))
    assert done.nan_tensors == 1


def test_the_dumped_file_goes_only_when_asked(tmp_path):
    path = write_ge(tmp_path)
    assert not reduce_one(path).is_deleted
    done = reduce_one(path, deletes_source=True)
    assert done.ending is Ending.ALREADY
    assert done.is_deleted
    assert [each.name for each in tmp_path.iterdir()] == [result_of(path).name]


def test_a_result_that_is_there_is_on_the_disk_before_the_dumped_file_goes(tmp_path, monkeypatch):
    path = write_ge(tmp_path)
    reduce_one(path)
    flushed = []
    monkeypatch.setattr(reduce_file, "sync_file", lambda result: flushed.append((result, path.exists())))
    assert reduce_one(path, deletes_source=True).is_deleted
    assert flushed == [(str(result_of(path)), True)]


def test_files_that_stay_wait_once_for_the_disk(tmp_path, monkeypatch):
    waits = []
    monkeypatch.setattr(reduce_file, "sync_folder", waits.append)
    monkeypatch.setattr(whole_files.os, "fsync", lambda _: pytest.fail("it waits for one file"))
    jobs = tuple(job_of(write_fx(tmp_path, at=number)) for number in range(5))
    assert {each.ending for each in reduce_batch(Batch(jobs, MIN_MAX))} == {Ending.REDUCED}
    assert waits == [str(tmp_path)]


def test_a_tensor_without_figures_keeps_the_dumped_file(tmp_path):
    path = write_ge(tmp_path, [DumpTensor(np.zeros(4, np.uint8), "string")])
    done = reduce_one(path, deletes_source=True)
    assert done.problem.code == "PF3234"
    assert path.exists()
    found = ReducedDevice.read(result_of(path))
    assert found.inputs[0].figures == pytest.approx(NOTHING, nan_ok=True)
    assert found.outputs[0].figures == (-2.0, 7.0)


@pytest.mark.parametrize("cut", [1, 7, 8, 20, -1])
def test_a_part_of_a_device_file_is_left_for_later(tmp_path, cut):
    path = write_ge(tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    done = reduce_one(path, deletes_source=True)
    assert done.ending is Ending.UNFINISHED
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "change",
    [lambda b: b"", lambda b: b[:5], lambda b: b[:11], lambda b: b[:90], lambda b: b[:-1], lambda b: b + b"x"],
)
def test_an_array_whose_size_is_not_that_of_its_header_is_left_for_later(tmp_path, change):
    path = write_fx(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    done = reduce_one(path, deletes_source=True)
    assert done.ending is Ending.UNFINISHED
    assert path.exists()


def test_what_is_no_device_file_fails_and_stays(tmp_path):
    path = tmp_path / ge_name()
    path.write_bytes((20).to_bytes(8, "little") + b"\xff" * 40)
    done = reduce_one(path, deletes_source=True)
    assert done.ending is Ending.FAILED
    assert done.problem.path == str(path)
    assert path.exists()


def test_a_file_that_changed_since_it_was_seen_is_left_for_later(tmp_path):
    path = write_fx(tmp_path)
    job = job_of(path)
    write_fx(tmp_path, VALUES * 2)
    os.utime(path, (5, 5))
    (done,) = reduce_batch(Batch((job,), MIN_MAX, deletes_source=True))
    assert done.ending is Ending.UNFINISHED
    assert done.problem.code == "PF3231"
    assert path.exists()


def test_a_file_that_is_replaced_while_it_is_read_is_not_deleted(tmp_path, monkeypatch):
    path = write_fx(tmp_path)
    reduce_array = reduce_file.reduce_array

    def replaced(*arguments):
        reduced = reduce_array(*arguments)
        write_fx(tmp_path / "new", VALUES * 3).replace(path)
        return reduced

    monkeypatch.setattr(reduce_file, "reduce_array", replaced)
    done = reduce_one(path, deletes_source=True)
    assert done.ending is Ending.UNFINISHED
    assert not result_of(path).exists()
    assert np.load(path).max() == 21.0


def test_a_file_that_is_replaced_after_its_result_was_placed_is_not_deleted(tmp_path, monkeypatch):
    path = write_fx(tmp_path)
    monkeypatch.setattr(
        reduce_file, "sync_folder", lambda _folder: write_fx(tmp_path / "new", VALUES * 3).replace(path)
    )
    done = reduce_one(path, deletes_source=True)
    assert done.ending is Ending.UNFINISHED
    assert np.load(path).max() == 21.0


def test_a_file_that_vanished_is_nobodys_fault(tmp_path):
    path = write_fx(tmp_path)
    job = job_of(path)
    path.unlink()
    (done,) = reduce_batch(Batch((job,), MIN_MAX))
    assert done.ending is Ending.VANISHED
    assert done.problem is None


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_costs_the_result_and_keeps_the_dumped_file(tmp_path, monkeypatch, call):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = write_ge(tmp_path)
    monkeypatch.setattr(whole_files.os, call, full)
    done = reduce_one(path, deletes_source=True)
    assert done.ending is Ending.FAILED
    assert done.problem.code == "PF6304"
    assert "No space left on device" in done.problem.message
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_one_bad_file_costs_nothing_but_itself(tmp_path):
    good, bad = write_fx(tmp_path, at=1), write_fx(tmp_path, at=2)
    bad.write_bytes(b"\x93NUMPY\x01\x00\x10\x00{'descr': 5}    \n" + bytes(10))
    done = reduce_batch(Batch((job_of(bad), job_of(good)), MIN_MAX))
    assert {each.job.source: each.ending for each in done} == {str(good): Ending.REDUCED, str(bad): Ending.FAILED}


def test_a_file_is_not_read_again_when_its_result_is_there(tmp_path, monkeypatch):
    path = write_ge(tmp_path)
    reduce_one(path)
    monkeypatch.setattr(reduce_file, "reduce_device", lambda *_: pytest.fail("it was read again"))
    assert reduce_one(path).ending is Ending.ALREADY


@pytest.mark.parametrize("damage", [b"", b"nonsense"])
def test_a_damaged_result_is_made_again(tmp_path, damage):
    path = write_ge(tmp_path)
    reduce_one(path)
    whole = result_of(path).read_bytes()
    result_of(path).write_bytes(damage)
    assert reduce_one(path).ending is Ending.REDUCED
    assert result_of(path).read_bytes() == whole


def test_an_older_result_is_made_again(tmp_path):
    path = write_fx(tmp_path)
    reduce_one(path)
    write_fx(tmp_path, VALUES * 2)
    os.utime(result_of(path), (5, 5))
    assert reduce_one(path).ending is Ending.REDUCED
    assert np.load(result_of(path)).tolist() == [-4.0, 14.0]


def test_other_statistics_are_made_anew(tmp_path):
    path = write_fx(tmp_path)
    reduce_one(path)
    assert reduce_one(path, Figures(("mean",))).ending is Ending.REDUCED


def test_no_further_file_is_begun_after_a_stop(tmp_path):
    stop = tmp_path / "stop"
    stop.touch()
    (done,) = reduce_batch(Batch((job_of(write_fx(tmp_path)),), MIN_MAX, stop=str(stop)))
    assert done.ending is Ending.LEFT


def test_own_functions_add_their_figures(tmp_path):
    path = write_ge(tmp_path)
    reduce_one(path, Figures(("min",), (UserFunction("numpy:ptp", 1), UserFunction("numpy:shape", 2))))
    found = ReducedDevice.read(result_of(path))
    assert found.names == ("min", "numpy:ptp", "numpy:shape[0]", "numpy:shape[1]")
    assert found.outputs[0].figures == (-2.0, 9.0, 2.0, 3.0)


@pytest.mark.parametrize(("path", "length"), [("numpy:shape", 3), ("numpy:linalg.inv", 1)])
def test_an_own_function_that_fails_costs_the_file(tmp_path, path, length):
    source = write_fx(tmp_path)
    done = reduce_one(source, Figures(("min",), (UserFunction(path, length),)), deletes_source=True)
    assert done.ending is Ending.FAILED
    assert done.problem.code == "PF3233"
    assert source.exists()


def test_more_files_than_a_group_are_all_reduced(tmp_path, monkeypatch):
    monkeypatch.setattr(reduce_file, "GROUP_FILES", 3)
    jobs = tuple(job_of(write_fx(tmp_path, at=number)) for number in range(8))
    done = reduce_batch(Batch(jobs, MIN_MAX, deletes_source=True))
    assert [each.is_deleted for each in done] == [True] * 8
    assert len(list(tmp_path.iterdir())) == 8
