"""The stages that adopt offline dumps: every option reaches its reader."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from om_writer import GoldenFolder, OmFolder, om_tree
from pydantic import ValidationError

from probe_flow.records import Catalog
from probe_flow.stages.base import Select
from probe_flow.stages.dump.adopt_any import adopt_any
from probe_flow.stages.registry import STAGES
from probe_flow.work import Context, NoCache, Settings

X = np.ones((2, 3), "f4")


def adopted(uses: str, path: Path, **options: object) -> Catalog:
    stage = STAGES[uses]
    chosen = stage.options.model_validate_json(json.dumps({"uses": uses, "path": str(path), **options}))
    context = Context("side", path, None, None, None, Settings(), {}, NoCache())  # type: ignore[arg-type]
    catalog = stage.run(chosen, {}, context)
    assert isinstance(catalog, Catalog)
    return catalog


def test_options_of_device_dumps_reach_the_reader(tmp_path: Path) -> None:
    for time in ("20260101000000", "20260202000000"):
        for step in (0, 1):
            made = OmFolder(om_tree(tmp_path, step=step, time=time))
            made.op("Add", "a/b", at=1, outputs=[X])
            made.op("Add", "c", at=2, outputs=[X])
    catalog = adopted(
        "dump.om", tmp_path, time="20260101000000", select={"nodes": ["a/*"], "steps": [1]}, quantised=True
    )

    assert (catalog.side, catalog.framework.name) == ("side", "om")
    assert [(key.execution.step, key.name) for key in catalog.nodes] == [(1, "a/b")]
    assert catalog.attrs["is_quantised"] is True
    assert "20260101000000" in str(catalog.tensors[0].source)
    assert [run.step for run in adopted("dump.om", tmp_path, last_step=True).executions] == [1]


def test_slices_can_be_kept_apart(tmp_path: Path) -> None:
    OmFolder(tmp_path).slices("Add", "a", at=1, parts=[X, X], axis=0)

    assert len(adopted("dump.om", tmp_path).nodes) == 1
    assert len(adopted("dump.om", tmp_path, slices="separate").nodes) == 2


def test_options_of_arrays_reach_the_reader(tmp_path: Path) -> None:
    folder = GoldenFolder(tmp_path)
    folder.output("a", 0, X, at=1)
    folder.output("a", 0, X, at=2)
    folder.output("b", 0, X, at=3)
    catalog = adopted("dump.npy", tmp_path, duplicates="first", quantised=True, select={"nodes": ["a"]})

    assert [ref.source for ref in catalog.tensors] == [str(sorted(tmp_path.iterdir())[0])]
    assert catalog.attrs["is_quantised"] is True


@pytest.mark.parametrize("uses", ["dump.om", "dump.npy"])
def test_unknown_options_are_refused(uses: str) -> None:
    with pytest.raises(ValidationError, match="quantized"):
        STAGES[uses].options.model_validate_json(json.dumps({"uses": uses, "path": ".", "quantized": True}))


def test_both_kinds_are_adopted_by_dump_auto(tmp_path: Path) -> None:
    OmFolder(tmp_path / "target").op("Add", "a", at=1, outputs=[X])
    GoldenFolder(tmp_path / "golden").output("a", 0, X)

    found = {name: adopt_any(str(tmp_path / name), Select(), side=name).framework.name for name in ("target", "golden")}
    assert found == {"target": "om", "golden": "npy"}
