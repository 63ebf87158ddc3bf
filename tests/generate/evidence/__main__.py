"""Draw, compare and count: ``python -m generate.evidence FOLDER --seed 7 --faults 10 --healthy 10`` from ``tests/``.

Needs torch. Writes a line for each pair whose fault is not named first, or that alarms though it is healthy, and a
table by kind. The same seed draws the same pairs.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import time
import traceback
from collections import Counter, defaultdict
from pathlib import Path

import torch

from generate.evidence.ranks import scores_of_ranks
from generate.evidence.scores import MODES, Score, scored
from generate.evidence.suites import FAULTY, HEALTHY

MOST = 4
"""Draws for each fault that is asked for: those that stand out nowhere are left out."""


def _rows(scores: list[Score]) -> dict[tuple[str, str], list[Score]]:
    rows: dict[tuple[str, str], list[Score]] = defaultdict(list)
    for each in scores:
        rows[each.case.kind, each.mode].append(each)
    return rows


def table(scores: list[Score]) -> list[str]:
    """Return the lines of a Markdown table, a row for each kind."""
    lines = ["| kind | mode | faults | first | among three | second named | silent | healthy | alarms |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    rows = _rows(scores)
    for mode in MODES:
        rows["all", mode] = [each for each in scores if each.mode == mode]
    for (kind, mode), found in sorted(
        rows.items(), key=lambda row: (MODES.index(row[0][1]), row[0][0] == "all", row[0])
    ):
        faults = [each for each in found if each.case.is_faulty]
        healthy = [each for each in found if not each.case.is_faulty]
        seconds = [each.second for each in faults if each.second is not None]
        cells: list[object] = [kind, mode, len(faults) or ""]
        cells += [sum(each.first for each in faults), sum(each.third for each in faults)] if faults else ["", ""]
        cells.append(f"{sum(seconds)} of {len(seconds)}" if seconds else "")
        cells += [sum(not each.fails for each in faults) if faults else "", len(healthy) or ""]
        cells.append(sum(each.fails for each in healthy) if healthy else "")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--faults", type=int, default=5, help="of each kind")
    parser.add_argument("--healthy", type=int, default=5, help="of each kind")
    parser.add_argument("--only", nargs="*", help="kinds, of both lists")
    parser.add_argument("--keep", action="store_true", help="keep the dumps of pairs that are told wrongly")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    scores: list[Score] = []
    faint: Counter[str] = Counter()
    for suite, count in ((FAULTY, asked.faults), (HEALTHY, asked.healthy)):
        for name, draw in suite.items():
            begun, made, number = time.process_time(), 0, -1
            wanted = count if asked.only is None or name in asked.only else 0
            while made < wanted and number < MOST * wanted:
                number += 1
                chance = random.Random(f"{asked.seed} {name} {number} {suite is FAULTY}")
                case = draw(chance)
                folder = asked.folder / f"{name}-{number}-{'fault' if case.is_faulty else 'healthy'}"
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    found = scored(case, folder, keeps=lambda each: asked.keep and _is_told_wrongly(each))
                except Exception:  # one pair that cannot be made or compared is told, and costs no more
                    print("BROKEN", name, number, case.name, traceback.format_exc(), flush=True)  # noqa: T201
                    continue
                scores += found
                made += bool(found)
                if not found:
                    faint[case.kind] += 1
                for each in filter(_is_told_wrongly, found):
                    print(_line(each, name, number), flush=True)  # noqa: T201
            if count:
                print(f"# {name}: {time.process_time() - begun:.0f} s of CPU", file=sys.stderr, flush=True)  # noqa: T201
    for is_faulty, count in ((True, asked.faults), (False, asked.healthy)):
        for number in range(count if asked.only is None or "ranks" in asked.only else 0):
            folder = asked.folder / f"ranks-{number}-{is_faulty}"
            shutil.rmtree(folder, ignore_errors=True)
            chance = random.Random(f"{asked.seed} ranks {number} {is_faulty}")
            found = list(scores_of_ranks(chance, folder, is_faulty=is_faulty))
            scores += found
            for each in filter(_is_told_wrongly, found):
                print(_line(each, "ranks", number), flush=True)  # noqa: T201
            shutil.rmtree(folder)
    print("\n".join(table(scores)))  # noqa: T201
    print(f"left out, since they stand out nowhere: {dict(faint)}")  # noqa: T201


def _is_told_wrongly(score: Score) -> bool:
    if not score.case.is_faulty:
        return score.fails
    return not score.first or score.second is False


def _line(score: Score, name: str, number: int) -> str:
    word = "ALARM" if not score.case.is_faulty else "MISS" if not score.first else "SECOND"
    silent = " SILENT" if score.case.is_faulty and not score.fails else ""
    told = "".join(f"\n    {each}" for each in score.named)
    truth = f"\n    truth: {', '.join(score.truth)}" if score.truth else ""
    return f"{word}{silent} {score.mode} [{name} {number}] {score.case.name}{truth}{told}"


if __name__ == "__main__":
    main()
