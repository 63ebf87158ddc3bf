"""`multi_acc_check`: several devices, a process each; together they say what one device says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from precheck_dumps import Tables, forward, plain_calls, tables_in, tensor, write_dump

CALLS = {
    "Mint.wrong.0.forward": forward(tensor(4)),
    **plain_calls(8, "slow"),
    "Tensor.__mul__.0.forward": forward(tensor(4)),
    **plain_calls(8),
    "Mint.refuses.0.forward": forward(tensor(4)),
}


def devices_in(folder: Path) -> dict[int, Tables]:
    """The tables of each device."""
    found = {}
    for each in folder.glob("device*"):
        named = re.fullmatch(r"device(\d+)_\d{14}", each.name)
        assert named, each.name
        found[int(named[1])] = tables_in(each)
    return found


def test_two_devices_say_what_one_says_in_the_order_of_the_dump(check, tmp_path: Path):
    one, alone = check(CALLS)
    two, merged = check(CALLS, "-d", 0, 1, command="multi_acc_check", out="two")
    assert merged.bytes == alone.bytes
    assert two.code == one.code == 3
    assert not list((tmp_path / "out").glob("device*"))


def test_each_device_has_tables_of_its_own_that_hold_what_ran_there(check, tmp_path: Path):
    _, merged = check(CALLS, "-d", 3, 5, command="multi_acc_check")
    devices = devices_in(tmp_path / "out")
    assert sorted(devices) == [3, 5]
    rows = [row for tables in devices.values() for row in tables.rows(tables.result)]
    ran = [row for row in merged.rows(merged.result) if row[0] != "Tensor.__mul__.0"]
    assert sorted(rows) == sorted(ran), "no device has what is not checked"
    details = [row for tables in devices.values() for row in tables.rows(tables.details)]
    assert sorted(details) == sorted(merged.rows(merged.details))
    assert all(tables.result.read_bytes().startswith(b"\xef\xbb\xbfAPI Name,") for tables in devices.values())


def test_without_devices_the_first_one_is_meant(check, tmp_path: Path):
    _, tables = check(plain_calls(2), command="multi_acc_check")
    assert set(tables.states.values()) == {("pass", "")}
    assert not list((tmp_path / "out").glob("device*"))


@pytest.mark.parametrize(
    "given", [("-d", 1, 1), ("-d", 0, "-d", 0), ("-d", 4096), ("-d", -1), ("-d", "x"), ("--device", 2, 3, 2)]
)
def test_devices_that_are_none_or_named_twice_are_refused_before_anything_is_written(probe_flow, tmp_path, given):
    dump = write_dump(tmp_path / "dump", plain_calls(1))
    done = probe_flow("multi_acc_check", "-api_info", dump, "-o", "out", *given)
    assert done.code == 2
    assert "-d" in done.err
    assert not (tmp_path / "out").exists()


def test_a_call_that_crashes_on_one_device_costs_no_other_call(check, tmp_path: Path):
    entries = {**plain_calls(4, "slow"), "Mint.crash.0.forward": forward(tensor(4)), **plain_calls(6)}
    done, tables = check(entries, "-d", 0, 1, command="multi_acc_check")
    assert list(tables.states) == [name.rpartition(".")[0] for name in entries]
    assert tables.states["Mint.crash.0"] == ("SKIP", "")
    assert "killed by SIGSEGV" in tables.messages["Mint.crash.0"]
    others = {name: state for name, state in tables.states.items() if name != "Mint.crash.0"}
    assert set(others.values()) == {("pass", "")}
    assert done.code == 3
    shown = [name for each in devices_in(tmp_path / "out").values() for name in each.states]
    assert sorted(shown) == sorted(others), "no device ran the other one to its end"


def test_data_of_failing_calls_are_in_a_folder_with_the_time(check, tmp_path: Path):
    check(CALLS, "-d", 0, 1, "-save_error_data", command="multi_acc_check")
    (folder,) = (tmp_path / "out").glob("ut_error_data*")
    assert re.fullmatch(r"ut_error_data\d{14}", folder.name)
    assert (folder / "Mint.wrong.0.forward.input.0.npy").is_file()
    assert (folder / "index.json").is_file()


def test_the_merged_table_is_the_one_that_is_continued(check, probe_flow, tmp_path: Path):
    _, merged = check(CALLS, "-d", 0, 1, "-save_error_data", command="multi_acc_check")
    before = merged.bytes
    (record,) = (tmp_path / "out").glob("accuracy_checking_record_*.jsonl")
    lines = record.read_bytes().splitlines(keepends=True)
    record.write_bytes(b"".join(lines[:8]))
    for path, rows in ((merged.result, 8), (merged.details, 6)):
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:rows]))
    dump = tmp_path / "dump" / "dump.json"
    options = ("-d", 0, 1, "-save_error_data", "-csv_path", merged.result)
    done = probe_flow("multi_acc_check", "-api_info", dump, *options, "-o", "out")
    assert done.code == 3
    assert merged.bytes == before
    (folder,) = (tmp_path / "out").glob("ut_error_data*")
    assert list(json.loads((folder / "index.json").read_text())) == ["Mint.wrong.0"]
