"""The files that one thing passes on its way: ``python -m tests.repo.walks`` prints them, ``--write`` puts them into
docs/architecture.md.

A run is traced on one thread. A file is on the walk of a row if a function in it returns or yields the row in any form,
alone or among others: its tensors, the blocks and sums that are measured of them, the pair, its figures, its verdict,
its cells. Files that only look at a row (an origin search asks hundreds of questions) and those that only pass on what
another one returns are not. The walk of a parameter has the files that return its value.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from itertools import groupby
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "probe_flow"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- walks: begin -->", "<!-- walks: end -->"

WHOLE = frozenset({"Catalog", "Pairs", "Comparison", "DumpListing"})
"""Records of a whole side or run: who hands them on does not look into them."""

MADE_OF_IT = tuple(f"probe_flow.{room}." for room in ("dumps", "files", "elements", "metrics", "measure"))
"""Objects of these modules are forms of the row where a function makes them of it, or of its file."""

STEPS = frozenset({"dumps", "matching", "measure", "analysis", "reports"})
"""Rooms that a row goes through one after the other. Those above conduct, those below are tools of several steps."""

_DEPTH = 3
_MANY_FIELDS = 4
"""A tuple in a record with more entries than this is not about one row."""


@dataclass(frozen=True)
class Walk:
    """What is followed, and what it may pass.

    Args:
        title: for the page.
        limit: files at most.
        last: room in which it ends.
        command: arguments of the command line, given a folder to write into.
        tensor: node and slot of the tensor whose row is followed; empty for a value.
        value: text that is followed in place of a row.
        ends: exit codes that are right.
    """

    title: str
    limit: int
    last: str
    command: Callable[[Path], list[str]]
    tensor: str = ""
    value: str = ""
    ends: tuple[int, ...] = (0, 1)


@dataclass
class Trace:
    """What a walk passed so far: file -> the function that showed it, in the order in which they were met."""

    walk: Walk
    met: dict[str, str] = field(default_factory=dict)
    forms: dict[int, object] = field(default_factory=dict)
    places: set[str] = field(default_factory=set)
    steps: list[str] = field(default_factory=list)
    _names: dict[type, tuple[str, ...]] = field(default_factory=dict)
    _busy: bool = False

    def __call__(self, frame: FrameType, event: str, result: object) -> None:
        """Look at what a function returns, as `sys.setprofile` calls it."""
        if event != "return" or result is None or self._busy:
            return
        code = frame.f_code
        if not code.co_filename.startswith(f"{PACKAGE}/"):
            return
        self._busy = True
        try:
            given = [frame.f_locals.get(name) for name in _arguments(code)]
            is_new = all(each is not result for each in given)
            if self._is_made_of(result, given):
                self.forms[id(result)] = result
            if is_new and self.holds(result, _DEPTH):
                self._meet(code.co_filename.removeprefix(f"{PACKAGE}/"), code.co_qualname)
        finally:
            self._busy = False

    def _meet(self, file: str, function: str) -> None:
        self.met.setdefault(file, function)
        if room(file) in STEPS and self.steps[-1:] != [room(file)]:
            self.steps.append(room(file))

    def _is_made_of(self, result: object, given: list[object]) -> bool:
        kind = type(result)
        if not kind.__module__.startswith(MADE_OF_IT) and kind.__name__ != "ndarray":
            return False
        return any(self.holds(each, _DEPTH - 1) for each in given)

    def holds(self, value: object, depth: int) -> bool:
        """Return True if a value is a form of what is followed, or holds one."""
        if type(value) is str:
            return value in self.places or (bool(self.walk.value) and value == self.walk.value)
        if value is None or isinstance(value, (int, float, bytes)):
            return False
        if id(value) in self.forms or self._is_tensor(value):
            return True
        if depth == 0:
            return False
        if isinstance(value, (list, tuple)):
            return any(self.holds(each, depth - 1) for each in value)
        if type(value) is dict:
            return any(self.holds(each, depth - 1) for each in value.values())
        return any(self._field_holds(value, name, depth) for name in self._fields(type(value)))

    def _field_holds(self, value: object, name: str, depth: int) -> bool:
        inner = getattr(value, name, None)
        is_of_many = isinstance(inner, tuple) and len(inner) > _MANY_FIELDS
        if (isinstance(inner, (list, dict)) and not self.walk.value) or is_of_many:
            return False
        return self.holds(inner, depth - 1)

    def _fields(self, kind: type) -> tuple[str, ...]:
        if kind not in self._names:
            is_ours = kind.__module__.startswith("probe_flow.") and kind.__name__ not in WHOLE
            found: tuple[str, ...] = ()
            if is_ours and dataclasses.is_dataclass(kind):
                found = tuple(each.name for each in dataclasses.fields(kind))
            elif is_ours:
                named = (getattr(kind, each, ()) for each in ("__struct_fields__", "_fields", "model_fields"))
                found = tuple(next(filter(None, named), ()))
            self._names[kind] = found
        return self._names[kind]

    def _is_tensor(self, value: Any) -> bool:
        if type(value).__name__ != "TensorRef" or not self.walk.tensor:
            return False
        if f"{value.node.name}.{value.slot.role.value}.{value.slot.path[0]}" != self.walk.tensor:
            return False
        self.places.update(extent.file for extent in value.extents)
        return True


def _arguments(code: CodeType) -> tuple[str, ...]:
    flags = bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + flags]


# -- following


def room(file: str) -> str:
    """Return the top folder of a file, or the module at the top."""
    return file.partition("/")[0].removesuffix(".py")


@functools.cache
def traced(walk: Walk) -> Trace:
    """Return what a walk passes. The command runs twice: only then is known which files of the dump are its own."""
    places: set[str] = set()
    for _ in range(2 if walk.tensor else 1):
        trace = Trace(walk, places=places)
        _run(walk, trace)
        places = trace.places
    return trace


def _run(walk: Walk, trace: Trace) -> None:
    from probe_flow.cli.main import main

    cache = os.environ.get("PROBE_FLOW_CACHE")
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        command = walk.command(Path(folder))
        os.environ["PROBE_FLOW_CACHE"] = f"{folder}/cache"  # nothing is measured of what the cache has
        sys.setprofile(trace)
        try:
            ended = main(command)
        finally:
            sys.setprofile(None)
            os.environ.pop("PROBE_FLOW_CACHE")
            if cache is not None:
                os.environ["PROBE_FLOW_CACHE"] = cache
    assert ended in walk.ends, f"the command ended with {ended}"


# -- the walks


def _run_of(workflow: str, table: str) -> Callable[[Path], list[str]]:
    """Return the command that runs a packaged workflow on its sample and writes one table."""

    def command(folder: Path) -> list[str]:
        text = (ROOT / "workflows" / f"{workflow}.yaml").read_text(encoding="utf-8")
        text, formats = re.subn(r"formats: \[\{csv.*\]", f"formats: [{{csv: {table}}}]", text)
        assert formats == 1, "the workflow lists its formats otherwise"
        path = folder / "w.yaml"
        path.write_text(text.replace("../examples", str(ROOT / "examples")), encoding="utf-8")
        return ["run", str(path), "--scheduler", "sync", "--output", str(folder / "run")]

    return command


def _plan_with_values(_folder: Path) -> list[str]:
    workflow = ROOT / "workflows" / "torchair_ge_vs_fx.yaml"
    return ["plan", str(workflow), "--set", f"target={_VALUE}", "--set", f"golden={ROOT / 'tests'}"]


_VALUE = str(ROOT / "docs")
"""Any folder that is there."""

WALKS = (
    Walk(
        "A pair of a GE and an FX tensor, from the files of the dumps to its line of the CSV file",
        40,
        "reports",
        _run_of("torchair_ge_vs_fx", "torchair"),
        tensor="Transpose.output.0",
    ),
    Walk(
        "A tensor of a `dump.json`, from its entry to its line of the CSV file",
        35,
        "reports",
        _run_of("pytorch_compare", "dump_json"),
        tensor="Functional.embedding.output.0",
    ),
    Walk(
        "A value of `--set`, from the command line to the plan of the run",
        12,
        "engine",
        _plan_with_values,
        value=_VALUE,
    ),
)


def files_of(trace: Trace) -> list[str]:
    """Return the files of a walk in the order in which they were met, up to the room in which it ends."""
    files = list(trace.met)
    ends = max(at for at, file in enumerate(files) if room(file) == trace.walk.last)
    return files[: ends + 1]


def returned_to(trace: Trace) -> list[str]:
    """Return the steps that were left and come again."""
    return sorted({step for step in trace.steps if trace.steps.count(step) > 1})


# -- the page


def picture() -> str:
    """Return the floors as text, the top one first: rooms with the number of their modules."""
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition('name = "floors')[2]
    floors = re.findall(r'"([^"]+)"', contract.partition("layers = [")[2].partition("]")[0])
    rows = [[_labelled(name) for name in floor.split(" | ")] for floor in floors]
    width = max(sum(len(label) + 3 for label in row) for row in rows)
    lines = []
    for row in rows:
        sizes = [(width * (at + 1)) // len(row) - (width * at) // len(row) - 1 for at in range(len(row))]
        lines.append("+" + "+".join("-" * size for size in sizes) + "+")
        lines.append("|" + "|".join(label.center(size) for label, size in zip(row, sizes, strict=True)) + "|")
    return "\n".join([*lines, lines[-2]])


def _labelled(name: str) -> str:
    modules = [path for path in (PACKAGE / name).rglob("*.py") if path.name != "__init__.py"]
    return f"{name} {len(modules) or 1}"


def section() -> str:
    """Return the generated part of the page."""
    lines = [BEGIN, "", "```", picture(), "```", "", "Rooms, with the number of their modules.", ""]
    for walk in WALKS:
        files = files_of(traced(walk))
        lines += [f"**{walk.title}** ({len(files)} files, at most {walk.limit}):", ""]
        lines += [f"{number}. {line}" for number, line in enumerate(_by_room(files), start=1)]
        lines.append("")
    return "\n".join([*lines, END])


def _by_room(files: list[str]) -> Iterator[str]:
    for name, group in groupby(files, room):
        inside = (file.removeprefix(f"{name}/").removesuffix(".py") for file in group)
        yield f"`{name}`: {', '.join(inside)}"


def main(arguments: list[str]) -> None:
    """Print the section, or write it into the page."""
    text = section()
    if "--write" not in arguments:
        sys.stdout.write(f"{text}\n")
        return
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{text}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
