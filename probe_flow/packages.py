"""What probe_flow can be extended by, by name: of each kind of thing our own, those of packages, those of a program.

Names are found by reading one file of each package. A package is imported when a thing of its is asked for, so that a
broken one costs only what uses it. Packages add; they never replace ours, nor each other's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from weakref import ref

from msgspec import Struct

from probe_flow.errors import Diagnostic, UsageError, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

PREFIX = "probe_flow."
"""What the names of all our entry-point groups begin with."""

_MAX_LISTED = 100


class PackageError(Exception):
    """What an entry point gives cannot be used; the text says why."""


class BrokenPackageError(UsageError, ValueError):
    """What a package adds is asked for, and cannot be used. As a ValueError it passes through checks of options."""


def raised(error: BaseException) -> str:
    """Return in words what code of others raised, and where."""
    text = "; ".join(filter(None, map(str.strip, str(error).splitlines())))
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f", at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}: {text}".removesuffix(": ") + where


class Plugin(Struct, frozen=True):
    """One entry point of an installed package.

    Args:
        group: what it adds, e.g. ``probe_flow.stages``.
        name: of the thing.
        value: where that is, as ``module:attribute``.
        package: the distribution; empty where that is not known.
        version: of the distribution.
    """

    group: str
    name: str
    value: str
    package: str = ""
    version: str = ""

    def __str__(self) -> str:
        package = f" of the package `{self.package}`" if self.package else ""
        return f"entry point `{self.name} = {self.value}` ({self.group}){package}"


def entry_points(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group of ours, as of the first call with the present search path."""
    return _on(tuple(sys.path)).get(group, ())


def groups() -> tuple[str, ...]:
    """Return the names of all groups of ours that some package has entry points in, sorted."""
    return tuple(sorted(_on(tuple(sys.path))))


def is_extended() -> bool:
    """Whether a package, or this program, adds anything to what is ours."""
    registries = [found for each in _registries if (found := each()) is not None]
    return any(each.is_extended for each in registries) or bool(groups())


def plugin_of(entry: EntryPoint) -> Plugin:
    """Return what is known of an entry point without loading it."""
    dist = entry.dist
    package, version = (dist.metadata["Name"], dist.metadata["Version"]) if dist is not None else ("", "")
    return Plugin(entry.group, entry.name, entry.value, package or "", version or "")


