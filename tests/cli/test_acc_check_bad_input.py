"""What `acc_check` says of dumps and folders that cannot be used, and how it treats what others might execute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from precheck_dumps import forward, one, plain_calls, tensor, write_dump

pytestmark = pytest.mark.usefixtures("stand_ins")


CHECKSUM = {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [4], "md5": "0a1b2c3d"}
CHECKSUMS = {"Mint.exp.0.forward": forward(CHECKSUM, outputs=[CHECKSUM])}


@pytest.mark.parametrize(
    ("entries", "fields", "code", "words"),
    [
        pytest.param({"Cell.net.Net.forward.0": forward(tensor(4))}, {}, "PF6602", "no call of an API", id="cells"),
        pytest.param({"Module.net.Net.forward.0": forward(tensor(4))}, {}, "PF6602", "no call", id="modules"),
        pytest.param(CHECKSUMS, {"task": "md5"}, "PF6603", "task `md5`", id="md5"),
    ],
)
def test_a_dump_without_calls_that_can_be_checked_is_refused(
    probe_flow, tmp_path: Path, entries: dict[str, Any], fields: dict[str, Any], code: str, words: str
):
    dump = write_dump(tmp_path / "dump", entries, **fields)
    done = probe_flow("acc_check", "-api_info", dump, "-o", "out")
    assert done.code == 2, done.err
    assert f"error[{code}]" in done.err
    assert words in " ".join(done.err.split())
    assert not list((tmp_path / "out").glob("accuracy_checking_*"))


def test_standards_are_refused_for_pytorch_where_no_other_device_has_the_same_calls(probe_flow, tmp_path: Path):
    dump = write_dump(tmp_path / "dump", {"Torch.exp.0.forward": forward(tensor(4))}, framework="pytorch")
    done = probe_flow("acc_check", "-api_info", dump, "-o", "out", "--judge", "standard")
    assert done.code == 2
    assert "error[PF6613]" in done.err
    assert "api_precision_compare" in done.err


@pytest.mark.parametrize("framework", [..., None, "caffe"])
def test_a_dump_that_names_no_framework_is_known_by_its_tensors(check, framework):
    done, tables = check(plain_calls(1), framework=framework)
    assert done.code == 0, done.err
    assert tables.states == {"Mint.add.0": ("pass", "")}


@pytest.fixture
def without(monkeypatch):
    """Take a package away."""
    import probe_flow.stages.precheck as stage

    found = stage.find_spec

    def take(package: str) -> None:
        monkeypatch.setattr(stage, "find_spec", lambda name: None if name == package else found(name))

    return take


@pytest.mark.parametrize("package", ["mindspore", "torch"])
def test_a_framework_that_is_not_installed_is_named_before_anything_runs(
    probe_flow, tmp_path: Path, without, package: str
):
    without(package)
    dump = write_dump(tmp_path / "dump", plain_calls(1))
    done = probe_flow("acc_check", "-api_info", dump, "-o", "out")
    assert done.code == 2
    assert "error[PF6604]" in done.err
    assert f"pip install {package}" in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("written_by", ["mindspore", "mindtorch"])
def test_a_plan_says_which_framework_the_dump_needs(probe_flow, tmp_path: Path, without, written_by: str):
    without("mindspore")
    write_dump(tmp_path / "dump", plain_calls(1), framework=written_by)
    done = probe_flow("plan", "template:mindspore_precheck", "--set", "api_info=dump")
    assert done.code == 2
    assert f"checking APIs of {written_by} needs `mindspore`" in done.err


@pytest.mark.parametrize("fields", [{"task": "tensor"}, {"framework": "pytorch"}])
def test_a_plan_asks_for_no_framework_that_nothing_runs_in(probe_flow, tmp_path: Path, without, fields: dict[str, str]):
    without("mindspore")
    write_dump(tmp_path / "dump", plain_calls(1), **fields)
    done = probe_flow("plan", "template:mindspore_precheck", "--set", "api_info=dump")
    assert done.code == 0, done.err


@pytest.mark.parametrize("where", ["absent.json", "."])
def test_a_file_that_is_not_there_is_an_error_of_the_command(probe_flow, tmp_path: Path, where: str):
    done = probe_flow("acc_check", "-api_info", where, "-o", "out")
    assert done.code == 2
    assert "error[" in done.err


def test_without_a_file_the_usage_is_shown(probe_flow):
    done = probe_flow("acc_check")
    assert done.code == 2
    assert "-api_info" in done.err


def test_a_dump_that_is_cut_off_is_refused_with_the_place(probe_flow, tmp_path: Path):
    dump = write_dump(tmp_path / "dump", plain_calls(4))
    text = dump.read_text()
    dump.write_text(text[: text.index("Mint.add.3.forward") + 40])
    done = probe_flow("acc_check", "-api_info", dump, "-o", "out")
    assert done.code == 3
    assert "error[PF3407]" in done.err
    assert not list((tmp_path / "out").glob("accuracy_checking_*"))


def test_a_dump_without_entries_is_incomplete_and_has_no_tables(probe_flow, tmp_path: Path):
    done = probe_flow("acc_check", "-api_info", write_dump(tmp_path / "dump", {}), "-o", "out")
    assert done.code == 3
    assert "error[PF3" in done.err
    assert not list((tmp_path / "out").glob("accuracy_checking_*"))


def test_a_dump_with_literals_that_json_does_not_have_is_read(check):
    odd = tensor(8, low=float("-inf"), high=float("nan"))
    done, tables = check({"Mint.exp.0.forward": forward(odd), **plain_calls(12)})
    assert tables.states["Mint.exp.0"] == ("pass", "")
    assert done.code == 0


def test_an_output_folder_that_is_a_file_ends_the_check_with_its_name(probe_flow, tmp_path: Path):
    (tmp_path / "out").write_text("")
    dump = write_dump(tmp_path / "dump", plain_calls(1))
    done = probe_flow("acc_check", "-api_info", dump, "-o", "out")
    assert done.code == 2
    assert "error[PF6011]" in done.err
    assert str(tmp_path / "out") in done.err
    assert "Traceback" not in done.err


NAMES = ("=cmd|'/C calc'!A0", "@SUM(1)", "+1", "-1")


@pytest.mark.parametrize("name", NAMES)
def test_names_that_a_spreadsheet_would_run_are_text_in_the_tables(check, name: str):
    _, tables = check({f"{name}.x.0.forward": forward(tensor(4)), **plain_calls(1)})
    cells = [cell for path in (tables.result, tables.details) for row in tables.rows(path) for cell in row]
    assert f"'{name}.x.0" in cells
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@")]


@pytest.mark.parametrize(
    "argument",
    [
        {"type": "numpy.ndarray", "value": None},
        {"type": "mindspore.Tensor", "dtype": "Float32", "shape": "4"},
        {"type": "mindspore.Tensor", "dtype": "Float128", "shape": [4], "Max": 1, "Min": 0},
        {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [-1], "Max": 1, "Min": 0},
        {"type": "int", "value": None},
        {"type": "int"},
        "text",
        7,
    ],
    ids=json.dumps,
)
def test_an_argument_that_cannot_be_made_costs_its_call_and_says_why(check, argument):
    done, tables = check({"Mint.exp.0.forward": forward(argument), **plain_calls(1)})
    assert tables.states == {"Mint.exp.0": ("SKIP", ""), "Mint.add.0": ("pass", "")}
    assert tables.messages["Mint.exp.0"]
    assert done.code == 3


# --- dumps with tensors ----------------------------------------------------------------------------------------------


@pytest.fixture
def real(tmp_path: Path):
    """Return a function that writes a dump with tensors of ``x + y``, and the folder of their files."""

    def write(count: int = 2) -> tuple[dict[str, Any], Path]:
        folder = tmp_path / "dump" / "dump_tensor_data"
        folder.mkdir(parents=True)
        entries = {}
        for number in range(count):
            x, y = np.random.default_rng(number).standard_normal((2, 4)).astype(np.float32)
            for name, values in (("input.0", x), ("input.1", y), ("output.0", x + y)):
                np.save(folder / f"Mint.add.{number}.forward.{name}.npy", values)
            parts = [
                tensor(4, data_name=f"Mint.add.{number}.forward.{name}.npy")
                for name in ("input.0", "input.1", "output.0")
            ]
            entries[f"Mint.add.{number}.forward"] = forward(*parts[:2], outputs=parts[2:])
        return entries, folder

    return write


def test_results_of_a_dump_with_tensors_are_compared_and_nothing_runs_but_the_benchmark(check, real, monkeypatch):
    import probe_flow.stages.precheck as stage

    found = stage.find_spec
    monkeypatch.setattr(stage, "find_spec", lambda name: None if name == "mindspore" else found(name))
    entries, _ = real()
    done, tables = check(entries, task="tensor", dump_data_dir="/moved/elsewhere")
    assert done.code == 0, done.err
    assert set(tables.states.values()) == {("pass", "")}


def test_one_changed_result_of_a_dump_with_tensors_is_found_alone(check, real):
    entries, folder = real(5)
    path = folder / "Mint.add.3.forward.output.0.npy"
    np.save(path, np.load(path) + np.float32([0, 0, 1e-3, 0]))
    done, tables = check(entries, task="tensor", dump_data_dir=str(folder))
    assert done.code == 1
    assert [name for name, state in tables.states.items() if state != ("pass", "")] == ["Mint.add.3"]
    assert float(tables.outputs["Mint.add.3.forward.output.0"][4]) == pytest.approx(1e-3, rel=1e-3)


def lost(folder: Path, file: Path) -> None:
    file.unlink()


def another_shape(folder: Path, file: Path) -> None:
    np.save(file, np.zeros(5, np.float32))


def cut_off(folder: Path, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def a_pickle(folder: Path, file: Path) -> None:
    np.save(file, np.array([{}], dtype=object), allow_pickle=True)


@pytest.mark.parametrize("damage", [lost, another_shape, cut_off, a_pickle])
def test_a_tensor_file_that_cannot_be_used_costs_its_call_and_says_why(check, real, damage):
    entries, folder = real()
    damage(folder, folder / "Mint.add.0.forward.input.0.npy")
    done, tables = check(entries, task="tensor", dump_data_dir=str(folder))
    assert tables.states == {"Mint.add.0": ("SKIP", ""), "Mint.add.1": ("pass", "")}
    assert "Mint.add.0.forward.input.0.npy" in tables.messages["Mint.add.0"]
    assert done.code == 3


def test_a_tensor_file_outside_the_folder_is_not_read(check, real, tmp_path: Path):
    entries, folder = real()
    np.save(tmp_path / "secret.npy", np.zeros(4, np.float32))
    entries["Mint.add.0.forward"]["input_args"][0]["data_name"] = "../../secret.npy"
    _, tables = check(entries, task="tensor", dump_data_dir=str(folder))
    assert tables.states["Mint.add.0"] == ("SKIP", "")
    assert "outside" in tables.messages["Mint.add.0"]


# --- saved data ------------------------------------------------------------------------------------------------------


def test_data_of_failing_calls_are_saved_by_the_names_of_the_dump(check, tmp_path: Path):
    x = tensor(4)
    entries = {
        "Mint.wrong.0.forward": forward(x),
        "Mint.wrong.0.backward": {"input": [x], "output": [x]},
        "Mint.wrong.1.forward": forward(x=x),
        **plain_calls(1),
    }
    done, _ = check(entries, "-save_error_data")
    folder = tmp_path / "out" / "error_data"
    assert {file.name for file in folder.iterdir()} == {
        "index.json",
        "Mint.wrong.0.forward.input.0.npy",
        "Mint.wrong.0.forward.output.0.npy",
        "Mint.wrong.0.forward.output.0.bench.npy",
        "Mint.wrong.0.backward.input.0.npy",
        "Mint.wrong.0.backward.output.0.npy",
        "Mint.wrong.0.backward.output.0.bench.npy",
        "Mint.wrong.1.forward.input.x.npy",
        "Mint.wrong.1.forward.output.0.npy",
        "Mint.wrong.1.forward.output.0.bench.npy",
    }
    given, made = (np.load(folder / f"Mint.wrong.0.forward.{name}.0.npy") for name in ("input", "output"))
    bench = np.load(folder / "Mint.wrong.0.forward.output.0.bench.npy")
    np.testing.assert_array_equal(given, bench)
    np.testing.assert_allclose(made, given * 1.01, rtol=1e-6)
    incoming, gradient = (np.load(folder / f"Mint.wrong.0.backward.{name}.0.npy") for name in ("input", "output"))
    np.testing.assert_allclose(gradient, incoming * 1.01, rtol=1e-6)
    index = json.loads((folder / "index.json").read_text())
    assert sorted(index) == ["Mint.wrong.0", "Mint.wrong.1"]
    assert sorted(name for names in index.values() for name in names) == sorted(
        f"error_data/{file.name}" for file in folder.glob("*.npy")
    )
    assert done.code == 1


def test_saving_that_fails_changes_no_verdict_and_is_said(check, tmp_path: Path):
    entries = {"Mint.wrong.0.forward": forward(tensor(4)), **plain_calls(1)}
    plain, before = check(entries, out="plain")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "error_data").write_text("no folder")
    done, tables = check(entries, "-save_error_data")
    assert done.code == plain.code == 1
    assert tables.states == before.states
    assert tables.details.read_bytes() == before.details.read_bytes()
    assert "could not be saved" in tables.messages["Mint.wrong.0"]
    assert "warning[PF6609]" in done.err


def test_an_index_that_cannot_be_written_changes_no_verdict(check, tmp_path: Path):
    (tmp_path / "out" / "error_data" / "index.json").mkdir(parents=True)
    done, tables = check({"Mint.wrong.0.forward": forward(tensor(4)), **plain_calls(1)}, "-save_error_data")
    assert done.code == 1
    assert tables.states["Mint.wrong.0"] == ("error", "")
    assert (tmp_path / "out" / "error_data" / "Mint.wrong.0.forward.input.0.npy").is_file()
    assert "warning[PF6609]" in done.err


def test_a_number_that_is_wrong_has_no_file_and_its_inputs_have(check, tmp_path: Path):
    _, tables = check({"Mint.add.0.forward": forward(tensor(4), one(2)), **plain_calls(1)}, "-save_error_data")
    assert set(tables.states.values()) == {("pass", "")}
    assert not (tmp_path / "out" / "error_data").exists()


def test_a_folder_that_cannot_be_written_names_the_option_of_this_command(probe_flow, tmp_path: Path):
    dump = write_dump(tmp_path / "dump", plain_calls(1))
    (tmp_path / "file").write_text("no folder")
    done = probe_flow("acc_check", "-api_info", dump, "-o", "file/out")
    assert done.code == 2
    assert "error[PF6011]" in done.err
    assert "`-o`" in done.err
    assert "--output" not in done.err


def test_a_dump_of_statistics_may_hold_checksums_too(check):
    summed = tensor(4, md5="0a1b2c3d")
    done, tables = check({"Mint.add.0.forward": forward(summed, summed, outputs=[summed])})
    assert done.code == 0, done.err
    assert tables.states == {"Mint.add.0": ("pass", "")}


def test_the_first_line_names_the_benchmark_and_no_second_dump(check):
    done, _ = check(plain_calls(1))
    first = done.out.splitlines()[0]
    assert first.startswith("target mindspore dump `dump`, 1 tensor | golden benchmark in pytorch of `dump`, 1 tensor")
