"""API mapping files: which MindSpore API is which PyTorch API, and which of their arguments correspond."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct

from probe_flow.errors import Diagnostic, Span, did_you_mean
from probe_flow.files.yaml.places import Place
from probe_flow.mappings.mapping_file import MappingFile

ArgumentMap: TypeAlias = Mapping[str, str]
"""Position or keyword of MindSpore -> that of PyTorch."""

APIS = ("ms_api", "pt_api")
LISTS = ("args", "outputs", "parameters", "parameters_grad")
_SPELLINGS = {"ms_output": "ms_outputs", "pt_output": "pt_outputs"}
_KEYS = (*APIS, *(f"{side}_{name}" for name in LISTS for side in ("ms", "pt")), *_SPELLINGS)


class ApiEntry(Struct, frozen=True):
    """One API of an API mapping.

    Args:
        mindspore, pytorch: names without call number, e.g. ``Functional.dense``; the MindSpore name may hold ``*`` for
            any one segment (``Primitive.*.MatMul``).
        span: where the entry begins.
        maps: per list of `LISTS` that the file gives, what corresponds; a list that is not given maps each to itself.
    """

    mindspore: str
    pytorch: str
    span: Span
    maps: Mapping[str, ArgumentMap]


def read_api_mapping(path: str | Path) -> tuple[ApiEntry, ...]:
    """Read an API mapping: one YAML object, or a list of them.

    Raises:
        UsageError: PF4210 unreadable file, PF4211 wrong form, PF4212 unknown key, PF4213 missing key, PF4214 lists of
            unequal length, PF4215 one list under two names, PF1xxx no YAML.
    """
    file = MappingFile(path, "API mapping")
    if isinstance(file.root, list):
        listed = [(item, file.place.children[index]) for index, item in enumerate(file.root)]
    else:
        listed = [(file.root, file.place)]
    found = [_entry(file, item, place) for item, place in listed]
    file.finish()
    return tuple(entry for entry in found if entry is not None)


def _entry(file: MappingFile, value: object, place: Place) -> ApiEntry | None:
    fields: dict[str, tuple[object, Place]] = {}
    for key, item, at in file.items(value, place, "an object with `ms_api` and `pt_api`"):
        if key not in _KEYS:
            nearest = did_you_mean(key, _KEYS)
            cure = f"{nearest or ''} keys: {', '.join(sorted(_KEYS))}".strip()
            message = f"unknown key `{key}` in an API mapping"
            file.problems.append(Diagnostic("PF4212", message, span=at.name_span, label="no such key", help=cure))
        elif _SPELLINGS.get(key, key) in fields:
            message = f"`{key}` gives a list a second time"
            cure = "`ms_output` is another spelling of `ms_outputs`, `pt_output` of `pt_outputs`; keep one"
            file.problems.append(Diagnostic("PF4215", message, span=at.name_span, help=cure))
        else:
            fields[_SPELLINGS.get(key, key)] = (item, at)
    names = [_name(file, fields, key, place) for key in APIS]
    maps = {name: pairs for name in LISTS if (pairs := _list(file, fields, name)) is not None}
    if names[0] is None or names[1] is None:
        return None
    return ApiEntry(names[0], names[1], fields["ms_api"][1].name_span, MappingProxyType(maps))


def _name(file: MappingFile, fields: Mapping[str, tuple[object, Place]], key: str, place: Place) -> str | None:
    if key in fields:
        return file.text(*fields[key], f"`{key}`")
    message = f"an entry of the API mapping has no `{key}`"
    cure = "an entry names both APIs, e.g. `ms_api: Functional.dense` and `pt_api: Functional.linear`"
    if fields:
        file.problems.append(Diagnostic("PF4213", message, span=place.span, help=cure))
    return None


def _list(file: MappingFile, fields: Mapping[str, tuple[object, Place]], name: str) -> ArgumentMap | None:
    sides = [_texts(file, fields, f"{side}_{name}") for side in ("ms", "pt")]
    if not any(f"{side}_{name}" in fields for side in ("ms", "pt")):
        return None
    if len(sides[0]) != len(sides[1]):
        at = next(fields[key][1] for key in (f"pt_{name}", f"ms_{name}") if key in fields)
        message = f"`ms_{name}` has {len(sides[0])} items, `pt_{name}` has {len(sides[1])}: they correspond one by one"
        cure = "give both lists equally many items; what is left out of both is not compared"
        file.problems.append(Diagnostic("PF4214", message, span=at.name_span, help=cure))
        return None
    return MappingProxyType(dict(zip(*sides, strict=True)))


def _texts(file: MappingFile, fields: Mapping[str, tuple[object, Place]], key: str) -> list[str]:
    value, place = fields.get(key, ([], None))
    if place is None:
        return []
    if not isinstance(value, list):
        file.wrong(place, f"`{key}` is no list", "write it as `[0, 1, weight]`, or")
        return []
    texts = [file.text(item, place.children[index], f"an item of `{key}`") for index, item in enumerate(value)]
    return [text if text is not None else "" for text in texts]
