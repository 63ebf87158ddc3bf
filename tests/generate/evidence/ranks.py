"""One rank of four that goes wrong, where all add up what they have (`rank_dumps`)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from rank_dumps import Fault, write_ranks

from generate.evidence.scores import ORIGINS, Score, compared_folders
from generate.evidence.sides import Case
from probe_flow.records import Finding, FindingKind

RANKS = 4
CALLS = {
    "scale": ("Torch.relu", "Tensor.__add__", "Functional.linear", "Distributed.all_reduce"),
    "element": ("Torch.relu", "Tensor.__add__", "Functional.linear"),
    "nan": ("Torch.relu", "Functional.linear"),
    "own sum": ("Distributed.all_reduce",),
    "parameter": ("Functional.linear",),
    "no bias": ("Functional.linear",),
    "argument": ("Tensor.__mul__",),
}
TIMES = {"Torch.relu": 4, "Functional.linear": 4}


def drawn(chance: random.Random, *, is_faulty: bool) -> tuple[Case, Fault | None]:
    """Return a pair and its fault; None for a healthy one."""
    seed = chance.randrange(10_000)
    fault = None
    if is_faulty:
        kind = chance.choice(list(CALLS))
        api = chance.choice(CALLS[kind])
        fault = Fault(kind, f"{api}.{chance.randrange(TIMES.get(api, 2))}", chance.randrange(RANKS))
    return Case("one rank of four", f"{seed} {fault}", lambda: None, is_faulty=is_faulty), fault


def scores_of_ranks(chance: random.Random, folder: Path, *, is_faulty: bool) -> Iterator[Score]:
    """Yield the scores of a pair in each mode."""
    case, fault = drawn(chance, is_faulty=is_faulty)
    seed = int(case.name.partition(" ")[0])
    for mode in ("tensor", "statistics"):
        golden = write_ranks(folder / mode / "golden", task=mode, seed=seed, count=RANKS)
        target = write_ranks(folder / mode / "target", task=mode, seed=seed, count=RANKS, fault=fault, exact=False)
        found = compared_folders(target, golden)
        origins = [each for each in found.findings if each.kind in ORIGINS and each.fails]
        suspects = [each for each in found.findings if each.kind is FindingKind.SUSPECT]
        hits = [fault is not None and _place(each) == (fault.call, fault.rank) for each in (*origins, *suspects)]
        named = tuple(f"{_place(each)}: {each.evidence[:200]}" for each in found.findings[:4])
        truth = () if fault is None else (f"{fault.call} of rank {fault.rank}",)
        first = bool(origins) and hits[0]
        yield Score(case, mode, first, any(hits[:3]), None, any(each.fails for each in found.findings), named, truth)


def _place(finding: Finding) -> tuple[str, int]:
    assert finding.node is not None
    return f"{finding.node.name}.{finding.node.call}", finding.node.execution.rank or 0
