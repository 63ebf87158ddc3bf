"""How the package is built: its modules, what imports what, and where that breaks the rules of the house.

``python -m tests.repo.house`` prints figures; with ``--write`` it rewrites the exceptions from the
present state, and keeps their reasons.

An import is counted where it stands: in a module, in a function, under ``if TYPE_CHECKING``. Text that names a module
(a registry, ``-m``, ``-c``, the table of a lazy package) is an import in disguise: it makes hidden circles.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

PACKAGE = "probe_flow"
ROOT = Path(__file__).resolve().parents[2]
EXCEPTIONS = Path(__file__).with_name("house_exceptions.yaml")
WRITE = "python -m tests.repo.house --write"

FOLDER_FILES = 20
FRAGMENT_LINES = 60
MODULE_LINES = 400
INTERFACE_NAMES = 15
EXCUSED_FRAGMENTS = 15

HEADER = f"""\
# Where the package breaks the rules that test_house.py checks. The lists only shrink: no line is added by hand but for
# a reason. After a move or a merge: {WRITE}
# folders, long_modules and interfaces: how many files, lines and names. fragments: why a short module with one importer
# stays (at most {EXCUSED_FRAGMENTS}). to_merge: such modules, and the importer each is to become part of.
"""

_NAMED = re.compile(rf"^({PACKAGE}(?:\.\w+)+)(?::\w+)?$|\b(?:from|import) ({PACKAGE}(?:\.\w+)+)")
_ENTRY_POINT = re.compile(rf'"({PACKAGE}(?:\.\w+)*):')


class Import(NamedTuple):
    """One module needs another: by which name (empty: the module itself), and how it says so."""

    importer: str
    imported: str
    name: str
    how: str
    """``module``, ``function``, ``typing`` or ``text``."""


class Finding(NamedTuple):
    """One break of a rule: how bad it is, and what to do."""

    figure: int
    cure: str


@dataclass(frozen=True)
class House:
    """The import graph of the package; a sub-package goes by its own name, and stands for its ``__init__``."""

    lines: Mapping[str, int]
    packages: frozenset[str]
    imports: frozenset[Import]
    entry_points: frozenset[str]

    @cached_property
    def importers(self) -> Mapping[str, set[str]]:
        """Which modules import each; text does not count."""
        found = defaultdict(set)
        for each in self.imports:
            if each.how != "text":
                found[each.imported].add(each.importer)
        return found

    @cached_property
    def rooms_with_wings(self) -> set[str]:
        """Rooms that have folders inside."""
        return {package.rpartition(".")[0] for package in self.packages if package.count(".") == 2}

    def room(self, module: str) -> str:
        """Return the top folder of a module, or the module that lies beside those."""
        return ".".join(module.split(".")[:2])

    def wing(self, module: str) -> str:
        """Return the folder in a room; a room without any; in a room with wings, a module outside them."""
        inner = ".".join(module.split(".")[:3])
        return (
            inner
            if inner in self.packages
            else module
            if self.room(module) in self.rooms_with_wings
            else self.room(module)
        )


# -- reading


def read(root: Path) -> House:
    """Build the graph of a repository from its source."""
    paths = {dotted(path.relative_to(root)): path for path in sorted((root / PACKAGE).rglob("*.py"))}
    packages = frozenset(module for module, path in paths.items() if path.name == "__init__.py")
    lines, imports = {}, set[Import]()
    for module, path in paths.items():
        text = path.read_text(encoding="utf-8")
        lines[module] = len(text.splitlines())
        imports.update(imports_of(module, ast.parse(text, str(path)), paths.keys(), packages))
    project = root / "pyproject.toml"
    entry_points = _ENTRY_POINT.findall(project.read_text(encoding="utf-8")) if project.exists() else []
    return House(lines, packages, frozenset(imports), frozenset(entry_points))


def dotted(path: Path) -> str:
    """Return the name of the module in a file."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imports_of(module: str, tree: ast.Module, modules: Iterable[str], packages: frozenset[str]) -> Iterator[Import]:
    """Yield what a module needs of the package."""
    left: list[tuple[ast.AST, str]] = [(tree, "module")]
    while left:
        node, how = left.pop()
        for named, name in names_in(node, module, is_package=module in packages):
            told = "text" if isinstance(node, ast.Constant) else how
            inner = f"{named}.{name}"
            if name and inner in modules:
                yield Import(module, inner, "", told)
            elif named in modules and named != module:
                yield Import(module, named, name, told)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            left += [(child, "typing") for child in node.body] + [(child, how) for child in node.orelse]
        elif not is_docstring(node):
            inside = "function" if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) else how
            left += [(child, inside) for child in ast.iter_child_nodes(node)]


