"""Damage a folder: mostly one file of it, by what its kind makes likely to be misread."""

from __future__ import annotations

import random
import re

from fuzz.bytes_and_text import damaged_bytes, damaged_text
from fuzz.containers import damaged_archive, damaged_device, damaged_hdf5, damaged_npy, damaged_om, damaged_pickle
from fuzz.tree import Content, Odd, Tree
from fuzz.values import damaged_json, damaged_json_lines, damaged_table, damaged_yaml

MAX_BYTES = 3 << 20
"""Largest file that is tried."""
MAX_PARSED_BYTES = 1 << 19
"""Largest file that is changed as what it is; mutators make many objects of a byte."""

_NUMBER = re.compile(r"\d+")
_BY_SUFFIX = {
    "json": damaged_json,
    "jsonl": damaged_json_lines,
    "yaml": damaged_yaml,
    "csv": damaged_table,
    "npy": damaged_npy,
    "npz": damaged_archive,
    "pt": damaged_archive,
    "xlsx": damaged_archive,
    "pkl": damaged_pickle,
    "om": damaged_om,
    "h5": damaged_hdf5,
    "txt": damaged_text,
    "py": damaged_text,
}


def mutated(tree: Tree, dice: random.Random, *, renames: bool, changes: tuple[str, ...]) -> Tree:
    """Return a damaged copy of a tree.

    Args:
        tree: a healthy one.
        dice: decides everything.
        renames: whether names change too, and files vanish or come twice.
        changes: beginnings of the paths that are damaged.
    """
    found = dict(tree)
    for _ in range(1 if dice.random() < 0.9 else dice.randrange(2, 5)):
        names = [name for name in found if name.startswith(changes)]
        if not names:
            break
        name = dice.choice(names)
        if renames and dice.random() < 0.12:
            _change_place(found, name, dice)
        elif dice.random() < 0.01:
            found[name] = dice.choice(list(Odd))
        else:
            found[name] = _damaged(name, found[name], dice, [found[each] for each in names])
    return found


def _damaged(name: str, content: Content, dice: random.Random, others: list[Content]) -> Content:
    if isinstance(content, Odd):
        return content
    by_kind = _BY_SUFFIX.get(name.rpartition(".")[2].lower())
    if by_kind is None:
        by_kind = damaged_archive if content[:2] == b"PK" else damaged_device
    for _ in range(dice.choice((1, 1, 1, 1, 2, 3))):
        roll = dice.random()
        if roll < 0.75 and len(content) <= MAX_PARSED_BYTES:
            content = by_kind(content, dice)
        elif roll < 0.98:
            content = damaged_bytes(content, dice)
        else:
            other = dice.choice(others)
            content = other if isinstance(other, bytes) else content
    return content[:MAX_BYTES]


def _change_place(tree: dict[str, Content], name: str, dice: random.Random) -> None:
    content = tree[name]
    folder, slash, last = name.rpartition("/")
    kind = dice.randrange(4)
    if kind == 0:
        del tree[name]
        return
    if kind == 1:
        last = _other_number(last, dice)
    elif kind == 2:
        parts = last.split(".")
        if dice.random() < 0.5 and len(parts) > 1:
            del parts[dice.randrange(len(parts))]
        else:
            parts.insert(dice.randrange(len(parts) + 1), dice.choice(("x", "0", "", "é", "-1", "9" * 30, "min_max")))
        last = ".".join(parts)
    else:
        folder = _other_number(folder, dice)
    new = f"{folder}{slash}{last}"
    is_name = last not in ("", ".", "..") and len(last.encode()) <= 255
    if not is_name or any(each.startswith(f"{new}/") or new.startswith(f"{each}/") for each in tree):
        return
    if dice.random() < 0.5:
        del tree[name]
    tree[new] = content


def _other_number(text: str, dice: random.Random) -> str:
    places = list(_NUMBER.finditer(text))
    if not places:
        return text
    place = dice.choice(places)
    number = dice.choice(("0", "1", "2", "07", str(int(place[0]) + 1), "4294967296", "9" * 19, "9" * 30, "x", ""))
    return text[: place.start()] + number + text[place.end() :]
