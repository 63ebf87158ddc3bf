"""Rules of pairs, and kinds of reasons, by the names that they are published under."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TypeVar

import probe_flow.matching
from probe_flow.records import SELF, ReasonKind, Rule

_T = TypeVar("_T", Rule, ReasonKind)


def rule_of(name: str) -> Rule:
    """Return the rule of a matcher family, or one with this name and no properties."""
    return declared_rules().get(name, Rule(name))


def kind_of(code: str) -> ReasonKind:
    """Return the kind of a matcher family, or one with this code and no properties."""
    return declared_kinds().get(code, ReasonKind(code))


@cache
def declared_rules() -> Mapping[str, Rule]:
    return {rule.name: rule for rule in (SELF, *(each for _, each in declared(Rule)))}


@cache
def declared_kinds() -> Mapping[str, ReasonKind]:
    return {kind.code: kind for _, kind in declared(ReasonKind)}


def declared(wanted: type[_T]) -> Iterator[tuple[str, _T]]:
    """Yield what the classes of the matcher families declare, each with the place of its declaration."""
    for info in pkgutil.walk_packages(probe_flow.matching.__path__, "probe_flow.matching."):
        module = importlib.import_module(info.name)
        for _, each in inspect.getmembers(module, inspect.isclass):
            if each.__module__ == info.name:
                for name, value in vars(each).items():
                    for found in value.values() if isinstance(value, Mapping) else (value,):
                        if isinstance(found, wanted):
                            yield f"{info.name}.{each.__name__}.{name}", found
