"""Leave calls out of both dumps of a pair, as users do who dump a list of names, a scope, or what they chose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

KINDS = ("list", "scope", "chosen")
"""Two names of calls; a third of all calls, in one piece; three entries of ten at random."""


def keep_part(folder: Path, mode: str, kind: str, chance: Random) -> list[str]:
    """Leave out the calls that were not chosen, in every dump of a mode; return the entries of the first that stay."""
    dumps = [dump for side in ("golden", "target") for dump in _dumps(folder / side / mode)]
    keeps = _chosen(list(json.loads(dumps[0].read_text())["data"]), kind, chance)
    kept = []
    for dump in dumps:
        top = json.loads(dump.read_text())
        top["data"] = {name: value for name, value in top["data"].items() if keeps(name)}
        dump.write_text(json.dumps(top))
        kept = kept or list(top["data"])
    return kept


def _dumps(side: Path) -> Iterator[Path]:
    yield from sorted(side.glob("step*/proc*/dump.json"))


def _chosen(names: list[str], kind: str, chance: Random) -> Callable[[str], bool]:
    if kind == "list":
        apis = set(chance.sample(sorted({name.split(".")[1] for name in names}), k=2))
        return lambda name: name.split(".")[1] in apis
    if kind == "scope":
        first = chance.randrange(len(names) // 2)
        inside = set(names[first : first + max(8, len(names) // 3)])
    else:
        inside = {name for name in names if chance.random() < 0.3}
    return inside.__contains__
