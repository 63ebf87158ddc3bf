"""The errors of rule files, each with the place in the file."""

from __future__ import annotations

from pathlib import Path

from probe_flow.errors import Diagnostic, FormatError, Span
from probe_flow.files.binary_file import malformed

Pointer = tuple[str | int, ...]
"""Keys and positions that lead to a value of a JSON text."""

_ATC = "make the JSON again with `atc --mode=1 --om=MODEL.om --json=MODEL.json`"


def not_json(path: str, what: str, *, line: int = 0, column: int = 0) -> FormatError:
    """Return the error of a file that is neither JSON nor an offline model."""
    name = Path(path).name
    return FormatError(
        Diagnostic(
            "PF4303",
            f"`{name}` is neither a rule JSON nor an offline model: {what}",
            span=Span(path, line, column) if line else None,
            path=path,
            help=f"name a JSON that ATC or AMCT wrote, or an `.om`; {_ATC}",
        )
    )


def too_large(path: str, size: int, limit: int) -> FormatError:
    """Return the error of a file, or a definition in it, that is larger than is read; both in bytes."""
    message = f"`{Path(path).name}` has {-(-size >> 20)} MiB of definitions; at most {limit >> 20} MiB are read"
    return FormatError(
        Diagnostic(
            "PF4302", message, path=path, help="check that it is of one model; name the `.om` instead of its JSON"
        )
    )


def no_attributes(path: str) -> FormatError:
    """Return the error of a graph's text that has operators and edges only."""
    message = (
        f"`{Path(path).name}` is text without attributes (DUMP_GE_GRAPH=3): it does not say what operators were made of"
    )
    help_text = "dump the graph again with DUMP_GE_GRAPH=2 and DUMP_GRAPH_LEVEL=3, and give `ge_proto_*_Build.txt`"
    return FormatError(Diagnostic("PF4311", message, path=path, help=help_text))


def no_rules(path: str, what: str) -> FormatError:
    """Return the error of a file of a right kind that holds no operators."""
    return FormatError(Diagnostic("PF4304", f"`{Path(path).name}` holds no fusion rules: {what}", path=path, help=_ATC))


def wrong_value(path: str, pointer: Pointer, wanted: str, found: object) -> FormatError:
    """Return the error of a value of another kind; ``found`` is the value itself."""
    place = json_pointer(pointer)
    return FormatError(
        Diagnostic(
            "PF4305",
            f"`{Path(path).name}` has at `{place}` {_shown(found)}, not {wanted}",
            path=path,
            help=_ATC,
            fields={"pointer": place},
        )
    )


def broken_model(path: str, what: str, offset: int | None = None) -> FormatError:
    """Return the error of an offline model that is damaged or cut off."""
    return malformed(
        "PF4306",
        path,
        f"the offline model `{Path(path).name}` is damaged or cut off: {what}",
        help_text="copy or convert the model again",
        offset=offset,
    )


def json_pointer(pointer: Pointer) -> str:
    """Return the pointer in the notation of RFC 6901.

    >>> json_pointer(("graph", 0, "op", 3, "a/b"))
    '/graph/0/op/3/a~1b'
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in pointer)


def _shown(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "nothing"}
    if type(value) in kinds:
        return kinds[type(value)]
    if not isinstance(value, (int, float)):
        return "an attribute"
    text = str(value)
    return f"the number {text}" if len(text) <= 20 else "a number"
