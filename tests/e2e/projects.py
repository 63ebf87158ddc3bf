"""Throw-away TorchAir dumps, the command line run on them in process, and what it left."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml
from torchair_builders import GeDump, fx_token, mul_add_relu, write_mul_add_relu

from probe_flow.cli.main import main

ROOT = Path(__file__).parents[2]
WORKFLOWS = ROOT / "workflows"
TORCHAIR = WORKFLOWS / "torchair_ge_vs_fx.yaml"
SAMPLE = ROOT / "examples" / "torchair"

TARGET = frozenset(
    {
        "Mul.input.0",
        "Mul.input.1",
        "Mul.output.0",
        "Add.input.0",
        "Add.input.1",
        "Add.output.0",
        "Relu.input.0",
        "Relu.output.0",
    }
)
"""The tensors of the small device dump."""

GOLDEN = frozenset(name.lower() for name in TARGET)
"""The tensors of the small FX dump."""

KEEPS_ALL = """
import sys
import probe_flow.measure.result_keys as result_keys
result_keys.LEAST_KEPT_BYTES = 0
from probe_flow.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command, with results of pairs of any size kept."""


@dataclass(frozen=True)
class Done:
    """A command that ended: its exit code, both streams, and the folder of the run."""

    code: int
    out: str
    err: str
    folder: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text())

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "comparison.jsonl").read_text().splitlines()]

    @property
    def codes(self) -> set[str]:
        """Codes of the problems in the record."""
        return {problem["code"] for problem in self.record["problems"]}

    def seen(self, side: str) -> set[str]:
        """Names of the tensors of one side that have a row."""
        return {row[side]["name"] for row in self.rows if row[side] is not None}

    def rows_of(self, name: str) -> list[dict[str, Any]]:
        """Rows in which a tensor of either side stands."""
        return [
            row for row in self.rows if name in ((row["target"] or {}).get("name"), (row["golden"] or {}).get("name"))
        ]

    def verdicts(self, verdict: str) -> set[str]:
        """Names of the tensors (the target's, else the golden's) whose row has this verdict."""
        return {(row["target"] or row["golden"])["name"] for row in self.rows if row["verdict"] == verdict}


Command = Callable[..., Done]


def samples(workflow: str) -> dict[str, Path]:
    """The parameters of a packaged workflow with its samples."""
    declared = yaml.safe_load((WORKFLOWS / f"{workflow}.yaml").read_text(encoding="utf-8"))["params"]
    return {name: (WORKFLOWS / param["sample"]).resolve() for name, param in declared.items()}


def sample_params(workflow: str) -> str:
    """What a file that extends a packaged workflow says to compare its samples."""
    return "params:\n" + "".join(f"  {name}: {{default: {value}}}\n" for name, value in samples(workflow).items())


def sample_sets(workflow: str, **others: Path) -> list[str]:
    """The options that run a packaged workflow on its samples, some of them replaced."""
    return [f"--set={name}={value}" for name, value in {**samples(workflow), **others}.items()]


def command_in(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs `probe-flow`; ``output`` is the folder of the run, relative to ``folder``.

    Every command has a cache of its own, so that each of them measures, unless it names one.
    """
    caches = itertools.count()

    def run(*arguments: object, output: str | None = "out", cache: str | None = None) -> Done:
        given = [str(argument) for argument in arguments]
        if output is not None:
            given += ["--output", output]
        monkeypatch.setenv("PROBE_FLOW_CACHE", str(folder / (cache or f"cache{next(caches)}")))
        code = main(given)
        streams = capsys.readouterr()
        return Done(code, streams.out, streams.err, folder / (output or "."))

    return run


@dataclass(frozen=True)
class Dumps:
    """``relu(x * y + z)`` dumped on both sides: a device dump and an FX dump, in a folder of their own."""

    root: Path

    @property
    def target(self) -> Path:
        return self.root / "msprobe_ge_dump"

    @property
    def golden(self) -> Path:
        return self.root / "msprobe_fx_dump"

    @property
    def graph(self) -> Path:
        (path,) = self.target.glob("dynamo_original_graph_*.txt")
        return path

    def device_file(self, op_type: str) -> Path:
        """Return the file of the only operator of that type."""
        (path,) = self.target.rglob(f"{op_type}.*")
        return path

    def array(self, pattern: str) -> Path:
        """Return the only FX array whose name fits, e.g. ``add-*OUTPUT*``."""
        (path,) = self.golden.rglob(pattern)
        return path

    def sets(self, *, target: object = None, golden: object = None) -> tuple[str, ...]:
        """Return the options that set both dumps, or another folder for a side."""
        return "--set", f"target={target or self.target}", "--set", f"golden={golden or self.golden}"


def settle(root: Path) -> Path:
    """Make all files of a folder old enough for the cache to trust their times; return the folder."""
    for path in root.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return root


def write_dumps(root: Path) -> Dumps:
    """Write the small pair of dumps."""
    dump = GeDump(root / "msprobe_ge_dump")
    dump.graph(mul_add_relu())
    write_mul_add_relu(dump.token(0), fx_token(root, 0))
    return Dumps(root)
