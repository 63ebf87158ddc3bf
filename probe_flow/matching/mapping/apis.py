"""Names of APIs under an API mapping: entries of a file first, then the built-in table of MindSpore and PyTorch.

An API that the table lacks, or that the other side calls by another way than it says, is its namesake there. Both
sides meet under the function that an operator of Python is: `x * y` of one program is `mul(x, y)` of the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

from probe_flow.errors import Diagnostic
from probe_flow.mappings.api_mapping_file import ApiEntry, ArgumentMap
from probe_flow.mappings.mapping_file import Entry
from probe_flow.matching.mapping.use import leads_nowhere, useless
from probe_flow.matching.name.name_space import Arguments, Named
from probe_flow.matching.name.vocabulary import NameRule
from probe_flow.matching.shared.api_table import pytorch_name
from probe_flow.matching.shared.nearest_names import NearestNames
from probe_flow.records import Phase, SlotRole

TABLE_CONFIDENCE = 0.95
_ANY = "*"

_PLACES = frozenset(("Functional", "Mint", "MintFunctional", "Tensor"))
"""Where MindSpore has APIs that are named as those of PyTorch are."""

_ARITHMETIC = """
    add: __add__ __iadd__ __radd__ add_
    sub: __sub__ __isub__ sub_ subtract
    mul: __mul__ __imul__ __rmul__ mul_ multiply
    div: __truediv__ __itruediv__ __div__ div_ divide true_divide
    floor_divide: __floordiv__ __ifloordiv__
    remainder: __mod__ __imod__
    pow: __pow__ __ipow__ pow_
    matmul: __matmul__ __imatmul__
    neg: __neg__ negative
    abs: __abs__ absolute
    eq: __eq__
    ne: __ne__ not_equal
    gt: __gt__ greater
    ge: __ge__ greater_equal
    lt: __lt__ less
    le: __le__ less_equal
"""

_FUNCTION_OF: Mapping[str, str] = MappingProxyType(
    {
        spelling: function
        for function, _, spellings in (line.partition(":") for line in _ARITHMETIC.split("\n    ")[1:])
        for spelling in (function, *spellings.split())
    }
)
"""Operators of Python, methods in place and other names of an arithmetic function -> the function.

Not those that take their operands the other way round: ``__rsub__`` is no ``sub`` of the same arguments.
"""

_SPELLED = frozenset(("Functional", "Mint", "Tensor", "Torch"))
"""Where an operator of Python is a function or a method."""

_ONLY_NAMESAKES = frozenset(("gather", "select", "slice"))
"""APIs of `mindspore.ops` whose namesakes of PyTorch compute something else."""


class ApiNames(Struct):
    """Renames the APIs of one side to those of the other.

    Args:
        entries: of an API mapping file; the first that fits a name counts, one without wildcard before those with.
        theirs: names of the APIs of the other side.
        uses_table: whether the built-in table counts for names that no entry speaks of.
        word: what the side that is renamed is called.
    """

    entries: Sequence[ApiEntry]
    theirs: Collection[str]
    uses_table: bool
    word: str = "target"
    _exact: dict[str, ApiEntry] = field(default_factory=dict)
    _used: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for entry in self.entries:
            if _ANY not in entry.mindspore:
                self._exact.setdefault(entry.mindspore, entry)

    def rename(self, name: str) -> Named:
        """Return the common name of an API."""
        entry = self._exact.get(name) or next((each for each in self.entries if _fits(each.mindspore, name)), None)
        if entry is not None:
            self._used.add(id(entry))
            return Named(entry.pytorch, NameRule.API_MAPPING, entry.span, arguments=_arguments(entry.maps))
        if self.uses_table and (operator := operator_of(name)) is not None:
            is_same = name in self.theirs
            return operator if is_same else Named(operator.name, NameRule.API_MAPPING, confidence=TABLE_CONFIDENCE)
        known = pytorch_name(name) if self.uses_table else None
        if self.uses_table and known not in self.theirs:
            known = self._namesake(name) or known
        if known is None or known == name or (known not in self.theirs and name in self.theirs):
            return Named(name)
        return Named(known, NameRule.API_MAPPING, confidence=TABLE_CONFIDENCE)

    def _namesake(self, name: str) -> str | None:
        """Return the one API of the other framework that has the name of one of MindSpore's, wherever it is."""
        place, _, api = name.partition(".")
        if place not in _PLACES or api in _ONLY_NAMESAKES:
            return None
        found = [other for kind in ("Torch", "Functional", "Tensor") if (other := f"{kind}.{api}") in self.theirs]
        return found[0] if len(found) == 1 else None

    def problems(self, mine: Iterable[str]) -> list[Diagnostic]:
        """Return warnings about entries that match none of the names of this side, or lead to none of the other."""
        own = NearestNames(("api", name) for name in mine)
        nearest = NearestNames(("api", name) for name in self.theirs)
        found = []
        for entry in self.entries:
            shown = Entry(entry.mindspore, entry.pytorch, entry.span)
            if id(entry) not in self._used:
                found.append(useless("API mapping", shown, own.of("api", entry.mindspore), side=self.word))
            elif entry.pytorch not in self.theirs:
                near = nearest.of("api", entry.pytorch)
                found.append(leads_nowhere("API mapping", shown, entry.pytorch, near, side=self.word))
        return found


