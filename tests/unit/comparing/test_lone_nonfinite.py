"""A comparison of tensors alone, no statistics recorded: NaN that begins in a call which the golden lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from raw_pairs import context, pairs_of, raw

from probe_flow.comparing.steps import compare_pairs
from probe_flow.records import Edge, Finding, FindingKind, Flow, SlotRole, Status
from probe_flow.stages.compare import Options
from probe_flow.testing.builders import key

SOUND = np.arange(1, 9, dtype=np.float32)
SPOILT = np.where(SOUND > 6, np.nan, SOUND).astype(np.float32)


@pytest.mark.parametrize(("lone", "named"), [(SPOILT, "log"), (SOUND, "b")], ids=["in it", "behind it"])
def test_it_is_looked_for_in_the_elements_of_that_call(lone: np.ndarray, named: str, tmp_path: Path) -> None:
    read = {"node": "b", "role": SlotRole.INPUT}
    pairs = pairs_of(
        [
            (raw(tmp_path, "target", "a", SOUND), raw(tmp_path, "golden", "a", SOUND)),
            (raw(tmp_path, "target", "log", lone), None),
            (raw(tmp_path, "target", "b_in", SPOILT, **read), raw(tmp_path, "golden", "b_in", SOUND, **read)),
            (raw(tmp_path, "target", "b", SPOILT), raw(tmp_path, "golden", "b", SOUND)),
        ]
    )
    edges = Edge(key("a"), 0, key("log"), 0), Edge(key("log"), 0, key("b"), 0)
    pairs = replace(pairs, target=replace(pairs.target, edges=edges, flow=Flow.GRAPH))
    asked = Options.model_validate({"uses": "compare", "pairs": "pairs"}).asked()
    done = compare_pairs(pairs, asked, context(), None)
    (found,) = (each for each in done.findings if each.kind is FindingKind.NONFINITE_ORIGIN)
    assert _name(found) == named
    (row,) = (each for each in done.rows if each.node.name == "log")
    assert row.verdict.status is Status.UNMATCHED_TARGET
    assert row.measurement is None, "what was looked up for the search is no measurement of a pair"


def test_nothing_more_is_read_where_nan_is_on_both_sides_or_on_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_args: object) -> None:
        raise AssertionError("a tensor without a partner is read")

    monkeypatch.setattr("probe_flow.measure.run.examine_tensors", read)
    pairs = pairs_of(
        [
            (raw(tmp_path, "target", "a", SPOILT), raw(tmp_path, "golden", "a", SPOILT)),
            (raw(tmp_path, "target", "log", SPOILT), None),
        ]
    )
    asked = Options.model_validate({"uses": "compare", "pairs": "pairs"}).asked()
    assert compare_pairs(pairs, asked, context(), None).findings == ()


def _name(found: Finding) -> str:
    assert found.node is not None
    return found.node.name
