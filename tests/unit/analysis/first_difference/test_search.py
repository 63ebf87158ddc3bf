"""The first difference: of one process, traced through calls without counterpart, and over ranks."""

from __future__ import annotations

import pytest
from call_rows import SAME, Call, Plain, compared

from probe_flow.analysis.first_difference.search import first_differences
from probe_flow.records import Comparison, Role, Statistics, Status
from probe_flow.records.differences import DifferenceKind, EntryDifference, FirstDifference

WRONG = (9.0, 1.0)


def found(
    comparison: Comparison, thresholds: dict[str, float] | None = None
) -> dict[int | None, tuple[str, str, bool]]:
    """Rank -> name of the first difference, its kind, and whether it was received."""
    return {
        each.execution.rank: (each.first.entry.node.name, str(each.first.entry.kind and each.first.entry.kind.value),
                              each.first.received)
        for each in first_differences(comparison, thresholds)
        if each.first is not None
    }  # fmt: skip


def first(comparison: Comparison) -> FirstDifference:
    (only,) = [each.first for each in first_differences(comparison) if each.first is not None]
    return only


def entries(comparison: Comparison, thresholds: dict[str, float] | None = None) -> list[EntryDifference]:
    return [entry for each in first_differences(comparison, thresholds) for entry in each.entries]


def test_equal_calls_have_no_first_difference() -> None:
    assert found(compared(Call("Torch.mul"), Call("Torch.add"))) == {}


def test_a_call_with_equal_inputs_computed_what_is_wrong() -> None:
    comparison = compared(Call("Torch.mul"), Call("Torch.add", outputs=[WRONG]), Call("Torch.sub", [WRONG], [WRONG]))
    assert found(comparison) == {None: ("Torch.add", "value", False)}
    assert "what it reads agrees" in first(comparison).explanation


def test_wrong_inputs_without_a_source_were_received() -> None:
    comparison = compared(Call("Torch.mul"), Call("Torch.add", [WRONG], [WRONG]))
    assert found(comparison) == {None: ("Torch.add", "value", True)}


def test_the_analysis_of_the_run_decides_where_it_could_judge() -> None:
    small = (1.01, 1.0)
    comparison = compared(
        Call("Torch.noisy", outputs=[WRONG], role=Role.CLEAN), Call("Torch.add", outputs=[small], role=Role.ORIGIN)
    )
    assert found(comparison) == {None: ("Torch.add", "value", False)}


def test_own_thresholds_replace_the_analysis_metric_by_metric() -> None:
    comparison = compared(
        Call("Torch.small", outputs=[(1.3, 1.0)], role=Role.ORIGIN),
        Call("Torch.large", outputs=[WRONG], role=Role.CLEAN),
    )
    assert found(comparison, {"l2norm_diff_rel": 0.6}) == {None: ("Torch.large", "value", False)}
    assert found(comparison, {"l2norm_diff_rel": 0.2}) == {None: ("Torch.small", "value", False)}
    everything = dict.fromkeys(("max_diff_rel", "min_diff_rel", "mean_diff_rel", "l2norm_diff_rel"), 99.0)
    assert found(comparison, everything) == {}


def test_a_mean_off_by_rounding_is_no_difference() -> None:
    golden = Statistics(-1.0, 1.0, 1e-12, 2.0)
    near = Statistics(-1.0, 1.0, 9e-12, 2.0)
    far = Statistics(-1.0, 1.0, 9e-3, 2.0)
    assert found(compared(Call("Torch.a", outputs=[(near, golden)]))) == {}
    assert found(compared(Call("Torch.a", outputs=[(far, golden)]))) == {None: ("Torch.a", "value", False)}


