"""`acc_check` with stand-ins for the frameworks: tables, statuses, exit codes, calls that end their worker."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from precheck_dumps import STAND_INS, backward, forward, one, plain_calls, tables_in, tensor, write_dump

QUICK_START = {
    "Mint.where.0.forward": {
        "input_args": [tensor(1, 4096, dtype="Bool", low=False, high=False), one(0), one(1)],
        "input_kwargs": {},
        "output": [tensor(1, 4096, dtype="Int64", low=1.0, high=1.0)],
    }
}
"""The example in the documentation of the tool that this command replaces."""

RESULT = (
    b"\xef\xbb\xbfAPI Name,Forward Test Success,Backward Test Success,Message\r\n"
    b"Mint.where.0,pass,,\r\n"
)  # fmt: skip
DETAILS = (
    b"\xef\xbb\xbfAPI Name,Bench Dtype,Tested Dtype,Shape,Cosine,MaxAbsErr,MaxRelativeErr,Status,Message\r\n"
    b'Mint.where.0.forward.output.0,Int64,Int64,"(1, 4096)",1.0,0.0,0.0,pass,\r\n'
)
"""The two tables that it writes there."""


pytestmark = pytest.mark.usefixtures("stand_ins")


def test_the_quick_start_gives_its_two_tables_to_the_byte(check):
    done, tables = check(QUICK_START)
    assert done.code == 0, done.err
    assert tables.bytes == (RESULT, DETAILS)


@pytest.mark.parametrize("profile", ["acc_check", "msprobe"])
def test_the_quick_start_is_the_same_with_the_long_options_and_either_profile(probe_flow, tmp_path: Path, profile: str):
    dump = write_dump(tmp_path / "dump", QUICK_START)
    done = probe_flow("acc_check", "--api_info_file", dump, "--out_path", "out", "--profile", profile)
    assert done.code == 0, done.err
    assert tables_in(tmp_path / "out").bytes == (RESULT, DETAILS)


def test_without_an_output_folder_the_tables_are_in_the_working_directory(probe_flow, tmp_path: Path):
    dump = write_dump(tmp_path / "dump", QUICK_START)
    assert probe_flow("acc_check", "-api_info", dump).code == 0
    assert tables_in(tmp_path).bytes == (RESULT, DETAILS)


def test_each_call_of_the_dump_is_in_the_table_in_the_order_of_the_dump_with_what_became_of_it(check):
    x, square = tensor(4), tensor(3, 3)
    done, tables = check(
        {
            "Mint.wrong.0.forward": forward(x),
            "Mint.add.0.forward": forward(x, x),
            "Tensor.__mul__.0.forward": forward(x, x),
            "Tensor.__mul__.0.backward": backward([x], [x, x]),
            "Mint.add.0.backward": backward([x], [x, x]),
            "Cell.net.Dense.forward.0": forward(x),
            "Mint.matmul.0.forward": forward(square, square, outputs=[square]),
            "Mint.matmul.0.backward": backward([square], [square, square]),
            "Mint.wrong.0.backward": backward([x], [x]),
            "Mint.absent.0.forward": forward(x),
            "MintFunctional.relu.0.forward": forward(x),
            "Mint.refuses.0.forward": forward(x),
            "Mint.exp.7.backward": backward([x], [x]),
            "Mint.add.1.forward": forward(tensor(4, dtype="Int4"), x),
            "Mint.exp.8.forward": forward(tensor(4, high=None)),
        }
    )
    assert tables.states == {
        "Mint.wrong.0": ("error", "error"),
        "Mint.add.0": ("pass", "pass"),
        "Tensor.__mul__.0": ("SKIP", "SKIP"),
        "Mint.matmul.0": ("pass", "pass"),
        "Mint.absent.0": ("SKIP", ""),
        "MintFunctional.relu.0": ("pass", ""),
        "Mint.refuses.0": ("SKIP", ""),
        "Mint.exp.7": ("", "SKIP"),
        "Mint.add.1": ("SKIP", ""),
        "Mint.exp.8": ("SKIP", ""),
    }
    assert list(tables.states)[:3] == ["Mint.wrong.0", "Mint.add.0", "Tensor.__mul__.0"]
    assert [name for name, row in tables.outputs.items() if row[6] == "error"] == [
        "Mint.wrong.0.forward.output.0",
        "Mint.wrong.0.backward.output.0",
    ]
    messages = tables.messages
    assert "is not below 0.0001" in messages["Mint.wrong.0"]
    assert messages["Tensor.__mul__.0"] == "`Tensor.__mul__` is not among the APIs that are checked"
    assert "has no `torch.absent`" in messages["Mint.absent.0"]
    assert messages["Mint.refuses.0"] == "TypeError: refuses() takes no tensors"
    assert "no forward entry" in messages["Mint.exp.7"]
    assert "`Max`, `Min`" in messages["Mint.exp.8"]
    assert not any(message for name, message in messages.items() if tables.states[name][0] == "pass")
    assert done.code == 3, "what could not be checked weighs more than what is wrong, as everywhere"


def test_figures_are_those_of_the_formulas(check):
    """One element, so that cosine, absolute and relative error follow from the two numbers alone."""
    _, tables = check({"Mint.wrong.0.forward": forward(tensor(1, low=2.0, high=2.0))})
    bench, tested, shape, cosine, largest, relative, state, message = tables.outputs["Mint.wrong.0.forward.output.0"]
    assert (bench, tested, shape, state) == ("Float64", "Float32", "(1,)", "error")
    assert float(cosine) == 1.0
    assert float(largest) == pytest.approx(0.02, rel=1e-5)
    assert float(relative) == pytest.approx(0.01, rel=1e-5)
    assert message == tables.messages["Mint.wrong.0"].removesuffix(";")


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        pytest.param(plain_calls(1), 0, id="all pass"),
        pytest.param({**plain_calls(1), "Tensor.__mul__.0.forward": forward(tensor(4))}, 0, id="one cannot be checked"),
        pytest.param({**plain_calls(1), "Mint.wrong.0.forward": forward(tensor(4))}, 1, id="one is wrong"),
        pytest.param({**plain_calls(1), "Mint.refuses.0.forward": forward(tensor(4))}, 3, id="one had to be checked"),
        pytest.param({"Tensor.__mul__.0.forward": forward(tensor(4))}, 3, id="none was checked"),
    ],
)
def test_the_exit_code_says_what_became_of_all(check, entries: dict[str, Any], code: int):
    done, _ = check(entries)
    assert done.code == code, done.out + done.err


ENDINGS = {
    "crash": "killed by SIGSEGV",
    "exits": "ended with exit code 7",
    "leaves": "ended with exit code 7",
    "hangs": "it took longer than 10 s",
}
"""Of calls that end their worker, what their row says."""


@pytest.mark.parametrize("api", ENDINGS)
def test_a_call_that_ends_its_worker_is_blamed_and_no_other_call_suffers(check, api: str):
    entries = {
        **plain_calls(2),
        f"Mint.{api}.0.forward": forward(tensor(4)),
        f"Mint.{api}.0.backward": backward([tensor(4)], [tensor(4)]),
        "Mint.exp.0.forward": forward(tensor(4)),
    }
    # Ten seconds are many for the calls that do not hang, whatever else the machine does.
    done, tables = check(entries, "--timeout", 10 if api == "hangs" else 600)
    assert tables.states == {
        "Mint.add.0": ("pass", ""),
        "Mint.add.1": ("pass", ""),
        f"Mint.{api}.0": ("SKIP", "SKIP"),
        "Mint.exp.0": ("pass", ""),
    }
    assert ENDINGS[api] in tables.messages[f"Mint.{api}.0"]
    assert done.code == 3
    assert not [name for name in tables.outputs if api in name]


def test_a_call_that_ends_its_worker_once_is_checked_by_the_next(check, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("STAND_IN_FLAG", str(tmp_path / "flag"))
    done, tables = check({"Mint.crash_once.0.forward": forward(tensor(4)), **plain_calls(1)})
    assert (tmp_path / "flag").exists()
    assert set(tables.states.values()) == {("pass", "")}
    assert done.code == 0


def test_a_call_that_mindspore_has_no_kernel_for_runs_in_torch_and_the_report_says_so(check):
    done, tables = check({"Mint.no_kernel.0.forward": forward(tensor(4))})
    assert tables.states == {"Mint.no_kernel.0": ("pass", "")}
    assert tables.messages["Mint.no_kernel.0"] == ""
    assert "warning[PF6610]" in done.err


def test_nested_lists_keywords_several_results_null_gradients_and_calls_in_place(check):
    x, grid = tensor(2, 3), tensor(4, 3)
    numbers = tensor(2, dtype="Int64", low=0, high=2)
    done, tables = check(
        {
            "Mint.cat.0.forward": forward([x, x], dim=one(0), outputs=[grid]),
            "Mint.cat.0.backward": backward([grid], [x, x]),
            "Mint.max.0.forward": forward(x, dim=one(1), outputs=[tensor(2), numbers]),
            "Mint.max.0.backward": backward([tensor(2), None], [x]),
            "Mint.mul.0.forward": forward(x, y=x, outputs=[x]),
            "Mint.mul.0.backward": backward([x], [x, x]),
            "Tensor.add_.0.forward": forward(x, x, outputs=[x]),
            "Tensor.add_.0.backward": backward([x], [x, x]),
            "Mint.sum.0.forward": forward(x, outputs=[tensor()]),
            "Mint.sum.0.backward": backward([tensor()], [x]),
            "Tensor.item.0.forward": forward(tensor(1), outputs=[one(0.5)]),
        }
    )
    assert set(tables.states.values()) == {("pass", "pass"), ("pass", "")}, tables.messages
    shown = {name: row[2] for name, row in tables.outputs.items()}
    assert [shown[f"Mint.cat.0.backward.output.{number}"] for number in (0, 1)] == ["(2, 3)", "(2, 3)"]
    assert [shown[f"Mint.max.0.forward.output.{number}"] for number in (0, 1)] == ["(2,)", "(2,)"]
    assert [name for name in shown if "max.0.backward" in name] == ["Mint.max.0.backward.output.0"]
    assert [name for name in shown if "mul.0.backward" in name][-1] == "Mint.mul.0.backward.output.1"
    assert shown["Mint.sum.0.forward.output.0"] == "()"
    assert tables.outputs["Tensor.item.0.forward.output.0"][:2] == ["float", "float"]
    assert done.code == 0


def test_empty_tensors_and_values_that_are_no_numbers_on_both_sides_pass(check):
    nothing = tensor(0, 4, low=None, high=None)
    done, tables = check(
        {
            "Mint.add.99.forward": forward(nothing, nothing, outputs=[nothing]),
            "Mint.root.0.forward": forward(tensor(8, low=-2.0, high=-1.0)),
            "Mint.exp.0.forward": forward(tensor(8, low=float("-inf"), high=float("inf"))),
            "Mint.exp.1.forward": forward(tensor(8, low=float("nan"), high=float("nan"))),
            **plain_calls(12),  # a run with many results that hold no number proves nothing, and is incomplete
        }
    )
    assert set(tables.states.values()) == {("pass", "")}, tables.messages
    assert tables.outputs["Mint.add.99.forward.output.0"][3:6] == ["", "", ""]
    assert done.code == 0


def test_a_tensor_that_fits_no_memory_is_not_made_and_others_go_on(check):
    done, tables = check({"Mint.exp.0.forward": forward(tensor(100_000, 250_000)), **plain_calls(1)})
    assert tables.states["Mint.exp.0"] == ("SKIP", "")
    assert "bytes" in tables.messages["Mint.exp.0"]
    assert tables.states["Mint.add.0"] == ("pass", "")
    assert done.code == 3


def test_no_framework_is_imported_by_the_command_itself(check):
    check(plain_calls(1))
    assert not any(str(STAND_INS) in str(getattr(module, "__file__", "")) for module in list(sys.modules.values()))


def test_the_record_of_the_run_names_the_tables_and_holds_no_second_copy(check, tmp_path: Path):
    _, tables = check(plain_calls(1))
    record = json.loads((tmp_path / "out" / "probe_flow" / "run.json").read_text())
    shown = json.dumps(record["artifacts"])
    assert tables.result.name in shown
    assert tables.details.name in shown
    assert not list((tmp_path / "out" / "probe_flow").rglob("*.csv"))


def test_the_standard_of_an_api_may_judge(check):
    x, large = tensor(4), tensor(4, low=1e30, high=1e31)
    entries = {
        "Mint.wrong.0.forward": forward(x),
        "Mint.exp.0.forward": forward(x),
        "Mint.exp.0.backward": backward([x], [x]),
        "Mint.mul.0.forward": forward(large, tensor(4, low=0.1, high=0.3)),
    }
    done, tables = check(entries, "--judge", "standard")
    assert done.code == 1
    assert tables.states == {
        "Mint.wrong.0": ("error", ""),
        "Mint.exp.0": ("pass", "pass"),
        "Mint.mul.0": ("pass", ""),
    }
    assert tables.messages["Mint.wrong.0"].startswith("benchmark standard: ")


def test_the_configuration_names_a_folder_for_the_data_of_failing_calls(check, tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps({"error_data_path": "errors"}))
    check({"Mint.wrong.0.forward": forward(tensor(4))}, "-save_error_data", "-config", "config.json")
    (folder,) = (tmp_path / "errors").glob("ut_error_data*")
    assert {path.name for path in folder.glob("*.output.*")} == {
        "Mint.wrong.0.forward.output.0.npy",
        "Mint.wrong.0.forward.output.0.bench.npy",
    }
    assert not (tmp_path / "out" / "error_data").exists()


@pytest.mark.parametrize("config", [{"error_data_path": 3}, {"white_list": "mul"}, []])
def test_a_configuration_that_cannot_be_used_is_refused(probe_flow, tmp_path: Path, config: Any):
    (tmp_path / "config.json").write_text(json.dumps(config))
    dump = write_dump(tmp_path / "dump", QUICK_START)
    done = probe_flow("acc_check", "-api_info", dump, "-config", "config.json")
    assert done.code == 2
    assert "error[PF6612]" in done.err


def test_the_report_shows_the_inputs_of_a_failing_call_beside_its_results(check, probe_flow, tmp_path: Path):
    x = tensor(3, 5)
    entries = {"Mint.wrong.0.forward": forward(x, outputs=[x]), "Mint.add.0.forward": forward(x, x, outputs=[x])}
    check(entries, "-save_error_data")
    lines = [json.loads(line) for line in (tmp_path / "out/probe_flow/comparison.jsonl").read_text().splitlines()]
    rows = {(row["node"], row["direction"]): row["verdict"] for row in lines}
    assert rows == {
        ("Mint.wrong", "input"): "pass",
        ("Mint.wrong", "output"): "fail",
        ("Mint.add", "output"): "pass",
    }
    shown = probe_flow("show", "out/probe_flow", "--node", "Mint.wrong.0.forward").out
    assert "input 0" in shown
    assert "both sides got it" in shown
    details = (tmp_path / "out/probe_flow/details.jsonl").read_text()
    assert json.loads(details.splitlines()[0])["target"], "elements of the wrong result"
