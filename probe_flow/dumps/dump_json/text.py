"""JSON text of a dump: Python's dialect (bare NaN, Infinity), with the place of a mistake and repeated keys found."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from pydantic_core import from_json

from probe_flow.errors import Diagnostic, FormatError, Span
from probe_flow.files.opening import read_whole

MAX_DOCUMENT_BYTES = 1 << 30
"""A construct.json or stack.json; parsed it takes several times as much memory."""

_MAX_REPEATED = 5


class Repeated:
    """Builds the objects of a JSON text and notes keys that one of them holds more than once."""

    def __init__(self) -> None:
        self._keys: list[str] = []

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys found so far, at most a few."""
        return tuple(self._keys[:_MAX_REPEATED])

    def add(self, key: str) -> None:
        """Note one key."""
        if len(self._keys) < _MAX_REPEATED:
            self._keys.append(key)

    def unique(self, pairs: list[tuple[str, object]]) -> dict[str, object]:
        """Return the object of these pairs; the last one of a key counts."""
        result = dict(pairs)
        if len(result) != len(pairs) and len(self._keys) < _MAX_REPEATED:
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    self.add(key)
                seen.add(key)
        return result


def load_document(file: Path, shown: str, repeated: Repeated | None = None) -> object:
    """Read and parse one JSON file as a whole; of a key that stands twice in an object the last one counts.

    Args:
        file: the file.
        shown: its name for people.
        repeated: notes such keys; without it none is looked for, which is faster.

    Raises:
        FormatError: PF3407 not JSON (with line and column), PF3409 the file cannot be read.
    """
    try:
        text = read_whole(file, MAX_DOCUMENT_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise cannot_be_read(shown, error) from error
    except UnicodeDecodeError as error:
        raise not_json(shown, f"byte {error.start} is not UTF-8") from error
    if repeated is None:
        with suppress(ValueError):  # a mistake, which Python's parser tells better, or a text that it alone accepts
            return from_json(text)
    return _parsed_by_python(text, shown, repeated or Repeated())


def _parsed_by_python(text: str, shown: str, repeated: Repeated) -> object:
    try:
        return json.loads(text, object_pairs_hook=repeated.unique)
    except json.JSONDecodeError as error:
        raise mistake(shown, error, error.lineno, error.colno) from error
    except RecursionError as error:
        raise not_json(shown, "values are nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise not_json(shown, str(error).split(":")[0]) from error


def mistake(shown: str, error: json.JSONDecodeError, line: int, column: int) -> FormatError:
    """Return the error of text that is no JSON, at its place in the file."""
    is_cut = not error.doc[error.pos :].strip() or error.msg.startswith("Unterminated string")
    what = "the file ends in the middle" if is_cut else error.msg
    return not_json(shown, what, Span(shown, line, column))


def not_json(shown: str, what: str, span: Span | None = None) -> FormatError:
    """Return the error of a file that is no JSON."""
    return FormatError(
        Diagnostic(
            "PF3407",
            f"`{shown}` is not valid JSON: {what}",
            span=span,
            path=shown,
            help="copy the file again, or dump again: a collector that was killed leaves a file that ends early",
        )
    )


def cannot_be_read(shown: str, error: OSError) -> FormatError:
    """Return the error of a file that the operating system does not give."""
    message = f"`{shown}` cannot be read: {error.strerror or error}"
    cure = "give yourself the right to read it" if isinstance(error, PermissionError) else None
    return FormatError(Diagnostic("PF3409", message, path=shown, help=cure))
