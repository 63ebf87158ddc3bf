"""Which command imports what of installed packages, and what a broken one costs.

Each package lies in a folder of the search path with a `dist-info`, and leaves a mark when it is imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

STAGE = """
from typing import Annotated, Literal

from pydantic import AfterValidator

from probe_flow.stages.base import Forecast, Kind, StageOptions, StageType


def checked(text):
    if text == "raise":
        raise KeyError("a validator of a package")
    return text


def foresee(options):
    if options.text == "foresee":
        raise IndexError("a forecast of a package")
    return None


class Options(StageOptions):
    uses: Literal["dump.acme"]
    text: Annotated[str, AfterValidator(checked)] = ""


STAGE = StageType("dump.acme", Kind.CATALOG, Options, lambda *_: None, "A stage.", foresee)
"""
METRIC = """
from probe_flow.metrics.catalogue.metric import Metric

METRIC = Metric("acme_err", "nothing", "[0, inf]", "1", "acme", compute=lambda record: 0.0)
"""
POLICY = """
class Policy:
    name = "acme"
    needs = ()

    def judge(self, *_):
        raise NotImplementedError
"""
LAYOUT = "def write(comparison, path):\n    path.write_text('acme')\n"
GROUPS = {
    "acme_stage": ("probe_flow.stages", "dump.acme = acme_stage:STAGE", STAGE),
    "acme_metric": ("probe_flow.metrics", "acme_err = acme_metric:METRIC", METRIC),
    "acme_policy": ("probe_flow.policies", "acme = acme_policy:Policy", POLICY),
    "acme_layout": ("probe_flow.reports", "acme = acme_layout:write", LAYOUT),
}
HAVOC = {
    "raises": "raise RuntimeError('the package is broken')",
    "lacks a module": "import no_such_module_of_acme",
    "exits": "import sys; sys.exit(0)",
    "is no Python": "def (",
    "gives something else": "STAGE = METRIC = 1.5; Policy = 7; write = 'text'",
}
MODEL = "  m: {uses: dump.torchair_fx, model: 'users:build', inputs: 'users:inputs', import_from: .}\n"
FUNCTIONS = "  f: {uses: reduce.statistics, path: msprobe_fx_dump, functions: ['users:figure'], output: reduced}\n"


def comparing(root: Path, *, metrics: str = "default", policy: str = "torchair", formats: str = "jsonl") -> str:
    return (
        "version: 1\nname: w\nstages:\n"
        f"  target: {{uses: dump.torchair_ge, path: {root / 'msprobe_ge_dump'}}}\n"
        f"  golden: {{uses: dump.torchair_fx, path: {root / 'msprobe_fx_dump'}}}\n"
        "  pairs: {uses: match.torchair, target: target, golden: golden}\n"
        f"  result: {{uses: compare, pairs: pairs, metrics: {metrics}, policy: {policy}, gate: findings}}\n"
        f"  report: {{uses: report, comparison: result, formats: [{formats}]}}\n"
    )


@dataclass(frozen=True)
class Site:
    """Installed packages, and a folder with dumps in which commands run."""

    root: Path
    folder: Path

    @property
    def marks(self) -> Path:
        return self.root / "marks"

    def install(self, module: str, group: str, entry: str, code: str) -> None:
        (self.root / f"{module}.py").write_text(
            f"from pathlib import Path\nPath({str(self.marks)!r}, __name__).touch()\n{code}\n"
        )
        information = self.root / f"{module}-1.0.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = os.pathsep.join([str(self.root), *(path for path in sys.path if path)])
        environment = {**os.environ, "PYTHONPATH": where, "PROBE_FLOW_CACHE": str(self.folder / "cache")}
        return subprocess.run(
            [sys.executable, "-m", "probe_flow", *arguments],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def imported(self, *arguments: str) -> set[str]:
        """Run a command, and return the modules of packages and of the user that it imported."""
        for mark in self.marks.iterdir():
            mark.unlink()
        done = self.run(*arguments)
        assert "PF9001" not in done.stderr
        assert "Traceback" not in done.stderr
        return {mark.name for mark in self.marks.iterdir()}


@pytest.fixture
def site(tmp_path: Path, dumps) -> Site:
    root = tmp_path / "site"
    root.mkdir()
    found = Site(root, dumps.root)
    found.marks.mkdir()
    (dumps.root / "users.py").write_text(f"from pathlib import Path\nPath({str(found.marks)!r}, 'users').touch()\n")
    return found


@pytest.fixture
def acme(site: Site) -> Site:
    """A site with a working package of every kind."""
    for module, (group, entry, code) in GROUPS.items():
        site.install(module, group, entry, code)
    return site


def write(site: Site, text: str) -> str:
    (site.folder / "w.yaml").write_text(text)
    return "w.yaml"


LOOKS = (
    ["--help"],
    ["version"],
    ["validate", "w.yaml"],
    ["plan", "w.yaml"],
    ["run", "w.yaml", "--output", "again"],
    ["show", "out"],
    ["show", "out", "--beyond", "cosine"],
    ["diff", "out", "again"],
    ["init", "torchair_ge_vs_fx", "--output", "copied"],
    ["templates"],
    ["explain", "PF1020"],
    ["doctor"],
    ["cache", "info"],
)


def test_no_command_imports_a_package_that_the_workflow_does_not_name(acme: Site) -> None:
    workflow = write(acme, comparing(acme.folder))
    assert acme.run("run", workflow, "--output", "out").returncode in (0, 1)
    assert {" ".join(command): acme.imported(*command) for command in LOOKS} == {
        " ".join(command): set() for command in LOOKS
    }


@pytest.mark.parametrize("command", ["validate", "plan"])
@pytest.mark.parametrize(
    ("named", "imported"),
    [
        ({"metrics": "[acme_err]"}, {"acme_metric"}),
        ({"metrics": "[reference.acme_err]"}, {"acme_metric"}),
        ({"policy": "acme"}, set()),
        ({"formats": "{csv: acme}"}, set()),
    ],
    ids=str,
)
def test_what_a_workflow_names_is_imported_where_its_options_need_it(
    acme: Site, command: str, named: Mapping[str, str], imported: set[str]
) -> None:
    assert acme.imported(command, write(acme, comparing(acme.folder, **named))) == imported


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_stage_of_a_package_is_imported_where_it_is_used(acme: Site, command: str) -> None:
    text = "version: 1\nname: w\nstages:\n  a: {uses: dump.acme}\n"
    assert acme.imported(command, write(acme, text)) == {"acme_stage"}


def test_schema_imports_the_stages_of_packages_and_nothing_else(acme: Site) -> None:
    assert acme.imported("schema") == {"acme_stage"}
    assert '"dump.acme"' in acme.run("schema").stdout


@pytest.mark.parametrize(
    "command", [["validate", "w.yaml"], ["plan", "w.yaml"], ["plan", "w.yaml", "--format", "json"]]
)
def test_what_model_and_functions_name_is_imported_by_no_look(acme: Site, command: list[str]) -> None:
    write(acme, f"version: 1\nname: w\nstages:\n{MODEL}{FUNCTIONS}")
    assert acme.imported(*command) == set()


@pytest.mark.parametrize("code", HAVOC.values(), ids=HAVOC)
def test_a_broken_package_that_is_not_used_costs_nothing(site: Site, code: str) -> None:
    for module, (group, entry, _) in GROUPS.items():
        site.install(module, group, entry, code)
    workflow = write(site, comparing(site.folder))
    for command in (["validate", workflow], ["plan", workflow], ["run", workflow, "--output", "out"], ["show", "out"]):
        done = site.run(*command)
        assert (done.returncode in (0, 1), done.stderr.count("acme"), "Traceback" in done.stderr) == (True, 0, False)


@pytest.mark.parametrize("code", HAVOC.values(), ids=HAVOC)
@pytest.mark.parametrize(
    ("module", "named", "error"),
    [
        ("acme_stage", None, "PF1020"),
        ("acme_metric", {"metrics": "[acme_err]"}, "acme_err"),
        ("acme_policy", {"policy": "acme"}, "PF5002"),
        ("acme_layout", {"formats": "{csv: acme}"}, "PF7003"),
    ],
    ids=["stage", "metric", "policy", "layout"],
)
def test_a_broken_package_that_is_used_is_named(
    site: Site, code: str, module: str, named: Mapping[str, str] | None, error: str
) -> None:
    group, entry, _ = GROUPS[module]
    site.install(module, group, entry, code)
    text = comparing(site.folder, **named) if named else "version: 1\nname: w\nstages:\n  a: {uses: dump.acme}\n"
    done = site.run("run", write(site, text), "--output", "out")
    assert done.returncode in (2, 3)
    assert error in done.stderr
    assert module in done.stderr
    assert "PF9001" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("text", "told"), [("raise", "its options cannot be checked"), ("foresee", "forecast fails")])
def test_code_of_a_stage_that_raises_is_named(acme: Site, text: str, told: str) -> None:
    done = acme.run("plan", write(acme, f"version: 1\nname: w\nstages:\n  a: {{uses: dump.acme, text: {text}}}\n"))
    assert done.returncode == 2
    assert "PF1020" in done.stderr
    assert told in done.stderr


def test_schema_leaves_a_broken_stage_out_with_a_warning(site: Site) -> None:
    site.install("acme_stage", *GROUPS["acme_stage"][:2], HAVOC["raises"])
    done = site.run("schema")
    assert done.returncode == 0
    assert "warning[PF1020]" in done.stderr
    assert done.stdout == (Path(__file__).parents[2] / "schemas" / "workflow.schema.json").read_text()


def test_an_entry_point_without_a_module_is_named_where_it_is_used(acme: Site) -> None:
    information = acme.root / "acme_stage-1.0.dist-info"
    (information / "entry_points.txt").write_text("[probe_flow.stages]\ndump.acme = ::\n")
    assert acme.run("validate", write(acme, comparing(acme.folder, metrics="[acme_err]"))).returncode == 0
    done = acme.run("validate", write(acme, "version: 1\nname: w\nstages:\n  a: {uses: dump.acme}\n"))
    assert done.returncode == 2
    assert "PF1020" in done.stderr
