"""The cases of TensorFlow training steps: a debugger's run, and the text of a large graph."""

from __future__ import annotations

import shutil
import struct
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.figures import Row, Settings, probe_flow, ratio_rows, usage_rows
from benchmarks.timing import Spread, Usage, interleave, run_command

LAYERS, LAYER_BYTES = 30, 3_600_000
ELEMENTS = 176_000
"""Of each of the 150 tensors of 30 layers: 106 MB of float32."""

OURS, ANALYZER, DRIVEN = "probe-flow", "TensorFlow's analyzer", "the analyzer as precision_tool drives it"
ANALYZER_MODULE = "tensorflow.python.debug.cli.offline_analyzer"
TENSORFLOW_RUN = Path(__file__).with_name("tensorflow_run.py")
PROMPT = Path(__file__).with_name("analyzer_prompt.py")

OPERATORS, OPERATOR_BYTES = 50_000, 8000
DEVICE = "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"
FIRST_US = 1_700_000_000_000_000

_READ_RUN = "import sys; from probe_flow.dumps.tfdbg.reader import read_tfdbg; read_tfdbg(sys.argv[1], side='golden')"
_READ_TEXT = "import sys; from probe_flow.dumps.rules.rule_file import read_rule_file; read_rule_file(sys.argv[1])"


def tfdbg(settings: Settings) -> list[Row]:
    """Read a run of TensorFlow's debugger as a catalog, and extract it as arrays, as its own analyzer does: processes.

    Without TensorFlow the run is one of the same size that is written here, and there is no analyzer to run beside us.
    """
    layers = 2 if settings.is_quick else LAYERS
    runs = settings.folder("tfdbg", LAYER_BYTES * layers)
    arrays = settings.folder("tfdbg_arrays", LAYER_BYTES * layers)
    tools = {OURS: partial(_extract, runs, arrays)}
    if find_spec("tensorflow"):
        run_command([sys.executable, str(TENSORFLOW_RUN), str(runs), str(layers)], cwd=runs)
        tools |= _analyzers(settings, runs)
    else:
        _write_run(runs, 5 * layers)
    files = [path for path in runs.rglob("*_DebugIdentity_*") if path.is_file()]
    size = f"{len(files)} tensors, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB"
    rows: list[Row] = []
    try:
        reading = [run_command([sys.executable, "-c", _READ_RUN, str(runs)], cwd=runs) for _ in range(settings.runs)]
        rows.append(
            Row("tfdbg", f"catalog, {size}, wall", "s", Spread.of([_reading_s(runs) for _ in reading]), "<= 0.2")
        )
        rows += usage_rows("tfdbg", f"catalog, {size}, a process", reading)
        found = interleave(tools, settings.runs)
        for name, usages in found.items():
            rows += usage_rows("tfdbg", f"{name}, extraction, {size}", usages)
        goals = {ANALYZER: ("", "", ""), DRIVEN: (">= 20", "", "")}
        for name in [each for each in goals if each in found]:
            rows += ratio_rows("tfdbg", f"{name} to {OURS}", found[OURS], found[name], goals=goals[name])
    finally:
        for folder in (runs, arrays):
            shutil.rmtree(folder, ignore_errors=True)
    return rows


def _extract(runs: Path, arrays: Path) -> Usage:
    usage = run_command([*probe_flow(), "tf_dump", str(runs), "-o", str(arrays)], cwd=runs)
    for path in arrays.iterdir():  # removing them is no part of it, for the analyzer neither
        path.unlink()
    return usage


def _reading_s(runs: Path) -> float:
    """Return what the reading takes by itself, in a process that has loaded what it needs."""
    from probe_flow.dumps.tfdbg.reader import read_tfdbg

    started = time.perf_counter()
    read_tfdbg(runs, side="golden")
    return time.perf_counter() - started


