"""Whatever rules and dumps hold, matching ends, loses no tensor, and gives the same answer twice."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st
from offline_builders import check_complete

from probe_flow.dumps.rules.records import RuleFile, RuleGraph, RuleOp, RuleOutput
from probe_flow.errors import UsageError
from probe_flow.matching.offline.match_offline import match_offline
from probe_flow.matching.offline.models import RuleBook
from probe_flow.measure.sides import aligned_sides
from probe_flow.records import (
    Catalog,
    Execution,
    Expectation,
    Node,
    NodeKey,
    Pair,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
)
from probe_flow.records.frameworks import named
from probe_flow.tensors.layouts import axis_offsets

NAMES = ["a", "b/c", "b_c", "d.e", "f", "g_quant_layer", "h_dequant_layer", "ab", "trans_Cast_1", "é", "*"]
TYPES = ["Conv2D", "Cast", "TransData", "Data", "Const", "AscendQuant", "AscendDequant", "NetOutput"]
SHAPES: list[tuple[tuple[int, ...], tuple[int, ...] | None, str]] = [
    ((2, 3), (2, 3), "ND"),
    ((), (), "ND"),
    ((0,), (0,), "ND"),
    ((1, 1, 4, 5, 16), (1, 3, 4, 5), "NC1HWC0"),
    ((1, 1, 4, 5, 16), (1, 1, 4, 5, 16), "NC1HWC0"),
    ((1, 4, 5, 3), (1, 3, 4, 5), "NHWC"),
    ((1, 3, 4, 5), (1, 4, 5, 3), "ND"),
    ((1, 2, 16, 16), (20, 18), "FRACTAL_NZ"),
    ((1, 2, 16, 16), (9, 9, 9), "FRACTAL_NZ"),
    ((4, 1, 16, 16), (16, 3, 2, 2), "FRACTAL_Z"),
    ((7, 7), (7, 7), "FSR_NCHW"),
    ((2, 1, 1, 3, 3, 16), None, "NDC1HWC0"),
]

names = st.sampled_from(NAMES)
inputs = st.one_of(
    st.builds(lambda name, index: f"{name}:{index}", names, st.integers(0, 2)),
    st.sampled_from(["", "a", "a:", ":0", "a:-1", "a:x", "a:99999999999999999999", "b/c:0:1"]),
)
shapes = st.lists(st.sampled_from([1, 2, 3, 4, 5, 16, -1, 0, 2**62]), max_size=5).map(tuple)
outputs = st.builds(
    RuleOutput,
    dtype=st.sampled_from(["DT_FLOAT16", "DT_INT8", "DT_FLOAT", ""]),
    layout=st.just("NC1HWC0"),
    shape=st.none(),
    origin_name=st.one_of(st.just(""), names),
    origin_index=st.one_of(st.none(), st.integers(0, 2)),
    origin_layout=st.sampled_from(["", "ND", "NCHW", "NHWC", "NCDHW", "what"]),
    origin_shape=st.one_of(st.none(), shapes),
)
ops = st.builds(
    RuleOp,
    name=names,
    op_type=st.sampled_from(TYPES),
    id=st.integers(0, 9),
    graph=st.just("g"),
    inputs=st.lists(inputs, max_size=3).map(tuple),
    outputs=st.lists(outputs, max_size=3).map(tuple),
    originals=st.one_of(st.none(), st.lists(names, max_size=3).map(tuple)),
    is_multiop=st.booleans(),
    l1_group=st.sampled_from(["", "", "1"]),
)
files = st.builds(lambda found: RuleFile("r.json", (RuleGraph("g", found),)), st.lists(ops, max_size=8).map(tuple))
tensors = st.tuples(
    st.sampled_from([SlotRole.INPUT, SlotRole.OUTPUT]),
    st.integers(0, 2),
    st.sampled_from(SHAPES),
    st.sampled_from([TensorKind.TENSOR, TensorKind.TENSOR, TensorKind.OPAQUE, TensorKind.NULL, TensorKind.UNREADABLE]),
    st.sampled_from([None, 64, 128]),
)
dumps = st.dictionaries(names, st.lists(tensors, max_size=4), max_size=8)


def catalog(side: str, framework: str, dump: Mapping[str, list[tuple]], *, quantised: bool) -> Catalog:
    nodes, found = {}, []
    for order, (name, slots) in enumerate(dump.items()):
        key = NodeKey(Execution(), name)
        nodes[key] = Node(key, TYPES[order % len(TYPES)], order=order)
        for role, index, (shape, logical, layout), kind, address in slots:
            slot = Slot(role, (index,))
            if all((ref.node, ref.slot) != (key, slot) for ref in found):
                layout = layout if framework == "om" else "ND"
                shape = shape if framework == "om" else logical or shape
                found.append(
                    TensorRef.of(key, slot, kind, "float32", "DT_FLOAT", shape, logical, layout, address=address or 0)
                )
    return Catalog(side, named(framework), "tensor", f"/{side}", nodes, tuple(found), attrs={"is_quantised": quantised})


@settings(max_examples=40, deadline=None)
@given(
    target=dumps,
    golden=dumps,
    rule=st.one_of(st.none(), files),
    close=st.one_of(st.none(), files),
    quant=st.one_of(st.none(), files),
    kinds=st.tuples(st.sampled_from(["om", "om", "npy"]), st.sampled_from(["om", "npy"])),
    quantised=st.tuples(st.booleans(), st.booleans()),
)
def test_any_rules_and_dumps(
    target: dict[str, list[tuple]],
    golden: dict[str, list[tuple]],
    rule: RuleFile | None,
    close: RuleFile | None,
    quant: RuleFile | None,
    kinds: tuple[str, str],
    quantised: tuple[bool, bool],
) -> None:
    mine = catalog("target", kinds[0], target, quantised=quantised[0])
    other = catalog("golden", kinds[1], golden, quantised=quantised[1])
    found = []
    for _ in range(2):
        book = RuleBook(() if rule is None else (rule,), close=() if close is None else (close,), quant=quant)
        try:
            pairs = match_offline(mine, other, book)
        except UsageError:  # sides or files that do not belong together
            return
        check_complete(pairs)
        found.append(pairs)
    assert found[0].pairs == found[1].pairs
    for pair in found[0].pairs:
        if pair.target is None or pair.golden is None:
            assert pair.confidence == 0.0
        elif pair.reason is None or pair.reason.expectation is Expectation.EXPECTED:
            check_readable(pair)


def check_readable(pair: Pair) -> None:
    """Both sides can be read, element by element alike."""
    sides = aligned_sides(pair)
    assert sides[0].numel == sides[1].numel
    for ref in sides:
        if ref.kind is TensorKind.TENSOR and ref.shape is not None and ref.logical_shape is not None:
            axis_offsets(ref.layout, ref.shape, ref.logical_shape, sub_format=ref.sub_format)
