"""Which offline dumps and rule files belong together; quantised models; fusion on and off; models of a training run."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
import rule_builders as rules
from offline_builders import Case, by_golden, by_target, check_complete, codes, match, partners, read
from om_writer import GoldenFolder, OmFolder, om_tree
from rule_builders import desc, op

from probe_flow.dumps.rules.rule_file import read_rule_files
from probe_flow.errors import UsageError
from probe_flow.matching.offline.match_offline import match_offline
from probe_flow.matching.offline.models import RuleBook
from probe_flow.records import Catalog, Execution, Pair
from probe_flow.records.frameworks import PYTORCH

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def out(origin: str | None = None, index: int | None = 0, **given: object) -> dict[str, object]:
    return desc(origin, index if origin is not None else None, origin_layout="ND", **given)  # type: ignore[arg-type]


def side(path: Path, kind: str, *, quantised: bool) -> Path:
    """Write a dump of one operator, ``om`` or ``npy``; a second one shows that the model is quantised."""
    names = ["a", "a_quant_layer"] if quantised else ["a"]
    if kind == "om":
        folder = OmFolder(path)
        for at, name in enumerate(names):
            folder.op("Relu", name, at=at, outputs=[X])
    else:
        golden = GoldenFolder(path)
        for name in names:
            golden.output(name, 0, X)
    return path


@pytest.fixture
def rule(tmp_path: Path) -> Path:
    tree = rules.model(op("a", "Relu", number=1, originals=["a"], outputs=[out("a")]))
    return rules.write(tmp_path / "rule.json", tree)


@pytest.mark.parametrize(
    ("target", "golden", "files"),
    [
        (("om", False), ("npy", False), {"rule"}),
        (("om", False), ("npy", False), set()),
        (("om", True), ("npy", False), {"rule", "quant"}),
        (("om", True), ("npy", False), {"rule"}),
        (("om", True), ("npy", False), {"quant"}),
        (("om", True), ("npy", True), {"rule"}),
        (("om", False), ("om", False), {"rule", "close"}),
        (("om", False), ("om", False), {"rule"}),
        (("om", False), ("om", False), set()),
        (("om", True), ("om", True), set()),
        (("npy", True), ("npy", False), {"quant"}),
        (("npy", True), ("npy", False), set()),
        (("npy", True), ("npy", True), set()),
        (("npy", False), ("npy", False), set()),
    ],
)
def test_sides_and_files_that_belong_together(
    tmp_path: Path, rule: Path, target: tuple[str, bool], golden: tuple[str, bool], files: set[str]
) -> None:
    sides = [side(tmp_path / name, kind, quantised=quantised)
             for name, (kind, quantised) in (("target", target), ("golden", golden))]  # fmt: skip
    pairs = match(*sides, **dict.fromkeys(files, rule))  # type: ignore[arg-type]
    assert partners(pairs)["a.output.0"] == "a.output.0"
    check_complete(pairs)


@pytest.mark.parametrize(
    ("target", "golden", "files", "words"),
    [
        (("npy", False), ("om", False), set(), "arrays cannot be compared with a device dump"),
        (("om", False), ("npy", True), {"rule"}, "the golden is the dump of a quantised model"),
        (("om", True), ("om", False), set(), "the target is a quantised model"),
        (("om", False), ("npy", False), {"rule", "close"}, "`close_fusion_rule` is for two device dumps"),
        (("om", False), ("om", False), {"close"}, "`close_fusion_rule` alone"),
        (("om", False), ("npy", False), {"rule", "quant"}, "the target is not quantised"),
        (("om", True), ("npy", True), {"rule", "quant"}, "the golden is quantised too"),
        (("om", False), ("om", False), {"quant"}, "the target is not quantised"),
        (("npy", True), ("npy", False), {"rule"}, "the target holds arrays"),
    ],
)
def test_sides_and_files_that_do_not(
    tmp_path: Path, rule: Path, target: tuple[str, bool], golden: tuple[str, bool], files: set[str], words: str
) -> None:
    sides = [side(tmp_path / name, kind, quantised=quantised)
             for name, (kind, quantised) in (("target", target), ("golden", golden))]  # fmt: skip
    with pytest.raises(UsageError) as error:
        match(*sides, **dict.fromkeys(files, rule))  # type: ignore[arg-type]
    found = error.value.diagnostic
    assert found.code == "PF4402"
    assert words in found.message
    assert found.help


def test_names_that_mislead_can_be_overruled(tmp_path: Path, rule: Path) -> None:
    sides = side(tmp_path / "target", "om", quantised=True), side(tmp_path / "golden", "om", quantised=False)
    with pytest.raises(UsageError) as error:
        match(*sides)
    assert any("a_quant_layer" in note for note in error.value.diagnostic.notes)
    assert partners(match(*sides, quantised=False))


def test_other_dumps_are_refused() -> None:
    catalog = Catalog("golden", PYTORCH, "tensor", "", {}, ())
    with pytest.raises(UsageError) as error:
        match_offline(catalog, catalog, RuleBook())
    assert error.value.diagnostic.code == "PF4401"


def quantised_case(tmp_path: Path, *, dequant_dtype: str = "DT_FLOAT16") -> tuple[Case, Path, Path]:
    case = Case(tmp_path)
    case.device("AscendQuant", "c_quant_layer", inputs=[X], outputs=[X])
    case.device("Conv2D", "c", inputs=[X], outputs=[X])
    case.device("AscendDequant", "c_dequant_layer", inputs=[X], outputs=[X])
    for name in ("x", "c", "bn"):
        case.golden.output(name, 0, X)
    rule = case.rule(
        op("x", "Data", number=1, originals=["x"], outputs=[out("x")]),
        op("c_quant_layer", "AscendQuant", number=2, inputs=["x:0"], originals=["c_quant_layer"],
           outputs=[out("c_quant_layer", dtype="DT_INT8")]),
        op("c", number=3, inputs=["c_quant_layer:0"], originals=["c"], outputs=[out("c", dtype="DT_INT32")]),
        op("c_dequant_layer", "AscendDequant", number=4, inputs=["c:0"], originals=["c_dequant_layer"],
           outputs=[out("c_dequant_layer", dtype=dequant_dtype)]),
    )  # fmt: skip
    quant = case.rule(
        op("x", "Input", number=1, originals=["x"], outputs=[out("x")]),
        op("c_quant_layer", "Quant", number=2, inputs=["x:0"], originals=["c", "bn"], is_multiop=True, outputs=[out()]),
        op("c", "Conv", number=3, inputs=["c_quant_layer:0"], originals=["c", "bn"], is_multiop=True, outputs=[out()]),
        op("c_dequant_layer", "DeQuant", number=4, inputs=["c:0"], originals=["c", "bn"], is_multiop=True,
           outputs=[out("bn")]),
        file="qfr",
    )  # fmt: skip
    return case, rule, quant


@pytest.mark.parametrize("dtype", ["DT_FLOAT16", "DT_FLOAT", "DT_BF16"])
def test_quantised_values_are_not_compared(tmp_path: Path, dtype: str) -> None:
    case, rule, quant = quantised_case(tmp_path, dequant_dtype=dtype)
    pairs = case.match(rule=rule, quant=quant)
    assert partners(pairs) == {"c_quant_layer.input.0": "x.output.0", "c_dequant_layer.output.0": "bn.output.0"}
    assert codes(by_target(pairs)) == {
        "c_quant_layer.output.0": "quantised expected",
        "c.input.0": "quantised expected",
        "c.output.0": "quantised expected",
        "c_dequant_layer.input.0": "quantised expected",
    }
    marked = {key.name for key, node in pairs.target.nodes.items() if node.rules is not None and node.rules.is_filtered}
    assert marked == {"c"}
    check_complete(pairs)


def test_fusion_on_against_fusion_off(tmp_path: Path) -> None:
    case = Case(tmp_path)
    case.device("Conv2D", "fused", outputs=[X, X])
    case.device("Relu", "after", inputs=[X], outputs=[X])
    golden = OmFolder(tmp_path / "off")
    golden.op("Conv2D", "conv_off", at=1, outputs=[X])
    golden.op("Split", "split_off", at=2, outputs=[X, X, X])
    golden.op("Relu", "after_off", at=3, inputs=[X], outputs=[X])
    golden.op("TransData", "trans_9", at=4, outputs=[X])
    rule = case.rule(
        op("fused", number=1, originals=["conv", "split"], outputs=[out("split", 1), out("conv", 0)]),
        op("after", "Relu", number=2, inputs=["fused:0"], originals=["after"], outputs=[out("after")]),
    )
    close = case.rule(
        op("conv_off", number=1, originals=["conv"], outputs=[out("conv")]),
        op("split_off", "Split", number=2, inputs=["conv_off:0"], originals=["split"],
           outputs=[out(), out("split", 0), out("split", 1)]),
        op("after_off", "Relu", number=3, inputs=["split_off:2"], originals=["after"], outputs=[out("after")]),
        file="cfr",
    )  # fmt: skip
    pairs = case.match(rule=rule, close=close, golden=golden.path)
    assert partners(pairs) == {
        "fused.output.0": "split_off.output.2",
        "fused.output.1": "conv_off.output.0",
        "after.input.0": "split_off.output.2",
        "after.output.0": "after_off.output.0",
    }
    assert codes(by_golden(pairs))["trans_9.output.0"] == "device_only expected"
    check_complete(pairs)


def training(tmp_path: Path, *models: str) -> Path:
    """Write two devices with the models, one file each, and arrays that all are compared with."""
    for device in (0, 1):
        for number, model in enumerate(models):
            folder = OmFolder(om_tree(tmp_path / "target", device=device, model=model, model_id=number))
            folder.op("Relu", "a", at=1, outputs=[X])
    GoldenFolder(tmp_path / "golden").output("a", 0, X)
    return tmp_path / "target"


def graph(folder: Path, name: str) -> None:
    folder.mkdir(exist_ok=True)
    tree = rules.model(op("a", "Relu", number=1, originals=["a"], outputs=[out("a")]), name=name)
    rules.write(folder / f"{name}.json", tree)


def test_each_model_takes_the_rules_of_its_graph(tmp_path: Path) -> None:
    models = ("ge_default_20260101000000_11", "ge_default_20260101000001_21", "stranger")
    target = training(tmp_path, *models)
    graph(tmp_path / "rules", models[0])
    graph(tmp_path / "rules", "ge_default_20260202000000_21")
    files, is_folder = read_rule_files(tmp_path / "rules")
    pairs = match_offline(read(target, "target"), read(tmp_path / "golden", "golden"), RuleBook(files, is_folder))
    check_complete(pairs)
    compared = {pair.target.node.execution for pair in pairs.pairs if pair.target and pair.golden}
    assert {(run.rank, run.model) for run in compared} == {(rank, name) for rank in (0, 1) for name in models[:2]}
    left = {pair.reason.code for pair in pairs.pairs if pair.golden is None and pair.reason}
    assert left == {"no_rule_model"}
    assert sorted(problem.code for problem in pairs.problems) == ["PF4407", "PF4408"]
    assert len({group.id for group in pairs.groups}) == len(pairs.groups)


def test_one_rule_file_serves_all_that_ran(tmp_path: Path, rule: Path) -> None:
    target = training(tmp_path, "first", "second")
    pairs = match(target, tmp_path / "golden", rule=rule)
    assert len(partners(pairs)) == 1  # ids are the same in all executions
    assert len([pair for pair in pairs.pairs if pair.golden is not None]) == 4
    assert set(pairs.golden.executions) == {Execution()}


def test_a_folder_without_rule_files_is_an_error(tmp_path: Path) -> None:
    from probe_flow.errors import FormatError

    with pytest.raises(FormatError) as error:
        read_rule_files(tmp_path)
    assert error.value.diagnostic.code == "PF4409"


class TestRulesOfTheQuantisationToolAlone:
    """They know the operators before the device's compiler fused them, and none that it made."""

    ORDER = ("conv", "bn", "short", "add", "relu", "fc")
    FEEDS = MappingProxyType({"bn": ["conv"], "add": ["bn", "short"], "relu": ["add"], "fc": ["relu"]})

    @pytest.fixture
    def case(self, tmp_path: Path) -> Case:
        case = Case(tmp_path)
        case.device("AscendQuant", "net/conv_quant_layer", outputs=[X])
        case.device("Conv2D", "net/short", outputs=[X])
        case.device("Conv2D", "net/convrelu", inputs=[X, X + 1], outputs=[X])
        case.device("TransData", "trans_TransData_1", inputs=[X], outputs=[X])
        case.device("MatMul", "net/fc", inputs=[X], outputs=[X])
        for name in self.ORDER:
            case.golden.output(f"net/{name}", 0, X)
        return case

    def match(self, case: Case) -> dict[str, Pair]:
        ops = [
            op(
                f"net/{name}", name, number=number, originals=[f"net/{name}"], outputs=[out(f"net/{name}")],
                inputs=[f"net/{feed}:0" for feed in self.FEEDS.get(name, ["input"])],
            )
            for number, name in enumerate(self.ORDER, start=1)
        ]  # fmt: skip
        pairs = case.match(quant=case.rule(*ops, file="quant"))
        check_complete(pairs)
        self.feeds = {(edge.producer.name, edge.consumer.name) for edge in pairs.target.edges}
        return {**by_target(pairs), **{f"golden {name}": pair for name, pair in by_golden(pairs).items()}}

    def test_parts_of_a_fused_name_may_share_one_scope(self, case: Case) -> None:
        found = self.match(case)
        pair = found["net/convrelu.output.0"]
        assert pair.golden is not None
        assert (pair.golden.id, pair.rule.name) == ("net_relu.output.0", "name_parts")

    def test_what_lies_between_the_parts_is_inside(self, case: Case) -> None:
        left = codes({name: pair for name, pair in self.match(case).items() if name.startswith("golden ")})
        assert left == {f"golden net_{name}.output.0": "internal expected" for name in ("conv", "bn", "add")}

    def test_what_enters_between_the_parts_is_compared_and_feeds_it(self, case: Case) -> None:
        found = self.match(case)
        pair = found["net/convrelu.input.1"]
        assert pair.golden is not None
        assert pair.golden.id == "net_short.output.0"
        assert {("net/short", "net/convrelu"), ("net/convrelu", "net/fc")} <= self.feeds

    def test_operators_of_the_device_are_outside_of_the_question(self, case: Case) -> None:
        left = codes({name: pair for name, pair in self.match(case).items() if name.startswith("trans_")})
        assert set(left.values()) == {"not_in_rules outside"}

    def test_a_part_that_has_a_file_is_not_inside(self, case: Case) -> None:
        case.device("BatchNorm", "net/bn", outputs=[X])
        assert self.match(case)["net/bn.output.0"].golden is not None
