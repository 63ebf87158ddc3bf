"""Calls of torch for recurrent modules: LSTM, GRU, RNN and their cells run as one kernel, in which dumps see no API.

What a module was given, its weights and its results are in the dump, and the names of the weights say how many layers
and directions it has. A state that it was not given is zeros. What else it was made with (dropout, a nonlinearity) is
not in the dump: the golden's result shows that there is nothing of the kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.apis.calls import UnusableError, canonical_dtype
from probe_flow.dumps.dump_json.raw_entries import raw_entries
from probe_flow.records import Catalog, Node, NodeKind, Phase
from probe_flow.scripts.suspect import Suspect, unusable

_APIS: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "LSTM": ("lstm", 2), "GRU": ("gru", 1), "RNN": ("rnn_tanh", 1),
        "LSTMCell": ("lstm_cell", 2), "GRUCell": ("gru_cell", 1), "RNNCell": ("rnn_tanh_cell", 1),
    }
)  # fmt: skip
"""Class of a module -> the function of torch that its kernel is, and how many states it has."""

_GRADIENTS = ".parameters_grad"
NOTE = "it was taken to be made as the golden's module is, for that is in no dump"
"""What has to be known of a result that is wrong."""

_LAYER = re.compile(r"(?:weight|bias)_(?:ih|hh|hr)(?P<layer>_l\d+)?(?P<reverse>_reverse)?")
_ROLES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")

_MOST_ZEROS = 1 << 24
"""Elements of a state that is written as zeros: what a dump says of it decides no allocation."""


class RecurrentCall(Struct, frozen=True):
    """What computes a recurrent module, or its gradients.

    Args:
        api: function of torch.
        direction: ``forward`` or ``backward``.
        sides: side -> direction -> entry, as a dump has those of APIs.
        zeros: side -> name of a file to write -> shape and element type of its zeros.
        guesses: arguments that no dump has, one of which gives the golden's result.
    """

    api: str
    direction: str
    sides: dict[str, dict[str, Any]]
    zeros: Mapping[str, Mapping[str, tuple[tuple[int, ...], str]]]
    guesses: tuple[Mapping[str, Any], ...] = ()


def recurrent_call(suspect: Suspect) -> RecurrentCall | None:
    """Return what computes a suspect that is a recurrent module of a dump of tensors, None where it is none.

    Raises:
        IncompleteError: PF6631 the dump lacks what that needs.
    """
    node = suspect.node
    owner = node.key.name.removesuffix(_GRADIENTS)
    api, states = _APIS.get(owner.rpartition(".")[2], ("", 0))
    if not api or node.kind not in (NodeKind.MODULE, NodeKind.PARAMETERS_GRAD) or suspect.target.task != "tensor":
        return None
    sides: dict[str, dict[str, Any]] = {}
    zeros: dict[str, Mapping[str, tuple[tuple[int, ...], str]]] = {}
    orders: list[bool] = []
    for side, catalog, own in (("target", suspect.target, node), ("golden", suspect.golden, suspect.golden_node)):
        if catalog is None or own is None:
            continue
        entries = _entries(catalog, own)
        if entries is None:
            if side == "golden":
                continue
            why = "its module was not called exactly once, or the dump lacks its forward entry, or what came in"
            raise unusable(suspect.name, why)
        try:
            forward, blank, found = _forward(entries["forward"], api, states)
        except (KeyError, TypeError, IndexError, ValueError, AttributeError, UnusableError) as error:
            why = f"its entry is not that of a module of torch of this name ({type(error).__name__}: {error})"
            raise unusable(suspect.name, why) from error
        sides[side] = {**entries, "forward": forward}
        zeros[side] = blank
        orders = orders or found
    if "golden" not in sides:
        why = "what a module was made with is not in its dump (dropout, order of axes), and no golden shows it"
        raise unusable(suspect.name, why)
    guesses = tuple({"batch_first": {"type": "bool", "value": order}} for order in orders) if len(orders) > 1 else ()
    if len(orders) == 1:
        for entry in sides.values():
            entry["forward"]["input_kwargs"]["batch_first"] = {"type": "bool", "value": orders[0]}
    is_forward = node.kind is NodeKind.MODULE and node.key.phase is Phase.FORWARD
    return RecurrentCall(api, "forward" if is_forward else "backward", sides, zeros, guesses)


def _entries(catalog: Catalog, node: Node) -> dict[str, Any] | None:
    """Return the entries of a module by direction, with the gradients of its weights where these are asked about."""
    key = node.key
    forward = _only_call(catalog, node)
    if forward is None:
        return None
    backward = catalog.nodes.get(replace(forward.key, phase=Phase.BACKWARD))
    wanted = {forward.entry: "forward", node.entry: "own"}
    if backward is not None:
        wanted[backward.entry] = "backward"
    found: dict[str, Any] = {
        wanted[entry]: value for entry, value in raw_entries(catalog, key.execution) if entry in wanted
    }
    own = found.pop("own", None)
    if node.kind is NodeKind.PARAMETERS_GRAD:
        if not isinstance(own, dict) or "backward" not in found:
            return None
        leaves = {name: each[0] if isinstance(each, list) and each else each for name, each in own.items()}
        return {**found, "backward": {**found["backward"], "output": [leaves]}}
    direction = "forward" if key.phase is Phase.FORWARD else "backward"
    found.setdefault(direction, own)
    return found if isinstance(found.get("forward"), dict) and isinstance(found[direction], dict) else None


def _only_call(catalog: Catalog, node: Node) -> Node | None:
    """Return the forward call of a module; of gradients of weights the only one, for they are a sum over all."""
    if node.kind is NodeKind.MODULE:
        return node if node.key.phase is Phase.FORWARD else catalog.nodes.get(replace(node.key, phase=Phase.FORWARD))
    name = node.key.name.removesuffix(_GRADIENTS)
    calls = [
        each
        for each in catalog.nodes.values()
        if (each.kind, each.key.name, each.key.phase) == (NodeKind.MODULE, name, Phase.FORWARD)
        and each.key.execution == node.key.execution
    ]
    return calls[0] if len(calls) == 1 else None


def _forward(
    entry: Mapping[str, Any], api: str, states: int
) -> tuple[dict[str, Any], dict[str, tuple[tuple[int, ...], str]], list[bool]]:
    """Return the forward entry of a call, the zeros that it needs, and what ``batch_first`` may be."""
    is_cell = api.endswith("_cell")
    given = [*entry["input_args"], *entry["input_kwargs"].values()]
    results = list(_flat(entry["output"]))
    kept = results if is_cell else results[1:]
    weights = _weights(entry["parameters"])
    if len(kept) != states or len(given) not in (1, 2) or not isinstance(given[0].get("shape"), list):
        raise ValueError("other arguments or results")
    length = 2 if is_cell else 3
    if len(given[0]["shape"]) != length:
        raise ValueError(f"an input of {len(given[0]['shape'])} axes")
    blank: dict[str, tuple[tuple[int, ...], str]] = {}
    state = given[1] if len(given) > 1 else None
    if state is None:
        blank = {f"zeros_{number}.npy": _zeros(each) for number, each in enumerate(kept)}
        named = zip(kept, blank, strict=True)
        filled = [{**each, "data_name": name, "requires_grad": False, "Max": 0.0, "Min": 0.0} for each, name in named]
        state = filled if states > 1 else filled[0]
    if is_cell:
        return _entry([given[0], state, *weights], results), blank, []
    layers, directions = _sizes(entry["parameters"])
    has_bias = any("bias" in name for name in entry["parameters"])
    # Without dropout, which is random: where there was some, the golden's result is another one too.
    words: list[Any] = [has_bias, layers, 0.0, False, directions > 1]
    plain = [{"type": type(word).__name__, "value": word} for word in words]
    batch = kept[0]["shape"][1]
    orders = [is_first for is_first, axis in ((False, 1), (True, 0)) if given[0]["shape"][axis] == batch]
    if not orders or kept[0]["shape"][0] != layers * directions:
        raise ValueError("its sizes do not fit those of its weights")
    return _entry([given[0], state, weights, *plain], results), blank, orders


def _zeros(state: Mapping[str, Any]) -> tuple[tuple[int, ...], str]:
    """Return shape and element type of a state that a module was not given, by the one that it returned."""
    shape, dtype = tuple(state["shape"]), canonical_dtype(state["dtype"])
    if not all(type(length) is int and length >= 0 for length in shape) or math.prod(shape) > _MOST_ZEROS:
        raise ValueError(f"its state has shape {list(shape)}")
    return shape, dtype


def _entry(arguments: list[Any], results: list[Any]) -> dict[str, Any]:
    return {"input_args": arguments, "input_kwargs": {}, "output": results}


def _flat(value: object) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
    else:
        yield value


def _weights(parameters: Mapping[str, Any]) -> list[Any]:
    """Return the weights in the order in which the kernel takes them: layer by layer, the reverse direction behind."""
    if not parameters or not all(_LAYER.fullmatch(name) for name in parameters):
        raise ValueError("other weights")

    def place(name: str) -> tuple[int, bool, int]:
        match = _LAYER.fullmatch(name)
        assert match is not None
        role = next(number for number, each in enumerate(_ROLES) if name.startswith(each))
        return int((match["layer"] or "_l0")[2:]), match["reverse"] is not None, role

    return [parameters[name] for name in sorted(parameters, key=place)]


def _sizes(parameters: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of layers and of directions."""
    inputs = [name for name in parameters if name.startswith("weight_ih")]
    directions = 2 if any(name.endswith("_reverse") for name in inputs) else 1
    return len(inputs) // directions, directions


def write_zeros(call: RecurrentCall, folder: Path, announce: Callable[[Path], object]) -> Iterator[Path]:
    """Write the states that no dump has, and yield their files.

    Args:
        call: what needs them.
        folder: of the tensors of all sides.
        announce: is told of every file before it is begun.
    """
    import numpy as np

    from probe_flow.apis.values import numpy_dtype

    for side, zeros in call.zeros.items():
        for name, (shape, dtype) in zeros.items():
            path = folder / side / name
            announce(path)
            np.save(path, np.zeros(shape, numpy_dtype(dtype)), allow_pickle=False)
            yield path
