"""Faults in real torch models with tensors, two at once or behind dropout: ``python -m generate.recomputed_faults``.

Needs torch. A large fault in the first half of the forward pass and a second one behind it (or in a gradient), the same
models healthy, and with dropout that draws otherwise on both sides. Counts are printed with and without recomputing.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch_collector import Collector, record

from generate.dump_json_models import MODELS, make
from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.matching.name.match_name import match_name
from probe_flow.records import Comparison, FindingKind
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
FAULTY = frozenset({
    "linear", "matmul", "layer_norm", "softmax", "gelu", "add", "mul", "conv2d", "batch_norm", "silu", "tanh",
    "sigmoid", "scaled_dot_product_attention", "div", "relu", "mean", "sum", "cross_entropy", "rsqrt", "pow", "sub",
    "max_pool2d", "embedding", "group_norm", "conv_transpose2d",
})  # fmt: skip
"""Calls that faults are put into; views are left out, which share their elements with what they view."""

KINDS = ("scale", "channel", "element", "coarse", "offset", "row")
LARGE = ("large scale", "row")
DROPPED = 0.1


def spoil(tensor: torch.Tensor, kind: str, chance: random.Random) -> None:
    """Make a result wrong, in place."""
    with torch._C.DisableTorchFunction():
        data, values = tensor.data, tensor.data.float()
        size = float(values.pow(2).mean().sqrt())
        if kind in ("scale", "large scale") or (data.dim() < 2 and kind in ("channel", "row")):
            data.mul_(1.03 if kind == "scale" else 1.3)
        elif kind == "channel":
            data[..., chance.randrange(data.shape[-1])] *= 1.5
        elif kind == "row":
            data[0] = data[-1] * 1.1
        elif kind == "element":
            data.view(-1)[chance.randrange(data.numel())] += 6 * size
        elif kind == "offset":
            data.add_(0.05 * size)
        else:
            mantissa, exponent = np.frexp(values.numpy())
            data.copy_(torch.from_numpy(np.ldexp(np.round(mantissa * 32) / 32, exponent)).to(data.dtype))


def is_faulty_kind(entry: str, value: dict) -> bool:
    """Whether a fault can be put into a call: it writes a float tensor of its own, and not in place."""
    outputs, kwargs = value.get("output") or [None], value.get("input_kwargs", {})
    is_float = isinstance(outputs[0], dict) and str(outputs[0].get("dtype", "")).startswith("torch.float")
    is_in_place = isinstance(kwargs.get("inplace"), dict) and kwargs["inplace"]["value"]
    word = entry.split(".")[1]
    return is_float and not is_in_place and (word in FAULTY) and entry.endswith("forward")


def calls_of(model: torch.nn.Module) -> list[str]:
    """Return the calls of a model that faults can be put into, in their order."""
    with Collector() as collector:
        model.loss()
    return [entry for entry, value in collector.data.items() if is_faulty_kind(entry, value)]


def with_dropout(model: torch.nn.Module) -> torch.nn.Module:
    """Return a model in which every third layer drops a part of its results."""
    layers = [each for each in model.modules() if isinstance(each, (torch.nn.LayerNorm, torch.nn.Linear))]
    for layer in layers[::3]:
        layer.register_forward_hook(lambda _layer, _args, out: torch.nn.functional.dropout(out, DROPPED, training=True))
    return model


def write_pair(
    folder: Path, build: Callable[[], torch.nn.Module], dtype: str, faults: Mapping[str, str], seeds: tuple[int, int]
) -> tuple[Path, Path]:
    """Write a target with faults (entry -> kind) and a golden without; ``seeds`` are those of their dropout."""
    chance = random.Random(0)

    def change(entry: str, out: object) -> None:
        if entry in faults and isinstance(out, torch.Tensor):
            spoil(out, faults[entry], chance)

    sides = []
    for side, kind, changed, seed in (
        ("target", DTYPES[dtype], change, seeds[0]),
        ("golden", torch.float32, None, seeds[1]),
    ):
        model = build().to(kind)
        torch.manual_seed(seed)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        sides.append(record(folder / side, model, optimizer, steps=1, task="tensor", change=changed))
    return sides[0], sides[1]


def in_order(function, batches, **_):
    return iter([(number, function(batch)) for number, batch in enumerate(batches)])


def compared(target: Path, golden: Path, mode: str) -> Comparison:
    """Compare two dumps in this process."""
    context = Context(
        "result", Path(), in_order, lambda _event, **_fields: None, lambda _problems: None, Settings(), run_record(),
        isolate=lambda *_: in_order,
    )  # fmt: skip
    pairs = match_name(read_dump_json(target, side="target"), read_dump_json(golden, side="golden"))
    return compare_pairs(pairs, Asked(recompute=Recompute(mode)), context, None)


def origins(comparison: Comparison) -> list[str]:
    """Return the entries that are named as origins, the first first."""
    nodes = comparison.pairs.target.nodes
    found = [each for each in comparison.findings if each.kind is FindingKind.ORIGIN and each.fails]
    return [nodes[each.node].entry for each in found]


def draw(suite: str, chance: random.Random):
    """Return a model's maker, a dtype, faults and the seeds of dropout."""
    name, dtype, seed = chance.choice(MODELS), chance.choice(list(DTYPES)), chance.randrange(1000)
    drops = suite.startswith("dropout")

    def build() -> torch.nn.Module:
        model = make(name, seed=seed)
        return with_dropout(model) if drops else model

    calls, faults = calls_of(build()), {}
    if suite == "two":
        first = chance.randrange(len(calls) // 2)
        faults = {
            calls[first]: chance.choice(LARGE),
            calls[chance.randrange(first + 1, len(calls))]: chance.choice(KINDS),
        }
    elif suite in ("single", "dropout faults"):
        faults = {chance.choice(calls[len(calls) // 4 :]): chance.choice(KINDS)}
    return name, build, dtype, faults, (1, 2) if drops else (1, 1)


SUITES = ("single", "two", "healthy", "dropout", "dropout faults")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    asked = parser.parse_args()
    chance, found = random.Random(asked.seed), Counter()
    for _ in range(asked.count):
        name, build, dtype, faults, seeds = draw(asked.suite, chance)
        with tempfile.TemporaryDirectory() as folder:
            target, golden = write_pair(Path(folder), build, dtype, faults, seeds)
            for mode in ("never", "auto" if faults else "all"):
                result = compared(target, golden, mode)
                named = origins(result)
                found[mode, "fails"] += any(each.fails for each in result.findings)
                found[mode, "first"] += bool(faults) and named[:1] == list(faults)[:1]
                found[mode, "last"] += bool(faults) and list(faults)[-1] in named
                found[mode, "others"] += len(set(named) - set(faults))
        print(name, dtype, faults, flush=True)  # noqa: T201
    print(asked.suite, asked.seed, asked.count, dict(found))  # noqa: T201


if __name__ == "__main__":
    main()
