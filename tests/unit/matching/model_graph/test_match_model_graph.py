"""Two dumps of one model's graph: by tensors and operators, across casts, quantisation and fused operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from probe_flow.dumpers.arrays.array_folder import ArrayFolder, ArrayOptions
from probe_flow.dumps.manifest import ManifestNode
from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.matching.model_graph.match_model_graph import match_model_graph
from probe_flow.records import Catalog, Expectation, Pairs

Op = tuple[str, str, Sequence[str], Sequence[str]]
"""Name, type, what it reads and what it gives."""

GOLDEN: Sequence[Op] = (
    ("x", "Input", (), ("x",)),
    ("conv", "Conv", ("x", "w"), ("c",)),
    ("relu", "Relu", ("c",), ("r",)),
    ("pool", "Pool", ("r",), ("y",)),
)


def dump(folder: Path, ops: Sequence[Op], *, dtypes: Mapping[str, str] | None = None, without: str = "") -> Catalog:
    """Return a dump of operators; `dtypes` of tensors that are not float32, `without` an operator that has no files."""
    made = ArrayFolder(folder, ArrayOptions())
    for name, op_type, _, gives in ops:
        for index, value in enumerate(gives):
            if name != without:
                array = np.ones(2, (dtypes or {}).get(value, "float32"))
                made.write(name, op_type, index, array, value=value)
    made.finish({}, [ManifestNode(name, kind, tuple(reads), tuple(gives)) for name, kind, reads, gives in ops])
    return read_npy_folder(folder, side=folder.name)


def matched(tmp_path: Path, target: Sequence[Op], golden: Sequence[Op] = GOLDEN, **options: Any) -> Pairs:
    return match_model_graph(dump(tmp_path / "target", target, **options), dump(tmp_path / "golden", golden))


def decisions(pairs: Pairs) -> list[tuple[str | None, str | None, str]]:
    """Return target node, golden node, and the rule or the reason of each pair."""
    return [
        (
            pair.target.node.name if pair.target is not None else None,
            pair.golden.node.name if pair.golden is not None else None,
            pair.rule.name if pair.reason is None else pair.reason.code,
        )
        for pair in pairs.pairs
    ]


def gaps(pairs: Pairs) -> list[str]:
    return [
        pair.shown.node.name
        for pair in pairs.pairs
        if pair.reason is not None and pair.reason.expectation is Expectation.MISSING
    ]


def test_equal_models_are_paired_by_name(tmp_path: Path) -> None:
    pairs = matched(tmp_path, GOLDEN)

    assert decisions(pairs) == [(name, name, "exact") for name in ("x", "conv", "relu", "pool")]
    assert [group.relation.value for group in pairs.groups] == ["1:1"] * 4


def test_fused_operator_gives_the_tensor_of_its_last_original(tmp_path: Path) -> None:
    fused = (GOLDEN[0], ("conv", "FusedConv", ("x", "w"), ("r",)), GOLDEN[3])

    pairs = matched(tmp_path, fused)

    assert decisions(pairs) == [
        ("x", "x", "exact"),
        ("conv", "relu", "tensor_name"),
        ("pool", "pool", "exact"),
        (None, "conv", "internal"),
    ]
    assert gaps(pairs) == []


QUANTISED: Sequence[Op] = (
    GOLDEN[0],
    ("x_Q", "QuantizeLinear", ("x", "xs"), ("x_q",)),
    ("x_DQ", "DequantizeLinear", ("x_q", "xs"), ("x_dq",)),
    ("w_DQ", "DequantizeLinear", ("w_q", "ws"), ("w_dq",)),
    ("conv", "Conv", ("x_dq", "w_dq"), ("r",)),
    ("r_Q", "QuantizeLinear", ("r", "rs"), ("r_q",)),
    ("pool", "Pool", ("r_q",), ("y_q",)),
    ("y_DQ", "DequantizeLinear", ("y_q", "rs"), ("y",)),
)


def test_quantised_model_is_compared_behind_each_dequantisation(tmp_path: Path) -> None:
    codes = dict.fromkeys(("x_q", "r_q", "y_q"), "uint8")

    pairs = matched(tmp_path, QUANTISED, dtypes=codes)

    assert decisions(pairs) == [
        ("x", "x", "exact"),
        ("x_Q", None, "quantised_codes"),
        ("x_DQ", "x", "passed_on"),
        ("w_DQ", None, "quantised_constants"),
        # The rectifier is left out, and the convolution gives its tensor: it is still the convolution.
        ("conv", "conv", "node_name"),
        ("r_Q", None, "quantised_codes"),
        ("pool", None, "internal"),
        ("y_DQ", "pool", "tensor_name"),
        (None, "relu", "internal"),
    ]


def test_codes_that_an_operator_moves_are_codes(tmp_path: Path) -> None:
    ops = [(*op[:1], "MaxPool", *op[2:]) if op[0] == "pool" else op for op in QUANTISED]

    pairs = matched(tmp_path, ops, dtypes=dict.fromkeys(("x_q", "r_q", "y_q"), "uint8"))

    assert ("pool", None, "quantised_codes") in decisions(pairs)
    assert gaps(pairs) == []


def test_casts_are_passed(tmp_path: Path) -> None:
    half = (
        GOLDEN[0],
        ("in", "Cast", ("x",), ("x_half",)),
        ("conv", "Conv", ("x_half", "w"), ("c",)),
        ("relu", "Relu", ("c",), ("r",)),
        ("pool", "Pool", ("r",), ("y_half",)),
        ("out", "Cast", ("y_half",), ("y",)),
    )

    pairs = matched(tmp_path, half, dtypes=dict.fromkeys(("x_half", "c", "r", "y_half"), "float16"))

    assert decisions(pairs) == [
        ("x", "x", "exact"),
        ("in", "x", "passed_on"),
        ("conv", "conv", "exact"),
        ("relu", "relu", "exact"),
        ("pool", "pool", "node_name"),
        ("out", "pool", "tensor_name"),
    ]


def test_another_model_leaves_gaps(tmp_path: Path) -> None:
    other = (("a", "Input", (), ("a",)), ("b", "Conv", ("a",), ("b_out",)))

    pairs = matched(tmp_path, other)

    assert gaps(pairs) == ["a", "b", "x", "conv", "relu", "pool"]


def test_what_leads_to_nothing_compared_is_a_gap(tmp_path: Path) -> None:
    longer = (*GOLDEN, ("extra", "Relu", ("y",), ("z",)))

    assert gaps(matched(tmp_path, longer)) == ["extra"]
    assert gaps(matched(tmp_path / "2", GOLDEN, longer)) == ["extra"]


def test_what_was_not_dumped_is_a_gap(tmp_path: Path) -> None:
    pairs = matched(tmp_path, GOLDEN, without="relu")

    assert decisions(pairs)[-1] == (None, "relu", "not_dumped")
    assert gaps(pairs) == ["relu"]


def test_integers_and_floats_of_one_name_are_not_compared(tmp_path: Path) -> None:
    pairs = matched(tmp_path, GOLDEN, dtypes={"c": "int32"})

    assert ("conv", "conv", "exact") not in decisions(pairs)
    assert gaps(pairs) == ["conv", "conv"]


def test_dumps_without_a_graph_are_paired_by_operators(tmp_path: Path) -> None:
    for side in ("target", "golden"):
        made = ArrayFolder(tmp_path / side, ArrayOptions())
        made.write("conv", "Conv", 0, np.ones(2))
        made.finish({})

    pairs = match_model_graph(*(read_npy_folder(tmp_path / side, side=side) for side in ("target", "golden")))

    assert decisions(pairs) == [("conv", "conv", "exact")]


@pytest.mark.parametrize("side", ["target", "golden"])
def test_every_tensor_is_in_the_result(tmp_path: Path, side: str) -> None:
    pairs = matched(tmp_path, QUANTISED, dtypes=dict.fromkeys(("x_q", "r_q", "y_q"), "uint8"))

    found = {id(getattr(pair, side)) for pair in pairs.pairs}

    assert {id(tensor) for tensor in getattr(pairs, side).tensors} <= found
