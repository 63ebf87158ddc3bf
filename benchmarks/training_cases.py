"""The cases of TensorFlow training steps: a debugger's run, and the text of a large graph."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path

import numpy as np

from benchmarks.figures import Row, Settings, probe_flow, usage_rows
from benchmarks.timing import run_command

TENSORS, ELEMENTS = 150, 176_000
"""106 MB of float32."""

OPERATORS, OPERATOR_BYTES = 50_000, 8000
DEVICE = "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"
FIRST_US = 1_700_000_000_000_000

_READ_RUN = "import sys; from probe_flow.dumps.tfdbg.reader import read_tfdbg; read_tfdbg(sys.argv[1], side='golden')"
_READ_TEXT = "import sys; from probe_flow.dumps.rules.rule_file import read_rule_file; read_rule_file(sys.argv[1])"


def tfdbg(settings: Settings) -> list[Row]:
    """Read a run of TensorFlow's debugger as a catalog, and extract it as arrays: whole processes."""
    tensors = 10 if settings.is_quick else TENSORS
    runs = _write_run(settings.folder("tfdbg", 4 * tensors * ELEMENTS), tensors)
    size = f"{tensors} tensors, {4 * tensors * ELEMENTS / 1e6:.0f} MB"
    rows: list[Row] = []
    try:
        reading = [run_command([sys.executable, "-c", _READ_RUN, str(runs)], cwd=runs) for _ in range(settings.runs)]
        rows += usage_rows("tfdbg", f"catalog, {size}", reading)
        extracting = []
        for _ in range(settings.runs):
            output = settings.folder("tfdbg_arrays")
            extracting.append(run_command([*probe_flow(), "tf_dump", str(runs), "-o", str(output)], cwd=runs))
        rows += usage_rows("tfdbg", f"tf_dump, {size}", extracting)
    finally:
        shutil.rmtree(settings.scratch / "tfdbg", ignore_errors=True)
        shutil.rmtree(settings.scratch / "tfdbg_arrays", ignore_errors=True)
    return rows


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
