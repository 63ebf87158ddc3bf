"""What parameters may be off by that an optimizer changed, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_rows import IN, OUT, deviation, key, pairs_of, passes, row, statistics_measured, tensor
from msgspec.structs import replace

from probe_flow.analysis.model.growth import Allowance
from probe_flow.analysis.model.updates import Unseen, with_unseen
from probe_flow.analysis.search.conclude import conclude
from probe_flow.records import FindingKind, Phase, SlotRole, Statistics

NODES = ("first", "second", "third", "last")


def trained(moves: float, *, prefix: str = "", says: bool | None = True):
    """Rows of four vectors of 48 in two steps; all but the last one's smallest element move by ``moves``.

    The last one's statistics stay as they are, though 8 % of its elements went the other way: 0.0056 of 0.18. ``says``:
    what the dump says of whether they need a gradient.
    """
    rows = []
    for step in (0, 1):
        for place, name in enumerate(NODES):
            is_last = name == "last"
            moved = 0.0 if is_last else moves * step
            node = key(prefix + name, step=step)
            sizes = {"size": 0.176, "count": 48, "dtype": "bfloat16", "mark": 0.1 * place + moved}
            bias = row(node, IN, 1, relative=step * (0.032 if is_last else 0.005), **sizes)
            known = tensor(node, IN, 1, dtype="bfloat16", requires_grad=says, shape=(48,))
            backward = replace(node, phase=Phase.BACKWARD)
            gradient = row(backward, relative=0.01, **{**sizes, "size": 0.1, "mark": 5.0 + place + step})
            rows += [replace(bias, pair=replace(bias.pair, golden=known)), gradient]
    return rows


def accused(rows):
    """Forward nodes that are origins."""
    types = dict.fromkeys((each.node.name for each in rows), "linear")
    found, _ = conclude(rows, pairs_of(rows, types), passes(rows))
    origins = [each.node for each in found if each.kind is FindingKind.ORIGIN and each.fails]
    return [each.name for each in origins if each.phase is Phase.FORWARD]


@pytest.mark.parametrize(("moves", "named"), [(0.01, []), (1e-4, ["last"])])
def test_a_vector_moves_as_far_as_half_of_the_others_though_its_statistics_stay(moves, named):
    """Four times half of 0.01 is allowed: 0.02 of 0.176."""
    assert accused(trained(moves)) == named


@pytest.mark.parametrize(("moves", "named"), [(0.01, []), (1e-4, ["Primitive.last"])])
def test_what_has_a_gradient_is_trained_where_the_dump_does_not_say(moves, named):
    """MindSpore records of no tensor whether it needs a gradient."""
    assert accused(trained(moves, prefix="Primitive.", says=None)) == named


def test_the_state_behind_the_parameters_of_a_primitive_is_not_trained():
    """A batch norm reads scale, offset, mean and variance of one shape, and has two gradients of that shape."""
    rows = []
    for step in (0, 1):
        node = key("Primitive.bn.BatchNorm", step=step)
        backward = replace(node, phase=Phase.BACKWARD)
        moved = {"count": 48, "dtype": "float32", "size": 0.2}
        rows += [
            row(node, IN, place, relative=0.02 * step, mark=place + 0.02 * step, **moved) for place in (1, 2, 3, 4)
        ]
        rows += [row(backward, OUT, place, relative=1e-6, mark=9.0 + place, **moved) for place in (0, 1)]
    found, _ = conclude(rows, pairs_of(rows, {"Primitive.bn.BatchNorm": "BatchNorm"}), passes(rows))
    assert [each.slot.path for each in found if each.kind is FindingKind.ORIGIN and each.fails] == [(3,), (4,)]


def test_a_parameter_of_a_primitive_that_begins_at_zero_may_be_noise_all_over():
    """The offset of a norm before a norm: its gradient is zero in mathematics, and it moves by more than its size."""
    rows = []
    for step, size in enumerate((1e-5, 1e-3)):
        node = key("Primitive.bn.BatchNorm", step=step)
        scale = {"count": 48, "dtype": "float32", "size": 1.0, "mark": 3.0 + step}
        offset = {"count": 48, "dtype": "float32", "size": size, "mark": step * size}
        rows += [row(node, IN, 1, **scale), row(node, IN, 2, relative=1.2 * step, **offset)]
        backward = {"count": 48, "dtype": "float32", "size": 1e-9, "mark": 1e-10 * (step + 1)}
        rows += [row(replace(node, phase=Phase.BACKWARD), OUT, place, relative=1e-3, **backward) for place in (0, 1)]
    assert accused(rows) == []


@pytest.mark.parametrize(("relative", "named"), [(0.01, []), (0.2, ["Cell.bn.Norm"])])
def test_the_running_mean_of_a_cell_is_off_as_what_it_read(relative, named):
    """MindSpore records it when the call is over: the mean of 8 is off by 0.005 of 0.5, twice that is allowed."""
    node = key("Cell.bn.Norm", step=0)
    read = row(node, IN, 0, relative=0.01, mark=1.0, size=0.5, dtype="float32")
    mean = row(node, SlotRole.PARAMETER, "moving_mean", relative=relative, mark=2.0, size=0.5, count=8, dtype="float32")
    rows = [row("before", OUT, 0, relative=0.01, mark=1.0, size=0.5, dtype="float32"), read, mean]
    assert [each for each in accused(rows) if each != "before"] == named


@pytest.mark.parametrize(("peak", "named"), [(0.018, []), (0.05, ["first"])])
def test_one_element_of_a_weight_may_go_the_other_way(peak, named):
    """Adam moves each by 0.01, whatever the size of its gradient: 0.02 apart at most where the sign is noise."""
    rows = []
    for step in (0, 1):
        node = key("first", step=step)
        shape = {"count": 4096, "size": 0.2, "dtype": "float32"}
        weight = row(node, IN, 1, relative=step * peak / 64 / 0.2, peak=step * peak, mark=0.01 * step, **shape)
        known = tensor(node, IN, 1, dtype="float32", requires_grad=True, shape=(64, 64))
        gradient = row(replace(node, phase=Phase.BACKWARD), OUT, 1, relative=1e-7, mark=5.0 + step, **shape)
        rows += [replace(weight, pair=replace(weight.pair, target=known, golden=known)), gradient]
    assert accused(rows) == named


ROWS, WIDTH = 30, 16


def by_statistics(node, role, place, target, golden, *, is_parameter=False):
    """A row of two arrays in float32 of which statistics were recorded."""
    sides = [
        Statistics(
            min=float(each.min()), max=float(each.max()), mean=float(each.mean()), l2norm=float(np.linalg.norm(each)),
            nan=0, inf=0,
        )
        for each in (target, golden)
    ]  # fmt: skip
    measured = statistics_measured(*sides, count=golden.size)
    found = row(node, role, place, measurement=measured, dtype="float32")
    shown = [
        tensor(node, role, place, dtype="float32", shape=golden.shape, requires_grad=is_parameter or None)
        for _ in sides
    ]
    return replace(found, pair=replace(found.pair, target=shown[0], golden=shown[1]))


def attended(moved, *, spoil=1.0):
    """Queries and keys of one product, and their scores, in two steps.

    The bias of the keys has a gradient of zero in mathematics, so that Adam moves it by a whole step of ``moved`` one
    way or the other; that of the queries moves alike. The gradients of both together agree to 2**-23.
    """
    chance = np.random.default_rng(3)
    read = [chance.standard_normal((ROWS, WIDTH)) for _ in range(2)]
    weight, signs = chance.standard_normal((WIDTH, 2 * WIDTH)) / 8.0, np.tile((1.0, -1.0), WIDTH)
    rows = []
    for step, x in enumerate(read):
        product, scores = key("qk", step=step), key("scores", step=step)
        moves = [np.repeat((moved, way), WIDTH) for way in (moved, -moved)]  # of queries and keys, on both sides
        sides = [(np.repeat((0.8, 0.26), WIDTH) + step * each) * signs for each in moves]
        made = [x @ weight + each for each in sides]
        rows += [
            by_statistics(product, IN, 0, x, x),
            by_statistics(product, IN, 1, weight, weight, is_parameter=True),
            by_statistics(product, IN, 2, *sides, is_parameter=True),
            by_statistics(product, OUT, 0, *made),
        ]
        parts = [[each[:, :WIDTH], each[:, WIDTH:].T] for each in made]
        split = key("split", step=step)
        rows.append(by_statistics(split, IN, 0, *made))
        rows += [by_statistics(split, OUT, place, *two) for place, two in enumerate(zip(*parts, strict=True))]
        rows += [by_statistics(scores, IN, place, *two) for place, two in enumerate(zip(*parts, strict=True))]
        rows.append(by_statistics(scores, OUT, 0, spoil * parts[0][0] @ parts[0][1], parts[1][0] @ parts[1][1]))
        grads = chance.standard_normal((WIDTH, 2 * WIDTH)), np.append(chance.standard_normal(WIDTH), np.zeros(WIDTH))
        back = replace(product, phase=Phase.BACKWARD)
        rows += [by_statistics(back, OUT, place, (1.0 + 2.0**-23) * each, each) for place, each in enumerate(grads, 1)]
    return rows, pairs_of(rows, {"qk": "linear", "split": "chunk", "scores": "matmul"})


@pytest.mark.parametrize(("moved", "spoil", "named"), [(1e-3, 1.0, []), (0.0, 1.0, []), (0.0, 1.005, ["scores"])])
def test_a_bias_of_keys_that_moved_by_noise_takes_its_error_into_the_scores(moved, spoil, named):
    rows, pairs = attended(moved, spoil=spoil)
    found, _ = conclude(rows, pairs, passes(rows))
    origins = [each for each in found if each.kind is FindingKind.ORIGIN and each.fails]
    assert [each.node.name for each in origins][:1] == named


@pytest.mark.parametrize(("gradient", "named"), [(900.0, []), (0.5, ["bias"])])
def test_a_bias_moves_by_the_noise_of_a_gradient_that_is_zero_in_mathematics(gradient, named):
    """The golden's update is lost in storing: 4e-9 of 0.14. That of a target in 16 bits is 900 times as large."""
    rows = []
    for step in (0, 1):
        node = key("bias", step=step)
        sizes = {"size": 0.14, "count": 8, "dtype": "float32"}
        bias = row(node, IN, 2, relative=1.5e-5 * step, **sizes)
        known = tensor(node, IN, 2, dtype="float32", requires_grad=True, shape=(8,))
        backward = replace(node, phase=Phase.BACKWARD)
        noise = {"relative": gradient, "size": 2e-8, "count": 8, "dtype": "float32", "mark": 1e-8 * (1 + step)}
        rows += [replace(bias, pair=replace(bias.pair, golden=known)), row(backward, **noise)]
    assert accused(rows) == named


