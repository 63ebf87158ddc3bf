"""Faults and healthy pairs of `generate.evidence`, a few of each kind; docs/explanation/diagnosis.md has the many."""

from __future__ import annotations

import random

import pytest

pytestmark = [pytest.mark.frameworks, pytest.mark.usefixtures("one_thread")]
torch = pytest.importorskip("torch")

from generate.evidence.faults import Fault, spoiler  # noqa: E402
from generate.evidence.scores import scored  # noqa: E402
from generate.evidence.suites import FAULTY, HEALTHY  # noqa: E402


def drawn(suite, name, number, seed=2411):
    return suite[name](random.Random(f"{seed} {name} {number} {suite is FAULTY}"))


@pytest.mark.parametrize("name", [*HEALTHY])
def test_healthy_pairs_do_not_alarm(name, tmp_path):
    for number in range(2):
        for score in scored(drawn(HEALTHY, name, number), tmp_path / str(number)):
            assert not score.fails, (score.case.name, score.mode, score.named)


def test_faults_of_each_kind_are_named_first_and_none_passes_in_silence(tmp_path):
    """But in fused recurrences in 16 bits: a channel of small values that lost a third of itself passes."""
    kinds = [name for name in FAULTY if name not in ("deep", "later_step", "fused")]
    scores = [score for name in kinds for score in scored(drawn(FAULTY, name, 0), tmp_path / name)]
    tensor = [score for score in scores if score.mode == "tensor"]
    assert len(tensor) >= 6
    assert [(score.case.name, score.named) for score in tensor if not score.fails] == []
    assert sum(score.first for score in tensor) >= len(tensor) - 1, [s.case.name for s in tensor if not s.first]


@pytest.mark.parametrize(
    ("name", "number", "seed"),
    [
        ("gradient", 6, 4711),  # an offset in the gradient behind a gate in place
        ("decision", 0, 90210),  # sizes part behind a router that no error could turn
        ("decision", 2, 90210),
        ("later_step", 0, 4711),  # twice the learning rate, in bfloat16: what noise may turn explains each parameter
        ("later_step", 2, 90210),  # Nesterov's momentum
    ],
)
def test_faults_that_statistics_missed_once_are_named_first(name, number, seed, tmp_path):
    (score,) = [each for each in scored(drawn(FAULTY, name, number, seed), tmp_path) if each.mode == "statistics"]
    assert score.first, score.named


def test_a_result_that_is_not_contiguous_is_spoilt_as_well():
    """As that of fused attention is: one second fault of seed 66006 was none."""
    for kind in ("element", "one more"):
        given = torch.ones(3, 4).t()
        spoiler([Fault("Torch.a.0.forward", kind, 1.0)], 0)("Torch.a.0.forward", given)
        assert not torch.equal(given, torch.ones(4, 3)), kind


def test_three_bits_of_a_recurrence_are_named_where_its_elements_are_there(tmp_path):
    scores = scored(drawn(FAULTY, "fused", 7, 88104), tmp_path)
    assert [score.first for score in scores if score.mode == "tensor"] == [True]


@pytest.mark.parametrize(
    ("name", "number"),
    [("routed", 13), ("trained", 1), ("plain", 12)],  # scores near 0.25; a step of 0.01 of values of size 0.1; gates
)
def test_pairs_that_alarmed_once_or_came_near_are_left_alone(name, number, tmp_path):
    for score in scored(drawn(HEALTHY, name, number, 4711), tmp_path):
        assert not score.fails, score.named
