"""Second faults, faults behind dropout, and the healthy pairs that recomputing must not accuse: real torch models."""

from __future__ import annotations

import random

import pytest

pytestmark = [pytest.mark.frameworks, pytest.mark.usefixtures("one_thread")]
torch = pytest.importorskip("torch")

from generate.recomputed_faults import compared, draw, origins, write_pair  # noqa: E402

from probe_flow.records import FindingKind  # noqa: E402


def pairs_of(suite, folder, count, seed=24):
    chance = random.Random(seed)
    for number in range(count):
        name, build, dtype, faults, seeds = draw(suite, chance)
        yield f"{name} {dtype} {faults}", faults, write_pair(folder / str(number), build, dtype, faults, seeds)


def test_a_second_fault_behind_a_large_one_is_named(tmp_path):
    found = {}
    for label, faults, sides in pairs_of("two", tmp_path, 5):
        named = origins(compared(*sides, "auto"))
        found[label] = (named[:1] == list(faults)[:1], list(faults)[1] in named)
    assert sum(first for first, _ in found.values()) >= 4, found  # one is a factor of what is zero
    assert sum(second for _, second in found.values()) >= 4, found


@pytest.mark.parametrize("suite", ["healthy", "dropout"])
def test_no_healthy_pair_is_accused_by_recomputing_all_of_it(tmp_path, suite):
    for label, _, sides in pairs_of(suite, tmp_path, 3):
        result = compared(*sides, "all")
        assert [each.evidence for each in result.findings if each.fails] == [], label
        assert any(each.kind is FindingKind.RANDOM_STATE for each in result.findings) == (suite == "dropout"), label
