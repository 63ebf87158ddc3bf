"""`--help` and `validate` start without the libraries that only a run needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

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