def function_of(api: str) -> str:
    """Return the function that an arithmetic API is, however a program spells it; others keep their names.

    >>> function_of("__mul__"), function_of("add_"), function_of("__rsub__"), function_of("relu")
    ('mul', 'add', '__rsub__', 'relu')
    """
    return _FUNCTION_OF.get(api, api)


def is_arithmetic(api: str) -> bool:
    """Return whether programs spell an API as an operator too.

    >>> is_arithmetic("mul"), is_arithmetic("__imul__"), is_arithmetic("softmax")
    (True, True, False)
    """
    return api in _FUNCTION_OF


def operator_of(name: str) -> Named | None:
    """Return what an operator of Python, or the function that it is, is called where both frameworks meet.

    >>> operator_of("Mint.mul").name, operator_of("Tensor.__mul__").name, operator_of("Torch.softmax")
    ('Torch.mul', 'Torch.mul', None)
    """
    kind, _, api = name.partition(".")
    if kind not in _SPELLED or not is_arithmetic(api):
        return None
    return Named(f"Torch.{function_of(api)}", shown=name)


def _fits(pattern: str, name: str) -> bool:
    """Return whether a name fits a pattern in which `*` stands for any one segment."""
    if _ANY not in pattern:
        return False
    wanted, parts = pattern.split("."), name.split(".")
    return len(wanted) == len(parts) and all(w in (_ANY, p) for w, p in zip(wanted, parts, strict=True))


def _arguments(maps: Mapping[str, ArgumentMap]) -> Arguments | None:
    """Return the tables of an entry.

    The inputs of a backward are the gradients of the outputs. Its outputs come in an order of their own, not in that of
    the arguments; like the peer we let the list of outputs say which of them correspond.
    """
    tables: dict[tuple[Phase, SlotRole], ArgumentMap] = {}
    if (args := maps.get("args")) is not None:
        tables[Phase.FORWARD, SlotRole.INPUT] = args
    if (outputs := maps.get("outputs")) is not None:
        places = ((Phase.FORWARD, SlotRole.OUTPUT), (Phase.BACKWARD, SlotRole.INPUT), (Phase.BACKWARD, SlotRole.OUTPUT))
        tables.update(dict.fromkeys(places, outputs))
    if (parameters := maps.get("parameters")) is not None:
        tables[Phase.FORWARD, SlotRole.PARAMETER] = parameters
    if (gradients := maps.get("parameters_grad")) is not None:
        tables[Phase.NONE, SlotRole.PARAMETER_GRAD] = gradients
    return Arguments(MappingProxyType(tables)) if tables else None
