"""A cast to the type that a tensor has returns that tensor: collectors record what the call before it gives back."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, pairs_of, passes, row
from msgspec.structs import replace

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Phase
from probe_flow.testing.builders import key

BACK = replace(key("cast"), phase=Phase.BACKWARD)


def network(kind: str, read: str, golden_read: str, *, error: float = 0.9, mark: float = 0.4):
    """What was cast to float32, and its gradient: the golden's is of another call, without ``mark`` what reached it."""
    rows = [
        row("cast", IN, dtype=read, golden_dtype=golden_read, relative=1e-3),
        row("cast", OUT, dtype="float32", golden_dtype="float32", relative=1e-3),
        row(BACK, IN, dtype="float32", golden_dtype="float32", relative=1e-3),
        row(BACK, OUT, dtype=read, golden_dtype=golden_read, relative=error, mark=mark),
    ]
    found, _ = conclude(rows, pairs_of(rows, {"cast": kind}), passes(rows))
    return [each.node.name for each in found if each.fails]


@pytest.mark.parametrize("kind", ["float", "to", "type_as"])
def test_the_gradient_of_a_cast_that_one_side_had_no_need_of_accuses_nobody(kind):
    assert network(kind, "bfloat16", "float32") == []


def test_one_that_shows_what_reached_it_is_judged():
    assert network("float", "bfloat16", "float32", mark=0.0) == ["cast"]


def test_one_that_both_sides_make_is_judged():
    assert network("to", "bfloat16", "float16") == ["cast"]


def test_so_is_that_of_another_call():
    assert network("relu", "float32", "float32") == ["cast"]


def test_what_reaches_a_cast_is_judged():
    rows = [row("a", OUT, relative=1e-4, mark=1.0), row("cast", IN, dtype="float32", relative=0.5, mark=1.0)]
    rows += [row("cast", OUT, dtype="float32", relative=0.5)]
    found, _ = conclude(rows, pairs_of(rows, {"cast": "float"}), passes(rows))
    assert [each.node.name for each in found if each.fails] == ["cast"]
