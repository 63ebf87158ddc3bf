"""The stages of mappings: what their options name is read, and handed to the matcher."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from name_builders import DATA, catalog, read
from pydantic import ValidationError

from probe_flow.errors import UsageError
from probe_flow.records import Catalog, Pairs
from probe_flow.stages.registry import STAGES

MAPPINGS = DATA / "mappings"
SIDES = {"target": "a", "golden": "b"}


def run(uses: str, target: Catalog, golden: Catalog, **options: Any) -> Pairs:
    stage = STAGES[uses]
    model = stage.options.model_validate({"uses": uses, **SIDES, **options})
    pairs = stage.run(model, {"target": [target], "golden": [golden]}, None)  # type: ignore[arg-type]
    assert isinstance(pairs, Pairs)
    return pairs


@pytest.mark.parametrize(
    ("uses", "options", "rule"),
    [
        ("match.cell_mapping", {"mapping": str(MAPPINGS / "cell_map_ms.yaml")}, "cell_mapping"),
        ("match.cell_mapping", {}, "cell_mapping"),
        ("match.layer_mapping", {"mapping": str(MAPPINGS / "layer_map.yaml")}, "layer_mapping"),
        ("match.layer_mapping", {}, "layer_mapping"),
        ("match.api_mapping", {}, "api_mapping"),
        ("match.data_mapping", {"mapping": str(MAPPINGS / "data_mapping.yaml")}, "data_mapping"),
    ],
)
def test_each_mapping_makes_pairs_of_its_rule(uses: str, options: Mapping[str, Any], rule: str) -> None:
    pairs = run(uses, read("ms_tensor_base"), read("twin_tensor", "golden"), **options)

    made = [pair for pair in pairs.pairs if pair.rule.name == rule and pair.target and pair.golden]
    assert made
    assert "mapping" not in options or any(pair.rule_span for pair in made)


def test_a_mapping_of_the_wrong_form_is_a_usage_error() -> None:
    side = catalog(["Torch.a.0.forward"])
    with pytest.raises(UsageError) as caught:
        run("match.api_mapping", side, side, mapping=str(MAPPINGS / "cell_map_ms.yaml"))

    assert {problem.code for problem in caught.value.diagnostics} == {"PF4212"}


def test_a_data_mapping_needs_a_file() -> None:
    with pytest.raises(ValidationError):
        run("match.data_mapping", catalog([]), catalog([]))


def test_aliases_of_parameters_can_be_set_and_cleared() -> None:
    sides = read("ms_tensor_base"), read("twin_tensor", "golden")
    alone = [
        sum(pair.golden is None for pair in run(uses, *sides, param_alias=alias).pairs)
        for uses in ("match.cell_mapping", "match.layer_mapping")
        for alias in (None, {})
    ]

    assert alone[1] - alone[0] == alone[3] - alone[2] == 4


def test_fuzzy_pairs_are_an_option_of_matching_by_name() -> None:
    sides = read("pt_stat_rename"), read("pt_stat_base", "golden")

    assert all(pair.target and pair.golden for pair in run("match.name", *sides, fuzzy=True).pairs)
