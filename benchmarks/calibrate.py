"""Measure what healthy runs reach of the limits of the search: ``python -m benchmarks.calibrate [--pairs N]``.

Pairs without a fault are drawn in every scenario (`tests/generate/healthy.py`; needs torch), as many by the seed `FIT`,
by which limits may be set, as by `CHECK`, by which none ever was. Each figure of every tensor that the search judged is
divided by its allowance. ``benchmarks/calibration.json`` keeps counts, percentiles and maxima, and how far each limit
lies above what was reached; `tests/repo/test_calibration.py` holds the limits against it. What fails is a false alarm.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.figures import ROOT
from probe_flow.analysis import limits
from probe_flow.analysis.flow.calls import Call
from probe_flow.analysis.limits import LIMITS_OF, Limits
from probe_flow.analysis.model.deviation import Deviation, ErrorFigure
from probe_flow.analysis.model.families import family_of
from probe_flow.analysis.model.growth import HUGE, Allowance
from probe_flow.analysis.search.diagnosis import LIMITED, Diagnosis, scores_of
from probe_flow.analysis.search.drift import outputs_off
from probe_flow.analysis.search.origin import Search
from probe_flow.comparing import steps
from probe_flow.records import Comparison, Pairs
from probe_flow.records.row import Row

FIT, CHECK = 20261130, 61892053
"""Seeds that nothing else draws by. What sets a limit is drawn by the first; the second only says how it holds."""

PAIRS = {"TorchAir": 70, "offline": 70, "dump.json, ranks": 15, "dump.json, deep": 2}
"""Pairs of a scenario by each seed."""

OTHERS = 10
"""The same of those that are not listed."""

PART = "dump.json, part"
"""Drawn when it is named only: what such a dump lacks may explain anything, so it says little of limits."""

DATA = Path(__file__).with_name("calibration.json")
ALLOWANCE = Limits(rms=1.0, peak=1.0, gain=1.0, offset=1.0)

SHARES = {
    "ALONE": (limits.ALONE, "of a limit"),
    "BEYOND": (limits.BEYOND, "own error"),
    "DRIFT": (1.0, "drift"),
    "OTHER_DATA": (1.0, "other data"),
    "OFF, SURE": (1.0, "update"),
    "RECORDED": (1.0, "handed on"),
}
"""What is no multiple of an allowance -> its value, and what it must lie above: shares of the limit that it is."""


class Reached:
    """What was reached: the largest and the percentiles of many numbers, by what they are of."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, ...], list[float]] = defaultdict(list)

    def add(self, *key: str, value: float) -> None:
        """Note a number."""
        self._found[key].append(value)

    def merged(self, *places: int) -> dict[tuple[str, ...], list[float]]:
        """Return the numbers by some parts of their keys only."""
        found: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for key, values in self._found.items():
            found[tuple(key[place] for place in places)] += values
        return found


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Return count, percentiles and maximum."""
    percentiles = np.percentile(values, (50, 99, 99.9)) if len(values) else (0.0, 0.0, 0.0)
    named = zip(("p50", "p99", "p99.9"), percentiles, strict=True)
    return {
        "count": len(values), **{name: _rounded(value) for name, value in named},
        "max": _rounded(max(values, default=0.0)),
    }  # fmt: skip


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


class Weighing(Search):
    """The search of a comparison, which notes what each figure is of its allowance."""

    def __init__(self, rows: Sequence[Row], pairs: Pairs) -> None:
        super().__init__(rows, pairs)
        self._weighed: dict[int, tuple[str, dict[ErrorFigure, float], float]] = {}
        self.figures: list[tuple[str, str, str, str, float]] = []
        """Limits, figure, family and type of elements of each, and how many times its allowance it is."""
        self.shares: list[tuple[str, float]] = []
        """What was held against other limits, in these."""
        self.judged = 0

    def worst_figure(
        self, number: int, deviation: Deviation, allowed: Allowance, limits: Limits
    ) -> tuple[ErrorFigure, float]:
        """Return the worst figure, and keep them all."""
        worst = super().worst_figure(number, deviation, allowed, limits)
        table = next(name for name, known in LIMITS_OF.items() if known is limits)
        found = zip(LIMITED, scores_of(deviation, allowed, ALLOWANCE), strict=True)
        has_mean = allowed.offset < HUGE  # means are judged where only statistics are known
        figures = {figure: score for figure, score in found if has_mean or figure is not ErrorFigure.OFFSET}
        self._weighed[number] = table, figures, worst[1]
        return worst

    def run(self) -> Diagnosis:
        """Search, and note what was reached while the rows still have what was computed again of them."""
        diagnosis = super().run()
        self.judged = len(diagnosis.scores)
        for number, (table, figures, score) in self._weighed.items():
            self._note(number, table, figures, score, diagnosis)
        for number, row in enumerate(self.rows):
            if row.recomputed is not None and not row.recomputed.reason:
                self.shares.append(("own error", row.recomputed.score))
            if self.allowances.handed is not None and not row.is_produced and number in self._weighed:
                self.shares.append(("handed on", self.allowances.handed.gap(number)))
        self.shares += [("drift", error / limit) for _, error, limit in outputs_off(self.rows, diagnosis)]
        return diagnosis

    def _note(
        self, number: int, table: str, figures: Mapping[ErrorFigure, float], score: float, diagnosis: Diagnosis
    ) -> None:
        row, call, final = self.rows[number], self.calls.of[number], diagnosis.scores.get(number, 0.0)
        if number in diagnosis.shaken:
            self.shares.append(("other data", final))
        elif final >= score:  # neither wild, nor what a reference or recomputing clears
            family, dtype = _family(call, is_made=row.is_produced), row.pair.shown.dtype
            self.figures += [(table, figure.value, family, dtype, value) for figure, value in figures.items()]
            self.shares.append(("of a limit", final))
        fit = self.allowances.fit(number) if not self.shaken.noise else None
        if fit is not None:
            self.shares.append(("update", fit.score))


def _family(call: Call | None, *, is_made: bool) -> str:
    if call is None or call.node is None:
        return "unknown"
    if not is_made:
        return "read"
    return ("gradient of " if call.is_gradient else "") + family_of(call.node.op_type).value


class Corpus:
    """The pairs of one seed, compared and weighed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.figures, self.shares = Reached(), Reached()
        self.pairs: Counter[str] = Counter()
        self.judged: Counter[str] = Counter()
        self.alarms: list[str] = []

    def draw(self, scenario: str, count: int, scratch: Path) -> None:
        """Draw and weigh some pairs of a scenario."""
        from generate.healthy import draw

        searches: list[Weighing] = []

        def diagnose(rows: Sequence[Row], pairs: Pairs) -> Diagnosis:
            searches.append(Weighing(rows, pairs))
            return searches[-1].run()

        for number in range(count):
            folder = Path(tempfile.mkdtemp(dir=scratch))
            self.pairs[scenario] += 1
            with patch.object(steps, "diagnose", diagnose):
                for drawn in draw(scenario, self.seed, number, folder):
                    if drawn.record != "checksums":
                        self._add(drawn.record, searches[-1])  # the last one knows what was computed again
                    searches.clear()
                    for each in _alarms(drawn.comparison):
                        self.alarms.append(f"{scenario} {number} {drawn.record}: {each} [{drawn.name}]")
                        print("ALARM", self.seed, self.alarms[-1], flush=True)
            shutil.rmtree(folder)

    def _add(self, record: str, found: Weighing) -> None:
        self.judged[record] += found.judged
        for table, figure, family, dtype, value in found.figures:
            self.figures.add(table, figure, record, family, dtype, value=value)
        for kind, value in found.shares:
            self.shares.add(kind, record, value=value)


