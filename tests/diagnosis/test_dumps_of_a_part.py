"""Dumps that hold a part of the calls: what these read was made by others, which accuse nobody."""

from __future__ import annotations

import random

import pytest

pytestmark = [pytest.mark.frameworks, pytest.mark.usefixtures("one_thread")]
torch = pytest.importorskip("torch")

from generate.evidence.parts import keep_part  # noqa: E402
from generate.evidence.scores import MODES, compared  # noqa: E402
from generate.evidence.sides import run  # noqa: E402
from generate.evidence.suites import FAULTY, HEALTHY  # noqa: E402


def partly(suite, name, number, kind, folder):
    """Draw a pair, keep a part of its calls; return it, what stays, and the comparison in each mode."""
    seed = f"2411 {name} {number}"
    case = suite[name](random.Random(f"{seed} {suite is FAULTY}"))
    for side in (1, 0):
        run(case, side, folder / ("target", "golden")[side], is_faulty=not side)
    kept = [keep_part(folder, mode, kind, random.Random(f"{seed} {kind}")) for mode in MODES]
    return case, kept[0], {mode: compared(case, folder, mode) for mode in MODES}


@pytest.mark.parametrize(
    ("name", "kind"),
    [("dropout", "list"), ("dropout", "scope"), ("routed", "list"), ("deciding", "scope"), ("in_place", "chosen")],
)
def test_what_calls_that_were_left_out_drew_or_decided_otherwise_is_no_fault(name, kind, tmp_path):
    for number in range(3):
        case, _, found = partly(HEALTHY, name, number, kind, tmp_path / str(number))
        for mode, comparison in found.items():
            assert not [each.evidence for each in comparison.findings if each.fails], (case.name, mode)


def test_a_fault_in_a_call_that_is_held_is_named_first(tmp_path):
    named = {mode: [] for mode in MODES}
    for number in range(6):
        case, kept, found = partly(FAULTY, "single", number, "scope", tmp_path / str(number))
        entry = case.faults[0].entry
        for mode, comparison in found.items():
            if entry in kept:
                first = [comparison.pairs.target.nodes[each.node].entry for each in comparison.findings[:1]]
                named[mode].append(first == [entry])
    assert all(all(each) and each for each in named.values()), named
