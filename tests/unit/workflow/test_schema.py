"""The JSON Schema agrees with the loader where a schema can."""

from __future__ import annotations

import re
from typing import Any

import jsonschema
import pytest
from corpus_cases import CORPUS, Case, cases

from probe_flow.files.yaml.positions import parse_yaml
from probe_flow.stages.registry import STAGES
from probe_flow.workflow.schema import workflow_schema
from probe_flow.workflow.templates.packaged import templates

SCHEMA = workflow_schema(STAGES)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

# Mistakes that a schema cannot see: YAML itself, parameters, interpolation, wiring, other files.
BEYOND_A_SCHEMA = re.compile(r"PF(100|1010|1011|11|13|2)")


def values(text: str) -> Any:
    document, _ = parse_yaml(text, "w.yaml")
    assert document is not None
    return _as_json(document.values)


def _as_json(value: object) -> object:
    """Return YAML values as JSON has them: every key is text."""
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    return [_as_json(item) for item in value] if isinstance(value, list) else value


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$id"]
    assert SCHEMA["title"]


@pytest.mark.parametrize("case", cases("valid"), ids=lambda case: case.path.stem)
def test_valid_corpus_files_fit_the_schema(case: Case) -> None:
    assert not list(VALIDATOR.iter_errors(values(case.path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", templates().values(), ids=lambda path: path.stem)
def test_packaged_workflows_fit_the_schema(path: Any) -> None:
    assert not list(VALIDATOR.iter_errors(values(path.read_text(encoding="utf-8"))))


def test_invalid_corpus_files_with_mistakes_of_shape_do_not_fit_the_schema() -> None:
    checked = 0
    for case in cases("invalid"):
        _, diagnostics, _ = case.load()
        if any(BEYOND_A_SCHEMA.match(diagnostic.code) for diagnostic in diagnostics):
            continue
        text = case.path.read_text(encoding="utf-8")
        # These break a condition or name what only our models know, or lack a key that a parameter dropped.
        beyond = {"options_that_exclude_each_other", "missing_dropped", "unknown_metric"}
        beyond |= {"cluster_without_proof", "trust_of_no_address"}
        if case.path.stem in beyond or "extends:" in text:
            continue
        assert not VALIDATOR.is_valid(values(text)), case.path.name
        checked += 1
    assert checked >= 5


def stage(options: str) -> Any:
    return values(f"version: 1\nname: w\nstages:\n  a: {{{options}}}\n")


@pytest.mark.parametrize(
    "options",
    [
        "uses: match.name, target: t, golden: g, step_offset: '${params.n}'",
        "uses: compare, pairs: p, gate: '${params.gate}', require: {coverage: '${env.C}'}",
        "uses: compare, pairs: p, only: {comparison: c, where: {verdict: fail}, limit: '${params.n}'}",
        "uses: dump.torchair_ge, path: p, select: {ranks: '${params.ranks}', steps: ['${params.n}', 0]}",
        "uses: dump.torchair_ge, path: p, time: '${params.t}'",
        "uses: dump.torchair_ge, path: 'x/${params.p}', duplicates: '${matrix.d}', matrix: {d: [newest, first]}",
    ],
)
def test_an_interpolation_is_allowed_wherever_its_value_is(options: str) -> None:
    assert not list(VALIDATOR.iter_errors(stage(options)))


@pytest.mark.parametrize(
    "options",
    [
        "uses: compare, pairs: p, gate: finding",
        "uses: compare, pairs: p, require: {coverage: much}",
        "uses: compare, pairs: p, require: {coverage: 2}",
        "uses: compare, pairs: p, colour: red",
        "uses: compare",
        "uses: dump.torchair_ge, path: p, time: soon",
        "uses: dump.nothing, path: p",
        "path: p",
    ],
)
def test_mistakes_of_shape_are_found(options: str) -> None:
    assert not VALIDATOR.is_valid(stage(options))


def test_descriptions_are_kept() -> None:
    assert SCHEMA["$defs"]["compare"]["properties"]["pairs"]["description"] == "Stage that matched."
    assert SCHEMA["$defs"]["compare"]["properties"]["gate"]["description"]


def test_the_corpus_is_there() -> None:
    assert (CORPUS / "valid" / "minimal.yaml").is_file()
