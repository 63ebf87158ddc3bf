"""What is drawn: kinds of fault at random places of random models, and as many kinds of healthy pairs."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch_collector import Collector

from generate.dump_json_models import MODELS
from generate.evidence.faults import STRENGTHS, Fault
from generate.evidence.models import make
from generate.evidence.sides import Case, of_optimizer
from generate.recomputed_faults import is_faulty_kind, with_dropout

TARGETS = ("float32", "bfloat16", "bfloat16", "float16")
IN_PLACE = ("relu", "relu6", "leaky_relu", "add_", "mul_", "clamp_", "__iadd__")
PARTS = ("gru", "lstm", "scaled_dot_product_attention", "addcmul", "normalize", "silu", "rms_norm", "layer_norm")
DECISIONS = {
    "argmax": "index", "topk": "index", "argsort": "index", "floor": "one more", "round": "one more", "gt": "turned",
    "one_hot": "index",
}  # fmt: skip
DECIDING = ("deciding", "mixture", "tied_routes", "routed", "deciding")


def calls_of(build: Callable[[], Any], *, backward: bool = True) -> dict[str, dict]:
    """Return the forward calls of a model, by entry."""
    model = build()
    with Collector() as collector, torch.set_grad_enabled(backward):
        model.loss()
    return {entry: value for entry, value in collector.data.items() if entry.endswith("forward")}


def _apis(calls: Mapping[str, dict], *names: str) -> list[str]:
    return [entry for entry in calls if entry.split(".")[1] in names and calls[entry]["output"][0]["shape"]]


def _spoilable(calls: Mapping[str, dict]) -> list[str]:
    return [entry for entry, value in calls.items() if is_faulty_kind(entry, value)]


def _fault(entry: str, value: dict, chance: random.Random, *, kinds: tuple[str, ...] = (), **more: Any) -> Fault:
    shape = value["output"][0]["shape"]
    possible = [
        kind
        for kind in kinds or STRENGTHS
        if not (kind in ("channel", "token", "rows zero") and len(shape) < 2) and (kinds or kind != "token")
    ]
    kind = chance.choice(possible or ["scale"])
    return Fault(entry, kind, chance.choice(STRENGTHS[kind]), **more)


def _one(
    kind: str, models: tuple[str, ...], chance: random.Random, *, apis: tuple[str, ...] = (), late: bool = False,
    **more: Any,
) -> Case:  # fmt: skip
    """Return one fault in a call of one of some models."""
    name, seed, dtype = chance.choice(models), chance.randrange(10_000), more.pop("dtype", chance.choice(TARGETS))
    build = partial(make, name, seed)
    calls = calls_of(build)
    places = _apis(calls, *apis) if apis else _spoilable(calls)
    if late:
        places = places[len(places) // 3 :]
    entry = chance.choice(places)
    fault = _fault(
        entry, calls[entry], chance, **{k: more.pop(k) for k in ("kinds", "is_gradient", "step") if k in more}
    )
    label = (
        f"{name}-{seed} {dtype} {fault.entry} {fault.kind} {fault.strength} {'gradient' if fault.is_gradient else ''}"
    )
    return Case(kind, label, build, dtype, faults=(fault,), is_faulty=True, **more)


def deep(chance: random.Random) -> Case:
    return _one("24 and 48 blocks", ("deep24", "deep48", "residual48"), chance, late=True)


def single(chance: random.Random) -> Case:
    return _one("anywhere", MODELS, chance)


def gradient(chance: random.Random) -> Case:
    kinds = ("scale", "channel", "element", "offset", "rows zero")
    return _one("a gradient", MODELS, chance, is_gradient=True, kinds=kinds)


def one_step(chance: random.Random) -> Case:
    return _one("one step of three", MODELS[:5], chance, steps=3, step=chance.randrange(3))


def in_place(chance: random.Random) -> Case:
    name = chance.choice(("in_place", "in_place", "resnet", "resnet6", "resnet_leaky"))
    apis = IN_PLACE if chance.random() < 0.6 else ()
    return _one("networks in place", (name,), chance, apis=apis)


def fused(chance: random.Random) -> Case:
    name = chance.choice(("fused", "fused", "sdpa", "patches", "recurrent"))
    apis = {"sdpa": PARTS[2:3], "patches": PARTS[2:3], "recurrent": PARTS[:1]}.get(name, PARTS)
    return _one("fused operators", (name,), chance, apis=apis, kinds=("scale", "channel", "element", "coarse"))


def int8(chance: random.Random) -> Case:
    """One channel's scale of a product in int8 is wrong, or what is read is scaled wrongly."""
    seed, dtype = chance.randrange(10_000), chance.choice(("float32", "bfloat16"))
    build = partial(make, "int8", seed)
    calls = calls_of(build)
    entry = chance.choice(_apis(calls, "linear", "mul", "__mul__", "div", "__truediv__", "round")[1:-1])
    is_rounded = entry.split(".")[1] == "round"
    kinds = ("scale", "channel", "channel", "element")
    fault = Fault(entry, "one more", 0.02) if is_rounded else _fault(entry, calls[entry], chance, kinds=kinds)
    label = f"int8-{seed} {dtype} {fault.entry} {fault.kind} {fault.strength}"
    return Case("int8, a scale a channel", label, build, dtype, faults=(fault,), is_faulty=True)


