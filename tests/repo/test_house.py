"""The rules of the house: folders are chapters, modules are ideas, wings have narrow doors, nothing goes in circles.

What breaks a rule today is in ``house_exceptions.yaml``, which only shrinks. Each rule is also tried on a small package
that breaks it, so that an empty answer means something.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from repo import house
from repo.house import ROOT, House, complaints

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: import-linter brings this one
    import tomli as tomllib

LINES = "pass\n" * house.FRAGMENT_LINES
"""A module that is no fragment."""

CIRCLES = [how + unit for how in ("", "typed_", "hidden_") for unit in ("modules", "wings", "rooms")]


@functools.cache
def ours() -> House:
    return house.read(ROOT)


@functools.cache
def excused() -> dict[str, Any]:
    return house.exceptions()


def check(found: dict[str, house.Finding], listed: Any) -> None:
    if wrong := complaints(found, listed):
        pytest.fail(wrong, pytrace=False)


# -- this repository


def test_no_folder_is_too_full() -> None:
    check(house.full_folders(ours()), excused()["folders"])


def test_no_short_module_serves_one_other() -> None:
    check(house.fragments(ours()), [*excused()["fragments"], *excused()["to_merge"]])


def test_short_modules_stay_for_a_reason() -> None:
    reasons = excused()["fragments"]
    assert all(reasons.values()), "say under `fragments` why each stays"
    assert len(reasons) <= house.EXCUSED_FRAGMENTS, "merge some of them"
    assert not reasons.keys() & excused()["to_merge"].keys(), "either it stays or it is merged"


def test_no_module_is_too_long() -> None:
    check(house.long_modules(ours()), excused()["long_modules"])


def test_no_wing_has_a_wide_interface() -> None:
    check(house.wide_interfaces(ours()), excused()["interfaces"])


@pytest.mark.parametrize("kind", CIRCLES)
def test_nothing_goes_in_circles(kind: str) -> None:
    check(house.circles(ours())[kind], map(house.joined, excused()["circles"][kind]))


def test_unit_tests_mirror_the_package() -> None:
    elsewhere = excused()["tests_elsewhere"]
    check(house.homeless_tests(ROOT), list(elsewhere))
    assert all(elsewhere.values()), "say under `tests_elsewhere` what each folder tests"


# -- planted faults


def plant(root: Path, files: dict[str, str]) -> House:
    """Write a small package, with the folders that it needs, and read it."""
    for name, text in {"__init__.py": "", **files}.items():
        path = root / house.PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        for folder in path.relative_to(root).parents[:-1]:
            (root / folder / "__init__.py").touch()
    return house.read(root)


def test_a_full_folder_is_found(tmp_path: Path) -> None:
    files = {f"cellar/shelf/m{number}.py": "" for number in range(house.FOLDER_FILES)}
    assert house.full_folders(plant(tmp_path, files)) == {}

    found = house.full_folders(plant(tmp_path, {"cellar/shelf/one_more.py": ""}))

    assert {name: each.figure for name, each in found.items()} == {"probe_flow.cellar.shelf": house.FOLDER_FILES + 1}


def test_a_fragment_is_found(tmp_path: Path) -> None:
    planted = {
        "cellar/user.py": "from probe_flow.cellar import short\nfrom probe_flow.cellar.long import f\n",
        "cellar/short.py": "",
        "cellar/long.py": LINES,
        "cellar/lonely.py": "",
    }
    found = house.fragments(plant(tmp_path, planted))

    assert found.keys() == {"probe_flow.cellar.short"}
    assert found["probe_flow.cellar.short"].cure.endswith("probe_flow.cellar.user")


@pytest.mark.parametrize(
    "text",
    [
        "TABLE = {'a': 'probe_flow.cellar.short'}",
        "TABLE = {'a': 'probe_flow.cellar.short:Name'}",
        "command = [python, '-m', 'probe_flow.cellar.short']",
        "command = [python, '-c', 'import sys; from probe_flow.cellar.short import f; f()']",
        "from probe_flow.cellar.short import g",
    ],
)
def test_a_short_module_that_more_need_is_none(text: str, tmp_path: Path) -> None:
    planted = {"cellar/user.py": "import probe_flow.cellar.short", "cellar/short.py": "", "cellar/other.py": text}

    assert house.fragments(plant(tmp_path, planted)) == {}


def test_an_entry_point_makes_a_module_needed(tmp_path: Path) -> None:
    project = '[project.scripts]\nflow = "probe_flow.cellar.short:main"\n'
    (tmp_path / "pyproject.toml").write_text(project, encoding="utf-8")
    planted = {"cellar/user.py": "import probe_flow.cellar.short", "cellar/short.py": ""}

    assert house.fragments(plant(tmp_path, planted)) == {}


def test_a_docstring_makes_no_module_needed(tmp_path: Path) -> None:
    named = '"""probe_flow.cellar.short"""'
    planted = {"cellar/user.py": "import probe_flow.cellar.short", "cellar/short.py": "", "cellar/other.py": named}

    assert house.fragments(plant(tmp_path, planted)).keys() == {"probe_flow.cellar.short"}


def test_a_long_module_is_found(tmp_path: Path) -> None:
    long = "pass\n" * (house.MODULE_LINES + 1)
    found = house.long_modules(plant(tmp_path, {"cellar/long.py": long, "cellar/fits.py": long[5:]}))

    assert found.keys() == {"probe_flow.cellar.long"}


def wanting(module: str, count: int) -> str:
    return f"from probe_flow.{module} import {', '.join(f'n{number}' for number in range(count))}\n"


@pytest.mark.parametrize(
    ("planted", "wide"),
    [
        pytest.param({"cellar/m.py": "", "attic/a.py": wanting("cellar.m", 16)}, "cellar", id="a room without wings"),
        pytest.param({"cellar/w/m.py": "", "attic/a.py": wanting("cellar.w.m", 16)}, "cellar.w", id="a wing"),
        pytest.param({"cellar/w/m.py": "", "cellar/a.py": wanting("cellar.w.m", 16)}, "cellar.w", id="from its room"),
        pytest.param({"cellar/w/i/m.py": "", "attic/a.py": wanting("cellar.w.i.m", 16)}, "cellar.w", id="deep inside"),
        pytest.param({"cellar/w/m.py": "", "attic/a.py": wanting("cellar.w.m", 15)}, None, id="as many as it may"),
        pytest.param({"cellar/w/m.py": "", "cellar/w/a.py": wanting("cellar.w.m", 16)}, None, id="inside"),
    ],
)
def test_a_wide_interface_is_found(planted: dict[str, str], wide: str | None, tmp_path: Path) -> None:
    found = house.wide_interfaces(plant(tmp_path, planted))

    assert {name: each.figure for name, each in found.items()} == ({f"probe_flow.{wide}": 16} if wide else {})


TO_B, TO_A = "import probe_flow.cellar.b\n", "from probe_flow.cellar import a\n"


@pytest.mark.parametrize(
    ("back", "kind"),
    [
        pytest.param(TO_A, "modules", id="at the top"),
        pytest.param("from .a import f\n", "modules", id="relative"),
        pytest.param("def f():\n    from probe_flow.cellar.a import g\n", "modules", id="in a function"),
        pytest.param(f"if TYPE_CHECKING:\n    {TO_A}", "typed_modules", id="for types"),
        pytest.param("TABLE = {'a': 'probe_flow.cellar.a:Name'}\n", "hidden_modules", id="through a registry"),
        pytest.param("run('-c', 'import probe_flow.cellar.a')\n", "hidden_modules", id="through a program"),
        pytest.param("'''probe_flow.cellar.a'''\n", None, id="in prose"),
    ],
)
def test_a_circle_of_modules_is_found(back: str, kind: str | None, tmp_path: Path) -> None:
    planted = {"cellar/a.py": "import probe_flow.cellar.c", "cellar/c.py": TO_B, "cellar/b.py": back}
    found = house.circles(plant(tmp_path, planted))

    names = "probe_flow.cellar.a <> probe_flow.cellar.b <> probe_flow.cellar.c"
    assert {each: set(circles) for each, circles in found.items() if circles} == ({kind: {names}} if kind else {})


def test_a_circle_through_the_table_of_a_lazy_package_is_found(tmp_path: Path) -> None:
    planted = {"cellar/__init__.py": "HOMES = {'Name': 'a'}", "cellar/a.py": "from probe_flow.cellar import Name"}
    found = house.circles(plant(tmp_path, planted))

    assert found["hidden_modules"].keys() == {"probe_flow.cellar <> probe_flow.cellar.a"}


@pytest.mark.parametrize(
    ("ends", "names", "kind"),
    [
        (("cellar.w.a", "cellar.v.a", "cellar.v.b", "cellar.w.b"), "cellar.v <> cellar.w", "wings"),
        (("cellar.w.a", "cellar.a", "cellar.a", "cellar.w.b"), "cellar.a <> cellar.w", "wings"),
        (("cellar.w.a", "attic.a", "attic.b", "cellar.v.a"), "attic <> cellar", "rooms"),
        (("cellar.w.a", "attic", "attic", "cellar.v.a"), "attic <> cellar", "rooms"),
    ],
)
@pytest.mark.parametrize("hidden", [False, True])
def test_a_circle_of_folders_is_found(
    ends: tuple[str, ...], names: str, kind: str, *, hidden: bool, tmp_path: Path
) -> None:
    """No circle of modules: ``ends`` are importer, imported, importer, imported."""
    needs = {ends[0]: f"import probe_flow.{ends[1]}\n", ends[3]: ""}
    needs[ends[2]] = f"MODULE = 'probe_flow.{ends[3]}'\n" if hidden else f"import probe_flow.{ends[3]}\n"
    needs.setdefault(ends[1], "")
    found = house.circles(plant(tmp_path, {f"{name.replace('.', '/')}.py": text for name, text in needs.items()}))

    circle = " <> ".join(f"probe_flow.{name}" for name in names.split(" <> "))
    found_ones = {each: set(circles) for each, circles in found.items() if circles}
    assert found_ones == {("hidden_" if hidden else "") + kind: {circle}}


def test_tests_of_no_folder_are_found(tmp_path: Path) -> None:
    plant(tmp_path, {"cellar/m.py": ""})
    for name in ("cellar/test_m.py", "kitchen/test_m.py", "kitchen/conftest.py", "garden/helpers.py"):
        path = tmp_path / "tests" / "unit" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    assert house.homeless_tests(tmp_path).keys() == {"kitchen"}


@pytest.mark.parametrize(
    ("found", "listed", "word"),
    [
        (3, None, "DIVIDE"),
        (3, 2, "grew from 2"),
        (2, 3, "lower its figure"),
        (None, 3, "take it out"),
        (3, 3, ""),
    ],
)
def test_exceptions_only_shrink(found: int | None, listed: int | None, word: str) -> None:
    said = complaints({"folder": house.Finding(found, "DIVIDE")} if found else {}, {"folder": listed} if listed else {})

    assert word in said
    assert bool(said) == bool(word)


def test_what_is_written_keeps_reasons_and_passes(tmp_path: Path) -> None:
    user = "from probe_flow.cellar import short, shorter"
    small = plant(tmp_path, {"cellar/user.py": user, "cellar/short.py": "", "cellar/shorter.py": ""})
    before = {
        "fragments": {"probe_flow.cellar.short": "a reason", "probe_flow.cellar.gone": "another"},
        "tests_elsewhere": {},
        "contracts_not_exhaustive": [],
    }
    written = house.present(tmp_path, small, before)

    assert written["fragments"] == {"probe_flow.cellar.short": "a reason"}
    assert written["to_merge"] == {"probe_flow.cellar.shorter": "probe_flow.cellar.user"}
    assert house.present(tmp_path, small, written) == written


def test_figures_are_counted(tmp_path: Path) -> None:
    planted = {"cellar/a.py": "import probe_flow.attic.b\n", "attic/b.py": "def f():\n    import probe_flow.cellar.a\n"}
    table = house.table(plant(tmp_path, planted))

    assert "| modules | 2 |" in table
    assert "| mean files a folder | 1.0 |" in table
    assert "| imports (in modules, in functions, for types, as text) | 1 1 0 0 |" in table
    assert "| circles: rooms | 1 |" in table


# -- contracts of import-linter


def contracts() -> list[dict[str, Any]]:
    """Return the contracts that order layers."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [each for each in project["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]


