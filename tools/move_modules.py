"""Move modules to other packages and rewrite what names them: ``python tools/move_modules.py ROOM [ROOM ...]``.

``tools/rooms.txt`` says where each module goes. Rewritten are, in the package, its tests, benchmarks and documents:

- dotted names, in imports and in strings (registries, ``-m``, entry points): the longest known module counts, so that
  names of packages (entry-point groups) stay;
- ``from package import module``, which becomes an import of its own, under the old name where the new one differs;
- names in backticks that lack the package (```room.module.NAME```);
- paths of files (``probe_flow/room/module.py``, ``room/module.py``).

A test module that is named after a module moves with it. Formatting and import order are left to ruff.
"""

from __future__ import annotations

import ast
import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "probe_flow"
DONE = "\0"
"""Stands for the package's name in what must not be rewritten twice: a new package may be called as an old module."""
TEXTS = (".py", ".toml", ".md", ".yaml", ".yml", ".json", ".txt", ".cfg")
FOLDERS = ("probe_flow", "tests", "benchmarks", "docs")
FILES = ("pyproject.toml", "Makefile", "README.md", "CONTRIBUTING.md")
_DOTTED = re.compile(rf"\b{PACKAGE}(?:\.[A-Za-z_]\w*)+")
_QUOTED = re.compile(r"`([a-z_]\w*\.[A-Za-z_][\w.]*)`")
_FILE = re.compile(r"\b((?:\w+/)+\w+)\.py\b")
_FROM = re.compile(
    rf"^([ \t]*)from ({PACKAGE}(?:\.\w+)+) import (?:\(([^)]*)\)|([^\n(#]*))[ \t]*(#[^\n]*)?$", re.MULTILINE
)


@dataclass(frozen=True)
class Plan:
    """Where modules go.

    Args:
        moves: dotted name of a module -> new dotted name.
        names: dotted name of what a module defines -> new dotted name; its text was moved by hand.
        docs: new package -> docstring.
    """

    moves: Mapping[str, str]
    names: Mapping[str, str]
    docs: Mapping[str, str]

    @functools.cached_property
    def renamed(self) -> Mapping[str, str]:
        """All that is called otherwise."""
        return {**self.moves, **self.names}


def read_plan(path: Path, rooms: Iterable[str]) -> Plan:
    """Read the lines of the rooms that are named; all of them without a name."""
    wanted, moves, names, docs = set(rooms), {}, {}, {}
    for line in path.read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0].strip()
        if not line:
            continue
        if " = " in line:
            package, _, doc = line.partition(" = ")
            docs[f"{PACKAGE}.{package}"] = doc
            continue
        package, _, modules = line.partition(":")
        if wanted and package.partition(".")[0] not in wanted:
            continue
        if modules.startswith(":"):  # names
            for entry in modules[1:].split():
                names[f"{PACKAGE}.{entry}"] = f"{PACKAGE}.{package}.{entry.rpartition('.')[2]}"
            continue
        for entry in modules.split():
            old, _, name = entry.partition(">")
            moves[f"{PACKAGE}.{old}"] = f"{PACKAGE}.{package}.{name or old.rpartition('.')[2]}"
    return Plan({old: new for old, new in moves.items() if old != new and file_of(old).exists()}, names, docs)


def file_of(module: str) -> Path:
    return ROOT / Path(*module.split(".")).with_suffix(".py")


def git(*words: object) -> None:
    subprocess.run(["git", "-C", str(ROOT), *map(str, words)], check=True, stdout=subprocess.DEVNULL)


def move_file(old: Path, new: Path) -> None:
    new.parent.mkdir(parents=True, exist_ok=True)
    git("mv", old.relative_to(ROOT), new.relative_to(ROOT))


def make_packages(plan: Plan) -> None:
    """Make the packages that modules move to, each with a docstring alone, so that imports stay lazy."""
    for new in sorted(set(plan.moves.values())):
        package = new.rpartition(".")[0]
        while package != PACKAGE:
            init = ROOT / Path(*package.split(".")) / "__init__.py"
            if not init.exists():
                init.parent.mkdir(parents=True, exist_ok=True)
                init.write_text(f'"""{plan.docs[package]}"""\n', encoding="utf-8")
                git("add", init.relative_to(ROOT))
            package = package.rpartition(".")[0]


