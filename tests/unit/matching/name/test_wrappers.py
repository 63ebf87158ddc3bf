"""Levels of modules around a network or its layers that one side alone has: mixed precision, DDP, a compiler."""

from __future__ import annotations

import pytest
from name_builders import assert_complete, catalog, entry_pairs

from probe_flow.matching.name.match_name import match_name
from probe_flow.records import Expectation

NETWORK = ("fc1.Dense", "act.ReLU", "blocks.0.norm.LayerNorm", "blocks.0.mlp.Dense", "blocks.0.Block", "head.Dense")


def entries(paths, kind="Cell", call=0):
    forward = [f"{kind}.{path}.forward.{call}" for path in paths]
    backward = [f"{kind}.{path}.backward.{call}" for path in reversed(paths)]
    return [*forward, *backward, *(f"{kind}.{path}.parameters_grad.{call}" for path in reversed(paths))]


def of_pairs(pairs):
    return {one: other for one, other in entry_pairs(pairs) if one is not None}


@pytest.mark.parametrize("wrapper", ["_backbone", "module", "_orig_mod", "module._orig_mod"])
@pytest.mark.parametrize("kind", ["Cell", "Module"])
def test_a_network_that_one_side_wraps_is_the_same_network(wrapper: str, kind: str) -> None:
    wrapped = [*(f"{wrapper}.{path}" for path in NETWORK), f"{wrapper}.Net"]
    for is_target in (True, False):
        sides = [catalog(entries(wrapped, kind)), catalog(entries(NETWORK, kind))]
        pairs = match_name(*(sides if is_target else sides[::-1]))

        assert_complete(pairs)
        paired = {pair for pair in entry_pairs(pairs) if None not in pair}
        due = set(zip(entries(wrapped[:-1], kind), entries(NETWORK, kind), strict=True))
        assert paired == (due if is_target else {pair[::-1] for pair in due})
        alone = [pair for pair in pairs.pairs if pair.target is None or pair.golden is None]
        assert {pair.rule.name for pair in pairs.pairs} == {"exact", "none"}
        assert {pair.reason.expectation for pair in alone if pair.reason} == {Expectation.EXPECTED}
        assert {pair.reason.code for pair in alone if pair.reason} == {"wrapper"}
        assert len(alone) == 3


def test_single_layers_may_be_wrapped_too() -> None:
    """As mixed precision does that keeps norms in float32: a module of another class has the norm inside."""
    norm = ["blocks.0.norm._backbone.LayerNorm", "blocks.0.norm._OutputTo16"]
    target = ["fc1.Dense", "act.ReLU", *norm, "blocks.0.mlp.Dense", "blocks.0.Block", "head.Dense"]

    pairs = match_name(catalog(entries(target)), catalog(entries(NETWORK)))
    found = of_pairs(pairs)
    assert found["Cell.blocks.0.norm._backbone.LayerNorm.backward.0"] == "Cell.blocks.0.norm.LayerNorm.backward.0"
    assert {one for one, other in found.items() if other is None} == set(entries(norm[1:]))
    assert {pair.reason.code for pair in pairs.pairs if pair.golden is None and pair.reason} == {"wrapper"}


def test_what_a_wrapper_calls_is_called_by_who_calls_the_wrapper() -> None:
    """An API of the network and one of the loss: an extra one in front does not shift them."""
    target = ["Cell._backbone.fc.Dense.forward.0", *(f"Functional.mean.{call}.forward" for call in range(3))]
    target.insert(3, "Cell._backbone.Net.forward.0")
    golden = ["Cell.fc.Dense.forward.0", "Functional.mean.0.forward", "Functional.mean.1.forward"]
    inside = dict.fromkeys(target[:3], "Cell._backbone.Net.forward.0")
    shapes = {"Functional.mean.0.forward": (7,), "Functional.mean.1.forward": (8,), "Functional.mean.2.forward": (9,)}
    theirs = {"Functional.mean.0.forward": (8,), "Functional.mean.1.forward": (9,)}

    found = of_pairs(
        match_name(catalog(target, parents=inside, shapes=shapes), catalog(golden, parents={}, shapes=theirs))
    )
    assert found["Functional.mean.0.forward"] is None
    assert found["Functional.mean.1.forward"] == "Functional.mean.0.forward"
    assert found["Functional.mean.2.forward"] == "Functional.mean.1.forward"


@pytest.mark.parametrize(
    ("target", "golden"),
    [
        (["attn.q.Dense", "head.Dense"], ["attn.query.Dense", "head.Dense"]),  # renamed, which is a guess
        (["a.fc1.Dense", "a.fc2.Dense"], ["a.Dense"]),  # two layers are not one
        (["a.gate.Dense", "a.Dense"], ["a.Dense"]),  # a layer in front of another
        (["wrap.x.Dense", "wrap.y.Dense", "wrap.z.Dense"], ["x.Dense", "other.Dense"]),  # mostly something else
    ],
)
def test_other_names_stay_other_names(target: list[str], golden: list[str]) -> None:
    found = of_pairs(match_name(catalog(entries(target)), catalog(entries(golden))))
    assert {one for one, other in found.items() if other is not None} == {
        one for one in entries(target) if one in entries(golden)
    }
