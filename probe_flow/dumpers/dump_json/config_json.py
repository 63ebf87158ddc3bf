"""Read the `config.json` of msprobe: the settings that say the same here, and a refusal by name of all others.

A key with a value that asks for what is done anyway (``async_dump: false``) is accepted, and so are the sections of
tasks other than the chosen one, which msprobe does not read either.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from probe_flow.dumpers.dump_json.options import DIRECTIONS, LEVELS, PHASES, DumpOptions, checked_options, wrong_option
from probe_flow.errors import Diagnostic, UsageError, did_you_mean
from probe_flow.files.existing import is_file
from probe_flow.files.opening import read_whole

_MAX_BYTES = 1 << 20
_TASKS = ("statistics", "tensor")
_SECTIONS = frozenset(
    ("statistics", "tensor", "structure", "acc_check", "nan_check", "diff_check", "exception_dump", "overflow_check")
) | frozenset(("free_benchmark", "grad_probe", "run_ut"))
_TOP = ("task", "dump_path", "rank", "step", "level")
_IN_TASK = ("scope", "list", "data_mode", "summary_mode")
_AS_DONE: Mapping[str, tuple[Any, ...]] = {
    "extra_info": (True,),
    "async_dump": (False,),
    "precision": ("low",),
    "risk_level": ("FOCUS",),
    "custom_op_namespaces": ([],),
    "tensor_list": ([],),
    "slice": ([],),
    "file_format": ("npy",),
}
"""Further keys, with the values that ask for nothing else than what is done."""

_MAX_NUMBER = 1_000_000


class Config(Struct, frozen=True):
    """What a config.json asks for: the folder of the dump, if it says, and options for `checked_options`."""

    dump_path: str | None
    options: Mapping[str, Any] = field(default_factory=dict)


def read_config(path: Path) -> Config:
    """Return what a config.json asks for.

    Raises:
        UsageError: PF6350 for a file that is none, a key that is not taken, or a value that it cannot have.
    """
    content = _content(path)
    task = content.get("task", "statistics")
    if task not in _TASKS:
        raise _refused(path, f"`task` is `{task}`", f"dumps are made for the tasks {_listed(_TASKS)}")
    section = content.get(task, {})
    if not isinstance(section, dict):
        raise _refused(path, f"`{task}` is no object", "give its settings as an object")
    _check_keys(path, content, (*_TOP, *_SECTIONS), "")
    _check_keys(path, section, _IN_TASK, f"{task}.")
    level = content.get("level", "L1")
    if level not in LEVELS:
        raise _refused(path, f"`level` is `{level}`", f"levels are {_listed(LEVELS)}")
    options: dict[str, Any] = {"level": level, "data": task, "include": _texts(path, section, "list", task)}
    for name, key in (("steps", "step"), ("ranks", "rank")):
        options[name] = _numbers(path, key, content.get(key)) or None
    options["scope"] = _texts(path, section, "scope", task) or None
    options |= _modes(path, section, task)
    dump_path = content.get("dump_path")
    if dump_path is not None and not (isinstance(dump_path, str) and dump_path):
        raise _refused(path, "`dump_path` is no text", "name the folder of the dump")
    return Config(dump_path, options)


def options_of_script(
    folder: str | os.PathLike[str] | None, config: str | os.PathLike[str] | None, given: Mapping[str, Any]
) -> tuple[Path, DumpOptions]:
    """Return folder and options of a dump that a script asks for: by options, or by a config.json.

    Raises:
        UsageError: PF6331 for a wrong option, or for options beside a config.json, PF6350 for one that cannot be used.
    """
    if config is None:
        place, options = folder, given
    else:
        found = read_config(Path(config))
        besides = [name for name, value in given.items() if value is not None and name != "max_tensor_bytes"]
        if besides:
            what = "`config` says what is dumped, and so do other options"
            raise wrong_option(what, f"leave {_listed(besides)} out, or `config`")
        place = found.dump_path if folder is None else folder
        options = {**found.options, "max_tensor_bytes": given.get("max_tensor_bytes")}
    if place is None:
        raise wrong_option("no folder is given to dump into", "name one, or `dump_path` in the config.json")
    return Path(place), checked_options(options)


def _content(path: Path) -> dict[str, Any]:
    if not is_file(path):
        raise _refused(path, "there is no such file", "correct the path")
    try:
        content = json.loads(read_whole(path, _MAX_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(path, f"it cannot be read: {error}", "give a JSON file") from error
    if not isinstance(content, dict):
        raise _refused(path, "its top level is no object", "give the configuration of msprobe's PrecisionDebugger")
    return content


def _check_keys(path: Path, content: Mapping[str, Any], known: Iterable[str], prefix: str) -> None:
    names = tuple(known)
    for key, value in content.items():
        if key in names or any(value == each and type(value) is type(each) for each in _AS_DONE.get(key, ())):
            continue
        if key in _AS_DONE:
            what = f"`{prefix}{key}: {json.dumps(value)}` is not done"
            raise _refused(path, what, f"only {_listed(map(json.dumps, _AS_DONE[key]))} is; leave the key out")
        near = did_you_mean(key, list(names))
        raise _refused(path, f"`{prefix}{key}` is not taken", near or f"what is taken: {_listed((*_TOP, *_IN_TASK))}")


def _texts(path: Path, section: Mapping[str, Any], key: str, task: str) -> list[str]:
    found = section.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, str) and each for each in found):
        raise _refused(path, f"`{task}.{key}` is no list of texts", "give names of entries")
    return found


def _numbers(path: Path, key: str, values: object) -> list[int]:
    """Return numbers, texts of numbers and ranges such as ``4-6`` as numbers, each once."""
    found: set[int] = set()
    if values is None:
        return []
    if not isinstance(values, list):
        raise _refused(path, f"`{key}` is no list", "give numbers from 0, or ranges such as `4-6`")
    for value in values:
        first, dash, last = str(value).strip().partition("-")
        ends = [first, last] if dash else [first]
        if isinstance(value, bool) or not all(end.strip().isdecimal() and int(end) <= _MAX_NUMBER for end in ends):
            raise _refused(path, f"`{key}` holds {json.dumps(value)}", "give numbers from 0, or ranges such as `4-6`")
        if int(ends[-1]) < int(ends[0]):
            raise _refused(path, f"`{key}` holds the range `{value}`, which ends before it begins", "turn it round")
        found.update(range(int(ends[0]), int(ends[-1]) + 1))
    return sorted(found)


def _modes(path: Path, section: Mapping[str, Any], task: str) -> dict[str, Any]:
    summary = section.get("summary_mode", "statistics")
    if summary not in ("statistics", "md5"):
        raise _refused(path, f"`{task}.summary_mode` is `{summary}`", "`statistics` and `md5` are taken")
    modes = section.get("data_mode") or ["all"]
    if not isinstance(modes, list) or any(mode not in ("all", *PHASES, *DIRECTIONS) for mode in modes):
        raise _refused(
            path, f"`{task}.data_mode` is {json.dumps(modes)}", f"it takes {_listed((*PHASES, *DIRECTIONS))}"
        )
    return {
        "phases": [mode for mode in PHASES if mode in modes] or None,
        "direction": [mode for mode in DIRECTIONS if mode in modes] or None,
        "has_checksum": summary == "md5",
    }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _refused(path: Path, what: str, cure: str) -> UsageError:
    return UsageError(Diagnostic("PF6350", f"`{path.name}`: {what}", help=cure, path=str(path)))
