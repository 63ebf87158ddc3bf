"""Scripts that run one API again, and lines of model code: `op_generate`, scripts of many suspects, `code_mapping`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Row, Settings, cpu, memory, probe_flow, usage_row
from benchmarks.prechecks import CALLS, write_net
from benchmarks.timing import Spread, Usage, interleave, run_command

FEW, MANY = 10, 110
"""Suspects: what each costs is the difference by their number, for the framework is imported once."""

COPIES = 100
OPERATORS, FILES = 5_000, 20_000
LINES_AN_OPERATOR = 10


def op_generate(settings: Settings) -> list[Row]:
    """Take one API out of a dump of a thousand and write its script; no framework is imported."""
    case = "op_generate"
    folder = settings.folder(case)
    dump = write_net(folder, COPIES // 50 if settings.is_quick else COPIES)
    config = {
        "dump_json_path": str(dump),
        "api_name": "Functional.softmax.0",
        "extract_api_path": str(folder / "softmax.json"),
        "iter_times": 1,
    }
    file = folder / "config_op.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    command = [*probe_flow(), "op_generate", "-i", str(file), "-o", str(folder)]
    (found,) = interleave({case: lambda: run_command(command, cwd=folder)}, settings.runs).values()
    what = f"{(COPIES // 50 if settings.is_quick else COPIES) * len(CALLS)} APIs"
    return [
        usage_row(case, f"{what}, CPU", "s", found, cpu, goal="<= 0.9"),
        usage_row(case, f"{what}, peak memory", "MiB", found, memory, goal="<= 80"),
    ]


def repro(settings: Settings) -> list[Row]:
    """Compare two dumps of tensors, and compute few and many of their calls again by scripts below one process."""
    case = "repro"
    if find_spec("torch") is None:
        return [Row(case, "torch is not installed", "", None)]
    few, many = (2, 6) if settings.is_quick else (FEW, MANY)
    folder = settings.folder(case)
    for side in ("target", "golden"):
        _write_tensors(folder / side, many)

    def run(count: int) -> Usage:
        workflow = folder / f"{count}.yaml"
        workflow.write_text(WORKFLOW.format(count=count), encoding="utf-8")
        shutil.rmtree(folder / "run", ignore_errors=True)
        return run_command(
            [*probe_flow(), "run", str(workflow), "--output", str(folder / "run"), "--no-cache"], cwd=folder
        )

    found = interleave({str(count): lambda count=count: run(count) for count in (few, many)}, settings.runs)  # type: ignore[misc]
    pairs = zip(found[str(few)], found[str(many)], strict=True)
    each_s = Spread.of([(more.cpu_s - less.cpu_s) / (many - few) for less, more in pairs])
    shutil.rmtree(folder, ignore_errors=True)
    return [
        Row(case, "a script beyond the import of its framework, CPU", "s", each_s, "<= 0.3"),
        usage_row(case, f"{many} suspects, CPU", "s", found[str(many)], cpu),
    ]


WORKFLOW = """
version: 1
name: repro-many
stages:
  target: {{uses: dump.torch, path: target}}
  golden: {{uses: dump.torch, path: golden}}
  pairs:  {{uses: match.name, target: target, golden: golden}}
  result: {{uses: compare, pairs: pairs, policy: dump_json}}
  repro:  {{uses: repro, comparison: result, only: {{comparison: result, where: {{verdict: pass}}, limit: {count}}}}}
