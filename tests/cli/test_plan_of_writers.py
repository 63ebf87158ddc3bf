"""`probe-flow plan` writes nothing, whatever the stages of a workflow would write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from om_writer import OmFolder

STAGES = {
    "convert.layout": ("{uses: convert.layout, dump: target, layout: ND}", "writes the converted tensors to the run"),
    "convert.npy": ("{uses: convert.npy, dump: target, output: out}", "writes the converted tensors to `"),
    "convert.pt": ("{uses: convert.pt, dump: target, order: stored}", "writes the converted tensors to the run"),
    "reduce.minmax": ("{uses: reduce.minmax, path: dump}", "writes reduced files beside the dumped ones"),
    "reduce.statistics": ("{uses: reduce.statistics, path: dump, output: out}", "writes reduced files to `"),
    "reduce.checksum": ("{uses: reduce.checksum, path: dump, delete_source: true}", "ones and deletes these"),
}


@pytest.mark.parametrize("uses", sorted(STAGES))
def test_a_plan_says_what_a_stage_writes_and_leaves_it_unwritten(
    uses: str, probe_flow: Callable[..., Any], tmp_path: Path
) -> None:
    OmFolder(tmp_path / "dump").op("Add", "a", at=1, outputs=[np.zeros((1, 2, 3, 4))])
    stage, does = STAGES[uses]
    text = f"version: 1\nname: w\nstages:\n  target: {{uses: dump.om, path: dump}}\n  small: {stage}\n"
    (tmp_path / "w.yaml").write_text(text)
    before = sorted(tmp_path.rglob("*"))

    done = probe_flow("plan", "w.yaml")

    assert done.code == 0, done.err
    assert does in " ".join(done.out.split())
    assert sorted(tmp_path.rglob("*")) == before
