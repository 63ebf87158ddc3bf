"""Make a script that runs one API of a dump again, from a configuration as msprobe's `op_generate` has it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from probe_flow.dumps.dump_json.stream import EntryStream
from probe_flow.errors import Diagnostic, FormatError, IncompleteError, UsageError, did_you_mean
from probe_flow.files.atomic import atomic_text
from probe_flow.files.existing import is_there
from probe_flow.files.opening import read_text
from probe_flow.records.frameworks import MINDSPORE
from probe_flow.scripts.bundle import script_text
from probe_flow.scripts.repro import MODULES, Entries, Script, entries_of
from probe_flow.scripts.suspect import Suspect, computed_call, unusable

MAX_NAME = 300
MAX_ITERATIONS = 1000
MODE = 0o640

KINDS: Mapping[str, frozenset[str]] = {
    "pytorch": frozenset({"Functional", "Tensor", "Torch"}),
    "mindspore": frozenset({"Functional", "Tensor", "Torch", "Mint", "MintFunctional"}),
}
"""Kinds of APIs that a framework's scripts run."""

_NAME = re.compile(r"(?P<kind>\w+)\.(?P<api>\w+(?:\.\w+)?)\.(?P<call>\d{1,9})")
_DIRECTIONS = ("forward", "backward")
_FILES = "dump_data_dir"
_FIELDS = (
    "fields: extract_api_path, dump_json_path, api_name (texts), propagation (forward, backward), data_mode "
    f"(random_data, real_data), random_seed, iter_times (1 to {MAX_ITERATIONS})"
)


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """What a configuration says; the documented defaults hold for what it leaves out.

    Args:
        dump_json_path: the dump; where it is left out, the API was extracted before.
        api_name: e.g. ``Functional.softmax.3``, without direction.
        extract_api_path: where the entries of the API are written, or were.
        propagation: direction that the script runs.
        data_mode: whether inputs are random or those of the dump.
        random_seed: of random inputs.
        iter_times: how often the script runs the API; once with real data.
    """

    extract_api_path: str
    dump_json_path: str = ""
    api_name: str = ""
    propagation: Literal["forward", "backward"] = "forward"
    data_mode: Literal["random_data", "real_data"] = "random_data"
    random_seed: int = 1234
    iter_times: int = 1


def read_config(path: Path) -> Config:
    """Return a configuration.

    Raises:
        UsageError: PF2133 it is none, with what is wrong.
    """
    try:
        config = msgspec.json.decode(read_text(path).encode(), type=Config)
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _wrong(path, f"cannot be read: {error}") from error
    except msgspec.ValidationError as error:
        unknown = re.search(r"unknown field `([^`]*)`", str(error))
        hint = (did_you_mean(unknown[1], Config.__struct_fields__) if unknown else None) or _FIELDS
        raise _wrong(path, f"is no configuration: {error}", hint) from error
    except msgspec.DecodeError as error:
        raise _wrong(path, f"is no JSON: {error}") from error
    if not 1 <= config.iter_times <= MAX_ITERATIONS:
        raise _wrong(path, f"has `iter_times` {config.iter_times}; it is 1 to {MAX_ITERATIONS}")
    if not config.extract_api_path:
        raise _wrong(path, "has no `extract_api_path`")
    if config.dump_json_path and not config.api_name:
        raise _wrong(path, "names a dump and no `api_name`")
    if config.api_name and (len(config.api_name) > MAX_NAME or not _NAME.fullmatch(config.api_name)):
        cure = "a name is `Functional.softmax.3`: kind, API, number of the call, and no direction"
        raise _wrong(path, f"has the `api_name` `{config.api_name[:MAX_NAME]}`", cure)
    return config


