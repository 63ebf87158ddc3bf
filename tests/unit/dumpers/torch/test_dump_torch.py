"""`dump_torch` in a script: it changes nothing of what it watches, and says what it holds."""

from __future__ import annotations

import json
import multiprocessing
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs torch")

from torch import nn  # noqa: E402
from watched_nets import NETS, loss, stopping_early  # noqa: E402

from probe_flow.dumpers import dump_torch  # noqa: E402
from probe_flow.dumps.dump_json.reader import read_dump_json  # noqa: E402
from probe_flow.errors import UsageError  # noqa: E402

pytestmark = pytest.mark.frameworks


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)


def entries(folder: Path, step: int = 0, process: str = "proc0") -> dict[str, Any]:
    return json.loads((folder / f"step{step}/{process}/dump.json").read_text())["data"]


def manifest(folder: Path, step: int = 0) -> dict[str, Any]:
    return json.loads((folder / f"step{step}/proc0/dump_manifest.json").read_text())


class Residual(nn.Module):
    """What each layer reads is read by several operators, so that its gradient is a sum of several."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(33, 33) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.tanh(self.a(x)) * torch.sigmoid(self.b(x)) + self.c(x)


class Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Residual() for _ in range(4))
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.dropout(layer(x))
        return x


def trained(watch: dict[str, Any] | None, folder: Path, steps: int = 2) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = Stack()
    inputs = torch.randn(17, 33, requires_grad=True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    found: list[torch.Tensor] = []

    def step() -> None:
        optimizer.zero_grad()
        result = model(inputs).square().mean()
        result.backward()
        optimizer.step()
        found.extend([result.detach(), inputs.grad.clone(), torch.random.get_rng_state()])
        found.extend(parameter.grad.clone() for parameter in model.parameters())

    if watch is None:
        for _ in range(steps):
            step()
    else:
        with dump_torch(model, folder, **watch) as dump:
            for _ in range(steps):
                step()
                dump.step()
    return [*found, *(parameter.detach().clone() for parameter in model.parameters())]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("data", ["statistics", "tensor", "md5", "both"])
def test_results_gradients_and_random_state_stay_as_they_are(level: str, data: str, tmp_path: Path) -> None:
    alone = trained(None, tmp_path)
    watched = trained({"level": level, "data": data}, tmp_path / "dump")

    assert len(alone) == len(watched)
    assert all(torch.equal(one, other) for one, other in zip(alone, watched, strict=True))


def test_everything_of_torch_is_put_back(tmp_path: Path) -> None:
    before = {name: vars(torch.Tensor).get(name) for name in dir(torch.Tensor)}
    functions = (torch.add, torch.nn.functional.linear, torch.linalg.norm, torch.distributed.all_reduce)
    model = Stack()

    def fail() -> None:
        with dump_torch(model, tmp_path / "dump"):
            assert torch.add is not functions[0]
            model(torch.zeros(2, 33))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert {name: vars(torch.Tensor).get(name) for name in dir(torch.Tensor)} == before
    assert (torch.add, torch.nn.functional.linear, torch.linalg.norm, torch.distributed.all_reduce) == functions
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())
    assert manifest(tmp_path / "dump")["is_complete"] is False


def test_gradients_of_a_module_are_those_that_autograd_gives_alone(tmp_path: Path) -> None:
    torch.manual_seed(1)
    layer, head = Residual().double(), nn.Linear(33, 2).double()
    net = nn.Sequential(nn.Linear(33, 33).double(), layer, head)
    x = torch.randn(5, 33, dtype=torch.float64)

    with dump_torch(net, tmp_path / "dump", level="L0"):
        net(x).sum().backward()

    entry = entries(tmp_path / "dump")["Module.1.Residual.backward.0"]
    hidden = net[0](x).detach().requires_grad_()
    result = layer(hidden)
    given = torch.ones(5, 2, dtype=torch.float64) @ head.weight.detach()
    (read,) = torch.autograd.grad(result, hidden, given)
    folder = tmp_path / "dump/step0/proc0/dump_tensor_data"
    saved = {role: torch.load(folder / entry[role][0]["data_name"]) for role in ("input", "output")}
    assert torch.allclose(saved["input"], given, rtol=1e-12)
    assert torch.allclose(saved["output"], read, rtol=1e-12)
    assert entry["output"][0]["Norm"] == pytest.approx(float(read.norm()))


def test_operands_of_calls_in_place_are_as_before_the_call(tmp_path: Path) -> None:
    x = torch.arange(4.0)

    with dump_torch(None, tmp_path / "dump", level="L1"):
        x.add_(10)
        torch.nn.functional.relu(x.sub_(11), inplace=True)

    found = entries(tmp_path / "dump")
    assert list(found) == ["Tensor.add_.0.forward", "Tensor.sub_.0.forward", "Functional.relu.0.forward"]
    folder = tmp_path / "dump/step0/proc0/dump_tensor_data"
    values = {
        (name, role): torch.load(folder / leaf["data_name"]).tolist()
        for name, entry in found.items()
        for role, leaf in (("in", entry["input_args"][0]), ("out", entry["output"][0]))
    }
    assert values["Tensor.add_.0.forward", "in"] == [0, 1, 2, 3]
    assert values["Tensor.add_.0.forward", "out"] == [10, 11, 12, 13]
    assert values["Tensor.sub_.0.forward", "out"] == [-1, 0, 1, 2]
    assert values["Functional.relu.0.forward", "in"] == [-1, 0, 1, 2]
    assert values["Functional.relu.0.forward", "out"] == [0, 0, 1, 2]


def test_changes_past_the_version_of_a_tensor_are_seen(tmp_path: Path) -> None:
    x, shared = torch.ones(3), torch.ones(3)
    view = shared.numpy()

    with dump_torch(None, tmp_path / "dump", level="L1", data="statistics"):
        torch.exp(x)
        x.data.mul_(5)
        torch.exp(x)
        array = shared.numpy()
        torch.sin(shared)
        array[:] = 7
        torch.sin(shared)

    found = entries(tmp_path / "dump")
    assert [found[f"Torch.exp.{n}.forward"]["input_args"][0]["Max"] for n in (0, 1)] == [1, 5]
    assert [found[f"Torch.sin.{n}.forward"]["input_args"][0]["Max"] for n in (0, 1)] == [1, 7]
    assert view[0] == 7


def test_the_state_that_a_batch_norm_writes_is_seen_by_its_next_call(tmp_path: Path) -> None:
    norm, x = torch.nn.BatchNorm1d(2), torch.tensor([[1.0, 3.0], [3.0, 3.0]])

    with dump_torch(norm, tmp_path / "dump", level="L1", data="statistics"):
        norm(x)
        norm(x)

    found = entries(tmp_path / "dump")
    calls = [found[f"Functional.batch_norm.{n}.forward"]["input_args"] for n in (0, 1)]
    assert [each[1]["Max"] for each in calls] == pytest.approx([0.0, 0.3])  # a tenth of the mean, 3
    assert [each[2]["Max"] for each in calls] == pytest.approx([1.0, 1.1])  # 0.9 and a tenth of the variance, 2


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.bool,
        torch.complex64,
    ],
)  # fmt: skip
def test_statistics_of_every_type(dtype: torch.dtype, tmp_path: Path) -> None:
    values = torch.tensor([[1.5, -2.0, 4.25], [0.0, 3.0, 6.0]]).abs().to(dtype)

    with dump_torch(None, tmp_path / "dump", level="L1", data="both"):
        torch.clone(values)
        torch.ne(values, values)

    leaf = entries(tmp_path / "dump")["Torch.ne.0.forward"]["input_args"][0]
    wide = values.abs().double() if dtype.is_complex else values.double()
    assert leaf["dtype"] == str(dtype)
    assert leaf["Max"] == wide.max().item()
    assert leaf["Min"] == wide.min().item()
    if dtype == torch.bool:
        assert (leaf["Mean"], leaf["Norm"]) == (None, None)
    else:
        rel = 1e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-6
        assert leaf["Mean"] == pytest.approx(wide.mean().item(), rel=rel)
        assert leaf["Norm"] == pytest.approx(wide.norm().item(), rel=rel)
    file = tmp_path / "dump/step0/proc0/dump_tensor_data" / leaf["data_name"]
    assert torch.equal(torch.load(file), values)


def test_empty_nan_and_tensors_without_memory(tmp_path: Path) -> None:
    with dump_torch(None, tmp_path / "dump", level="L1"):
        torch.sin(torch.zeros(0, 3))
        torch.sin(torch.tensor([1.0, float("nan")]))
        torch.sin(torch.ones(2, device="meta"))
        torch.sin(torch.eye(2).to_sparse())
        torch.sin(torch.tensor(-2.0))

    found = entries(tmp_path / "dump")
    leaves = [found[f"Torch.sin.{n}.forward"]["input_args"][0] for n in range(5)]
    assert leaves[0]["Max"] is None
    assert np.isnan(leaves[1]["Max"])
    assert np.isnan(leaves[1]["Norm"])
    assert leaves[2]["shape"] == [2]
    assert leaves[2]["Max"] is None
    assert leaves[4]["Norm"] == -2.0, "as msprobe has it"
    skipped = {each["name"]: each["reason"] for each in manifest(tmp_path / "dump")["skipped"]}
    assert skipped["Torch.sin.2.forward.input.0"] == "it has no elements in memory"
    assert skipped["Torch.sin.3.forward.input.0"] == "its layout is torch.sparse_coo"
    state = manifest(tmp_path / "dump")
    assert state["expected"] == state["written"] + len(state["skipped"])
    assert state["written"] == len(list((tmp_path / "dump/step0/proc0/dump_tensor_data").iterdir()))


def test_our_reader_takes_what_was_dumped(tmp_path: Path) -> None:
    model, args = NETS["transformer"]()
    with dump_torch(model, tmp_path / "dump") as dump:
        for _ in range(2):
            loss(model(*args)).backward()
            dump.step()

    catalog = read_dump_json(str(tmp_path / "dump"), side="golden")
    assert [problem.message for problem in catalog.problems] == []
    assert {node.execution.step for node in catalog.nodes} == {0, 1}
    assert len(catalog.nodes) == sum(len(entries(tmp_path / "dump", step)) for step in (0, 1))
    # Calls that only change a shape or a type stand in construct.json alone.
    assert {node.op_type for node in catalog.undumped} <= {"chunk", "transpose", "reshape", "float"}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"phases": ["forward"]}, {"forward"}),
        ({"phases": ["backward"]}, {"backward", "parameters_grad"}),
    ],
)
def test_phases(options: dict[str, Any], names: set[str], tmp_path: Path) -> None:
    model, args = NETS["transformer"]()
    with dump_torch(model, tmp_path / "dump", data="statistics", **options):
        loss(model(*args)).backward()

    words = {word for name in entries(tmp_path / "dump") for word in name.split(".")}
    assert words & {"forward", "backward", "parameters_grad"} == names


def test_direction_steps_and_texts(tmp_path: Path) -> None:
    model, args = NETS["transformer"]()
    with dump_torch(model, tmp_path / "dump", steps=[1], include=["layers.1.mlp"], direction=["output"]) as dump:
        for _ in range(3):
            loss(model(*args)).backward()
            dump.step()

    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["step1"]
    found = entries(tmp_path / "dump", 1)
    assert "Functional.gelu.1.forward" in found
    assert "Functional.gelu.0.forward" not in found
    assert "Module.layers.1.mlp.fc1.Linear.parameters_grad.0" in found
    assert all("input_args" not in entry and "input" not in entry for entry in found.values())


@pytest.mark.parametrize(("rank", "steps"), [("0", []), ("2", [1, 3])])
def test_steps_of_ranks_in_a_training_loop(
    rank: str, steps: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", rank)

    alone = trained(None, tmp_path, steps=5)
    watched = trained({"data": "tensor", "steps": [1, 3], "ranks": [2, 3]}, tmp_path / "dump", steps=5)

    assert all(torch.equal(one, other) for one, other in zip(alone, watched, strict=True))
    found = sorted(path.parent.relative_to(tmp_path / "dump").as_posix() for path in tmp_path.rglob("dump.json"))
    assert found == [f"step{step}/rank{rank}" for step in steps]
    weights = [
        torch.load(
            tmp_path / f"dump/step{step}/rank2/dump_tensor_data/Module.layers.0.a.Linear.forward.0.parameters.weight.pt"
        )
        for step in steps
    ]
    assert len({weight.sum().item() for weight in weights}) == len(steps), "the optimizer went on between the steps"
    for step in steps:
        data = entries(tmp_path / "dump", step, f"rank{rank}")
        assert "Module.layers.0.a.Linear.forward.0" in data, "calls are counted anew in each step"
        assert not any(name.split(".")[1].startswith(("adam", "_foreach")) for name in data)


def test_a_scope_takes_what_lies_between_two_entries(tmp_path: Path) -> None:
    model, args = NETS["transformer"]()
    scope = ["Functional.gelu.0.forward", "Functional.layer_norm.2.forward"]
    with dump_torch(model, tmp_path / "dump", level="L1", scope=scope, data="statistics"):
        loss(model(*args)).backward()

    found = list(entries(tmp_path / "dump"))
    assert found[0] == scope[0]
    assert found[-1] == scope[1]
    assert len(found) > 2


def test_large_tensors_are_left_out_by_name(tmp_path: Path) -> None:
    with dump_torch(None, tmp_path / "dump", level="L1", max_tensor_bytes=64):
        torch.exp(torch.ones(100))
        torch.exp(torch.ones(2))

    found = entries(tmp_path / "dump")
    assert found["Torch.exp.0.forward"]["output"][0]["Norm"] == pytest.approx(np.e * 10)
    assert "data_name" not in found["Torch.exp.0.forward"]["output"][0]
    assert "data_name" in found["Torch.exp.1.forward"]["output"][0]
    reasons = [each["reason"] for each in manifest(tmp_path / "dump")["skipped"]]
    assert reasons == ["it has 400 bytes, more than `max_tensor_bytes`"] * 2


def test_a_checkpoint_that_stops_early_ends_its_modules(tmp_path: Path) -> None:
    model, args = stopping_early()
    with dump_torch(model, tmp_path / "dump", data="statistics"):
        loss(model(*args)).backward()

    found = entries(tmp_path / "dump")
    gelus = [name for name in found if name.startswith("Functional.gelu") and "forward" in name]
    assert gelus == [f"Functional.gelu.{n}.forward" for n in range(4)]
    assert {f"Functional.gelu.{n}.backward" for n in (0, 1)} <= set(found)
    again = manifest(tmp_path / "dump")["recomputed"]
    assert {"Functional.gelu.2.forward", "Functional.gelu.3.forward"} <= set(again)


class Unused(nn.Module):
    """Of the two results only one is used; one input leads nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Two()

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.inner([x, y], {"z": x})[0]


