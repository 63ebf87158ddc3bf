"""Faults of offline models, planted in small dumps: what the run blames, and in which words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
import rule_builders as rules
from offline_builders import Case
from om_writer import tensor

from e2e.projects import Command, Done

RNG = np.random.default_rng(20)
NOISE = np.random.default_rng(21).standard_normal((4, 8))
LAYERS = 8
SHAPE = (4, 8)
Fault = Callable[[np.ndarray], np.ndarray]
FAULTS: Mapping[int, Fault] = {2: lambda y: y * 1.5, 4: lambda y: -y, 6: lambda y: y + 0.75}
"""Independent faults: a factor, a sign (cosine -1), an offset."""


@pytest.fixture
def case(tmp_path) -> Case:
    return Case(tmp_path / "case")


def described(name: str, number: int, inputs: tuple[str, ...] = (), shape: tuple[int, ...] = SHAPE) -> rules.Tree:
    output = rules.desc(name, 0, shape=shape, layout="ND", origin_layout="ND", origin_shape=shape)
    return rules.op(name, "Relu", number=number, inputs=inputs, originals=[name], outputs=[output])


def independent_layers(case: Case, faults: Mapping[int, Fault], *, with_edges: bool) -> list[rules.Tree]:
    """Write layers of which each got a right input, whatever the one before gave."""
    ops = []
    before = RNG.standard_normal(SHAPE)
    for number in range(LAYERS):
        golden = RNG.standard_normal(SHAPE).astype(np.float32)
        found = faults.get(number, lambda y: y)(golden)
        case.device("Relu", f"l{number}", inputs=[tensor(before, "float16")], outputs=[tensor(found, "float16")])
        case.golden.output(f"l{number}", 0, golden)
        inputs = (f"l{number - 1}:0",) if with_edges and number else ()
        ops.append(described(f"l{number}", number + 1, inputs))
        before = golden
    return ops


def compare(probe_flow: Command, case: Case, *ops: rules.Tree) -> Done:
    done = probe_flow(
        "compare", "-m", "offline_data", "-tp", case.target.path, "-gp", case.golden.path, "-fr", case.rule(*ops),
        "-o", "out", output=None,
    )  # fmt: skip
    return Done(done.code, done.out, done.err, done.folder / "out" / "probe_flow")


def roles(done: Done, role: str) -> list[str]:
    return [row["node"] for row in done.rows if row["role"] == role]


class TestRulesWithoutInputs:
    """Nothing says which operator feeds which: no error explains another one."""

    def test_each_fault_is_an_origin_and_says_that_no_edge_is_known(self, probe_flow, case):
        done = compare(probe_flow, case, *independent_layers(case, FAULTS, with_edges=False))
        assert done.code == 1
        assert roles(done, "origin") == ["l2", "l4", "l6"]
        assert roles(done, "inherited") == []
        evidence = [finding["evidence"] for finding in done.record["findings"]]
        assert len(evidence) == 3
        assert all("no edge is known" in text and "inputs agree" not in text for text in evidence)

    def test_with_edges_each_fault_says_that_its_inputs_agree(self, probe_flow, case):
        done = compare(probe_flow, case, *independent_layers(case, FAULTS, with_edges=True))
        assert roles(done, "origin") == ["l2", "l4", "l6"]
        assert all("inputs agree" in finding["evidence"] for finding in done.record["findings"])

    def test_errors_that_grow_from_layer_to_layer_are_no_fault(self, probe_flow, case):
        # What rounding leaves in every layer adds up: 12 times that of one in the last.
        grown = {number: lambda y, n=number: y * (1 + 3e-4 * np.sqrt(12.0 * n) * NOISE) for number in range(LAYERS)}
        done = compare(probe_flow, case, *independent_layers(case, grown, with_edges=False))
        assert (done.code, roles(done, "origin")) == (0, [])

    def test_equal_values_of_two_outputs_make_neither_a_copy_of_the_other(self, probe_flow, case):
        golden = RNG.standard_normal(SHAPE).astype(np.float32)
        ops = []
        for number in range(6):
            found = FAULTS.get(number, lambda y: y)(golden)
            case.device("Relu", f"l{number}", outputs=[tensor(found, "float16")])
            case.golden.output(f"l{number}", 0, golden)
            ops.append(described(f"l{number}", number + 1))
        done = compare(probe_flow, case, *ops)
        assert roles(done, "origin") == ["l2", "l4"]
        assert all("no edge is known" in finding["evidence"] for finding in done.record["findings"])

    def test_nan_is_named_where_it_begins_only(self, probe_flow, case):
        spoilt = dict.fromkeys((3, 4, 5), _with_nan)
        done = compare(probe_flow, case, *independent_layers(case, spoilt, with_edges=False))
        (finding,) = [each for each in done.record["findings"] if each["kind"] == "nonfinite_origin"]
        assert finding["node"] == "l3"


def _with_nan(values: np.ndarray) -> np.ndarray:
    found = values.copy()
    found[0, 0] = np.nan
    return found


class TestQuantisedValues:
    def test_int8_that_equals_its_float_golden_passes_and_other_int8_does_not(self, probe_flow, case):
        values = RNG.integers(-100, 100, SHAPE)
        ops = []
        for number, (name, golden) in enumerate({"same": values, "scaled": values * 0.037}.items(), start=1):
            case.device("Relu", name, outputs=[tensor(values, "int8")])
            case.golden.output(name, 0, np.asarray(golden, np.float32))
            ops.append(described(name, number))
        done = compare(probe_flow, case, *ops)
        assert done.code == 0
        assert {row["node"]: row["verdict"] for row in done.rows} == {"same": "pass", "scaled": "not_comparable"}


def test_single_bits_are_compared_one_by_one(probe_flow, case):
    bits = RNG.integers(0, 2, 16).astype(np.uint8)
    case.device("Relu", "mask", outputs=[tensor(np.packbits(bits), "uint8", data_type=29)])  # shape [2]: two bytes
    case.golden.output("mask", 0, bits)
    done = compare(probe_flow, case, described("mask", 1, shape=(16,)))
    (row,) = done.rows
    assert (row["verdict"], row["target"]["shape"], row["target"]["dtype"]) == ("pass", [16], "uint1")
