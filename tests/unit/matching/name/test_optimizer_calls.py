"""What an optimizer of PyTorch calls is no gap where an optimizer is a kernel; nothing else is excused by it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from name_builders import catalog

from probe_flow.matching.mapping.match_mapping import match_api_mapping, match_cell_mapping
from probe_flow.matching.name.match_name import match_name
from probe_flow.matching.structure.match_structure import match_structure
from probe_flow.records import Catalog, Pairs
from probe_flow.records.reasons import Expectation

MODEL = ("Tensor.mul.0.forward", "Functional.relu.0.forward")
ADAM = (
    "File /venv/lib/python3.11/site-packages/torch/optim/adam.py, line 475, in _single_tensor_adam, \n exp_avg.mul_(b)",
    "File /venv/lib/python3.11/site-packages/torch/optim/optimizer.py, line 530, in wrapper, \n out = func()",
    "File /home/me/train.py, line 21, in main, \n optimizer.step()",
)
CLOSURE = (
    "File /home/me/train.py, line 11, in closure, \n y = model(x) * 2",
    "File /venv/lib/python3.11/site-packages/torch/optim/lbfgs.py, line 330, in step, \n loss = closure()",
    "File /home/me/train.py, line 21, in main, \n optimizer.step(closure)",
)


def with_stack(dump: Catalog, entry: str, frames: tuple[str, ...]) -> Catalog:
    nodes = {key: replace(node, stack_id="s") if node.entry == entry else node for key, node in dump.nodes.items()}
    return replace(dump, nodes=nodes, stacks={"s": frames})


def why(pairs: Pairs, entry: str) -> Expectation | None:
    """Return whether a tensor of the golden alone had to be compared; None where it was."""
    for pair in pairs.pairs:
        if pair.golden is not None and pairs.golden.nodes[pair.golden.node].entry == entry:
            if pair.target is not None:
                return None
            assert pair.reason is not None
            return pair.reason.expectation
    raise AssertionError(entry)


@pytest.mark.parametrize("match", [match_api_mapping, match_cell_mapping, match_structure])
@pytest.mark.parametrize("way", ["caller", "stack"])
def test_calls_of_an_optimizer_are_no_gap_against_a_framework_that_records_none(match, way: str) -> None:
    step = "Tensor.mul_.0.forward"
    golden = catalog([*MODEL, step], parents={step: "optimizer"} if way == "caller" else None)
    if way == "stack":
        golden = with_stack(golden, step, ADAM)

    pairs = match(catalog(MODEL, framework="mindspore"), golden)

    assert why(pairs, step) is Expectation.EXPECTED
    assert why(pairs, "Functional.relu.0.forward") is None


@pytest.mark.parametrize("frames", [CLOSURE, CLOSURE[:1]])
def test_what_an_optimizer_lets_a_program_compute_is_one(frames: tuple[str, ...]) -> None:
    more = "Functional.gelu.0.forward"
    golden = with_stack(catalog([*MODEL, more]), more, frames)

    assert why(match_api_mapping(catalog(MODEL, framework="mindspore"), golden), more) is Expectation.MISSING


def test_it_is_one_where_the_other_side_records_its_optimizer_or_is_of_the_same_framework() -> None:
    step, own = "Tensor.mul_.0.forward", "Tensor.lerp_.0.forward"
    golden = catalog([*MODEL, step], parents={step: "optimizer"})
    recorded = catalog([*MODEL, own], parents={own: "optimizer"}, framework="mindspore")

    assert why(match_api_mapping(recorded, golden), step) is Expectation.MISSING
    assert why(match_name(catalog(MODEL), golden), step) is Expectation.MISSING


def test_a_call_of_the_model_never_meets_one_of_an_optimizer() -> None:
    golden = catalog(["Tensor.mul.0.forward", "Tensor.mul.1.forward"], parents=None)
    golden = with_stack(golden, "Tensor.mul.1.forward", ADAM)
    target = catalog(["Tensor.mul.0.forward", "Tensor.mul.1.forward"], framework="mindspore")

    pairs = match_api_mapping(target, golden)

    assert why(pairs, "Tensor.mul.0.forward") is None
    assert why(pairs, "Tensor.mul.1.forward") is Expectation.EXPECTED
