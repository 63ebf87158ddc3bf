"""Faults and healthy pairs of `generate.evidence`, a few of each kind; docs/explanation/diagnosis.md has the many."""

from __future__ import annotations

import random

import pytest

pytestmark = pytest.mark.frameworks
torch = pytest.importorskip("torch")

from generate.evidence.scores import scored  # noqa: E402
from generate.evidence.suites import FAULTY, HEALTHY  # noqa: E402


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def drawn(suite, name, number):
    return suite[name](random.Random(f"2411 {name} {number} {suite is FAULTY}"))


@pytest.mark.parametrize("name", [*HEALTHY])
def test_healthy_pairs_do_not_alarm(name, tmp_path):
    for number in range(2):
        for score in scored(drawn(HEALTHY, name, number), tmp_path / str(number)):
            assert not score.fails, (score.case.name, score.mode, score.named)


def test_faults_of_each_kind_are_named_first_and_none_passes_in_silence(tmp_path):
    """But fused recurrences in 16 bits, which nothing computes again: a channel that lost a third of itself passes."""
    kinds = [name for name in FAULTY if name not in ("deep", "later_step", "fused")]
    scores = [score for name in kinds for score in scored(drawn(FAULTY, name, 0), tmp_path / name)]
    tensor = [score for score in scores if score.mode == "tensor"]
    assert len(tensor) >= 6
    assert [(score.case.name, score.named) for score in tensor if not score.fails] == []
    assert sum(score.first for score in tensor) >= len(tensor) - 1, [s.case.name for s in tensor if not s.first]
