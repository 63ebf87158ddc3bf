"""What types of operators of GE graphs do: hold a value, move no data, hand a value on, leave no file."""

from __future__ import annotations

import re

FED_TYPES = frozenset({"Data", "RefData"})
"""Types of graph inputs."""

CONSTANT_TYPES = FED_TYPES | {"Const", "Constant", "FileConstant", "Variable", "ConstPlaceHolder"}
"""Types that only hold a value: graph inputs, weights, constants."""

VIEW_TYPES = frozenset(
    {
        "Reshape", "View", "ViewCopy", "Squeeze", "SqueezeV2", "SqueezeV3", "Unsqueeze", "UnsqueezeV2", "UnsqueezeV3",
        "ExpandDims", "Flatten", "FlattenV2", "Identity", "IdentityN", "Bitcast", "PhonyConcat", "PhonySplit",
    }
)  # fmt: skip
"""Types that move no data; the device drops them."""

MAYBE_VIEW_TYPES = frozenset(
    {"Split", "SplitD", "SplitV", "SplitVD", "Unpack", "Pack", "Slice", "SliceD", "StridedSlice", "StridedSliceD",
     "ConcatD", "BroadcastTo", "Expand", "Fill", "Range", "Shape", "Size", "Rank", "Cast", "TransData", "TensorMove"}
)  # fmt: skip
"""Types that the device often replaces by addressing; taken as dropped when it dumped none of that type."""

TRANSPOSING_TYPES = frozenset({"Transpose", "TransposeD"})
"""Types that a product may do in their place, by a flag of its own: it then reads what they read."""

RELAY_TYPES = VIEW_TYPES | {"Cast", "TransData", "TensorMove"}
"""Types whose only result is the value of their first input in another form."""

_IN_PLACE = re.compile(
    "(?:{0}|(?i:(?<![a-z])(?:{0})))(?![a-z])".format(
        "Update|Assign|In_?[Pp]lace|Scatter|Index_?(?:[Pp]ut|[Cc]opy|[Aa]dd|[Ff]ill)|Cache|Apply|Momentum|Adam"
    )
)
"""Words of types that may write what they read, which is their first input: a cache, a variable."""

_PRIVATE_WORDS = ("Cast", "TransData")


def is_private(op_type: str) -> bool:
    """Return True for a type of operator that a device inserts by itself."""
    return any(word in op_type for word in _PRIVATE_WORDS)


def may_write_in_place(op_type: str) -> bool:
    """Return True for a type that may overwrite its first input.

    >>> [may_write_in_place(each) for each in ("ScatterNdUpdate", "InplaceIndexAdd", "npu_scatter", "Reapplying")]
    [True, True, True, False]
    """
    return _IN_PLACE.search(op_type) is not None


def may_leave_no_file(op_type: str) -> bool:
    """Return True for a type that the device may not run, or run without writing a file."""
    return op_type in CONSTANT_TYPES or op_type in VIEW_TYPES or op_type in MAYBE_VIEW_TYPES
