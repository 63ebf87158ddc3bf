"""Put modules into the one that uses them: ``python tools/merge_modules.py HOME MODULE [MODULE ...]``, dotted names.

The imports of all are joined; what a module defines goes before what needs it. A name that two
of them define stops the merge: rename one first. Imports of the modules are rewritten, and so are dotted names in
strings and documents. Formatting is left to ruff.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from move_modules import PACKAGE, ROOT, Plan, file_of, git, rewrite_all


@dataclass
class Parts:
    """A module in pieces of text: imports, imports for types only, the rest; and what the rest defines."""

    imports: list[str]
    typing: list[str]
    body: str
    defined: set[str]
    needs: set[str]


def read_parts(module: str, merged: set[str]) -> Parts:
    """Take a module apart; imports of ``merged`` modules are left out."""
    text = file_of(module).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    tree = ast.parse(text)

    def source(node: ast.stmt) -> str:
        return "".join(lines[node.lineno - 1 : node.end_lineno])

    def kept(node: ast.stmt) -> bool:
        return not (isinstance(node, ast.ImportFrom) and node.module in merged)

    imports, typing, end = [], [], 0
    needs = {node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module in merged}
    for node in tree.body:
        is_doc = node is tree.body[0] and isinstance(node, ast.Expr)
        is_typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports += [source(node)] if kept(node) else []
        elif is_typing:
            assert isinstance(node, ast.If)
            typing += [source(each) for each in node.body if kept(each)]
        elif not is_doc:
            break
        end = node.end_lineno or 0
    defined = {
        name
        for node in tree.body
        for name in (
            [node.name]
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
            else [
                target.id
                for target in ast.walk(node)
                if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store)
            ]
            if isinstance(node, ast.Assign | ast.AnnAssign)
            else []
        )
    }
    return Parts(imports, typing, "".join(lines[end:]).strip("\n"), defined - {"__all__"}, needs)


def merge(home: str, modules: list[str]) -> None:
    merged = {home, *modules}
    parts = {module: read_parts(module, merged) for module in [*modules, home]}
    seen: dict[str, str] = {}
    for module, part in parts.items():
        for name in part.defined:
            if name in seen:
                sys.exit(f"`{name}` is defined by {seen[name]} and by {module}: rename one of them first")
            seen[name] = module
    order = list(TopologicalSorter({module: sorted(part.needs) for module, part in parts.items()}).static_order())
    doc = file_of(home).read_text(encoding="utf-8").split('"""')[1]
    imports = list(dict.fromkeys(line for part in parts.values() for line in part.imports))
    future = [line for line in imports if "__future__" in line]
    typing = list(dict.fromkeys(line for part in parts.values() for line in part.typing))
    text = f'"""{doc}"""\n\n' + "".join(future) + "\n" + "".join(line for line in imports if line not in future)
    if typing:
        text += "\nif TYPE_CHECKING:\n" + "".join(typing)
    for module in order:
        text += f"\n\n{parts[module].body}\n"
    ast.parse(text)
    file_of(home).write_text(text, encoding="utf-8")
    for module in modules:
        git("rm", "-q", "-f", file_of(module).relative_to(ROOT))
    rewrite_all(Plan(dict.fromkeys(modules, home), {}, {}), {})


if __name__ == "__main__":
    names = [name if name.startswith(PACKAGE) else f"{PACKAGE}.{name}" for name in sys.argv[1:]]
    merge(names[0], names[1:])
    subprocess.run([sys.executable, "-m", "ruff", "check", "--quiet", "--fix", str(file_of(names[0]))], check=False)
