"""What healthy runs reach: percentiles, margins, and what is noted of a pair."""

from __future__ import annotations

import json
import random

import pytest
from generate.healthy import SCENARIOS, draw

from benchmarks.calibrate import Corpus, measured, of_figures, summary, table
from probe_flow.analysis.limits import LIMITS


def test_a_summary_has_count_percentiles_and_maximum():
    values = [float(number) for number in range(1, 1002)]
    random.Random(1).shuffle(values)
    assert summary(values) == {"count": 1001, "p50": 501.0, "p99": 991.0, "p99.9": 1000.0, "max": 1000.0}
    assert summary([]) == {"count": 0, "p50": 0.0, "p99": 0.0, "p99.9": 0.0, "max": 0.0}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    found = {"fit": Corpus(1), "check": Corpus(2)}
    for corpus in found.values():
        for scenario in ("TorchAir", "offline"):
            corpus.draw(scenario, 1, tmp_path_factory.mktemp("pairs"))
    return found


def test_what_is_noted_is_what_the_search_found(corpora, tmp_path):
    judged, excess = 0, []
    for scenario in ("TorchAir", "offline"):
        (tmp_path / scenario).mkdir()
        for drawn in draw(scenario, 1, 0, tmp_path / scenario):
            excess += [row.verdict.excess for row in drawn.comparison.rows if row.verdict.excess is not None]
    judged = sum(corpora["fit"].judged.values())
    assert judged == len(excess) > 20
    assert max(corpora["fit"].shares.merged(0)["of a limit",]) == pytest.approx(max(excess))
    assert corpora["fit"].alarms == []


def test_a_margin_is_that_over_the_largest_of_both_halves(corpora):
    figures = {split: corpus.figures for split, corpus in corpora.items()}
    row = next(each for each in of_figures(figures) if each["name"] == "LIMITS.rms")
    most = max(row["fit"]["max"], row["check"]["max"])
    assert 0.0 < most < LIMITS.rms
    assert row["margin"] == pytest.approx(LIMITS.rms / most, rel=0.01)
    by_family = table(figures, 0, 1, 3)
    of_rms = [each for each in by_family if each["of"][:2] == ["LIMITS", "rms"]]
    assert max(each["fit"]["max"] for each in of_rms) == row["fit"]["max"]
    assert sum(each["fit"]["count"] for each in of_rms) == row["fit"]["count"]


def test_pairs_of_the_same_seed_are_the_same(tmp_path):
    assert len(SCENARIOS) == 19
    names = []
    for turn in ("once", "again"):
        (tmp_path / turn).mkdir()
        names.append([drawn.name for drawn in draw("offline", 3, 1, tmp_path / turn)])
    assert names[0] == names[1]


def test_the_file_is_json(corpora, monkeypatch):
    monkeypatch.setattr("benchmarks.calibrate.version", lambda _name: "1.0")
    assert json.loads(json.dumps(measured(corpora)))["pairs"]["fit"] == {"TorchAir": 1, "offline": 1}
