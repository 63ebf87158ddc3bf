"""What a dump of a running program records, and in which form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from probe_flow.errors import Diagnostic, UsageError, did_you_mean

LEVELS = ("L0", "L1", "mix")
DATA = ("tensor", "statistics", "md5", "both")
PHASES = ("forward", "backward")
DIRECTIONS = ("input", "output")
_CHOICES: Mapping[str, Sequence[str]] = {"level": LEVELS, "data": DATA, "phases": PHASES, "direction": DIRECTIONS}
_MODULES = ("Module.", "Cell.")


class DumpOptions(Struct, frozen=True):
    """Options of a dump.

    Args:
        level: ``L0`` modules, ``L1`` calls of APIs, ``mix`` both.
        data: ``statistics``; ``tensor`` writes the elements too; ``md5`` a checksum (CRC-32, as msprobe names it) in
            place of statistics; ``both`` all three.
        phases: ``forward``, ``backward`` or both.
        direction: ``input``, ``output`` or both.
        steps: steps to dump, from 0; None = all.
        ranks: ranks to dump; None = all.
        scope: names of the first and the last entry to dump; None = everything.
        include: texts, one of which has to be in an entry's name; at level mix a module takes with it all that runs
            in it.
        has_checksum: write the checksum beside statistics.
        max_tensor_bytes: larger tensors are not written, and named in the manifest; their statistics are.
    """

    level: str = "mix"
    data: str = "tensor"
    phases: tuple[str, ...] = PHASES
    direction: tuple[str, ...] = DIRECTIONS
    steps: tuple[int, ...] | None = None
    ranks: tuple[int, ...] | None = None
    scope: tuple[str, ...] | None = None
    include: tuple[str, ...] = ()
    has_checksum: bool = False
    max_tensor_bytes: int | None = None

    @property
    def has_modules(self) -> bool:
        return self.level != "L1"

    @property
    def has_calls(self) -> bool:
        return self.level != "L0"

    @property
    def writes_tensors(self) -> bool:
        return self.data in ("tensor", "both")

    @property
    def writes_statistics(self) -> bool:
        return self.data != "md5"

    @property
    def writes_checksums(self) -> bool:
        return self.has_checksum or self.data in ("md5", "both")

    def takes(self, phase: str, direction: str) -> bool:
        """Return True if a side of a call is recorded."""
        return phase in self.phases and direction in self.direction

    def to_dict(self) -> dict[str, Any]:
        """Return the options for the manifest."""
        return asdict(self)


def checked_options(options: Mapping[str, Any]) -> DumpOptions:
    """Return options of a script or a job; None stands for the default.

    Raises:
        UsageError: PF6331 for a value that an option cannot have.
    """
    known: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in known.keys() & {"phases", "direction", "include", "scope"}:
        known[name] = _texts(name, known[name])
    for name in known.keys() & {"steps", "ranks"}:
        known[name] = _numbers(name, known[name])
    for name in known.keys() & _CHOICES.keys():
        for each in known[name] if isinstance(known[name], tuple) else (known[name],):
            _check_choice(name, each, _CHOICES[name])
    if "scope" in known:
        level: str = known.get("level", "mix")
        _check_scope(known["scope"], DumpOptions(level=level))
    return DumpOptions(**known)


def _check_scope(scope: Sequence[str], options: DumpOptions) -> None:
    if len(scope) != 2:
        raise wrong_option(f"`scope` has {len(scope)} names", "give the first and the last entry: two full names")
    for name in scope:
        fits = options.has_modules if name.startswith(_MODULES) else options.has_calls
        if not fits:
            kind = "module" if name.startswith(_MODULES) else "call of an API"
            raise wrong_option(
                f"`scope` names `{name}`, a {kind}, which level {options.level} does not record",
                "name entries of the dump's level, or use `level: mix`",
            )


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        near = did_you_mean(str(value), list(choices))
        raise wrong_option(f"`{name}` cannot be `{value}`", near or f"use one of {', '.join(map(repr, choices))}")


def _texts(name: str, values: Iterable[object]) -> tuple[str, ...]:
    if isinstance(values, str):
        raise wrong_option(f"`{name}` is text, expected a list", f"write `{name}=[{values!r}]`")
    found = tuple(values)
    for each in found:
        if not isinstance(each, str) or not each:
            raise wrong_option(f"`{name}` holds {each!r}, expected text", "give a list of texts")
    return found  # type: ignore[return-value]


def _numbers(name: str, values: Iterable[object]) -> tuple[int, ...]:
    found = (values,) if isinstance(values, int) else tuple(values)
    if not found:
        raise wrong_option(f"`{name}` is empty, so that nothing would be dumped", "leave it out to dump all")
    for each in found:
        if isinstance(each, bool) or not isinstance(each, int) or each < 0:
            raise wrong_option(f"`{name}` holds {each!r}, expected numbers from 0", "give a list of integers")
    return tuple(dict.fromkeys(found))  # type: ignore[arg-type]


def wrong_option(what: str, cure: str) -> UsageError:
    """Return PF6331."""
    return UsageError(Diagnostic("PF6331", what, help=cure))
