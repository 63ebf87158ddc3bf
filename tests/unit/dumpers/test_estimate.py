"""What a plan says of the size of a dump: the sum of what is taken, or what is open."""

from __future__ import annotations

import json

import pytest

from probe_flow.dumpers.arrays.estimate import HEADER_BYTES, STATISTICS_BYTES, UNKNOWN, SizedTensor, estimated, told

TENSORS = [SizedTensor("conv", "Conv", "c", 4000), SizedTensor("relu", "Relu", "r", 40)]


@pytest.mark.parametrize(
    ("dump", "size"),
    [
        ({}, 4040 + 2 * HEADER_BYTES),
        ({"max_tensor_bytes": 100}, 40 + HEADER_BYTES),
        ({"types": ["Relu"]}, 40 + HEADER_BYTES),
        ({"exclude": ["re*"]}, 4000 + HEADER_BYTES),
        ({"data": "statistics"}, 2 * STATISTICS_BYTES),
        ({"data": "both"}, 4040 + 2 * HEADER_BYTES + 2 * STATISTICS_BYTES),
    ],
)
def test_what_the_options_take_is_summed(dump: dict[str, object], size: int) -> None:
    assert json.loads(told(TENSORS, dump)) == size


def test_tensors_of_open_shapes_are_named_and_the_rest_is_told() -> None:
    open_ = [SizedTensor(f"n{number}", "Add", f"t{number}", None) for number in range(4)]
    said = json.loads(told([*TENSORS, *open_], {}))
    assert said.startswith(
        "at least 4,296 bytes: of 4 of 6 tensors, such as `t0`, `t1`, `t2`, the model leaves sizes open"
    )
    assert json.loads(told([*TENSORS, *open_], {"data": "statistics"})) == 6 * STATISTICS_BYTES


def test_a_model_that_cannot_be_looked_at_has_an_unknown_size() -> None:
    assert estimated("probe_flow.no_such_module", "model.onnx", {}, 1).startswith(UNKNOWN)
