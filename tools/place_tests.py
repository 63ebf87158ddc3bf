"""Put unit tests beside what they test: ``python tools/place_tests.py``, after modules were moved and merged.

A test module that mirrors a module stays with it. Any other goes to the package that it imports most from. Modules of
test support go to ``tests/support``.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from move_modules import PACKAGE, ROOT, Plan, file_of, move_file, rewrite_all

UNIT = ROOT / "tests" / "unit"
SUPPORT = ROOT / "tests" / "support"
STAY = {"generate", "examples", "benchmarks"}
"""Tests of what is no part of the package."""


def imported(path: Path) -> Counter[str]:
    """Return how many names a test imports from each package."""
    found: Counter[str] = Counter()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGE + "."):
            module = node.module
            for alias in node.names:
                owner = module if file_of(module).exists() else f"{module}.{alias.name}"
                package = owner.rpartition(".")[0] if file_of(owner).exists() else module
                found[package] += 1
    return found


def home_of(path: Path) -> Path:
    """Return the folder where a test module belongs."""
    here = path.parent.relative_to(UNIT)
    mirrored = ROOT / PACKAGE / here / path.name.removeprefix("test_")
    found = imported(path)
    if mirrored.exists() or not found or (here.parts[:1] and here.parts[0] in STAY):
        return path.parent
    own = {
        package: count
        for package, count in found.items()
        if package.split(".")[1] not in {"records", "errors", "stages"}
    }
    best = max((own or found).items(), key=lambda item: (item[1], item[0]))[0]
    return UNIT / Path(*best.split(".")[1:])


def main() -> None:
    moved = {}
    for path in sorted(UNIT.rglob("*.py")):
        if path.name in {"conftest.py", "__init__.py"}:
            continue
        home = home_of(path) if path.name.startswith("test_") else SUPPORT
        if home != path.parent and not (home / path.name).exists():
            move_file(path, home / path.name)
            moved[str(path.relative_to(ROOT / "tests"))] = str((home / path.name).relative_to(ROOT / "tests"))
    for path in sorted((ROOT / "tests").glob("*.py")):
        if path.name != "conftest.py":
            move_file(path, SUPPORT / path.name)
            moved[path.name] = f"support/{path.name}"
    rewrite_all(Plan({}, {}, {}), moved)
    print(f"{len(moved)} test modules moved")


if __name__ == "__main__":
    main()
