"""Which functions of a framework a call of a dump may name: those that compute, and none that writes, loads or runs.

Dumps are not trusted, and what lies below a framework's modules is much: its own files, those of the system, compilers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isbuiltin
from typing import Any

from probe_flow.apis.calls import UnusableError

WINGS = frozenset({"fft", "linalg", "sparse", "special"})
"""Modules of a framework, below that of a kind, whose functions are operators."""

SIDE_EFFECTS = frozenset({
    "apply", "backward", "compile", "dump", "from_file", "fork", "load", "load_library", "map", "module_load", "print",
    "register_hook", "save", "set_data", "share_memory", "storage", "tensor_dump", "tensordump", "tofile",
    "untyped_storage",
})  # fmt: skip
"""What is asked of a framework in vain, for it writes, reads or does something else than compute."""


def operator(home: Any, api: str, packages: Sequence[str], *, is_registry: bool = False) -> Callable[..., Any] | None:
    """Return a function by its name below a module or class; None where there is none.

    Args:
        home: the module or class of a kind of APIs.
        api: the name, one part or two.
        packages: where its code may stand, in Python: modules, with what is below them.
        is_registry: whether the two parts are an operator of torch's registry and its overload.

    Raises:
        UnusableError: there is something of that name, and it is no operator.
    """
    *inner, last = api.split(".")
    if len(inner) > 1 or not (is_registry or WINGS.issuperset(inner)):
        raise _refused(api)
    found = home
    for part in (*inner, last):
        found = getattr(found, part, None)
    if not callable(found):
        return None
    parts = {part.strip("_") for part in (*inner, last)}
    if isinstance(found, type) or SIDE_EFFECTS & parts:
        raise _refused(api)
    if not _is_of(found, home, packages):  # somebody else's function in its place is not skipped in silence
        module = getattr(found, "__module__", None)
        raise UnusableError(f"`{api}` is no operator that is computed: its code stands in `{module}`")
    return found  # type: ignore[no-any-return]


def _is_of(found: Any, home: Any, packages: Sequence[str]) -> bool:
    """Return True where the code of a function is that of operators."""
    module = getattr(found, "__module__", None)
    if module is None:  # what is written in C has none, and is found in its own class alone
        return isinstance(home, type)
    if isbuiltin(found):
        # What torch._C has as a whole, or by pybind11, are readers of models, threads, settings.
        owner = getattr(found, "__self__", None)
        name = str(getattr(owner, "__name__", ""))
        is_operator = owner is None or name.startswith(tuple(f"{each}." for each in packages))
        return is_operator and _root(module) in map(_root, packages)
    return any(module == each or module.startswith(f"{each}.") for each in packages)


def _root(module: str) -> str:
    return module.partition(".")[0]


def _refused(api: str) -> UnusableError:
    return UnusableError(f"`{api}` is no operator that is computed", is_expected=True)
