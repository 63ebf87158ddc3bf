from __future__ import annotations

import pytest

from probe_flow.engine.schedulers.cluster_versions import VERSIONS, version_problems
from probe_flow.errors import Severity


def codes(by_worker):
    return [problem.code for problem in version_problems(by_worker)]


def test_equal_versions_are_no_problem():
    assert codes({"a": dict(VERSIONS), "b": dict(VERSIONS)}) == []


@pytest.mark.parametrize("name", ["probe_flow", "numpy", "python"])
def test_another_version_is_one_warning_that_counts_its_workers(name):
    other = {**VERSIONS, name: "0.1"}
    (problem,) = version_problems({"a": dict(VERSIONS), "b": other, "c": other})
    assert (problem.code, problem.severity) == ("PF6103", Severity.WARNING)
    assert problem.message.startswith(f"{name} is {VERSIONS[name]} here and 0.1 on `b` and 1 more worker:")


def test_another_layout_of_records_is_an_error_for_each_worker():
    other = {**VERSIONS, "layout": 0}
    problems = list(version_problems({"a": other, "b": dict(VERSIONS), "c": other}))
    assert [(problem.code, problem.severity) for problem in problems] == [("PF6104", Severity.ERROR)] * 2
    assert "`a`" in problems[0].message


def test_a_worker_without_the_package_is_named_with_its_own_words():
    (problem,) = version_problems({"tcp://b:1": "ModuleNotFoundError: No module named 'probe_flow'"})
    assert (problem.code, problem.severity) == ("PF6102", Severity.ERROR)
    assert "`tcp://b:1`" in problem.message
    assert "No module named" in problem.message
