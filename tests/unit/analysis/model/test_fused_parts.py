"""What fused operators may be off by, part by part: against fused operators that numpy runs with rounding."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from probe_flow.analysis.model.deviation import Deviation
from probe_flow.analysis.model.fused_parts import FusedParts
from probe_flow.analysis.number_types import UNIT
from probe_flow.records import Execution, Graph, GraphOp, Node, NodeKey

Array = NDArray[np.float64]
STORED = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def stored(values: Array, dtype: str) -> Array:
    return values.astype(STORED[dtype]).astype(np.float64)


def deviation(target: Array, golden: Array, dtype: str = "bfloat16") -> Deviation:
    """The figures by their definitions, in float64."""
    error = target - golden
    return Deviation(
        rms=float(np.sqrt(np.mean(error**2))),
        peak=float(np.max(abs(error))),
        gain=float(np.sum(error * golden) / np.sum(golden**2)),
        offset=float(np.mean(error)),
        size=float(np.sqrt(np.mean(golden**2))),
        top=float(np.max(abs(golden))),
        spread=float(np.std(golden)),
        count=golden.size,
        unit=UNIT[dtype],
        step=0.0,
        nonfinite=0,
    )


def fused(parts: Mapping[str, tuple[str, list[str]]], graph: int = 1) -> tuple[FusedParts, Node]:
    """A fused operator: name -> type and inputs, in order of execution."""
    ops = tuple(
        GraphOp.of(name, op_type, place, tuple((source, 0) for source in sources))
        for place, (name, (op_type, sources)) in enumerate(parts.items())
    )
    node = Node(NodeKey(Execution(0, 0, graph), "".join(parts)), "Fused", originals=tuple(parts))
    return FusedParts([Graph(graph, 0, ops, "graph.txt")]), node


FUNCTIONS = {
    "Mul": np.multiply,
    "Add": np.add,
    "Sub": np.subtract,
    "Relu": lambda x: np.maximum(x, 0.0),
    "Sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "Swish": lambda x: x / (1.0 + np.exp(-x)),
    "Tanh": np.tanh,
}

CHAINS = {
    "mul_add": {"Mul": ("Mul", ["a", "b"]), "Add": ("Add", ["Mul", "c"])},
    "add_reads_it_second": {"Mul": ("Mul", ["a", "b"]), "Add": ("Add", ["c", "Mul"])},
    "cancelling_sub_mul": {"Sub": ("Sub", ["c", "c_again"]), "Mul": ("Mul", ["Sub", "b"])},
    "sigmoid_mul": {"Sigmoid": ("Sigmoid", ["a"]), "Mul": ("Mul", ["Sigmoid", "c"])},
    "swish_mul": {"Swish": ("Swish", ["a"]), "Mul": ("Mul", ["c", "Swish"])},
    "mul_add_relu": {"Mul": ("Mul", ["a", "b"]), "Add": ("Add", ["Mul", "c"]), "Relu": ("Relu", ["Add"])},
    "two_products": {"One": ("Mul", ["a", "b"]), "Two": ("Mul", ["c", "c_again"]), "Add": ("Add", ["One", "Two"])},
    "tanh_of_sum": {"Add": ("Add", ["a", "c"]), "Tanh": ("Tanh", ["Add"])},
}


def run(parts: Mapping[str, tuple[str, list[str]]], given: Mapping[str, Array]) -> Array:
    values = dict(given)
    for name, (op_type, sources) in parts.items():
        values[name] = np.asarray(FUNCTIONS[op_type](*(values[source] for source in sources)))
    return values[next(reversed(parts))]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("chain", list(CHAINS))
def test_a_sound_fused_operator_stays_within_its_allowance(chain: str, scale: float, dtype: str) -> None:
    parts, worst = CHAINS[chain], 0.0
    for seed in range(12):
        random = np.random.default_rng(seed)
        c = random.standard_normal((16, 24))
        exact = {"a": scale * random.standard_normal((16, 24)), "b": 1.0 + 0.3 * random.standard_normal(24), "c": c}
        exact["c_again"] = c * (1.0 + 0.01 * random.standard_normal(c.shape))
        noise = {
            name: values * (1.0 + UNIT[dtype] * random.standard_normal(values.shape)) for name, values in exact.items()
        }
        device = {name: stored(values, dtype) for name, values in noise.items()}
        entering = [name for _, sources in parts.values() for name in sources if name in exact]
        inputs = {place: deviation(device[name], exact[name], dtype) for place, name in enumerate(entering)}
        output = deviation(stored(run(parts, device), dtype), run(parts, exact), dtype)
        known, node = fused(parts)
        allowed = known.allowance(node, output, inputs)
        assert allowed is not None
        worst = max(worst, output.rms / allowed.rms, output.peak / allowed.peak / 0.6)
    assert worst <= 1.0  # accused is what is above 2.5 and 1.5 times the allowance


def test_a_large_factor_is_no_term_of_the_sum() -> None:
    """By hand: 1000 y is 1 in size, x is 1, so rounding leaves about 2^-8 of 2, and not 2^-8 of 1000."""
    y, x, factor = np.full((8, 8), 1e-3), np.ones((8, 8)), np.full(1, 1000.0)
    sound = [deviation(values, values) for values in (y, factor, x)]
    known, node = fused({"Mul_5": ("Mul", ["y", "factor"]), "Add_18": ("Add", ["x", "Mul_5"])})
    allowed = known.allowance(node, deviation(y * 1000 + x, y * 1000 + x), dict(enumerate(sound)))
    assert allowed is not None
    assert 2.0 * UNIT["bfloat16"] <= allowed.rms <= 4.0 * UNIT["bfloat16"]


ONE = deviation(np.ones(4), np.ones(4))
MUL_ADD = {"Mul_1": ("Mul", ["a", "b"]), "Add_2": ("Add", ["Mul_1", "c"])}


def test_what_enters_is_numbered_part_by_part_in_the_order_of_the_name() -> None:
    known, node = fused(MUL_ADD)
    swapped = Node(node.key, node.op_type, originals=("Add_2", "Mul_1"))
    wrong = deviation(np.full(4, 1.5), np.ones(4))
    output = deviation(np.full(4, 2.0), np.full(4, 2.0))
    as_addend = known.allowance(node, output, {0: ONE, 1: ONE, 2: wrong})
    assert as_addend == known.allowance(swapped, output, {0: wrong, 1: ONE, 2: ONE})
    assert as_addend != known.allowance(node, output, {0: wrong, 1: ONE, 2: ONE})


@pytest.mark.parametrize(
    ("parts", "inputs"),
    [
        (MUL_ADD, {0: ONE, 1: ONE}),
        (MUL_ADD, {0: ONE, 1: ONE, 3: ONE}),
        ({"MatMulV2_1": ("MatMulV2", ["a", "b"]), "Add_2": ("Add", ["MatMulV2_1", "c"])}, {0: ONE, 1: ONE, 2: ONE}),
        ({"Mul_1": ("Mul", ["a", "b"]), "Mul_2": ("Mul", ["Mul_1", "c"]), "Add": ("Add", ["Mul_2", "d"])},
         {0: ONE, 1: ONE, 2: ONE, 3: ONE}),
        ({"RealDiv": ("RealDiv", ["a", "b"]), "Add": ("Add", ["RealDiv", "c"])}, {0: ONE, 1: ONE, 2: ONE}),
    ],
    ids=["one_not_compared", "more_than_the_graph_names", "no_elementwise_part", "a_product_of_a_product", "quotient"],
)  # fmt: skip
def test_what_cannot_be_followed_is_left_to_the_inputs_together(
    parts: Mapping[str, tuple[str, list[str]]], inputs: Mapping[int, Deviation]
) -> None:
    known, node = fused(parts)
    assert known.allowance(node, ONE, inputs) is None


def test_graphs_do_not_lend_each_other_parts_of_the_same_name() -> None:
    known, node = fused(MUL_ADD, graph=2)
    elsewhere = Node(NodeKey(Execution(0, 0, 1), node.key.name), "Fused", originals=node.originals)
    assert known.operators(elsewhere) == ()
    assert [part.name for part in known.operators(node)] == ["Mul_1", "Add_2"]
