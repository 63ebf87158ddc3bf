"""A suspect, and the call of an API that is computed for it: itself, or what stands for a module or its gradients."""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from probe_flow.errors import Diagnostic, IncompleteError
from probe_flow.records import Catalog, Node, NodeKind, Phase, SlotRole, TensorRef
from probe_flow.scripts.fx_operator import ComparedTensor
from probe_flow.scripts.onnx_operator import Model

_GRADIENTS = ".parameters_grad"


class ComputedCall(Struct, frozen=True):
    """The call of an API that is computed for a suspect.

    Args:
        node: of the target: the suspect, or what stands for it.
        golden: the same of the golden, where it has one.
        brings_gradients: whether what is compared are the gradients that the entry of the suspect records, not the
            call's own: those of parameters, and those of a module that is this call alone.
    """

    node: Node
    golden: Node | None
    brings_gradients: bool = False


class Suspect(Struct, frozen=True):
    """A call of the target, and the same of the golden where it has one.

    Args:
        target, golden: the catalogs.
        node: of the target.
        golden_node: what it was compared with; None where the golden has no counterpart.
        row: order of the row that accuses it; None where none does.
        tensors: its tensors and what each was compared with, of graphs of a device.
        model: of operators of an offline model, the ONNX model that they are computed by: the one that the device's
            was made of, or that the target is a dump of.
        golden_model: the one that the golden is a dump of.
    """

    target: Catalog
    node: Node
    golden: Catalog | None = None
    golden_node: Node | None = None
    row: int | None = None
    tensors: tuple[ComparedTensor, ...] = ()
    model: Model | None = None
    golden_model: Model | None = None

    @property
    def name(self) -> str:
        """Its entry in the dump."""
        return self.node.entry or self.node.key.name


def computed_call(suspect: Suspect) -> ComputedCall:
    """Return the call to compute on both sides: the suspect, or what stands for it.

    What a module returns is what the last API inside gave; the last of a backward pass gives its input's gradient.
    Where the recorded results say otherwise, that API tells nothing of the module, unless it is all that the module
    calls: then the gradients of the module's entry are those of that API. Gradients of parameters are given by the
    backward pass of the one API that takes them.

    Raises:
        IncompleteError: PF6631 there is no such call.
    """
    node = suspect.node
    if node.kind is NodeKind.PARAMETERS_GRAD:
        taking = _taking(suspect, suspect.target, node)
        other = _taking_or_none(suspect, suspect.golden, suspect.golden_node)
        return ComputedCall(taking, other, brings_gradients=True)
    if node.kind is NodeKind.API and node.key.phase is not Phase.NONE:
        return ComputedCall(node, suspect.golden_node)
    inside = _last_inside(suspect.target, node)
    if inside is None:
        if node.kind is not NodeKind.MODULE:
            raise unusable(suspect.name, "it is no call", "name a call of an API with `--node`")
        raise _without_calls(suspect)
    if not _ends(suspect.target, node) <= _ends(suspect.target, inside):
        alone = _alone(suspect.target, node)
        if alone is not None:
            same = suspect.golden_node
            golden_call = _alone(suspect.golden, same) if suspect.golden is not None and same is not None else None
            return ComputedCall(alone, golden_call, brings_gradients=True)
        last = inside.entry or inside.key.name
        why = (
            f"it is a module, and what it gives is not all that the API gives which it called last (`{last}`): calls "
            "that dumps leave out, such as cat or chunk, come behind it, or several results are joined"
        )
        raise unusable(suspect.name, why, f"`--node {last}` computes that one; look at what comes behind it")
    other = None
    if suspect.golden is not None and suspect.golden_node is not None:
        other = _last_inside(suspect.golden, suspect.golden_node)
        if other is not None and other.key.name != inside.key.name:
            other = None
    return ComputedCall(inside, other)


def _alone(catalog: Catalog, module: Node) -> Node | None:
    """Return the backward pass of the one API that a module consists of; None where it is not one, or not all of it.

    The last node of a backward pass may give no gradient of an argument, as that of a linear of three axes; the entry
    of the module then has those of its inputs.
    """
    if module.key.phase is not Phase.BACKWARD:
        return None
    forward = catalog.nodes.get(replace(module.key, phase=Phase.FORWARD))
    calls = [] if forward is None else _inside(catalog, forward)
    if forward is None or len(calls) != 1:
        return None
    (call,) = calls
    is_all = _ends(catalog, forward) == _ends(catalog, call)
    takes_all = _ends(catalog, forward, SlotRole.INPUT) <= _ends(catalog, call, SlotRole.INPUT)
    return catalog.nodes.get(replace(call.key, phase=Phase.BACKWARD)) if is_all and takes_all else None