def linted(root: Path) -> str:
    """Run import-linter on the package in a folder, and return what it says."""
    code = "from importlinter.cli import lint_imports_command as run; run()"
    ended = subprocess.run(
        [sys.executable, "-c", code, "--no-cache", "--no-logo"],
        cwd=root, env={**os.environ, "PYTHONPATH": str(root), "COLUMNS": "1000"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    return ended.stdout + ended.stderr


def test_each_contract_finds_a_wrong_import(tmp_path: Path) -> None:
    shutil.copytree(ROOT / house.PACKAGE, tmp_path / house.PACKAGE, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for contract in contracts():
        for container in contract.get("containers", [""]):
            highest, lowest = (
                ".".join(filter(None, [container, layer.split("|")[0].split(":")[0].strip(" ()")]))
                for layer in (contract["layers"][0], contract["layers"][-1])
            )
            folder = tmp_path.joinpath(*lowest.split(".")) / "__init__.py"
            path = folder if folder.exists() else folder.parent.with_suffix(".py")  # of what git left, folders stay
            with path.open("a", encoding="utf-8") as file:
                file.write(f"\nimport {highest}\n")

    said = linted(tmp_path)

    assert [each["name"] for each in contracts() if f"{each['name']} BROKEN" not in said] == [], said


def test_each_contract_is_exhaustive() -> None:
    """Else a new folder is under no contract."""
    loose = {each["name"] for each in contracts() if not each.get("exhaustive")}
    listed = set(excused()["contracts_not_exhaustive"])
    assert loose <= listed, f"say `containers` and `exhaustive = true` in pyproject.toml: {loose - listed}"
    assert listed <= loose, f"exhaustive by now; take it out of {house.EXCEPTIONS.name}: {listed - loose}"


def test_an_exhaustive_contract_finds_a_new_folder(tmp_path: Path) -> None:
    contract = '[[tool.importlinter.contracts]]\nname = "floors"\ntype = "layers"\ncontainers = ["probe_flow"]\n'
    project = f'[tool.importlinter]\nroot_package = "probe_flow"\n{contract}layers = ["attic", "cellar"]\n'
    (tmp_path / "pyproject.toml").write_text(project + "exhaustive = true\n", encoding="utf-8")
    plant(tmp_path, {"attic/a.py": "import probe_flow.cellar.m", "cellar/m.py": ""})
    assert "floors KEPT" in linted(tmp_path)

    plant(tmp_path, {"kitchen/m.py": ""})

    assert "floors BROKEN" in linted(tmp_path)
