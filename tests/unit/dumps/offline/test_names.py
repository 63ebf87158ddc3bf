"""Names in offline dumps: which files are device files or arrays, and which operators only a quantised model has."""

from __future__ import annotations

import re

import pytest
from ge_writer import file_name
from hypothesis import given
from hypothesis import strategies as st

from probe_flow.dumps.offline.names import (
    ArrayName,
    name_filter,
    names_of_quantised,
    owner_of_input,
    parse_array_name,
    parse_om_array_name,
    parse_om_name,
)

T = 1_700_000_000_000_000
PEER_DEVICE = re.compile(
    r"^[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[0-9]+(\.[0-9]+)?\.[0-9]{1,255}(\.[0-9]+\.[0-9]+\.[0-9]+)?(\.[0-9]+)?"
)
PEER_ARRAY = re.compile(r"^([\.A-Za-z0-9_-]+\.[0-9]+)\.[0-9]{1,255}\.npy$")
WORDS = st.text("abcXYZ019_-", min_size=1, max_size=12)


@pytest.mark.parametrize("tail", ["", ".copy", ".old.1a", ".x.y.z"])
@pytest.mark.parametrize("stream", [3, None])
@pytest.mark.parametrize("ids", [(), (4, 8, 2, 0)])
def test_device_names_are_read_field_by_field_whatever_hangs_behind(tail, stream, ids):
    parsed = parse_om_name(file_name("Conv2D", "block/conv.1", 12, stream, T, ids) + tail)

    assert parsed is not None
    assert (parsed.op_type, parsed.op_name, parsed.task_id, parsed.stream_id) == ("Conv2D", "block_conv_1", 12, stream)
    assert (parsed.timestamp, parsed.thread_id) == (T, ids[2] if ids else None)


@given(WORDS, WORDS, st.integers(0, 10**6), st.none() | st.integers(0, 10**4), st.integers(10**15, 10**16 - 1))
def test_every_device_name_that_the_peer_takes_is_taken_with_the_same_operator(op_type, name, task, stream, time):
    written = file_name(op_type, name, task, stream, time)
    parsed = parse_om_name(written)
    found = PEER_DEVICE.match(written)

    assert parsed is not None
    assert found is not None
    assert (parsed.op_name, parsed.op_type, parsed.timestamp) == (found.group(1), op_type, time)


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "x", "fusion_rule.json", "model.om", "conv1.0.1700000000000000", "mapping.csv", "12345",
        f".Conv2D.conv1.2.3.{T}", f"Conv2D.conv1.2.3.{T}.swp", f"Conv2D.conv1.2.3.{T}.npz", f"conv1.0.{T}.npy",
        f"Conv2D..2.3.{T}", f".conv1.2.3.{T}", f"Conv2D.conv1.2.3.{T}.npy", "Conv2D.conv1.a.b.c",
    ],
)  # fmt: skip
def test_names_of_other_files_are_no_device_names(name):
    assert parse_om_name(name) is None


def test_an_array_stands_for_a_device_file_only_under_its_full_name():
    parsed = parse_om_array_name(f"Conv2D.conv1.2.3.{T}.npy")

    assert parsed is not None
    assert (parsed.op_name, parsed.task_id, parsed.stream_id) == ("conv1", 2, 3)
    for other in (f"conv1.0.{T}.npy", f"a.b.0.{T}.npy", f"Conv2D.conv1.2.3.{T}", f"a.b.c.1.0.{T}.npy", "x.npy"):
        assert parse_om_array_name(other) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"conv1.0.{T}.npy", ArrayName("conv1", 0, T, "npy")),
        (f"a_b.12.{T}.pb", ArrayName("a_b", 12, T, "pb")),
        (f"a.b.1.{T}.quant", ArrayName("a.b", 1, T, "quant")),
        ("conv (1).0.7.npy", ArrayName("conv (1)", 0, 7, "npy")),
        (f"1.0.{T}.npy", ArrayName("1", 0, T, "npy")),
        ("op.0." + "9" * 255 + ".npy", ArrayName("op", 0, int("9" * 255), "npy")),
        (f"conv1.0.{T}_min_max.npy", ArrayName("conv1", 0, T, "npy", is_reduced=True)),
    ],
)
def test_array_names_are_read_field_by_field(name, expected):
    assert parse_array_name(name) == expected


@pytest.mark.parametrize(
    "name",
    [
        "conv1.npy", f"conv1.{T}.npy", f".conv1.0.{T}.npy", f"conv1.0.{T}.txt", f"conv1.x.{T}.npy", "op.0..npy",
        "op.0." + "9" * 256 + ".npy", f"conv1.0.{T}_min_max.pb", "add_1-aten.add.INPUT.0.20260101000000000001.npy",
    ],
)  # fmt: skip
def test_names_of_other_arrays_are_none(name):
    assert parse_array_name(name) is None


@given(WORDS, st.integers(0, 10**5), st.integers(0, 10**20))
def test_every_array_name_that_the_peer_takes_is_taken(op, index, time):
    name = f"{op}.{index}.{time}.npy"

    assert PEER_ARRAY.match(name)
    assert parse_array_name(name) == ArrayName(op, index, time, "npy")


@given(st.text(max_size=60))
def test_no_text_makes_the_parsers_fail(text):
    for parse in (parse_om_name, parse_om_array_name, parse_array_name):
        for name in (text, f"{text}.1.2.{T}.npy"):
            assert parse(name) == parse(name)  # no name raises, and none is taken in two ways


def test_copies_of_inputs_belong_to_the_operator_behind_the_prefix_where_it_is_dumped():
    assert owner_of_input("input_conv", {"conv", "input_conv"}) == "conv"
    assert owner_of_input("input_1", {"conv", "input_1"}) is None
    assert owner_of_input("conv", {"conv"}) is None
    # Inputs of `input_conv` itself show that it is an operator.
    names = {"conv", "input_conv", "input_input_conv"}
    assert owner_of_input("input_conv", names) is None
    assert owner_of_input("input_input_conv", names) == "input_conv"


@pytest.mark.parametrize(
    "name",
    [
        "conv1_quant_layer", "conv1_anti_quant_layer", "conv1_dequant_layer", "conv1conv1_dequant_layerrelu1",
        "conv1_quant", "conv1.quant", "conv1/dequant", "conv1_weight_quant", "conv1_anti_quant", "conv1_quant_2",
        "conv1_quant3", "conv1_AscendQuant_4", "AscendWeightQuant", "conv1/AntiQuant", "x_AscendDequant_1",
    ],
)  # fmt: skip
def test_names_of_quantised_models_are_found(name):
    assert names_of_quantised([(name, "")]) == (name,)


@pytest.mark.parametrize(
    "name", ["post_quantile", "quant", "quantum_1", "x_quantize", "x_dequantize_1", "AntiQuantile", "equant_layer"]
)
def test_words_that_only_begin_alike_are_no_quantisation(name):
    assert names_of_quantised([(name, "Conv2D")]) == ()


def test_operator_types_show_quantisation_too():
    assert names_of_quantised([("fused", "AscendDequant"), ("conv", "Conv2D")]) == ("fused",)


def test_patterns_select_by_true_or_cleaned_names():
    takes = name_filter(["block/*", "fc"])

    assert [takes(name) for name in ("block_conv", "fc", "fc_1", "Block_conv")] == [True, True, False, False]
    assert name_filter(None)("anything")
    assert not name_filter([])("anything")
