"""Make one script of the modules in the room `apis`: their text, one behind the other, with settings frozen as data.

Nothing that comes from a dump is ever source text: it stands in the script as one piece of JSON.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from probe_flow.files.opening import read_text
from probe_flow.version import __version__

ROOM = Path(__file__).parents[1] / "apis"
_PACKAGE = "probe_flow.apis"

_HEAD = '''\
#!/usr/bin/env python3
"""Run one API again, alone, and compare it with higher precision.

Made by probe_flow {version}. Needs numpy and {needs}, and nothing of probe_flow. `--help` lists the options.
"""

from __future__ import annotations

import importlib.util
import json
import sys

if importlib.util.find_spec("numpy") is None:
    print("this Python has no module `numpy`: run the script with one that has it", file=sys.stderr)
    sys.exit(3)

FROZEN = json.loads(
    r\'\'\'
{settings}
\'\'\'
)
"""What was recorded of the call, and how it is run again."""
'''

_FOOT = """

if __name__ == "__main__":
    sys.exit(main(FROZEN))
"""


def script_text(main: str, settings: Mapping[str, Any], *, needs: str) -> str:
    """Return the text of a script.

    Args:
        main: module of the room, with its wing, whose ``main(settings)`` is the script.
        settings: what is frozen in it; anything that JSON holds.
        needs: packages that it imports beside numpy, for people.
    """
    data = json.dumps(settings, indent=2).replace("'", "\\u0027")  # so that it ends where it is to
    head = _HEAD.format(version=__version__, needs=needs, settings=data)
    return head + "".join(_texts(main)) + _FOOT


def _texts(main: str) -> Iterator[str]:
    owners: dict[str, str] = {}
    for name in _in_order(main):
        text = _source(name)
        tree = ast.parse(text)
        for defined in _names(tree):
            if owners.setdefault(defined, name) != name:
                raise RuntimeError(
                    f"`{defined}` is a name in {owners[defined]} and in {name}: a script has one of each"
                )
        summary = (ast.get_docstring(tree) or "").partition("\n")[0]
        yield f"\n\n# ---- {name}: {summary}\n{_body(text, tree)}"


def _in_order(main: str) -> list[str]:
    """Return the modules that a module needs, itself last, those that others need first."""
    found: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in found:
            for needed in sorted(_needed(ast.parse(_source(name)))):
                visit(needed)
            found[name] = None

    visit(main)
    return list(found)


def _source(name: str) -> str:
    return read_text(ROOM.joinpath(*name.split(".")).with_suffix(".py"))


def _own_imports(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{_PACKAGE}."):
            yield node


def _needed(tree: ast.AST) -> set[str]:
    return {(node.module or "").removeprefix(f"{_PACKAGE}.") for node in _own_imports(tree)}


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module defines."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def _body(text: str, tree: ast.Module) -> str:
    """Return the text of a module without docstring, imports of the room and of the future."""
    left_out = [*_own_imports(tree)]
    left_out += [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    spans = [(node.lineno, node.end_lineno or node.lineno) for node in left_out]
    if ast.get_docstring(tree) is not None:
        spans.append((1, tree.body[0].end_lineno or 1))
    lines = text.splitlines()
    for first, last in spans:
        lines[first - 1 : last] = [""] * (last - first + 1)
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines).strip()) + "\n"
