"""Healthy pairs of every scenario, drawn at random: no fault is in any of them, so whatever fails is a false alarm.

TorchAir and offline pairs need no framework; pairs of programs (dump.json) need torch. The same seed draws the same
pairs. Networks are small, so that hundreds of pairs take minutes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from named_origins import compare as compare_torchair
from offline_builders import match as match_offline

from generate.offline_compiler import Build
from generate.offline_networks import NETWORKS
from generate.offline_pairs import Spec as OfflineSpec
from generate.torchair_models import MODELS
from generate.torchair_pairs import LAYOUTS
from generate.torchair_pairs import Spec as TorchairSpec
from generate.torchair_reduced import FULL, SCRIPT, reduce_golden, reduce_target
from probe_flow.comparing.asked import Asked
from probe_flow.comparing.steps import compare_pairs
from probe_flow.records import Comparison, Pairs
from probe_flow.stages.compare import Options
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

LEFT_OUT = 0.3
"""Share of the calls that a dump of a part lacks."""

RECOMPUTED = ("plain", "fused", "in_place")
"""Kinds of programs of which every call is computed again, not only what stands out."""

BUILDS = (
    Build("float16"), Build("bfloat16"), Build("float16", is_rough=True), Build("bfloat16", is_rough=True),
    Build(is_fused=False), Build("float32"), Build("float32", is_fused=False),
)  # fmt: skip


class Drawn(NamedTuple):
    """A pair, compared: what it is, in words, and how much of each tensor was there."""

    name: str
    record: str
    """``tensor``, ``statistics``, ``extremes`` or ``checksums``."""
    comparison: Comparison


Draw = Callable[[random.Random, Path], Iterator[Drawn]]


def _in_order(function, batches, **_):
    return ((number, function(batch)) for number, batch in enumerate(batches))


def _compared(pairs: Pairs, asked: Asked) -> Comparison:
    context = Context(
        "result", Path(), _in_order, lambda _event, **_fields: None, lambda _problems: None, Settings(), run_record(),
        isolate=lambda *_: _in_order,
    )  # fmt: skip
    return compare_pairs(pairs, asked, context, None)


def torchair(chance: random.Random, folder: Path) -> Iterator[Drawn]:
    """A graph on a device, fused or not, against the framework's or against the same device without fusion."""
    layout, golden = chance.choice(LAYOUTS), chance.choice(("fx", "fx", "ge"))
    tokens, ranks = chance.choice((1, 1, 2, 3)), chance.choice((1, 1, 2)) if layout == "later" else 1
    spec = TorchairSpec(
        "healthy", chance.choice(list(MODELS)), chance.choice(("float16", "bfloat16")), layout,
        fused=chance.random() < 0.5, tokens=tokens, private=chance.random() < 0.5, ranks=ranks,
        seed=chance.randrange(10**9), golden=golden,
    )  # fmt: skip
    case = spec.generate(folder)
    record = "tensor" if golden == "ge" else chance.choice(("tensor", "tensor", "statistics", "extremes"))
    if record != "tensor":
        for reduce in (reduce_target, reduce_golden):
            reduce(case, FULL if record == "statistics" else SCRIPT)
    yield Drawn(str(spec), record, compare_torchair(case.target, case.golden, case.golden_kind))


def offline(chance: random.Random, folder: Path) -> Iterator[Drawn]:
    """A model's file on a device, with rules, against arrays of its framework (ONNX and Caffe, or TF) or a device's."""
    network, build = chance.choice(list(NETWORKS)), chance.choice(BUILDS)
    spec = OfflineSpec(
        "healthy", network, None, build, chance.choice(("npy", "npy", "om")), chance.choice(("NCHW", "NHWC")),
        chance.choice((1.0, 1.0, 0.7)), chance.randrange(10**9),
    )  # fmt: skip
    case = spec.generate(folder)
    pairs = match_offline(case.target, case.golden, rule=case.rule, close=case.close, quant=case.quant)
    coverage = 0.9 if spec.dumped == 1.0 else 0.8 * spec.dumped
    options = Options(uses="compare", pairs="pairs", policy="offline", require={"coverage": coverage})
    yield Drawn(str(spec), "tensor", _compared(pairs, options.asked()))


def program(kind: str, chance: random.Random, folder: Path) -> Iterator[Drawn]:
    """A program (dump.json) of a kind of `generate.evidence`, with tensors and with statistics."""
    yield from _of_program(kind, chance, folder, lambda: None)


def part_of_program(chance: random.Random, folder: Path) -> Iterator[Drawn]:
    """A program of which the target's dump lacks some calls."""
    kind = chance.choice(("plain", "fused", "in_place", "tokens", "both_16_bits"))
    yield from _of_program(kind, chance, folder, lambda: _leave_out(folder / "target", chance))


def _of_program(kind: str, chance: random.Random, folder: Path, change: Callable[[], None]) -> Iterator[Drawn]:
    from generate.evidence.scores import MODES, compared
    from generate.evidence.sides import run
    from generate.evidence.suites import HEALTHY

    case = HEALTHY[kind](chance)
    run(case, 1, folder / "golden", is_faulty=False)
    run(case, 0, folder / "target", is_faulty=True)
    change()
    for mode in MODES[1:] if case.checksums else MODES:
        found = compared(case, folder, mode, recompute="all" if kind in RECOMPUTED else "auto")
        yield Drawn(case.name, "checksums" if case.checksums else mode, found)


def ranks(chance: random.Random, folder: Path) -> Iterator[Drawn]:
    """Four ranks that add up what they have, products summed otherwise on one side."""
    from rank_dumps import write_ranks

    from generate.evidence.scores import MODES, compared_folders

    seed = chance.randrange(10**6)
    for mode in MODES:
        golden = write_ranks(folder / mode / "golden", task=mode, seed=seed, count=4)
        target = write_ranks(folder / mode / "target", task=mode, seed=seed, count=4, exact=False)
        yield Drawn(str(seed), mode, compared_folders(target, golden))


def _leave_out(side: Path, chance: random.Random) -> None:
    """Remove some calls from the dumps of a side, the same of each mode and step."""
    gone: dict[str, bool] = {}
    for dump in sorted(side.rglob("dump.json")):
        top = json.loads(dump.read_text())
        for entry in list(top["data"]):
            call = entry.rpartition(".")[0]
            if gone.setdefault(call, chance.random() < LEFT_OUT):
                del top["data"][entry]
        dump.write_text(json.dumps(top))


KINDS = (
    "plain", "deep", "trained", "routed", "deciding", "int8", "fused", "in_place", "summed", "tokens", "mindspore",
    "checksums", "both_16_bits", "dropout", "descended",
)  # fmt: skip
"""Kinds of programs: those of `generate.evidence.suites.HEALTHY`, which needs torch to be read."""

SCENARIOS: Mapping[str, Draw] = {
    "TorchAir": torchair,
    "offline": offline,
    "dump.json, part": part_of_program,
    "dump.json, ranks": ranks,
    **{f"dump.json, {kind}": partial(program, kind) for kind in KINDS},
}


def draw(scenario: str, seed: int, number: int, folder: Path) -> Iterator[Drawn]:
    """Yield a pair of a scenario, once for each kind of record that it is compared by; its dumps lie in ``folder``."""
    yield from SCENARIOS[scenario](random.Random(f"{seed} {scenario} {number}"), folder)
