"""Which comparison two paths mean: TorchAir, offline models, or two dumps of a framework; whether they go together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from probe_flow.cli.elsewhere import MODES as ELSEWHERE
from probe_flow.cli.peer.torchair_sides import GE_GRAPH, is_golden_device, kind_at
from probe_flow.dumps.dump_json.folders import DUMP_FILE
from probe_flow.dumps.dump_json.head import DumpHead, read_head
from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.files.existing import is_file, is_folder
from probe_flow.records import Framework
from probe_flow.records.frameworks import NPY, OM, PYTORCH, TORCHAIR_FX, TORCHAIR_GE, Kernels, named

OFFLINE = "offline_data"
ARRAYS = "arrays"
MODES = ("auto", "torchair", OFFLINE, "offline_model")


class Sides(Struct, frozen=True):
    """What is compared.

    Args:
        scenario: ``torchair``, ``offline_data``, ``dump_json`` or ``arrays`` (of any program, paired by name).
        target, golden: what wrote the two dumps; not known of those of TorchAir.
        is_golden_device: whether the golden side of a TorchAir comparison is a GE dump (fusion off), not an FX dump.
    """

    scenario: str
    target: Framework = PYTORCH
    golden: Framework = PYTORCH
    is_golden_device: bool = False

    @property
    def frameworks(self) -> tuple[Framework, Framework]:
        """What wrote the two dumps."""
        if self.scenario == "torchair":
            return TORCHAIR_GE, TORCHAIR_GE if self.is_golden_device else TORCHAIR_FX
        return self.target, self.golden

    @property
    def is_pytorch(self) -> bool:
        """Whether both dumps are of PyTorch programs."""
        return self.target == self.golden == PYTORCH


def choose_sides(mode: str, target: Path, golden: Path) -> Sides:
    """Return the comparison that fits the mode and what the paths hold.

    Raises:
        UsageError: PF2120 for a mode that this version does not have, PF2122, PF2123, PF2125 and PF2126 when the two
            sides do not go together.
    """
    from probe_flow.dumps import registry
    from probe_flow.files.existing import holds

    if mode not in MODES:
        raise UsageError(_unknown_mode(mode))
    if mode == OFFLINE:
        return Sides(OFFLINE, _arrays_or_device(target), _arrays_or_device(golden))
    if mode == "auto":
        heads = {path: read_head(path) for path in (target, golden)}
        found = [head for head in (heads[target], heads[golden]) if head is not None]
        if len(found) == 2:
            _check_kinds(target, golden)
            return _frameworks(*found)
        if found or not holds(target, GE_GRAPH):
            ours, theirs = kind_at(target), kind_at(golden)
            if {ours, theirs} <= {registry.OM, registry.NPY} and not found:
                return Sides(OFFLINE, named(ours), named(theirs))
            if ours == theirs == registry.ARRAYS and not found:
                return Sides(ARRAYS, named(ours), named(theirs))
            if found or not {ours, theirs} <= {registry.TORCHAIR_GE, registry.TORCHAIR_FX}:
                raise UsageError(_different_kinds(heads))
    return Sides("torchair", is_golden_device=is_golden_device(target, golden))


def _arrays_or_device(path: Path) -> Framework:
    """Return `NPY` for arrays of a framework, in a folder or one file, else `OM`: its reader says what is wrong."""
    from probe_flow.dumps.device_folders.layout import MAPPING_FILE
    from probe_flow.dumps.file_names import is_hashed, read_name_mapping, real_name
    from probe_flow.dumps.offline.names import parse_array_name

    if is_file(path) and path.suffix == ".npy":
        return NPY
    try:
        names = os.listdir(path) if is_folder(path) else [path.name]  # noqa: PTH208 - names are wanted
    except OSError:  # the reader tells
        return OM
    mapping = read_name_mapping(path / MAPPING_FILE, MAPPING_FILE)[0] if MAPPING_FILE in names else {}
    true_names = (real_name(name, mapping) if is_hashed(name) else name for name in names)
    return NPY if any(name is not None and parse_array_name(name) is not None for name in true_names) else OM


def check_framework(given: str | None, sides: Sides) -> None:
    """Refuse a leading ``-f`` that is not the framework of the dumps.

    Raises:
        UsageError: PF2128.
    """
    actual = sides.target.dialect
    if given is not None and given != actual:
        what = {OFFLINE: "is the dump of an offline model", ARRAYS: "is a folder of arrays"}
        source = what.get(sides.scenario, f"was dumped from a {actual} program")
        raise UsageError(
            Diagnostic(
                "PF2128",
                f"`-f {given}` does not fit: the target {source}",
                help="leave `-f` out; the dumps say what they are",
            )
        )


def _check_kinds(target: Path, golden: Path) -> None:
    if is_file(target) != is_file(golden):
        file, folder = (target, golden) if is_file(target) else (golden, target)
        raise UsageError(
            Diagnostic(
                "PF2126",
                f"one side is a file, `{file}`, the other a folder, `{folder}`",
                help=f"name two folders, or two files: which `{file.name}` of the folder is meant?",
            )
        )
    if is_file(target) and target.name != golden.name:
        raise UsageError(
            Diagnostic(
                "PF2122",
                f"the two sides do not go together: `{target.name}` and `{golden.name}`",
                help="a debug.json holds single values that the program saved, a dump.json whole calls; name two alike",
            )
        )


def _frameworks(target: DumpHead, golden: DumpHead) -> Sides:
    sides = Sides("dump_json", target.framework or PYTORCH, golden.framework or PYTORCH)
    if sides.target.kernels is not Kernels.MINDSPORE and sides.golden.kernels is Kernels.MINDSPORE:
        raise UsageError(
            Diagnostic(
                "PF2123",
                f"the target is a dump of PyTorch, the golden side one of MindSpore (`{golden.file}`)",
                help="the other way round it works: give the MindSpore dump with `-tp`, the PyTorch dump with `-gp`",
            )
        )
    tasks = {target.task, golden.task}
    if len(tasks) > 1 and None not in tasks:
        way = "a workflow file compares what both recorded"
        if "structure" in tasks:
            way = "one of task `structure` records calls and no values"
        raise UsageError(
            Diagnostic(
                "PF2125",
                f"the two sides were dumped with different tasks: the target with `{target.task}`, the golden side "
                f"with `{golden.task}`",
                help=f"dump both with the same `task`; {way}",
                notes=(str(target.file), str(golden.file)),
            )
        )
    return sides


def _unknown_mode(mode: str) -> Diagnostic:
    modes = "modes: " + ", ".join(f"`{name}`" for name in MODES)
    lack = ELSEWHERE.get(mode)
    if lack is not None:
        return Diagnostic("PF2120", f"`-m {mode}` ({lack.what}) is not part of probe_flow", help=lack.instead)
    return Diagnostic("PF2120", f"unknown mode `{mode}`", help=did_you_mean(mode, (*MODES, *ELSEWHERE)) or modes)


def _different_kinds(heads: Mapping[Path, DumpHead | None]) -> Diagnostic:
    found = [
        f"`{path}` " + ("holds no" if head is None else "holds") + f" `{DUMP_FILE}`" for path, head in heads.items()
    ]
    return Diagnostic(
        "PF2122",
        f"the two sides do not go together: {' and '.join(found)}",
        help="name two `dump.json` files or folders that hold one, a GE and an FX dump with `-m torchair`, or the dump "
        "of an offline model and the outputs of its original model with `-m offline_data`, or two folders of `.npy` "
        "arrays; `probe-flow start TARGET GOLDEN` knows more kinds",
    )