def names_in(node: ast.AST, module: str, *, is_package: bool) -> Iterator[tuple[str, str]]:
    """Yield module and name that a node imports, or that its text names."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = module.split(".")[: (1 if is_package else 0) - node.level or None] if node.level else []
        yield from ((".".join([*above, *filter(None, [node.module])]), alias.name) for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from ((alone or in_code, "") for alone, in_code in _NAMED.findall(node.value))
        if is_package and node.value.isidentifier():  # lazy tables name modules as they are called beside them
            yield f"{module}.{node.value}", ""


def is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


# -- checks: what breaks a rule -> how far, and what to do


def full_folders(house: House) -> dict[str, Finding]:
    """Folders of more than 20 files."""
    counts = Counter(module.rpartition(".")[0] for module in house.lines.keys() - house.packages)
    cure = "divide it: a folder is a chapter of 5 to 15 files, a prefix that three files share is a folder"
    return {name: Finding(count, f"{count} files; {cure}") for name, count in counts.items() if count > FOLDER_FILES}


def fragments(house: House) -> dict[str, Finding]:
    """Short modules that one module imports, and that no text and no entry point names."""
    named = {each.imported for each in house.imports if each.how == "text"} | house.entry_points
    found = {}
    for module in house.lines.keys() - house.packages - named:
        if house.lines[module] < FRAGMENT_LINES and len(house.importers[module]) == 1:
            found[module] = Finding(1, f"short, and needed by one module: make it part of {importer_of(house, module)}")
    return found


def importer_of(house: House, module: str) -> str:
    return next(iter(house.importers[module]))


def long_modules(house: House) -> dict[str, Finding]:
    """Modules above 400 lines."""
    cure = "make it two modules, an idea each"
    return {
        module: Finding(lines, f"{lines} lines; {cure}")
        for module, lines in house.lines.items()
        if lines > MODULE_LINES
    }


def wide_interfaces(house: House) -> dict[str, Finding]:
    """Wings of which other wings import more than 15 names.

    What is there to test others has to know what it tests, and the package's own table of names what is public.
    """
    names = defaultdict(set)
    for each in house.imports:
        if house.room(each.importer) in (f"{PACKAGE}.testing", PACKAGE):
            continue
        if each.how != "text" and house.wing(each.importer) != house.wing(each.imported):
            names[house.wing(each.imported)].add((each.imported, each.name))
    cure = "let one module of the wing do more for the others, or move what they need into a wing of its own"
    return {
        wing: Finding(len(used), f"other wings import {len(used)} names; {cure}")
        for wing, used in names.items()
        if len(used) > INTERFACE_NAMES
    }


def circles(house: House) -> dict[str, dict[str, Finding]]:
    """Circles of modules, of the wings of one room and of rooms.

    Typed ones need an import for types, hidden ones text that names a module. A circle counts once, as the first of
    these that it is.
    """
    found: dict[str, dict[str, Finding]] = {}
    for kind, unit in ("modules", str), ("wings", house.wing), ("rooms", house.room):
        arrows: dict[str, set[str]] = defaultdict(set)
        known: list[list[str]] = []
        for prefix, ways in ("", ("module", "function")), ("typed_", ("typing",)), ("hidden_", ("text",)):
            for each in house.imports:
                start, end = unit(each.importer), unit(each.imported)
                inside = kind != "wings" or house.room(each.importer) == house.room(each.imported)
                if each.how in ways and start != end and inside:
                    arrows[start].add(end)
            new = [circle for circle in cycles(arrows) if circle not in known]
            found[prefix + kind] = {joined(circle): around(circle, arrows) for circle in new}
            known += new
    return found


def cycles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the largest groups in which each reaches each, sorted."""
    reached = {start: reachable(start, arrows) for start in sorted(arrows)}
    groups = {
        tuple(sorted(end for end in ends if start in reached.get(end, ())))
        for start, ends in reached.items()
        if start in ends
    }
    return [list(group) for group in sorted(groups)]


