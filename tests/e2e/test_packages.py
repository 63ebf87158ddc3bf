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
from typing import NamedTuple

import pytest
from packages_on_path import Site, make_site

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
READER = """
from probe_flow.dumps.registry import ReaderSpec

READER = ReaderSpec("acme", lambda folders, name: name.endswith(".acme"), "`*.acme`", lambda path, **_: None)
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
LAYOUT = """
from probe_flow.reports.layout import Layout
from probe_flow.reports.table import Table

LAYOUT = Layout("acme", lambda comparison: Table(("Rows",), frozenset(), iter(())))
"""
FORMAT = """
from probe_flow.reports.formats import FileFormat


def files(request, option):
    return request.one("acme", ".txt", lambda path: path.write_text(f"{option} {len(request.comparison.rows)}"))


FORMAT = FileFormat("acme", files, int)
"""


class Kind(NamedTuple):
    """A kind of thing that packages add: one of them, how a workflow uses it, and what is said of a broken one."""

    group: str
    entry: str
    code: str
    used: Mapping[str, str] | str
    """Options of a comparison, or the line of a stage."""
    error: str
    ours: str
    """A name that a package may not take."""

    @property
    def name(self) -> str:
        return self.entry.partition(" ")[0]


KINDS = {
    "acme_stage": Kind(
        "probe_flow.stages", "dump.acme = acme_stage:STAGE", STAGE, "{uses: dump.acme}", "PF1020", "dump.torch"
    ),
    "acme_reader": Kind(
        "probe_flow.readers",
        "acme = acme_reader:READER",
        READER,
        "{uses: dump.auto, path: ., kind: acme}",
        "PF3432",
        "torchair_ge",
    ),
    "acme_metric": Kind(
        "probe_flow.metrics", "acme_err = acme_metric:METRIC", METRIC, {"metrics": "[acme_err]"}, "PF5115", "cosine"
    ),
    "acme_policy": Kind(
        "probe_flow.policies", "acme = acme_policy:Policy", POLICY, {"policy": "acme"}, "PF5002", "torchair"
    ),
    "acme_layout": Kind(
        "probe_flow.reports", "acme = acme_layout:LAYOUT", LAYOUT, {"formats": "{csv: acme}"}, "PF7003", "torchair"
    ),
    "acme_format": Kind(
        "probe_flow.formats", "acme = acme_format:FORMAT", FORMAT, {"formats": "{acme: 3}"}, "PF7004", "html"
    ),
}
HAVOC = {
    "raises": "raise RuntimeError('the package is broken')",
    "lacks a module": "import no_such_module_of_acme",
    "exits": "import sys; sys.exit(0)",
    "is no Python": "def (",
    "gives something else": "STAGE = METRIC = LAYOUT = FORMAT = READER = 1.5; Policy = 7",
}
MODEL = "  m: {uses: dump.torchair_fx, model: 'users:build', inputs: 'users:inputs', import_from: .}\n"
FUNCTIONS = "  f: {uses: reduce.statistics, path: msprobe_fx_dump, functions: ['users:figure'], output: reduced}\n"
BARE = "version: 1\nname: w\nstages:\n  a: {}\n"


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
class Place:
    """Installed packages, and a folder with dumps in which commands run."""

    site: Site
    folder: Path

    def add(self, module: str, *, code: str | None = None, name: str | None = None) -> None:
        """Install the package of a kind, perhaps with other code, or with its thing under another name."""
        kind = KINDS[module]
        entry = kind.entry if name is None else f"{name} = {kind.entry.partition(' = ')[2]}"
        self.site.install(module, kind.group, entry, kind.code if code is None else code)

    def write(self, text: str) -> str:
        (self.folder / "w.yaml").write_text(text)
        return "w.yaml"

    def using(self, module: str) -> str:
        """Write a workflow that uses the thing of a package, and return its name."""
        used = KINDS[module].used
        return self.write(BARE.format(used) if isinstance(used, str) else comparing(self.folder, **used))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = os.pathsep.join([str(self.site.root), *(path for path in sys.path if path)])
        environment = {**os.environ, "PYTHONPATH": where, "PROBE_FLOW_CACHE": str(self.folder / "cache")}
        return subprocess.run(
            [sys.executable, "-m", "probe_flow", *arguments],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def imported(self, *arguments: str) -> set[str]:
        """Run a command, and return the modules of packages and of the user that it imported."""
        for mark in self.site.marks.iterdir():
            mark.unlink()
        done = self.run(*arguments)
        assert "PF9001" not in done.stderr
        assert "Traceback" not in done.stderr
        return self.site.imported


@pytest.fixture
def place(tmp_path: Path, dumps) -> Place:
    found = Place(make_site(tmp_path / "site"), dumps.root)
    marks = found.site.marks
    (dumps.root / "users.py").write_text(f"from pathlib import Path\nPath({str(marks)!r}, 'users').touch()\n")
    return found


@pytest.fixture
def acme(place: Place) -> Place:
    """A place with a working package of every kind."""
    for module in KINDS:
        place.add(module)
    return place


LOOKS = (
    ["--help"],
    ["version"],
    ["validate", "w.yaml"],
    ["plan", "w.yaml"],
    ["run", "w.yaml", "--output", "again"],
    ["show", "out"],
    ["show", "out", "--beyond", "cosine"],
    ["diff", "out", "again"],
    ["templates"],
    ["explain", "PF1020"],
    ["doctor"],
    ["cache", "info"],
)


def test_no_command_imports_a_package_that_the_workflow_does_not_name(acme: Place) -> None:
    workflow = acme.write(comparing(acme.folder))
    assert acme.run("run", workflow, "--output", "out").returncode in (0, 1)
    assert {" ".join(command): acme.imported(*command) for command in LOOKS} == {
        " ".join(command): set() for command in LOOKS
    }


def test_a_new_workflow_imports_the_stages_that_editors_complete(acme: Place) -> None:
    assert acme.imported("init", "torchair_ge_vs_fx", "--output", "copied") == {"acme_stage"}


@pytest.mark.parametrize(
    ("module", "by_validate", "by_plan"),
    [
        ("acme_stage", True, True),
        ("acme_reader", False, False),
        ("acme_metric", True, True),
        ("acme_policy", False, False),
        ("acme_layout", False, True),
        ("acme_format", True, True),
    ],
)
def test_what_a_workflow_names_is_imported_where_its_options_need_it(
    acme: Place, module: str, *, by_validate: bool, by_plan: bool
) -> None:
    workflow = acme.using(module)
    assert acme.imported("validate", workflow) == ({module} if by_validate else set())
    assert acme.imported("plan", workflow) == ({module} if by_plan else set())


def test_a_metric_of_target_and_reference_is_that_of_its_package(acme: Place) -> None:
    workflow = acme.write(comparing(acme.folder, metrics="[reference.acme_err]"))
    assert acme.imported("validate", workflow) == {"acme_metric"}


def test_a_run_uses_what_packages_add(acme: Place) -> None:
    formats = "{csv: acme}, {acme: 3}, acme"
    workflow = acme.write(comparing(acme.folder, metrics="[cosine, acme_err]", formats=formats))
    done = acme.run("run", workflow, "--output", "out")
    assert done.returncode in (0, 1), done.stderr
    (table,) = (acme.folder / "out").glob("acme_2*.csv")
    assert table.read_text() == "Rows\n"
    assert (acme.folder / "out" / "acme_3.txt").read_text().split()[0] == "3"
    assert (acme.folder / "out" / "acme_acme.txt").read_text().split()[0] == "None"
    assert '"acme_err":0.0' in (acme.folder / "out" / "comparison.jsonl").read_text().replace(" ", "")


@pytest.mark.parametrize(
    ("formats", "said"),
    [
        ("{acme: three}", "`acme` does not take this: Input should be a valid integer"),
        ("{xlsx: acme_csv}", "is of CSV files only"),
        ("acm", "did you mean `acme`"),
    ],
)
def test_mistakes_in_options_of_a_package_have_their_line(acme: Place, formats: str, said: str) -> None:
    acme.site.install("acme_csv", "probe_flow.reports", "acme_csv = acme_csv:write", "def write(*_): pass")
    done = acme.run("validate", acme.write(comparing(acme.folder, formats=formats)))
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert "w.yaml:8:" in done.stdout + done.stderr


def test_schema_imports_the_stages_of_packages_and_nothing_else(acme: Place) -> None:
    assert acme.imported("schema") == {"acme_stage"}
    assert '"dump.acme"' in acme.run("schema").stdout


@pytest.mark.parametrize(
    "command", [["validate", "w.yaml"], ["plan", "w.yaml"], ["plan", "w.yaml", "--format", "json"]]
)
def test_what_model_and_functions_name_is_imported_by_no_look(acme: Place, command: list[str]) -> None:
    acme.write(f"version: 1\nname: w\nstages:\n{MODEL}{FUNCTIONS}")
    assert acme.imported(*command) == set()


@pytest.mark.parametrize("code", HAVOC.values(), ids=HAVOC)
def test_a_broken_package_that_is_not_used_costs_nothing(place: Place, code: str) -> None:
    for module in KINDS:
        place.add(module, code=code)
    workflow = place.write(comparing(place.folder))
    for command in (["validate", workflow], ["plan", workflow], ["run", workflow, "--output", "out"], ["show", "out"]):
        done = place.run(*command)
        assert (done.returncode in (0, 1), done.stderr.count("acme"), "Traceback" in done.stderr) == (True, 0, False)
    assert place.site.imported == set()


@pytest.mark.parametrize(
    ("module", "havoc"), [*((module, "exits") for module in KINDS), *(("acme_stage", havoc) for havoc in HAVOC)]
)
def test_a_broken_package_that_is_used_is_named(place: Place, module: str, havoc: str) -> None:
    place.add(module, code=HAVOC[havoc])
    done = place.run("run", place.using(module), "--output", "out")
    assert done.returncode in (2, 3)
    assert KINDS[module].error in done.stderr
    assert "cannot be used: " in done.stderr
    assert f"of the package `{module}`" in done.stderr
    assert "probe-flow plugins" in done.stderr
    assert "PF9001" not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", KINDS)
def test_two_packages_with_one_name_are_both_named_and_neither_is_imported(place: Place, module: str) -> None:
    kind = KINDS[module]
    place.add(module)
    place.site.announce("zenith", kind.group, f"{kind.name} = zenith:THING")
    done = place.run("run", place.using(module), "--output", "out")
    assert done.returncode in (2, 3)
    assert kind.error in done.stderr
    for package in (module, "zenith"):
        assert f"of the package `{package}`" in done.stderr
    if module != "acme_reader":  # what reads a folder is known when it is read
        done = place.run("validate", place.using(module))
        assert (done.returncode, kind.error in done.stderr) == (2, True), done.stdout + done.stderr
    assert place.site.imported == set()
    assert place.run("validate", place.write(comparing(place.folder))).returncode == 0


@pytest.mark.parametrize("module", KINDS)
def test_a_package_takes_no_name_of_ours(place: Place, module: str) -> None:
    place.add(module, name=KINDS[module].ours)
    workflow = place.write(comparing(place.folder, metrics="[cosine]", formats="html, {csv: torchair}"))
    done = place.run("run", workflow, "--output", "out")
    assert done.returncode in (0, 1)
    assert place.site.imported == set()


@pytest.mark.parametrize(("text", "told"), [("raise", "its options cannot be checked"), ("foresee", "forecast fails")])
def test_code_of_a_stage_that_raises_is_named(acme: Place, text: str, told: str) -> None:
    done = acme.run("plan", acme.write(f"version: 1\nname: w\nstages:\n  a: {{uses: dump.acme, text: {text}}}\n"))
    assert done.returncode == 2
    assert "PF1020" in done.stderr
    assert told in done.stderr


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("Kind.CATALOG, Options, lambda *_: None", "returned a NoneType, not a catalog"),
        ("Kind.PAIRS, Options, lambda *_: [1]", "returned a list, not pairs"),
        ("Kind.COMPARISON, Options, lambda *_: {}", "returned a dict, not a comparison"),
        ("Kind.REPORT, Options, lambda *_: 'out.txt'", "returned a str, not a report"),
        ("Kind.REPORT, Options, lambda *_: [3]", "returned a list with a `int` in it, not a report"),
    ],
)
def test_a_stage_that_gives_something_else_than_it_says_is_named_with_its_package(
    place: Place, result: str, said: str
) -> None:
    place.add("acme_stage", code=STAGE.replace("Kind.CATALOG, Options, lambda *_: None", result))
    done = place.run("run", place.using("acme_stage"), "--output", "out")
    assert done.returncode == 3
    assert f"PF6004]: stage `a` (`dump.acme`) {said}" in done.stderr
    assert "this is a defect of the package `acme_stage`; report it to its author" in done.stderr
    assert "entry point `dump.acme = acme_stage:STAGE` (probe_flow.stages) of the package `acme_stage`" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("code", HAVOC.values(), ids=HAVOC)
def test_schema_leaves_a_broken_stage_out_with_a_warning(place: Place, code: str) -> None:
    place.add("acme_stage", code=code)
    done = place.run("schema")
    assert done.returncode == 0
    assert "warning[PF1020]" in done.stderr
    assert done.stdout == (Path(__file__).parents[2] / "schemas" / "workflow.schema.json").read_text()


def test_an_entry_point_without_a_module_is_named_where_it_is_used(acme: Place) -> None:
    information = acme.site.root / "acme_stage-1.0.dist-info"
    (information / "entry_points.txt").write_text("[probe_flow.stages]\ndump.acme = ::\n")
    assert acme.run("validate", acme.write(comparing(acme.folder, metrics="[acme_err]"))).returncode == 0
    done = acme.run("validate", acme.using("acme_stage"))
    assert done.returncode == 2
    assert "PF1020" in done.stderr
