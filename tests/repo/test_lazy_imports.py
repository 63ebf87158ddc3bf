"""`--help` and `validate` start without the libraries that only a run needs, and a run without what it does not use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from probe_flow.files.machine import QUIET_LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "numpy",
    "dask",
    "h5py",
    "torch",
    "mindspore",
    "ml_dtypes",
    "distributed",
    "structlog",
    "rich",
    "prompt_toolkit",
)
SCRIPT = """
import sys
from probe_flow.cli.main import main
code = main(sys.argv[1:])
print(code, [name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""

UNUSED_BY_RUNS = (
    "dask",
    "rich",
    "jinja2",
    "pygments",
    "asyncio",
    "numpy.ma",
    "h5py",
    "torch",
    "mindspore",
    "distributed",
    "importlib.metadata",
    "email",
)
MODULES_OF_OURS = {"faulty": 342, "healthy": 307}
"""Modules that the bundled run may load, 58 of them the `__init__` of a folder; with a fault it loaded 457."""
OF_A_FAULT = "probe_flow.apis"
"""Loaded only where something is suspect, and computed again."""

RUN = """
import json, sys
from probe_flow.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]))
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["plan", "--help"],
        ["compare", "--help"],
        ["parse", "--help"],
        ["show", "--help"],
        ["diff", "--help"],
        ["baseline", "--help"],
        ["shell", "--help"],
        ["validate", "tests/corpus/valid/all_options.yaml", "workflows/torchair_ge_vs_fx.yaml"],
        ["validate", "tests/corpus/invalid/many_mistakes.yaml"],
        ["templates"],
        ["plugins"],
        ["schema"],
        ["explain", "PF1203"],
        ["version"],
    ],
    ids=" ".join,
)
def test_light_commands_load_no_heavy_library(arguments: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(heavy=HEAVY), *arguments],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip

    assert ended.stderr.splitlines()[-1] in {"0 []", "2 []"}, ended.stderr


@pytest.mark.parametrize(("sample", "expected"), [("faulty", 1), ("healthy", 0)])
def test_a_run_loads_what_it_uses(sample: str, expected: int, tmp_path: Path) -> None:
    dumps = ROOT / "examples" / "torchair" / sample
    values = [f"{side}={dumps / name}" for side, name in (("target", "msprobe_ge_dump"), ("golden", "msprobe_fx_dump"))]
    command = ["run", str(ROOT / "workflows" / "torchair_ge_vs_fx.yaml"), "--output", str(tmp_path / "run")]
    if sample == "healthy":  # the other one is what the workflow takes by itself
        command += [word for value in values for word in ("--set", value)]
    variables = {"PATH": os.environ["PATH"], "PROBE_FLOW_CACHE": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    variables |= QUIET_LIBRARIES  # as a process of ours has it
    ended = subprocess.run(
        [sys.executable, "-c", RUN, *command],
        capture_output=True, text=True, check=True, cwd=ROOT, env=variables,
    )  # fmt: skip

    code, loaded = json.loads(ended.stdout.splitlines()[-1])
    ours = [name for name in loaded if name.partition(".")[0] == "probe_flow"]
    assert code == expected
    assert [name for name in UNUSED_BY_RUNS if name in loaded] == []
    assert (OF_A_FAULT in loaded) is (sample == "faulty")
    assert len(ours) <= MODULES_OF_OURS[sample]


UNUSED_BY_WORKERS = (
    "pydantic",
    "yaml",
    "h5py",
    "structlog",
    "click",
    "dask",
    "ml_dtypes",
    "importlib.metadata",
    "email",
)
WORKER = """
import json, sys
import probe_flow.engine.schedulers.worker
import {module}
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize(
    ("module", "most"), [("probe_flow.measure.batches", 61), ("probe_flow.comparing.recompute_worker", 56)]
)
def test_a_worker_loads_what_measuring_needs(module: str, most: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WORKER.format(module=module)],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip

    loaded = json.loads(ended.stdout)
    assert [name for name in UNUSED_BY_WORKERS if name in loaded] == []
    assert len([name for name in loaded if name.partition(".")[0] == "probe_flow"]) <= most
