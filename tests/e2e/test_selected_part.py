"""Comparisons of selected nodes: what the others made of their inputs accuses nobody, and what is wrong is named."""

from __future__ import annotations

import pytest

from e2e.projects import SAMPLE, TORCHAIR


@pytest.mark.parametrize(("case", "code", "named"), [("healthy", 3, None), ("faulty", 1, "Gelu_1")])
def test_inputs_that_nodes_outside_of_the_selection_made_are_undecided(probe_flow, tmp_path, case, code, named):
    workflow = tmp_path / "part.yaml"
    workflow.write_text(
        f"version: 1\nextends: {TORCHAIR}\nstages:\n"
        "  target: {select: {nodes: ['Gelu*']}}\n"
        "  golden: {select: {nodes: ['gelu*']}}\n"
    )
    target, golden = (SAMPLE / case / f"msprobe_{kind}_dump" for kind in ("ge", "fx"))
    done = probe_flow("run", workflow, f"--set=target={target}", f"--set=golden={golden}")

    assert done.code == code
    failing = [each for each in done.record["findings"] if each["fails"]]
    assert [each["node"] for each in failing] == ([named] if named else [])
    if named is None:
        assert done.record["incomplete"] == [
            "`Gelu` input.0, call 0, is off, and the dump does not hold the calls that made it"
        ]