def written(read: float):
    """Rows of an optimizer's call that is wrong, and of a weight in the next step: ``read`` is its error there."""
    begin, write, after = key("layer", step=0), key("add_", step=0), key("layer", step=1)
    sizes = {"dtype": "float32", "count": 64}
    return [
        row(begin, IN, 1, relative=0.0, mark=1.0, **sizes), row(write, IN, 0, relative=0.0, mark=1.0, **sizes),
        row(write, OUT, 0, relative=0.01, mark=2.0, **sizes), row(after, IN, 1, relative=read, mark=2.0, **sizes),
    ]  # fmt: skip


@pytest.mark.parametrize(("read", "named"), [(0.01, ["add_"]), (0.2, ["add_", "layer"])])
def test_a_weight_has_the_error_of_the_call_that_wrote_it(read, named):
    rows = written(read)
    found, _ = conclude(rows, pairs_of(rows, {"layer": "linear", "add_": "add_"}), passes(rows))
    assert [each.node.name for each in found if each.kind is FindingKind.ORIGIN and each.fails] == named


@pytest.mark.parametrize(("relative", "named"), [(1e-6, []), (0.5, ["mul_"])])
def test_what_is_made_of_a_gradient_that_cancels_excuses_nothing_that_is_read_later(relative, named):
    """The gradient of a bias that is zero in mathematics: 4096 terms of 1, of which 1e-8 is left, all of it noise.

    Averaged over ranks it is noise still, by its terms of 64: no measure of what clipping reads next.
    """
    backward = replace(key("keys"), phase=Phase.BACKWARD)
    large, small = {"dtype": "float32", "count": 4096}, {"dtype": "float32", "count": 16}
    rows = [
        row(backward, IN, 0, relative=1e-7, mark=1.0, **large),
        row(backward, OUT, 1, relative=1.0, mark=2e-9, size=1e-8, **small),
        row("div_", IN, 0, relative=1.0, mark=2e-9, size=1e-8, **small),
        row("div_", OUT, 0, relative=1.0, mark=1e-9, size=5e-9, **small),
        row("mul_", IN, 0, relative=relative, mark=3.0, **large),
    ]
    found, _ = conclude(rows, pairs_of(rows, {"keys": "linear", "div_": "div_", "mul_": "mul_"}), passes(rows))
    assert [each.node.name for each in found if each.kind is FindingKind.ORIGIN and each.fails] == named


