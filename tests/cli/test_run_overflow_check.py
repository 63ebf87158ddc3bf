"""`run_overflow_check` with stand-ins for the frameworks: which overflows of a dump are normal."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from precheck_dumps import backward, forward, one, plain_calls, tables_in, tensor, write_dump

pytestmark = pytest.mark.usefixtures("stand_ins")

OVERFLOWED = tensor(4, low=1.0, high=math.inf)
NORMAL = "normal: it overflows on the benchmark too;"
TINY_EXPONENTS, LARGE_EXPONENTS = tensor(4, low=0.0, high=1.0), tensor(4, low=80.0, high=200.0)
"""exp(88.7) is the largest number of float32."""


def run(check, entries, *options, **fields):
    return check(entries, *options, command="run_overflow_check", **fields)


def test_an_overflow_is_normal_where_the_benchmark_has_it_and_abnormal_where_it_has_not(check):
    done, tables = run(
        check,
        {
            "Mint.exp.0.forward": forward(LARGE_EXPONENTS, outputs=[OVERFLOWED]),
            # The square of 1e30 is beyond float32; 1e30 itself is not.
            "Mint.detour.0.forward": forward(tensor(4, low=1e30, high=1e30), outputs=[OVERFLOWED]),
            "Mint.exp.1.forward": forward(TINY_EXPONENTS),
        },
    )
    assert done.code == 1, done.err
    assert tables.states == {
        "Mint.exp.0": ("pass", ""),
        "Mint.detour.0": ("error", ""),
        "Mint.exp.1": ("SKIP", ""),
    }
    assert tables.messages == {
        "Mint.exp.0": NORMAL,
        "Mint.detour.0": "abnormal: it overflows, and the benchmark does not;",
        "Mint.exp.1": "its recorded results are finite",
    }
    assert list(tables.outputs) == ["Mint.exp.0.forward.output.0", "Mint.detour.0.forward.output.0"]


def test_normal_overflows_alone_end_with_0(check):
    done, tables = run(check, {"Mint.exp.0.forward": forward(LARGE_EXPONENTS, outputs=[OVERFLOWED]), **plain_calls(3)})
    assert done.code == 0, done.out + done.err
    assert tables.states["Mint.exp.0"] == ("pass", "")
    assert {tables.states[f"Mint.add.{number}"] for number in range(3)} == {("SKIP", "")}


def test_a_dump_without_overflows_ends_with_0_and_says_so(probe_flow, tmp_path: Path):
    dump = write_dump(tmp_path / "dump", plain_calls(2))
    done = probe_flow("run_overflow_check", "-api_info", dump, "-o", "out")
    assert done.code == 0, done.err
    assert "no result in the dump overflowed" in done.out
    assert not (tmp_path / "out").exists()


def test_an_overflow_that_does_not_come_again_is_a_gap(check):
    done, tables = run(check, {"Mint.exp.0.forward": forward(TINY_EXPONENTS, outputs=[OVERFLOWED])})
    assert done.code == 3
    assert tables.states == {"Mint.exp.0": ("SKIP", "")}
    assert "does not come again" in tables.messages["Mint.exp.0"]


def test_infinite_inputs_are_made_infinite_again(check):
    done, tables = run(
        check, {"Mint.add.0.forward": forward(tensor(4, high=math.inf), tensor(4), outputs=[OVERFLOWED])}
    )
    assert done.code == 0, done.out
    assert tables.messages == {"Mint.add.0": NORMAL}


def test_gradients_overflow_too(check):
    x = tensor(4, low=85.0, high=85.0)
    done, tables = run(
        check,
        {
            "Mint.exp.0.forward": forward(x, outputs=[tensor(4, low=8e36, high=8e36)]),
            "Mint.exp.0.backward": backward([tensor(4, low=100.0, high=100.0)], [OVERFLOWED]),
        },
    )
    assert done.code == 0, done.out
    assert tables.states == {"Mint.exp.0": ("pass", "pass")}
    assert tables.messages == {"Mint.exp.0": NORMAL}


def test_numbers_that_are_results_overflow_too(check):
    done, tables = run(
        check,
        {"Mint.item.0.forward": forward(tensor(1, low=math.inf, high=math.inf), outputs=[one(math.inf)])},
    )
    assert done.code == 0, done.out
    assert tables.messages == {"Mint.item.0": NORMAL}


def test_long_options_and_the_device(probe_flow, tmp_path: Path):
    dump = write_dump(tmp_path / "dump", {"Mint.exp.0.forward": forward(LARGE_EXPONENTS, outputs=[OVERFLOWED])})
    done = probe_flow("run_overflow_check", "--api_info_file", dump, "--out_path", "out", "--device", 3, "-j")
    assert done.code == 0, done.err
    assert tables_in(tmp_path / "out").messages == {"Mint.exp.0": NORMAL}
    assert probe_flow("run_overflow_check", "-api_info", dump, "-d", "x").code == 2
    assert probe_flow("run_overflow_check", "-api_info", tmp_path / "none.json").code == 2
    assert probe_flow("run_overflow_check").code == 2


def test_it_goes_on_in_the_tables_of_an_interrupted_check_but_not_in_those_of_another_kind(check, probe_flow, tmp_path):
    entries = {"Mint.exp.0.forward": forward(LARGE_EXPONENTS, outputs=[OVERFLOWED])}
    _, tables = run(check, entries)
    dump = tmp_path / "dump" / "dump.json"
    assert probe_flow("run_overflow_check", "-api_info", dump, "-csv_path", tables.result).code == 0
    refused = probe_flow("acc_check", "-api_info", dump, "-csv_path", tables.result)
    assert refused.code == 2
    assert "PF6607" in refused.err