def _without_calls(suspect: Suspect) -> IncompleteError:
    """Return the error of a module of which the dump has no call inside."""
    if suspect.target.attrs.get("level") == "L0":
        why = (
            "it is a module in which the dump has no API (level L0): what went in and came out is there, and nothing "
            "of what it computed in between"
        )
        return unusable(
            suspect.name, why, "dump it again with level mix or L1; then the API it called last is computed"
        )
    if suspect.node.key.phase is Phase.BACKWARD and not _ends(suspect.target, suspect.node):
        why = "it is the backward pass of a module, and none of its inputs has a gradient"
        return unusable(suspect.name, why, "the gradients of its weights are in its `parameters_grad`")
    why = (
        "it is a module inside which the dump has no call of an API: it runs as one kernel (as LSTM and GRU do), or "
        "its calls were left out of the dump"
    )
    return unusable(suspect.name, why, "hand the module over with its inputs, parameters and results, which are dumped")


def _last_inside(catalog: Catalog, module: Node) -> Node | None:
    """Return the API that ran last in a module, at any depth; None where there is none."""
    return max(_inside(catalog, module), key=lambda node: node.order, default=None)


def _inside(catalog: Catalog, module: Node) -> list[Node]:
    """Return the calls of APIs in a module, of its own direction, at any depth."""
    run = module.key.execution
    inside, found = {module.entry or module.key.name}, []
    callers: dict[str, list[Node]] = {}
    for node in catalog.nodes.values():
        if node.key.execution == run and node.caller is not None:
            callers.setdefault(node.caller, []).append(node)
    pending = list(inside)
    while pending:
        for node in callers.get(pending.pop(), ()):
            name = node.entry or node.key.name
            if name in inside:
                continue
            inside.add(name)
            pending.append(name)
            if node.kind is NodeKind.API and node.key.phase is module.key.phase:
                found.append(node)
    return found


def _ends(catalog: Catalog, node: Node, role: SlotRole = SlotRole.OUTPUT) -> set[str]:
    """Return what tells tensors of a call from others: size and extremes, in any order of axes."""
    return {
        _look(ref)
        for ref in catalog.tensors
        if ref.node == node.key and ref.slot.role is role and ref.recorded is not None
    }


def _taking(suspect: Suspect, catalog: Catalog, gradients: Node) -> Node:
    """Return the backward pass of the API that takes the parameters of a module; it is the one that gives all of them.

    Raises:
        IncompleteError: PF6631 there is not exactly one.
    """
    module, run = gradients.key.name.removesuffix(_GRADIENTS), gradients.key.execution
    of_run = [node for node in catalog.nodes.values() if node.key.execution == run and node.key.phase is Phase.FORWARD]
    modules = [node for node in of_run if node.kind is NodeKind.MODULE and node.key.name == module]
    if len(modules) != 1:
        why = f"its module was called {len(modules)} times, and what the dump has is the sum of their gradients"
        raise unusable(suspect.name, why)
    own = modules[0].entry or module
    inside = {node.key: node for node in of_run if node.kind is NodeKind.API and node.caller == own}
    wanted = {ref.slot.index for ref in catalog.tensors if ref.node == gradients.key}
    parameters = {
        _look(ref)
        for ref in catalog.tensors
        if ref.node == modules[0].key and ref.slot.role is SlotRole.PARAMETER and ref.slot.index in wanted
    }
    taking = {ref.node for ref in catalog.tensors if ref.slot.role is SlotRole.INPUT and _look(ref) in parameters}
    taking = taking & inside.keys() if parameters else set(inside)
    if len(taking) != 1:
        why = f"{len(taking)} APIs of its module take its parameters, and only one can be computed"
        raise unusable(suspect.name, why, "name a call of an API with `--node`")
    backward = catalog.nodes.get(replace(next(iter(taking)), phase=Phase.BACKWARD))
    if backward is None:
        why = f"the dump has no backward entry of `{inside[next(iter(taking))].entry}`, which takes its parameters"
        raise unusable(suspect.name, why)
    return backward


def _taking_or_none(suspect: Suspect, catalog: Catalog | None, gradients: Node | None) -> Node | None:
    if catalog is None or gradients is None:
        return None
    with suppress(IncompleteError):  # what the golden lacks only tells less
        return _taking(suspect, catalog, gradients)
    return None


def _look(ref: TensorRef) -> str:
    """Return what tells a tensor from others: its size and extremes."""
    recorded = ref.recorded
    return f"{ref.numel}" if recorded is None else f"{ref.numel} {recorded.min} {recorded.max}"


def unusable(entry: str, why: str, help_: str | None = None) -> IncompleteError:
    """Return the error of a call that no script can be made of."""
    cure = help_ or "`show --node` says what is known of it"
    return IncompleteError(Diagnostic("PF6631", f"no script can be made of `{entry}`: {why}", help=cure))