class Two(nn.Module):
    def forward(self, xs: list[torch.Tensor], named: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        return xs[0] * 2 + named["z"], xs[1] * 3


def test_results_without_gradient_end_with_the_pass(tmp_path: Path) -> None:
    model = Unused()
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    with dump_torch(model, tmp_path / "dump", level="L0", data="statistics"):
        model(x, y).sum().backward()

    found = entries(tmp_path / "dump")["Module.inner.Two.backward.0"]
    assert [leaf and leaf["Max"] for leaf in found["input"]] == [1, None]
    # The list [x, y] and the mapping with x: each place has what reaches the tensor.
    assert [leaf and leaf["Max"] for leaf in found["output"]] == [3, None, 3]


def _one_rank(rank: int, folder: str, port: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    with dump_torch(model, folder, ranks=[0, 1]):
        result = model(torch.full((3, 4), float(rank)))
        torch.distributed.all_reduce(result)
        work = torch.distributed.all_reduce(result, async_op=True)
        work.wait()
        gathered = [torch.zeros_like(result) for _ in range(2)]
        torch.distributed.all_gather(gathered, result)
    torch.distributed.destroy_process_group()


@pytest.mark.timeout(300)
def test_ranks_write_folders_of_their_own(tmp_path: Path) -> None:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=_one_rank, args=(rank, str(tmp_path / "dump"), port)) for rank in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(240)
    assert [process.exitcode for process in ranks] == [0, 0]

    dumps = [entries(tmp_path / "dump", process=f"rank{rank}") for rank in range(2)]
    assert list(dumps[0]) == list(dumps[1])
    first, second, gathered = (
        [dump[name] for dump in dumps]
        for name in (
            "Distributed.all_reduce.0.forward",
            "Distributed.all_reduce.1.forward",
            "Distributed.all_gather.0.forward",
        )
    )
    for one in (0, 1):
        assert first[one]["output"][0]["Max"] == first[1 - one]["output"][0]["Max"]
        assert second[one]["output"][0]["Max"] == pytest.approx(2 * first[one]["output"][0]["Max"])
        assert gathered[one]["input_args"][0] is None, "the list to gather into holds nothing yet"
    assert first[0]["input_args"][0]["Max"] != first[1]["input_args"][0]["Max"]


def test_wrong_use_is_said(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    for options, word in (
        ({"level": "L3"}, "`level` cannot be `L3`"),
        ({"data": "stats"}, "`data` cannot be `stats`"),
        ({"phases": "forward"}, "`phases` is text"),
        ({"steps": [-1]}, "`steps` holds -1"),
        ({"scope": ["Torch.add.0.forward"]}, "`scope` has 1 names"),
    ):
        with pytest.raises(UsageError) as raised:
            dump_torch(model, tmp_path / "dump", **options)
        assert word in raised.value.diagnostic.message
    with pytest.raises(UsageError) as raised:
        dump_torch(torch.ones(2), tmp_path / "dump")
    assert "expected a `torch.nn.Module`" in raised.value.diagnostic.message
    with dump_torch(model, tmp_path / "dump"):
        with pytest.raises(UsageError) as raised, dump_torch(model, tmp_path / "other"):
            pass
        assert "another dump" in raised.value.diagnostic.message
        model(torch.ones(1, 2))
    with pytest.raises(UsageError) as raised:
        dump_torch(model, tmp_path / "dump")
    assert raised.value.diagnostic.code == "PF6321"
    with dump_torch(model, tmp_path / "dump", overwrite=True):
        model(torch.ones(1, 2))
    assert list(entries(tmp_path / "dump")) == ["Functional.linear.0.forward"]


def test_a_configuration_of_msprobe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = {"task": "statistics", "dump_path": "./dump", "level": "L1", "statistics": {"summary_mode": "md5"}}
    (tmp_path / "config.json").write_text(json.dumps(config))

    with dump_torch(None, config="config.json") as dump:
        torch.exp(torch.ones(2))

    assert dump.folder == tmp_path / "dump"
    leaf = entries(tmp_path / "dump")["Torch.exp.0.forward"]["input_args"][0]
    assert leaf["Max"] == 1
    assert leaf["md5"] == f"{zlib.crc32(np.ones(2, np.float32).tobytes()):08x}"
    with pytest.raises(UsageError) as raised:
        dump_torch(None, "other", config="config.json", level="L0")
    assert "leave `level` out" in str(raised.value.diagnostic.help)
    (tmp_path / "config.json").write_text(json.dumps({"level": "L1"}))
    with pytest.raises(UsageError) as raised:
        dump_torch(None, config="config.json")
    assert "no folder" in raised.value.diagnostic.message


@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.bool, torch.int64, torch.complex64, torch.uint16]
)
def test_files_of_tensors_are_those_of_torch(shape: tuple[int, ...], dtype: torch.dtype, tmp_path: Path) -> None:
    from probe_flow.dumpers.torch.pt_files import pt_parts

    tensor = torch.arange(100).to(dtype).as_strided(shape, [3 * n + 1 for n in range(len(shape))], 2)
    file = tmp_path / "x.pt"
    file.write_bytes(b"".join(pt_parts(tensor)))

    for mapped in (False, True):
        found = torch.load(file, weights_only=True, mmap=mapped)
        assert found.dtype == dtype
        assert found.shape == tensor.shape
        assert found.tolist() == tensor.tolist()
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
