"""When worker processes start before there is work for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from probe_flow.engine.run.tasks import MEASURED_BY, needs_workers
from probe_flow.engine.schedulers.choice import LARGE_WORK_BYTES
from probe_flow.measure import batches


def plan_of(*, uses: str = "compare", uses_processes: bool = True) -> Any:
    stage = SimpleNamespace(stage=SimpleNamespace(type=SimpleNamespace(uses=uses)))
    return SimpleNamespace(executor=SimpleNamespace(uses_processes=uses_processes), selected=(stage,))


def dump_of(*nbytes: int, task: str = "tensor") -> Any:
    return SimpleNamespace(task=task, tensors=[SimpleNamespace(nbytes=each) for each in nbytes])


def test_a_large_dump_that_is_compared_in_processes_needs_them() -> None:
    assert needs_workers(plan_of(), dump_of(LARGE_WORK_BYTES // 2, LARGE_WORK_BYTES // 2 + 1))


@pytest.mark.parametrize(
    ("plan", "dump"),
    [
        (plan_of(), dump_of(LARGE_WORK_BYTES)),
        (plan_of(), dump_of(LARGE_WORK_BYTES + 1, task="statistics")),
        (plan_of(uses="report.graph"), dump_of(LARGE_WORK_BYTES + 1)),
        (plan_of(uses_processes=False), dump_of(LARGE_WORK_BYTES + 1)),
    ],
    ids=["small", "statistics", "not compared", "threads"],
)
def test_others_need_none(plan: Any, dump: Any) -> None:
    assert not needs_workers(plan, dump)


def test_what_they_load_is_where_pairs_are_measured() -> None:
    assert batches.__name__ in MEASURED_BY
