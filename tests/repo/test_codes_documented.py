"""Diagnostic codes: what the source uses is registered, what is registered is used, and the corpus shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from probe_flow.errors import CODES
from probe_flow.errors.explanations import FILES, read_file
from probe_flow.workflow.lint import RULES

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r'"(PF[0-9]{4})"')


def used_codes() -> set[str]:
    used: set[str] = set()
    for path in (ROOT / "probe_flow").rglob("*.py"):
        used |= set(CODE.findall(path.read_text(encoding="utf-8")))
    return used


def test_every_code_in_the_source_is_registered() -> None:
    assert used_codes() - set(CODES) == set()


def test_every_registered_code_is_used() -> None:
    assert set(CODES) - used_codes() == set()


@pytest.mark.parametrize("digit", "12345679")
def test_codes_stand_in_their_section_and_once(digit: str) -> None:
    ids = [code for name in FILES if name.startswith(f"PF{digit}") for code in read_file(name)]
    assert ids
    assert ids == sorted(set(ids))
    assert all(each.startswith(f"PF{digit}") for each in ids)


def test_every_code_says_cause_example_and_cure() -> None:
    for code in CODES.values():
        assert all((code.title, code.cause, code.example, code.cure)), code.id


def test_every_code_of_the_workflow_file_has_a_corpus_file() -> None:
    shown: set[str] = set()
    for path in (ROOT / "tests" / "corpus").rglob("*.expected.txt"):
        shown |= set(re.findall(r"^(?:error|warning)\[(PF[0-9]{4})\]", path.read_text(encoding="utf-8"), re.MULTILINE))
    # What `lint` finds is shown in tests/cli/test_lint_command.py, rule by rule.
    elsewhere = {"PF1020", "PF1021", "PF1022", "PF1313"}  # installed packages, many files, a thousand stages
    wanted = {code for code in CODES if code.startswith(("PF1", "PF20"))} - elsewhere - {*RULES}
    assert wanted - shown == set()
