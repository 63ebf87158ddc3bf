"""Runs of the bundled sample that several tests look at, with the checkout as working directory."""

from __future__ import annotations

from pathlib import Path

import pytest

import probe_flow as pf

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
