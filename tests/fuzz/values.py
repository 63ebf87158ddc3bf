"""Damage to values: JSON, JSON lines, YAML and tables, changed as the trees that they are."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import yaml

from fuzz.bytes_and_text import NUMBERS, ODD_NUMBERS, ODD_TEXTS, damaged_bytes, damaged_text

_ODD_VALUES: tuple[Callable[[], Any], ...] = (
    dict, list, lambda: None, lambda: True, lambda: False, lambda: 0, lambda: "", lambda: [[]], lambda: {"": None},
    lambda: [None], lambda: float("nan"), lambda: float("inf"), lambda: 1.5, lambda: -0.0, lambda: 1e308,
    lambda: [0] * 2000, lambda: {str(number): number for number in range(300)}, lambda: [1, "a", None, {}],
)  # fmt: skip
_HOLE = "<<hole>>"


def damaged_json(content: bytes, dice: random.Random) -> bytes:
    """Return JSON of which a value is changed."""
    tree = _json_tree(content)
    if tree is None or dice.random() < 0.15:
        return damaged_text(content, dice)
    if dice.random() < 0.15:  # a text that stands for no value that Python would write
        written = json.dumps(_changed(tree, dice, lambda _: _HOLE))
        raw = dice.choice((*ODD_NUMBERS, "[" * 2000, '{"a":' * 500, '"\\ud800"', "'a'", "{,}", "[1,]", '"a', "\x00"))
        return written.replace(f'"{_HOLE}"', raw, 1).encode("utf-8", "surrogatepass")
    indent = 2 if b"\n" in content[:200] else None
    return json.dumps(_changed(tree, dice, _replacement(tree, dice)), indent=indent).encode()


def damaged_json_lines(content: bytes, dice: random.Random) -> bytes:
    """Return JSON lines of which one is changed, missing or doubled."""
    if dice.random() < 0.3:
        return damaged_text(content, dice)
    lines = content.split(b"\n")
    at = dice.randrange(max(1, len(lines) - 1))
    lines[at] = damaged_json(lines[at], dice).replace(b"\n", b" ")
    return b"\n".join(lines)


MAX_WRITTEN_DEPTH = 150


def damaged_yaml(content: bytes, dice: random.Random) -> bytes:
    """Return YAML of which a value or a mark is changed."""
    roll = dice.random()
    if roll < 0.4:
        at = dice.randrange(len(content) + 1)
        end = min(len(content), at + dice.randrange(13))
        return content[:at] + dice.choice((*_MARKS, content[at:end] * 2)) + content[end:]
    tree = _yaml_tree(content)
    if tree is None or roll < 0.6:
        return damaged_text(content, dice)
    changed = _changed(tree, dice, _replacement(tree, dice))
    try:
        if roll < 0.8 or _is_deep(changed):
            return json.dumps(changed, indent=None if _is_deep(changed) else 1).encode()
        return yaml.dump(changed, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False).encode()
    except (yaml.YAMLError, ValueError, TypeError):  # times and bytes
        return damaged_text(content, dice)


def _is_deep(tree: object) -> bool:
    """Whether values lie so deep in one another that the writer of YAML, which recurses, cannot write them."""
    level = [tree]
    for _ in range(MAX_WRITTEN_DEPTH):
        level = [
            child
            for each in level
            if isinstance(each, (dict, list))
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


_MARKS = (b"", b"${", b"}", b"[", b"]", b"{", b"*a", b"&a ", b"<<: ", b"---\n", b"\t", b"\n", b"  ", b": ", b"!!x ",
          b"'", b'"', b"null", b"1e9", b"\x00", b"\xc3\xa9", b"#", b"- ", b"? ", b"|\n", b"${matrix.", b"${env.HOME}",
          b"~", b"!!int ", b"!!python/object/apply:os.system ", b"${params.a.b}", b"$${",
          b"18446744073709551616: ")  # fmt: skip


def damaged_table(content: bytes, dice: random.Random) -> bytes:
    """Return CSV of which a cell or a row is changed."""
    if dice.random() < 0.3:
        return damaged_text(content, dice)
    try:
        rows = list(csv.reader(io.StringIO(content.decode())))
    except (csv.Error, UnicodeDecodeError):
        return damaged_bytes(content, dice)
    if not any(rows):
        return damaged_bytes(content, dice)
    row = dice.choice([row for row in rows if row])
    at = dice.randrange(len(row))
    kind = dice.randrange(5)
    if kind == 0:
        row[at] = dice.choice((*ODD_TEXTS, *ODD_NUMBERS, *map(str, NUMBERS))).replace("\ud83d", "")
    elif kind == 1:
        row[at] = dice.choice(dice.choice([row for row in rows if row]))
    elif kind == 2:
        del row[at]
    elif kind == 3:
        row.insert(at, "")
    else:
        rows.insert(dice.randrange(len(rows)), dice.choice(rows))
    target = io.StringIO()
    csv.writer(target, lineterminator="\n").writerows(rows)
    return target.getvalue().encode()


@lru_cache(maxsize=64)
def _json_tree(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):  # it was damaged before
        return None


@lru_cache(maxsize=256)
def _yaml_tree(content: bytes) -> Any:
    try:
        return yaml.load(content, yaml.CSafeLoader)
    except Exception:  # what PyYAML makes numbers and times of fails in many ways
        return None


def _replacement(tree: Any, dice: random.Random) -> Callable[[Any], Any]:
    """Return what makes another value of one."""

    def other(value: Any) -> Any:
        roll = dice.random()
        if roll < 0.25:
            return dice.choice(_ODD_VALUES)()
        if roll < 0.45 or (roll < 0.7 and isinstance(value, int)):
            return dice.choice(NUMBERS)
        if roll < 0.65:
            return dice.choice(ODD_TEXTS)
        if roll < 0.85:
            return _some_value(tree, dice)
        if roll < 0.9:
            return [value]
        for _ in range(dice.choice((1, 3, 60, 200))):
            value = {"a": value} if roll < 0.95 else [value]
        return value

    return other


def _some_value(tree: Any, dice: random.Random) -> Any:
    while isinstance(tree, dict | list) and tree and dice.random() < 0.8:
        tree = dice.choice(list(tree.values()) if isinstance(tree, dict) else tree)
    return tree


def _changed(tree: Any, dice: random.Random, replacement: Callable[[Any], Any]) -> Any:
    """Return a tree of which one value, key or item is changed; what is not on the way to it is shared."""
    if not isinstance(tree, dict | list) or not tree or dice.random() < 0.08:
        return replacement(tree)
    if isinstance(tree, list):
        items = list(tree)
        at = dice.randrange(len(items))
        if dice.random() < 0.85:
            items[at] = _changed(items[at], dice, replacement)
        elif dice.random() < 0.5:
            del items[at]
        else:
            items[at:at] = [items[at]] * dice.choice((1, 1, 2, 20))
        return items
    key = dice.choice(list(tree))
    if dice.random() < 0.8:
        return {**tree, key: _changed(tree[key], dice, replacement)}
    if dice.random() < 0.4:
        return {name: value for name, value in tree.items() if name != key}
    new = dice.choice((*ODD_TEXTS, f"{key}x", str(key)[:-1], str(dice.choice(NUMBERS)), str(_some_value(tree, dice))))
    if dice.random() < 0.5:
        return {**tree, new: tree[key]}
    return {new if name == key else name: value for name, value in tree.items()}
