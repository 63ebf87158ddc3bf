"""Put the built site into the wheel, if the build is asked for it: ``PROBE_FLOW_SITE=build/site`` (`make wheel`).

Without that a wheel has the pages as they are in docs/, so that building one needs neither mkdocs nor a network, and is
the same on every machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SiteHook(BuildHookInterface[Any]):
    """hatchling calls `initialize` before it collects the files of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the site.

        Raises:
            ValueError: the folder that is named holds none.
        """
        named = os.environ.get("PROBE_FLOW_SITE")
        if not named or version == "editable":
            return
        site = Path(self.root, named)
        if not (site / "index.html").is_file():
            raise ValueError(f"PROBE_FLOW_SITE={named}: there is no site in `{site}`; `make docs-site` builds it")
        build_data["force_include"][str(site)] = "probe_flow/_packaged/site"
