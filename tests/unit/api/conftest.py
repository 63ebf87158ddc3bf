"""Runs of the bundled sample that several tests look at, with the checkout as working directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import probe_flow as pf
from probe_flow.analysis.policies.registry import POLICIES
from probe_flow.dumps.registry import READERS
from probe_flow.metrics.catalogue.registry import METRICS
from probe_flow.reports.layout import LAYOUTS
from probe_flow.stages.registry import STAGES

ROOT = Path(__file__).resolve().parents[3]
FAULTY = ROOT / "examples" / "torchair" / "faulty"
HEALTHY = ROOT / "examples" / "torchair" / "healthy"
WORKFLOW = ROOT / "workflows" / "torchair_ge_vs_fx.yaml"


@pytest.fixture(scope="session")
def faulty() -> pf.Run:
    return pf.compare(FAULTY / "msprobe_ge_dump", FAULTY / "msprobe_fx_dump")


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """What a test registers is gone behind it."""
    registries = METRICS, POLICIES, LAYOUTS, READERS, STAGES
    known = [dict(each._registered) for each in registries]
    yield
    for each, before in zip(registries, known, strict=True):
        each._registered.clear()
        each._registered.update(before)
