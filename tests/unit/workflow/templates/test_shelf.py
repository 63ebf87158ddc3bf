"""Templates of installed packages: found without importing anything, and never silently the wrong one."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from probe_flow.errors import Severity, WorkflowError
from probe_flow.files.yaml.positions import parse_yaml
from probe_flow.workflow.loading.extending import extend_template
from probe_flow.workflow.loading.loader import load_workflow
from probe_flow.workflow.model import Workflow
from probe_flow.workflow.templates import shelf as template_shelf
from probe_flow.workflow.templates.packaged import templates
from probe_flow.workflow.templates.shelf import Shelf, describe, make_shelf

Install = Callable[..., Path]
SIDES = {"target": "ge", "golden": "fx"}

NIGHTLY = """version: 1
name: acme-nightly
description: What Acme runs every night.
extends: template:torchair_ge_vs_fx
stages:
  result: {require: {coverage: 0.9}}
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a package with files and one entry point, as an installer lays it out."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    template_shelf.shelf.cache_clear()

    def lay_out(
        package: str, files: dict[str, str | bytes] | None = None, *, value: str | None = None, top: str | None = None
    ) -> Path:
        top = top or package.replace("-", "_")
        folder = site / top / "workflows"
        for name, content in ({"nightly.yaml": NIGHTLY} if files is None else files).items():
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
        if folder.parent.is_dir():
            (folder.parent / "__init__.py").write_text("raise RuntimeError('a template is no reason to import me')\n")
        info = site / f"{package.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[probe_flow.templates]\nteam = {value or f'{top}.workflows'}\n")
        return folder

    yield lay_out
    template_shelf.shelf.cache_clear()


def current() -> Shelf:
    return make_shelf(templates(), "9.9", entry_points(group="probe_flow.templates"))


def load(folder: Path, extends: str, sets: Mapping[str, str] = SIDES) -> Workflow:
    path = folder / "mine.yaml"
    path.write_text(f"version: 1\nname: mine\nextends: {extends}\n", encoding="utf-8")
    return load_workflow(path, env={}, cwd=folder, sets=sets)


def theirs(shelf: Shelf) -> list[tuple[str, str, str]]:
    return [(each.name, each.package, each.version) for each in shelf.templates if not each.is_ours]


def test_files_of_a_package_are_templates_and_nothing_of_it_is_imported(install: Install) -> None:
    install(
        "acme-probe", {"nightly.yaml": NIGHTLY, "on-demand.yaml": NIGHTLY, "_base.yaml": NIGHTLY, "README.md": "text"}
    )
    shelf = current()
    assert theirs(shelf) == [("nightly", "acme-probe", "1.2"), ("on_demand", "acme-probe", "1.2")]
    assert shelf.problems == ()
    assert shelf.clashes() == []
    found, problem = shelf.find("on-demand")
    assert found is not None
    assert problem is None
    assert describe(found) == ("What Acme runs every night.", None)
    assert "acme_probe" not in sys.modules


@pytest.mark.parametrize("name", ["nightly", "acme-probe/nightly", "Acme_Probe/nightly", "acme.probe/nightly"])
def test_a_workflow_extends_a_template_of_a_package(install: Install, tmp_path: Path, name: str) -> None:
    install("acme-probe")
    workflow = load(tmp_path, f"template:{name}")
    (compare,) = (stage for stage in workflow.stages if stage.name == "result")
    assert compare.options.require.coverage == 0.9
    assert workflow.warnings == ()


def test_paths_in_a_template_start_from_its_own_file(install: Install, tmp_path: Path) -> None:
    text = "version: 1\nname: a\nstages:\n  golden: {uses: dump.torchair_fx, path: fx}\n"
    folder = install("acme-probe", {"nightly.yaml": text})
    workflow = load(tmp_path, "template:nightly", {})
    assert workflow.stages[0].options.path == str(folder / "fx")


def test_mistakes_in_a_template_are_shown_in_its_file(install: Install, tmp_path: Path) -> None:
    folder = install("acme-probe", {"nightly.yaml": NIGHTLY.replace("require", "requir")})
    with pytest.raises(WorkflowError) as caught:
        load(tmp_path, "template:nightly")
    (mistake,) = caught.value.diagnostics
    assert (mistake.code, mistake.span.line) == ("PF1203", 6)
    assert Path(tmp_path, mistake.span.file).resolve() == folder / "nightly.yaml"


