"""The third side of pairs: the reference's tensors are found by the golden's names, and what it lacks is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from comparison_rows import IN, OUT, key, pairs_of, row, tensor
from msgspec.structs import replace
from name_builders import read

from probe_flow.dumps.torchair.fx import read_torchair_fx
from probe_flow.dumps.torchair.ge import read_torchair_ge
from probe_flow.errors import IncompleteError, Severity, UsageError
from probe_flow.matching.shared.third_side import EXAMPLES, with_reference
from probe_flow.records import SELF, Catalog, Execution, Node, NodeKey, Pair, Pairs, Rule, TensorKind
from probe_flow.records.frameworks import PYTORCH
from probe_flow.stages.registry import STAGES
from probe_flow.testing.builders import catalog

MATCH_STAGES = sorted(uses for uses in STAGES if uses.startswith("match."))


def reference_of(pairs: Pairs, *, root: str = "/reference", without: str = "", step: int | None = 0) -> Catalog:
    """The golden's dump again in float64, without one node."""
    refs = []
    for ref in pairs.golden.tensors:
        run = replace(ref.node.execution, step=step)
        if ref.node.name != without:
            refs.append(ref.changed(node=NodeKey(run, ref.node.name, ref.node.call, ref.node.phase), dtype="float64"))
    return catalog(refs, side="exact", root=root)


def three() -> Pairs:
    return pairs_of([row("a", IN), row("a", OUT), row("b", OUT)])


def codes(pairs: Pairs) -> list[str]:
    return [problem.code for problem in pairs.problems]


def test_each_golden_tensor_finds_the_one_of_its_name_and_slot() -> None:
    pairs = three()
    found = with_reference(pairs, reference_of(pairs))

    assert [pair.reference.id for pair in found.pairs] == ["a.input.0", "a.output.0", "b.output.0"]
    assert {pair.reference.dtype for pair in found.pairs} == {"float64"}
    assert found.reference is not None
    assert found.reference.side == "exact"
    assert found.problems == ()


def test_a_golden_tensor_of_several_pairs_has_one_reference_in_all_of_them() -> None:
    pairs = three()
    again = Pair(tensor("c", IN), pairs.pairs[1].golden, "g", Rule("edge"))
    found = with_reference(replace(pairs, pairs=(*pairs.pairs, again)), reference_of(pairs))

    assert found.pairs[3].reference is found.pairs[1].reference


def test_a_pair_within_the_target_has_no_reference() -> None:
    pairs = three()
    own = Pair(tensor("cast", OUT), tensor("cast", IN), "g", SELF)
    found = with_reference(replace(pairs, pairs=(*pairs.pairs, own)), reference_of(pairs))

    assert found.pairs[3].reference is None
    assert found.problems == ()


def test_what_the_reference_lacks_is_a_note_and_stays_without() -> None:
    pairs = three()
    found = with_reference(pairs, reference_of(pairs, without="b"))

    assert found.pairs[2].reference is None
    assert [(problem.code, problem.severity) for problem in found.problems] == [("PF4031", Severity.NOTE)]
    assert "lacks 1 tensor that" in found.problems[0].message
    assert "`b.output.0`" in found.problems[0].message


def test_many_lacking_tensors_are_counted_and_the_first_are_named() -> None:
    pairs = pairs_of([row(f"n{number}") for number in range(9)] + [row("b")])
    kept = reference_of(pairs)
    last = replace(kept, tensors=kept.tensors[-1:])
    (problem,) = with_reference(pairs, last).problems

    assert "lacks 9 tensors" in problem.message
    assert problem.message.count("`n") == EXAMPLES
    assert "and 4 more" in problem.message


def test_values_without_numbers_are_not_asked_for() -> None:
    pairs = three()
    argument = tensor("b", IN, kind=TensorKind.SCALAR, value=1, shape=())
    golden = replace(pairs.golden, tensors=(*pairs.golden.tensors, argument))
    more = replace(pairs, golden=golden, pairs=(*pairs.pairs, Pair(argument, argument, "g", Rule("exact"))))

    assert with_reference(more, reference_of(pairs)).problems == ()


