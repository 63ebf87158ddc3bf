"""`probe-flow reduce`: exit codes, what is shown, and the signals that end a watch."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from reduce_dumps import fx_name, ge_name, write_fx, write_ge

from probe_flow.cli.terminal.reduce_display import plain_lines
from probe_flow.errors import Diagnostic
from probe_flow.files.folder_lock import FolderLock
from probe_flow.transform.reduce.reduce_summary import Summary


def files(root):
    return sorted(path.name for path in root.rglob("*") if path.is_file())


def test_a_dump_is_reduced_and_nothing_is_deleted(probe_flow, tmp_path):
    write_ge(tmp_path / "ge")
    write_fx(tmp_path / "fx")
    done = probe_flow("reduce", "ge", "fx", "--summary", "summary.json")
    assert done.code == 0
    assert done.last_line.startswith("2 files reduced, 0.0 MB read")
    assert json.loads((tmp_path / "summary.json").read_text())["files"]["reduced"] == 2
    assert files(tmp_path / "ge") == [ge_name(), f"{ge_name()}_min_max.npz"]


def test_deleting_must_be_asked_for(probe_flow, tmp_path):
    write_ge(tmp_path / "ge")
    done = probe_flow("reduce", "ge", "--delete-source")
    assert done.code == 0
    assert "1 deleted" in done.last_line
    assert files(tmp_path / "ge") == [f"{ge_name()}_min_max.npz"]


def test_a_function_that_ends_the_program_costs_its_file_only(probe_flow, tmp_path, monkeypatch):
    (tmp_path / "quits_here.py").write_text("import sys\ndef large(a):\n    return 1 if a.size < 7 else sys.exit(0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    write_fx(tmp_path / "fx", at=1)
    write_fx(tmp_path / "fx", np.zeros(50), at=2)
    done = probe_flow("reduce", "fx", "--delete-source", "--function", "quits_here:large")
    assert done.code == 3
    assert "`quits_here:large` failed: SystemExit: 0" in done.err
    assert done.last_line == "1 files reduced, 1 deleted, 0.0 MB saved, 1 failed"
    assert fx_name(at=2) in files(tmp_path / "fx")


def test_what_a_function_prints_is_not_among_the_results(probe_flow, tmp_path, monkeypatch):
    (tmp_path / "prints_here.py").write_text("def talks(a):\n    print('I was here')\n    return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    write_fx(tmp_path / "fx")
    done = probe_flow("reduce", "fx", "--function", "prints_here:talks")
    assert done.out == "1 files reduced, 0.0 MB read, 0.0 MB written\n"
    assert "I was here" in done.err


def test_statistics_functions_suffix_and_folder_are_as_asked(probe_flow, tmp_path):
    write_ge(tmp_path / "ge")
    words = ("--statistics", "mean, crc32", "--function", "numpy:ptp", "--suffix", "_s", "--output", "out")
    assert probe_flow("reduce", "ge", *words).code == 0
    with np.load(tmp_path / "out" / f"{ge_name()}_s.npz") as found:
        assert found["stat_names"].tolist() == ["mean", "crc32", "numpy:ptp"]
    assert files(tmp_path / "ge") == [ge_name()]


@pytest.mark.parametrize("held", [(), ("notes.txt",), ("run.json", ".hidden")])
def test_a_folder_without_dumped_files_is_never_green(probe_flow, tmp_path, held):
    (tmp_path / "ge").mkdir()
    for name in held:
        (tmp_path / "ge" / name).write_text("x")
    done = probe_flow("reduce", "ge")
    assert done.code == 3
    assert "error[PF6308]: `ge` holds no dumped file to reduce" in done.err
    assert probe_flow("reduce", "ge", "--watch", "--idle", "0.05", "--interval", "0.01").code == 0


def test_a_dump_that_was_reduced_before_is_green(probe_flow, tmp_path):
    write_ge(tmp_path / "ge")
    for _ in range(2):
        assert probe_flow("reduce", "ge", "--delete-source").code == 0
    write_ge(tmp_path / "fx")
    (tmp_path / "empty").mkdir()
    for _ in range(2):
        assert probe_flow("reduce", "fx", "--delete-source", "--output", "out").code == 0
    assert probe_flow("reduce", "ge", "empty").code == 0


def test_files_that_are_left_are_told_and_cost_the_exit_code(probe_flow, tmp_path):
    path = write_ge(tmp_path / "ge")
    path.write_bytes(path.read_bytes()[:-2])
    done = probe_flow("reduce", "ge")
    assert done.code == 3
    assert done.err.count("error[PF3015]") == 1
    assert done.last_line == "0 files reduced, 1 not written to their end"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nix",), "error[PF3201]"),
        ((), "Missing argument"),
        (("ge", "--statistics", "maen"), "did you mean `mean`?"),
        (("ge", "--statistics", ","), "names none"),
        (("ge", "--suffix", "min"), "`--suffix`"),
        (("ge", "--suffix", "_../x"), "`--suffix`"),
        (("ge", "--suffix", "_min\n"), "`--suffix`"),
        (("ge", "--function", "nix"), "error[PF6303]"),
        (("ge", "ge", "--output", "out"), "one DUMP"),
        (("ge", "--idle", "3"), "`--idle` is of use with `--watch` only"),
        (("ge", "--watch", "--idle", "3", "--stop-file", "x"), "not both"),
        (("ge", "--watch", "--interval", "0"), "`--interval` is at least"),
        (("ge", "--watch", "--settle", "nan"), "`--settle` is at least"),
    ],
)
def test_a_mistake_is_told_and_nothing_runs(probe_flow, tmp_path, words, said):
    write_ge(tmp_path / "ge")
    done = probe_flow("reduce", *words)
    assert done.code == 2
    assert said in done.err
    assert files(tmp_path / "ge") == [ge_name()]


def test_a_second_reducer_is_refused(probe_flow, tmp_path):
    write_ge(tmp_path / "ge")
    with FolderLock(tmp_path / "ge"):
        done = probe_flow("reduce", "ge")
    assert done.code == 2
    assert f"is being reduced by process {os.getpid()}" in done.err


def test_quiet_leaves_the_last_line(probe_flow, tmp_path):
    write_fx(tmp_path / "fx").write_bytes(b"")
    done = probe_flow("reduce", "fx", "--quiet")
    assert (done.code, done.err) == (3, "")
    assert done.out == "0 files reduced, 1 not written to their end\n"


def test_a_watch_that_goes_idle_ends_well(probe_flow, tmp_path):
    write_fx(tmp_path / "fx")
    words = ("--watch", "--interval", "0.01", "--settle", "0", "--idle", "0.05", "--delete-source")
    done = probe_flow("reduce", "fx", *words)
    assert done.code == 0
    assert files(tmp_path / "fx") == [fx_name().replace(".npy", "_min_max.npy")]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_a_watch_cleanly(tmp_path, number, code):
    write_fx(tmp_path / "fx")
    words = ["reduce", str(tmp_path / "fx"), "--watch", "--interval", "0.01", "--settle", "0", "--delete-source"]
    with subprocess.Popen(
        [sys.executable, "-m", "probe_flow", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: not (tmp_path / "fx" / fx_name()).exists(), process)
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    assert "1 files reduced, 1 deleted" in out
    assert files(tmp_path / "fx") == [fx_name().replace(".npy", "_min_max.npy")]


def wait_until(is_so, process):
    done = threading.Event()
    end = time.monotonic() + 300
    while not is_so():
        assert process.poll() is None
        assert time.monotonic() < end
        done.wait(0.02)


def test_lines_are_written_now_and_then_and_problems_at_once(capsys):
    now = [0.0]
    stream = io.StringIO()
    tell = plain_lines(stream, monotonic=lambda: now[0])
    for second in range(25):
        now[0] = float(second)
        tell(Summary(reduced=second), Diagnostic("PF6304", "`x` cannot be reduced") if second == 3 else None)
    assert (
        stream.getvalue()
        == "10 files reduced, 0.0 MB read, 0.0 MB written\n20 files reduced, 0.0 MB read, 0.0 MB written\n"
    )
    assert capsys.readouterr().err.count("PF6304") == 1


def test_reducing_loads_neither_the_library_of_options_nor_other_readers(tmp_path):
    write_ge(tmp_path / "ge")
    code = (
        "import sys; from probe_flow.cli.main import main\n"
        "code = main(['reduce', 'ge', '--quiet'])\n"
        "unwanted = ('pydantic', 'dask', 'structlog', 'h5py', 'probe_flow.stages.dump.adopt_any')\n"
        "print(code, [name for name in unwanted if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_totals_that_have_not_changed_are_not_written_again():
    now = [0.0]
    stream = io.StringIO()
    tell = plain_lines(stream, monotonic=lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        tell(Summary(reduced=3), None)
    assert stream.getvalue() == "3 files reduced, 0.0 MB read, 0.0 MB written\n"
