"""Golden arrays of Caffe that a layer in place overwrote: they accuse nobody, and equal arrays for other reasons do."""

from __future__ import annotations

import numpy as np
import pytest
from offline_builders import Case
from om_writer import tensor
from rule_builders import desc, op

from probe_flow.comparing.asked import Asked, Recompute
from probe_flow.comparing.steps import compare_pairs
from probe_flow.records import FindingKind
from probe_flow.testing.run_records import run_record
from probe_flow.work import Context, Settings

RANDOM = np.random.default_rng(31)
BOTTOM = RANDOM.standard_normal((2, 8, 6, 6)).astype(np.float32)
NORM = (BOTTOM * 0.8 + 0.3).astype(np.float32)
RELU = np.maximum(NORM, 0)
SECOND = (RELU * 2 - 1).astype(np.float32)
LAST = np.maximum(SECOND, 0)
TRUTH = {"conv": BOTTOM, "bn": NORM, "relu": RELU, "conv2": SECOND, "relu2": LAST}
IN_PLACE = {"conv": RELU, "bn": RELU, "relu": RELU, "conv2": LAST, "relu2": LAST}
READS = {"conv": None, "bn": "conv", "relu": "bn", "conv2": "relu", "relu2": "conv2"}
TYPES = {"conv": "Conv2D", "bn": "BNInferenceD", "relu": "Relu", "conv2": "Conv2D", "relu2": "Relu"}


def compared(folder, target, golden, reads=READS, types=TYPES):
    """Compare operators in a line, of which the target computed this and the golden has that."""
    case, ops = Case(folder), []
    for number, (name, source) in enumerate(reads.items()):
        given = [] if source is None else [tensor(target[source].astype(np.float16), "float16")]
        case.device(types[name], name, inputs=given, outputs=[tensor(target[name].astype(np.float16), "float16")])
        case.golden.output(name, 0, golden[name])
        shape = target[name].shape
        described = desc(name, 0, shape=shape, origin_shape=shape)
        inputs = [] if source is None else [f"{source}:0"]
        ops.append(op(name, types[name], number=number + 1, inputs=inputs, originals=[name], outputs=[described]))

    def in_order(function, batches, **_):
        return iter([(number, function(batch)) for number, batch in enumerate(batches)])

    context = Context(
        stage="compare", output=folder, map=in_order, emit=lambda *_, **__: None, report=lambda _: None,
        settings=Settings(), facts=run_record(), isolate=lambda *_: in_order,
    )  # fmt: skip
    pairs = case.match(rule=case.rule(*ops))
    return compare_pairs(pairs, Asked(policy="offline", recompute=Recompute("never")), context, None)


def accused(found):
    return [each.node.name for each in found.findings if each.kind is FindingKind.ORIGIN and each.fails]


def left(found):
    alone = (row.pair for row in found.rows if row.pair.golden is None and row.is_produced)
    return sorted(pair.target.node.name for pair in alone)


def test_arrays_of_a_layer_in_place_accuse_no_layer_before_it(tmp_path):
    found = compared(tmp_path, TRUTH, IN_PLACE)
    assert accused(found) == []
    assert left(found) == ["bn", "conv", "conv2"]
    told = [each for each in found.problems if each.code == "PF5133"]
    assert len(told) == 1
    assert "`conv` has that of `relu`" in told[0].message
    assert found.incomplete


def test_tops_of_their_own_leave_nothing_out(tmp_path):
    found = compared(tmp_path, TRUTH, TRUTH)
    assert (accused(found), left(found), found.incomplete) == ([], [], ())


@pytest.mark.parametrize("wrong", ["relu", "relu2"])
def test_the_layer_in_place_itself_is_still_judged(tmp_path, wrong):
    """The array is its golden; that the other chain agrees shows what the golden is."""
    target = {**TRUTH, wrong: TRUTH[wrong] * 1.3}
    if wrong == "relu":
        target |= {"conv2": target["relu"] * 2 - 1}
        target["relu2"] = LAST
    found = compared(tmp_path, target, IN_PLACE)
    assert accused(found) == [wrong]
    assert left(found) == ["bn", "conv", "conv2"]


def test_what_computes_before_a_layer_in_place_is_named_there(tmp_path):
    """Its own array is lost: the layer behind it is the first that shows it, by as little as others do."""
    target = {**TRUTH, "conv2": SECOND * 1.05, "relu2": LAST * 1.05}
    found = compared(tmp_path, target, IN_PLACE)
    assert (accused(found), left(found)) == (["relu2"], ["bn", "conv", "conv2"])


def test_a_layer_that_changes_nothing_has_an_equal_array_too(tmp_path):
    """A rectifier behind another one: both are wrong where the first is."""
    reads = {"relu": None, "again": "relu"}
    types = {"relu": "Relu", "again": "Relu"}
    found = compared(tmp_path, dict.fromkeys(reads, RELU * 1.3), dict.fromkeys(reads, RELU), reads, types)
    assert (accused(found), left(found)) == (["relu"], [])


def test_a_permutation_has_equal_figures_beside_layers_in_place(tmp_path):
    """Where other arrays were overwritten, a wrong layer in front of a permutation is still the one to blame."""
    reads, types = READS | {"loc": "relu2", "perm": "loc"}, TYPES | {"loc": "Conv2D", "perm": "TransposeD"}
    loc, turned = (LAST - 0.5).astype(np.float32), (0, 2, 1, 3)
    wrong = loc.copy()
    wrong[0] = 0
    cube, bad = loc[:, :6], wrong[:, :6]
    target = {**TRUTH, "loc": bad, "perm": bad.transpose(turned)}
    golden = {**IN_PLACE, "loc": cube, "perm": cube.transpose(turned)}
    found = compared(tmp_path, target, golden, reads, types)
    assert (accused(found), left(found)) == (["loc"], ["bn", "conv", "conv2"])


def test_equal_branches_are_no_layers_behind_each_other(tmp_path):
    reads = {"left": None, "right": None, "sum": "left"}
    types = {"left": "Conv2D", "right": "Conv2D", "sum": "Add"}
    target = {"left": NORM * 1.3, "right": NORM, "sum": NORM * 1.3 + 1}
    golden = {"left": NORM, "right": NORM, "sum": NORM + 1}
    found = compared(tmp_path, target, golden, reads, types)
    assert (accused(found), left(found)) == (["left"], [])
