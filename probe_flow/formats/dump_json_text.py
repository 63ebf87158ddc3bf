"""JSON text of a dump: Python's dialect (bare NaN, Infinity), with the place of a mistake and repeated keys found."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from probe_flow.errors import Diagnostic, FormatError, Span

TYPE_PROBE_CHARS = 64 * 1024 * 1024
"""Characters searched for a tensor type when a dump does not name its framework."""


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file.

    Args:
        value: the JSON value.
        repeated: keys that an object of the file holds more than once (the last one counts), at most a few.
        framework: the framework whose tensor type occurs first in the text, None when neither occurs.
    """

    value: object
    repeated: tuple[str, ...]
    framework: str | None


def load_document(file: Path, shown: str) -> Document:
    """Read and parse one JSON file.

    Args:
        file: the file.
        shown: its name for people.

    Raises:
        FormatError: PF3407 not JSON (with line and column), PF3409 the file cannot be read.
    """
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise FormatError(
            Diagnostic("PF3409", f"`{shown}` cannot be read: {error.strerror or error}", path=shown)
        ) from error
    except UnicodeDecodeError as error:
        raise _not_json(shown, f"byte {error.start} is not UTF-8") from error
    repeated: list[str] = []

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(pairs)
        if len(result) != len(pairs) and len(repeated) < 5:
            seen: set[str] = set()
            repeated.extend(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        return result

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        is_cut = not text[error.pos :].strip() or error.msg.startswith("Unterminated string")
        what = "the file ends in the middle" if is_cut else error.msg
        raise _not_json(shown, what, Span(shown, error.lineno, error.colno)) from error
    except RecursionError as error:
        raise _not_json(shown, "values are nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits
        raise _not_json(shown, str(error).split(":")[0]) from error
    return Document(value, tuple(repeated[:5]), _framework_of(text))


def _not_json(shown: str, what: str, span: Span | None = None) -> FormatError:
    return FormatError(
        Diagnostic(
            "PF3407",
            f"`{shown}` is not valid JSON: {what}",
            span=span,
            path=shown,
            help="copy the file again, or dump again: a collector that was killed leaves a file that ends early",
        )
    )


def _framework_of(text: str) -> str | None:
    """Older dumps do not name their framework; the first tensor type in the text does."""
    places = {
        name: text.find(f'"type": "{word}', 0, TYPE_PROBE_CHARS)
        for name, word in (("mindspore", "mindspore"), ("pytorch", "torch"))
    }
    found = {name: place for name, place in places.items() if place >= 0}
    return min(found, key=lambda name: found[name]) if found else None