def decision(chance: random.Random) -> Case:
    name, seed, dtype = chance.choice(DECIDING), chance.randrange(10_000), chance.choice(TARGETS)
    build = partial(make, name, seed)
    calls = calls_of(build)
    entry = chance.choice(_apis(calls, *DECISIONS))
    fault = Fault(entry, DECISIONS[entry.split(".")[1]], 0.02)
    return Case(
        "decisions and rounding", f"{name}-{seed} {dtype} {entry} {fault.kind}", build, dtype, faults=(fault,),
        is_faulty=True,
    )  # fmt: skip


def one_token(chance: random.Random) -> Case:
    """One row of a sequence, or one token of several that share a cache."""
    if chance.random() < 0.5:
        names = ("transformer", "llama", "sdpa", "tied", "deep24")
        return _one("one token", names, chance, kinds=("token",))
    seed, dtype = chance.randrange(10_000), chance.choice(TARGETS)
    build = partial(make, "decoder", seed)
    calls = calls_of(build, backward=False)
    entry = chance.choice(_spoilable(calls))
    fault = _fault(entry, calls[entry], chance, kinds=("scale", "channel", "offset"), step=chance.randrange(1, 3))
    label = f"decoder-{seed} {dtype} {entry} {fault.kind} {fault.strength} step {fault.step}"
    return Case("one token", label, build, dtype, faults=(fault,), steps=4, backward=False, is_faulty=True)


def _adamw(parameters: Any, **more: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, **{"lr": 0.01, "weight_decay": 0.05, **more})


def _momentum(parameters: Any, **more: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, **{"lr": 0.05, "momentum": 0.9, **more})


LATER: tuple[tuple[str, Callable, Callable], ...] = (
    ("AdamW, learning rate", partial(of_optimizer, partial(_adamw, lr=0.02)), partial(of_optimizer, _adamw)),
    ("AdamW, second moment", partial(of_optimizer, partial(_adamw, betas=(0.9, 0.5))), partial(of_optimizer, _adamw)),
    ("AdamW, first moment", partial(of_optimizer, partial(_adamw, betas=(0.0, 0.999))), partial(of_optimizer, _adamw)),
    ("AdamW, decay", partial(of_optimizer, partial(_adamw, weight_decay=5.0)), partial(of_optimizer, _adamw)),
    ("momentum lost", partial(of_optimizer, partial(_momentum, momentum=0.0)), partial(of_optimizer, _momentum)),
    ("Nesterov", partial(of_optimizer, partial(_momentum, nesterov=True)), partial(of_optimizer, _momentum)),
    ("descent uphill", partial(of_optimizer, partial(_momentum, maximize=True)), partial(of_optimizer, _momentum)),
    (
        "accumulation lost",
        partial(of_optimizer, _momentum, every=2, keeps=False),
        partial(of_optimizer, _momentum, every=2),
    ),
    ("accumulated twice", partial(of_optimizer, _adamw, every=2), partial(of_optimizer, _adamw, every=1)),
)


def later_step(chance: random.Random) -> Case:
    """An optimizer that does not what it should: all parameters of a later step are wrong."""
    name, seed, dtype = chance.choice(MODELS[:5]), chance.randrange(10_000), chance.choice(("float32", "bfloat16"))
    what, wrong, right = chance.choice(LATER)
    return Case(
        "shows at a later step", f"{name}-{seed} {dtype} {what}", partial(make, name, seed), dtype, steps=3,
        train=(wrong, right), is_faulty=True, is_of_parameters=True,
    )  # fmt: skip