"""


def _write_tensors(folder: Path, calls: int) -> None:
    """Write a dump of so many sums of two small tensors."""
    tensors = folder / "dump_tensor_data"
    tensors.mkdir(parents=True)
    values = np.linspace(-1, 1, 64, dtype=np.float32)

    def element(array: Any, name: str) -> dict[str, Any]:
        np.save(tensors / f"{name}.npy", array)
        facts = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [64], "data_name": f"{name}.npy"}
        return {**facts, "Max": float(array.max()), "Min": float(array.min()), "Mean": float(array.mean()), "Norm": 1.0}

    data = {}
    for call in range(calls):
        start, one = f"Torch.add.{call}.forward", values + np.float32(call)
        inputs = [element(one, f"{start}.input.0"), element(values, f"{start}.input.1")]
        data[start] = {"input_args": inputs, "input_kwargs": {}, "output": [element(one + values, f"{start}.output.0")]}
    top = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": "dump_tensor_data", "data": data}
    (folder / "dump.json").write_text(json.dumps(top), encoding="utf-8")


def code_mapping(settings: Settings) -> list[Row]:
    """Bind the files of a kernel dump to the lines of an IR text of 50,000 lines; beside msprobe 1.2.1 on fewer."""
    case = "code_mapping"
    operators, files = (50, 200) if settings.is_quick else (OPERATORS, FILES)
    folder = settings.folder(case)
    graph = _kernel_dump(folder, operators, files)
    command = _code_mapping(probe_flow(), folder, graph)
    (found,) = interleave({case: lambda: run_command(command, cwd=folder)}, settings.runs).values()
    lines = len(graph.read_text(encoding="utf-8").splitlines())
    what = f"{lines} lines, {files} files"
    rows = [
        usage_row(case, f"{what}, CPU", "s", found, cpu, goal="<= 10"),
        usage_row(case, f"{what}, peak memory", "MiB", found, memory, goal="<= 500"),
    ]
    if settings.peer:
        rows += _beside_peer(settings, case)
    shutil.rmtree(folder, ignore_errors=True)
    return rows


PEER_OPERATORS, PEER_FILES = 200, 800
"""What both are given: msprobe 1.2.1 takes a time that grows with their product (1,000 and 4,000: above 170 s)."""


def _beside_peer(settings: Settings, case: str) -> list[Row]:
    """Measure both on the same small dump; msprobe has the command up to 1.2.1, which needs MindSpore."""
    asked = [*settings.peer, "-f", "mindspore", "code_mapping", "--help"]
    try:
        run_command(asked, cwd=settings.scratch)
    except RuntimeError:
        return [Row(case, "peer: has no code_mapping (msprobe 1.2.1 has it)", "", None)]
    operators, files = (20, 40) if settings.is_quick else (PEER_OPERATORS, PEER_FILES)
    folder = settings.folder(f"{case}_peer")
    graph = _kernel_dump(folder, operators, files)
    subjects = {
        name: lambda start=start: run_command(_code_mapping(start, folder, graph), cwd=folder)  # type: ignore[misc]
        for name, start in (("probe-flow", probe_flow()), ("peer", [*settings.peer]))
    }
    rows = []
    for name, usages in interleave(subjects, settings.runs).items():
        what = f"{name}, {operators * LINES_AN_OPERATOR} lines, {files} files"
        rows.append(usage_row(case, f"{what}, CPU", "s", usages, cpu))
        rows.append(usage_row(case, f"{what}, peak memory", "MiB", usages, memory))
    shutil.rmtree(folder, ignore_errors=True)
    return rows


def _code_mapping(start: Sequence[str], folder: Path, graph: Path) -> list[str]:
    words = ["-f", "mindspore", "code_mapping", "--ir", str(graph), "--dump_data", str(folder / "rank_0")]
    return [*start, *words, "--output", str(folder / "out")]


def _kernel_dump(folder: Path, operators: int, files: int) -> Path:
    """Write the text of a graph and empty files of its kernels; return the text."""
    graph = folder / "graph_build_0.ir"
    graph.write_text("\n".join(_ir(operators)) + "\n", encoding="utf-8")
    dump = folder / "rank_0" / "net" / "0" / "0"
    dump.mkdir(parents=True)
    (folder / "out").mkdir()
    for number in range(files):
        operator, again = number % operators, number // operators
        name = f"Add.Default_network-Net_block{operator}-Block_Add-op{operator}"
        (dump / f"{name}.0.0.{1_700_000_000_000_000 + again}.output.0.DefaultFormat.Float32.npy").touch()
    return graph


def _ir(operators: int) -> Iterator[str]:
    """Yield the lines of a graph: a chain of sums, each of a line of code of its own."""
    yield from ("# IR entry: @net", "# Total subgraphs: 1", "", "# Total params: 1", "# Params:")
    yield "%para1_x: <Tensor[Float32], (4, 8)> : [ ]"
    yield from ("", "subgraph attr:", "subgraph instance: net : 0x1")
    yield "subgraph @net(%para1_x) {"
    for number in range(operators):
        given = f"%{number - 1}" if number else "%para1_x"
        scope = f"Default/network-Net/block{number}-Block/Add-op{number}"
        attrs = f'cnode_primal_attrs: {{unique_id: "{number}"}}'
        yield f"  %{number}(CNode_{number}) = PrimFunc_Add({given}, %para1_x) {attrs}"
        yield "      : (<Tensor[Float32], (4, 8)>, <Tensor[Float32], (4, 8)>) -> (<Tensor[Float32], (4, 8)>)"
        yield "      : (<Float32xDefaultFormat[const vector][4, 8]>) -> (<Float32xDefaultFormat[const vector][4, 8]>)"
        yield f"      # Fullname with scope: ({scope})"
        yield from (
            f"      # In file net/model{part}.py:{number + 1}~{number + 1}, 8~30/        return self.add(x, y)/"
            for part in range(LINES_AN_OPERATOR - 4)
        )
    yield from (f"  Return(%{operators - 1})", "}")


SCRIPT_CASES: Mapping[str, Any] = {"op_generate": op_generate, "repro": repro, "code_mapping": code_mapping}
