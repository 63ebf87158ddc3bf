"""Reproduction of MindSpore dumps: a small network in PyNative mode, its calls recorded by hooks of a few lines."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probe_flow as pf
from probe_flow.cli.main import main
from probe_flow.scripts.repro import Suspect
from probe_flow.scripts.trials.suspects import Trial, reproduce, same_call

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("mindspore", "torch")),
        reason="mindspore and torch are not both installed",
    ),
]

ERRORS = {"float32": 0.01, "float16": 0.05, "bfloat16": 0.25}

CALLS = ("Mint.matmul", "Mint.add", "Mint.tanh", "Mint.mul", "MintFunctional.softmax", "Mint.sum")
"""What the network calls, one after the other; each has a kernel on the processor."""


class Recorder:
    """Writes a dump.json of level L1 with tensors as `.npy` files, which has bfloat16 as float32."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, {}
        (folder / "dump_tensor_data").mkdir(parents=True)

    def leaf(self, value: Any, name: str) -> Any:
        import mindspore

        if value is None:
            return None
        if not isinstance(value, mindspore.Tensor):
            return {"type": type(value).__name__, "value": value}
        dtype = {"Float16": "Float16", "Float32": "Float32", "BFloat16": "BFloat16"}[str(value.dtype)]
        array = value.astype(mindspore.float32).asnumpy() if dtype == "BFloat16" else value.asnumpy()
        np.save(self.folder / "dump_tensor_data" / f"{name}.npy", array)
        wide = array.astype(np.float64)
        figures = {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": np.linalg.norm(wide)}
        return {
            "type": "mindspore.Tensor",
            "dtype": dtype,
            "shape": list(array.shape),
            **{key: float(each) for key, each in figures.items()},
            "data_name": f"{name}.npy",
        }

    def leaves(self, values: Any, name: str) -> list[Any]:
        return [self.leaf(each, f"{name}.{number}") for number, each in enumerate(values)]

    def write(self) -> None:
        head = {"task": "tensor", "level": "L1", "framework": "mindspore", "dump_data_dir": "dump_tensor_data"}
        (self.folder / "dump.json").write_text(json.dumps({**head, "data": self.data}))


def step(folder: Path, dtype: str, wrong: str, error: float) -> Path:
    """Run the network forward and backward and dump it; one call is wrong by a factor."""
    import mindspore
    from mindspore import mint, nn

    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    mindspore.runtime.launch_blocking()
    recorder = Recorder(folder)

    class Called(nn.Cell):
        """One call, so that hooks of cells see its gradients."""

        def __init__(self, name: str, function: Callable[..., Any], **kwargs: Any) -> None:
            super().__init__()
            self.entry, self.function, self.kwargs = f"{name}.0", function, kwargs
            self.register_backward_hook(self.went_back)

        def construct(self, *args: Any) -> Any:
            result = self.function(*args, **self.kwargs)
            if wrong == f"{self.entry}.forward":
                result = result + mindspore.ops.stop_gradient(result * error)  # its gradient stays right
            start = f"{self.entry}.forward"
            recorder.data[start] = {
                "input_args": recorder.leaves(args, f"{start}.input"),
                "input_kwargs": {key: recorder.leaf(each, f"{start}.input.{key}") for key, each in self.kwargs.items()},
                "output": recorder.leaves((result,), f"{start}.output"),
            }
            return result

        def went_back(self, _cell: Any, given: Any, incoming: Any) -> Any:
            start = f"{self.entry}.backward"
            if wrong == start:
                given = tuple(each if each is None else each * (1 + error) for each in given)
            recorder.data[start] = {
                "input": recorder.leaves(incoming, f"{start}.input"),
                "output": recorder.leaves(given, f"{start}.output"),
            }
            return given

    draw = np.random.default_rng(5)
    kind = getattr(mindspore, dtype)
    x, w, b, s = (
        mindspore.Tensor(draw.standard_normal(shape).astype(np.float32)).astype(kind)
        for shape in ((6, 8), (8, 10), (10,), (6, 10))
    )
    matmul, add, tanh = Called(CALLS[0], mint.matmul), Called(CALLS[1], mint.add), Called(CALLS[2], mint.tanh)
    mul = Called(CALLS[3], mint.mul)
    softmax = Called(CALLS[4], mint.nn.functional.softmax, dim=-1)
    total = Called(CALLS[5], mint.sum)

    def network(x: Any, w: Any, b: Any, s: Any) -> Any:
        if dtype == "bfloat16":  # for which the processor has few kernels
            return mul(add(s, s), s)
        return total(mul(softmax(tanh(add(matmul(x, w), b))), s))

    mindspore.grad(network, grad_position=(0, 1, 2, 3))(x, w, b, s)
    recorder.write()
    return folder


def computed_again(folder: Path, dtype: str, wrong: str) -> dict[str, dict]:
    target = pf.read_dump(step(folder / "target", dtype, wrong, ERRORS[dtype]))
    golden = pf.read_dump(step(folder / "golden", dtype, "", 0.0), side="golden")
    calls = list(target.nodes.values())
    found, problems = reproduce(
        [Suspect(target, node, golden, same_call(golden, node)) for node in calls], folder / "scripts", Trial()
    )
    assert not problems
    return {each.suspect.name: dict(each.said) for each in found}


@pytest.mark.parametrize(
    ("dtype", "wrong"),
    [
        ("float32", "Mint.matmul.0.forward"),
        ("bfloat16", "Mint.add.0.forward"),
        ("float16", "Mint.tanh.0.backward"),
    ],
)
def test_a_wrong_kernel_is_reproduced_and_no_other_is(tmp_path, dtype, wrong):
    found = computed_again(tmp_path, dtype, wrong)
    assert {entry for entry, said in found.items() if said["status"] == "reproduced"} == {wrong}, found
    assert ERRORS[dtype] / 2 < found[wrong]["relative_error"] < ERRORS[dtype] * 2
    forward = {entry: said for entry, said in found.items() if entry.endswith("forward") and entry != wrong}
    assert {said["status"] for said in forward.values()} == {"not_reproduced"}, forward
    assert found[wrong]["versions"].keys() == {"mindspore", "torch", "numpy"}


@pytest.mark.parametrize("dtype", ERRORS)
def test_every_call_of_the_network_is_reproduced_where_it_is_wrong(tmp_path, dtype):
    golden = pf.read_dump(step(tmp_path / "golden", dtype, "", 0.0), side="golden")
    entries = [str(node.entry) for node in golden.nodes.values()]
    assert {entry.rpartition(".")[2] for entry in entries} == {"forward", "backward"}
    suspects = []
    for entry in entries:
        target = pf.read_dump(step(tmp_path / entry, dtype, entry, ERRORS[dtype]))
        node = next(node for node in target.nodes.values() if node.entry == entry)
        suspects.append(Suspect(target, node, golden, same_call(golden, node)))
    found, problems = reproduce(suspects, tmp_path / "scripts", Trial())
    assert not problems
    assert {each.suspect.name: each.said["status"] for each in found} == dict.fromkeys(entries, "reproduced")
    for each in found:
        assert ERRORS[dtype] / 2 < each.said["relative_error"] < ERRORS[dtype] * 2, each.suspect.name


@pytest.mark.parametrize("dtype", ERRORS)
def test_a_healthy_run_offers_nothing(tmp_path, monkeypatch, capsys, dtype):
    monkeypatch.chdir(tmp_path)
    for side in ("target", "golden"):
        step(tmp_path / side, dtype, "", 0.0)
    assert main(["compare", "-tp", "target", "-gp", "golden", "-o", "run"]) == 0
    capsys.readouterr()
    assert main(["repro", "run", "-o", "scripts"]) == 0
    assert capsys.readouterr().out == "no suspects\n"
    assert not (tmp_path / "scripts").exists()