def two(chance: random.Random) -> Case:
    name, seed, dtype = chance.choice(MODELS), chance.randrange(10_000), chance.choice(TARGETS)
    build = partial(make, name, seed)
    calls = calls_of(build)
    places = _spoilable(calls)
    first = chance.randrange(len(places) // 2)
    second = chance.randrange(first + 1, len(places))
    faults = (
        Fault(places[first], "scale", chance.choice((0.3, -0.4))),
        _fault(places[second], calls[places[second]], chance),
    )
    label = f"{name}-{seed} {dtype} {[(f.entry, f.kind, f.strength) for f in faults]}"
    return Case("two at once", label, build, dtype, faults=faults, is_faulty=True)


def mindspore(chance: random.Random) -> Case:
    way = chance.choice(("built-in table", "API mapping", "data mapping"))
    return _one("MindSpore names", ("transformer", "cnn", "unet", "llama", "sdpa"), chance, as_mindspore=way)


def checksums(chance: random.Random) -> Case:
    dtype = chance.choice(("float32", "bfloat16"))
    return _one("checksums", MODELS, chance, dtype=dtype, golden=dtype, checksums=True)


def both_16_bits(chance: random.Random) -> Case:
    return _one("bfloat16 on both sides", MODELS, chance, dtype="bfloat16", golden="bfloat16", noise=1e-3)


def behind_dropout(chance: random.Random) -> Case:
    case = _one("behind dropout", ("transformer", "llama", "deep", "patches"), chance, late=True)
    (fault,) = case.faults
    return _dropped(case, fault)


def _dropped(case: Case, *faults: Fault) -> Case:
    build = case.build
    return Case(
        case.kind, case.name, lambda: with_dropout(build()), case.dtype, faults=faults, seeds=(1, 2),
        is_faulty=bool(faults),
    )  # fmt: skip


FAULTY: dict[str, Callable[[random.Random], Case]] = {
    "single": single, "gradient": gradient, "deep": deep, "one_step": one_step, "later_step": later_step,
    "one_token": one_token, "decision": decision, "int8": int8, "fused": fused, "in_place": in_place, "two": two,
    "mindspore": mindspore, "checksums": checksums, "both_16_bits": both_16_bits, "behind_dropout": behind_dropout,
}  # fmt: skip


def _healthy(kind: str, models: tuple[str, ...], chance: random.Random, **more: Any) -> Case:
    name, seed, dtype = chance.choice(models), chance.randrange(10_000), more.pop("dtype", chance.choice(TARGETS))
    if dtype == "float32" and "noise" not in more:
        more["noise"] = 1e-7
    return Case(kind, f"{name}-{seed} {dtype}", partial(make, name, seed), dtype, **more)


def _trained(chance: random.Random) -> Case:
    _, _, right = chance.choice(LATER)
    dtype = chance.choice(("float32", "bfloat16"))  # the eps of Adam is zero in float16: NaN is right there
    return _healthy("three steps, optimizers", MODELS[:5], chance, dtype=dtype, steps=3, train=(right, right))


HEALTHY: dict[str, Callable[[random.Random], Case]] = {
    "plain": lambda chance: _healthy("plain", MODELS, chance),
    "deep": lambda chance: _healthy("24 and 48 blocks", ("deep24", "deep48", "residual48"), chance),
    "trained": _trained,
    "descended": lambda chance: _healthy("three steps of descent", MODELS, chance, steps=3),
    "routed": lambda chance: _healthy("near-tied routing", ("tied_routes", "routed", "mixture"), chance),
    "deciding": lambda chance: _healthy("decisions and rounding", ("deciding",), chance),
    "int8": lambda chance: _healthy(
        "int8, a scale a channel", ("int8",), chance, dtype=chance.choice(("float32", "bfloat16"))
    ),
    "fused": lambda chance: _healthy("fused operators", ("fused",), chance),
    "in_place": lambda chance: _healthy("networks in place", ("in_place", "resnet", "resnet6", "resnet_leaky"), chance),
    "summed": lambda chance: _healthy(
        "sums in any order", ("summed", "routed", "cnn"), chance, dtype="float32", noise=chance.choice((1e-7, 5e-7))
    ),
    "tokens": lambda chance: _healthy("tokens with a cache", ("decoder",), chance, steps=4, backward=False),
    "mindspore": lambda chance: _healthy(
        "MindSpore names",
        ("transformer", "cnn", "unet"),
        chance,
        as_mindspore=chance.choice(("built-in table", "API mapping", "data mapping")),
    ),
    "checksums": lambda chance: _healthy(
        "checksums", MODELS, chance, dtype="bfloat16", golden="bfloat16", checksums=True
    ),
    "both_16_bits": lambda chance: _healthy(
        "bfloat16 on both sides", MODELS, chance, dtype="bfloat16", golden="bfloat16", noise=1e-3
    ),
    "dropout": lambda chance: _dropped(_healthy("dropout drawn otherwise", ("transformer", "llama", "deep"), chance)),
}
