"""The examples of docs/how-to/ci.md, taken from the page and executed as a runner, make and a shell would."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
SAMPLE = ROOT / "examples" / "torchair"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")


def block(language: str, start: str) -> str:
    """The one code block of the page that is in this language and begins so."""
    found = re.findall(rf"^```{language}\n({re.escape(start)}.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(found) >= 1, f"{language} {start}"
    return str(found[0])


WORKFLOW, WITH_BASELINE = re.findall(r"^```yaml\n(version: 1\n.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@dataclass
class Checkout:
    """A repository of a user's with the files of the page, and programs as a runner has them."""

    folder: Path
    environ: dict[str, str]

    def shell(self, script: str, *, name: str = "step.sh", **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a script as GitHub's runner does."""
        (self.folder.parent / name).write_text(script, encoding="utf-8")
        return self.run("bash", "--noprofile", "--norc", "-eo", "pipefail", self.folder.parent / name, **environ)

    def run(self, *command: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.folder, env={**self.environ, **environ}, capture_output=True, text=True, check=False,
            timeout=300,
        )  # fmt: skip

    @property
    def record(self) -> Any:
        return json.loads((self.folder / "out" / "run.json").read_text(encoding="utf-8"))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    tools, folder = tmp_path / "bin", tmp_path / "checkout"
    tools.mkdir()
    folder.mkdir()
    for name, line in (
        ("probe-flow", f'exec "{sys.executable}" -m probe_flow "$@"'),
        ("pip", f'echo "$@" >> "{tmp_path}/pip.log"'),
    ):
        (tools / name).write_text(f"#!/bin/sh\n{line}\n")
        (tools / name).chmod(0o755)
    (folder / "accuracy.yaml").write_text(WORKFLOW, encoding="utf-8")
    environ = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PROBE_FLOW_CACHE": str(tmp_path / "cache"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    return Checkout(folder, environ)


def sides(kind: str) -> dict[str, str]:
    return {
        "TARGET": str(SAMPLE / kind / "msprobe_ge_dump"),
        "GOLDEN": str(SAMPLE / kind / "msprobe_fx_dump"),
    }


@dataclass
class Job:
    """What became of a job: which steps ran, what they printed, which files actions were given."""

    failed: bool = False
    logs: dict[str, str] = field(default_factory=dict)
    given: dict[str, Path] = field(default_factory=dict)


def github_job(checkout: Checkout, environ: Mapping[str, str]) -> Job:
    """Execute the GitHub example: a step runs when all before it succeeded, or as its `if` says."""
    spec = yaml.safe_load(block("yaml", "name: accuracy\non:"))["jobs"]["accuracy"]
    assert set(spec["env"]) == {"TARGET", "GOLDEN"}
    job = Job()
    for step in spec["steps"]:
        assert "${{" not in json.dumps(step), "an expression that this test does not know"
        if not _is_due(step.get("if"), checkout, has_failed=job.failed):
            continue
        if "run" in step:
            done = checkout.shell(step["run"], **environ)
            job.logs[step.get("name", step["run"])] = done.stdout
            job.failed |= done.returncode != 0
        for option in ("path", "report_paths"):
            if option in step.get("with", {}):
                job.given[step["uses"].partition("@")[0]] = checkout.folder / step["with"][option]
    return job


def _is_due(condition: str | None, checkout: Checkout, *, has_failed: bool) -> bool:
    if condition is None:
        return not has_failed
    always, *rest = condition.split(" && ")
    assert always == "always()"
    for part in rest:
        wanted = re.fullmatch(r"hashFiles\('(.+)'\) != ''", part)
        assert wanted is not None, part
        if not (checkout.folder / wanted[1]).is_file():
            return False
    return True


def test_github_fails_with_annotations_summary_and_artifact(checkout: Checkout) -> None:
    job = github_job(checkout, sides("faulty"))
    assert job.failed
    assert (checkout.folder.parent / "pip.log").read_text() == "install probe-flow\n"
    commands = [line for line in job.logs["Compare"].splitlines() if line.startswith("::")]
    assert [line for line in commands if line.startswith("::error title=probe_flow%3A origin::Gelu_1 (Gelu), output 0")]
    summary = Path(checkout.environ["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")
    assert summary.startswith("target torchair\\_ge dump ")
    assert "\n\n## \u274c FAIL: accuracy\n\n**FAIL Gelu\\_1 (Gelu) output 0, " in summary
    artifact = {path.name for path in job.given["actions/upload-artifact"].iterdir()}
    assert {"run.json", "report.html", "junit.xml", "report.md", "annotations.txt"} <= artifact
    suites = ElementTree.parse(job.given["mikepenz/action-junit-report"]).getroot()
    assert [case.get("name") for case in suites.iter("testcase") if case.find("failure") is not None] == ["Gelu_1"]


def test_github_passes_when_the_model_is_right(checkout: Checkout) -> None:
    job = github_job(checkout, sides("healthy"))
    assert not job.failed
    assert "::error" not in job.logs["Compare"]
    assert job.given["actions/upload-artifact"].is_dir()
    assert "\n\n## \u2705 PASS" in Path(checkout.environ["GITHUB_STEP_SUMMARY"]).read_text(encoding="utf-8")


def test_github_fails_without_dumps_and_no_later_step_stumbles(checkout: Checkout) -> None:
    job = github_job(checkout, {"TARGET": "dumps/msprobe_ge_dump", "GOLDEN": "dumps/msprobe_fx_dump"})
    assert job.failed
    assert job.logs["Summary"] == ""
    assert not (checkout.folder / "out").exists()
    assert "mikepenz/action-junit-report" not in job.given


def test_gitlab_leaves_the_files_that_it_is_told_of(checkout: Checkout) -> None:
    job = yaml.safe_load(block("yaml", "accuracy:\n"))["accuracy"]
    done = checkout.shell("\n".join(job["script"]), **sides("faulty"))
    assert done.returncode == 1
    assert all((checkout.folder / path).exists() for path in job["artifacts"]["paths"])
    reports = {name: checkout.folder / path for name, path in job["artifacts"]["reports"].items()}
    assert ElementTree.parse(reports["junit"]).getroot().tag == "testsuites"
    remarks = json.loads(reports["codequality"].read_text(encoding="utf-8"))
    assert [remark["check_name"] for remark in remarks] == ["verdict", "origin"]


def test_jenkins_compares_the_dumps_that_it_names(checkout: Checkout) -> None:
    page = block("groovy", "pipeline")
    (command,) = re.findall(r"steps \{ sh '(.*)' \}", page)
    assert set(re.findall(r"^    (\w+) = '", page, re.MULTILINE)) == {"TARGET", "GOLDEN"}
    done = checkout.shell(command, **sides("healthy"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].count("torchair/healthy/") == 2
    assert checkout.shell("probe-flow run accuracy.yaml --output out2").returncode == 2, "no samples in their place"


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_make_compares_and_accepts_a_baseline(checkout: Checkout) -> None:
    (checkout.folder / "Makefile").write_text(block("make", "WORKFLOW"), encoding="utf-8")

    def accuracy(kind: str) -> tuple[int, int]:
        done = checkout.run("make", "accuracy", *(f"{name}={path}" for name, path in sides(kind).items()))
        return done.returncode, checkout.record["exit_code"]

    assert accuracy("healthy") == (0, 0)
    assert accuracy("faulty") == (2, 1)
    assert checkout.run("make", "accept").returncode == 0
    assert '"node": "Gelu_1"' in (checkout.folder / "baseline.yaml").read_text(encoding="utf-8")
    (checkout.folder / "accuracy.yaml").write_text(WITH_BASELINE, encoding="utf-8")
    assert accuracy("faulty") == (0, 0)
    assert checkout.record["baseline"]["accepted"] == 1


@pytest.mark.parametrize(
    ("prepare", "code", "says"),
    [
        (lambda _golden: None, 1, "the divergence begins at Gelu_1"),
        (
            lambda golden: next(golden.rglob("t-aten.t.default.OUTPUT.0.*")).write_bytes(b""),
            3,
            "rows have one side only",
        ),
        (shutil.rmtree, 2, ""),
    ],
    ids=["wrong", "damaged", "gone"],
)
def test_the_script_says_what_happened(
    checkout: Checkout, prepare: Callable[[Path], object], code: int, says: str
) -> None:
    golden = checkout.folder / "golden"
    shutil.copytree(SAMPLE / "faulty" / "msprobe_fx_dump", golden)
    prepare(golden)
    done = checkout.shell(block("sh", "code=0"), TARGET=sides("faulty")["TARGET"], GOLDEN=str(golden))
    assert done.returncode == code
    assert says in done.stdout
