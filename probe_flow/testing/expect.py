"""Assertions of the conformance tests, which hold under `python -O` too, and a way to run the tests without pytest."""

from __future__ import annotations

import inspect
from pathlib import Path


def expect(is_so: object, otherwise: str) -> None:
    """Fail a test unless a condition holds.

    Raises:
        AssertionError: it does not; its text is ``otherwise``.
    """
    if not is_so:
        raise AssertionError(otherwise)


def failures(tests: type, folder: Path) -> dict[str, str]:
    """Run every ``test_`` method of a class of conformance tests, and return why those that fail do, by their names.

    Args:
        tests: the class, which names what is under test.
        folder: where each of them gets an empty folder of its own.
    """
    found: dict[str, str] = {}
    for name in (name for name in dir(tests) if name.startswith("test_")):
        method = getattr(tests(), name)
        own = folder / name
        own.mkdir(parents=True)
        try:
            method(own) if "tmp_path" in inspect.signature(method).parameters else method()
        except Exception as error:
            found[name] = str(error) or type(error).__name__
    return found
