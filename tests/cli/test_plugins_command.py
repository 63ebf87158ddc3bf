"""`plugins`: what is installed, from where, and what is broken."""

from __future__ import annotations

from packages_on_path import Site

METRIC = """
from probe_flow.metrics.catalogue.metric import Metric

METRIC = Metric("acme_err", "nothing", "[0, inf]", "1", "acme", compute=lambda record: 0.0)
"""


def test_without_packages_there_is_nothing_to_list(probe_flow) -> None:
    done = probe_flow("plugins")
    assert (done.code, done.out, done.err) == (0, "No installed package adds anything to probe_flow.\n", "")
    assert probe_flow("plugins", "--format", "json").json == []


def test_what_works_is_listed_with_where_it_is_from(probe_flow, site: Site) -> None:
    site.install("acme_metric", "probe_flow.metrics", "acme_err = acme_metric:METRIC", METRIC)
    workflows = site.root / "acme_probe" / "workflows"
    workflows.mkdir(parents=True)
    (workflows.parent / "__init__.py").write_text("")
    (workflows / "nightly.yaml").write_text("version: 1\n")
    site.announce("acme-probe", "probe_flow.templates", "acme = acme_probe.workflows")
    done = probe_flow("plugins")
    assert (done.code, done.err) == (0, "")
    assert [line.split() for line in done.out.splitlines()] == [
        ["metric", "acme_err", "acme_metric", "1.0", "acme_metric:METRIC", "ok"],
        ["templates", "acme", "acme-probe", "1.0", "acme_probe.workflows", "ok"],
    ]
    assert probe_flow("plugins", "--format", "json").json[0] == {
        "kind": "metric",
        "group": "probe_flow.metrics",
        "name": "acme_err",
        "value": "acme_metric:METRIC",
        "package": "acme_metric",
        "version": "1.0",
        "problem": None,
    }


def test_everything_broken_is_listed_and_explained(probe_flow, site: Site) -> None:
    site.install("acme_policy", "probe_flow.policies", "acme = acme_policy:POLICY", "raise RuntimeError('no')")
    site.announce("thief", "probe_flow.reports", "torchair = no_such_module:X")
    site.announce("one", "probe_flow.stages", "dump.shared = one:X")
    site.announce("two", "probe_flow.stages", "dump.shared = two:X")
    site.announce("typo", "probe_flow.metric", "acme_err = acme:X")
    site.announce("empty", "probe_flow.templates", "acme = no_such_folder")
    done = probe_flow("plugins")
    assert done.code == 3
    assert [(line.split()[0], line.split()[-1]) for line in done.out.splitlines()] == [
        ("stage", "PF1020"), ("stage", "PF1020"), ("policy", "PF5002"), ("layout", "PF7003"),
        ("templates", "PF7402"), ("unknown", "PF1022"),
    ]  # fmt: skip
    for said in (
        "the policy `acme` cannot be used: RuntimeError: no",
        "the layout `torchair` cannot be used: the name is that of a layout of probe_flow",
        "`one` and `two` each add one of this name",
        "there is no group `probe_flow.metric`",
        "did you mean `probe_flow.metrics`",
        "the templates of the package `empty` cannot be found",
        "of the package `acme_policy`",
    ):
        assert said in " ".join(done.err.split())
    problems = [each["problem"]["code"] for each in probe_flow("plugins", "--format", "json").json]
    assert problems == ["PF1020", "PF1020", "PF5002", "PF7003", "PF7402", "PF1022"]