def reachable(start: str, arrows: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    left = [start]
    while left:
        new = arrows.get(left.pop(), set()) - seen
        seen |= new
        left += new
    return seen


def joined(circle: list[str]) -> str:
    return " <> ".join(circle)


def around(circle: list[str], arrows: Mapping[str, set[str]]) -> Finding:
    inside = [f"{start} -> {end}" for start in circle for end in sorted(arrows[start] & {*circle})]
    more = f" and {len(inside) - 20} more" if len(inside) > 20 else ""
    cure = "move what they share below them, or hand it over as an argument"
    return Finding(1, f"a circle; {cure}: {', '.join(inside[:20])}{more}")


def homeless_tests(root: Path) -> dict[str, Finding]:
    """Folders of unit tests that mirror no folder of the package."""
    unit = root / "tests" / "unit"
    folders = {path.parent.relative_to(unit).as_posix() for path in unit.rglob("test_*.py")}
    cure = f"no such folder in {PACKAGE}: move its tests to the folder of what they test"
    return {folder: Finding(1, cure) for folder in folders if not (root / PACKAGE / folder / "__init__.py").exists()}


# -- exceptions


def complaints(found: Mapping[str, Finding], listed: Mapping[str, int] | Iterable[str]) -> str:
    """Return a line for each break that is not listed, and for each listed one that is none any more."""
    allowed = dict(listed) if isinstance(listed, Mapping) else dict.fromkeys(listed, 1)
    lines = []
    for name in sorted(found.keys() | allowed.keys()):
        finding, most = found.get(name), allowed.get(name)
        if finding is None:
            lines.append(f"{name}: not so any more; take it out of {EXCEPTIONS.name}")
        elif most is None:
            lines.append(f"{name}: {finding.cure}")
        elif finding.figure > most:
            lines.append(f"{name}: grew from {most}: {finding.cure}")
        elif finding.figure < most:
            lines.append(f"{name}: lower its figure in {EXCEPTIONS.name} from {most} to {finding.figure}")
    return "\n".join([*lines, f"(after a move or a merge: {WRITE})"] if lines else [])


def exceptions() -> dict[str, Any]:
    """Read what is excused."""
    read: dict[str, Any] = yaml.safe_load(EXCEPTIONS.read_text(encoding="utf-8"))
    return read


def present(root: Path, house: House, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exceptions that the present state needs, with the reasons of those before."""
    short = fragments(house)
    excused = {module: reason for module, reason in before["fragments"].items() if module in short}
    return {
        "folders": figures(full_folders(house)),
        "fragments": dict(sorted(excused.items())),
        "to_merge": {module: importer_of(house, module) for module in sorted(short.keys() - excused.keys())},
        "long_modules": figures(long_modules(house)),
        "interfaces": figures(wide_interfaces(house)),
        "circles": {kind: [name.split(" <> ") for name in sorted(found)] for kind, found in circles(house).items()},
        "tests_elsewhere": {
            folder: before["tests_elsewhere"].get(folder, "") for folder in sorted(homeless_tests(root))
        },
        "contracts_not_exhaustive": before["contracts_not_exhaustive"],
    }


def figures(found: Mapping[str, Finding]) -> dict[str, int]:
    return {name: found[name].figure for name in sorted(found)}


def table(house: House) -> str:
    """Return figures of the house as a Markdown table, and its folders by size."""
    modules = house.lines.keys() - house.packages
    folders = Counter(module.rpartition(".")[0] for module in modules)
    one_importer = sum(len(house.importers[module]) == 1 for module in modules)
    ways = Counter(
        each.how for each in {(each.importer, each.imported, each.how): each for each in house.imports}.values()
    )
    rows = {
        "modules": len(modules),
        "lines": sum(house.lines.values()),
        "folders": len(folders),
        "mean files a folder": round(len(modules) / max(len(folders), 1), 1),
        "largest folder": max(folders.values(), default=0),
        f"folders above {FOLDER_FILES} files": len(full_folders(house)),
        "modules with one importer": one_importer,
        f"of these below {FRAGMENT_LINES} lines, named by no text": len(fragments(house)),
        f"modules above {MODULE_LINES} lines": len(long_modules(house)),
        f"wings with more than {INTERFACE_NAMES} names": len(wide_interfaces(house)),
        "imports (in modules, in functions, for types, as text)": " ".join(
            str(ways[how]) for how in ("module", "function", "typing", "text")
        ),
        **{f"circles: {kind.replace('_', ' ')}": len(found) for kind, found in circles(house).items()},
    }
    lines = ["| figure | |", "|---|---|", *(f"| {name} | {figure} |" for name, figure in rows.items()), ""]
    sizes = sorted(folders.items(), key=lambda item: (-item[1], item[0]))
    return "\n".join([*lines, "| folder | files |", "|---|---|", *(f"| {name} | {size} |" for name, size in sizes), ""])


def main(arguments: list[str]) -> None:
    """Print the figures, or write the exceptions."""
    if arguments == ["--write"]:
        text = yaml.safe_dump(present(ROOT, read(ROOT), exceptions()), sort_keys=False, width=120)
        EXCEPTIONS.write_text(HEADER + text, encoding="utf-8")
    else:
        sys.stdout.write(table(read(ROOT)))


if __name__ == "__main__":
    main(sys.argv[1:])
