"""Every file of tests/corpus: what is valid loads, what is not says exactly what was checked by hand."""

from __future__ import annotations

import pytest
import yaml
from corpus_cases import Case, cases

needs_libyaml = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml")


def _name(case: Case) -> str:
    return case.path.stem


@pytest.mark.parametrize("case", cases("valid"), ids=_name)
def test_valid_file_loads_with_the_expected_warnings(case: Case) -> None:
    workflow, _, text = case.load()

    assert workflow is not None, text
    assert text == (case.expected.read_text(encoding="utf-8") if case.expected.exists() else "")


# Syntax errors are worded after the positions that libyaml reports.
@needs_libyaml
@pytest.mark.parametrize("case", cases("invalid"), ids=_name)
def test_invalid_file_gives_the_expected_diagnostics(case: Case) -> None:
    workflow, _, text = case.load()

    assert workflow is None
    assert text == case.expected.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", cases("invalid"), ids=_name)
def test_machine_form_has_a_place_for_every_diagnostic(case: Case) -> None:
    _, diagnostics, _ = case.load()

    for diagnostic in diagnostics:
        form = diagnostic.to_dict()
        assert form["file"]
        assert form["message"]
        assert form["severity"] == "error"