def test_the_only_step_of_each_side_meets_whatever_its_number_is() -> None:
    pairs = three()
    assert all(pair.reference for pair in with_reference(pairs, reference_of(pairs, step=7)).pairs)


def test_a_step_that_the_reference_lacks_is_a_note() -> None:
    pairs = pairs_of([row(key("a", step=step)) for step in (0, 1)])
    first = [ref for ref in pairs.golden.tensors if ref.node.execution.step == 0]
    reference = reference_of(replace(pairs, golden=replace(pairs.golden, tensors=tuple(first))))
    other = NodeKey(Execution(rank=0, step=5, graph=1), "a")
    reference = replace(reference, nodes={**reference.nodes, other: Node(other, "Relu")})
    found = with_reference(pairs, reference)

    assert [pair.reference is not None for pair in found.pairs] == [True, False]
    assert codes(found) == ["PF4032"]
    assert "step 1" in found.problems[0].message


@pytest.mark.parametrize("side", ["target", "golden"])
def test_a_side_that_is_its_own_reference_is_a_warning(side: str) -> None:
    pairs = three()
    pairs = replace(pairs, **{side: replace(getattr(pairs, side), root="/same")})
    found = with_reference(pairs, reference_of(pairs, root="/same"))

    assert codes(found) == ["PF4033"]
    assert found.problems[0].severity is Severity.WARNING


def test_a_dump_of_another_framework_is_no_reference() -> None:
    pairs = three()
    with pytest.raises(UsageError) as caught:
        with_reference(pairs, replace(reference_of(pairs), framework=PYTORCH))
    assert caught.value.diagnostic.code == "PF4030"
    assert "`pytorch`" in caught.value.diagnostic.message


def test_a_reference_with_nothing_of_the_golden_is_an_error() -> None:
    pairs = three()
    reference = replace(reference_of(pairs), tensors=(tensor("zzz"),))
    with pytest.raises(IncompleteError) as caught:
        with_reference(pairs, reference)
    assert caught.value.diagnostic.code == "PF4034"


@pytest.mark.parametrize("uses", MATCH_STAGES)
def test_every_match_stage_takes_a_reference(uses: str) -> None:
    fields = STAGES[uses].options.model_fields
    assert not fields["reference"].is_required()
    assert {"target", "golden", "pair_ranks", "step_offset"} <= set(fields)


@pytest.mark.parametrize("uses", ["match.name", "match.cell_mapping", "match.api_mapping", "match.structure"])
def test_real_dumps_find_their_reference_whatever_matched_them(uses: str) -> None:
    sides = {
        "target": [read("pt_stat_bug")],
        "golden": [read("pt_stat_base", "golden")],
        "reference": [replace(read("pt_stat_base", "exact"), root="/exact")],
    }
    stage = STAGES[uses]
    options = stage.options.model_validate({"uses": uses, **{side: side for side in sides}})
    found = stage.run(options, sides, None)
    both = [pair for pair in found.pairs if pair.golden is not None]

    assert both
    assert all(pair.reference is not None and pair.reference.id == pair.golden.id for pair in both)
    assert all(pair.reference is None for pair in found.pairs if pair.golden is None)
    assert not [code for code in codes(found) if code.startswith("PF403")]


def test_a_torchair_dump_finds_the_float64_dump_of_its_golden() -> None:
    sample = Path(__file__).parents[4] / "examples" / "torchair"
    sides = {
        "target": [read_torchair_ge(sample / "faulty" / "msprobe_ge_dump", side="target")],
        "golden": [read_torchair_fx(sample / "faulty" / "msprobe_fx_dump", side="golden")],
        "reference": [read_torchair_fx(sample / "reference" / "msprobe_fx_dump", side="reference")],
    }
    stage = STAGES["match.torchair"]
    options = stage.options.model_validate({"uses": "match.torchair", **{side: side for side in sides}})
    found = stage.run(options, sides, None)
    judged = [pair for pair in found.pairs if pair.golden is not None and pair.rule.name != "self"]

    assert len(judged) > 100
    assert all(pair.reference is not None for pair in judged)
    assert codes(found) == []
