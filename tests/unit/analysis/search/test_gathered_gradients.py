"""Gradients that are added up over micro steps, and their norms that are put together before they are clipped."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import IN, OUT, RUN, deviation, pairs_of, passes, statistics, statistics_measured, tensor

from probe_flow.analysis.flow.calls import Calls
from probe_flow.analysis.flow.links import link
from probe_flow.analysis.model.growth import is_stack
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import Measurement, Mode, NodeKey, Pair, Phase, Rule, SideSummary, SlotRole
from probe_flow.records.row import Row

GRADIENTS = "Module.head.Linear.parameters_grad"
NORM = "Torch.vector_norm"


def recorded(values):
    wide = np.asarray(values, float)
    return statistics(
        min=float(wide.min()), max=float(wide.max()), mean=float(np.float32(wide.mean())),
        l2norm=float(np.float32(np.linalg.norm(wide))),
    )  # fmt: skip


def shown(node, role, target, golden, *, has_elements, place=0):
    target, golden = (np.asarray(each, np.float32) for each in (target, golden))
    sides = [tensor(node, role, place, dtype="float32", shape=each.shape) for each in (target, golden)]
    known = [recorded(each) for each in (target, golden)]
    measured = statistics_measured(*known, count=target.size)
    if has_elements:
        error, size = np.linalg.norm(target - golden), np.linalg.norm(golden)
        cosine = float(np.vdot(target, golden) / (np.linalg.norm(target) * size))
        figures = {
            "cosine": cosine, "euclidean_distance": float(error), "relative_euclidean_distance": float(error / size),
            "max_abs_err": float(np.abs(target - golden).max()),
        }  # fmt: skip
        summaries = SideSummary(known[0]), SideSummary(known[1])
        measured = Measurement.of(Mode.TENSOR, figures, *summaries, count=target.size, backend="hand")
    return Row(Pair(sides[0], sides[1], "g", Rule("exact")), measured)


def trained(wrong, *, has_elements, later=1.0, lost=()):
    """Two micro steps: the gradient of one is off by a factor, the other is added; then norms of all gradients."""
    random = np.random.default_rng(5)
    rows, gathered = [], [np.zeros(512, np.float32)] * 2
    for micro in range(2):
        x, other = random.standard_normal((2, 512))
        given = random.standard_normal(64)
        read = NodeKey(RUN, "Module.head.Linear", micro, Phase.BACKWARD)
        rows.append(shown(read, IN, given * (1 + 1e-7), given, has_elements=has_elements))
        noise = 1 + 1e-7 * other
        factor = (wrong, later)[micro]
        gathered = [(gathered[0] + factor * x * noise).astype("f4"), (gathered[1] + x).astype("f4")]
        node = NodeKey(RUN, GRADIENTS, micro, Phase.NONE)
        rows.append(shown(node, SlotRole.PARAMETER_GRAD, *gathered, has_elements=has_elements, place="weight"))
    others = 10.0 ** random.uniform(-3, 1, 40)
    norms = [[np.linalg.norm(each), *others * (1 + 1e-8)] for each in gathered]
    for number, (mine, golden) in enumerate(zip(*norms, strict=True)):
        node = NodeKey(RUN, NORM, number, Phase.FORWARD)
        if number == 0:
            rows.append(shown(node, IN, *gathered, has_elements=has_elements))
        if number not in lost:
            rows.append(shown(node, OUT, mine, golden, has_elements=has_elements))
    last = NodeKey(RUN, NORM, 41, Phase.FORWARD)
    rows.append(shown(last, IN, *norms, has_elements=has_elements))
    rows.append(shown(last, OUT, *map(np.linalg.norm, norms), has_elements=has_elements))
    return rows, pairs_of(rows, {"Module.head.Linear": "Linear", GRADIENTS: "Linear", NORM: "vector_norm"})


def named(rows, pairs):
    found, _ = conclude(rows, pairs, passes(rows))
    return [(each.node.name, each.node.call) for each in found if each.fails]


@pytest.mark.parametrize("has_elements", [True, False])
def test_what_a_wrong_gradient_was_added_to_is_no_second_origin(has_elements):
    assert named(*trained(1.0, has_elements=has_elements)) == []
    assert named(*trained(1.5, has_elements=has_elements)) == [(GRADIENTS, 0)]


@pytest.mark.parametrize("has_elements", [True, False])
def test_a_gradient_of_a_later_micro_step_that_is_wrong_is_one(has_elements):
    assert named(*trained(1.0, later=1.5, has_elements=has_elements)) == [(GRADIENTS, 1)]
    assert named(*trained(1.001, later=3.0, has_elements=True)) == [(GRADIENTS, 0), (GRADIENTS, 1)]


@pytest.mark.parametrize(("lost", "is_known"), [((), True), ((7,), False)])
def test_norms_that_were_put_together_are_known_by_their_values(lost, is_known):
    rows, pairs = trained(1.0, has_elements=False, lost=lost)
    made = link(rows, pairs, Calls(rows, pairs)).producers.get(len(rows) - 2, ())
    norms = [n for n, row in enumerate(rows) if row.is_produced and row.measurement.count == 1]
    assert list(made) == (norms[:-1] if is_known else [])


def test_a_tensor_that_several_feed_is_no_vector_of_numbers():
    number, whole = deviation(count=1), deviation(count=2)
    assert is_stack(whole, [number, number])
    assert not any(is_stack(whole, read) for read in ([whole, whole], [number], [number, whole], []))
    assert not is_stack(number, [number])
