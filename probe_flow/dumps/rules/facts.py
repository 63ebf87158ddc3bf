"""From the attributes of an operator, whatever file they come from, to what a fusion rule says.

Attributes are plain values by their names: texts, whole numbers, fractions, truth values and tuples of these; None for
an attribute without a value, which the writers of rule files use for an empty one.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence

from probe_flow.dumps.rules.records import RuleOp, RuleOutput

ORIGINALS = "_datadump_original_op_names"
IS_MULTIOP = "_datadump_is_multiop"
L1_GROUP = "_L1_fusion_sub_graph_no"
PASSES = "pass_name"
KERNEL_NAME = "_kernelname"
SUBGRAPHS = "subgraph_name"
PARENT_INPUT = "parent_node_index"

ORIGIN_NAME = "_datadump_origin_name"
ORIGIN_INDEX = "_datadump_origin_output_index"
ORIGIN_LAYOUT = "_datadump_origin_format"
FIRST_LAYOUT = "origin_format"
ORIGIN_SHAPE = "origin_shape"
ORIGIN_DTYPE = "_datadump_origin_data_type"

_RULE_ATTRS = frozenset({ORIGINALS, IS_MULTIOP, L1_GROUP, PASSES})
_FACTS = {
    KERNEL_NAME: KERNEL_NAME,
    PARENT_INPUT: PARENT_INPUT,
    f"_{PARENT_INPUT}": PARENT_INPUT,
    "_datadump_original_op_types": "_datadump_original_op_types",
    "_engine_type": "_engine_type",
    "_fe_imply_type": "_fe_imply_type",
    "_ge_attr_op_kernel_lib_name": "_ge_attr_op_kernel_lib_name",
    "_is_custom_op": "_is_custom_op",
    "_session_graph_id": "_session_graph_id",
    "aipp_config_path": "aipp_config_path",
}
MEANING = frozenset(
    {
        "adj_x1", "adj_x2", "alpha", "antiquant_group_size", "approximate", "axes", "axis", "base",
        "batch_dims", "begin", "begin_mask", "begin_norm_axis", "begin_params_axis", "beta", "ceil_mode",
        "concat_dim", "data_format", "dilations", "dim", "dimension", "divisor_override", "dst_type",
        "ellipsis_mask", "end", "end_mask", "epsilon", "exclusive", "filter_size", "global_pooling", "groups",
        "input_scale", "input_size", "is_training", "keep_dims", "ksize", "largest", "lr", "mode", "momentum",
        "multiples", "negative_slope", "new_axis_mask", "noop_with_empty_axes", "num_axes", "num_output",
        "num_segments", "num_split", "offset", "offsets", "orig_input_shape", "padding",
        "padding_mode", "paddings_contiguous", "pads", "perm", "power", "relu_flag", "reverse", "rho", "round_mode",
        "scale", "shape", "shift", "shrink_axis_mask", "size", "size_splits", "sorted", "split_dim",
        "sqrt_mode", "strides", "threshold", "transpose", "transpose_first", "transpose_x1", "transpose_weight",
        "transpose_x", "transpose_x2", "update_slots", "use_nesterov", "value",
    }
)  # fmt: skip
"""Attributes that say what an operator computes (`apis/numpy_core/forms`); a wrong one breaks no rule."""

OP_ATTRS = _RULE_ATTRS | MEANING | frozenset(_FACTS)
_MODEL_ATTRS = frozenset(
    {"atc_cmdline", "atc_version", "attr_model_out_nodes_name", "framework_type", "opp_version", "soc_version"}
)
OUTPUT_ATTRS = frozenset({ORIGIN_NAME, ORIGIN_INDEX, ORIGIN_LAYOUT, FIRST_LAYOUT, ORIGIN_SHAPE, ORIGIN_DTYPE})

_SLICE = re.compile(r"_lxslice\d+")
_CONTROL = ":-1"
_UNDEFINED = "DT_UNDEFINED"


class WrongKindError(ValueError):
    """An attribute holds another kind of value than its name promises.

    Args:
        attribute: its name.
        wanted: what it has to be, for people.
    """

    def __init__(self, attribute: str, wanted: str) -> None:
        self.attribute = attribute
        self.wanted = wanted
        super().__init__(f"`{attribute}` is not {wanted}")


def is_op_attribute(name: str) -> bool:
    """Tell whether an attribute of an operator says something about its rule."""
    return name in OP_ATTRS or name.endswith(KERNEL_NAME)


def is_output_attribute(name: str) -> bool:
    """Tell whether an attribute of an output description says something about its rule."""
    return name in OUTPUT_ATTRS


def is_model_attribute(name: str) -> bool:
    """Tell whether an attribute of a model says how it was made or what it gives."""
    return name in _MODEL_ATTRS


def is_attribute(name: str) -> bool:
    """Tell whether an attribute says something wherever it may stand."""
    return is_op_attribute(name) or name in OUTPUT_ATTRS or name in _MODEL_ATTRS


def rule_output(
    position: int, *, dtype: str, layout: str, shape: tuple[int, ...] | None, attrs: Mapping[str, object]
) -> RuleOutput:
    """Return what an output description says.

    Raises:
        WrongKindError: an attribute holds another kind of value.
    """
    name = _text(attrs, ORIGIN_NAME)
    index = _number(attrs, ORIGIN_INDEX)
    if index is None and name:
        index = position
    return RuleOutput(
        dtype="" if dtype == _UNDEFINED else dtype,
        layout=layout,
        shape=shape,
        origin_name=name,
        origin_index=index,
        origin_layout=_text(attrs, ORIGIN_LAYOUT) or _text(attrs, FIRST_LAYOUT),
        origin_shape=_shape(attrs, ORIGIN_SHAPE),
        origin_dtype=_named_type(attrs.get(ORIGIN_DTYPE)),
    )


def rule_op(
    name: str,
    op_type: str,
    *,
    op_id: int,
    graph: str,
    inputs: Sequence[str],
    outputs: Sequence[RuleOutput],
    attrs: Mapping[str, object],
    subgraphs: Sequence[str] = (),
) -> RuleOp:
    """Return what an operator says; ``inputs`` as written, with empty ones and control edges.

    Raises:
        WrongKindError: an attribute holds another kind of value.
    """
    facts = _facts(attrs, name)
    if subgraphs:
        facts[SUBGRAPHS] = tuple(subgraphs)
    return RuleOp(
        name=_SLICE.sub("", name),
        op_type=op_type,
        id=op_id,
        graph=graph,
        inputs=tuple(_SLICE.sub("", text) for text in inputs if text and not text.endswith(_CONTROL)),
        outputs=tuple(outputs),
        originals=_originals(attrs),
        is_multiop=_flag(attrs, IS_MULTIOP),
        l1_group=_text(attrs, L1_GROUP),
        passes=_texts(attrs, PASSES),
        attrs=facts,
    )


def _originals(attrs: Mapping[str, object]) -> tuple[str, ...] | None:
    if ORIGINALS not in attrs:
        return None
    return tuple(name for name in _texts(attrs, ORIGINALS) if name)


def _facts(attrs: Mapping[str, object], name: str) -> dict[str, object]:
    facts: dict[str, object] = {}
    for key, value in attrs.items():
        fact = KERNEL_NAME if key == f"{name}{KERNEL_NAME}" else key if key in MEANING else _FACTS.get(key)
        if fact is not None and value is not None:
            facts[fact] = value
    return dict(sorted(facts.items()))


def _text(attrs: Mapping[str, object], key: str) -> str:
    value = attrs.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WrongKindError(key, "a text")
    return value


def _texts(attrs: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = attrs.get(key)
    if value is None:
        return ()
    items = (value,) if isinstance(value, str) else value
    if not isinstance(items, tuple):
        raise WrongKindError(key, "a list of texts")
    texts = tuple(item for item in items if isinstance(item, str))
    if len(texts) != len(items):
        raise WrongKindError(key, "a list of texts")
    return texts


def _shape(attrs: Mapping[str, object], key: str) -> tuple[int, ...] | None:
    if key not in attrs:
        return None
    value = attrs[key] or ()
    if not isinstance(value, tuple):
        raise WrongKindError(key, "a list of whole numbers")
    dims = tuple(item for item in value if isinstance(item, int) and not isinstance(item, bool))
    if len(dims) != len(value):
        raise WrongKindError(key, "a list of whole numbers")
    return dims


def _named_type(value: object) -> str:
    """Return the name of a type; empty for none, and for words that are none."""
    return value if isinstance(value, str) and value.startswith("DT_") and value != _UNDEFINED else ""


def _number(attrs: Mapping[str, object], key: str) -> int | None:
    value = attrs.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise WrongKindError(key, "a whole number from 0")
    return value


def _flag(attrs: Mapping[str, object], key: str) -> bool:
    value = attrs.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise WrongKindError(key, "true or false")
    return value


def fraction(value: float) -> float:
    """Return a float32, as attributes are, in the fewest digits: texts have 0.01, and a model what float32 makes of it.

    Raises:
        OverflowError: it is finite and no float32.
    """
    bits = struct.pack("<f", value)
    found = (float(f"{value:.{digits}g}") for digits in range(6, 10))
    return next((each for each in found if struct.pack("<f", each) == bits), value)
