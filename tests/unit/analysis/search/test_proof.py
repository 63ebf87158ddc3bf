"""What recomputing proves, in the search: the wrong stand for themselves, the right only carry on."""

from __future__ import annotations

from comparison_rows import IN, edge, pairs_of, passes, row

from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind, Role
from probe_flow.records.row import Recomputed

RIGHT = Recomputed("rms", 2e-4, 5e-4, 0.4)
WRONG = Recomputed("rms", 1.2e-2, 5e-4, 24.0, golden=0.3)


def chain(*parts, types=None):
    """Nodes n0, n1 ... each with the relative error of its output, and what recomputing it gave."""
    rows, edges = [row("n0", IN, relative=0.0)], []
    for number, (error, own) in enumerate(parts):
        if number:
            rows.append(row(f"n{number}", IN, relative=parts[number - 1][0]))
            edges.append(edge(f"n{number - 1}", f"n{number}"))
        rows.append(row(f"n{number}", relative=error).with_aside(recomputed=own))
    return rows, pairs_of(rows, types, edges or [edge("nowhere", "n0", 9)])


def origins(rows, pairs):
    findings, _ = conclude(rows, pairs, passes(rows))
    return [finding.node.name for finding in findings if finding.kind is FindingKind.ORIGIN and finding.fails]


def test_a_second_fault_hides_in_what_the_first_explains_until_it_is_proven():
    hidden = chain((0.3, None), (0.3, None), (0.31, None))
    assert origins(*hidden) == ["n0"]
    assert origins(*chain((0.3, None), (0.3, RIGHT), (0.31, WRONG))) == ["n0", "n2"]


def test_the_evidence_says_what_the_inputs_make_and_what_the_type_explains():
    rows, pairs = chain((0.3, None), (0.31, WRONG))
    findings, verdicts = conclude(rows, pairs, passes(rows))
    second = [finding for finding in findings if finding.node.name == "n1"]
    assert "given its own inputs, the output is off by 1.2e-02 where float16 explains 5.0e-04" in second[0].evidence
    assert [verdict.role for verdict in verdicts][-1] is Role.ORIGIN


def test_what_the_golden_is_off_by_too_is_not_understood_and_accuses_nobody():
    alike = Recomputed("rms", 1.2e-2, 5e-4, 24.0, golden=22.0)
    unknown = Recomputed("rms", 1.2e-2, 5e-4, 24.0)
    for own in (alike, unknown, Recomputed(reason="its result is random")):
        assert origins(*chain((0.3, None), (0.31, own))) == ["n0"]
        assert origins(*chain((1e-5, own), (1e-5, own))) == []


def test_one_number_that_a_framework_sums_in_16_bits_proves_nothing():
    by_torch = Recomputed("rms", 0.13, 0.016, 8.0, golden=0.3, by="torch, in float64")
    for count, named in ((1, []), (16, ["a"])):
        result = row("a", relative=0.005, count=count, dtype="bfloat16").with_aside(recomputed=by_torch)
        rows = [row("a", IN, relative=0.0), result]
        assert origins(rows, pairs_of(rows, None, [edge("nowhere", "a", 9)])) == named


def test_a_result_within_rounding_of_the_golden_is_never_wrong():
    assert origins(*chain((1e-5, WRONG), (1e-5, None))) == []


def test_an_operator_that_only_carries_on_is_cleared_where_all_that_feeds_it_is_right():
    amplified = (1e-4, RIGHT), (3e-4, RIGHT), (0.05, None)
    assert origins(*chain(*amplified)) == ["n2"]
    rows, pairs = chain(*amplified[:2], (0.05, RIGHT))
    findings, _ = conclude(rows, pairs, passes(rows))
    assert [finding.kind for finding in findings if finding.fails] == []
    assert "carries on" in next(finding.evidence for finding in findings if finding.kind is FindingKind.SUSPECT)


def cut(after):
    """Positions from a product: 1.9999999 is cut to 1, and the rows that are gathered there are others."""
    rows = [row("m", IN, relative=0.0), row("m", relative=1e-7, dtype="float32", mark=1.0).with_aside(recomputed=RIGHT)]
    rows += [row("cut", IN, relative=1e-7, dtype="float32", mark=1.0)]
    rows.append(row("cut", relative=0.9, peak=1.0, dtype="int32", mark=2.0).with_aside(recomputed=RIGHT))
    rows += [row("take", IN, relative=0.9, peak=1.0, dtype="int32", mark=2.0)]
    rows.append(row("take", relative=after, mark=3.0).with_aside(recomputed=RIGHT))
    edges = [edge("m", "cut"), edge("cut", "take"), edge("nowhere", "m", 9)]
    findings, _ = conclude(rows, pairs_of(rows, {"m": "Mul", "cut": "Cast", "take": "GatherV2"}, edges), passes(rows))
    return {each.kind: each.evidence for each in findings}


def test_whole_numbers_that_values_at_an_edge_were_cut_to_are_told_as_what_they_are():
    told = cut(0.5)
    assert "`cut.output.0` holds other whole numbers (relative error 9.0e-01)" in told[FindingKind.SUSPECT]
    assert "with a jump at `cut.output.0`, where values at an edge fell the other way" in told[FindingKind.DRIFT]


def test_it_is_not_cleared_where_what_feeds_it_may_be_wrong():
    assert origins(*chain((1e-4, None), (3e-4, RIGHT), (0.05, RIGHT))) == ["n2"]


def test_a_logarithm_near_zero_makes_more_of_an_error_than_its_size_tells():
    parts = (1e-4, None), (3e-4, RIGHT), (0.05, RIGHT)
    assert origins(*chain(*parts, types={"n2": "Log"})) == []
    assert origins(*chain(*parts[:2], (0.05, None), types={"n2": "Log"})) == ["n2"]


def test_a_sum_that_cancels_makes_more_of_a_rounding():
    # 15 times the error that it read, which is that of a rounding: no fault where it is proven to be right.
    few = 1.2 * 2.0**-11
    assert origins(*chain((few, None), (15.0 * few, RIGHT))) == []
    assert origins(*chain((few, None), (15.0 * few, None))) == ["n1"]
    assert origins(*chain((few, None), (20.0 * few, RIGHT))) == ["n1"]


def test_what_comes_near_to_being_one_is_blamed_for_what_is_carried_on():
    near = 2.0**-11 * 1.9
    assert origins(*chain((1e-5, RIGHT), (near, None), (0.05, RIGHT))) == ["n1"]
    assert origins(*chain((1e-5, RIGHT), (near, None), (0.05, None))) == ["n2"]


def test_an_input_that_nothing_is_known_to_have_written_is_blamed_for_what_is_carried_on():
    """In a program, whose results are told by their values: the second input is no earlier one, and off a little."""
    rows = [row("n0", IN, relative=0.0, mark=1.0), row("n0", relative=1e-4, mark=2.0).with_aside(recomputed=RIGHT)]
    rows += [row("n1", IN, relative=1e-4, mark=2.0), row("n1", IN, 1, relative=1e-3, mark=3.0)]
    rows.append(row("n1", relative=0.05, mark=4.0).with_aside(recomputed=RIGHT))
    findings, _ = conclude(rows, pairs_of(rows, {"n1": "maximum"}), passes(rows))
    assert [(each.node.name, str(each.slot)) for each in findings if each.fails] == [("n1", "input.1")]
