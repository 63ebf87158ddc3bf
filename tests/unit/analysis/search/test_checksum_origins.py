"""Where checksums begin to differ, over small hand-made runs."""

from __future__ import annotations

import pytest
from comparison_rows import IN, OUT, PARAM, checksum_row, key, pairs_of, statistics
from concluded_rows import findings_of, roles_of
from msgspec.structs import replace

from probe_flow.records import FindingKind, NodeKey, Phase, Role, SlotRole
from probe_flow.records.row import Row

SUM = "Distributed.all_reduce"


def test_checksums_name_where_they_begin_to_differ():
    rows = [
        checksum_row("a", IN, "01", "01"), checksum_row("a", OUT, "02", "02"),
        checksum_row("b", IN, "02", "02"), checksum_row("b", OUT, "f3", "03"),
        checksum_row("c", IN, "f3", "03"), checksum_row("c", OUT, "f4", "04"),
    ]  # fmt: skip
    (finding,) = findings_of(rows, pairs_of(rows))
    assert (finding.kind, finding.node.name) == (FindingKind.CHECKSUM_ORIGIN, "b")
    assert finding.fails
    assert roles_of(rows, pairs_of(rows))[3:] == [Role.ORIGIN, Role.INHERITED, Role.INHERITED]


@pytest.mark.parametrize("role", [IN, PARAM])
def test_checksums_blame_inputs_of_the_network_and_parameters(role):
    rows = [checksum_row("a", role, "f1", "01"), checksum_row("a", OUT, "f2", "02")]
    (finding,) = findings_of(rows, pairs_of(rows))
    assert finding.row == 0
    assert "nothing before it explains" in finding.evidence


def test_checksums_blame_a_stale_input():
    rows = [checksum_row("a", OUT, "01", "01"), checksum_row("b", IN, "f1", "01"), checksum_row("b", OUT, "f2", "02")]
    (finding,) = findings_of(rows, pairs_of(rows))
    assert (finding.row, finding.slot.role) == (1, IN)


def hashed_late(name: str, role: SlotRole, target: str, golden: str) -> Row:
    """A row of a collective whose checksums may differ, and whose recorded statistics agree."""
    row = checksum_row(name, role, target, golden)
    sides = [side.changed(recorded=statistics()) for side in (row.pair.target, row.pair.golden)]
    return replace(row, pair=replace(row.pair, target=sides[0], golden=sides[1]))


def test_a_checksum_beside_statistics_that_agree_is_named_only_where_nothing_else_is():
    late = hashed_late(SUM, IN, "f1", "01")
    wrong = [checksum_row("b", IN, "05", "05"), checksum_row("b", OUT, "f3", "03")]
    rows = [late, checksum_row(SUM, OUT, "02", "02"), *wrong]
    assert [each.node.name for each in findings_of(rows, pairs_of(rows))] == ["b"]
    assert findings_of(rows[:2], pairs_of(rows[:2])) == ()
    (finding,) = findings_of([late], pairs_of([late]))
    assert finding.node.name == SUM
    assert "hashed late" in finding.evidence


def test_what_a_collective_makes_of_another_ranks_tensor_inherits():
    of_rank = {rank: key(SUM, rank=rank) for rank in (0, 1)}
    rows = [
        checksum_row(of_rank[0], IN, "01", "01"), checksum_row(of_rank[0], OUT, "f2", "02"),
        checksum_row(key("a", rank=1), IN, "05", "05"), checksum_row(key("a", rank=1), OUT, "f6", "06"),
        checksum_row(of_rank[1], IN, "f6", "06"), checksum_row(of_rank[1], OUT, "f2", "02"),
    ]  # fmt: skip
    assert [each.node.name for each in findings_of(rows, pairs_of(rows))] == ["a"]


def test_checksums_of_modules_and_gradients_follow_the_operator_that_is_wrong():
    backward = NodeKey(key("op").execution, "op", phase=Phase.BACKWARD)
    rows = [
        checksum_row("op", IN, "01", "01"), checksum_row("op", OUT, "f2", "02"),
        checksum_row("module", IN, "01", "01"), checksum_row("module", OUT, "f2", "02"),
        checksum_row(backward, IN, "05", "05"), checksum_row(backward, OUT, "f6", "06"),
    ]  # fmt: skip
    assert [finding.row for finding in findings_of(rows, pairs_of(rows))] == [1]
    roles = roles_of(rows, pairs_of(rows))
    assert [number for number, role in enumerate(roles) if role is Role.INHERITED] == [3, 5]
    # On its own, a wrong gradient is an origin.
    right = [rows[0], checksum_row("op", OUT, "02", "02"), *rows[4:]]
    assert [finding.row for finding in findings_of(right, pairs_of(right))] == [3]