def op_generate(config: Config, folder: Path, *, framework: str | None = None) -> tuple[Path, ...]:
    """Extract the API where a dump is named, and write its script; return the files written.

    Args:
        config: what is wanted.
        folder: of the script; it exists.
        framework: ``pytorch`` or ``mindspore``; None = what the entries say.

    Raises:
        UsageError: PF2133 the API is not in the dump, or lacks the direction.
        IncompleteError: PF6630 the entries cannot be used; PF7001 a file cannot be written.
    """
    written: list[Path] = []
    extracted = Path(config.extract_api_path)
    if config.dump_json_path:
        if not is_there(config.dump_json_path):
            raise UsageError(
                Diagnostic(
                    "PF2133",
                    f"there is no dump `{config.dump_json_path}`, which `dump_json_path` names",
                    path=config.dump_json_path,
                    help="paths start from the working directory",
                )
            )
        content = _extract(Path(config.dump_json_path), config.api_name)
        with atomic_text(extracted) as file:
            json.dump(content, file, indent=4)
        written.append(extracted)
    else:
        content = _extracted(extracted)
    script = _script(content, config, extracted, framework)
    name, text = script
    path = folder / f"{name}.{config.propagation}.py"
    with atomic_text(path) as file:
        os.chmod(file.name, MODE)  # noqa: PTH101 (before anything is in it)
        file.write(text)
    return (*written, path)


def write_random_script(
    suspect: Suspect,
    folder: Path,
    *,
    taken: Collection[str] = (),  # noqa: ARG001 - calls of one name differ in their numbers
    announce: Callable[[Path], object] = lambda _path: None,
    entries: Entries | None = None,
) -> Script:
    """Write the script that runs a suspect on random values in its recorded ranges, in higher precision beside it.

    Raises:
        IncompleteError: PF6630, PF6631 nothing of the kind can be made of the call; PF7001 a file cannot be written.
    """
    node = computed_call(suspect).node
    entry = node.entry or node.key.name
    name, _, direction = entry.rpartition(".")
    known = entries_of(suspect.target, [node])[node.key] if entries is None else entries.get(("target", node.key), {})
    if direction not in _DIRECTIONS or "forward" not in known or direction not in known:
        raise unusable(entry, "the dump has no forward entry of it, which holds its inputs")
    framework = "mindspore" if suspect.target.framework == MINDSPORE else "pytorch"
    content = {f"{name}.{each}": value for each, value in known.items()}
    config = Config("", propagation=cast("Literal['forward', 'backward']", direction))
    path = folder / f"{name}.{direction}.py"
    announce(path)
    _, text = _script(content, config, Path(entry), framework)
    with atomic_text(path) as file:
        file.write(text)
    return Script(path, entry, MODULES[framework], is_of_dump=False)


def _script(content: Mapping[str, Any], config: Config, path: Path, framework: str | None) -> tuple[str, str]:
    """Return name of the API and text of the script."""
    entries = _entries(content, path)
    name = next(iter(entries)).rpartition(".")[0]
    found = _NAME.fullmatch(name)
    own = framework or _framework_of(content)
    if found is None or found["kind"] not in KINDS[own]:
        kinds = ", ".join(sorted(KINDS[own]))
        cure = "of a module or primitive, name an API that it calls or that is called next to it"
        raise _unusable(path, f"`{name}` is not of a kind that scripts of {own} run: {kinds}", cure)
    by_direction = {key.rpartition(".")[2]: value for key, value in entries.items()}
    if "forward" not in by_direction or (config.propagation == "backward" and "backward" not in by_direction):
        lacking = "forward" if "forward" not in by_direction else "backward"
        cure = "dump the API with both of its passes, or ask for the `propagation` that the dump has"
        raise _unusable(path, f"`{name}` has no {lacking} entry", cure)
    is_random = config.data_mode == "random_data"
    if not is_random and not any(True for _ in _data_names(by_direction)):
        cure = "write `data_mode: random_data`, or dump its tensors (`task: tensor`)"
        raise _unusable(path, f"`{name}` was dumped as statistics: there is no real data", cure)
    settings = {
        "framework": own,
        "kind": found["kind"],
        "api": found["api"],
        "entries": by_direction,
        "propagation": config.propagation,
        "is_random": is_random,
        "seed": config.random_seed,
        "iterations": config.iter_times if is_random else 1,
        "folder": "/",
        "name": name,
    }
    needs = "torch" if own == "pytorch" else "mindspore and torch"
    return name, script_text("scripts.op_script", settings, needs=needs)


