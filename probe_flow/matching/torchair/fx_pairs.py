"""Pair the tensors of one device execution with FX tensors, and say why the others have no partner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from msgspec import Struct

from probe_flow.dumps.graph.links import Source
from probe_flow.matching.shared.vocabulary import CommonReason, CommonRule
from probe_flow.matching.torchair.arguments import (
    Alignment,
    DeviceInput,
    Origin,
    Parameter,
    align_arguments,
    align_numbers,
    align_parameters,
    are_places_alike,
    is_parameter,
    is_parameter_list,
    parameter_kind,
    places_of,
)
from probe_flow.matching.torchair.fx_golden import GoldenIndex
from probe_flow.matching.torchair.graph import FxGraph
from probe_flow.matching.torchair.nodes import DumpedNode
from probe_flow.matching.torchair.reasons import NearestNames, TorchairReason, TorchairRule, unusable, unusable_golden
from probe_flow.matching.torchair.target import TargetMatch
from probe_flow.records import Catalog, Reason, TensorRef

_SPREADING_TYPES = frozenset({"BroadcastTo", "BroadcastToD", "Expand", "ExpandD"})

_ALIGNED_CONFIDENCE = 0.8
_NUMBER_CONFIDENCE = 0.7
_GUESS_CONFIDENCE = 0.6
"""One of several tensors of the same size: as much as matchers without a graph know."""


class _Waiting(Struct, frozen=True, gc=False):
    """A device input that no edge could pair, on its way to the arguments of an FX node."""

    node: DumpedNode
    item: DeviceInput
    paired: bool
    doubt: tuple[Reason, float] | None = None


class FxMatch(TargetMatch):
    """Matches one device execution with one execution of an FX dump."""

    def __init__(
        self,
        catalog: Catalog,
        tensors: Sequence[TensorRef],
        graph: FxGraph | None,
        golden: GoldenIndex,
        *,
        golden_selects_nodes: bool,
        hints: tuple[NearestNames, NearestNames],
        group_prefix: str,
    ) -> None:
        super().__init__(
            catalog,
            tensors,
            graph.links if graph is not None else None,
            golden_selects_nodes=golden_selects_nodes,
            hints=hints,
            group_prefix=group_prefix,
        )
        self.graph = graph.in_run(self.links) if graph is not None and self.links is not None else None
        self.golden = golden
        self._waiting: dict[str, list[_Waiting]] = defaultdict(list)
        self._parameters: dict[tuple[str, ...], list[_Waiting]] = defaultdict(list)
        self._unplaced: dict[str, set[Hashable]] = defaultdict(set)

    # Outputs

    def _match_outputs(self, node: DumpedNode) -> None:
        rule = CommonRule.EXACT if len(node.parts) == 1 else TorchairRule.FUSED
        for index, ref in enumerate(node.outputs):
            if (reason := unusable(ref)) is not None:
                self._leave(node, ref, reason)
                continue
            source = node.exit_of(index)
            golden, why = self._golden_of(node, source)
            if golden is not None and source is not None and (unmade := self.unmade(ref, source)) is not None:
                golden, why = None, unmade
            if golden is None:
                assert why is not None, "either a tensor or the reason for its absence"
                self._leave(node, ref, why)
            else:
                self._pair(node, ref, golden, rule)

    def _golden_of(self, node: DumpedNode, source: Source | None) -> tuple[TensorRef | None, Reason | None]:
        assert self.graph is not None, "only nodes of a graph have parts"
        name = self.graph.name(source) if source is not None else None
        if name is None:
            return None, self._unnamed_output(node)
        golden = self.golden.output(name)
        if golden is None:
            return None, self._no_golden(name)
        if not golden.has_numbers:
            return None, unusable_golden(golden, name[0])
        return golden, None

    def unmade(self, ref: TensorRef, source: Source) -> Reason | None:
        """Return why an output that the device left empty has nothing to be compared: nobody reads it."""
        assert self.graph is not None, "only nodes of a graph have parts"
        readers = self.graph.links.consumers.get(source[0], ())
        is_read = any(read == source for reader in readers for read in reader.inputs)
        if ref.numel != 0 or is_read or self.graph.links.numel(source) == 0:
            return None
        return TorchairReason.DEVICE_NO_DUMP.expected(
            f"nothing reads output {source[1]} of `{source[0]}`, and the device left it empty"
        )

    def _unnamed_output(self, node: DumpedNode) -> Reason:
        assert self.graph is not None, "only nodes of a graph have parts"
        if not self.graph.carriers:
            return TorchairReason.NO_FX_NAME.missing("the graph text names no FX tensors; dump with a newer TorchAir")
        owner = self.graph.owner(node.parts[-1])
        of = f" of `{owner}`" if owner else ""
        return CommonReason.INTERNAL.expected(f"an intermediate value inside the expansion{of}; FX has no such tensor")

    def _no_golden(self, name: tuple[str, int]) -> Reason:
        key, index = name
        if key in self.golden:
            if not self.golden.has_outputs:
                return CommonReason.NOT_DUMPED.expected("the golden dump holds no outputs at all")
            return TorchairReason.NO_GOLDEN_OP.missing(f"the golden dump of `{key}` has no output {index}")
        if self._golden_selects_nodes:
            return CommonReason.FILTERED.outside(f"`{key}` is not among the selected golden nodes")
        return TorchairReason.NO_GOLDEN_OP.missing(f"the golden dump has no `{key}`{self._golden_hints.hint(key)}")

    # Inputs

    def _match_inputs(self, node: DumpedNode) -> None:
        assert self.graph is not None, "only nodes of a graph have parts"
        found = self._sources_of(node)
        for ref, source, reader in zip(node.inputs, found.sources, found.readers, strict=True):
            if (reason := unusable(ref)) is not None:
                self._leave(node, ref, reason)
                continue
            origin = self._origin(source)
            doubt = self._doubt(node, ref) if found.is_aligned and source is not None else None
            paired = origin is Origin.FX_TENSOR and source is not None and self._match_edge(node, ref, source, doubt)
            if origin is None and not self.graph.carriers:
                self._leave(node, ref, self._unnamed_output(node))
                continue
            if origin is None:
                owner = self.graph.owner(reader) if reader else None
                of = f" of `{owner}`" if owner else ""
                self._leave(
                    node, ref, CommonReason.INTERNAL.expected(f"an intermediate value inside the expansion{of}")
                )
                continue
            owner = self.graph.owner(reader or node.parts[0])
            if owner is not None:
                self._waiting[owner].append(_Waiting(node, DeviceInput(ref, origin, reader, source), paired, doubt))
            elif not paired:
                self._leave(node, ref, self._no_argument(ref, origin, None))

    def _origin(self, source: Source | None) -> Origin | None:
        """Return what kind of value a device input is; None when it lies inside a converter's expansion."""
        assert self.graph is not None, "only nodes of a graph have parts"
        if source is None:
            return Origin.CONSTANT
        if self.graph.values(source):
            return Origin.FX_TENSOR
        root = self.graph.root(source)
        if self.graph.is_graph_input(root):
            return Origin.GRAPH_INPUT
        return Origin.CONSTANT if self.graph.is_constant(root) else None

    def _doubt(self, node: DumpedNode, ref: TensorRef) -> tuple[Reason, float]:
        """Say how sure it is which graph tensor an input is that was found by its number of elements alone."""
        assert self.graph is not None, "only nodes of a graph have parts"
        links = self.graph.links
        known = sum(links.numel(source) == ref.numel for source, _ in links.external_inputs(node.parts))
        dumped = sum(other.numel == ref.numel for other in node.inputs)
        if known == dumped:
            return TorchairReason.ALIGNED.expected(
                "taken for a tensor of the graph by its number of elements"
            ), _ALIGNED_CONFIDENCE
        text = f"taken for one of {known} tensors of the graph that have {ref.numel} elements; {dumped} were dumped"
        return CommonReason.GUESSED.expected(text), _GUESS_CONFIDENCE

    def _match_edge(self, node: DumpedNode, ref: TensorRef, source: Source, doubt: tuple[Reason, float] | None) -> bool:
        assert self.graph is not None, "only nodes of a graph have parts"
        for name, through in self.graph.values(source):
            golden = self.golden.output(name)
            if golden is None or not golden.has_numbers:
                continue
            note = TorchairReason.THROUGH.expected(f"the same value before {through}") if through else None
            if doubt is None:
                self._pair(node, ref, golden, TorchairRule.EDGE, note=note)
            else:
                self._pair(node, ref, golden, CommonRule.ALIGNED, note=doubt[0], confidence=doubt[1])
            return True
        return False

    def _finish(self) -> None:
        for key, waiting in self._waiting.items():
            self._match_arguments(key, waiting)
        self._waiting.clear()
        for keys, parameters in self._parameters.items():
            self._match_parameters(keys, parameters)

    def _match_arguments(self, key: str, waiting: list[_Waiting]) -> None:
        assert self.graph is not None, "only nodes of a graph have parts"
        if all(entry.paired for entry in waiting):
            return
        arguments = self.golden.arguments(key)
        items = [entry.item for entry in waiting]
        places = places_of(self.graph, key, items)
        if any(argument.numel is None for argument in arguments):
            from probe_flow.matching.torchair.recorded_arguments import align_recorded

            alignment = Alignment(tuple(align_recorded(self.graph, self.golden, places, items, arguments)))
            how = "recorded statistics"
        else:
            alignment, how = align_arguments(places, arguments), "type and element count"
        joined = {number: j for i, j in alignment.pairs if (number := places[i].waiting) is not None}
        numbers = self.golden.numbers(key)
        rest = [index for index, entry in enumerate(waiting) if index not in joined and not entry.paired]
        scalars = {rest[i]: numbers[j] for i, j in align_numbers([items[index] for index in rest], numbers)}
        for index, entry in enumerate(waiting):
            if entry.paired:
                continue
            ref = entry.item.ref
            if index in joined:
                golden = arguments[joined[index]]
                if entry.doubt is not None:
                    self._pair(
                        entry.node, ref, golden, CommonRule.ALIGNED, note=entry.doubt[0], confidence=entry.doubt[1]
                    )
                elif alignment.is_exact:
                    self._pair(entry.node, ref, golden, CommonRule.EXACT)
                else:
                    note = TorchairReason.ALIGNED.expected(f"joined with {golden.slot} of `{key}` by {how}")
                    self._pair(entry.node, ref, golden, CommonRule.ALIGNED, note=note, confidence=_ALIGNED_CONFIDENCE)
            elif index in scalars:
                is_constant = entry.item.origin is Origin.CONSTANT
                what = "a constant of the device" if is_constant else "a graph input of one element"
                note = TorchairReason.BROADCAST.expected(f"{what} and a number among the arguments of `{key}`")
                self._pair(
                    entry.node, ref, scalars[index], CommonRule.ALIGNED, note=note, confidence=_NUMBER_CONFIDENCE
                )
            elif entry.item.source is None and is_parameter(ref) and not self._resolves_sizes(entry):
                self._parameters[self._keys_of(entry, key)].append(entry)
            else:
                self._leave(entry.node, ref, self._no_argument(ref, entry.item.origin, key))

    def _resolves_sizes(self, entry: _Waiting) -> bool:
        """Whether an input is a list of sizes that FX may write as -1, which no device reads."""
        assert self.graph is not None, "only nodes of a graph have parts"
        reader = entry.item.reader or entry.node.parts[-1]
        op = self.graph.links.ops[reader]
        return self.graph.links.is_view(op) or op.op_type in _SPREADING_TYPES

    def _keys_of(self, entry: _Waiting, key: str) -> tuple[str, ...]:
        """Return the FX nodes one of which an input belongs to that the graph text does not feed."""
        if entry.item.reader is not None:
            return (key,)
        assert self.graph is not None, "only nodes of a graph have parts"
        owners = dict.fromkeys(self.graph.owner(part) for part in entry.node.parts)
        return tuple(owner for owner in owners if owner is not None)

    def _match_parameters(self, keys: tuple[str, ...], waiting: Sequence[_Waiting]) -> None:
        """Pair parameters that the graph text does not feed with the arguments in their places, or leave them."""
        assert self.graph is not None, "only nodes of a graph have parts"
        is_placed = len(keys) == 1 and are_places_alike(self.graph, keys[0])
        refs = [entry.item.ref for entry in waiting]
        mine = {number: Parameter(_place(ref) if is_placed else None, ref) for number, ref in enumerate(refs)}
        arguments = [(key, Parameter(*placed)) for key in keys for placed in self.golden.places(key)]
        theirs = {
            number: argument
            for number, (_, argument) in enumerate(arguments)
            if is_parameter(argument.ref) and id(argument.ref) not in self.used
        }
        sure, guessed = align_parameters(mine, theirs)
        joined = {**sure, **guessed}
        free = {parameter_kind(each.ref) for number, each in theirs.items() if number not in joined.values()} - {None}
        for number, (entry, ref) in enumerate(zip(waiting, refs, strict=True)):
            if number in joined:
                key, argument = arguments[joined[number]]
                what = f"not fed by the graph text; joined with {argument.ref.slot} of `{key}` by"
                if number in sure:
                    note, confidence = (
                        TorchairReason.ALIGNED.expected(f"{what} place, type and element count"),
                        _ALIGNED_CONFIDENCE,
                    )
                else:
                    text = f"{what} type and element count alone"
                    note, confidence = CommonReason.GUESSED.expected(text), _GUESS_CONFIDENCE
                self._pair(entry.node, ref, argument.ref, CommonRule.ALIGNED, note=note, confidence=confidence)
            elif (kind := parameter_kind(ref)) in free:
                for key in keys:
                    self._unplaced[key].add(kind)
                names = " or ".join(f"`{key}`" for key in keys)
                text = f"an argument of {names} has its type and element count, but none of them is in its place"
                self._leave(entry.node, ref, TorchairReason.COUNT_MISMATCH.missing(text))
            else:
                self._leave(entry.node, ref, self._no_argument(ref, entry.item.origin, keys[0]))

    def may_be_input(self, argument: TensorRef, key: str) -> bool:
        """Tell whether a parameter among the arguments may be a device input that has no partner either."""
        return parameter_kind(argument) in self._unplaced.get(key, ())

    def _no_argument(self, ref: TensorRef, origin: Origin, key: str | None) -> Reason:
        if origin is Origin.CONSTANT:
            what = "a parameter (axes, shape, permutation)" if is_parameter_list(ref) else "a constant"
            return TorchairReason.CONSTANT.expected(
                f"{what} of the device graph without an FX tensor of the same meaning"
            )
        if not self.golden.has_inputs:
            return CommonReason.NOT_DUMPED.expected("the golden dump holds no inputs at all")
        if key is None:
            return TorchairReason.NO_FX_NAME.missing(
                "neither the producer nor the operator that reads it has an FX name"
            )
        if key not in self.golden:
            return self._no_golden((key, 0))
        if any(argument.numel is None for argument in self.golden.arguments(key)):
            return TorchairReason.COUNT_MISMATCH.missing(f"no free argument of `{key}` has statistics like its own")
        return TorchairReason.COUNT_MISMATCH.missing(
            f"no free argument of `{key}` has its type and {ref.numel} elements"
        )


def _place(ref: TensorRef) -> int | None:
    place = ref.slot.path[0]
    return place if isinstance(place, int) else None
