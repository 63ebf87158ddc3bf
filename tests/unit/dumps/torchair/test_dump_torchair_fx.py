"""The FX backend against eager torch: the same bits, TorchAir's names, all kinds of graphs."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.dumpers import torchair_fx_backend
from probe_flow.dumps.file_names import parse_fx_name
from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.errors import IncompleteError

pytestmark = [
    pytest.mark.frameworks,
    # torch's own; what matters here is what is dumped
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"),
]
torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def run(function: Callable[..., Any], folder: Path, *calls: tuple[Any, ...], **options: Any) -> list[Any]:
    compile_options = {key: options.pop(key) for key in ("dynamic",) if key in options}
    compiled = torch.compile(function, backend=torchair_fx_backend(folder, **options), **compile_options)
    with torch.no_grad():
        return [compiled(*call) for call in calls]


def files(folder: Path) -> list[str]:
    """Return the arrays as ``graph/step/name.slot``, in the order in which they were written."""
    found = sorted(folder.rglob("*.npy"), key=lambda path: (path.name.split(".")[-2], path.name))
    names = [str(path.relative_to(folder / "worldsize1_global_rank0")) for path in found]
    return [name.removesuffix(".npy").rpartition(".")[0] for name in names]


def array(folder: Path, stem: str) -> np.ndarray[Any, Any]:
    graph, step, name = stem.split("/")
    (found,) = (folder / "worldsize1_global_rank0" / graph / step).glob(f"{name}.*.npy")
    return np.load(found, allow_pickle=False)


def manifest(folder: Path, graph: int = 1, step: int = 0) -> Any:
    path = folder / "worldsize1_global_rank0" / f"graph_{graph}" / str(step) / "step_manifest.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_run_is_eager_bit_for_bit_and_named_as_torchair_names(tmp_path: Path) -> None:
    x, y = torch.randn(3, 4), torch.randn(4, 2)

    def model(x: Any, y: Any) -> Any:
        return torch.relu(torch.mm(x, y)) + 1

    (result,) = run(model, tmp_path, (x, y))

    assert torch.equal(result, model(x, y))
    assert files(tmp_path) == [
        "graph_1/0/mm-aten.mm.default.INPUT.0",
        "graph_1/0/mm-aten.mm.default.INPUT.1",
        "graph_1/0/mm-aten.mm.default.OUTPUT.0",
        "graph_1/0/relu-aten.relu.default.INPUT.0",
        "graph_1/0/relu-aten.relu.default.OUTPUT.0",
        "graph_1/0/add-aten.add.Tensor.INPUT.0",
        "graph_1/0/add-aten.add.Tensor.OUTPUT.0",
    ]
    assert np.array_equal(array(tmp_path, "graph_1/0/mm-aten.mm.default.OUTPUT.0"), torch.mm(x, y).numpy())
    assert all(parse_fx_name(path.name) is not None for path in tmp_path.rglob("*.npy"))


def test_steps_count_from_zero_and_can_be_chosen(tmp_path: Path) -> None:
    calls = [(torch.full((2,), float(n)),) for n in range(4)]

    results = run(lambda x: x + 1, tmp_path, *calls, steps=[0, 2])

    assert [float(result[0]) for result in results] == [1.0, 2.0, 3.0, 4.0]
    assert {name.split("/")[1] for name in files(tmp_path)} == {"0", "2"}
    assert array(tmp_path, "graph_1/2/add-aten.add.Tensor.OUTPUT.0").tolist() == [3.0, 3.0]


def test_graph_break_gives_graphs_of_their_own(tmp_path: Path) -> None:
    def model(x: Any) -> Any:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    (result,) = run(model, tmp_path, (torch.ones(2),))

    assert result.tolist() == [4.0, 4.0]
    assert [name.split(".INPUT")[0] for name in files(tmp_path) if "INPUT" in name] == [
        "graph_1/0/add-aten.add.Tensor",
        "graph_2/0/mul-aten.mul.Tensor",
    ]


def test_training_gives_forward_and_backward_graphs_and_the_gradients_of_eager(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    eager = copy.deepcopy(model)
    x = torch.randn(8, 4)
    eager(x).sum().backward()

    compiled = torch.compile(model, backend=torchair_fx_backend(tmp_path))
    compiled(x).sum().backward()

    pairs = list(zip(model.named_parameters(), eager.parameters(), strict=True))
    assert all(torch.equal(own.grad, other.grad) for (_, own), other in pairs)
    assert torch.equal(model[1].running_mean, eager[1].running_mean)
    kinds = {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))["kind"]
        for path in tmp_path.rglob("graph_manifest.json")
    }
    assert kinds == {"graph_1": "forward", "graph_2": "backward"}
    assert any("native_batch_norm_backward" in name for name in files(tmp_path))


def test_dynamic_shapes_run_one_graph_with_several_sizes(tmp_path: Path) -> None:
    calls = [(torch.ones(n, 3),) for n in (2, 5, 7)]

    results = run(lambda x: x.reshape(x.shape[0] * 3) + x.shape[0], tmp_path, *calls, dynamic=True)

    assert [result.tolist() for result in results] == [[n + 1.0] * (n * 3) for n in (2, 5, 7)]
    assert {name.split("/")[0] for name in files(tmp_path)} == {"graph_1"}
    assert array(tmp_path, "graph_1/2/view-aten.view.default.OUTPUT.0").shape == (21,)


def test_lists_and_several_results_have_slots_of_their_own(tmp_path: Path) -> None:
    def model(x: Any) -> Any:
        values, places = torch.topk(torch.cat([x] * 12), 2)
        return values, places, torch.split(x, [1, 2])[1]

    run(model, tmp_path, (torch.randn(3),))

    found = files(tmp_path)
    assert "graph_1/0/cat-aten.cat.default.INPUT.0.11" in found
    assert "graph_1/0/topk-aten.topk.default.OUTPUT.1" in found
    assert array(tmp_path, "graph_1/0/topk-aten.topk.default.OUTPUT.1").dtype == np.int64
    assert not any("getitem" in name for name in found)


def test_operator_in_place_has_the_inputs_that_it_saw(tmp_path: Path) -> None:
    x = torch.ones(3)

    def model(x: Any) -> Any:
        y = x * 2
        y.add_(5)
        x.mul_(10)
        return y

    (result,) = run(model, tmp_path, (x,))

    assert result.tolist() == [7.0] * 3
    assert x.tolist() == [10.0] * 3
    assert array(tmp_path, "graph_1/0/add-aten.add.Tensor.INPUT.0").tolist() == [2.0] * 3
    assert array(tmp_path, "graph_1/0/mul-aten.mul.Tensor.INPUT.0").tolist() == [1.0] * 3


def test_other_arguments_are_in_the_manifest_only(tmp_path: Path) -> None:
    def model(x: Any) -> Any:
        return torch.nn.functional.gelu(x, approximate="tanh").sum(None).to(torch.float16)

    run(model, tmp_path, (torch.ones(2),))

    arguments = {node["name"]: node.get("arguments") for node in manifest(tmp_path)["nodes"]}
    assert arguments["gelu"] == {"approximate": "tanh"}
    assert arguments["_to_copy"] == {"dtype": "torch.float16"}
    assert not read_torchair_fx(tmp_path, side="golden").problems


def test_peer_compatible_dump_holds_every_positional_argument(tmp_path: Path) -> None:
    def model(x: Any) -> Any:
        return torch.transpose(x, 0, 1).reshape([-1]).clamp(None, 0.5)

    run(model, tmp_path, (torch.ones(2, 3),), peer_compatible=True)

    assert array(tmp_path, "graph_1/0/transpose-aten.transpose.int.INPUT.2").tolist() == 1
    assert array(tmp_path, "graph_1/0/_unsafe_view-aten._unsafe_view.default.INPUT.1").tolist() == [6]
    with pytest.raises(ValueError, match="Object arrays"):
        array(tmp_path, "graph_1/0/clamp-aten.clamp.default.INPUT.1")
    catalog = read_torchair_fx(tmp_path, side="golden")
    assert [each.code for each in catalog.problems] == []


def test_small_floats_are_widened_and_their_type_is_kept_in_the_manifest(tmp_path: Path) -> None:
    x = torch.tensor([1.0, 3.140625, float("nan")], dtype=torch.bfloat16)

    run(lambda x: (x + x, x.to(torch.float8_e4m3fn).to(torch.float32)), tmp_path, (x,))

    stored = array(tmp_path, "graph_1/0/add-aten.add.Tensor.INPUT.0")
    assert stored.dtype == np.float32
    assert stored[:2].tolist() == [1.0, 3.140625]
    add = next(node for node in manifest(tmp_path)["nodes"] if node["name"] == "add")
    assert {tensor["dtype"] for tensor in add["tensors"]} == {"bfloat16"}


def test_tensors_that_are_left_out_are_said_to_the_reader(tmp_path: Path) -> None:
    run(lambda x: x[:2] + 1, tmp_path, (torch.ones(64),), max_tensor_bytes=32)

    (problem,) = read_torchair_fx(tmp_path, side="golden").problems
    assert problem.code == "PF6340"
    assert problem.notes == ("`slice_1-aten.slice.Tensor.INPUT.0`: it has 256 bytes, more than `max_tensor_bytes`",)


def test_filter_and_direction_narrow_the_dump(tmp_path: Path) -> None:
    def model(x: Any) -> Any:
        return torch.mm(x, x).relu() + x

    run(model, tmp_path, (torch.ones(2, 2),), exclude=["RELU"], types=["aten.*"], direction=["output"])

    assert files(tmp_path) == ["graph_1/0/mm-aten.mm.default.OUTPUT.0", "graph_1/0/add-aten.add.Tensor.OUTPUT.0"]


def test_statistics_are_read_as_such(tmp_path: Path) -> None:
    run(lambda x: x.to(torch.bfloat16) * 2, tmp_path, (torch.tensor([3.0, -4.0]),), data="statistics")

    catalog = read_torchair_fx(tmp_path, side="golden")
    found = next(t for t in catalog.tensors if t.node.name == "mul" and str(t.slot) == "output.0")
    assert found.recorded is not None
    assert (found.recorded.min, found.recorded.max, found.recorded.mean) == (-8.0, 6.0, -1.0)
    assert found.recorded.l2norm == 10.0


def test_both_writes_statistics_beside_the_elements_which_readers_take(tmp_path: Path) -> None:
    run(lambda x: (x * 2) + 1, tmp_path, (torch.tensor([3.0, -4.0]),), data="both")

    catalog = read_torchair_fx(tmp_path, side="golden")
    assert all(tensor.recorded is None for tensor in catalog.tensors)
    assert [problem.code for problem in catalog.problems] == ["PF3250"]
    base = tmp_path / "worldsize1_global_rank0" / "graph_1" / "0"
    assert manifest(tmp_path)["written"] == len(list(base.glob("*.npy"))) == 8
    for path in base.glob("*[0-9].npy"):
        path.unlink()
    found = {str(tensor.slot): tensor.recorded for tensor in read_torchair_fx(tmp_path, side="golden").tensors}
    assert (found["output.0"].min, found["output.0"].max) == (-7.0, 7.0)
    assert (found["input.0"].min, found["input.0"].max) == (-8.0, 6.0)


def test_float64_computes_wide_under_the_names_of_the_model(tmp_path: Path) -> None:
    linear = torch.nn.Linear(64, 64).to(torch.bfloat16)
    x = torch.randn(2, 64).to(torch.bfloat16)

    def model(x: Any) -> Any:
        return torch.softmax(linear(x).float(), -1).to(torch.bfloat16) * torch.full((64,), 0.1, dtype=torch.bfloat16)

    (own,) = run(model, tmp_path / "own", (x,))
    torch._dynamo.reset()
    (wide,) = run(model, tmp_path / "wide", (x,), precision="float64")

    assert files(tmp_path / "own") == files(tmp_path / "wide")
    assert wide.dtype == torch.bfloat16
    assert torch.allclose(wide.float(), own.float(), rtol=0.05)
    product = next(name for name in files(tmp_path / "wide") if "mul" in name and "OUTPUT" in name)
    exact = torch.softmax(torch.nn.functional.linear(x.double(), linear.weight.double(), linear.bias.double()), -1)
    assert array(tmp_path / "wide", product).dtype == np.float64
    assert np.allclose(array(tmp_path / "wide", product), (exact * 0.1).detach().numpy(), rtol=1e-12)


def test_float64_draws_the_random_numbers_of_the_model(tmp_path: Path) -> None:
    def model(x: Any) -> Any:
        return torch.nn.functional.dropout(x, 0.5, training=True)

    x = torch.ones(100)
    torch.manual_seed(5)
    (own,) = run(model, tmp_path / "own", (x,))
    torch._dynamo.reset()
    torch.manual_seed(5)
    (wide,) = run(model, tmp_path / "wide", (x,), precision="float64")

    assert torch.equal(own, wide)
    assert any(node.get("own_precision") for node in manifest(tmp_path / "wide")["nodes"])


def test_operator_without_float64_form_runs_in_its_own(tmp_path: Path) -> None:
    with torch.library._scoped_library("probe_flow_test", "DEF") as library:
        library.define("only_float(Tensor x) -> Tensor")

        def only_float(x: Any) -> Any:
            if x.dtype != torch.float32:
                raise RuntimeError("not implemented for this type")
            return x + 1

        library.impl("only_float", only_float, "CompositeExplicitAutograd")
        library.impl("only_float", lambda x: torch.empty_like(x), "Meta")

        (result,) = run(lambda x: torch.ops.probe_flow_test.only_float(x) * 2, tmp_path, (torch.ones(2),),
                        precision="float64")  # fmt: skip

    assert result.tolist() == [4.0, 4.0]
    assert "no float64 form" in manifest(tmp_path)["nodes"][0]["own_precision"]
    assert array(tmp_path, "graph_1/0/mul-aten.mul.Tensor.OUTPUT.0").dtype == np.float64


def test_full_disk_ends_the_model_with_the_reason_and_without_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = os.replace

    def full(source: str, target: str) -> None:
        if "mul" in Path(target).name:
            raise OSError(28, "No space left on device")
        written(source, target)

    monkeypatch.setattr(os, "replace", full)

    with pytest.raises(IncompleteError, match="PF6326"):
        run(lambda x: (x + 1) * 2, tmp_path, (torch.ones(2),))
    assert [each.code for each in read_torchair_fx(tmp_path, side="golden").problems] == ["PF6340"]


def test_values_are_dropped_after_their_last_use(tmp_path: Path) -> None:
    import weakref

    from probe_flow.dumpers.torchair.fx_step import StepDump

    alive: list[Any] = []
    most = 0
    outputs = StepDump.outputs

    def counted(self: StepDump, node: Any, result: Any) -> None:
        nonlocal most
        outputs(self, node, result)
        alive.append(weakref.ref(result))
        most = max(most, sum(ref() is not None for ref in alive))

    def model(x: Any) -> Any:
        for _ in range(20):
            x = x + 1
        return x

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StepDump, "outputs", counted)
        run(model, tmp_path, (torch.ones(2),))

    assert len(alive) == 20
    assert most <= 2


def test_graph_manifest_names_inputs_and_sources(tmp_path: Path) -> None:
    run(lambda x: x + 1, tmp_path, (torch.ones(2),))

    path = tmp_path / "worldsize1_global_rank0" / "graph_1" / "graph_manifest.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["kind"] == "inference"
    assert content["placeholders"][0] | {"is": ""} == {
        "name": "arg0_1",
        "dtype": "float32",
        "shape": ["2"],
        "is": "",
    }
    assert content["outputs"] == ["add"]
    assert content["operators"][0]["reads"] == ["arg0_1"]
    assert Path(__file__).name in content["operators"][0]["source"]


def test_graph_manifest_names_weights_as_the_model_does(tmp_path: Path) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers[1](self.layers[0](x))

    torch.compile(Model(), backend=torchair_fx_backend(tmp_path))(torch.ones(4, 2)).sum().backward()

    rank = tmp_path / "worldsize1_global_rank0"
    forward, backward = (
        json.loads((rank / f"graph_{number}" / "graph_manifest.json").read_text("utf-8")) for number in (1, 2)
    )
    named = {each["is"]: each["shape"] for each in forward["placeholders"]}
    assert {name: shape for name, shape in named.items() if name.endswith("weight")} == {
        "self.layers.0.weight": ["3", "2"],
        "self.layers.1.weight": ["3"],
    }
    assert named["self.layers.1.running_mean"] == ["3"]
    assert "self.layers.1.weight" in {each.get("is") for each in backward["placeholders"]}
    names = {each["name"] for each in forward["placeholders"]} | {each["name"] for each in forward["operators"]}
    assert set(forward["operators"][0]["reads"]) <= names


def test_tensor_that_several_nodes_read_is_stored_once(tmp_path: Path) -> None:
    run(lambda x: (x + 1) * 2, tmp_path, (torch.ones(8),))

    base = tmp_path / "worldsize1_global_rank0" / "graph_1" / "0"
    (written,) = base.glob("add-aten.add.Tensor.OUTPUT.0.*")
    (read,) = base.glob("mul-aten.mul.Tensor.INPUT.0.*")
    assert written.stat().st_ino == read.stat().st_ino
    assert manifest(tmp_path)["written"] == 4


def test_file_system_without_links_gets_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refused)

    run(lambda x: (x + 1) * 2, tmp_path, (torch.ones(8),))

    assert array(tmp_path, "graph_1/0/mul-aten.mul.Tensor.INPUT.0").tolist() == [2.0] * 8
    assert manifest(tmp_path)["written"] == 4
