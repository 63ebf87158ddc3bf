"""Two graphs compared in our layout: partners and scores from the comparison of the dumps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from probe_flow.errors import UsageError
from probe_flow.graphs.compare import ComparedRows, compare_graphs
from probe_flow.graphs.scores import NONFINITE, UNKNOWN, relative_error, scores
from probe_flow.graphs.tree import build_graphs
from probe_flow.mappings.mapping_file import read_layer_mapping
from probe_flow.matching.name.match_name import match_name
from probe_flow.records import Measurement, Mode, Role, Row, Status, Verdict
from probe_flow.records.model_graph import NO_PARTNER, GraphLayout, GraphMode, GraphPair
from probe_flow.testing.builders import comparison
from tests.support.graph_trees import entry, read, tensor, write_dump

BLOCK, FC, CALL = "Module.block.Block.forward.0", "Module.block.fc.Linear.forward.0", "Functional.linear.0.forward"
CALLS: Mapping[str, str | None] = {BLOCK: None, FC: BLOCK, CALL: FC}


def entries(calls: Mapping[str, Any], **given: Sequence[Any]) -> dict[str, Any]:
    """Return an entry for each call; those of `given` (by API or layer) have these outputs."""
    found = {}
    for name in calls:
        outputs = next((value for word, value in given.items() if f".{word}." in name), [tensor()])
        found[name] = entry(name, [tensor()], outputs)
    return found


def compared(
    folder: Path,
    target: Mapping[str, Any],
    golden: Mapping[str, Any],
    calls: tuple[Mapping[str, Any], Mapping[str, Any]] | None = None,
    *,
    layout: GraphLayout = GraphLayout.OWN,
    heads: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    origin: str = "",
    **options: Any,
) -> GraphPair:
    """Return the graphs of two dumps, paired by name and compared; `origin` is the API in which the error begins."""
    mine, theirs = calls or (CALLS, CALLS)
    catalogs = (
        read(write_dump(folder / "t", mine, target, **heads[0])),
        read(write_dump(folder / "g", theirs, golden, **heads[1]), "golden"),
    )
    pairs = match_name(*catalogs)
    rows = [
        Row(pair, order=number, verdict=Verdict(Status.FAIL, role=role))
        for number, pair in enumerate(pairs.pairs)
        for role in [Role.ORIGIN if pair.shown.node.name == origin else Role.UNKNOWN]
    ]
    graphs = [next(build_graphs(catalog, layout=layout)) for catalog in catalogs]
    return compare_graphs(ComparedRows(comparison(*rows, pairs=pairs).rows), *graphs, **options)


def partners_of(pair: GraphPair) -> dict[str, str | None]:
    assert pair.golden is not None
    names = [node.name for node in pair.golden.nodes]
    found = zip(pair.target.nodes, pair.partners, strict=True)
    return {node.name: None if partner == NO_PARTNER else names[partner] for node, partner in found}


def score(pair: GraphPair, name: str) -> float | None:
    return pair.scores.get(pair.target.numbers[name])


def test_equal_dumps_score_nothing_and_every_node_has_its_partner(tmp_path: Path) -> None:
    pair = compared(tmp_path, entries(CALLS), entries(CALLS))
    assert partners_of(pair) == {name: name for name in ("DefaultModel", *CALLS)}
    assert {score(pair, name) for name in CALLS} == {0.0}
    assert pair.mode is GraphMode.STATISTICS


def test_the_score_is_the_largest_relative_error_of_an_output(tmp_path: Path) -> None:
    target = entries(CALLS, linear=[tensor(high=2.5), tensor(norm=3.3)])
    golden = entries(CALLS, linear=[tensor(), tensor()])
    pair = compared(tmp_path, target, golden)
    # maximum 2.5 against 2: 0.25; mean 0.75 against 0.5: 0.5; norm 3.3 against 3: 0.1
    assert score(pair, CALL) == pytest.approx(0.5)
    assert score(pair, FC) == 0.0


@pytest.mark.parametrize(
    ("target", "golden", "expected"),
    [
        ([2.0], [4.0], 0.5),
        ([1.0], [0.0], 0.0),
        ([True], [False], 0.0),
        (["2"], ["4"], 0.0),
        ([None], [4.0], 0.0),
        ([math.nan], [1.0], 0.0),
        ([math.inf], [1.0], 1.0),
        ([9.0], [1.0], 1.0),
        ([10**400], [3.0], 1.0),
    ],
)
def test_relative_errors_count_what_is_a_number(target: list[Any], golden: list[Any], expected: float) -> None:
    assert relative_error(target, golden) == expected


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("is_target", [True, False])
def test_nan_on_one_side_is_the_worst_and_says_so(tmp_path: Path, bad: float, is_target: bool) -> None:
    sides = entries(CALLS, linear=[tensor(bad, bad, bad)]), entries(CALLS)
    pair = compared(tmp_path, *(sides if is_target else sides[::-1]))
    assert score(pair, CALL) == 1.0
    assert pair.reasons[pair.target.numbers[CALL]] == NONFINITE


@pytest.mark.parametrize(
    ("largest", "origin", "expected", "why"),
    [
        (2.0, "Torch.log", 1.0, "the error begins in `Torch.log.0.forward`, which has no score"),
        (2.0, "", None, "`Torch.log.0.forward`: "),
        (2.5, "", 0.25, None),
    ],
)
def test_a_collection_is_not_well_because_a_call_in_it_has_no_counterpart(
    tmp_path: Path, largest: float, origin: str, expected: float | None, why: str | None
) -> None:
    """Its other calls agree (maximum 2 against 2), or one is off (2.5 against 2): only that is a figure."""
    same, alone = "Torch.add.0.forward", "Torch.log.0.forward"
    mine, theirs = dict.fromkeys((same, alone, BLOCK)), dict.fromkeys((same, BLOCK))
    target = entries(mine, add=[tensor(high=largest, Mean=0.5)])
    pair = compared(tmp_path, target, entries(theirs), (mine, theirs), origin=origin)
    assert score(pair, alone) is None
    collection = "Apis_Between_Modules.0"
    assert score(pair, collection) == (None if expected is None else pytest.approx(expected))
    if why is not None:
        assert pair.reasons[pair.target.numbers[collection]].startswith(why)


def test_nan_on_both_sides_is_no_difference(tmp_path: Path) -> None:
    both = entries(CALLS, linear=[tensor(math.nan, math.nan, math.nan)])
    assert score(compared(tmp_path, both, both), CALL) == 0.0


NOTHING = {"Max": None, "Min": None, "Mean": None, "Norm": None}


@pytest.mark.parametrize("sides", ["both", "target", "golden"])
def test_what_nothing_is_known_of_has_no_score_and_says_so(tmp_path: Path, sides: str) -> None:
    known, unknown = entries(CALLS), entries(CALLS, linear=[tensor(**NOTHING)])
    pair = compared(tmp_path, known if sides == "golden" else unknown, known if sides == "target" else unknown)
    assert score(pair, CALL) is None
    assert pair.reasons[pair.target.numbers[CALL]] == UNKNOWN
    assert score(pair, FC) == 0.0


def test_one_known_output_is_enough_for_a_score(tmp_path: Path) -> None:
    target = entries(CALLS, linear=[tensor(**NOTHING), tensor(high=2.5)])
    pair = compared(tmp_path, target, entries(CALLS, linear=[tensor(**NOTHING), tensor()]))
    assert score(pair, CALL) == pytest.approx(0.5)  # mean 0.75 against 0.5


def test_checksums_that_were_not_written_are_not_equal(tmp_path: Path) -> None:
    bare = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    values = entries(CALLS, linear=[bare], fc=[{**bare, "md5": "1a2b"}], block=[{**bare, "md5": "1a2b"}])
    pair = compared(tmp_path, values, values)
    assert (score(pair, CALL), score(pair, FC)) == (None, 0.0)


def test_nan_of_an_input_is_not_the_nodes_fault(tmp_path: Path) -> None:
    target = entries(CALLS)
    target[CALL] = entry(CALL, [tensor(math.nan, math.nan, math.nan)], [tensor()])
    assert score(compared(tmp_path, target, entries(CALLS)), CALL) == 0.0


def test_names_do_not_say_what_is_an_output(tmp_path: Path) -> None:
    name = "Module.output.input.Linear.forward.0"
    calls = {name: None}
    target = {name: entry(name, [tensor(high=9.0)], [tensor(high=2.2)])}
    pair = compared(tmp_path, target, {name: entry(name, [tensor()], [tensor()])}, (calls, calls))
    assert score(pair, name) == pytest.approx(0.2)  # mean 0.6 against 0.5


def test_a_collection_has_the_worst_score_of_its_calls_and_unmatches_nothing(tmp_path: Path) -> None:
    calls = {"Torch.exp.0.forward": None, "Torch.log.0.forward": None, **CALLS}
    more = {"Torch.sin.0.forward": None, "Torch.cos.0.forward": None, BLOCK: None, **calls, FC: BLOCK}
    pair = compared(tmp_path, entries(more, log=[tensor(high=2.5)]), entries(calls), (more, calls))
    found = partners_of(pair)
    assert found["Torch.exp.0.forward"] == "Torch.exp.0.forward"
    assert found["Torch.sin.0.forward"] is None
    assert found["Apis_Between_Modules.1"] == "Apis_Between_Modules.0"
    assert found["Apis_Between_Modules.0"] is None
    assert score(pair, "Apis_Between_Modules.1") == score(pair, "Torch.log.0.forward") == pytest.approx(0.5)


def test_a_module_without_values_has_the_module_around_its_calls_for_partner(tmp_path: Path) -> None:
    other = "Module.part.Part.forward.0"
    mine, theirs = {BLOCK: None, CALL: BLOCK}, {other: None, CALL: other}
    values = {CALL: entry(CALL, [tensor()], [tensor()])}
    assert partners_of(compared(tmp_path, values, values, (mine, theirs)))[BLOCK] == other


def test_what_the_golden_lacks_has_no_partner_and_a_reason(tmp_path: Path) -> None:
    calls = {**CALLS, "Functional.gelu.0.forward": BLOCK}
    pair = compared(tmp_path, entries(calls), entries(CALLS), (calls, CALLS))
    number = pair.target.numbers["Functional.gelu.0.forward"]
    assert pair.partners[number] == NO_PARTNER
    assert "gelu" in pair.reasons[number]
    assert number not in pair.scores


def test_checksums_that_differ_score_1(tmp_path: Path) -> None:
    def values(word: str) -> dict[str, Any]:
        return {name: entry(name, [tensor(md5="aa")], [tensor(md5=word if name == CALL else "aa")]) for name in CALLS}

    pair = compared(tmp_path, values("bb"), values("aa"))
    assert pair.mode is GraphMode.MD5
    assert (score(pair, CALL), score(pair, FC)) == (1.0, 0.0)


def test_calls_without_values_match_and_have_no_score(tmp_path: Path) -> None:
    heads = ({"task": "structure"}, {"task": "structure"})
    pair = compared(tmp_path, {}, {}, heads=heads)
    assert partners_of(pair) == {name: name for name in ("DefaultModel", *CALLS)}
    assert (pair.mode, pair.scores) == (GraphMode.STRUCTURE, {})


def test_dumps_of_different_things_are_not_compared(tmp_path: Path) -> None:
    sums = {name: entry(name, [tensor(md5="aa")], [tensor(md5="aa")]) for name in CALLS}
    with pytest.raises(UsageError) as told:
        compared(tmp_path, entries(CALLS), sums)
    assert told.value.diagnostic.code == "PF7152"
    assert "the target holds statistics and the golden checksums" in told.value.diagnostic.message


def test_two_frameworks_need_a_mapping_in_the_second_layout_of_msprobe(tmp_path: Path) -> None:
    heads = ({"framework": "mindspore"}, {})
    with pytest.raises(UsageError) as told:
        compared(tmp_path, entries(CALLS), entries(CALLS), layout=GraphLayout.MSPROBE_VIS_DB, heads=heads)
    assert told.value.diagnostic.code == "PF7153"
    assert "`match: layer_mapping`" in str(told.value.diagnostic.help), "an empty file of entries is refused"


def test_two_targets_of_one_golden_are_told(tmp_path: Path) -> None:
    up, down, both = (f"Module.net.{name}.Linear.forward.0" for name in ("up", "down", "both"))
    net = "Module.net.Net.forward.0"
    frames = ["File /net.py, line 1, in forward, \n y"]
    mine, theirs = {net: None, up: net, down: net}, {net: None, both: net}
    mapping = tmp_path / "map.yaml"
    mapping.write_text("Net:\n  up: both\n  down: both\n")
    pair = compared(
        tmp_path,
        entries(mine),
        entries(theirs),
        (mine, theirs),
        layout=GraphLayout.MSPROBE_VIS,
        mapping=read_layer_mapping(mapping),
        heads=({"stacks": {up: frames}}, {"stacks": {both: frames}}),
    )
    assert partners_of(pair)[up] == partners_of(pair)[down] == both
    (told,) = pair.problems
    assert told.code == "PF7154"
    assert f"`{both}` of the golden is the partner of `{up}`, `{down}`" in told.message


def test_the_golden_shows_its_nodes_in_the_micro_step_of_their_partners(tmp_path: Path) -> None:
    first, back, second = "Module.a.A.forward.0", "Module.a.A.backward.0", "Module.a.A.forward.1"
    mine, theirs = dict.fromkeys((first, back, second)), dict.fromkeys((second, "Module.b.B.forward.7"))
    pair = compared(tmp_path, entries(mine), entries(theirs), (mine, theirs))
    assert pair.golden is not None
    assert {node.name: node.micro_step for node in pair.golden.nodes[1:]} == {second: 1, "Module.b.B.forward.7": 7}


@pytest.mark.parametrize(
    ("inputs", "outputs", "expected"),
    [([1.0], [0.25], 0.75), ([0.5], [0.75], 0.0), ([1.0, 0.5], [0.25], 0.25), ([], [0.1], 0.0), ([1.0], [None], 0.0)],
)
def test_tensors_score_by_how_much_less_of_the_outputs_is_close(
    tmp_path: Path, inputs: list[float], outputs: list[float | None], expected: float
) -> None:
    values = {CALL: entry(CALL, [tensor()] * len(inputs), [tensor()] * len(outputs))}
    pair = compared(tmp_path, values, values, ({CALL: None}, {CALL: None}))
    shares = [*inputs, *outputs]
    rows = [
        replace(row, measurement=Measurement.of(Mode.TENSOR, {"err_ratio_1e3": share}))
        for row, share in zip(pair.rows(1), shares, strict=True)
        if row is not None
    ]
    found, _ = scores(pair.target, lambda number: rows if number == 1 else [], GraphMode.TENSOR)
    assert found == {1: pytest.approx(expected)}
