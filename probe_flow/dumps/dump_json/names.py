"""Entry names of dump.json: API, module and parameter-gradient names taken apart, from the right.

Names follow the collectors' grammar: ``{Type}.{api}.{count}.{direction}`` for APIs (a MindSpore primitive has one
segment more), ``{Module|Cell}.{path}.{Class}.{direction}.{count}`` for modules (count and direction swapped) and
``{Module|Cell}.{path}.{Class}.parameters_grad[.{n}]`` for gradients of parameters. Module paths hold dots and digits,
hence "from the right". Values saved one by one are ``{name}[_grad].{count}.debug``.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import Struct

from probe_flow.records import NodeKind, Phase

PARAMETERS_GRAD = "parameters_grad"
DEBUG = "debug"
OPTIMIZER = "optimizer"
"""What construct.json names as the caller of what an optimizer calls; it is no call itself. Collectors see that of
PyTorch's optimizers, which are written in its own functions, and none of MindSpore's, which are kernels."""
_MAX_DIGITS = 18
_PHASES = {"forward": Phase.FORWARD, "backward": Phase.BACKWARD}
_API, _MODULE = NodeKind.API, NodeKind.MODULE


class EntryName(Struct, frozen=True, gc=False):
    """An entry name taken apart.

    Args:
        kind: API, module, gradients of a module's parameters, or a value saved by itself.
        name: what repeats from call to call: ``Functional.linear``, ``Module.layers.0.attn.qkv.Linear``,
            ``Module.head.Linear.parameters_grad``, ``y_only_grad``.
        op_type: the API or the class: ``linear``, ``Linear``; ``debug`` for a value saved by itself.
        call: number of the call; for parameter gradients number of the gradient computation (0 in old names).
        phase: none for parameter gradients and values saved by themselves.
    """

    kind: NodeKind
    name: str
    op_type: str
    call: int
    phase: Phase

    @property
    def module(self) -> str | None:
        """The module that parameter gradients belong to."""
        return self.name.removesuffix(f".{PARAMETERS_GRAD}") if self.kind is NodeKind.PARAMETERS_GRAD else None


def parse_entry_name(entry: str) -> EntryName | None:
    """Take an entry name apart; None when it follows none of the grammars.

    >>> parse_entry_name("Functional.linear.5.backward").call
    5
    >>> parse_entry_name("Module.layers.0.Layer.forward.2").name
    'Module.layers.0.Layer'
    """
    name, _, last = entry.rpartition(".")
    if last in _PHASES:
        name, _, before = name.rpartition(".")
        if _is_count(before) and (op_type := _last_part(name)) is not None:
            return EntryName(_API, name, op_type, int(before), _PHASES[last])
    return _parse_others(entry)


def _is_count(text: str) -> bool:
    """Say whether a part of a name is a number: digits as in ASCII, few enough for one."""
    return text.isdecimal() and text.isascii() and len(text) <= _MAX_DIGITS


@lru_cache(maxsize=4096)
def _last_part(name: str) -> str | None:
    """Return the last part of a name of two parts at least; None where it has fewer, or an empty one."""
    parts = name.split(".")
    return parts[-1] if len(parts) > 1 and all(parts) else None


def _parse_others(entry: str) -> EntryName | None:
    parts = entry.split(".")
    if len(parts) < 3 or not all(parts):
        return None
    if parts[-1] == PARAMETERS_GRAD:
        return EntryName(NodeKind.PARAMETERS_GRAD, entry, parts[-2], 0, Phase.NONE)
    before, last = parts[-2], parts[-1]
    if last == DEBUG and _is_count(before):
        return EntryName(NodeKind.DEBUG, ".".join(parts[:-2]), DEBUG, int(before), Phase.NONE)
    if len(parts) < 4:
        return None
    if not _is_count(last):
        return None
    if before in _PHASES:
        return EntryName(_MODULE, ".".join(parts[:-2]), parts[-3], int(last), _PHASES[before])
    if before == PARAMETERS_GRAD:
        return EntryName(NodeKind.PARAMETERS_GRAD, ".".join(parts[:-1]), parts[-3], int(last), Phase.NONE)
    return None
