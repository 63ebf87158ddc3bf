"""The example package of templates, installed as a team would install it, and the commands that show and use it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from run_records import first_divergence

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "team_templates"
SAMPLE = ROOT / "examples" / "torchair"
SIDES = (("target", "ge"), ("golden", "fx"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, built from its sources and installed into a folder, without any look at a package index."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    pytest.importorskip("pip", reason="pip is not installed")
    folder = tmp_path_factory.mktemp("team")
    shutil.copytree(PACKAGE, folder / "source")
    pip = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *pip, "--target", folder / "site", folder / "source"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "site"


def command(site: Path, cwd: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(site), str(ROOT))), "COLUMNS": "200"}
    given = [sys.executable, "-m", "probe_flow", *map(str, arguments)]
    return subprocess.run(given, cwd=cwd, env=environ, capture_output=True, text=True, check=False, timeout=300)


def test_templates_shows_where_each_came_from(site: Path, tmp_path: Path) -> None:
    done = command(site, tmp_path, "templates")
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line.split()[0]: line.split()[1:3] for line in done.stdout.splitlines()}
    assert lines["nightly_torchair"] == ["acme-probe", "1.2.0"]
    assert lines["release_torchair"] == ["acme-probe", "1.2.0"]
    assert lines["torchair_ge_vs_fx"][0] == "probe-flow"
    assert "_reports" not in lines
    found = {each["name"]: each for each in json.loads(command(site, tmp_path, "templates", "--format", "json").stdout)}
    assert found["nightly_torchair"]["path"].startswith(str(site))
    assert {"package": "acme-probe", "version": "1.2.0"}.items() <= found["release_torchair"].items()


def test_init_extends_a_template_of_a_package_and_run_uses_it(site: Path, tmp_path: Path) -> None:
    made = command(site, tmp_path, "init", "nightly-torchair")
    assert made.returncode == 0, made.stderr
    assert made.stdout == (
        "wrote nightly_torchair.yaml\n"
        "next: probe-flow run nightly_torchair.yaml --set target=VALUE --set golden=VALUE\n"
    )
    text = (tmp_path / "nightly_torchair.yaml").read_text()
    assert "extends: template:acme-probe/nightly_torchair\n" in text
    assert "#   target: {default: ...}   # GE dump directory\n" in text
    sets = [f"--set={side}={SAMPLE / 'faulty' / f'msprobe_{kind}_dump'}" for side, kind in SIDES]
    done = command(site, tmp_path, "run", "nightly_torchair.yaml", *sets, "--output", "out", "--quiet")
    assert done.returncode == 1, done.stderr
    assert {"junit.xml", "report.md", "report.html", "annotations.txt"} <= {
        each.name for each in (tmp_path / "out").iterdir()
    }
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["workflow"]["name"] == "acme-nightly-torchair"
    assert record["workflow"]["templates"] == ["acme-probe/nightly_torchair 1.2.0"]
    assert first_divergence(record)["node"] == "Gelu_1"


def test_a_template_runs_without_a_file_of_ones_own(site: Path, tmp_path: Path) -> None:
    sets = [f"--set={side}={SAMPLE / 'healthy' / f'msprobe_{kind}_dump'}" for side, kind in SIDES]
    done = command(site, tmp_path, "run", "template:nightly-torchair", *sets, "--output", "out", "--quiet")
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert Path(record["workflow"]["path"]) == site / "acme_probe" / "workflows" / "nightly_torchair.yaml"
    packaged = command(site, tmp_path, "run", "template:torchair_ge_vs_fx", "--output", "sample", "--quiet")
    assert packaged.returncode == 1, packaged.stderr
    assert "Gelu_1 (Gelu)" in packaged.stdout
    assert "bundled sample" in packaged.stdout


def test_every_template_of_the_example_is_valid(site: Path, tmp_path: Path) -> None:
    for path in sorted((site / "acme_probe" / "workflows").glob("[a-z]*.yaml")):
        done = command(site, tmp_path, "validate", path, "--set", "target=ge", "--set", "golden=fx")
        assert (done.returncode, done.stderr) == (0, "")


def test_init_does_not_overwrite_and_has_no_sample(site: Path, tmp_path: Path) -> None:
    (tmp_path / "nightly_torchair.yaml").write_text("mine")
    kept = command(site, tmp_path, "init", "nightly_torchair")
    assert kept.returncode == 2
    assert "--force" in kept.stderr
    assert (tmp_path / "nightly_torchair.yaml").read_text() == "mine"
    sample = command(site, tmp_path, "init", "release_torchair", "--with-sample")
    assert sample.returncode == 2
    assert "`acme-probe` has no sample data" in sample.stderr


def test_a_broken_package_is_told_by_templates(tmp_path: Path) -> None:
    info = tmp_path / "site" / "odd_probe-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-probe\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[probe_flow.templates]\nodd = odd_probe.workflows\n")
    done = command(tmp_path / "site", tmp_path, "templates")
    assert done.returncode == 0
    assert "torchair_ge_vs_fx" in done.stdout
    assert "warning[PF7402]: the templates of the package `odd-probe` cannot be found" in done.stderr
