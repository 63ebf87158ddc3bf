"""Which gradients of one API two frameworks record alike: those of the whole call, not of a step within it."""

from __future__ import annotations

import pytest
from comparison_rows import tensor

from probe_flow.matching.name.slots import OTHER_GRADIENTS, Decision, pair_tensors
from probe_flow.records import Execution, NodeKey, Phase, Rule, SlotRole, TensorRef

Shape = tuple[int, ...]


def result(api: str, shape: Shape) -> TensorRef:
    return tensor(NodeKey(Execution(0, 0), api, 0, Phase.BACKWARD), SlotRole.OUTPUT, 0, shape=shape)


def is_compared(api: str, target: Shape, golden: Shape, *, is_cross_framework: bool) -> bool:
    decision = Decision("group", Rule("name"), is_cross_framework=is_cross_framework)
    pairs = pair_tensors([result(api, target)], [result(api, golden)], decision)
    reasons = {pair.reason.text for pair in pairs if pair.reason is not None}
    assert all("different autograd nodes" in each for each in reasons)
    assert len(pairs) == (2 if reasons else 1)
    return not reasons


@pytest.mark.parametrize(
    ("api", "golden", "expected"),
    [
        ("Functional.gelu", (6, 5), True),
        ("Functional.l1_loss", (6, 5), False),
        ("Functional.cross_entropy", (6, 5), False),
        ("Functional.linear", (3, 2, 5), False),
    ],
    ids=["one node", "mean of abs", "nll of log_softmax", "another shape"],
)
def test_gradients_of_other_steps_are_not_compared_across_frameworks(api: str, golden: Shape, expected: bool) -> None:
    assert is_compared(api, (6, 5), golden, is_cross_framework=True) is expected
    assert is_compared(api, (6, 5), golden, is_cross_framework=False)


def test_a_gradient_of_integers_is_another_one() -> None:
    key = NodeKey(Execution(0, 0), "Functional.some_loss", 0, Phase.BACKWARD)
    sides = [tensor(key, SlotRole.OUTPUT, 3, shape=(4,), dtype=dtype) for dtype in ("int32", "float32")]
    decision = Decision("group", Rule("layers"), is_cross_framework=True, checks_dtypes=False)

    pairs = pair_tensors(sides[:1], sides[1:], decision)
    assert [pair.golden for pair in pairs] == [None, sides[1]]
    assert all(pair.reason is not None and not pair.reason.is_gap for pair in pairs)


@pytest.mark.parametrize("name", ["Primitive.bn_train.BatchNorm", "Default_network-Net_b1-BatchNorm2d_BatchNorm"])
def test_outputs_of_undefined_memory_are_not_compared(name: str) -> None:
    key = NodeKey(Execution(0, 0), name, 0, Phase.FORWARD)
    outputs = [tensor(key, SlotRole.OUTPUT, index) for index in range(5)]

    pairs = pair_tensors(outputs, outputs, Decision("group", Rule("name")))
    compared = [pair.target.slot.path[0] for pair in pairs if pair.target is not None and pair.golden is not None]
    assert compared == [0, 3, 4]
    assert {pair.reason.code for pair in pairs if pair.reason is not None} == {"undefined_output"}
    assert not any(pair.reason.is_gap for pair in pairs if pair.reason is not None)


def test_the_gradients_that_such_a_call_gives_are_compared() -> None:
    key = NodeKey(Execution(0, 0), "Primitive.bn_train.BatchNorm", 0, Phase.BACKWARD)
    outputs = [tensor(key, SlotRole.OUTPUT, index) for index in range(3)]
    pairs = pair_tensors(outputs, outputs, Decision("group", Rule("name")))
    assert [pair.golden for pair in pairs] == outputs


