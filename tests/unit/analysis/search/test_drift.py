"""Drift: outputs of a network that are off though no operator is to blame."""

from __future__ import annotations

import pytest
from comparison_rows import IN, edge, pairs_of, row
from concluded_rows import U, chain, findings_of
from msgspec.structs import replace

from probe_flow.records import FindingKind, Phase


@pytest.mark.parametrize(("phase", "found"), [(Phase.FORWARD, [FindingKind.DRIFT]), (Phase.BACKWARD, [])])
def test_what_is_called_once_gradients_flow_is_no_output_of_the_network(phase, found):
    """Functions of one's own call operators in the backward pass, which collectors take for forward calls."""
    rows, pairs = chain(*(U * 1.09**n for n in range(70)))
    rows = [row(replace(rows[0].node, name="begun", phase=phase), mark=9.0), *rows]
    assert [each.kind for each in findings_of(rows, pairs_of(rows, edges=pairs.target.edges))] == found


@pytest.mark.parametrize(
    ("op_type", "found"), [("Tanh", [FindingKind.DRIFT]), ("TanhGrad", []), ("Conv2DBackpropInputD", [])]
)
def test_what_a_graph_runs_once_gradients_flow_is_no_output_of_the_network(op_type, found):
    rows, pairs = chain(*(U * 1.09**n for n in range(70)))
    rows = [row("begun", mark=9.0), *rows]
    found_of = findings_of(rows, pairs_of(rows, {"begun": op_type}, edges=pairs.target.edges))
    assert [each.kind for each in found_of] == found


def test_drift_is_reported_when_nothing_jumps():
    errors = [U * 1.09**n for n in range(70)]
    rows, pairs = chain(*errors)
    (finding,) = findings_of(rows, pairs)
    assert finding.kind is FindingKind.DRIFT
    assert finding.node.name == "n69"
    assert finding.fails
    assert finding.evidence == (
        "relative error grows from 4.9e-04 to 1.9e-01 over 70 outputs (x 1.090 each), beyond 5.0e-02, without a jump "
        "at any single operator"
    )
    assert finding.severity == pytest.approx(errors[-1] / 5e-2)


def test_drift_that_was_larger_on_the_way_does_not_grow():
    errors = [U * 1.09**n for n in range(70)]
    (finding,) = findings_of(*chain(*errors, *(0.8 * errors[-1] for _ in range(3))))
    assert finding.evidence.startswith(
        "relative error 1.5e-01 at the end of 73 outputs, after 4.9e-04 at the first that is off and 1.9e-01 at most, "
        "at `n69.output.0`, beyond 5.0e-02"
    )


def test_drift_names_where_the_error_grows_most():
    """The sine of angles of 200 that are off by 0.24 is off by a tenth; what copies it adds nothing."""
    rows = [
        row("angles", relative=1.2e-3, size=200.0, mark=1.0),
        row("sine", IN, relative=1.2e-3, size=200.0, mark=1.0),
        row("sine", relative=0.1, mark=2.0),
        row("copy", IN, relative=0.1, mark=2.0),
        row("copy", relative=0.1, mark=3.0),
    ]
    types = {"angles": "Mul", "sine": "Sin", "copy": "Transpose"}
    finding, *_ = findings_of(rows, pairs_of(rows, types, [edge("angles", "sine"), edge("sine", "copy")]))
    assert finding.kind is FindingKind.DRIFT
    assert "; it grows most at `sine.output.0`, from 1.2e-03 in what it reads to 1.0e-01" in finding.evidence


def test_drift_within_the_limit_is_none():
    assert findings_of(*chain(*(U * 1.09**n for n in range(50)))) == ()  # 3.3e-2


def test_noise_gradients_and_whole_numbers_do_not_drift():
    # The gradient is mathematically zero: the golden is a thousandth of what was summed up.
    rows = [row("s", IN, 0, size=1.0), row("s", IN, 1, size=1.0), row("s", size=1e-4, relative=1.0, peak=4e-4)]
    assert findings_of(rows, pairs_of(rows, {"s": "Sub"})) == ()
    flips = [row("t", IN, relative=U), row("t", relative=0.1, dtype="int64", peak=1.0)]
    assert findings_of(flips, pairs_of(flips, {"t": "TopKV2"})) == ()


def test_drift_names_what_comes_nearest_to_an_origin():
    # From n39 to n40 the error grows by 2.4, which is less than what accuses, and more than anywhere else.
    errors = [U * 1.09**n * (2.2 if n >= 40 else 1.0) for n in range(70)]
    finding, *near = findings_of(*chain(*errors))
    assert [(each.kind, each.fails) for each in near] == [(FindingKind.SUSPECT, False)]
    assert near[0].node.name == "n40"
    assert finding.kind is FindingKind.DRIFT
    assert "; `n40.output.0` comes nearest to being accused, with " in finding.evidence
