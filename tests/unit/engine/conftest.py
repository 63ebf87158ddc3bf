from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import fake_stages
import pytest

from probe_flow.workflow.loading.loader import load_workflow
from probe_flow.workflow.model import Workflow


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Workflow]:
    """Return a function that writes a workflow of fake stages into ``tmp_path`` and loads it."""
    monkeypatch.setattr("probe_flow.workflow.loading.loader.STAGES", fake_stages.STAGES)

    def load(*, sets: dict[str, str] | None = None, **project: str) -> Workflow:
        path = fake_stages.write_project(tmp_path, **project)
        return load_workflow(path, sets=sets or {}, env={}, cwd=tmp_path)

    return load