def move_modules(plan: Plan) -> None:
    # A module whose name becomes a package (`kernel.py`, `kernel/`) goes first to where it cannot be in the way.
    for old, new in plan.moves.items():
        move_file(file_of(old), file_of(new).with_suffix(".py.moved"))
    make_packages(plan)
    for new in plan.moves.values():
        move_file(file_of(new).with_suffix(".py.moved"), file_of(new))


def move_tests(plan: Plan) -> dict[str, str]:
    """Move the unit tests named after a module; return path below ``tests`` -> new path."""
    moved = {}
    for old, new in plan.moves.items():
        before = ROOT / "tests" / "unit" / Path(*old.split(".")[1:-1]) / f"test_{old.rpartition('.')[2]}.py"
        after = ROOT / "tests" / "unit" / Path(*new.split(".")[1:-1]) / f"test_{new.rpartition('.')[2]}.py"
        if before.exists() and before != after:
            move_file(before, after)
            moved[str(before.relative_to(ROOT / "tests"))] = str(after.relative_to(ROOT / "tests"))
    return moved


def rewrite(text: str, plan: Plan, tests: Mapping[str, str], *, is_python: bool) -> str:
    if is_python:
        text = _FROM.sub(lambda match: split_import(match, plan), text)
    text = _DOTTED.sub(lambda match: renamed(match[0], plan), text).replace(DONE, PACKAGE)

    def quoted(match: re.Match[str]) -> str:
        return f"`{renamed(f'{PACKAGE}.{match[1]}', plan).removeprefix(PACKAGE + '.')}`"

    text = _QUOTED.sub(quoted, text)

    def file(match: re.Match[str]) -> str:
        path = match[0]
        for old, new in tests.items():
            if path.endswith(old):
                return path.removesuffix(old) + new
        prefix = "" if path.startswith(PACKAGE + "/") else PACKAGE + "/"
        module = (prefix + match[1]).replace("/", ".")
        return (plan.moves[module].replace(".", "/") + ".py").removeprefix(prefix) if module in plan.moves else path

    return _FILE.sub(file, text)


def renamed(name: str, plan: Plan) -> str:
    """Return a dotted name with its longest known module replaced."""
    parts = name.split(".")
    for count in range(len(parts), 1, -1):
        new = plan.renamed.get(".".join(parts[:count]))
        if new is not None:
            return ".".join([new, *parts[count:]])
    return name


def split_import(match: re.Match[str], plan: Plan) -> str:
    """``from package import module, Name`` -> one line for each module that moves, and the rest as it was."""
    indent, package, several, single, comment = match.groups()
    names = [name.strip() for name in (several if several is not None else single).split(",") if name.strip()]
    lines, rest = [], []
    for name in names:
        module, _, alias = name.partition(" as ")
        new = plan.renamed.get(f"{package}.{module.strip()}")
        if new is None:
            rest.append(name)
            continue
        home, _, stem = new.replace(PACKAGE, DONE).rpartition(".")
        bound = (alias or module).strip()
        lines.append(f"{indent}from {home} import {stem}" + (f" as {bound}" if bound != stem else ""))
    if not lines:
        return match[0]
    if rest:
        lines.append(f"{indent}from {package} import {', '.join(rest)}")
    return "\n".join(lines) + (f"  {comment}" if comment else "")


def text_files() -> Iterable[Path]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", *FOLDERS, *FILES], check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        path = ROOT / name
        is_text = path.suffix in TEXTS or path.name == "Makefile"
        if is_text and path.is_file() and not name.startswith("tests/data/"):
            yield path


def rewrite_all(plan: Plan, tests: Mapping[str, str]) -> None:
    """Rewrite every text of the repository that names what moved."""
    for path in text_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # bad input of a test
            continue
        new = rewrite(text, plan, tests, is_python=path.suffix == ".py")
        if path.suffix == ".py":
            ast.parse(new, str(path))
        if new != text:
            path.write_text(new, encoding="utf-8")


def main(rooms: list[str]) -> None:
    """Move, rewrite, and check that what is left parses."""
    plan = read_plan(ROOT / "tools" / "rooms.txt", rooms)
    move_modules(plan)
    tests = move_tests(plan)
    rewrite_all(plan, tests)
    print(f"{len(plan.moves)} modules and {len(tests)} tests moved")


if __name__ == "__main__":
    main(sys.argv[1:])
