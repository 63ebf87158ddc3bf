from __future__ import annotations

import re
from pathlib import Path

import probe_flow
from probe_flow.errors import CODES

ROOMS = ("api", "engine", "cli")


def test_every_code_that_the_engine_and_the_commands_use_is_explained():
    package = Path(probe_flow.__file__).parent
    sources = [path for room in ROOMS for path in (package / room).rglob("*.py")]
    used = {code for path in sources for code in re.findall(r'"(PF\d{4})"', path.read_text(encoding="utf-8"))}
    assert used >= {"PF2101", "PF6002", "PF6010"}
    assert used <= set(CODES)


def test_no_section_explains_a_code_twice():
    sections = Path(probe_flow.__file__).parent.joinpath("errors", "codes").glob("*.yaml")
    defined = [code for path in sections for code in re.findall(r"^(PF\d{4}):$", path.read_text(), re.MULTILINE)]
    assert len(defined) == len(set(defined)) == len(CODES)
