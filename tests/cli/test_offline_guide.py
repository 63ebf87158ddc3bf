"""The guide to offline models: its commands run as they stand, in its order, and print what it says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "offline.md"
BLOCK = re.compile(r"^```(console|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the arguments of each command of a console block, and the lines that it prints."""
    for part in text.split("$ probe-flow ")[1:]:
        command, *printed = part.splitlines()
        yield shlex.split(command), [" ".join(line.split()) for line in printed if line]


def test_the_guide_runs_as_it_stands(probe_flow, tmp_path):
    kinds = []
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        kinds.append(kind)
        if kind == "yaml":
            name = text.splitlines()[0].removeprefix("# ")
            (tmp_path / name).write_text(text, encoding="utf-8")
            continue
        for arguments, printed in commands(text):
            done = probe_flow(*arguments)
            assert done.code in (0, 1), (arguments, done.err)
            told = " ".join((done.out + done.err).split())
            assert [line for line in printed if line not in told] == [], told
    assert len(list((tmp_path / "closer").glob("fc_output_0_*"))) == 4
    assert len(list((tmp_path / "files").glob("mapping_*.csv"))) == 1
    assert (kinds.count("yaml"), kinds.count("console")) == (2, 9)
