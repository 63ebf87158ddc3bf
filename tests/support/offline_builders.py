"""Match small offline dumps in tests: write both sides and the rules, pair them, read pairs as compare reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rule_builders as rules
from om_writer import GoldenFolder, OmFolder

from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.dumps.offline.om_dump import read_om
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.elements.blocks import open_tensor
from probe_flow.matching.offline.by_ids import Selection
from probe_flow.matching.offline.match_offline import match_offline
from probe_flow.matching.offline.models import RuleBook
from probe_flow.matching.rules.merge import FusionRules
from probe_flow.measure.sides import aligned_sides
from probe_flow.records import Catalog, Pair, Pairs, SlotRole, TensorRef


@dataclass
class Case:
    """Two dumps and their rules in the making."""

    path: Path

    def __post_init__(self) -> None:
        self.target = OmFolder(self.path / "target")
        self.golden = GoldenFolder(self.path / "golden")
        self.at = 0

    def device(self, op_type: str, name: str, **content: Any) -> Path:
        """Write a device operator, a little later than the last one."""
        self.at += 1
        return self.target.op(op_type, name, at=self.at, **content)

    def rule(self, *ops: rules.Tree, file: str = "fr", **model: Any) -> Path:
        """Write a rule file of one graph."""
        return rules.write(self.path / f"{file}.json", rules.model(*ops, **model))

    def match(
        self,
        *,
        rule: Path | None = None,
        close: Path | None = None,
        quant: Path | None = None,
        golden: Path | None = None,
        **options: Any,
    ) -> Pairs:
        """Pair the dumps as the stage does."""
        return match(self.target.path, golden or self.golden.path, rule=rule, close=close, quant=quant, **options)


def match(
    target: Path,
    golden: Path,
    *,
    rule: Path | None = None,
    close: Path | None = None,
    quant: Path | None = None,
    select: Callable[[FusionRules], Selection] | None = None,
    **options: Any,
) -> Pairs:
    """Pair two folders; arrays are told by their suffix."""
    book = RuleBook(
        () if rule is None else (read_rule_file(rule),),
        close=() if close is None else (read_rule_file(close),),
        quant=None if quant is None else read_rule_file(quant),
    )
    return match_offline(read(target, "target"), read(golden, "golden"), book, select=select, **options)


def read(path: Path, side: str) -> Catalog:
    """Read a dump of either kind."""
    return read_npy_folder(path, side=side) if any(path.glob("*.npy")) else read_om(path, side=side)


def by_target(pairs: Pairs) -> Mapping[str, Pair]:
    """Return the pairs of target tensors by their ids, each of which is there once."""
    found = [pair for pair in pairs.pairs if pair.target is not None]
    named = {pair.target.id: pair for pair in found if pair.target is not None}
    assert len(named) == len(found)
    return named


def by_golden(pairs: Pairs) -> Mapping[str, Pair]:
    """Return the pairs that only have a golden tensor by its id."""
    return {pair.golden.id: pair for pair in pairs.pairs if pair.target is None and pair.golden is not None}


def partners(pairs: Pairs) -> dict[str, str]:
    """Return target id -> golden id of what is compared."""
    return {
        pair.target.id: pair.golden.id for pair in pairs.pairs if pair.target is not None and pair.golden is not None
    }


def codes(found: Mapping[str, Pair]) -> dict[str, str]:
    """Return id -> code and expectation of what is not compared, or with a remark."""
    return {name: f"{pair.reason.code} {pair.reason.expectation.value}" for name, pair in found.items() if pair.reason}


def values(pair: Pair) -> tuple[np.ndarray, np.ndarray]:
    """Return what compare reads of both sides, flat."""
    target, golden = aligned_sides(pair)
    return _flat(target), _flat(golden)


def check_complete(pairs: Pairs) -> None:
    """Every tensor of both catalogs is in a pair, as the same object; whatever has no partner says why."""
    for catalog, side in ((pairs.target, "target"), (pairs.golden, "golden")):
        paired = {id(getattr(pair, side)) for pair in pairs.pairs}
        lost = [ref.id for ref in catalog.tensors if id(ref) not in paired]
        assert lost == []
    assert all(pair.reason is not None and pair.reason.text for pair in one_sided(pairs))
    known = {group.id for group in pairs.groups}
    assert {pair.group for pair in pairs.pairs} <= known
    outputs = [pair.target for pair in pairs.pairs if pair.target and pair.target.slot.role is SlotRole.OUTPUT]
    assert len({id(ref) for ref in outputs}) == len(outputs)


def one_sided(pairs: Pairs) -> Iterable[Pair]:
    """Return the pairs that lack a side."""
    return [pair for pair in pairs.pairs if pair.target is None or pair.golden is None]


def _flat(ref: TensorRef) -> np.ndarray:
    with open_tensor(ref) as blocks:
        return np.asarray(blocks.read(0, ref.numel or 0), dtype=np.float64)
