"""What the child process does for every framework, with the toy framework: inputs, seeds, steps, record, failures."""

from __future__ import annotations

import hashlib
import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from toy_framework import TOY

from probe_flow.dumpers.base.job import ModelJob, read_run
from probe_flow.dumpers.base.process import run_model
from probe_flow.errors import IncompleteError, UsageError

NET = """
import os, signal, subprocess, sys
import numpy as np
import toy_framework
from toy_framework import Layer, Net, scaled
from probe_flow.errors import Diagnostic, IncompleteError

def build():
    return Net(scaled("double", 2.0), Layer("shift", "Add", lambda x: x + 1))

def noisy():
    toy_framework.random.random(7)  # weights
    return Net(Layer("draw", "Random", lambda x: x + toy_framework.random.random(x.shape) + np.random.random(x.shape)))

def greedy():
    return Net(Layer("eat", "Zeros", lambda x: np.ones(2**28)))

def changing():
    def change(x):
        x += 1
        return x
    return Net(Layer("change", "Add", change))

def second(calls=[]):
    def fail(x):
        calls.append(x)
        if len(calls) == 2:
            raise ValueError("shapes differ\\nand more")
        return x
    return Net(Layer("fail", "Add", fail))

def full():
    def fail(x):
        try:
            raise IncompleteError(Diagnostic("PF6326", "the dump cannot be written: No space left on device"))
        except IncompleteError as error:
            raise RuntimeError("a layer failed") from error
    return Net(Layer("fail", "Add", fail))

def dying():
    def die(x):
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return Net(Layer("die", "Exit", die))

def leaving():
    return Net(Layer("leave", "Exit", lambda x: sys.exit(4)))

def chatty():
    def talk(x):
        for number in range(20_000):
            print(f"line {number}: toy: {'mul' if number % 2 else 'add'} is slow", "." * 50)
        return x
    return Net(Layer("talk", "Identity", talk))

def hanging():
    def hang(x):
        pipe = os.environ["TOY_PIPE"]
        code = "import sys, time; held = open(sys.argv[1], 'w'); held.write('up'); held.flush(); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", code, pipe])
        signal.pause()
    return Net(Layer("hang", "Wait", hang))

def inputs():
    yield {"x": np.array([1.0])}
    yield (np.array([2.0, 3.0]), )

def objects():
    return np.array([None, "text"])

def words():
    return {"x": np.ones(2), "mode": "fast"}
"""


@pytest.fixture
def job(tmp_path: Path) -> ModelJob:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    np.save(tmp_path / "x.npy", np.array([1.0, 2.5]))
    output = tmp_path / "out"
    output.mkdir()
    files = {"files": [str(tmp_path / "x.npy")]}
    return ModelJob("toy", "net:build", files, str(output), import_from=str(tmp_path))


def dumped(job: ModelJob, step: int = 0) -> dict[str, Any]:
    return {path.stem: np.load(path).tolist() for path in sorted((TOY.dump_folder(job) / str(step)).iterdir())}


def test_every_step_is_run_and_dumped(job: ModelJob) -> None:
    record = run_model(replace(job, calls=2), TOY)

    assert [dumped(job, step) for step in (0, 1)] == [{"double": [2.0, 5.0], "shift": [3.0, 6.0]}] * 2
    assert record["steps"] == 2
    assert not (TOY.dump_folder(job) / "2").exists()


