"""Which of the two comparisons of TorchAir two paths mean; paths that mean none (swapped sides, one in the other)."""

from __future__ import annotations

from pathlib import Path

from probe_flow.errors import Diagnostic, UsageError

GE_GRAPH = "dynamo_original_graph_*.txt"
_ARRAYS = "*.npy"


def is_golden_device(target: Path, golden: Path) -> bool:
    """Say whether the golden side is a device dump (fusion off), not an FX dump.

    It is where a graph text lies anywhere below it, or device files and no arrays do. A folder above both dumps of one
    run holds the target itself; its FX dump is meant then.

    Raises:
        UsageError: PF2122 when the target is an FX dump, or the dump of one side lies in that of the other.
    """
    from probe_flow.dumps.registry import TORCHAIR_FX
    from probe_flow.files.existing import holds

    has_text = holds(golden, GE_GRAPH)
    is_device = has_text or (not holds(golden, _ARRAYS) and _is_device(golden))
    if not holds(target, GE_GRAPH) and kind_at(target) == TORCHAIR_FX:
        raise UsageError(_no_device(target, golden if is_device else None))
    if not is_device:
        return False
    ours, theirs = _device_root(target), _device_root(golden)
    if ours == theirs:
        return not holds(golden, _ARRAYS)
    if ours in theirs.parents or theirs in ours.parents:
        raise UsageError(_one_in_the_other(ours, theirs))
    return True


def kind_at(path: Path) -> str:
    """Return the kind of a dump as far as its files show one, else nothing.

    Raises:
        IncompleteError: PF3409 the path cannot be searched.
    """
    from probe_flow.dumps.sniff import kind_of_dump

    try:
        return kind_of_dump(str(path))
    except UsageError:
        return ""


def _is_device(path: Path) -> bool:
    from probe_flow.dumps.registry import OM, TORCHAIR_GE

    return kind_at(path) in (OM, TORCHAIR_GE)


def _device_root(path: Path) -> Path:
    """Return the folder that is read as device dump."""
    from probe_flow.dumps.torchair.ge import ge_root
    from probe_flow.files.existing import is_folder

    path = path.resolve()
    return ge_root(path) if is_folder(path) else path


def _no_device(target: Path, golden: Path | None) -> Diagnostic:
    if golden is None:
        message = f"the target `{target}` is an FX dump, and so is the golden side"
        cure = "the GE dump (`msprobe_ge_dump`) is the one under test: give it with `-tp`"
    else:
        message = f"the sides are the wrong way round: the target `{target}` is an FX dump, the golden side a GE dump"
        cure = f"the GE dump is the one under test: `-tp {golden} -gp {target}`"
    return Diagnostic("PF2122", message, help=cure)


def _one_in_the_other(target: Path, golden: Path) -> Diagnostic:
    outer, inner = ("target", "golden side") if target in golden.parents else ("golden side", "target")
    return Diagnostic(
        "PF2122",
        f"the {inner} lies in the {outer}: `{target}` and `{golden}`",
        help=f"name only the `msprobe_ge_dump` folder that is meant by the {outer}",
    )