def test_a_golden_of_zero_is_weighed_against_the_largest_value() -> None:
    golden = Statistics(0.0, 10.0, 1.0, 20.0)
    assert found(compared(Call("Torch.a", outputs=[(Statistics(1e-3, 10.0, 1.0, 20.0), golden)]))) == {}
    assert found(compared(Call("Torch.a", outputs=[(Statistics(-8.0, 10.0, 1.0, 20.0), golden)]))) != {}
    zero = Statistics(0.0, 0.0, 0.0, 0.0)
    assert found(compared(Call("Torch.a", outputs=[(Statistics(0.0, 1.0, 0.1, 1.0), zero)]))) != {}


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (Call("Torch.a", nonfinite=1), DifferenceKind.NONFINITE),
        (Call("Torch.a", [("aa", "aa")], [("aa", "bb")]), DifferenceKind.CHECKSUM),
        (Call("Torch.a", shapes=((2,), (3,))), DifferenceKind.SHAPE),
        (Call("Torch.a", [(1.0, None)], [(1.0, None)]), DifferenceKind.UNMATCHED),
        (Call("Torch.a", [(None, 1.0)], [(None, 1.0)]), DifferenceKind.UNMATCHED),
        (Call("Torch.a", [(1.0, None)], [(1.0, None)], is_expected=True), None),
        (Call("Torch.a", outputs=[WRONG], status=Status.ERROR), DifferenceKind.UNREADABLE),
        (Call("Torch.to", outputs=[WRONG], rules=("unjudged_api",)), None),
        (Call("NPU.npu_fusion_attention", outputs=[SAME, SAME, SAME, SAME, WRONG, WRONG]), None),
        (Call("NPU.npu_fusion_attention", outputs=[SAME, SAME, SAME, WRONG]), DifferenceKind.VALUE),
    ],
)
def test_every_kind_of_difference_has_its_name(call: Call, kind: DifferenceKind | None) -> None:
    assert [entry.kind for entry in entries(compared(call))] == [kind]


@pytest.mark.parametrize("name", ["Torch.empty", "Torch.empty_like", "Torch.fill_", "Tensor.__setitem__"])
def test_calls_that_hand_out_memory_are_passed_over(name: str) -> None:
    assert found(compared(Call(name, outputs=[WRONG]))) == {}


def test_what_could_not_be_read_is_no_first_difference_and_not_the_same() -> None:
    comparison = compared(Call("Torch.a", outputs=[WRONG], status=Status.ERROR), Call("Torch.b", outputs=[WRONG]))
    assert found(comparison) == {None: ("Torch.b", "value", False)}


def test_wrong_data_are_traced_to_the_first_call_without_counterpart() -> None:
    comparison = compared(
        Call("Torch.in"),
        Call("Tensor.harmless", [(1.0, None)], [(77.0, None)]),
        Call("Tensor.__mul__", [(1.0, None), (Plain(3), None)], [(3.0, None)]),
        Call("Tensor.__add__", [(3.0, None)], [(5.0, None)]),
        Call("Torch.linear", [(5.0, 1.0)], [WRONG]),
    )
    assert found(comparison) == {None: ("Tensor.__mul__", "unmatched", False)}
    assert "`Torch.linear.0.forward`" in first(comparison).explanation


def test_checksums_are_traced_too() -> None:
    comparison = compared(
        Call("Torch.extra", [("aa", None)], [("cc", None)]), Call("Torch.linear", [("cc", "aa")], [("dd", "ee")])
    )
    assert found(comparison) == {None: ("Torch.extra", "unmatched", False)}


def test_a_call_that_the_target_lacks_is_named_where_its_result_was_read() -> None:
    comparison = compared(
        Call("Torch.linear", [(1.0, 7.0)], [WRONG]), Call("Torch.scale", [(None, 1.0)], [(None, 7.0)])
    )
    assert found(comparison) == {None: ("Torch.linear", "value", True)}
    assert "the golden computes it in `Torch.scale.0.forward`" in first(comparison).explanation


def test_a_call_without_counterpart_is_the_answer_when_nothing_else_differs() -> None:
    comparison = compared(Call("Torch.a"), Call("Torch.extra", [(1.0, None)], [(2.0, None)]))
    assert found(comparison) == {None: ("Torch.extra", "unmatched", False)}
    assert "nothing that has one differs" in first(comparison).explanation


