"""The registry: names without imports, and every way in which a package can be broken."""

from __future__ import annotations

import zipfile
from importlib import metadata

import pytest
from packages_on_path import Site

from probe_flow.analysis.policies.registry import POLICIES
from probe_flow.dumps.registry import READERS
from probe_flow.errors import UsageError
from probe_flow.metrics.accumulators.registry import ACCUMULATORS
from probe_flow.metrics.catalogue.registry import METRICS
from probe_flow.packages import PackageError, Plugin, Registry, groups, version_of
from probe_flow.reports.layout import LAYOUTS
from probe_flow.stages.registry import STAGES
from probe_flow.stages.report.report import FORMATS

GROUP = "probe_flow.cheeses"
REGISTRIES = [STAGES, READERS, METRICS, ACCUMULATORS, POLICIES, LAYOUTS, FORMATS]
HAVOC = {
    "raise RuntimeError('curdled')": "RuntimeError: curdled",
    "raise ValueError('one\\n  two\\n')": "ValueError: one; two",
    "import no_such_module_of_acme": "ModuleNotFoundError: No module named 'no_such_module_of_acme'",
    "import sys; sys.exit(0)": "SystemExit: 0",
    "def (": "SyntaxError",
    "": "AttributeError",
}


def accept(name: str, found: object) -> str:
    if not isinstance(found, str):
        raise PackageError("it is no text")
    return f"{name} {found}"


def cheeses() -> Registry[str]:
    ours = {"brie": "string:digits", "comte": "string:hexdigits"}
    return Registry(("cheese", "cheeses"), GROUP, ours, accept, unknown="PF1204", unusable="PF1020")


def test_ours_come_first_and_theirs_sorted_and_nothing_is_imported(site: Site) -> None:
    site.install("acme_b", GROUP, "stilton = acme_b:X", "X = 'blue'")
    site.install("acme_a", GROUP, "gouda = acme_a:X", "X = 'yellow'")
    known = cheeses()
    assert (list(known), len(known)) == (["brie", "comte", "gouda", "stilton"], 4)
    assert ("gouda" in known, "edam" in known, 3 in known) == (True, False, False)
    assert site.imported == set()
    assert (known["brie"], known["gouda"], known.find("gouda")) == ("0123456789", "gouda yellow", "gouda yellow")
    assert site.imported == {"acme_a"}
    assert GROUP in groups()


def test_an_unknown_name_is_told_with_near_ones(site: Site) -> None:
    site.announce("acme", GROUP, "gouda = acme:X")
    with pytest.raises(KeyError):
        cheeses()["goda"]
    with pytest.raises(UsageError, match="there is no cheese `goda`") as caught:
        cheeses().find("goda")
    assert (caught.value.diagnostic.code, caught.value.diagnostic.help) == ("PF1204", "did you mean `gouda`?")
    assert cheeses().no_such("x").help == "cheeses: brie, comte, gouda"


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda each: each.word)
@pytest.mark.parametrize(("code", "why"), HAVOC.items())
def test_what_breaks_on_import_costs_its_name_only(site: Site, registry: Registry[object], code: str, why: str) -> None:
    site.install("acme_broken", registry.group, "acme.broken = acme_broken:X", code)
    assert "acme.broken" in registry
    assert site.imported == set()
    with pytest.raises(UsageError) as caught:
        registry.find("acme.broken")
    problem = caught.value.diagnostic
    assert problem.message.startswith(f"the {registry.word} `acme.broken` cannot be used: ")
    assert why in problem.message
    assert problem.notes == (
        f"entry point `acme.broken = acme_broken:X` ({registry.group}) of the package `acme_broken`",
    )
    assert "update or remove" in (problem.help or "")
    assert registry[next(iter(registry.built_in))] is not None


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda each: each.word)
@pytest.mark.parametrize("value", ["math:pi", "acme_gone:X", "string:no_such_name", "::"])
def test_what_is_of_another_type_or_not_there_is_refused(site: Site, registry: Registry[object], value: str) -> None:
    site.announce("acme", registry.group, f"odd = {value}")
    with pytest.raises(UsageError, match="`odd` cannot be used: "):
        registry.find("odd")


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda each: each.word)
def test_of_two_packages_with_one_name_neither_wins(site: Site, registry: Registry[object]) -> None:
    for module in ("acme_one", "acme_two"):
        site.install(module, registry.group, f"shared = {module}:X", "X = 1")
    with pytest.raises(UsageError) as caught:
        registry.find("shared")
    problem = caught.value.diagnostic
    assert problem.message.endswith("`acme_one` and `acme_two` each add one of this name, and none of them goes first")
    assert [note.rpartition(" ")[2] for note in problem.notes] == ["`acme_one`", "`acme_two`"]
    assert "remove one of the packages" in (problem.help or "")
    assert site.imported == set()


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda each: each.word)
def test_no_package_takes_a_name_of_ours(site: Site, registry: Registry[object]) -> None:
    name = next(iter(registry.built_in))
    ours = registry[name]
    site.install("acme_thief", registry.group, f"{name} = acme_thief:X", "X = 1")
    assert registry[name] is ours
    assert list(registry).count(name) == len(registry) - len(set(registry) - {name}) == 1
    ((plugin, problem),) = registry.plugins()
    assert plugin == Plugin(registry.group, name, "acme_thief:X", "acme_thief", "1.0")
    assert problem is not None
    assert "which no package replaces" in problem.message
    assert site.imported == set()


