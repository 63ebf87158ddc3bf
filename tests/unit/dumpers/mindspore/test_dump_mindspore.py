"""`dump_mindspore` in a script: our dump against the one that msprobe 26.2.0 wrote of the same network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

mindspore = pytest.importorskip("mindspore", reason="needs MindSpore")

from mindspore import Tensor, mint, nn, ops  # noqa: E402

from probe_flow.dumpers import dump_mindspore  # noqa: E402
from probe_flow.dumps.dump_json.reader import read_dump_json  # noqa: E402
from probe_flow.errors import UsageError  # noqa: E402

pytestmark = pytest.mark.frameworks

THEIRS = Path(__file__).parents[3] / "data/dump_json/ms_tensor_base/step0/proc1000"


@pytest.fixture(autouse=True)
def _pynative() -> None:
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    if mindspore.get_context("device_target") != "CPU":  # it may not be said again once anything has run
        mindspore.set_device("CPU")


class Mlp(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.dense1 = nn.Dense(8, 16)
        self.act = nn.ReLU()
        self.dense2 = nn.Dense(16, 8)

    def construct(self, x: Tensor) -> Tensor:
        return self.dense2(self.act(self.dense1(x)))


Mlp.__name__ = "MLP"  # as the network of the dump has it


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.inp = nn.Dense(8, 8)
        self.mlp = Mlp()
        self.norm = nn.LayerNorm((8,))
        self.head = nn.Dense(8, 4)

    def construct(self, x: Tensor) -> Tensor:
        x = self.inp(x)
        return self.head(self.norm(x + self.mlp(x)))


def read(folder: Path, name: str = "dump.json") -> dict[str, Any]:
    return json.loads((folder / name).read_text())


def network() -> Net:
    """The network of the dump, with the weights that stand in it."""
    net, data = Net(), read(THEIRS)["data"]
    for name, cell in net.cells_and_names():
        found = data.get(f"Cell.{name}.{type(cell).__name__}.forward.0", {}).get("parameters", {})
        for key, leaf in found.items():
            array = np.load(THEIRS / "dump_tensor_data" / leaf["data_name"])
            getattr(cell, key).set_data(Tensor(array))
    return net


def given(name: str) -> Tensor:
    return Tensor(np.load(THEIRS / "dump_tensor_data" / name))


def gradients(net: Net) -> list[np.ndarray]:
    x, labels = given("Cell.inp.Dense.forward.0.input.0.npy"), given("Functional.cross_entropy.0.forward.input.1.npy")
    value, found = mindspore.value_and_grad(
        lambda x: ops.cross_entropy(net(x), labels), None, weights=list(net.trainable_params())
    )(x)
    return [value.asnumpy(), *(each.asnumpy() for each in found)]


def kinds(value: Any) -> Any:
    """Return what a dump says without its numbers."""
    if isinstance(value, dict):
        return {key: kinds(each) for key, each in value.items() if key not in ("Max", "Min", "Mean", "Norm")}
    return [kinds(each) for each in value] if isinstance(value, list) else value


def leaves(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict) and "data_name" in value:
        yield value
    else:
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from leaves(each)


def test_the_dump_is_that_of_msprobe_and_changes_no_bit(tmp_path: Path) -> None:
    net = network()
    alone = gradients(net)
    with dump_mindspore(net, tmp_path / "dump"):
        watched = gradients(net)
    after = gradients(net)

    assert all(np.array_equal(one, other) for one, other in zip(alone, watched, strict=True))
    assert all(np.array_equal(one, other) for one, other in zip(alone, after, strict=True))
    ours = tmp_path / "dump/step0/proc0"
    found, theirs = read(ours)["data"], read(THEIRS)["data"]
    assert list(found) == list(theirs)
    assert kinds(found) == kinds(theirs)
    assert list(read(ours, "construct.json").items()) == list(read(THEIRS, "construct.json").items())
    for one, other in zip(leaves(found), leaves(theirs), strict=True):
        arrays = (np.load(folder / "dump_tensor_data" / one["data_name"]) for folder in (ours, THEIRS))
        np.testing.assert_allclose(*arrays, rtol=1e-4, atol=1e-5)
        for key in ("Max", "Min", "Mean", "Norm"):
            assert one[key] == pytest.approx(other[key], rel=1e-3, abs=1e-5)


def test_everything_is_put_back(tmp_path: Path) -> None:
    net = network()
    before = mint.matmul, ops.softmax, vars(Tensor).get("__add__"), type(net.inp.matmul)

    def fail() -> None:
        with dump_mindspore(net, tmp_path / "dump"):
            assert mint.matmul is not before[0]
            net(Tensor(np.ones((1, 8), np.float32)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (mint.matmul, ops.softmax, vars(Tensor).get("__add__"), type(net.inp.matmul)) == before
    assert read(tmp_path / "dump/step0/proc0", "dump_manifest.json")["is_complete"] is False


@pytest.mark.parametrize(
    ("level", "first"), [("L0", "Cell.inp.Dense.forward.0"), ("L1", "Primitive.shape_op.Shape.0.forward")]
)
def test_levels_and_steps(level: str, first: str, tmp_path: Path) -> None:
    net = network()
    with dump_mindspore(net, tmp_path / "dump", level=level, data="statistics") as dump:
        for _ in range(2):
            gradients(net)
            dump.step()

    for step in (0, 1):
        found = list(read(tmp_path / f"dump/step{step}/proc0")["data"])
        assert found[0] == first
        assert any(".backward" in name for name in found)
        assert all(name.startswith("Cell.") is (level == "L0") for name in found)


@pytest.mark.parametrize(("rank", "steps"), [("1", []), ("0", [1])])
def test_steps_and_ranks_that_are_asked_for(
    rank: str, steps: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK_ID", rank)
    monkeypatch.setenv("RANK_SIZE", "2")
    net = network()
    with dump_mindspore(net, tmp_path / "dump", data="statistics", steps=[1, 7], ranks=[0]) as dump:
        for _ in range(3):
            gradients(net)
            dump.step()

    found = [path.parent.relative_to(tmp_path / "dump").as_posix() for path in tmp_path.rglob("dump.json")]
    assert found == [f"step{step}/rank{rank}" for step in steps]


def test_our_reader_takes_it(tmp_path: Path) -> None:
    net = network()
    with dump_mindspore(net, tmp_path / "dump"):
        gradients(net)
    catalog = read_dump_json(str(tmp_path / "dump"), side="target")
    assert not catalog.problems
    assert catalog.framework.name == "mindspore"


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64", "int32", "bool_"])
def test_statistics_of_every_type(name: str, tmp_path: Path) -> None:
    values = np.array([[1.5, 2.0, 4.25], [0.0, 3.0, 6.0]], np.float32)
    tensor = Tensor(values).astype(getattr(mindspore, name))
    with dump_mindspore(None, tmp_path / "dump", level="L1", data="both"):
        tensor.to(mindspore.float32 if name != "float32" else mindspore.float16)

    data = read(tmp_path / "dump/step0/proc0")["data"]
    leaf = data["Tensor.to.0.forward"]["input_args"][0]
    wide = tensor.astype(mindspore.float32).asnumpy().astype(np.float64)
    assert leaf["dtype"] == str(tensor.dtype)
    assert (leaf["Max"], leaf["Min"]) == (wide.max(), wide.min())
    if name != "bool_":
        assert leaf["Mean"] == pytest.approx(wide.mean())
        assert leaf["Norm"] == pytest.approx(np.linalg.norm(wide))
    assert len(leaf["md5"]) == 8


def test_wrong_use_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        dump_mindspore(np.ones(2), tmp_path / "dump")
    assert "expected a `mindspore.nn.Cell`" in raised.value.diagnostic.message
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    with pytest.raises(UsageError) as raised, dump_mindspore(None, tmp_path / "dump", level="L1"):
        pass
    assert "graph mode" in raised.value.diagnostic.message
