"""Examples of docstrings as code: to Markdown a bare ``>>>`` is a quotation in a quotation."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n(?!>>> )|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(griffe.Extension):
    """Put the examples of a docstring into fences."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object once it is read, before it is taken apart."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            text = obj.docstring.value
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