def test_an_interrupt_while_a_package_is_imported_is_one(site: Site) -> None:
    site.install("acme_slow", GROUP, "slow = acme_slow:X", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        cheeses().find("slow")


def test_plugins_are_listed_with_what_is_wrong_with_them(site: Site) -> None:
    site.install("acme_a", GROUP, "gouda = acme_a:X", "X = 'yellow'")
    site.install("acme_b", GROUP, "edam = acme_b:X", "X = 7")
    found = {plugin.name: problem and problem.message for plugin, problem in cheeses().plugins()}
    assert found == {"edam": "the cheese `edam` cannot be used: it is no text", "gouda": None}


def test_the_entry_points_of_a_thing_are_known_without_loading_it(site: Site) -> None:
    site.install("acme_a", GROUP, "gouda = acme_a:X", "X = 'yellow'")
    known = cheeses()
    assert [plugin.package for plugin in known.plugins_of("gouda")] == ["acme_a"]
    assert [list(known.plugins_of(name)) for name in (*known.built_in, "no such cheese")] == [[]] * (
        len(known.built_in) + 1
    )
    assert site.imported == set()


def test_the_entry_points_of_a_package_in_an_archive_are_known(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.announce("acme_a", GROUP, "gouda = acme_a:X")
    archive = site.root.parent / "acme.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in (site.root / "acme_a-1.0.dist-info").iterdir():
            file.write(path, f"acme_z-2.0.dist-info/{path.name}")
    monkeypatch.setattr("sys.path", [str(archive)])
    assert groups() == (GROUP,)
    assert "gouda" in cheeses()


def test_a_finder_of_packages_of_another_kind_is_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.announce("acme_a", GROUP, "gouda = acme_a:X")

    class Elsewhere:
        """Finds nothing to import, and the packages of one folder, which is not on the search path."""

        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(context: metadata.DistributionFinder.Context) -> object:
            there = metadata.DistributionFinder.Context(name=context.name, path=[str(site.root)])
            return metadata.MetadataPathFinder.find_distributions(there)

    monkeypatch.setattr("sys.path", [])
    assert groups() == ()
    monkeypatch.setattr("sys.path", [str(site.root.parent / "nothing")])
    monkeypatch.setattr("sys.meta_path", [Elsewhere])
    assert groups() == (GROUP,)
    assert version_of("acme_a") == "1.0"


def test_a_version_is_what_the_metadata_say(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, file, version in (
        ("Acme_A-1.0.dist-info", "METADATA", "1.0+local.7"),
        ("acme_b.egg-info", "PKG-INFO", "3"),
    ):
        (site.root / folder).mkdir()
        (site.root / folder / file).write_text(f"Metadata-Version: 2.1\nVersion: {version}\n\nVersion: 9\n")
    monkeypatch.setattr("sys.path", [str(site.root)])
    assert [version_of(name) for name in ("acme_a", "acme_b", "acme_c")] == ["1.0+local.7", "3", None]
