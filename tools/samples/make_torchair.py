"""Make the bundled TorchAir sample: ``python make_torchair.py OUTPUT``.

It writes ``healthy``, ``faulty``, ``fusion`` and ``reference``.

The golden side is real: a small torch model (embedding, two transformer blocks, head) compiled with a backend that runs
the captured aten graph node by node and writes every node's arguments and outputs. The device side is the same graph as
TorchAir lowers it, run in float16. In ``faulty`` the GELU of the second block has a slipped decimal point. ``fusion``
holds two device dumps, with fusion on and off; with fusion on a scale inside a fused operator is wrong. ``reference``
is the golden side again, in float64.
Weights, tokens and timestamps are fixed, so one torch version writes the same bytes each time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from fx_writer import Argument, Array, FxNode, Ref, Trace, write_fx_dump
from ge_device import FIRST_TIMESTAMP, Device, Outputs, Tamper, execute, original_graph, write_tasks
from ge_kernels import GELU_TANH_COEFFICIENT, gelu_tanh
from ge_lowering import GeOp, Lowered, lower
from torch import nn
from torch._dynamo.backends.common import aot_autograd

SEED = 20260101
TOKENS, VOCABULARY, HIDDEN, HEADS, WIDE = 8, 12, 16, 2, 32
RANK_FOLDER = "worldsize1_global_rank0"
DEVICE_FOLDER = f"msprobe_ge_dump/{RANK_FOLDER}/20260101000000/0/graph_1_0/1/0"
GRAPH_FILE = "msprobe_ge_dump/dynamo_original_graph_1_rank_0_pid_4242_ts_20260101000000000001.txt"
FX_FOLDER = f"msprobe_fx_dump/{RANK_FOLDER}/graph_1/0"

FAULTY_OP = "Gelu_1"
WRONG_COEFFICIENT = 10 * GELU_TANH_COEFFICIENT

FUSED_FAULTY_OP = "Mul_3"
WRONG_FACTOR = 0.94

DEVICE = Device(
    storage="float16",
    fused=(("Mul_1", "Add_2"), ("Mul_3", "Add_8")),
    fractal_nz=frozenset({"MatMulV2_2"}),
    converted=("Add_5",),
)
FUSION_OFF = replace(DEVICE, fused=(), fractal_nz=frozenset())
FUSION_OFF_STARTS = FIRST_TIMESTAMP + 500_000_000


class Block(nn.Module):
    """Attention and a GELU network, both behind a norm, with a learned scale on the attention branch."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(HIDDEN)
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.project = nn.Linear(HIDDEN, HIDDEN)
        self.scale = nn.Parameter(torch.empty(HIDDEN))
        self.mlp_norm = nn.LayerNorm(HIDDEN)
        self.up = nn.Linear(HIDDEN, WIDE)
        self.down = nn.Linear(WIDE, HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.attention_norm(x)).view(TOKENS, 3, HEADS, -1).permute(1, 2, 0, 3)
        query, key, value = heads.unbind(0)
        scores = torch.bmm(query, key.transpose(1, 2)) * (HIDDEN // HEADS) ** -0.5
        mixed = torch.bmm(torch.softmax(scores, dim=-1), value).transpose(0, 1).reshape(TOKENS, HIDDEN)
        x = x + self.project(mixed) * self.scale
        result: torch.Tensor = x + self.down(nn.functional.gelu(self.up(self.mlp_norm(x))))
        return result


class Model(nn.Module):
    """Token ids of shape (TOKENS,) to scores of shape (TOKENS, VOCABULARY)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        scores: torch.Tensor = self.head(self.norm(x))
        return scores


@dataclass(slots=True)
class Capture:
    """What one compiled run left: the graph and every tensor of it."""

    trace: Trace
    values: dict[Ref, Array]


def make_model() -> tuple[Model, torch.Tensor]:
    """Return the model and its input. numpy draws the weights: its streams are stable across torch versions."""
    random = np.random.default_rng(SEED)
    model = Model().eval()
    for name, parameter in model.named_parameters():
        fan = parameter.shape[-1] if parameter.ndim > 1 and name != "embed.weight" else 1
        drawn = random.standard_normal(tuple(parameter.shape)) / fan**0.5
        is_gain = name.endswith(("norm.weight", "scale"))
        value = 1 + 0.1 * drawn if is_gain else drawn if parameter.ndim > 1 else 0.1 * drawn
        parameter.data = torch.from_numpy(value.astype(np.float32))
    return model, torch.from_numpy(random.integers(0, VOCABULARY, TOKENS))


def capture(model: nn.Module, example: torch.Tensor) -> Capture:
    """Compile the model with a backend that records, run it once, and return the record."""
    captured: list[Capture] = []

    def compiler(module: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        def run(*inputs: torch.Tensor) -> Any:
            recorder = Recorder(module)
            with torch.no_grad():
                result = recorder.run(*inputs)
            captured.append(Capture(recorder.trace(), recorder.values))
            return result

        boxed: Callable[..., Any] = make_boxed_func(run)
        return boxed

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=aot_autograd(fw_compiler=compiler, decompositions={}), fullgraph=True)
    with torch.no_grad():
        compiled(example)
    (only,) = captured
    return only


class Recorder(torch.fx.Interpreter):
    """Run a captured graph node by node and keep every tensor, under the node that made it."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.values: dict[Ref, Array] = {}
        self.nodes: list[FxNode] = []
        self.placeholders: list[str] = []
        self.refs: dict[str, Ref] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op == "placeholder":
            self.placeholders.append(n.name)
        if n.op == "output":
            return result
        if _is_getitem(n):
            source, index = n.args
            self.refs[n.name] = Ref(str(source), int(str(index)))
            return result
        self.refs[n.name] = Ref(n.name)
        outputs = result if isinstance(result, (tuple, list)) else [result]
        for index, output in enumerate(outputs):
            self.values[Ref(n.name, index)] = output.detach().clone().numpy()
        if n.op == "call_function":
            arguments = tuple(self._argument(argument) for argument in n.args)
            self.nodes.append(FxNode(n.name, str(n.target), arguments, len(outputs)))
        return result

    def trace(self) -> Trace:
        return Trace(tuple(self.placeholders), tuple(self.nodes))

    def _argument(self, argument: Any) -> Argument:
        if isinstance(argument, torch.fx.Node):
            return self.refs[argument.name]
        if isinstance(argument, (list, tuple)):
            return [self._argument(item) for item in argument]
        plain: Argument = argument
        return plain


def _is_getitem(n: torch.fx.Node) -> bool:
    return n.op == "call_function" and getattr(n.target, "__name__", "") == "getitem"


def wrong_gelu(op: GeOp, inputs: Sequence[Array], outputs: Outputs) -> Outputs:
    """Return the tanh form of GELU with ten times its cubic term where the fault sits, else what is right."""
    if op.name != FAULTY_OP:
        return outputs
    return (gelu_tanh(inputs[0].astype(np.float32), coefficient=WRONG_COEFFICIENT),)


def damped(op: GeOp, _: Sequence[Array], outputs: Outputs) -> Outputs:
    """Return too little where the fault inside the fused operator sits, else what is right."""
    return (outputs[0] * np.float32(WRONG_FACTOR),) if op.name == FUSED_FAULTY_OP else outputs


def write_device(
    root: Path, lowered: Lowered, feeds: dict[str, Array], device: Device, tamper: Tamper | None, start: int
) -> None:
    """Run the graph on a device and write its dump and graph text below ``root``."""
    execution = execute(lowered, feeds, device, tamper=tamper)
    write_tasks(root / DEVICE_FOLDER, execution, start=start)
    text = original_graph(lowered, execution, device.storage, graph=1, has_constants=True)
    (root / GRAPH_FILE).write_text(text, encoding="utf-8")


def write_sample(output: Path) -> None:
    """Write all variants below ``output``; their folders must not exist yet."""
    captured = capture(*make_model())
    lowered = lower(captured.trace)
    feeds = {name: captured.values[Ref(name)] for name in captured.trace.placeholders}
    for variant, tamper in (("healthy", None), ("faulty", wrong_gelu)):
        root = output / variant
        write_device(root, lowered, feeds, DEVICE, tamper, FIRST_TIMESTAMP)
        write_fx_dump(root / FX_FOLDER, captured.trace, captured.values)
    write_device(output / "fusion" / "fusion_on", lowered, feeds, DEVICE, damped, FIRST_TIMESTAMP)
    write_device(output / "fusion" / "fusion_off", lowered, feeds, FUSION_OFF, None, FUSION_OFF_STARTS)
    model, tokens = make_model()
    exact = capture(model.double(), tokens)
    write_fx_dump(output / "reference" / FX_FOLDER, exact.trace, exact.values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="folder to write healthy/, faulty/, fusion/ and reference/ into")
    write_sample(parser.parse_args().output)


if __name__ == "__main__":
    main()