def _alarms(found: Comparison) -> Iterator[str]:
    for each in found.findings:
        if each.fails:
            yield f"{each.kind.value} {each.node and each.node.name} {each.slot}: {each.evidence[:200]}"


def constants() -> dict[str, Any]:
    """Return the limits of the search by name, as the file holds them."""
    return {
        name: value._asdict() if hasattr(value, "_asdict") else value
        for name, value in vars(limits).items()
        if name.isupper() and name != "LIMITS_OF"
    }


def of_figures(figures: Mapping[str, Reached]) -> list[dict[str, Any]]:
    """Return each limit of a figure with what was reached of it: margins are of the largest of all splits."""
    rows = []
    for name, known in LIMITS_OF.items():
        for figure, value in known._asdict().items():
            found = {split: each.merged(0, 1)[name, figure] for split, each in figures.items()}
            rows.append(_limit(f"{name}.{figure}", value, "allowances", found))
    return rows


def of_shares(found: Mapping[str, Reached]) -> list[dict[str, Any]]:
    """Return each limit of a share: what was reached counts in that limit."""
    rows = []
    for name, (value, kind) in SHARES.items():
        rows.append(
            _limit(name, value, "of the limit", {split: each.merged(0)[(kind,)] for split, each in found.items()})
        )
    return rows


