"""The templates in `examples/ci`: their shell steps run as a host would run them, on the packaged sample."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from probe_flow.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "examples" / "ci"


@pytest.fixture
def checkout(tmp_path, probe_flow):
    """A checkout with the workflow, the dumps of the packaged sample, and `probe-flow` and a silent `pip` to call."""
    shutil.copy(CI / "accuracy.yaml", tmp_path / "accuracy.yaml")
    assert probe_flow("init", "torchair_ge_vs_fx", "--with-sample", "-o", "given").code == 0
    shutil.copytree(tmp_path / "given" / "sample" / "torchair" / "faulty", tmp_path / "dumps")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in {
        "probe-flow": f'exec {sys.executable} -m probe_flow "$@"\n',
        "pip": "exit 0\n",
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{text}")
        (tools / name).chmod(0o755)
    return tmp_path


def shell(checkout: Path, script: str, **env: str) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PATH": f"{checkout / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), **env}
    return subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=checkout, env=given, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_the_github_action_compares_and_leaves_what_its_later_steps_take(checkout):
    action = yaml.safe_load((CI / "github" / "action.yml").read_text())
    values = {name: str(each.get("default", "")) for name, each in action["inputs"].items()}
    values |= {"target": "dumps/msprobe_ge_dump", "golden": "dumps/msprobe_fx_dump"}
    codes = {}
    for step in action["runs"]["steps"]:
        if "run" in step:
            env = {
                name: values[text.removeprefix("${{ inputs.").removesuffix(" }}")] for name, text in step["env"].items()
            }
            done = shell(checkout, step["run"], GITHUB_STEP_SUMMARY=str(checkout / "summary.md"), **env)
            codes[step["name"]] = done.returncode
            if step["name"] == "Compare":
                assert "::error title=probe_flow%3A origin" in done.stdout
    assert codes == {"Install": 0, "Check the workflow": 0, "Compare": 1, "Summary": 0}
    assert "Gelu_1" in (checkout / "summary.md").read_text()
    job = yaml.safe_load((CI / "github" / "accuracy.yml").read_text())["jobs"]["accuracy"]
    used = next(step for step in job["steps"] if step.get("uses") == "./.github/actions/probe_flow")
    assert used["with"].keys() <= action["inputs"].keys()
    file = next(step for step in job["steps"] if "upload-sarif" in step.get("uses", ""))["with"]["sarif_file"]
    results = json.loads((checkout / file).read_text())["runs"][0]["results"]
    assert [each["ruleId"] for each in results if each["level"] == "error"] == ["verdict", "origin"]


def test_the_gitlab_template_compares_and_leaves_its_reports(checkout):
    template = yaml.safe_load((CI / "gitlab" / "accuracy.gitlab-ci.yml").read_text())
    job = template[template["accuracy"]["extends"]]
    assert shell(checkout, "\n".join(job["before_script"]), **job["variables"]).returncode == 0
    assert shell(checkout, "\n".join(job["script"]), **job["variables"]).returncode == 1
    for report in job["artifacts"]["reports"].values():
        assert (checkout / report).is_file()
    assert job["artifacts"]["paths"] == [job["variables"]["OUT"]]


def test_hooks_of_pre_commit_run_commands_that_exist(checkout):
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert {hook["id"] for hook in hooks} == {"probe-flow-validate", "probe-flow-lint"}
    for hook in hooks:
        assert hook["entry"].split()[1] in COMMANDS
        assert shell(checkout, f"{hook['entry']} accuracy.yaml").returncode == 0
