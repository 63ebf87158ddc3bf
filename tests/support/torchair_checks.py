"""What tests of the TorchAir matcher ask of its pairs, and what must hold for all of them."""

from __future__ import annotations

from probe_flow.errors import CODES
from probe_flow.records import Expectation, Pair, Pairs


def check_complete(pairs: Pairs) -> None:
    """Every tensor occurs, one-sided pairs have reasons, groups exist, codes are known."""
    shown = {id(pair.target) for pair in pairs.pairs} | {id(pair.golden) for pair in pairs.pairs}
    assert all(id(ref) in shown for catalog in (pairs.target, pairs.golden) for ref in catalog.tensors)
    assert all(pair.reason is not None for pair in pairs.pairs if pair.target is None or pair.golden is None)
    assert {pair.group for pair in pairs.pairs} <= {group.id for group in pairs.groups}
    assert len({group.id for group in pairs.groups}) == len(pairs.groups)
    assert all(problem.code in CODES for problem in pairs.problems)
    targets = [id(pair.target) for pair in pairs.pairs if pair.target is not None]
    assert len(targets) == len(set(targets))


def by_target(pairs: Pairs) -> dict[str, Pair]:
    return {pair.target.id: pair for pair in pairs.pairs if pair.target is not None}


def golden_of(pairs: Pairs) -> dict[str, str | None]:
    return {name: pair.golden.id if pair.golden is not None else None for name, pair in by_target(pairs).items()}


def reasons(pairs: Pairs) -> dict[str, str]:
    """Return tensor -> reason code of one-sided pairs; golden tensors carry a ``golden:`` before their id."""
    found = {}
    for pair in pairs.pairs:
        if pair.target is None or pair.golden is None:
            assert pair.reason is not None
            found[("golden:" if pair.target is None else "") + pair.shown.id] = pair.reason.code
    return found


def missing(pairs: Pairs) -> list[str]:
    return [
        pair.shown.id
        for pair in pairs.pairs
        if pair.reason is not None
        and pair.reason.expectation is Expectation.MISSING
        and (pair.target is None or pair.golden is None)
    ]