def _extract(dump: Path, api: str) -> dict[str, Any]:
    """Return the entries of an API with the paths of its tensor files, as msprobe extracts them."""
    try:
        stream = EntryStream(dump, dump.name)
        names: dict[str, None] = {}
        found: dict[str, Any] = {}
        for entry, value in stream:
            own, _, direction = entry.rpartition(".")
            if direction in _DIRECTIONS:
                names[own] = None
            if own == api:
                found[entry] = value
        top = stream.top if isinstance(stream.top, dict) else {}
    except FormatError as error:
        raise IncompleteError(error.diagnostics) from error
    if not found:
        hint = did_you_mean(api, names) or "names are those of dump.json without direction"
        raise UsageError(Diagnostic("PF2133", f"`{dump}` has no API `{api}`", path=str(dump), help=hint))
    folder = top.get(_FILES)
    if isinstance(folder, str) and folder:
        root = folder if Path(folder).is_dir() else str((dump.parent / "dump_tensor_data").absolute())
        for leaf in _data_names(found):
            leaf["data_name"] = os.path.join(root, str(leaf["data_name"]))  # noqa: PTH118 (as msprobe writes it)
    if stream.framework is not None and stream.framework.name == "mindspore":
        found["framework"] = "mindspore"
    return found


def _extracted(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            Diagnostic(
                "PF2133",
                f"the extracted API `{path}` cannot be read: {error}",
                path=str(path),
                help="name the dump with `dump_json_path`, which it is extracted from",
            )
        ) from error
    if not isinstance(content, dict):
        raise _unusable(path, f"it holds a {type(content).__name__}, not an object")
    return cast("dict[str, Any]", content)


def _entries(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return the entries, forward first."""
    entries = {key: value for key, value in content.items() if key.rpartition(".")[2] in _DIRECTIONS}
    if not entries:
        raise _unusable(path, "it holds no entry of an API")
    if len({key.rpartition(".")[0] for key in entries}) > 1:
        raise _unusable(path, f"it holds entries of several APIs: {', '.join(sorted(entries))}")
    for key, value in entries.items():
        if not isinstance(value, dict) or not value:
            raise _unusable(path, f"`{key}` is no entry with arguments")
    return dict(sorted(entries.items(), reverse=True))


def _framework_of(content: Mapping[str, Any]) -> str:
    word = content.get("framework")
    if isinstance(word, str) and word.lower() in KINDS:
        return word.lower()
    return "mindspore" if '"mindspore.' in json.dumps(content) else "pytorch"


def _data_names(value: object) -> Iterator[dict[str, Any]]:
    """Yield the leaves that have a tensor file."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            if each.get("data_name") and isinstance(each.get("type"), str):
                yield each
            else:
                pending.extend(each.values())
        elif isinstance(each, list):
            pending.extend(each)


def _wrong(path: Path, what: str, hint: str | None = None) -> UsageError:
    cure = '{"dump_json_path": "dump.json", "api_name": "Torch.matmul.0", "extract_api_path": "matmul.json"}'
    return UsageError(Diagnostic("PF2133", f"`{path.name}` {what}", path=str(path), help=hint or cure))


def _unusable(
    path: Path, what: str, help_: str = "extract the API again from its dump with `dump_json_path`"
) -> IncompleteError:
    return IncompleteError(
        Diagnostic("PF6630", f"no script can be made of `{path.name}`: {what}", path=str(path), help=help_)
    )
