"""The colours of every picture, by name, in light and in dark surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

COLOURS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "origin-1": ("#b83c0a", "#ff8f4d"),
        "origin-2": ("#9c2c02", "#ffa468"),
        "origin-3": ("#7d1f00", "#ffbb8c"),
        "on-origin": ("#ffffff", "#14171d"),
        "inherited-1": ("#fbe0b5", "#46371f"),
        "inherited-2": ("#f3c06c", "#634a20"),
        "inherited-3": ("#e2a03a", "#7f5d22"),
        "over": ("#9d86c9", "#6c53a3"),
        "missing": ("#aab3c1", "#566072"),
        "fine-1": ("#edf2f9", "#1f2937"),
        "fine-2": ("#dde8f4", "#26364c"),
        "fine-3": ("#c8daee", "#304563"),
        "fine-4": ("#a9c5e4", "#3d587e"),
        "gap": ("#f3f5f7", "#20252e"),
        "origin-mark": ("#9c2c02", "#ffa468"),
        "inherited-mark": ("#b26f12", "#bd8a45"),
        "over-mark": ("#7a4fa8", "#a987d6"),
        "missing-mark": ("#5c6779", "#9aa6b8"),
        "fine-mark": ("#6c8cb8", "#5878a4"),
        "gap-mark": ("#8591a1", "#667182"),
        "size-0": ("#f1f3f6", "#222833"),
        "size-1": ("#dde2ea", "#313a49"),
        "size-2": ("#bac3d0", "#48556a"),
        "size-3": ("#8e9aad", "#6f7e97"),
        "size-4": ("#5f6c81", "#a1aec4"),
        "size-5": ("#2f3a4c", "#e3e9f2"),
        "nan": ("#a4478a", "#e59bd0"),
    }
)
"""Colours in light and dark surroundings. Areas carry text; marks and lines end in ``-mark``; ``size`` is for errors
inside of one tensor, where nobody is accused.

Blue, amber and a dark red differ for all common kinds of colour blindness; of one role, and from role to role, the
stronger one is farther from the background."""

SURFACES = ("#ffffff", "#191d25")
INKS = ("#1b212c", "#e3e7ee")
"""Background and text that the colours above are made for, light and dark."""


def palette_css() -> str:
    """Return the colours as custom properties of a style sheet: light, dark, and light on paper."""
    light, dark = (" ".join(f"--{name}: {both[at]};" for name, both in COLOURS.items()) for at in (0, 1))
    return f":root {{ {light} }}\n:root.dark {{ {dark} }}\n@media print {{ :root, :root.dark {{ {light} }} }}\n"