def test_a_name_of_two_packages_means_neither(install: Install, tmp_path: Path) -> None:
    install("acme-probe")
    install("vision-probe")
    with pytest.raises(WorkflowError) as caught:
        load(tmp_path, "template:nightly")
    (mistake,) = caught.value.diagnostics
    assert mistake.code == "PF7401"
    assert mistake.message == (
        "`nightly` can be several templates, brought by the package `acme-probe` and the package `vision-probe`"
    )
    assert mistake.help == "say which: `template:acme-probe/nightly` or `template:vision-probe/nightly`"
    assert (mistake.span.line, mistake.span.column) == (3, 10)
    assert load(tmp_path, "template:vision-probe/nightly").name == "mine"
    shelf = current()
    assert [shelf.label(each) for each in shelf.templates if not each.is_ours] == [
        "acme-probe/nightly",
        "vision-probe/nightly",
    ]
    assert [problem.code for problem in shelf.clashes()] == ["PF7401"]


def test_a_package_does_not_replace_ours_and_the_user_is_told(install: Install, tmp_path: Path) -> None:
    text = "version: 1\nname: a\nstages:\n  golden: {uses: dump.torchair_fx, path: fx}\n"
    install("acme-probe", {"torchair-ge-vs-fx.yaml": text})
    workflow = load(tmp_path, "template:torchair_ge_vs_fx")
    assert len(workflow.stages) == 5
    (warning,) = workflow.warnings
    assert (warning.code, warning.severity) == ("PF7401", Severity.WARNING)
    assert warning.help == "theirs is `template:acme-probe/torchair_ge_vs_fx`"
    assert len(load(tmp_path, "template:acme-probe/torchair_ge_vs_fx", {}).stages) == 1
    assert len(load(tmp_path, "template:probe-flow/torchair_ge_vs_fx").stages) == 5


def test_two_files_of_one_package_that_differ_by_a_dash_are_to_be_renamed(install: Install) -> None:
    install("acme-probe", {"on-demand.yaml": NIGHTLY, "on_demand.yaml": NIGHTLY})
    found, problem = current().find("acme-probe/on_demand")
    assert found is None
    assert problem is not None
    assert problem.message == "`acme-probe` brings several templates `on_demand`"
    assert problem.help.startswith("rename one of the files")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("no_such_package.workflows", "there is no package `no_such_package`"),
        ("acme_probe.nothing", "there is no folder `"),
        ("acme_probe.workflows", "there is no `*.yaml` in `"),
        ("acme_probe:workflows", "its value names `workflows` inside a module"),
        ("json.decoder", "there is no folder `"),
        ("sys", "there is no package `sys`"),
        ("../../etc", "its value is no dotted name of a package"),
    ],
)
def test_a_broken_package_is_told_and_harms_no_other(install: Install, tmp_path: Path, value: str, why: str) -> None:
    install("acme-probe", {"README.md": "no workflow"}, value=value)
    install("vision-probe")
    shelf = current()
    (problem,) = shelf.problems
    assert problem.code == "PF7402"
    assert problem.message.startswith(f"the templates of the package `acme-probe` cannot be found: {why}")
    assert theirs(shelf) == [("nightly", "vision-probe", "1.2")]
    assert load(tmp_path, "template:nightly").warnings == ()
    # Only somebody who looks for what is not there needs to know.
    with pytest.raises(WorkflowError) as caught:
        load(tmp_path, "template:weekly")
    assert caught.value.diagnostics[0].code == "PF1101"
    assert caught.value.diagnostics[0].notes == (problem.message,)


def test_an_unknown_name_gets_suggestions_from_all_packages(install: Install) -> None:
    install("acme-probe")
    _, problem = current().find("nigthly")
    assert problem is not None
    assert problem.help.startswith("did you mean `nightly`?")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"- a list\n", b"a: [\n"])
def test_a_template_that_is_no_workflow_says_so(install: Install, content: bytes) -> None:
    install("acme-probe", {"odd.yaml": content})
    found, _ = current().find("odd")
    assert found is not None
    text, problem = describe(found)
    assert text == ""
    assert problem is not None
    assert problem.code == "PF7403"
    assert "the template `odd` of the package `acme-probe` cannot be read" in problem.message


@pytest.mark.parametrize("name", ["a: b # c", "1e3", "true", "acme-x", "${env.HOME}"])
def test_a_workflow_that_starts_from_a_template_is_one_whatever_the_template_says(
    install: Install, tmp_path: Path, name: str
) -> None:
    param = (
        '  "x\\nstages: 1": {type: text, default: q, help: "two\\nlines \\x1b[31m"}\n  y: {type: text, help: "\\x07"}\n'
    )
    text = NIGHTLY.replace("name: acme-nightly", f'name: "{name}"') + f"params:\n{param}"
    install("acme", {"nightly.yaml": text})
    (template,) = (each for each in current().templates if each.package == "acme")
    written = extend_template(template, tmp_path / "mine", force=False).workflow.read_text()
    document, problems = parse_yaml(written, "nightly.yaml")
    assert not problems
    assert document is not None
    own = name if re.fullmatch(r"[\w-]+", name) else "nightly"
    assert document.values == {"version": 1, "name": own, "extends": "template:acme/nightly"}
