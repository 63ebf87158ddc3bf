"""TorchAir dumps named one level too high or too low, on the wrong side, or one inside the other."""

from __future__ import annotations

import numpy as np
import pytest
from torchair_builders import GeDump, fx_token, mul_add_relu, write_mul_add_relu

GE, FX = "dumps/msprobe_ge_dump", "dumps/msprobe_fx_dump"
RANK = "worldsize1_global_rank0"
MODES = pytest.mark.parametrize("mode", [("-m", "torchair"), ()], ids=["named", "found"])


def device_dump(root) -> GeDump:
    dump = GeDump(root / "msprobe_ge_dump")
    dump.graph(mul_add_relu())
    write_mul_add_relu(dump.token(0), None)
    return dump


@pytest.fixture
def dumps(tmp_path):
    """Return the folder of a GE dump and of an FX dump that has another result of `relu`."""
    root = tmp_path / "dumps"
    device_dump(root)
    write_mul_add_relu(None, fx_token(root, 0))
    (wrong,) = fx_token(root, 0).glob("relu*.OUTPUT.*")
    np.save(wrong, np.load(wrong) + 7)
    return root


@MODES
@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (GE, "dumps"), ("dumps", "dumps"), ("dumps", FX), (GE, FX), (GE, f"{FX}/{RANK}"), (GE, f"{FX}/{RANK}/graph_1"),
        (GE, f"{FX}/{RANK}/graph_1/0"),
    ],
)  # fmt: skip
def test_a_level_too_high_or_too_low_finds_the_fault_all_the_same(probe_flow, dumps, mode, target, golden):
    done = probe_flow("compare", *mode, "-tp", target, "-gp", golden, "-o", "out")
    assert done.code == 1
    assert "first goes wrong at Relu (Relu)" in done.out
    assert "the golden is what is off here" in " ".join(probe_flow("show", "-v", "out").out.split())
    assert "PF2110" not in done.err
    assert "PF4003" not in done.err


@MODES
def test_a_part_of_the_target_without_graph_text_is_told_where_the_text_lies(probe_flow, dumps, mode):
    done = probe_flow("compare", *mode, "-tp", f"{GE}/{RANK}", "-gp", FX, "-o", "out")
    assert done.code == 3
    assert f"give the folder that holds it, `{dumps / 'msprobe_ge_dump'}`" in done.err


@MODES
@pytest.mark.parametrize("below", ["", f"/{RANK}", f"/{RANK}/20260101000000/0/graph_1_0/1/0"])
def test_a_golden_device_dump_is_known_by_its_files_too(probe_flow, dumps, tmp_path, mode, below):
    device_dump(tmp_path / "off")
    done = probe_flow("compare", *mode, "-tp", GE, "-gp", f"off/msprobe_ge_dump{below}", "-o", "out")
    assert done.code == 0
    assert "8 pass" in probe_flow("show", "-v", "out").out
    assert ("PF4012" in done.err) == bool(below)


@MODES
@pytest.mark.parametrize("golden", [GE, f"{GE}/{RANK}"])
def test_swapped_sides_are_told_the_right_way_round(probe_flow, dumps, mode, golden):
    done = probe_flow("compare", *mode, "-tp", FX, "-gp", golden, "-o", "out")
    assert done.code == 2
    assert "the sides are the wrong way round" in done.err
    folder = dumps.parent
    assert f"`-tp {folder / golden} -gp {folder / FX}`" in done.err


@MODES
def test_an_fx_dump_under_test_is_refused(probe_flow, dumps, mode):
    done = probe_flow("compare", *mode, "-tp", FX, "-gp", FX, "-o", "out")
    assert done.code == 2
    assert "is an FX dump, and so is the golden side" in done.err


@MODES
@pytest.mark.parametrize(
    ("target", "golden", "told"),
    [
        (GE, ".", "the target lies in the golden side"),
        (".", GE, "the golden side lies in the target"),
        (GE, f"{GE}/{RANK}", "the golden side lies in the target"),
    ],
)
def test_a_device_dump_inside_the_other_is_refused(probe_flow, dumps, tmp_path, mode, target, golden, told):
    device_dump(tmp_path / "off")
    done = probe_flow("compare", *mode, "-tp", target, "-gp", golden, "-o", "out")
    assert done.code == 2
    assert told in done.err


def test_a_graph_that_was_compiled_and_never_dumped_is_told_so(probe_flow, dumps, tmp_path):
    GeDump(tmp_path / "new").graph(mul_add_relu())
    done = probe_flow("compare", "-tp", "new", "-gp", FX, "-o", "out")
    assert done.code == 3
    assert "graphs were compiled, but nothing was dumped" in done.err
