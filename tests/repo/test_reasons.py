"""Rules of pairs and kinds of reasons: each declared once, and never compared as text elsewhere."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from probe_flow.records import ReasonKind, Rule
from probe_flow.reports.tables.offline.reasons import ROW_CODES
from probe_flow.reports.tables.offline.wording import WITHOUT_RULES, WORDS
from tests.support.rules import declared, declared_kinds, declared_rules

PACKAGE = Path(__file__).parents[2] / "probe_flow"
SUBJECTS = {"rule", "rules", "reason", "reasons", "code", "codes", "kind", "rule_ids"}
"""What an expression that gives a rule or a reason is called."""

TEXT_METHODS = {"startswith", "endswith", "removeprefix", "removesuffix", "find", "index", "count", "partition"}


def test_no_rule_or_reason_is_compared_as_text() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    found = {str(path.relative_to(PACKAGE)): list(comparisons(tree)) for path, tree in trees.items()}
    assert len(found) > 500
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "line",
    [
        'pair.rule.name == "self"',
        '"guessed" != row.pair.reason.code',
        'reason.code in {"filtered", "outside_mapping"}',
        'reason is not None and code(row) == "inner_node"',
        'row.get("rule") == "self"',
        'row["rule"] in ("self", "exact")',
        'reason.code.startswith("no_rule")',
        'match pair.rule.name:\n    case "self" | "exact":\n        pass',
        'def f(text):\n    return ReasonKind("guessed").expected(text)',
        'def f(a, b):\n    return Pair(a, b, "1", Rule("exact"))',
    ],
)
def test_the_check_sees(line: str) -> None:
    assert len(list(comparisons(ast.parse(line)))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "pair.rule == CommonRule.EXACT",
        "row.get('rule') == SELF.name",
        'rule == "newest"',
        'diagnostic.code == "PF3001"',
        'word == "self"',
        'leaf.kind.startswith("int")',
        'class SomeReason:\n    GUESSED = ReasonKind("guessed")',
        '_REPEAT = Rule("repeat")',
    ],
)
def test_the_check_passes(line: str) -> None:
    assert list(comparisons(ast.parse(line))) == []


@pytest.mark.parametrize("wanted", [Rule, ReasonKind])
def test_each_is_declared_once(wanted: type) -> None:
    found = list(declared(wanted))
    names = Counter(each.name if isinstance(each, Rule) else each.code for _, each in found)
    assert len(names) >= 20
    assert [place for place, each in found if names[getattr(each, "name", None) or each.code] > 1] == []


def test_the_published_table_words_declared_reasons_alone() -> None:
    assert {*WORDS, *WITHOUT_RULES, *ROW_CODES} <= declared_kinds().keys()


def comparisons(tree: ast.AST) -> Iterator[str]:
    """Yield where a published word of a rule or reason is compared, or a rule or kind made outside a declaration."""
    words = declared_rules().keys() | declared_kinds().keys()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            if any(map(_is_subject, sides)) and any(word in words for side in sides for word in _literals(side)):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in TEXT_METHODS and _is_subject(node.func.value):
                given = [word.strip("_") for each in node.args for word in _literals(each)]
                if any(f"_{word}_" in f"_{known}_" for word in given for known in words):
                    yield ast.unparse(node)
        elif isinstance(node, ast.Match) and _is_subject(node.subject):
            values = [each.value for each in ast.walk(node) if isinstance(each, ast.MatchValue)]
            if any(word in words for each in values for word in _literals(each)):
                yield ast.unparse(node.subject)
        elif isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from (ast.unparse(call) for call in ast.walk(node) if _is_made(call))


def _is_made(node: ast.AST) -> bool:
    """Return whether a rule or kind is made of a text."""
    is_class = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"Rule", "ReasonKind"}
    return is_class and any(map(_literals, node.args))


def _is_subject(node: ast.expr) -> bool:
    """Return whether an expression names a rule or a reason, as variable, attribute, key or function."""
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id.strip("_") in SUBJECTS:
            return True
        if isinstance(each, ast.Attribute) and each.attr.strip("_") in SUBJECTS:
            return True
        is_key = isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant)
        if is_key and each.slice.value in SUBJECTS:
            return True
        is_get = isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and each.func.attr == "get"
        if is_get and any(isinstance(arg, ast.Constant) and arg.value in SUBJECTS for arg in each.args):
            return True
    return False


def _literals(node: ast.expr) -> list[str]:
    """Return the texts of a literal, or of a display of literals."""
    members = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [each.value for each in members if isinstance(each, ast.Constant) and isinstance(each.value, str)]