def test_a_changed_argument_is_the_calls_own_doing() -> None:
    comparison = compared(Call("Torch.dropout", [SAME, (Plain(3), Plain(4))], [WRONG]))
    assert found(comparison) == {None: ("Torch.dropout", "value", False)}


def test_the_first_step_with_a_difference_counts() -> None:
    comparison = compared(
        Call("Torch.a", step=1, outputs=[WRONG]), Call("Torch.a", step=0), Call("Torch.b", step=2, outputs=[WRONG])
    )
    steps = [each.execution.step for each in first_differences(comparison) if each.first]
    assert steps == [1]


def reduced(rank: int, given: tuple[float, float], result: tuple[float, float]) -> Call:
    return Call("Distributed.all_reduce", [given], [result], rank=rank)


def test_the_rank_that_sends_wrong_data_is_the_answer_not_the_one_that_receives_them() -> None:
    comparison = compared(
        Call("Torch.a", rank=0), reduced(0, SAME, WRONG), Call("Torch.b", [WRONG], [WRONG], rank=0),
        Call("Torch.a", rank=1), reduced(1, WRONG, WRONG), Call("Torch.b", [WRONG], [WRONG], rank=1),
    )  # fmt: skip
    assert found(comparison) == {1: ("Distributed.all_reduce", "value", True)}


def test_a_call_before_the_communication_outranks_it() -> None:
    comparison = compared(
        Call("Torch.a", rank=0), reduced(0, SAME, WRONG),
        Call("Torch.a", outputs=[WRONG], rank=1), reduced(1, WRONG, WRONG),
    )  # fmt: skip
    assert found(comparison) == {1: ("Torch.a", "value", False)}


def test_a_communication_with_right_inputs_everywhere_is_wrong_itself() -> None:
    comparison = compared(reduced(0, SAME, WRONG), reduced(1, SAME, WRONG))
    assert found(comparison) == dict.fromkeys((0, 1), ("Distributed.all_reduce", "value", False))
    texts = [each.first.explanation for each in first_differences(comparison) if each.first]
    assert "what rank 1 gave" in texts[0]


def test_partners_outside_the_dumps_are_said_to_be_so() -> None:
    call = Call("Distributed.recv", [SAME, (Plain(7), Plain(7))], [WRONG], rank=0)
    answer = first(compared(call))
    assert answer.received
    assert answer.explanation.endswith("not part of the dumps")


def test_differences_of_one_layer_are_all_answers() -> None:
    comparison = compared(
        Call("Torch.a", outputs=[WRONG], rank=0), reduced(0, WRONG, WRONG),
        Call("Torch.b", outputs=[WRONG], rank=1), reduced(1, WRONG, WRONG),
    )  # fmt: skip
    assert found(comparison) == {0: ("Torch.a", "value", False), 1: ("Torch.b", "value", False)}


def test_a_receiver_comes_after_its_sender() -> None:
    to_1, from_0 = {"dst": Plain(1)}, {"src": Plain(0)}
    comparison = compared(
        reduced(0, SAME, SAME), Call("Torch.a", outputs=[WRONG], rank=0),
        Call("Distributed.send", [WRONG], [], rank=0, keywords=to_1),
        reduced(1, SAME, SAME),
        Call("Distributed.recv", [SAME], [WRONG], rank=1, keywords=from_0), Call("Torch.c", [WRONG], [WRONG], rank=1),
    )  # fmt: skip
    assert found(comparison) == {0: ("Torch.a", "value", False)}


def test_a_difference_after_the_last_communication_is_found() -> None:
    comparison = compared(
        reduced(0, SAME, SAME),
        Call("Torch.z", outputs=[WRONG], rank=0),
        reduced(1, SAME, SAME),
        Call("Torch.z", rank=1),
    )
    assert found(comparison) == {0: ("Torch.z", "value", False)}