def _analyzers(settings: Settings, runs: Path) -> dict[str, Callable[[], Usage]]:
    """Return what extracts a run by a prompt of TensorFlow's analyzer: one list, then a command for each tensor.

    The one gets all commands at once, which is less than anybody gets by hand or by precision_tool; the other each when
    the prompt is there, with the waits of precision_tool and of pexpect, which it uses.
    """
    (run,) = runs.glob("run_*")
    output = settings.folder("tfdbg_analyzer")
    names = sorted(
        f"{path.relative_to(run).as_posix().partition('/')[2].rpartition('_0_DebugIdentity_')[0]}:0"
        for path in run.rglob("*_DebugIdentity_*")
    )
    prompt = output / "prompt.txt"
    lines = [
        f"lt > {output}/names.txt",
        *(f"pt {name} -n 0 -w {output}/{n}.npy" for n, name in enumerate(names)),
        "exit",
    ]
    prompt.write_text("\n".join(lines) + "\n", encoding="utf-8")
    replayed = f"'{sys.executable}' -m {ANALYZER_MODULE} --ui_type readline --dump_dir '{run}' < '{prompt}'"
    driven = f"'{sys.executable}' '{PROMPT}' '{prompt}' '{run}'"
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

    def extract(words: str) -> Usage:
        usage = run_command(["sh", "-c", words], cwd=output, variables=variables)
        written = len(list(output.glob("*.npy")))
        if written != len(names):
            raise RuntimeError(f"the analyzer wrote {written} of {len(names)} arrays")
        for path in output.glob("*.npy"):
            path.unlink()
        return usage

    return {ANALYZER: partial(extract, replayed), DRIVEN: partial(extract, driven)}


def graph_text(settings: Settings) -> list[Row]:
    """Read the rules of a graph's text, as the compiler prints it."""
    operators = 500 if settings.is_quick else OPERATORS
    path = _write_text(settings.folder("graph_text", operators * OPERATOR_BYTES), operators)
    try:
        found = [
            run_command([sys.executable, "-c", _READ_TEXT, str(path)], cwd=path.parent) for _ in range(settings.runs)
        ]
    finally:
        shutil.rmtree(settings.scratch / "graph_text", ignore_errors=True)
    size = f"{operators} operators, {operators * OPERATOR_BYTES / 1e6:.0f} MB"
    return usage_rows("graph_text", size, found, wall_goal="<= 30", memory_goal="<= 2400")


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes((value & 0x7F | 0x80,)), value >> 7
    return out + bytes((value,))


def _block(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _write_run(root: Path, tensors: int) -> Path:
    folder = root / f"run_{FIRST_US}_0" / DEVICE
    values = np.random.default_rng(1).standard_normal(ELEMENTS).astype("f4").tobytes()
    shape = _block(2, _block(2, _varint(1 << 3) + _varint(ELEMENTS)))
    tensor = _varint(1 << 3) + _varint(1) + shape + _block(4, values)
    for number in range(tensors):
        name = f"layer{number}/MatMul"
        value = _block(1, name.encode()) + _block(7, f"{name}:0:DebugIdentity".encode()) + _block(8, tensor)
        event = _varint(1 << 3 | 1) + struct.pack("<d", 1.7e15) + _block(5, _block(1, value))
        path = folder / f"{name}_0_DebugIdentity_{FIRST_US + number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(event)
    return root


def _attr(key: str, value: str) -> str:
    return f'    attr {{\n      key: "{key}"\n      value {{\n        {value}\n      }}\n    }}\n'


def _write_text(folder: Path, operators: int) -> Path:
    """Write operators of equal size: a tenth of it is what rules need."""
    path = folder / "ge_proto_00000001_Build.txt"
    with path.open("w", encoding="ascii") as file:
        file.write('graph {\n  name: "ge_default_1_1"\n')
        for number in range(operators):
            name = f"scope/layer{number}/MatMul"
            text = f'  op {{\n    name: "{name}"\n    type: "MatMulV2"\n    input: "scope/layer{number - 1}/MatMul:0"\n'
            text += f"    id: {number + 1}\n"
            text += _attr("_datadump_original_op_names", f'list {{\n          s: "{name}"\n        }}')
            text += '    output_desc {\n      dtype: DT_FLOAT16\n      layout: "ND"\n      shape {\n        dim: 8\n'
            text += "      }\n" + _attr("_datadump_origin_name", f's: "{name}"') + "    }\n"
            filler = "".join(_attr(f"_unused_{each}", f"i: {each}") for each in range(60))
            text += filler + _attr(
                "_kernel_bin_id", f's: "{"0" * max(0, OPERATOR_BYTES - len(text) - len(filler) - 120)}"'
            )
            file.write(text + "  }\n")
        file.write("}\n")
    return path
