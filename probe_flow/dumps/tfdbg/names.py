"""Names of operators in a run of the TensorFlow debugger, and what they are called in the user's graph.

TensorFlow renames what it inserts around the operators of a graph: a fed placeholder ``input/x`` runs as
``_arg_input/x_0_0`` (name, output, number), and copies and bodies of control flow get a part of digits (``merge/_15``,
``lp/body/_9/add``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

_ARGUMENT = re.compile(r"_arg_(.+)_(\d{1,6})_\d{1,6}")
_INSERTED = re.compile(r"/_\d{1,9}(?=/|$)")


def usual_name(name: str) -> tuple[str, int | None]:
    """Return the name in the user's graph, and the output that it stands for where the name says that.

    >>> usual_name("_arg_input/x_0_0"), usual_name("lp/body/_9/add_0"), usual_name("merge/_15"), usual_name("a_1/b")
    (('input/x', 0), ('lp/body/add_0', None), ('merge', None), ('a_1/b', None))
    """
    argument = _ARGUMENT.fullmatch(name)
    if argument is not None:
        return argument[1], int(argument[2])
    return _INSERTED.sub("", name), None


def usual_names(names: Iterable[str], known: Collection[str]) -> dict[str, tuple[str, int | None]]:
    """Return the usual name of every operator of a run that has another one.

    A name that the run has anyway, or that two operators would share, stays as it is: none is taken for another.

    Args:
        names: true names of what was dumped.
        known: names of all operators of the run, dumped or not.
    """
    found: dict[str, tuple[str, int | None]] = {}
    owners: dict[tuple[str, int | None], str] = {}
    shared: set[tuple[str, int | None]] = set()
    for name in names:
        usual = usual_name(name)
        if usual[0] == name or not usual[0] or usual[0] in known:
            continue
        if owners.setdefault(usual, name) != name:
            shared.add(usual)
        found[name] = usual
    return {name: usual for name, usual in found.items() if usual not in shared}
