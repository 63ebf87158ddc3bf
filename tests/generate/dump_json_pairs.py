"""Make pairs of dumps with known truth: ``python -m generate.dump_json_pairs FOLDER --seed 1`` from ``tests/``.

Needs torch and msprobe. The truth is not assumed but measured: a fault's dump is held against that of the same target
without the fault, bit by bit; the first tensor in the order of completion that differs is where the fault begins. For
statistics the first one that shows it may come later (``visible``).
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import torch

from generate import dump_json_kernels as kernels
from generate.dump_json_cases import RESIDUAL, draw, healthy
from generate.dump_json_specs import Spec

VISIBLE = {"float32": 2.0**-17, "float16": 2.0**-8, "bfloat16": 2.0**-5}
"""Change of a statistic, relative to the tensor's size, that is beyond what rounding does to it."""

ROLES = ("input_args", "input_kwargs", "input", "parameters", "output")


def leaves(value: object, path: str) -> Iterator[tuple[str, dict | None]]:
    """Yield every leaf of a value with its place."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from leaves(item, f"{path}.{number}")
    elif isinstance(value, dict) and not isinstance(value.get("type"), str):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}")
    elif isinstance(value, dict):
        yield path, value


def items(dump: Path) -> Iterator[tuple[str, str, dict]]:
    """Yield (entry, item, value) of a dump.json in order of completion, inputs before outputs."""
    for entry, value in json.loads(dump.read_text())["data"].items():
        keys = [key for key in ROLES if key in value] or list(value)
        for key in keys:
            for place, leaf in leaves(value[key], key):
                yield entry, place, leaf


def truth(target: Path, twin: Path, spec: Spec) -> dict:
    """Return where the fault begins: entries from the first changed tensor to the first whose statistics show it.

    What a batch norm updates in place is left out: the collector records it at any time.
    """
    first: list[str] = []
    roles: list[str] = []
    for step in range(spec.steps):
        right = {(entry, place): leaf for entry, place, leaf in items(twin / f"step{step}/proc1000/dump.json")}
        for entry, place, leaf in items(target / f"step{step}/proc1000/dump.json"):
            known = right.get((entry, place))
            if (
                _is_counter(entry, place)
                or known == leaf
                or (known and known.get("md5") == leaf.get("md5") and "md5" in leaf)
            ):
                continue
            if entry not in first:
                first.append(entry)
                roles.append(place)
            if known is None or is_visible(leaf, known, spec.dtype):
                return {"entries": first, "places": roles, "visible": entry, "step": step}
    return {"entries": first, "places": roles, "visible": None, "step": spec.step}


def _is_counter(entry: str, place: str) -> bool:
    is_average = entry.startswith("Functional.batch_norm") and place in ("input_args.1", "input_args.2")
    return is_average or entry.startswith("Tensor.add_.")


def is_visible(leaf: dict, known: dict, dtype: str) -> bool:
    """Whether recorded statistics differ by more than rounding in a dtype does to them."""
    if "Norm" not in leaf:
        return leaf.get("value") != known.get("value")
    numbers = [leaf.get(name) for name in ("Max", "Min", "Mean", "Norm")]
    others = [known.get(name) for name in ("Max", "Min", "Mean", "Norm")]
    if None in others or None in numbers:
        return numbers != others
    if any(math.isfinite(a) != math.isfinite(b) for a, b in zip(numbers, others, strict=True)):
        return True
    size = abs(others[3]) / math.sqrt(max(1, math.prod(leaf["shape"]))) or 1e-30
    scales = (max(size, abs(others[0])), max(size, abs(others[1])), size, abs(others[3]) or 1e-30)
    limit = VISIBLE[dtype]
    return any(abs(a - b) > limit * s for a, b, s in zip(numbers, others, scales, strict=True) if math.isfinite(a - b))


class Runs:
    """Makes each dump once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: dict[Spec, Path] = {}

    def of(self, spec: Spec) -> Path:
        from generate.dump_json_run import in_child

        spec = replace(spec, name="")
        if spec not in self.done:
            place = self.folder / "runs" / str(len(self.done))
            in_child(spec, place)
            self.done[spec] = place
        return self.done[spec]


def golden_of(spec: Spec) -> Spec:
    """Return the golden's side of a pair."""
    return Spec(
        "", spec.model, spec.seed, steps=spec.steps, level=spec.level, ranks=spec.ranks, optimizer=spec.optimizer
    )


def main() -> None:
    """Make a suite."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--models", nargs="*", default=list(RESIDUAL))
    parser.add_argument("--faults", type=int, default=12)
    parser.add_argument("--level", default="mix")
    options = parser.parse_args()
    torch.set_num_threads(1)
    kernels.wrap_all()
    import msprobe.pytorch  # noqa: F401

    shutil.rmtree(options.folder, ignore_errors=True)
    options.folder.mkdir(parents=True)
    runs = Runs(options.folder)
    index = []
    for model in options.models:
        base = golden_of(Spec("", model, options.seed, level=options.level))
        census = json.loads((runs.of(base) / "result.json").read_text())["census"]
        count = options.faults if model != "deep" else options.faults // 3
        for drawn in (*healthy(model, options.seed), *draw(model, options.seed, census, count)):
            spec = replace(drawn, level=options.level)
            case = {"spec": asdict(spec), "target": str(runs.of(spec)), "golden": str(runs.of(golden_of(spec)))}
            if spec.kind:
                twin = replace(spec, kind="", label="", call=0, strength=0.0, step=0)
                case["truth"] = truth(runs.of(spec), runs.of(twin), spec)
                if not case["truth"]["entries"]:
                    continue
            index.append(case)
            (options.folder / "index.json").write_text(json.dumps(index, indent=1))


if __name__ == "__main__":
    main()
