"""Compiler configs as torchair has them: unknown attributes are rejected, and what is set can be looked at."""

from __future__ import annotations

from typing import Any


class Section:
    """A config object that only takes the attributes that its version has."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise ValueError(f"{name} is not a config option")
        if name == "dump_mode" and value not in ("input", "output", "all"):
            raise ValueError("one of input, output, all")
        self.__dict__[name] = value


def new_config() -> Section:
    return Section(
        debug=Section(graph_dump=Section(type=None, path="./", _path="./")),
        dump_config=Section(
            enable_dump=False, dump_path="./", dump_mode="all", quant_dumpable=False, dump_step="", dump_layer="",
            dump_data="tensor",
        ),
        fusion_config=Section(fusion_switch_file=None),
    )  # fmt: skip


def old_config() -> Section:
    """Return a config of 2023: no path of graph texts, no layers."""
    return Section(
        debug=Section(graph_dump=Section(type=None, _path="./")),
        dump_config=Section(enable_dump=False, dump_path="./", dump_mode="all"),
    )
