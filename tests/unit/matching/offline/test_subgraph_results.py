"""What the golden shows as the result of a branch or loop, and what it need not show of a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from offline_builders import Case, by_golden, by_target, codes, partners
from rule_builders import attr, desc, op

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def out(origin: str | None = None, index: int = 0, shape: tuple[int, ...] = X.shape) -> dict[str, object]:
    return desc(origin, index if origin is not None else None, origin_layout="ND", shape=shape)


def fed(name: str, number: int) -> dict[str, object]:
    return op(name, "Data", number=9, originals=[], attrs=[attr("_parent_node_index", i=number)], outputs=[out()])


def body(name: str, *, ends: tuple[str, ...], inner: tuple[dict[str, object], ...] = ()) -> dict[str, object]:
    """Return a subgraph ``tanh(x @ w)``, whose operators begin with its name."""
    operators = [
        fed(f"{name}/x", 1),
        op(f"{name}/mm", "MatMulV2", number=10, inputs=[f"{name}/x:0"], originals=[f"{name}/mm"],
           outputs=[out(f"{name}/mm")]),
        op(f"{name}/tanh", "Tanh", number=11, inputs=[f"{name}/mm:0"], originals=[f"{name}/tanh"],
           outputs=[out(f"{name}/tanh")]),
        op(f"{name}/cast", "Cast", number=12, inputs=[f"{name}/tanh:0"], originals=[], outputs=[out(f"{name}/tanh")]),
        *inner,
        op(f"{name}/out", "NetOutput", number=13, inputs=list(ends)),
    ]  # fmt: skip
    return {"name": name, "op": operators}


def network(case: Case, caller: str, *bodies: dict[str, object], origin: str | None = "choose") -> Path:
    """Write the rules of ``y = soft(choose(act))``, which calls subgraphs."""
    names = [str(each["name"]) for each in bodies]
    return case.rule(
        op("act", "Relu", number=1, originals=["act"], outputs=[out("act")]),
        op("choose", caller, number=2, inputs=["act:0", "act:0"], originals=[origin] if origin else [],
           subgraphs=names[:2], outputs=[out(origin), out(origin, 1)] if origin else [out(), out()]),
        op("soft", "SoftmaxV2", number=20, inputs=["choose:0"], originals=["soft"], outputs=[out("soft")]),
        op("all", "NetOutput", number=21, inputs=["soft:0"]),
        more=bodies,
    )  # fmt: skip


def device(case: Case, *names: str) -> None:
    for name in ("act", *names, "soft"):
        case.device("Any", name, inputs=[] if name == "act" else [X], outputs=[X])


def golden(case: Case, *names: str) -> None:
    for name in names:
        case.golden.output(name, 0, X)


@pytest.mark.parametrize(("caller", "others"), [("If", ["else"]), ("Case", ["else"]), ("While", [])])
def test_what_a_subgraph_ends_with_is_what_its_caller_gives(case: Case, caller: str, others: list[str]) -> None:
    """Behind it lies a cast; what the other branch would have given was not computed, and has no files."""
    device(case, "then/mm", "then/tanh", "then/cast")
    golden(case, "act", "choose", "soft")
    bodies = [body(name, ends=(f"{name}/cast:0",)) for name in ("then", *others)]
    pairs = case.match(rule=network(case, caller, *bodies))
    found = partners(pairs)
    assert {name: found[name] for name in ("then/tanh.output.0", "then/cast.input.0", "then/cast.output.0")} == {
        "then/tanh.output.0": "choose.output.0",
        "then/cast.input.0": "choose.output.0",
        "then/cast.output.0": "choose.output.0",
    }
    assert found["soft.input.0"] == "choose.output.0"
    reason = by_target(pairs)["then/tanh.output.0"].reason
    assert reason is not None
    assert reason.text == "compared with what `choose` gives, which its subgraph ends with"
    left = codes(by_target(pairs))
    assert left["then/mm.output.0"] == left["then/tanh.input.0"] == "subgraph expected"
    assert "missing" not in " ".join([*left.values(), *codes(by_golden(pairs)).values()])


def test_a_golden_that_shows_the_inside_is_compared_with_it(case: Case) -> None:
    device(case, "then/mm", "then/tanh")
    golden(case, "act", "choose", "soft", "then_tanh")
    pairs = case.match(rule=network(case, "If", body("then", ends=("then/tanh:0",)), body("else", ends=("else/mm:0",))))
    assert partners(pairs)["then/tanh.output.0"] == "then_tanh.output.0"
    assert codes(by_target(pairs))["then/mm.output.0"] == "no_golden_dump missing"


def test_a_golden_without_the_result_has_to_show_the_inside(case: Case) -> None:
    device(case, "then/mm", "then/tanh")
    golden(case, "act", "soft")
    pairs = case.match(rule=network(case, "If", body("then", ends=("then/tanh:0",)), body("else", ends=("else/mm:0",))))
    assert codes(by_target(pairs))["then/tanh.output.0"] == "no_golden_dump missing"


def test_of_two_branches_in_a_loop_either_may_have_run_last(case: Case) -> None:
    inner = op("then/choose", "If", number=12, inputs=["then/tanh:0", "then/tanh:0"], originals=["inner"],
               subgraphs=["left", "right"], outputs=[out("inner")])  # fmt: skip
    bodies = [
        body("then", ends=("then/choose:0",), inner=(inner,)),
        *(body(name, ends=(f"{name}/tanh:0",)) for name in ("left", "right")),
    ]
    device(case, "then/tanh", "left/tanh", "right/tanh")
    golden(case, "act", "choose", "soft", "inner")
    rule = case.rule(
        op("act", "Relu", number=1, originals=["act"], outputs=[out("act")]),
        op("choose", "While", number=2, inputs=["act:0", "act:0"], originals=["choose"], subgraphs=["then"],
           outputs=[out("choose")]),
        op("soft", "SoftmaxV2", number=20, inputs=["choose:0"], originals=["soft"], outputs=[out("soft")]),
        more=bodies,
    )  # fmt: skip
    found = by_target(case.match(rule=rule))
    assert found["left/tanh.output.0"].golden is None
    assert found["right/tanh.output.0"].golden is None


@pytest.mark.parametrize(("is_read", "due"), [(True, "no_target_dump missing"), (False, "subgraph expected")])
def test_what_a_loop_puts_together_of_all_turns_no_file_holds(case: Case, is_read: bool, due: str) -> None:
    device(case, "then/mm", "then/tanh")
    golden(case, "act", "choose", "soft")
    case.golden.output("choose", 1, np.stack([X, X]))
    rule = case.rule(
        op("act", "Relu", number=1, originals=["act"], outputs=[out("act")]),
        op("choose", "While", number=2, inputs=["act:0", "act:0"], originals=["choose"], subgraphs=["then"],
           outputs=[out("choose"), out("choose", 1, shape=(2, 3, 4))]),
        op("soft", "SoftmaxV2", number=20, inputs=["choose:0"], originals=["soft"], outputs=[out("soft")]),
        op("all", "NetOutput", number=21, inputs=["soft:0", *(["choose:1"] if is_read else [])]),
        more=[body("then", ends=("then/tanh:0", "then/mm:0"))],
    )  # fmt: skip
    pairs = case.match(rule=rule)
    assert codes(by_target(pairs))["then/mm.output.0"] == "subgraph expected"
    assert codes(by_golden(pairs))["choose.output.1"] == due


@pytest.mark.parametrize(
    ("reads", "shows", "due"),
    [
        (["split:0"], ["split"], "no_golden_dump expected"),
        (["split:0", "split:1"], ["split"], "no_golden_dump missing"),
        (["split:0"], [], "no_golden_dump missing"),
        ([], ["split"], "no_golden_dump missing"),
    ],
)
def test_an_output_that_nobody_reads_the_golden_need_not_have(
    case: Case, reads: list[str], shows: list[str], due: str
) -> None:
    """An output without a name in the original model: the golden has none, and the rules count it all the same."""
    case.device("SplitD", "split", outputs=[X, X])
    case.device("Relu", "act", inputs=[X] * len(reads), outputs=[X])
    golden(case, *shows, "act")
    rule = case.rule(
        op("split", "SplitD", number=1, originals=["split"], outputs=[out("split"), out("split", 1)]),
        op("act", "Relu", number=2, inputs=reads, originals=["act"], outputs=[out("act")]),
    )
    assert codes(by_target(case.match(rule=rule)))["split.output.1"] == due
