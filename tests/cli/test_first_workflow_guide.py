"""The guide from two dumps to a workflow: its commands run as they stand, in its order, and print what it says."""

from __future__ import annotations

from pathlib import Path

from tests.cli.test_offline_guide import BLOCK, commands

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "first-workflow.md"


def test_the_guide_runs_as_it_stands(probe_flow):
    count = 0
    for kind, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        for arguments, printed in commands(text) if kind == "console" else ():
            done = probe_flow(*arguments)
            assert done.code in (0, 1), (arguments, done.err)
            told = " ".join((done.out + done.err).split())
            assert [line for line in printed if line not in told] == [], told
            count += 1
    assert count == 10