def test_the_record_says_what_was_run(job: ModelJob, tmp_path: Path) -> None:
    record = run_model(job, TOY)

    raw = np.array([1.0, 2.5]).tobytes()
    assert record["inputs"] == [
        [
            {
                "name": "0", "dtype": "float64", "shape": [2], "file": "0.npy", "raw": "0.bin",
                "sha256": hashlib.sha256(raw).hexdigest(),
            }
        ]
    ]  # fmt: skip
    assert (Path(job.output) / "input" / "0" / "0.bin").read_bytes() == raw
    assert record["source"] == {
        "path": str(tmp_path / "net.py"),
        "sha256": hashlib.sha256(NET.encode()).hexdigest(),
    }
    assert record["versions"] == {"numpy": np.__version__}
    assert {**read_run(Path(job.output)), "slow": []} == record


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        ({"shape": [2, 3], "dtype": "float32"}, lambda g: g.uniform(0.0, 1.0, (2, 3)).astype("float32")),
        ({"shape": [3], "dtype": "float64", "low": -2, "high": 5}, lambda g: g.uniform(-2, 5, (3,))),
        ({"shape": [4], "dtype": "int8"}, lambda g: g.integers(0, 10, (4,)).astype("int8")),
        ({"shape": [4], "dtype": "bool"}, lambda g: g.integers(0, 2, (4,)) == 1),
        ({"shape": [], "dtype": "bool"}, lambda g: np.asarray(g.integers(0, 2, ()) == 1)),
    ],
)
def test_inputs_are_drawn_from_the_seed(job: ModelJob, tensor: dict[str, Any], expected: Any) -> None:
    run_model(replace(job, inputs={"random": {"seed": 3, "tensors": [tensor]}}), TOY)

    kept = np.load(Path(job.output) / "input" / "0" / "0.npy")
    wanted = expected(np.random.Generator(np.random.PCG64(3)))
    assert kept.dtype == wanted.dtype == np.dtype(tensor["dtype"])
    assert np.array_equal(kept, wanted)


def test_inputs_are_those_of_the_users_code_call_by_call(job: ModelJob) -> None:
    run_model(replace(job, inputs={"callable": "net:inputs"}, calls=2), TOY)

    assert [dumped(job, step)["double"] for step in (0, 1)] == [[2.0], [4.0, 6.0]]
    folder = Path(job.output) / "input"
    assert [np.load(folder / name).tolist() for name in ("0/x.npy", "1/0.npy")] == [[1.0], [2.0, 3.0]]


def test_arguments_that_no_array_holds_are_named(job: ModelJob) -> None:
    with pytest.raises(IncompleteError, match="PF6324"):
        run_model(replace(job, inputs={"callable": "net:objects"}), TOY)
    with pytest.raises(IncompleteError, match="PF6324"):
        run_model(replace(job, inputs={"callable": "net:words"}), TOY)
    assert read_run(Path(job.output))["ok"] is False
    kept = sorted(path.name for path in (Path(job.output) / "input" / "0").iterdir())
    assert kept == ["x.bin", "x.npy"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"random": {"seed": 0, "tensors": [{"shape": [1], "dtype": "float99"}]}}, "toy has no dtype `float99`"),
        ({"files": ["TEXT.npy"]}, "`TEXT.npy` cannot be read as input: TypeError: no toy has elements of type <U1"),
        ({"files": ["x.bad"]}, "`x.bad` cannot be read as input: JSONDecodeError"),
        ({"callable": "net:inputs"}, "`inputs` ends after 2 of 3 calls"),
        ({"callable": "net:missing"}, "`net` has no `missing`"),
    ],
)
def test_inputs_that_cannot_be_used_are_a_wrong_request(
    job: ModelJob, tmp_path: Path, inputs: dict[str, Any], message: str
) -> None:
    np.save(tmp_path / "TEXT.npy", np.array("x"))
    (tmp_path / "x.bad").write_text("1, 2", encoding="utf-8")
    if "files" in inputs:
        inputs = {"files": [str(tmp_path / name) for name in inputs["files"]]}

    with pytest.raises(UsageError) as raised:
        run_model(replace(job, inputs=inputs, calls=3), TOY)

    assert raised.value.diagnostic.code == ("PF6322" if "missing" in message else "PF6323")
    assert message in raised.value.diagnostic.message
    if "files" in inputs:
        assert raised.value.diagnostic.help == "give `.npy` arrays of numbers, or lists of numbers as `.json`"


def test_each_call_gets_arguments_of_its_own(job: ModelJob) -> None:
    run_model(replace(job, model="net:changing", calls=2), TOY)

    assert dumped(job, 0) == dumped(job, 1) == {"change": [2.0, 3.5]}


def test_a_seed_decides_what_is_drawn_whatever_the_weights_drew(job: ModelJob) -> None:
    run_model(replace(job, model="net:noisy", seed=11), TOY)
    first = dumped(job)
    run_model(replace(job, model="net:noisy", seed=11), TOY)
    assert dumped(job) == first

    np.random.seed(11)
    drawn = np.array([1.0, 2.5]) + np.random.default_rng(11).random(2) + np.random.random(2)
    assert first == {"draw": drawn.tolist()}
    run_model(replace(job, model="net:noisy", seed=12), TOY)
    assert dumped(job) != first