@pytest.mark.frameworks
@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("api", sorted(OTHER_GRADIENTS))
def test_torch_hooks_another_node_of_these(api: str) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    functional = torch.nn.functional

    def x(*shape: int) -> object:
        return torch.rand(*shape, requires_grad=True)

    inputs = {
        "cosine_embedding_loss": (x(3, 4), x(3, 4), torch.ones(3)), "cross_entropy": (x(6, 5), torch.zeros(6).long()),
        "gaussian_nll_loss": (x(3, 4), torch.rand(3, 4), torch.rand(3, 4)),
        "ctc_loss": (x(5, 2, 4), torch.ones(2, 3).long(), torch.tensor([5, 5]), torch.tensor([3, 3])),
        "hinge_embedding_loss": (x(3), torch.ones(3)), "multilabel_soft_margin_loss": (x(3, 4), torch.ones(3, 4)),
        "local_response_norm": (x(2, 6, 4, 4), 3), "margin_ranking_loss": (x(4), x(4), torch.ones(4)),
        "outer": (x(3), x(4)), "rms_norm": (x(6, 5), (5,)), "triplet_margin_loss": (x(3, 4), x(3, 4), x(3, 4)),
        **{name: (x(6, 5), torch.rand(6, 5)) for name in ("kl_div", "l1_loss", "poisson_nll_loss")},
        **{name: (x(6, 5), x(6, 5)) for name in ("cosine_similarity", "pairwise_distance")},
        **{name: (x(6, 5), -1) for name in ("softmin",)},
    }  # fmt: skip
    made = getattr(functional, api, None) or getattr(torch, api)
    before = [each for each, _ in made(*inputs.get(api, (x(6, 5),))).grad_fn.next_functions if each is not None]
    assert any(type(each).__name__ != "AccumulateGrad" for each in before)


def test_gradients_of_an_attention_that_is_made_of_products_are_others() -> None:
    """torch's fused attention gives the gradients of query, key and value; one of products, those of its last."""
    key = NodeKey(Execution(0, 0), "Functional.scaled_dot_product_attention", 5, Phase.BACKWARD)
    incoming = tensor(key, SlotRole.INPUT, 0, shape=(2, 2, 17, 32))
    composed = [incoming, tensor(key, SlotRole.OUTPUT, 0, shape=(4, 17, 32))]
    fused = [incoming, *(tensor(key, SlotRole.OUTPUT, place, shape=(2, 2, 17, 32)) for place in range(3))]

    pairs = pair_tensors(composed, fused, Decision("group", Rule("name")))
    compared = [pair.target.slot for pair in pairs if pair.target is not None and pair.golden is not None]
    assert compared == [incoming.slot]
    assert [pair.reason.code for pair in pairs if pair.reason is not None][:2] == ["other_autograd_node"] * 2

    as_many = [incoming, tensor(key, SlotRole.OUTPUT, 0, shape=(4, 17, 32))]
    flat = [incoming, tensor(key, SlotRole.OUTPUT, 0, shape=(2, 2, 17, 32))]
    assert all(pair.reason is None for pair in pair_tensors(as_many, flat, Decision("group", Rule("name"))))


def test_the_gradient_of_an_input_that_needs_none_is_no_gap_across_frameworks() -> None:
    """MindSpore gives a first layer the gradient of the network's input; PyTorch gives one of nothing there."""
    key = NodeKey(Execution(0, 0), "Cell.inp.Conv2d", 0, Phase.BACKWARD)
    incoming, given = (tensor(key, role, 0, shape=(4, 3)) for role in (SlotRole.INPUT, SlotRole.OUTPUT))
    other = tensor(key, SlotRole.OUTPUT, 1, shape=(4, 3))

    def is_gap(golden: list[TensorRef], *, is_cross_framework: bool) -> bool:
        decision = Decision("group", Rule("layers"), is_cross_framework=is_cross_framework)
        reason = pair_tensors([incoming, given], golden, decision)[-1 if golden == [incoming] else 1].reason
        assert reason is not None
        return reason.is_gap

    assert not is_gap([incoming], is_cross_framework=True)
    assert is_gap([incoming], is_cross_framework=False)
    assert is_gap([incoming, other], is_cross_framework=True), "it gives gradients, but not this one"