class Registry(Mapping[str, T], Generic[T]):
    """The things of one kind by name: ours in their order, then those of packages and of this program by name.

    Only taking one out imports its module. What a package adds under a name that it may not have (one of ours, one that
    another package has, too) is not there.

    Args:
        word: what one of them is called, and several.
        group: entry-point group; empty where packages cannot add any.
        built_in: our own by name: ``module:attribute``, or the thing itself.
        accept: returns what an entry point's object is worth by its name, or raises PackageError with the reason why
            it is worth nothing. It may call code of the package.
        unknown: code of the diagnostic for a name that does not exist.
        unusable: code of the diagnostic for what a package adds and that cannot be used.
    """

    def __init__(
        self,
        word: tuple[str, str],
        group: str,
        built_in: Mapping[str, str | T],
        accept: Callable[[str, object], T],
        *,
        unknown: str,
        unusable: str,
    ) -> None:
        self.word, self.words = word
        self.group = group
        self.built_in = MappingProxyType(built_in)
        self._accept = accept
        self._codes = unknown, unusable
        self._loaded: dict[tuple[str, ...], T] = {}
        self._registered: dict[str, T] = {}
        self.changes = 0
        """How often something was registered; what is kept of a registry is stale when it has grown."""
        _registries.append(ref(self))

    @property
    def is_extended(self) -> bool:
        """Whether this program added something."""
        return bool(self._registered)

    def register(self, name: str, thing: object) -> None:
        """Add a thing for as long as this process lives, or replace one that was added so before.

        Raises:
            UsageError: it cannot be used, or a thing of ours or of a package has the name.
        """
        if name in self.built_in or name in self._added():
            owner = "probe_flow" if name in self.built_in else f"the package `{self.plugins_of(name)[0].package}`"
            raise self._not_registered(name, f"the name is that of a {self.word} of {owner}", "choose another name")
        try:
            self._registered[name] = self._accept(name, thing)
        except PackageError as error:
            raise self._not_registered(name, str(error), "mend it and register it again") from error
        self.changes += 1

    def _not_registered(self, name: str, why: str, cure: str) -> UsageError:
        return UsageError(Diagnostic(self._codes[1], f"the {self.word} `{name}` cannot be used: {why}", help=cure))

    def __getitem__(self, name: str) -> T:
        """Return a thing.

        Raises:
            KeyError: there is none of this name.
            BrokenPackageError: a package adds it, and it cannot be used.
        """
        if name in self.built_in:
            return self._ours(name)
        if name in self._registered:
            return self._registered[name]
        self.check(name)
        return self._theirs(self._added()[name][0])

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self._registered or name in self._added()

    def __iter__(self) -> Iterator[str]:
        yield from self.built_in
        yield from (name for name in sorted({*self._registered, *self._added()}) if name not in self.built_in)

    def __len__(self) -> int:
        return len({*self.built_in, *self._registered, *self._added()})

    def check(self, name: str) -> None:
        """Refuse a name that two packages add; nothing is loaded, so it costs nothing to ask before a run.

        Raises:
            BrokenPackageError: it is one.
        """
        entries = () if name in self.built_in else self._added().get(name, ())
        if len(entries) > 1:
            raise self._clash(name, [plugin_of(entry) for entry in entries])

    def find(self, name: str) -> T:
        """Return a thing.

        Raises:
            UsageError: there is none of this name.
            BrokenPackageError: a package adds it, and it cannot be used.
        """
        if name not in self:
            raise UsageError(self.no_such(name))
        return self[name]

    def no_such(self, name: str, *, also: Iterable[str] = ()) -> Diagnostic:
        """Return the diagnostic of a name that does not exist; ``also``: further names that would do."""
        known = [*self, *also]
        listed = ", ".join(known[:_MAX_LISTED]) + (", ..." if len(known) > _MAX_LISTED else "")
        hint = did_you_mean(name, known) or f"{self.words}: {listed}"
        return Diagnostic(self._codes[0], f"there is no {self.word} `{name}`", help=hint)

    def unusable(self, name: str, why: str) -> BrokenPackageError:
        """Return the error of what a package adds under a name, and that cannot be used."""
        return self._refused(self.plugins_of(name), name, why)

    def plugins_of(self, name: str) -> Sequence[Plugin]:
        """Return the entry points that a thing comes from; none for ours. Nothing is loaded."""
        return [] if name in self.built_in else [plugin_of(entry) for entry in self._added().get(name, ())]

    def plugins(self) -> Iterator[tuple[Plugin, Diagnostic | None]]:
        """Load everything that packages add, and yield it with what is wrong with it."""
        for name, entries in sorted(self._added().items()):
            plugins = [plugin_of(entry) for entry in entries]
            for entry, plugin in zip(entries, plugins, strict=True):
                if name in self.built_in:
                    why = f"the name is that of a {self.word} of probe_flow, which no package replaces"
                    yield plugin, self._refused([plugin], name, why).diagnostic
                elif len(entries) > 1:
                    yield plugin, self._clash(name, plugins).diagnostic
                else:
                    yield plugin, self._problem(entry)

    def _problem(self, entry: EntryPoint) -> Diagnostic | None:
        try:
            self._theirs(entry)
        except BrokenPackageError as error:
            return error.diagnostic
        return None

    def _added(self) -> Mapping[str, Sequence[EntryPoint]]:
        return _by_name(self.group, tuple(sys.path)) if self.group else {}

    def _ours(self, name: str) -> T:
        place = self.built_in[name]
        if not isinstance(place, str):
            return place
        if (place,) not in self._loaded:
            module, _, attribute = place.partition(":")
            self._loaded[place,] = cast("T", getattr(import_module(module), attribute))
        return self._loaded[place,]

    def _theirs(self, entry: EntryPoint) -> T:
        key = (entry.name, *sys.path)
        if key not in self._loaded:
            try:
                self._loaded[key] = self._accept(entry.name, entry.load())
            except PackageError as error:
                raise self.unusable(entry.name, str(error)) from error
            except (KeyboardInterrupt, MemoryError):
                raise
            except BaseException as error:  # code of others: SystemExit must not end a command as if it were done
                text = "; ".join(filter(None, map(str.strip, str(error).splitlines())))
                raise self.unusable(entry.name, f"{type(error).__name__}: {text}".removesuffix(": ")) from error
        return self._loaded[key]

    def _clash(self, name: str, plugins: Sequence[Plugin]) -> BrokenPackageError:
        packages = " and ".join(f"`{plugin.package}`" for plugin in plugins)
        return self._refused(plugins, name, f"{packages} each add one of this name, and none of them goes first")

    def _refused(self, plugins: Sequence[Plugin], name: str, why: str) -> BrokenPackageError:
        cure = "remove one of the packages" if len(plugins) > 1 else "update or remove the package that provides it"
        return BrokenPackageError(
            Diagnostic(
                self._codes[1],
                f"the {self.word} `{name}` cannot be used: {why}",
                help=f"{cure}, or use another {self.word}; `probe-flow plugins` lists what is installed",
                notes=tuple(map(str, plugins)),
            )
        )


