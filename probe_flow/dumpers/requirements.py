"""What running a model needs on this machine, and what to do where it is missing. Imports none of it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from probe_flow.errors import Diagnostic


def missing_modules(*names: str) -> Iterator[str]:
    """Yield the modules that cannot be imported; none of those found is imported."""
    for name in names:
        try:
            found = find_spec(name) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            yield name


def framework_missing(framework: str, extra: str) -> Diagnostic:
    """Return PF6320.

    Args:
        framework: that is not installed.
        extra: of this package that installs it.
    """
    return Diagnostic(
        "PF6320",
        f"{framework} is not installed, and a model cannot run without it",
        help=f"install it with `pip install 'probe-flow[{extra}]'`, or adopt an existing dump with `path:`",
    )
