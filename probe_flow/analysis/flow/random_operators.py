"""Which operators draw from a random state: two runs of them differ unless their states are set alike."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from probe_flow.analysis.flow.calls import Call
from probe_flow.records.row import Row

_RANDOM = re.compile(
    r"(?ix)^(?:native|feature|alpha|stateless|philox|npu|fused|_)*"
    r"(?:drop_?out(?:[123]d|_?gen_?mask)?(?:v\d+)?"
    r"|bernoulli|multinomial|exponential|cauchy|geometric|poisson|rrelu|gumbel_?softmax|log_?normal|uniform|normal"
    r"|(?:truncated|standard)_?normal|rand|randn|randint|randperm|random|shuffle"
    r"|(?:random|rand)_?(?:normal|uniform|uniform_?int|categorical|shuffle|standard_?normal|choice_?with_?mask))"
    r"(?:_?like)?(?:v\d+)?_*$"
)
_NAMESPACES = frozenset({"aten", "prims", "npu", "torch_npu"})

_OFF = {("training",): False, (2,): False, ("train",): False, ("p",): 0, (1,): 0}
"""Arguments of dropout with which it drops nothing: where they stand, and what they are then."""


@lru_cache(maxsize=4096)
def draws(op_type: str) -> bool:
    """Return whether operators of a type draw from a random state.

    >>> draws("dropout"), draws("aten.native_dropout.default"), draws("DropOutGenMaskV4"), draws("normalize")
    (True, True, True, False)
    """
    parts = [part for part in op_type.replace("::", ".").split(".") if part]
    own = parts[1:2] if parts and parts[0] in _NAMESPACES else parts[-1:]
    return bool(own) and _RANDOM.match(own[0]) is not None


def is_random(call: Call, rows: Sequence[Row]) -> bool:
    """Return whether a call draws from a random state: by its type, and by arguments that turn that off."""
    if call.node is None or not draws(call.node.op_type):
        return False
    return not any(_turns_off(rows[number]) for number in call.read)


def _turns_off(row: Row) -> bool:
    tensor = row.pair.target
    if tensor is None or tensor.value is None:
        return False
    return tensor.slot.path in _OFF and tensor.value == _OFF[tensor.slot.path]