_registries: list[ref[Registry[Any]]] = []


@cache
def _on(search_path: tuple[str, ...]) -> Mapping[str, Sequence[EntryPoint]]:
    """Return the entry points of each group of ours."""
    folders = _information(search_path)
    if folders is not None and not any(b"[" + PREFIX.encode() in _bytes(each, "entry_points.txt") for each in folders):
        return {}
    from importlib import metadata

    known = metadata.entry_points()
    return {group: tuple(known.select(group=group)) for group in known.groups if group.startswith(PREFIX)}


def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution; None where there is none.

    Args:
        distribution: its name, of lower-case letters, digits and ``_``.
    """
    folders = _information(tuple(sys.path))
    if folders is not None:
        begins = f"{distribution}-", f"{distribution}."
        named = [each for each in folders if os.path.basename(each).lower().startswith(begins)]  # noqa: PTH119 - of 100
        if not named:
            return None
        found = re.search(rb"^Version: *(\S+)", _bytes(named[0], "METADATA"), re.MULTILINE)
        if found is not None:
            return found[1].decode()
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@cache
def _information(search_path: tuple[str, ...]) -> Sequence[str] | None:
    """Return the folders ``NAME-VERSION.dist-info`` of what is installed, those that an import takes first in front.

    None where archives or finders of others may know more: then `importlib.metadata` has to be asked. Here it is not,
    since it takes 20 ms, most of it for the import of `email`, to find that no package extends probe_flow.
    """
    if any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path):
        return None
    found: list[str] = []
    for place in search_path:
        there = _information_in(place or ".")
        if there is None:
            return None
        found += there
    return found


def _information_in(place: str) -> Sequence[str] | None:
    try:
        with os.scandir(place) as entries:
            return [each.path for each in entries if each.name.lower().endswith(("dist-info", "egg-info"))]
    except FileNotFoundError:
        return ()
    except OSError:
        return None


@contextmanager
def metadata_put_off() -> Iterator[None]:
    """Give whoever imports functions of `importlib.metadata` now such that import it only when they are called."""
    name = "importlib.metadata"
    if name in sys.modules:
        yield
        return

    def function(attribute: str) -> Callable[..., object]:
        return lambda *given, **named: getattr(import_module(name), attribute)(*given, **named)

    stand_in = ModuleType(name)
    stand_in.__getattr__ = function  # type: ignore[method-assign]
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        del sys.modules[name]


def _bytes(folder: str, name: str) -> bytes:
    try:
        return Path(folder, name).read_bytes()
    except OSError:
        return b""


@cache
def _by_name(group: str, search_path: tuple[str, ...]) -> Mapping[str, Sequence[EntryPoint]]:  # noqa: ARG001
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group):
        found.setdefault(entry.name, []).append(entry)
    # Folders of packages are listed in any order; messages are the same on every machine.
    return {name: sorted(same, key=_package) if len(same) > 1 else same for name, same in found.items()}


def _package(entry: EntryPoint) -> str:
    return plugin_of(entry).package