def test_a_filter_narrows_the_dump(job: ModelJob) -> None:
    run_model(replace(job, dump={"types": ["add"]}), TOY)

    assert dumped(job).keys() == {"shift"}


def test_an_empty_dump_is_no_success(job: ModelJob) -> None:
    with pytest.raises(IncompleteError, match="PF6327"):
        run_model(replace(job, dump={"include": ["nothing"]}), TOY)
    assert read_run(Path(job.output))["failure"]["is_wrong_request"] is False


def test_a_failure_names_the_call_and_its_traceback_is_in_the_log(job: ModelJob) -> None:
    with pytest.raises(IncompleteError) as raised:
        run_model(replace(job, model="net:second", calls=3), TOY)

    assert raised.value.diagnostic.code == "PF6324"
    assert raised.value.diagnostic.message == "`net:second` failed in call 1: ValueError: shapes differ"
    assert 'raise ValueError("shapes differ' in (Path(job.output) / "model.log").read_text(encoding="utf-8")


def test_an_error_of_the_dump_is_found_in_that_of_the_framework(job: ModelJob) -> None:
    with pytest.raises(IncompleteError, match=r"PF6326.*No space left"):
        run_model(replace(job, model="net:full"), TOY)


def test_a_step_beyond_the_memory_fails_alone_and_the_limit_is_named(job: ModelJob) -> None:
    with pytest.raises(IncompleteError, match="PF6324") as raised:
        run_model(replace(job, model="net:greedy", memory_bytes=2**30), TOY)

    assert (raised.value.diagnostic.help or "").startswith("`memory_limit` lets it take 1024 MiB")


def test_a_process_that_is_killed_in_a_step_has_its_last_words(job: ModelJob) -> None:
    with pytest.raises(IncompleteError) as raised:
        run_model(replace(job, model="net:dying"), TOY)

    assert raised.value.diagnostic.code == "PF6325"
    assert "SIGKILL" in raised.value.diagnostic.message
    assert raised.value.diagnostic.notes == ("last words",)


def test_an_exit_in_a_step_is_no_success(job: ModelJob) -> None:
    with pytest.raises(IncompleteError, match=r"PF6324.*`sys.exit\(4\)`"):
        run_model(replace(job, model="net:leaving"), TOY)


def test_megabytes_in_the_log_are_searched_for_what_the_framework_says(job: ModelJob) -> None:
    record = run_model(replace(job, model="net:chatty"), TOY)

    assert record["slow"] == ["add", "mul"]
    assert (Path(job.output) / "model.log").stat().st_size > 2**20
    assert "slow" not in json.loads((Path(job.output) / "model_run.json").read_text(encoding="utf-8"))


def test_a_model_that_hangs_ends_with_all_that_it_started(
    job: ModelJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of the model holds a pipe open: its end is seen there, without waiting for a time."""
    pipe = tmp_path / "alive"
    os.mkfifo(pipe)
    monkeypatch.setenv("TOY_PIPE", str(pipe))
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    waits = 0

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def wait(self, timeout: float | None = None) -> int:
            nonlocal waits
            waits += 1
            if waits == 1:
                ready, _, _ = select.select([reader], [], [], 60)
                assert ready, "the process of the model does not start its own"
                assert os.read(reader, 2) == b"up"
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_model(replace(job, model="net:hanging"), TOY)
        ready, _, _ = select.select([reader], [], [], 60)
        assert ready, "what the model started is still there after a minute"
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_a_framework_that_is_not_installed_is_said_before_anything_runs(job: ModelJob) -> None:
    absent = replace(TOY, modules=("nowhere_to_be_found",))

    with pytest.raises(UsageError) as raised:
        run_model(job, absent)

    assert raised.value.diagnostic.code == "PF6320"
    assert raised.value.diagnostic.message == "toy is not installed, and a model cannot run without it"
    assert "probe-flow[toy]" in (raised.value.diagnostic.help or "")
    assert list(Path(job.output).iterdir()) == []
