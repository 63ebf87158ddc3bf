"""Matching by name: real dumps, extra calls, backward calls, recomputation, dtypes, executions."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from name_builders import DATA, ONLY, assert_complete, catalog, entry_pairs, read, ref_of

from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.matching.name.match_name import match_name
from probe_flow.records import (
    Catalog,
    Execution,
    Expectation,
    NodeKey,
    Pairs,
    Slot,
    SlotRole,
    TensorKind,
    TensorRef,
)

# --- real dumps ------------------------------------------------------------------------------------------------------


def test_an_extra_multiply_stays_alone_and_everything_else_pairs_exactly() -> None:
    pairs = match_name(read("pt_stat_bug"), read("pt_stat_base", "golden"))

    alone = [pair for pair in pairs.pairs if pair.golden is None]
    assert_complete(pairs)
    assert Counter(pair.rule.name for pair in pairs.pairs) == {"exact": 187, "none": 6}
    assert not [pair for pair in pairs.pairs if pair.target is None]
    assert {one for one, other in entry_pairs(pairs) if other is None} == {
        "Tensor.__mul__.1.forward",
        "Tensor.__mul__.1.backward",
    }
    assert all(one == other for one, other in entry_pairs(pairs) if other is not None)
    assert {pair.reason.code for pair in alone if pair.reason} == {"no_golden_call"}
    assert {pair.reason.expectation for pair in alone if pair.reason} == {Expectation.MISSING}


@pytest.mark.parametrize("without", ["target", "golden"])
def test_a_side_without_its_file_of_callers_pairs_by_names_and_numbers(tmp_path: Path, without: str) -> None:
    for side, name in (("target", "pt_stat_bug"), ("golden", "pt_stat_base")):
        shutil.copytree(DATA / name, tmp_path / side)
    next((tmp_path / without).rglob("construct.json")).unlink()

    pairs = match_name(
        read_dump_json(tmp_path / "target", side="target"), read_dump_json(tmp_path / "golden", side="golden")
    )

    assert_complete(pairs)
    assert all(one is None or other is None or one == other for one, other in entry_pairs(pairs))
    assert {entry for entry, other in entry_pairs(pairs) if other is None} == {
        "Tensor.__mul__.1.forward",
        "Tensor.__mul__.1.backward",
    }


def test_a_missing_multiply_is_golden_only_and_stands_where_it_was() -> None:
    pairs = match_name(read("pt_stat_base"), read("pt_stat_bug", "golden"))

    order = entry_pairs(pairs)
    assert_complete(pairs)
    place = order.index((None, "Tensor.__mul__.1.forward"))
    assert order[place - 1] == ("Functional.gelu.0.forward", "Functional.gelu.0.forward")
    assert (None, "Tensor.__mul__.1.backward") in order


def test_a_dump_against_itself_is_all_exact() -> None:
    pairs = match_name(read("pt_types"), read("pt_types", "golden"))

    assert_complete(pairs)
    assert {pair.rule.name for pair in pairs.pairs} == {"exact"}
    assert pairs.problems == ()


def test_frameworks_with_other_names_are_reported_on_both_sides() -> None:
    pairs = match_name(read("ms_tensor_base"), read("pt_stat_base", "golden"))

    assert_complete(pairs)
    assert {pair.reason.code for pair in pairs.pairs if pair.reason and pair.golden is None} >= {"no_golden_node"}


# --- extra calls -----------------------------------------------------------------------------------------------------


def linear(numbers: Sequence[int], direction: str = "forward") -> list[str]:
    return [f"Functional.linear.{number}.{direction}" for number in numbers]


def test_without_callers_shapes_tell_which_call_is_extra() -> None:
    shapes = {"Functional.linear.1.forward": (99,)}
    pairs = match_name(catalog(linear(range(3)), shapes=shapes), catalog(linear(range(2))))

    assert entry_pairs(pairs) == [
        ("Functional.linear.0.forward", "Functional.linear.0.forward"),
        ("Functional.linear.1.forward", None),
        ("Functional.linear.2.forward", "Functional.linear.1.forward"),
    ]
    assert [pair.rule.name for pair in pairs.pairs] == ["exact", "none", "aligned"]


def test_without_callers_and_shapes_the_neighbours_tell() -> None:
    target = ["Torch.a.0.forward", "Torch.x.0.forward", "Torch.b.0.forward", "Torch.x.1.forward", "Torch.c.0.forward"]
    golden = ["Torch.a.0.forward", "Torch.b.0.forward", "Torch.x.0.forward", "Torch.c.0.forward"]

    found = entry_pairs(match_name(catalog(target), catalog(golden)))
    assert ("Torch.x.1.forward", "Torch.x.0.forward") in found
    assert ("Torch.x.0.forward", None) in found


def test_callers_tell_even_when_shapes_are_equal() -> None:
    modules = ["Module.a.A.forward.0", "Module.b.B.forward.0"]
    target = catalog(
        [*linear([0, 1]), modules[0], *linear([2]), modules[1]],
        parents={linear([0])[0]: modules[0], linear([1])[0]: modules[0], linear([2])[0]: modules[1]},
    )
    golden = catalog(
        [*linear([0]), modules[0], *linear([1]), modules[1]],
        parents={linear([0])[0]: modules[0], linear([1])[0]: modules[1]},
    )

    found = entry_pairs(match_name(target, golden))
    assert ("Functional.linear.2.forward", "Functional.linear.1.forward") in found
    assert ("Functional.linear.1.forward", None) in found


def test_calls_of_a_renamed_module_still_pair_by_order() -> None:
    target = catalog([*linear([0]), "Module.new.A.forward.0"], parents={linear([0])[0]: "Module.new.A.forward.0"})
    golden = catalog([*linear([0]), "Module.old.A.forward.0"], parents={linear([0])[0]: "Module.old.A.forward.0"})

    pairs = match_name(target, golden)
    assert_complete(pairs)
    assert (linear([0])[0], linear([0])[0]) in entry_pairs(pairs)
    assert {pair.reason.code for pair in pairs.pairs if pair.reason} == {"no_golden_node", "no_target_node"}


def test_calls_are_no_callers_for_the_number_that_a_caller_has_on_the_other_side() -> None:
    relu, lines = "Functional.relu.0.forward", linear(range(3))
    new, one, two = (f"Module.{name}.forward.0" for name in ("new.A", "old.B", "old.C"))
    target = catalog([relu, *lines, new], parents=dict.fromkeys([relu, *lines], new))
    golden = catalog([relu, one, *lines, two], parents={relu: one, **dict.fromkeys(lines, two)})

    found = entry_pairs(match_name(target, golden))
    assert [pair for pair in found if None not in pair] == [(call, call) for call in (relu, *lines)]


def test_calls_of_two_known_callers_are_never_paired_across() -> None:
    modules = ["Module.a.A.forward.0", "Module.b.B.forward.0"]
    target = catalog([*linear([0]), *modules], parents={linear([0])[0]: modules[0]})
    golden = catalog([*linear([0]), *modules], parents={linear([0])[0]: modules[1]})

    found = entry_pairs(match_name(target, golden))
    assert (linear([0])[0], None) in found
    assert (None, linear([0])[0]) in found


@pytest.mark.parametrize("side", ["target", "golden"])
def test_nodes_that_the_other_side_did_not_select_are_outside_the_question(side: str) -> None:
    others = ["Torch.exp.0.forward", "Tensor.add.0.forward"]
    narrow = catalog(linear([0]), attrs={"select": {"nodes": ("*linear", "Torch.e*")}})
    whole = catalog([*linear([0]), *others])
    pairs = match_name(*((narrow, whole) if side == "target" else (whole, narrow)))

    reasons = {pair.shown.node.name: pair.reason for pair in pairs.pairs if pair.reason}
    assert (linear([0])[0], linear([0])[0]) in entry_pairs(pairs)
    assert reasons["Tensor.add"].expectation is Expectation.OUTSIDE
    assert f"`Tensor.add` is not among the selected {side} nodes" == reasons["Tensor.add"].text
    assert reasons["Torch.exp"].expectation is Expectation.MISSING, "it was asked for and is not there"


def test_a_dump_that_lacks_the_first_calls_pairs_by_number() -> None:
    found = entry_pairs(match_name(catalog(linear([3, 4])), catalog(linear(range(6)))))

    assert (linear([3])[0], linear([3])[0]) in found
    assert (linear([4])[0], linear([4])[0]) in found
    assert (None, linear([0])[0]) in found


def test_a_dump_that_lacks_calls_in_between_pairs_by_number() -> None:
    left = [0, 1, 3, 4, 6]
    found = entry_pairs(match_name(catalog(linear(left)), catalog(linear(range(8)))))

    assert [one for one, other in found if one is not None and one == other] == linear(left)
    assert {other for one, other in found if one is None} == set(linear([2, 5, 7]))


def test_a_dump_of_a_part_pairs_by_number_where_only_the_last_calls_of_a_name_are_missing() -> None:
    def calls(*names: str) -> list[str]:
        return [f"Torch.{name[:-1]}.{name[-1]}.forward" for name in names]

    gaps = ("relu0", "relu1", "relu2", "tanh0", "tanh1", "tanh2")
    whole = calls("mul0", "add0", "neg0", "abs0", "mul1", "add1", "abs1", "add2", *gaps)
    part = [entry for entry in whole if entry not in calls("neg0", "add2", "relu1", "tanh1")]
    found = entry_pairs(match_name(catalog(part), catalog(whole)))

    assert {one for one, _ in found if one is not None} == set(part)
    assert all(one == other for one, other in found if one is not None)


# --- backward and recomputation --------------------------------------------------------------------------------------


def test_backward_calls_pair_through_their_forwards() -> None:
    shapes = {"Functional.linear.1.forward": (99,)}
    target = catalog([*linear(range(3)), *linear([2, 1, 0], "backward")], shapes=shapes)
    golden = catalog([*linear(range(2)), *linear([1, 0], "backward")])

    found = entry_pairs(match_name(target, golden))
    assert ("Functional.linear.2.backward", "Functional.linear.1.backward") in found
    assert ("Functional.linear.0.backward", "Functional.linear.0.backward") in found
    assert ("Functional.linear.1.backward", None) in found


PLAIN = [*linear(range(3)), *linear([2, 1, 0], "backward")]


@pytest.mark.parametrize(
    ("backwards", "again"),
    [
        pytest.param([2, 1, 0], [3, 4], id="non-reentrant"),
        pytest.param([2, 4, 3], [3, 4], id="reentrant"),
    ],
)
def test_recomputation_leaves_backward_pairs_right(backwards: list[int], again: list[int]) -> None:
    """linear.0 and linear.1 lie in a checkpointed region, linear.2 behind it."""
    target = catalog(
        [*linear(range(3)), *linear(backwards[:1], "backward"), *linear(again), *linear(backwards[1:], "backward")]
    )

    pairs = match_name(target, catalog(PLAIN))
    found = entry_pairs(pairs)
    assert_complete(pairs)
    for mine, other in zip(linear(backwards, "backward"), linear([2, 1, 0], "backward"), strict=True):
        assert (mine, other) in found
    assert {one for one, other in found if other is None} == set(linear(again))
    assert {pair.reason.code for pair in pairs.pairs if pair.reason} == {"recomputed"}
    assert {pair.reason.expectation for pair in pairs.pairs if pair.reason} == {Expectation.EXPECTED}


def test_two_recomputing_dumps_pair_completely() -> None:
    entries = [*linear(range(3)), *linear([2], "backward"), *linear([3, 4]), *linear([4, 3], "backward")]

    found = entry_pairs(match_name(catalog(entries), catalog(entries)))
    assert found == [(entry, entry) for entry in entries]


def test_layers_are_recomputed_in_reverse_and_found_by_their_callers() -> None:
    """Two checkpointed layers of one linear each: the second is recomputed first."""
    layers = [f"Module.layers.{number}.L.forward.{call}" for number, call in ((0, 0), (1, 0), (1, 1), (0, 1))]
    forwards = linear(range(4))
    entries = [
        forwards[0], layers[0], forwards[1], layers[1],
        "Torch.loss.0.forward", "Torch.loss.0.backward",
        forwards[2], layers[2], "Functional.linear.2.backward",
        forwards[3], layers[3], "Functional.linear.3.backward",
    ]  # fmt: skip
    target = catalog(entries, parents=dict(zip(forwards, layers, strict=True)))
    golden = catalog(
        [*entries[:6], "Functional.linear.1.backward", "Functional.linear.0.backward"],
        parents=dict(zip(forwards[:2], layers[:2], strict=True)),
    )

    found = entry_pairs(match_name(target, golden))
    assert ("Functional.linear.2.backward", "Functional.linear.1.backward") in found
    assert ("Functional.linear.3.backward", "Functional.linear.0.backward") in found
    assert (forwards[2], None) in found


def test_a_second_micro_batch_is_no_recomputation() -> None:
    entries = [*linear([0]), *linear([0], "backward"), *linear([1]), *linear([1], "backward")]
    overlapping = [*linear([0, 1]), *linear([0], "backward"), *linear([2]), *linear([1, 2], "backward")]

    for form in (entries, overlapping):
        found = entry_pairs(match_name(catalog(form), catalog(form)))
        assert found == [(entry, entry) for entry in form]
        short = match_name(catalog(form), catalog(linear([0])))
        assert "recomputed" not in {pair.reason.code for pair in short.pairs if pair.reason}


def test_backwards_without_dumped_forwards_pair_by_order() -> None:
    found = entry_pairs(match_name(catalog(linear([1, 0], "backward")), catalog(linear([1, 0], "backward"))))

    assert found == [(entry, entry) for entry in linear([1, 0], "backward")]


def test_parameter_gradients_keep_their_numbers() -> None:
    target = catalog(["Module.a.A.parameters_grad.0", "Module.a.A.parameters_grad.1"])

    found = entry_pairs(match_name(target, catalog(["Module.a.A.parameters_grad.1"])))
    assert found == [
        ("Module.a.A.parameters_grad.0", None),
        ("Module.a.A.parameters_grad.1", "Module.a.A.parameters_grad.1"),
    ]


# --- tensors ---------------------------------------------------------------------------------------------------------

KEY = NodeKey(ONLY, "Torch.add", 0)


def one_call(*refs: TensorRef, **more: Any) -> Catalog:
    return catalog(["Torch.add.0.forward"], tensors=refs, **more)


@pytest.mark.parametrize(
    ("target", "golden", "frameworks", "code"),
    [
        (("float16", "torch.float16"), ("float32", "torch.float32"), ("pytorch", "pytorch"), "dtype_differs"),
        (("bfloat16", "BFloat16"), ("float32", "torch.float32"), ("mindspore", "pytorch"), "dtype_differs"),
        (("int32", "Int32"), ("int64", "torch.int64"), ("mindspore", "pytorch"), "dtype_differs"),
        (("int32", "torch.int32"), ("int64", "torch.int64"), ("pytorch", "pytorch"), "dtype_incompatible"),
        (("bool", "torch.bool"), ("float32", "torch.float32"), ("pytorch", "pytorch"), "dtype_incompatible"),
        (
            ("float8_e4m3fn", "torch.float8_e4m3fn"),
            ("float16", "torch.float16"),
            ("pytorch",) * 2,
            "dtype_incompatible",
        ),
        (("float32", "Float32"), ("float32", "torch.float32"), ("mindspore", "pytorch"), None),
    ],
)
def test_dtypes_pair_within_their_class(
    target: tuple[str, str], golden: tuple[str, str], frameworks: tuple[str, str], code: str | None
) -> None:
    sides = [
        one_call(ref_of(KEY, dtype=dtype, stored_dtype=stored), framework=framework)
        for (dtype, stored), framework in zip((target, golden), frameworks, strict=True)
    ]
    pairs = match_name(*sides)

    assert_complete(pairs)
    assert {pair.reason.code if pair.reason else None for pair in pairs.pairs} == {code}
    assert len(pairs.pairs) == (2 if code == "dtype_incompatible" else 1)


def test_none_pairs_with_none_and_with_nothing_else() -> None:
    null = ref_of(KEY, kind=TensorKind.NULL, dtype="", stored_dtype="")

    assert match_name(one_call(null), one_call(null)).pairs[0].golden is not None
    pairs = match_name(one_call(null), one_call(ref_of(KEY)))
    assert_complete(pairs)
    assert [pair.reason.code for pair in pairs.pairs if pair.reason] == ["kind_incompatible"] * 2
    assert "target is None, golden torch.float32" in str(pairs.pairs[0].reason)


def test_slots_of_one_side_only_are_reported() -> None:
    extra = ref_of(KEY, Slot(SlotRole.INPUT, ("scale",)))
    pairs = match_name(one_call(extra, ref_of(KEY)), one_call(ref_of(KEY), ref_of(KEY, Slot(SlotRole.INPUT, (3,)))))

    assert_complete(pairs)
    assert [pair.reason.code if pair.reason else None for pair in pairs.pairs] == [
        "no_golden_slot",
        None,
        "no_target_slot",
    ]


def test_calls_that_the_other_level_does_not_record_are_expected() -> None:
    target = catalog(["Module.a.A.forward.0", "Torch.add.0.forward"], attrs={"level": "mix"})
    golden = catalog(["Torch.add.0.forward"], attrs={"level": "L1"})

    alone = match_name(target, golden).pairs[0]
    assert alone.reason is not None
    assert (alone.reason.code, alone.reason.expectation) == ("not_dumped", Expectation.EXPECTED)


# --- executions ------------------------------------------------------------------------------------------------------


def runs(*numbers: tuple[int | None, int | None]) -> Catalog:
    return catalog(["Torch.add.0.forward"], runs=[Execution(rank=rank, step=step) for rank, step in numbers])


def paired_runs(pairs: Pairs) -> list[tuple[tuple[int | None, int | None], tuple[int | None, int | None]]]:
    return [
        ((p.target.node.execution.rank, p.target.node.execution.step),
         (p.golden.node.execution.rank, p.golden.node.execution.step))
        for p in pairs.pairs if p.target and p.golden
    ]  # fmt: skip


def test_a_single_process_pairs_with_a_single_rank() -> None:
    pairs = match_name(runs((None, 0)), runs((0, None)))

    assert paired_runs(pairs) == [((None, 0), (0, None))]
    assert pairs.problems == ()


def test_lone_executions_of_different_numbers_pair_with_a_warning() -> None:
    pairs = match_name(runs((0, 3)), runs((0, 1)))

    assert len(paired_runs(pairs)) == 1
    assert [problem.code for problem in pairs.problems] == ["PF4202"]


def test_ranks_and_steps_pair_by_number() -> None:
    pairs = match_name(runs((0, 0), (1, 0), (0, 1)), runs((1, 0), (0, 0), (2, 0)))

    assert_complete(pairs)
    assert paired_runs(pairs) == [((0, 0), (0, 0)), ((1, 0), (1, 0))]
    assert [problem.code for problem in pairs.problems] == ["PF4203", "PF4203"]
    assert {pair.reason.code for pair in pairs.pairs if pair.reason} == {"no_golden_execution", "no_target_execution"}


def test_stated_ranks_and_step_offset_are_followed() -> None:
    pairs = match_name(runs((0, 0), (1, 0)), runs((4, 2), (1, 2)), pair_ranks={0: 4}, step_offset=2)

    assert paired_runs(pairs) == [((0, 0), (4, 2)), ((1, 0), (1, 2))]
    assert pairs.problems == ()


def test_a_stated_offset_that_fits_nothing_pairs_nothing_and_unused_ranks_are_named() -> None:
    pairs = match_name(runs((0, 0)), runs((0, 0)), step_offset=5, pair_ranks={7: 0})

    assert_complete(pairs)
    assert paired_runs(pairs) == []
    assert [problem.code for problem in pairs.problems] == ["PF4203", "PF4203"]
    assert [problem.code for problem in pairs.unused] == ["PF4204"]


def test_what_the_selection_of_the_other_side_leaves_out_is_not_missing() -> None:
    both, one = runs((0, 0), (0, 1)), replace(runs((0, 0)), attrs={"select": {"steps": (0,)}})
    for pairs in (match_name(both, one), match_name(one, both)):
        assert_complete(pairs)
        assert pairs.problems == ()
        lone = [pair.reason for pair in pairs.pairs if pair.target is None or pair.golden is None]
        assert {(why.code, why.expectation) for why in lone if why} == {("filtered", Expectation.OUTSIDE)}


# --- any dumps -------------------------------------------------------------------------------------------------------

names = st.lists(
    st.builds(
        "Torch.{}.{}.{}".format,
        st.sampled_from("ab"),
        st.integers(0, 4),
        st.sampled_from(["forward", "backward"]),
    )
    | st.builds(
        "Module.m.{}.{}.{}".format, st.sampled_from("AB"), st.sampled_from(["forward", "backward"]), st.integers(0, 2)
    ),
    unique=True,
    max_size=14,
)


@settings(max_examples=60, deadline=None)
@given(target=names, golden=names, data=st.data())
def test_every_tensor_is_accounted_for_and_only_like_names_pair(
    target: list[str], golden: list[str], data: st.DataObject
) -> None:
    sides = []
    for entries in (target, golden):
        modules = [entry for entry in entries if entry.startswith("Module")]
        callers = st.sampled_from(modules) if modules else st.nothing()
        apis = [entry for entry in entries if entry.startswith("Torch")]
        parents = data.draw(st.dictionaries(st.sampled_from(apis), callers)) if apis and modules else {}
        sides.append(catalog(entries, parents=parents))
    pairs = match_name(*sides)

    assert_complete(pairs)
    for pair in pairs.pairs:
        if pair.target is not None and pair.golden is not None:
            one, other = pair.target.node, pair.golden.node
            assert (one.name, one.phase) == (other.name, other.phase)


@settings(max_examples=40, deadline=None)
@given(entries=names)
def test_a_dump_pairs_exactly_with_itself(entries: list[str]) -> None:
    assert all(one == other for one, other in entry_pairs(match_name(catalog(entries), catalog(entries))))


def test_what_ran_as_a_graph_is_not_compared_with_what_ran_step_by_step() -> None:
    runs = [Execution(step=0, graph="graph")], [Execution(step=0, graph="pynative")]
    pairs = match_name(catalog(linear([0]), runs=runs[0]), catalog(linear([0]), runs=runs[1]))

    assert_complete(pairs)
    assert entry_pairs(pairs) == [(linear([0])[0], None), (None, linear([0])[0])]
    assert [problem.code for problem in pairs.problems] == ["PF4203", "PF4203"]


def test_a_dump_without_such_trees_meets_either() -> None:
    target = catalog(linear([0]), runs=[Execution(step=0, graph="pynative")])

    assert entry_pairs(match_name(target, catalog(linear([0])))) == [(linear([0])[0], linear([0])[0])]


# --- reasons ---------------------------------------------------------------------------------------------------------


def test_a_lone_module_names_up_to_three_near_ones() -> None:
    golden = [f"Module.net.fc{number}.Linear.forward.0" for number in range(5)]
    pairs = match_name(catalog(["Module.net.fc.Linear.forward.0"]), catalog(golden))

    reason = pairs.pairs[-1].reason
    assert reason is not None
    assert reason.text.startswith("the golden has no `Module.net.fc.Linear` (forward); nearest: `Module.net.fc")
    assert reason.text.count("`Module.net.fc") == 4


def test_a_none_without_partner_is_no_gap() -> None:
    key = NodeKey(ONLY, "Torch.a")
    null = ref_of(key, Slot(SlotRole.OUTPUT, (1,)), kind=TensorKind.NULL, dtype="", stored_dtype="")
    pairs = match_name(catalog(["Torch.a.0.forward"], tensors=[ref_of(key), null]), catalog(["Torch.a.0.forward"]))

    assert [pair.reason.expectation for pair in pairs.pairs if pair.reason] == [Expectation.EXPECTED]


# --- two frameworks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "framework", "codes"),
    [
        (["Cell.a.Dense", "Cell.b.Dense", "Cell.c.Dense"], "mindspore", ["PF4206"]),
        (["Module.a.Linear", "Module.b.Linear", "Cell.c.Dense"], "mindspore", []),
        (["Module.d.Linear", "Module.e.Linear", "Module.f.Linear"], "pytorch", []),
    ],
)
def test_two_frameworks_that_name_most_things_differently_need_a_mapping(
    names: list[str], framework: str, codes: list[str]
) -> None:
    target = catalog([f"{name}.forward.0" for name in names], framework=framework)
    golden = catalog([f"Module.{name}.Linear.forward.0" for name in "abc"])
    assert [problem.code for problem in match_name(target, golden).problems] == codes
