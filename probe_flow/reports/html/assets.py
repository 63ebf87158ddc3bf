"""The fixed parts of the HTML report: our template, colours, style and scripts, and the libraries inlined with them."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path

from msgspec import Struct

from probe_flow.reports.palette import palette_css

_ROOT = Path(__file__).parents[1] / "assets"

_STYLES = ("vendor/uplot/uPlot.min.css", "vendor/tabulator/tabulator_simple.min.css", "report.css")
_EARLY_SCRIPTS = ("js/theme.js",)
_SCRIPTS = (
    "vendor/uplot/uPlot.iife.min.js",
    "vendor/tabulator/tabulator.min.js",
    "js/data.js",
    "js/dom.js",
    "js/summary.js",
    "js/plot_marks.js",
    "js/plot_lanes.js",
    "js/plot.js",
    "js/heat_cells.js",
    "js/heat.js",
    "js/error_map.js",
    "js/table_tools.js",
    "js/table.js",
    "js/address.js",
    "js/graph/calls.js",
    "js/graph/mapping.js",
    "js/graph/detail.js",
    "js/graph/view.js",
    "js/tree.js",
    "js/network_layers.js",
    "js/network.js",
    "js/panel.js",
    "js/provenance.js",
    "js/report.js",
)
_LICENCES = (("uPlot", "vendor/uplot/LICENSE"), ("Tabulator", "vendor/tabulator/LICENSE"))

# A report is one file: there is no map beside it, and looking for one would be a request.
_MAPPING = "# sourceMappingURL="
_SOURCE_MAP = re.compile(rf"^//{_MAPPING}.*$|/\*{_MAPPING}.*?\*/", re.MULTILINE)


class Assets(Struct, frozen=True):
    """What every report has in common.

    Args:
        template: the page with ``$name`` where something goes.
        styles: style sheets, in order; the first is the palette.
        early_scripts: scripts that run before the page is shown.
        scripts: scripts that run when the page is there, in order.
        licences: name and licence text of every library inside.
    """

    template: str
    styles: tuple[str, ...]
    early_scripts: tuple[str, ...]
    scripts: tuple[str, ...]
    licences: tuple[tuple[str, str], ...]

    @property
    def policy(self) -> str:
        """The Content-Security-Policy: these scripts and style sheets by their digests, no request of any kind."""
        scripts = " ".join(_digest(text) for text in (*self.early_scripts, *self.scripts))
        styles = " ".join(_digest(text) for text in self.styles)
        return f"default-src 'none'; script-src {scripts}; style-src {styles}; base-uri 'none'; form-action 'none'"


@cache
def assets() -> Assets:
    """Return the parts, read once."""
    return Assets(
        template=asset_text("template.html"),
        styles=(palette_css(), *(_inline(name) for name in _STYLES)),
        early_scripts=tuple(_inline(name) for name in _EARLY_SCRIPTS),
        scripts=tuple(_inline(name) for name in _SCRIPTS),
        licences=tuple((library, asset_text(name)) for library, name in _LICENCES),
    )


def asset_text(name: str) -> str:
    """Return the text of a file below ``assets``."""
    return (_ROOT / name).read_text(encoding="utf-8")


def _inline(name: str) -> str:
    """Return an asset as it stands between its tags; digests are taken of exactly this."""
    text = asset_text(name).replace("\r\n", "\n")
    begin = text.rfind("\n", 0, max(0, text.find(_MAPPING))) + 1  # of its line: scripts are long
    return text[:begin] + _SOURCE_MAP.sub("", text[begin:]) if _MAPPING in text else text


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
