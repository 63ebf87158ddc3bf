"""Which entries a dump holds: those in a scope, those whose names have a text in them, else all that matter.

The rules are msprobe's: a scope begins and ends with the entries that it names; at level mix a text that is in a
module's name takes everything that runs in the module. Without scope and texts, calls that only change a shape, a type
or fill a tensor are left out.
"""

from __future__ import annotations

from collections.abc import Collection

from probe_flow.dumpers.dump_json.options import DumpOptions

_MODULES = ("Module.", "Cell.")


class Selection:
    """Follows a step: which entry begins or ends the scope, and which open module was asked for.

    Args:
        options: of the dump.
        low_risk: names of APIs without their prefix that are left out unless something is asked for.
    """

    def __init__(self, options: DumpOptions, low_risk: Collection[str]) -> None:
        self._scope = options.scope
        self._texts = options.include
        self._is_mix = options.level == "mix"
        self._low_risk = low_risk
        self._is_in_scope = options.scope is None
        self._open: set[str] = set()

    def begin_module(self, name: str) -> None:
        """Note that a module began to run, forward or backward."""
        if self._scope is not None and name == self._scope[0]:
            self._is_in_scope = True
        if self._is_mix and any(text in name for text in self._texts):
            self._open.add(name)

    def end_module(self, name: str) -> None:
        """Note that it ended."""
        if self._scope is not None and name == self._scope[1]:
            self._is_in_scope = False
        self._open.discard(name)

    def takes(self, name: str) -> bool:
        """Return True if an entry is recorded."""
        if self._scope is None and not self._texts:
            return name.startswith(_MODULES) or name.split(".", 2)[1] not in self._low_risk
        is_call = not name.startswith(_MODULES)
        if self._scope is not None and is_call and name == self._scope[0]:
            self._is_in_scope = True
        found = self._is_in_scope and (not self._texts or bool(self._open) or any(text in name for text in self._texts))
        if self._scope is not None and is_call and name == self._scope[1]:
            self._is_in_scope = False
        return found

    def takes_gradient_of(self, module: str) -> bool:
        """Return True if a module's parameter gradients are recorded by its name alone."""
        if self._scope is None and not self._texts:
            return True
        return self._is_in_scope and (
            not self._texts or bool(self._open) or any(text in module for text in self._texts)
        )