def _limit(name: str, value: float, unit: str, found: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    most = max((max(values, default=0.0) for values in found.values()), default=0.0)
    return {
        "name": name, "value": value, "unit": unit, "margin": _rounded(value / most) if most else None,
        **{split: summary(values) for split, values in found.items()},
    }  # fmt: skip


def table(found: Mapping[str, Reached], *places: int) -> list[dict[str, Any]]:
    """Return what was reached by some parts of the keys."""
    by = {split: each.merged(*places) for split, each in found.items()}
    keys = sorted({key for each in by.values() for key in each})
    return [{"of": list(key), **{split: summary(each.get(key, ())) for split, each in by.items()}} for key in keys]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calibrate", description=__doc__)
    parser.add_argument("--pairs", type=float, default=1.0, help="times the usual number of pairs")
    parser.add_argument("--scenario", action="append", help="only this one (repeat for several)")
    parser.add_argument("--fit", type=int, default=FIT, help="seed of the pairs by which limits may be set")
    parser.add_argument("--check", type=int, default=CHECK, help="seed of the pairs by which none was set")
    parser.add_argument("--json", type=Path, help=f"write the figures there ({DATA.name} is what the tests read)")
    options = parser.parse_args(arguments)
    for folder in ("tests", "tests/support", "tools/samples"):
        sys.path.append(str(ROOT / folder))
    import torch
    from generate.healthy import SCENARIOS

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    corpora = {"fit": Corpus(options.fit), "check": Corpus(options.check)}
    with tempfile.TemporaryDirectory(prefix="probe_flow_calibrate_") as scratch:
        for scenario in options.scenario or [name for name in SCENARIOS if name != PART]:
            begun = time.process_time()
            for corpus in corpora.values():
                corpus.draw(scenario, round(options.pairs * PAIRS.get(scenario, OTHERS)), Path(scratch))
            print(f"{scenario}: {time.process_time() - begun:.0f} s of CPU", file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(_text(measured(corpora)), encoding="utf-8")
    for split, corpus in corpora.items():
        print(f"{split}: {sum(corpus.pairs.values())} pairs, {sum(corpus.judged.values())} tensors judged, "
              f"{len(corpus.alarms)} alarms")  # fmt: skip
    return 0


def measured(corpora: Mapping[str, Corpus]) -> dict[str, Any]:
    """Return what the file holds."""
    figures = {split: corpus.figures for split, corpus in corpora.items()}
    return {
        "date": date.today().isoformat(),
        "versions": {"python": platform.python_version(), **{name: version(name) for name in ("numpy", "torch")}},
        "seeds": {split: corpus.seed for split, corpus in corpora.items()},
        "pairs": {split: dict(corpus.pairs) for split, corpus in corpora.items()},
        "judged": {split: dict(corpus.judged) for split, corpus in corpora.items()},
        "alarms": {split: corpus.alarms for split, corpus in corpora.items()},
        "constants": constants(),
        "limits": [*of_figures(figures), *of_shares({split: corpus.shares for split, corpus in corpora.items()})],
        "by family": table(figures, 0, 1, 3),
        "by type of elements": table(figures, 0, 1, 4),
        "by record": table(figures, 2, 1),
    }


def _text(found: Mapping[str, Any]) -> str:
    """Return the file's text: a line for each row of a table."""
    lines = []
    for key, value in found.items():
        rows = ",\n".join(f"    {json.dumps(row)}" for row in value) if isinstance(value, list) else ""
        lines.append(f"  {json.dumps(key)}: " + (f"[\n{rows}\n  ]" if rows else json.dumps(value)))
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
