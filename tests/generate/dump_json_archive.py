"""Pack pairs made by `dump_json_pairs` for the tests: ``python -m generate.dump_json_archive ARCHIVE FOLDER...``.

Needs no torch. An archive holds each dump once (dump.json, construct.json), ``cases.json`` with the truth, and for
tensor mode what comparing the tensors of each pair gives, instead of the tensors. Cases are drawn at random.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import random
import re
import tarfile
from pathlib import Path

import numpy as np

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.matching.name.match_name import match_name

FAULTS, HEALTHY = 44, 16


def figures(target: np.ndarray, golden: np.ndarray) -> list[float | None] | None:
    """Return cosine, distance, largest error and mismatch of finite positions, then each side's statistics."""
    a, b = target.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    if a.size != b.size:
        return None
    both = np.isfinite(a) & np.isfinite(b)
    mismatch = int((~((a == b) | (np.isnan(a) & np.isnan(b))) & ~both).sum())
    x, y = a[both], b[both]
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    cosine = float(x @ y) / norms if norms else (1.0 if (x == y).all() else math.nan)
    distance, worst = float(np.linalg.norm(x - y)), float(np.abs(x - y).max(initial=0.0))
    return [1.0 - cosine, distance, worst, mismatch, *_statistics(a), *_statistics(b)]


def _statistics(values: np.ndarray) -> list[float | None]:
    kept = values[np.isfinite(values)]
    counts = [int(np.isnan(values).sum()), int(np.isinf(values).sum())]
    if not kept.size:
        return [None] * 4 + counts
    return [float(kept.min()), float(kept.max()), float(kept.mean()), float(np.sqrt(np.sum(kept**2))), *counts]


def _tensors(run: Path, step: int) -> dict[str, np.ndarray]:
    with np.load(run / f"step{step}/proc1000/tensors.npz") as stored:
        return {name: stored[name] for name in stored.files}


def measured(target: Path, golden: Path) -> dict[str, list]:
    """Return item name of the target, with its step -> figures."""
    pairs = match_name(read_dump_json(target, side="target"), read_dump_json(golden, side="golden"))
    loaded: dict[tuple[Path, int], dict] = {}
    found = {}
    for pair in pairs.pairs:
        if pair.target is None or pair.golden is None:
            continue
        sides = []
        for run, tensor in ((target, pair.target), (golden, pair.golden)):
            step = tensor.node.execution.step or 0
            if (run, step) not in loaded:
                loaded[run, step] = _tensors(run, step)
            sides.append(loaded[run, step].get(tensor.item))
        if sides[0] is not None and sides[1] is not None and sides[0].size:
            values = figures(*sides)
            if values is not None:
                found[f"{pair.target.node.execution.step or 0} {pair.target.item}"] = [
                    value if value is None or isinstance(value, int) else float(f"{value:.8g}") for value in values
                ]
    return found


def _short(text: str) -> str:
    """Write float32 numbers with the nine digits that tell them apart; drop what the analysis does not read."""
    text = re.sub(r"-?\d+\.\d{7,}(?:e-?\d+)?", lambda match: f"{float(match.group()):.9g}", text)
    return json.dumps(json.loads(text), separators=(",", ":"))


def main() -> None:
    """Write an archive."""
    parser = argparse.ArgumentParser()
    parser.add_argument("archive", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--faults", type=int, default=FAULTS)
    parser.add_argument("--healthy", type=int, default=HEALTHY)
    options = parser.parse_args()
    cases = [case for folder in options.folders for case in json.loads((folder / "index.json").read_text())]
    draw = random.Random(4)
    faults = [
        case
        for case in cases
        if case["spec"]["kind"]
        and case["truth"]["visible"]
        and not (case["spec"]["kind"] == "grad_weight" and "conv2d" in case["spec"]["label"])
    ]
    healthy = [case for case in cases if not case["spec"]["kind"]]
    chosen = draw.sample(healthy, options.healthy) + draw.sample(faults, options.faults)
    names: dict[str, str] = {}
    listed = []
    with tarfile.open(options.archive, "w:xz", preset=9) as packed:

        def add(name: str, text: str) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            packed.addfile(member, io.BytesIO(text.encode()))

        for case in sorted(chosen, key=lambda case: (case["spec"]["model"], case["golden"], case["spec"]["dtype"])):
            for run in (case["golden"], case["target"]):
                if run not in names:
                    names[run] = f"runs/{len(names)}"
                    for file in sorted(Path(run).glob("step*/proc1000/[dc]*.json")):
                        add(f"{names[run]}/{file.relative_to(run)}", _short(file.read_text()))
            number = len(listed)
            add(f"measured/{number}.json", json.dumps(measured(Path(case["target"]), Path(case["golden"]))))
            listed.append({**case, "target": names[case["target"]], "golden": names[case["golden"]]})
        add("cases.json", json.dumps(listed))


if __name__ == "__main__":
    main()
