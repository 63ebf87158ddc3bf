"""The example package, built as a wheel: it passes the conformance tests next to our wheel, without the checkout."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "examples" / "team_package"
THINGS = {
    ("stage", "dump.acme_raw"),
    ("reader", "acme_raw"),
    ("metric", "acme_energy_ratio"),
    ("metric", "acme_above_share"),
    ("accumulator", "acme_above"),
    ("policy", "acme"),
    ("layout", "acme_short"),
    ("file format", "acme_text"),
}
# A fresh interpreter whose path is the folder of both wheels and that of the libraries they need, never the checkout.
START = """
import sys
site, checkout = sys.argv[1:3]
sys.path = [site, *(path for path in sys.path if path not in ("", checkout))]
import probe_flow
assert probe_flow.__file__.startswith(site), probe_flow.__file__
"""
CONFORM = (
    START + "from acme_tools.conformance import main; code = main()\nassert 'pytest' not in sys.modules\nsys.exit(code)"
)
COMMAND = START + "from probe_flow.cli.main import main; sys.exit(main(sys.argv[3:]))"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both wheels as pip would lay them out."""
    builder = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("wheels")
    shutil.copytree(PACKAGE, folder / "source")
    for source in (ROOT, folder / "source"):
        (wheel,) = builder.WheelBuilder(str(source)).build(directory=str(folder), versions=["standard"])
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "site")
    return folder / "site"


def run(code: str, site: Path, cwd: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environ = {**{name: text for name, text in os.environ.items() if name != "PYTHONPATH"}, "COLUMNS": "200"}
    given = [sys.executable, "-c", code, site, ROOT, *arguments]
    return subprocess.run(
        list(map(str, given)), cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=600
    )


def test_it_passes_the_conformance_tests_without_the_checkout(site: Path, tmp_path: Path) -> None:
    done = run(CONFORM, site, tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_all_it_adds_is_listed(site: Path, tmp_path: Path) -> None:
    done = run(COMMAND, site, tmp_path, "plugins", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = [each for each in json.loads(done.stdout) if each["package"] == "acme-tools"]
    assert {(each["kind"], each["name"]) for each in found} == THINGS
    assert {(each["version"], each["problem"]) for each in found} == {("0.3.0", None)}


def test_a_workflow_uses_all_it_adds(site: Path, tmp_path: Path) -> None:
    for side, values in (("target", (2.0, 0.0)), ("golden", (1.0, 0.0))):
        (tmp_path / side).mkdir()
        (tmp_path / side / "index.json").write_text('{"conv": [2]}')
        (tmp_path / side / "conv.raw").write_bytes(struct.pack("<2f", *values))
    (tmp_path / "w.yaml").write_text(
        "version: 1\nname: acme\nstages:\n"
        "  target: {uses: dump.acme_raw, path: target}\n"
        "  golden: {uses: dump.auto, path: golden}\n"
        "  pairs: {uses: match.name, target: target, golden: golden}\n"
        "  result:\n"
        "    {uses: compare, pairs: pairs, metrics: [cosine, acme_energy_ratio, acme_above_share], policy: torchair}\n"
        "  report: {uses: report, comparison: result, formats: [{csv: acme_short}, {acme_text: german}]}\n"
    )
    done = run(COMMAND, site, tmp_path, "run", "w.yaml", "--output", "out", "--no-cache")
    assert done.returncode in (0, 1), done.stderr
    (row,) = [json.loads(line) for line in (tmp_path / "out" / "comparison.jsonl").read_text().splitlines()]
    assert (row["metrics"]["acme_energy_ratio"], row["metrics"]["acme_above_share"]) == (4.0, 0.5)
    assert (tmp_path / "out" / "acme_summary.txt").read_text() == "1 Zeilen\n"
    (table,) = (tmp_path / "out").glob("acme_short_*.csv")
    assert table.read_text().splitlines()[0] == "Node,Verdict,Cosine"


def test_its_scenario_runs_two_models_and_names_the_layer_where_they_part(site: Path, tmp_path: Path) -> None:
    """Seven files: reader, runner, stage, policy, layout, workflow, pyproject.toml."""
    shutil.copy(PACKAGE / "acme_vs_acme.yaml", tmp_path)
    (tmp_path / "net.py").write_text(
        "import numpy as np\n"
        "right = {'up': lambda x: 3 * x, 'act': np.tanh, 'out': lambda x: x @ x.T}\n"
        "wrong = {**right, 'act': lambda x: np.tanh(1.1 * x)}\n"
    )
    np.save(tmp_path / "x.npy", np.linspace(-1, 1, 12).reshape(3, 4))
    sets = ("--set", "target=net.py:wrong", "--set", "golden=net.py:right", "--set", "input=x.npy")
    done = run(COMMAND, site, tmp_path, "run", "acme_vs_acme.yaml", *sets, "--output", "out")
    assert done.returncode == 1, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "comparison.jsonl").read_text().splitlines()]
    assert [(row["node"], row["verdict"]) for row in rows] == [("up", "pass"), ("act", "fail"), ("out", "fail")]
    assert rows[1]["reason"].startswith("off by 0.0")
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["findings"][record["first_divergence"]]["node"] == "act"
    (table,) = (tmp_path / "out").glob("acme_short_*.csv")
    assert len(table.read_text().splitlines()) == 4
