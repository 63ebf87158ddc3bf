from __future__ import annotations

import itertools

import pytest

from probe_flow.engine.run.outcome import exit_code, run_verdict

FACTS = ("stopped_by", "wrong_input", "stage_failed", "incomplete", "gate_failed")

# stopped_by (SIGTERM), wrong_input, stage_failed, incomplete, gate_failed -> code; `?` stands for both
TABLE = {
    "1????": 143,
    "01???": 2,
    "001??": 3,
    "0001?": 3,
    "00001": 1,
    "00000": 0,
}


def expected_code(facts: tuple[bool, ...]) -> int:
    text = "".join("1" if fact else "0" for fact in facts)
    fits = [
        code for row, code in TABLE.items() if all(cell in ("?", mark) for cell, mark in zip(row, text, strict=True))
    ]
    assert len(fits) == 1, text
    return fits[0]


@pytest.mark.parametrize("facts", list(itertools.product((False, True), repeat=5)))
def test_exit_code_follows_the_truth_table(facts):
    given = dict(zip(FACTS, facts, strict=True))
    assert exit_code(**given | {"stopped_by": 15 * given["stopped_by"]}) == expected_code(facts)


@pytest.mark.parametrize(
    ("code", "compared", "verdict"),
    [
        (0, True, "pass"),
        (0, False, None),
        (1, True, "fail"),
        (2, True, "stopped"),
        (3, True, "incomplete"),
        (3, False, "incomplete"),
        (130, True, "incomplete"),
    ],
)
def test_the_verdict_is_green_only_when_something_was_compared(code, compared, verdict):
    assert run_verdict(code, compared=compared) == verdict
