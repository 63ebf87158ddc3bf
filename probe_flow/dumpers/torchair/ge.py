"""Set what TorchAir needs to dump the device graph (GE) on a `torchair.CompilerConfig`, whatever its version has.

Attributes differ between versions, and config objects reject unknown ones: each is looked for before it is set.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from probe_flow.errors import Diagnostic, UsageError

FUSION_OFF: Mapping[str, Any] = MappingProxyType(
    {"Switch": {"GraphFusion": {"ALL": "off"}, "UBFusion": {"ALL": "off"}}}
)
"""Content of a fusion switch file that turns every fusion off."""

FUSION_FILE = "fusion_switch.json"

_LAYER = re.compile(r"[0-9a-zA-Z_/.]+")
_GRAPH_PATHS = ("debug.graph_dump.path", "debug.graph_dump._path")


class GeDumpOptions(Struct, frozen=True):
    """Options of a GE dump.

    Args:
        mode: ``input``, ``output`` or ``all``.
        steps: steps (tokens) to dump, from 0; None = all.
        layers: names of operators to dump; empty = all.
        data: ``tensor``, or ``statistics`` as the device computes them.
        quantised: dump quantised operators too.
        fusion: ``off`` writes a fusion switch file that turns every fusion off.
        fusion_switch_file: a switch file of your own.
    """

    mode: str = "all"
    steps: tuple[int, ...] | None = None
    layers: tuple[str, ...] = ()
    data: str = "tensor"
    quantised: bool = False
    fusion: str = "on"
    fusion_switch_file: str | None = None


def configure_ge_dump(config: Any, path: str | Path, options: GeDumpOptions | None = None) -> Mapping[str, object]:
    """Set up a compiler config so that running the model writes a GE dump, and return what was set.

    Use it with ``torchair.get_npu_backend(compiler_config=config)``.

    Args:
        config: a ``torchair.CompilerConfig()``.
        path: folder of the dump, new or empty; it is made.
        options: what to dump; everything by default.

    Raises:
        UsageError: PF6321 for a folder that is not empty, PF6329 for what this torchair does not have or accept.
        IncompleteError: PF6326 when the folder cannot be made.
    """
    from probe_flow.dumpers.dump_files import make_folder

    options = options or GeDumpOptions()
    folder = Path(path).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(
            Diagnostic(
                "PF6321",
                f"the dump folder `{folder.name}` is not empty",
                help="name a new or an empty folder: two dumps in one folder cannot be told apart",
                path=str(folder),
            )
        )
    make_folder(folder)
    done: dict[str, object] = {}
    _set_first(config, ("debug.graph_dump.type",), "txt", done)
    _set_first(config, _GRAPH_PATHS, str(folder), done)
    for name, value in _settings(options, folder).items():
        _set_first(config, (name,), value, done)
    return done


def _settings(options: GeDumpOptions, folder: Path) -> dict[str, object]:
    """Return the attributes to set; those that stay at their defaults are left alone, since old versions lack some."""
    from probe_flow.dumpers.dump_files import write_bytes

    settings: dict[str, object] = {
        "dump_config.enable_dump": True,
        "dump_config.dump_path": str(folder),
        "dump_config.dump_mode": options.mode,
    }
    if options.quantised:
        settings["dump_config.quant_dumpable"] = True
    if options.steps is not None:
        settings["dump_config.dump_step"] = "|".join(map(str, options.steps))
    if options.layers:
        settings["dump_config.dump_layer"] = " ".join(_layer(name) for name in options.layers)
    if options.data == "statistics":
        settings["dump_config.dump_data"] = "stats"
    switch = options.fusion_switch_file
    if options.fusion == "off":
        write_bytes(folder.parent, FUSION_FILE, json.dumps(dict(FUSION_OFF), indent=2).encode() + b"\n")
        switch = str(folder.parent / FUSION_FILE)
    if switch is not None:
        settings["fusion_config.fusion_switch_file"] = switch
    return settings


def _layer(name: str) -> str:
    if not _LAYER.fullmatch(name):
        raise UsageError(
            Diagnostic(
                "PF6329",
                f"`{name}` cannot be the name of a layer to dump: torchair takes letters, digits, `_`, `/` and `.`",
                help="correct the name, or leave out `layers` to dump every operator",
            )
        )
    return name


def _set_first(config: Any, names: Sequence[str], value: object, done: dict[str, object]) -> None:
    """Set the first of the attributes that there is."""
    for dotted in names:
        *parts, last = dotted.split(".")
        owner = config
        for part in parts:
            owner = getattr(owner, part, None)
        if owner is None or not hasattr(owner, last):
            continue
        try:
            setattr(owner, last, value)
        except (ValueError, TypeError, AttributeError) as error:
            raise UsageError(_rejected(dotted, f"does not take `{value}`: {error}")) from error
        done[dotted] = value
        return
    raise UsageError(_rejected(names[0], "is not there"))


def _rejected(name: str, what: str) -> Diagnostic:
    return Diagnostic(
        "PF6329",
        f"`{name}` of torchair's CompilerConfig {what}",
        help="leave out the option that needs it, or use a newer torchair",
    )
