"""Runs of TensorFlow's debugger as the golden side: their steps, their loops, several models of one step."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import rule_builders as rules
from ge_writer import DumpTensor
from offline_builders import by_golden, by_target, check_complete, codes, match_offline, values
from om_writer import GoldenFolder, OmFolder, om_tree
from tfdbg_writer import TfdbgRun

from probe_flow.dumps.offline.npy_folder import read_npy_folder
from probe_flow.dumps.offline.om_dump import read_om
from probe_flow.dumps.rules.rule_file import read_rule_file
from probe_flow.dumps.tfdbg.reader import read_tfdbg
from probe_flow.errors import Severity
from probe_flow.matching.offline.models import RuleBook

X = np.arange(32, dtype="f4").reshape(1, 2, 4, 4)


def add_rule(name: str, graph: str, path, *more):
    op = rules.op(name, "Add", originals=[name], outputs=[rules.desc(name, 0, shape=X.shape)])
    return read_rule_file(rules.write(path / f"{graph}.json", rules.model(op, *more, name=graph)))


@pytest.fixture
def runs(tmp_path):
    """Two runs, whose `scope/add` differs by the number of the run; the first loops three times."""
    for number in (0, 1):
        run = TfdbgRun(tmp_path / "tf", number)
        for turn in range(3 if number == 0 else 1):
            run.add("scope/add", X + 10 * number + turn)
        run.add("scope/other", X)
    return tmp_path / "tf"


def device(path, *steps: tuple[int, int, str]):
    for rank, step, model in steps:
        OmFolder(om_tree(path, device=rank, model=model, step=step)).op("Add", "scope_add", at=1, outputs=[X + step])
    return read_om(path, side="target")


def book(path, *graphs: str):
    return RuleBook([add_rule("scope/add", graph, path) for graph in graphs], by_model=True)


def test_a_chosen_run_is_compared_with_every_rank_and_step(tmp_path, runs):
    target = device(tmp_path / "npu", (0, 2, "a"), (0, 10, "a"), (1, 2, "a"))
    pairs = match_offline(target, read_tfdbg(runs, side="golden"), book(tmp_path, "a"))

    assert len([pair for pair in pairs.pairs if pair.target and pair.golden]) == 3
    (note,) = [each for each in pairs.problems if each.code == "PF4205"]
    assert (note.severity, "steps 2, 10 of the target" in note.message) == (Severity.WARNING, True)
    check_complete(pairs)


def test_runs_as_steps_go_with_the_steps_of_the_device(tmp_path, runs):
    target = device(tmp_path / "npu", (0, 0, "a"), (0, 1, "a"), (1, 1, "a"))
    pairs = match_offline(target, read_tfdbg(runs, side="golden", run="all"), book(tmp_path, "a"))

    found = {
        (pair.target.node.execution.rank, pair.target.node.execution.step): values(pair)[1][0]
        for pair in pairs.pairs
        if pair.target and pair.golden
    }
    assert found == {(0, 0): 2.0, (0, 1): 10.0, (1, 1): 10.0}
    check_complete(pairs)


def test_a_step_that_the_golden_lacks_is_missing(tmp_path, runs):
    target = device(tmp_path / "npu", (0, 0, "a"), (0, 5, "a"))
    pairs = match_offline(target, read_tfdbg(runs, side="golden", run="all"), book(tmp_path, "a"))

    lost = [pair for pair in pairs.pairs if pair.target and not pair.golden]
    assert [(pair.reason.code, pair.reason.expectation.value) for pair in lost] == [("no_golden_execution", "missing")]
    assert [each.message for each in pairs.problems if each.code == "PF4203"] == [
        "step 5 of the target has no counterpart in the golden",
        "step 1 of the golden has no counterpart in the target",
    ]


def test_a_device_s_tensor_is_compared_with_the_last_turn_of_a_loop(tmp_path, runs):
    pairs = match_offline(
        device(tmp_path / "npu", (0, 0, "a")), read_tfdbg(runs, side="golden", run=0), book(tmp_path, "a")
    )

    (pair,) = by_target(pairs).values()
    assert pair.golden.node.call == 2
    assert sorted(codes(by_golden(pairs)).values()) == ["further_call expected"] * 2 + ["no_rule_op outside"]


def test_what_one_model_does_not_name_is_missing_where_another_does(tmp_path, runs):
    other = rules.op("scope/other", "Add", number=2, originals=["scope/other"], outputs=[rules.desc("scope/other", 0)])
    files = [
        add_rule("scope/add", "a", tmp_path),
        read_rule_file(rules.write(tmp_path / "b.json", rules.model(other, name="b"))),
    ]
    root = tmp_path / "npu"
    device(root, (0, 0, "a"))
    OmFolder(om_tree(root, model="b", model_id=2)).op("Mul", "unknown", at=2, outputs=[X])
    pairs = match_offline(read_om(root, side="target"), read_tfdbg(runs, side="golden"), RuleBook(files, by_model=True))

    assert codes(by_golden(pairs)) == {"scope/other.output.0": "no_target_dump missing"}


def test_an_array_whose_name_two_originals_share_is_compared_with_neither(tmp_path):
    ops = []
    device = OmFolder(tmp_path / "npu")
    golden = GoldenFolder(tmp_path / "golden")
    for number, name in enumerate(("a/b_c", "a_b/c", "other")):
        golden.output(name, 0, X + number)
        device.op("Add", name.replace("a/b_c", "first").replace("a_b/c", "second"), at=number + 1, outputs=[X + number])
        short = {"a/b_c": "first", "a_b/c": "second"}.get(name, name)
        ops.append(
            rules.op(short, "Add", number=number, originals=[name], outputs=[rules.desc(name, 0, shape=X.shape)])
        )
    rule = read_rule_file(rules.write(tmp_path / "r.json", rules.model(*ops)))
    pairs = match_offline(
        read_om(tmp_path / "npu", side="target"), read_npy_folder(tmp_path / "golden", side="golden"), RuleBook([rule])
    )

    found = by_target(pairs)
    assert codes(found) == {"first.output.0": "ambiguous missing", "second.output.0": "ambiguous missing"}
    assert "`a/b_c`, `a_b/c` have one name in file names" in found["first.output.0"].reason.text
    assert found["other.output.0"].golden is not None


class TestOperatorsOfOneNameInFileNames:
    """`a/b` and `a_b` are both `a_b` in file names; the second extracted gets `a_b__2`, and mapping.csv tells them."""

    @staticmethod
    def found(folder, originals, rows):
        device, golden = OmFolder(folder / "npu"), GoldenFolder(folder / "golden")
        for number, name in enumerate(("a_b", "a_b__2")):
            golden.output(name, 0, X + number)
        if rows:
            (folder / "golden" / "mapping.csv").write_text(
                "".join(f"{next((folder / 'golden').glob(f'{file}.0.*')).name},{true}.0.1.npy\n" for file, true in rows)
            )
        ops = []
        for number, name in enumerate(originals):
            device.op("Add", f"op{number}", at=number + 1, outputs=[X])
            desc = rules.desc(name, 0, shape=X.shape)
            ops.append(rules.op(f"op{number}", "Add", number=number, originals=[name], outputs=[desc]))
        rule = read_rule_file(rules.write(folder / "r.json", rules.model(*ops)))
        target, arrays = read_om(folder / "npu", side="target"), read_npy_folder(folder / "golden", side="golden")
        return by_target(match_offline(target, arrays, RuleBook([rule])))

    @pytest.mark.parametrize("originals", [["a/b", "a_b"], ["a_b"], ["a/b"]], ids=["both", "plain", "scoped"])
    def test_without_both_lines_none_is_paired_by_guess(self, tmp_path, originals):
        found = self.found(tmp_path, originals, [])
        assert codes(found) == {f"op{number}.output.0": "ambiguous missing" for number in range(len(originals))}
        said = found["op0.output.0"].reason.text
        assert said.startswith("`a_b__2` is another operator of this name, and `mapping.csv` has no line of `a_b`: nob")

    def test_with_the_line_of_the_other_its_own_name_is_not_guessed(self, tmp_path):
        assert codes(self.found(tmp_path, ["a_b"], [("a_b__2", "a/b")])) == {"op0.output.0": "ambiguous missing"}

    def test_with_both_lines_each_has_its_own(self, tmp_path):
        found = self.found(tmp_path, ["a/b", "a_b"], [("a_b", "a/b"), ("a_b__2", "a_b")])
        assert [found[f"op{number}.output.0"].golden.node.name for number in range(2)] == ["a/b", "a_b"]

    def test_a_name_with_such_an_end_that_the_graph_knows_is_a_name(self, tmp_path):
        found = self.found(tmp_path, ["a_b", "a_b__2"], [])
        assert [found[f"op{number}.output.0"].golden.node.name for number in range(2)] == ["a_b", "a_b__2"]


class TestBfloat16WrittenAsFloat16:
    """TensorFlow 2's plug-in declares bfloat16 as float16; the graph, or the user, says what it is."""

    VALUES = (np.arange(16, dtype="f4").reshape(4, 4) - 7.5) / 4

    def pairs(self, tmp_path, origin_dtype, *, device="float32", **options):
        bits = self.VALUES.astype(ml_dtypes.bfloat16).view(np.float16)
        GoldenFolder(tmp_path / "golden").output("scope/add", 0, bits)
        OmFolder(tmp_path / "npu").op("Add", "scope_add", at=1, outputs=[DumpTensor(self.VALUES, device)])
        desc = rules.desc("scope/add", 0, shape=(4, 4), layout="ND", origin_layout="ND")
        if origin_dtype:
            desc["attr"].append(rules.attr("_datadump_origin_data_type", s=origin_dtype))
        op = rules.op("scope/add", originals=["scope/add"], outputs=[desc])
        rule = read_rule_file(rules.write(tmp_path / "r.json", rules.model(op)))
        golden = read_npy_folder(tmp_path / "golden", side="golden", **options)
        return match_offline(read_om(tmp_path / "npu", side="target"), golden, RuleBook([rule]))

    @pytest.mark.parametrize(
        ("origin_dtype", "options", "dtype"),
        [
            ("DT_BF16", {}, "bfloat16"),
            ("DT_FLOAT16", {}, "float16"),
            ("", {}, "float16"),
            ("", {"bfloat16": ["scope/*"]}, "bfloat16"),
        ],
    )
    def test_it_is_read_as_what_the_graph_or_the_user_says(self, tmp_path, origin_dtype, options, dtype):
        (pair,) = self.pairs(tmp_path, origin_dtype, **options).pairs
        assert pair.golden.dtype == dtype
        assert np.array_equal(*values(pair)) is (dtype == "bfloat16")

    @pytest.mark.parametrize(
        ("device", "origin_dtype", "options", "is_warned"),
        [
            ("bfloat16", "", {}, True),
            ("bfloat16", "DT_BF16", {}, False),
            ("bfloat16", "DT_FLOAT16", {}, False),
            ("bfloat16", "", {"bfloat16": ["scope/*"]}, False),
            ("float16", "", {}, False),
            ("float32", "", {}, False),
        ],
    )
    def test_what_nobody_can_tell_is_said(self, tmp_path, device, origin_dtype, options, is_warned):
        pairs = self.pairs(tmp_path, origin_dtype, device=device, **options)
        found = [each for each in pairs.problems if each.code == "PF4411"]
        assert [each.notes for each in found] == ([("`scope_add.output.0`",)] if is_warned else [])
