"""`acc_check -csv_path`: a check that was killed goes on where it was, and only on the terms it was begun on."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from precheck_dumps import Tables, environment, forward, plain_calls, tables_in, tensor, write_dump

pytestmark = pytest.mark.usefixtures("stand_ins")

CALLS = {**plain_calls(6), "Mint.wrong.0.forward": forward(tensor(4)), **plain_calls(6, "exp")}
END_S = 120.0
SAID = "said.txt"
"""File beside the flag with what the command prints."""

LARGEST_FILE = 60_000
LIMITED = (
    "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); "
    "from probe_flow.cli.main import main; raise SystemExit(main(sys.argv[2:]))"
)
"""Runs a command that may write no file beyond a size."""


def run_command(flag: Path, *arguments: object) -> subprocess.Popen[bytes]:
    with flag.with_name(SAID).open("wb") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "probe_flow", "acc_check", *map(str, arguments)],
            env=environment(STAND_IN_FLAG=str(flag)),
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def stop_after(rows: int, process: subprocess.Popen[bytes], folder: Path, number: int = signal.SIGKILL) -> int:
    """Send a check and all of its group a signal once its table has so many rows; return how it ended."""
    end_s = time.monotonic() + END_S
    while time.monotonic() < end_s and process.poll() is None:
        tables = list(folder.glob("accuracy_checking_result_*.csv"))
        if tables and tables[0].read_bytes().count(b"\r\n") > rows:
            break
        time.sleep(0.002)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
    return process.wait(END_S)


@pytest.fixture
def whole(check) -> Tables:
    """The tables of a check that nobody killed, in the folder ``out``."""
    return check(CALLS)[1]


@pytest.mark.parametrize(
    ("rows", "number"),
    [(0, signal.SIGKILL), (1, signal.SIGKILL), (9, signal.SIGKILL), (3, signal.SIGINT), (3, signal.SIGTERM)],
)
def test_a_stopped_check_goes_on_and_ends_as_one_that_was_not(check, probe_flow, tmp_path, monkeypatch, rows, number):
    """A call that waits for a file holds the check where the signal is to reach it."""
    flag = tmp_path / "flag"
    monkeypatch.setenv("STAND_IN_FLAG", str(flag))
    flag.touch()
    _, whole = check({**plain_calls(rows), "Mint.waits.0.forward": forward(tensor(4)), **CALLS})
    flag.unlink()
    dump, folder = tmp_path / "dump" / "dump.json", tmp_path / "stopped"
    process = run_command(flag, "-api_info", dump, "-o", folder)
    code = stop_after(rows, process, folder, number)
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    said = flag.with_name(SAID).read_text()
    if number != signal.SIGKILL:
        assert "`-csv_path FILE` continues it" in said
        assert "run the same command with -csv_path FILE to go on" in said
        assert "--resume" not in said
    left = tables_in(folder)
    assert len(left.states) == rows
    flag.touch()
    assert probe_flow("acc_check", "-api_info", dump, "-csv_path", left.result, "-o", folder).code == 1
    assert left.bytes == whole.bytes


@pytest.mark.parametrize("cut", [1, 40, 150, 400, 900])
def test_tables_that_lack_their_ends_are_written_from_the_record(whole: Tables, probe_flow, tmp_path: Path, cut: int):
    """Each lacks another piece, and the record a part of a line that no table has a row of."""
    before = whole.bytes
    (record,) = whole.result.parent.glob("accuracy_checking_record_*.jsonl")
    kept = record.read_bytes()
    last_row = len(before[0].splitlines(keepends=True)[-1])
    last_rows = sum(len(line) for line in before[1].splitlines(keepends=True)[-1:])
    for path, less in ((record, 1), (whole.details, last_rows + cut), (whole.result, last_row + cut // 3)):
        os.truncate(path, path.stat().st_size - less)
    done = probe_flow("acc_check", "-api_info", tmp_path / "dump" / "dump.json", "-csv_path", whole.result)
    assert done.code == 1
    assert whole.bytes == before
    assert record.read_bytes() == kept


def test_a_disk_that_is_full_stops_the_check_which_goes_on_later(check, probe_flow, tmp_path: Path):
    """A limit on the size of files stands in for the disk: the record is the first to reach it."""
    _, whole = check(plain_calls(120))
    dump, folder = tmp_path / "dump" / "dump.json", tmp_path / "full"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(LARGEST_FILE), "acc_check", "-api_info", str(dump), "-o", str(folder)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=END_S,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    assert "error[PF6605]" in done.stderr
    left = tables_in(folder)
    assert 0 < len(left.states) < 120
    assert probe_flow("acc_check", "-api_info", dump, "-csv_path", left.result, "-o", folder).code == 0
    assert left.bytes == whole.bytes


def test_calls_that_are_in_the_table_do_not_run_again(check, probe_flow, tmp_path: Path, monkeypatch):
    flag = tmp_path / "flag"
    monkeypatch.setenv("STAND_IN_FLAG", str(flag))
    _, tables = check({"Mint.crash_once.0.forward": forward(tensor(4))})
    flag.unlink()
    before = tables.bytes
    done = probe_flow("acc_check", "-api_info", tmp_path / "dump" / "dump.json", "-csv_path", tables.result)
    assert done.code == 0
    assert tables.bytes == before
    assert not flag.exists(), "the call would have left it"


def test_tables_of_another_dump_are_not_continued(whole: Tables, probe_flow, tmp_path: Path):
    before = whole.bytes
    other = write_dump(tmp_path / "other", plain_calls(2))
    done = probe_flow("acc_check", "-api_info", other, "-csv_path", whole.result)
    assert done.code == 2
    assert re.search(r"error\[PF6607\]: .* is of another dump", done.err)
    assert whole.bytes == before


def test_tables_of_other_options_are_continued_only_by_force(whole: Tables, probe_flow, tmp_path: Path):
    before = whole.bytes
    given = ("acc_check", "-api_info", tmp_path / "dump" / "dump.json", "-csv_path", whole.result)
    done = probe_flow(*given, "--profile", "msprobe")
    assert done.code == 2
    assert "is of other options" in done.err
    assert whole.bytes == before
    assert probe_flow(*given, "--profile", "msprobe", "--force-resume").code == 1
    assert whole.bytes == before


def test_tables_that_were_changed_are_written_anew_only_by_force(whole: Tables, probe_flow, tmp_path: Path):
    before = whole.bytes
    whole.result.write_bytes(whole.result.read_bytes().replace(b"Mint.wrong.0,error", b"Mint.wrong.0,pass"))
    given = ("acc_check", "-api_info", tmp_path / "dump" / "dump.json", "-csv_path", whole.result)
    changed = whole.bytes
    done = probe_flow(*given)
    assert done.code == 2
    assert "error[PF6608]" in done.err
    assert whole.bytes == changed
    assert probe_flow(*given, "--force-resume").code == 1
    assert whole.bytes == before


def test_a_table_without_its_record_or_of_another_name_is_not_continued(whole: Tables, probe_flow, tmp_path: Path):
    dump = tmp_path / "dump" / "dump.json"
    renamed = whole.result.with_name("results.csv")
    shutil.copy(whole.result, renamed)
    (record,) = whole.result.parent.glob("accuracy_checking_record_*.jsonl")
    record.unlink()
    absent = whole.result.with_name("accuracy_checking_result_20000101000000.csv")
    for table, code in ((renamed, "PF6606"), (whole.result, "PF6606"), (absent, "PF2101")):
        done = probe_flow("acc_check", "-api_info", dump, "-csv_path", table)
        assert done.code == 2
        assert f"error[{code}]" in done.err
