"""How well the origin is named in dumps of offline models: generated pairs with one known fault each, and healthy ones.

The generator (`tests/generate/offline_*`) knows the truth from its own arrays and shares no code with the analysis. The
limits here are what docs/explanation/diagnosis.md states.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from generate.offline_cases import BRAIN, FAULTS, HEALTHY, HELD_OUT_FAULTS, HELD_OUT_HEALTHY, UNFUSED
from generate.offline_compiler import Build
from generate.offline_faults import Fault
from generate.offline_pairs import Case, Spec
from offline_builders import Case as Written
from offline_builders import match
from om_writer import tensor
from rule_builders import desc, op

from probe_flow.comparing.steps import compare_pairs
from probe_flow.records import Comparison, Finding, FindingKind, Role
from probe_flow.stages.compare import Options
from probe_flow.work import Context, Settings

VISIBLE = 4.0
"""How many times the healthy difference a fault must be at the tensor where it first shows."""

UNNAMED = {"coarse_head", "int8_saturated"}
"""What does not stand out enough: a sigmoid with 7 bits of mantissa behind noise, and int8 activations cut off at two
fifths of the largest, which reach 95 % of the limit."""

pytestmark = pytest.mark.filterwarnings("ignore:.*invalid value encountered.*:RuntimeWarning")


def in_order(function, batches, **_):
    return ((number, function(batch)) for number, batch in enumerate(batches))


def compare(case: Case, *, has_rules: bool = True, coverage: float = 0.9, recompute: str = "never") -> Comparison:
    context = Context(
        "result", Path(), in_order, lambda _event, **_fields: None, lambda _problems: None, Settings(), {},
        isolate=lambda *_: in_order,
    )  # fmt: skip
    files = {"rule": case.rule, "close": case.close, "quant": case.quant} if has_rules else {}
    pairs = match(case.target, case.golden, **files)
    analysis = {"recompute": recompute}
    options = Options(
        uses="compare", pairs="pairs", policy="offline", require={"coverage": coverage}, analysis=analysis
    )
    return compare_pairs(pairs, options.asked(), context, None)


def asked(spec: Spec) -> float:
    """The share of outputs that has to be compared: whoever dumps a part of the operators says so.

    Which of them are dumped is drawn operator by operator, so fewer than that share may be.
    """
    return 0.9 if spec.dumped == 1.0 else 0.8 * spec.dumped


def origins(comparison: Comparison) -> list[Finding]:
    return [finding for finding in comparison.findings if finding.kind is FindingKind.ORIGIN]


def test_the_suites_are_as_large_as_told():
    assert [len(suite) for suite in (FAULTS, HELD_OUT_FAULTS, HEALTHY, HELD_OUT_HEALTHY)] == [28, 28, 14, 14]
    specs = [*FAULTS, *HELD_OUT_FAULTS, *HEALTHY, *HELD_OUT_HEALTHY]
    assert len({spec.name for spec in specs}) == len(specs)


@pytest.mark.parametrize("spec", [*FAULTS, *HELD_OUT_FAULTS], ids=lambda spec: spec.name)
def test_the_fault_is_named_first(spec: Spec, tmp_path: Path):
    case = spec.generate(tmp_path)
    assert case.truth is not None
    assert case.truth.clearance > VISIBLE
    comparison = compare(case, coverage=asked(spec))
    assert comparison.incomplete == ()
    named = [finding.node.name for finding in origins(comparison) if finding.node is not None]
    if spec.name in UNNAMED:
        assert named == []
    else:
        assert named[0] == case.truth.node
        assert not comparison.gate_passed


@pytest.mark.parametrize("spec", [*HEALTHY, *HELD_OUT_HEALTHY], ids=lambda spec: spec.name)
def test_no_healthy_pair_raises_an_alarm(spec: Spec, tmp_path: Path):
    comparison = compare(spec.generate(tmp_path), coverage=asked(spec))
    assert comparison.findings == ()
    assert comparison.gate_passed
    assert comparison.incomplete == ()
    assert {row.verdict.role for row in comparison.rows} <= {Role.CLEAN, Role.UNKNOWN}
    # Every operator of the network that was dumped was judged, however small its tensors.
    judged = [row for row in comparison.rows if row.verdict.excess is not None]
    assert len(judged) > 8
    assert max(row.verdict.excess or 0.0 for row in judged) < 0.7


GUESSED = [spec for spec in (*FAULTS, *HEALTHY) if spec.golden == "npy" and not spec.build.int8]
"""Pairs that are compared without rules too: by names, shapes, addresses and order."""


@pytest.mark.parametrize("spec", [spec for spec in GUESSED if spec.fault is not None], ids=lambda spec: spec.name)
def test_the_fault_is_named_without_rules(spec: Spec, tmp_path: Path):
    case = spec.generate(tmp_path)
    named = origins(compare(case, has_rules=False))
    assert case.truth is not None
    assert named[0].node is not None
    assert named[0].node.name == case.truth.node


@pytest.mark.parametrize("spec", [spec for spec in GUESSED if spec.fault is None], ids=lambda spec: spec.name)
def test_no_healthy_pair_raises_an_alarm_without_rules(spec: Spec, tmp_path: Path):
    comparison = compare(spec.generate(tmp_path), has_rules=False)
    assert comparison.findings == ()


@pytest.mark.parametrize("spec", [*FAULTS[::4], *HELD_OUT_FAULTS[::4]], ids=lambda spec: spec.name)
def test_the_fault_is_named_first_where_suspects_are_computed_again(spec: Spec, tmp_path: Path):
    case = spec.generate(tmp_path)
    named = origins(compare(case, coverage=asked(spec), recompute="auto"))
    assert case.truth is not None
    assert [each.node.name for each in named if each.node][:1] == ([] if spec.name in UNNAMED else [case.truth.node])


@pytest.mark.parametrize("spec", [*HEALTHY[::3], *HELD_OUT_HEALTHY[::3]], ids=lambda spec: spec.name)
def test_no_healthy_pair_raises_an_alarm_where_every_operator_is_computed_again(spec: Spec, tmp_path: Path):
    assert compare(spec.generate(tmp_path), coverage=asked(spec), recompute="all").findings == ()


PARTIAL = [
    Spec("deep_few", "deep", dumped=0.15, seed=2),
    Spec("deep_brain_some", "deep", build=BRAIN, dumped=0.3, seed=3),
    Spec("deep_most", "deep", dumped=0.7, seed=86815608),
    Spec("residual_few", "residual", dumped=0.15, seed=5),
    Spec("residual_first_undumped", "residual", dumped=0.7, seed=344590882),
    Spec("cnn_half", "cnn", build=UNFUSED, images="NHWC", dumped=0.5, seed=7),
    Spec("square_images", "detector", build=BRAIN, images="NHWC", dumped=0.3, seed=593312551),
    Spec("split_norms", "transformer", build=Build(is_rough=True), dumped=0.7, seed=9),
    Spec("masked_most", "masked", dumped=0.7, seed=10),
]
"""Healthy pairs of which the device dumped a part: what lies before a tensor left no file."""


@pytest.mark.parametrize("has_rules", [True, False], ids=["rules", "guessed"])
@pytest.mark.parametrize("spec", PARTIAL, ids=lambda spec: spec.name)
def test_no_partial_dump_of_a_healthy_run_raises_an_alarm(spec: Spec, tmp_path: Path, *, has_rules: bool):
    comparison = compare(spec.generate(tmp_path), coverage=0.0, has_rules=has_rules)
    assert [finding.evidence for finding in comparison.findings] == []
    assert any(row.verdict.excess is not None for row in comparison.rows)


BEHIND = [
    Spec("scale_behind", "deep", Fault("scale", "stage4/a/convstage4/a/relu", 0.05), dumped=0.3, seed=11),
    Spec("channel_behind", "residual", Fault("channel", "stage1/a/convstage1/a/relu", 0.2), dumped=0.4, seed=12),
    Spec("border_behind", "cnn", Fault("border_row", "pool1"), build=BRAIN, dumped=0.5, seed=13),
]
"""The same with a fault, which is named where it first shows."""


@pytest.mark.parametrize("spec", BEHIND, ids=lambda spec: spec.name)
def test_a_fault_of_a_partial_dump_is_named_where_it_first_shows(spec: Spec, tmp_path: Path):
    case = spec.generate(tmp_path)
    assert case.truth is not None
    named = [each.node.name for each in origins(compare(case, coverage=0.0)) if each.node]
    assert named[:1] == [case.truth.node]


@pytest.mark.parametrize("wrong", ["cast", "stored", "relu", ""])
def test_the_way_of_an_input_that_the_golden_lacks_is_searched_too(wrong: str, tmp_path: Path):
    """The input of the model is no node, so the golden has no array of it, nor of what casts and layouts make of it."""
    case = Written(tmp_path)
    given = np.random.default_rng(1).standard_normal((2, 20, 8, 8)).astype(np.float32)
    known = {"cast": given.astype(np.float16)}
    known["stored"] = known["cast"]
    known["relu"] = np.maximum(known["stored"], np.float16(0))
    for name in [*known][[*known].index(wrong) if wrong else 3 :]:
        known[name] = known[name] * np.float16(1.05)
    layouts = {"cast": "NCHW", "stored": "NC1HWC0", "relu": "NC1HWC0"}
    read = tensor(given, "float32", "NCHW")
    types = zip(("Cast", "TransData", "Relu"), known, strict=True)
    for op_type, name in types:
        written = tensor(known[name], "float16", layouts[name])
        case.device(op_type, name, inputs=[read], outputs=[written])
        read = written
    case.golden.output("relu", 0, np.maximum(given, 0))
    shape = given.shape
    described = [
        op("x", "Data", number=1, originals=["x"], outputs=[desc("x", 0, shape=shape)]),
        op("cast", "Cast", number=2, inputs=["x:0"], originals=[], outputs=[desc(shape=shape)]),
        op("stored", "TransData", number=3, inputs=["cast:0"], originals=[], outputs=[desc(shape=shape)]),
        op("relu", "Relu", number=4, inputs=["stored:0"], originals=["relu"], outputs=[desc("relu", 0, shape=shape)]),
    ]
    rule = case.rule(*described)
    found = compare(Case(case.target.path, case.golden.path, rule, None, None, None))
    assert [each.node.name for each in origins(found) if each.node] == ([wrong] if wrong else [])
    if wrong == "relu":
        assert "with what the device was fed, which the golden lacks" in found.findings[0].evidence