@pytest.mark.parametrize(("size", "named"), [(4e-9, []), (1e-3, ["add_"])])
def test_what_is_as_small_as_noise_that_was_seen_may_be_a_part_of_it(size, named):
    """The gradient of the keys' bias, scattered over two ranks by a call that no dump shows (FSDP): 8 of its 16."""
    backward = replace(key("keys"), phase=Phase.BACKWARD)
    rows = [
        row(backward, IN, 0, relative=1e-7, mark=1.0, dtype="float32", count=4096),
        row(backward, OUT, 1, relative=1.0, mark=2e-9, size=1e-8, dtype="float32", count=16),
        row("add_", IN, 1, relative=1.0, mark=3e-9, size=size, dtype="float32", count=8),
    ]
    found, _ = conclude(rows, pairs_of(rows, {"keys": "linear", "add_": "add_"}), passes(rows))
    assert [each.node.name for each in found if each.kind is FindingKind.ORIGIN and each.fails] == named


@pytest.mark.parametrize(
    ("turned", "gain", "what"),
    [
        (0.0, 0.5, "noise of the whole size may be a factor"),
        (0.4, 0.1 + 0.16, "16 % that turned is there on one side only, whatever error that leaves"),
    ],
)
def test_gates_that_turned_leave_little_of_a_factor(turned, gain, what):
    found = with_unseen(Allowance(0.0, 0.0, 0.0, 0.0, offset=0.0), Unseen(0.5, turned), deviation(), is_update=False)
    assert (found.explained, found.peak, found.gain) == pytest.approx((0.5, 0.5 * 10.0, gain)), what
