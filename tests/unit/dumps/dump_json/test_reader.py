"""The dump.json reader: real dumps, every value form, folders, side files, broken input."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probe_flow.dumps.dump_json import stream as dump_json_stream
from probe_flow.dumps.dump_json.names import parse_entry_name
from probe_flow.dumps.dump_json.reader import read_dump_json
from probe_flow.dumps.dump_json.values import MAX_DEPTH
from probe_flow.dumps.selection import Selection
from probe_flow.errors import CODES, IncompleteError, ProbeFlowError, Severity, UsageError
from probe_flow.records import (
    Catalog,
    Execution,
    NodeKey,
    NodeKind,
    Phase,
    Slot,
    SlotRole,
    Statistics,
    TensorKind,
    TensorRef,
)
from probe_flow.records.frameworks import MINDSPORE

DATA = Path(__file__).parents[3] / "data" / "dump_json"
BASE = DATA / "pt_stat_base"
ONE = Execution(rank=None, step=0)


def tensor(dtype: str = "torch.float32", shape: Any = (2,), **more: Any) -> dict[str, Any]:
    statistics = {"Max": 2.0, "Min": -1.0, "Mean": 0.5, "Norm": 2.5}
    return {"type": "torch.Tensor", "dtype": dtype, "shape": list(shape), **statistics, **more}


def forward(*inputs: Any, output: Any = None, **more: Any) -> dict[str, Any]:
    return {"input_args": list(inputs), "input_kwargs": {}, "output": [output], **more}


def write(folder: Path, data: Any, **top: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    content = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    content.update(top)
    (folder / "dump.json").write_text(json.dumps(content, indent=1), encoding="utf-8")
    return folder


def read(path: Path, **options: Any) -> Catalog:
    return read_dump_json(path, side="target", **options)


def items(catalog: Catalog) -> dict[str, TensorRef]:
    return {str(tensor.item): tensor for tensor in catalog.tensors}


def codes(catalog: Catalog) -> list[str]:
    return [problem.code for problem in catalog.problems]


def entry(catalog: Catalog, name: str) -> Any:
    return next(node for node in catalog.nodes.values() if node.entry == name)


# --- real dumps ------------------------------------------------------------------------------------------------------


def test_real_dump_gives_one_node_per_entry_and_one_tensor_per_leaf() -> None:
    catalog = read(BASE)

    assert (catalog.framework.name, catalog.task, catalog.side) == ("pytorch", "statistics", "target")
    assert catalog.executions == (ONE,)
    assert len(catalog.nodes) == 66
    assert len(catalog.tensors) == 187
    assert catalog.edges == ()
    assert codes(catalog) == []
    assert catalog.attrs["level"] == "mix"


def test_entry_names_can_be_rebuilt_from_node_attributes() -> None:
    written = json.loads((BASE / "step0/proc1000/dump.json").read_text())["data"]

    assert [node.entry for node in read(BASE).nodes.values()] == list(written)


def test_nodes_keep_completion_order_and_parents_tell_what_contains_them() -> None:
    catalog = read(BASE)
    linear = catalog.nodes[NodeKey(ONE, "Functional.linear", 2)]
    module = catalog.nodes[NodeKey(ONE, "Module.layers.0.mlp.fc1.Linear", 0)]

    assert linear.parent == "Module.layers.0.mlp.fc1.Linear"
    assert linear.caller == module.entry == "Module.layers.0.mlp.fc1.Linear.forward.0"
    assert linear.order < module.order
    assert (linear.op_type, module.op_type) == ("linear", "Linear")
    assert module.parent == "Module.layers.0.mlp.MLP"
    assert catalog.nodes[NodeKey(ONE, "Module.layers.0.Layer", 0)].parent is None


def test_parameter_gradients_are_nodes_without_direction() -> None:
    node = entry(read(BASE), "Module.head.Linear.parameters_grad.0")

    assert node.key == NodeKey(ONE, "Module.head.Linear.parameters_grad", 0, Phase.NONE)
    assert (node.op_type, node.parent) == ("Linear", "Module.head.Linear")


def test_statistics_requires_grad_and_item_names_are_taken_over() -> None:
    catalog = read(BASE)
    first = items(catalog)["Functional.embedding.0.forward.input.0"]
    weight = items(catalog)["Module.emb.Embedding.parameters_grad.0.weight"]

    assert first.kind is TensorKind.STATISTICS
    assert (first.dtype, first.stored_dtype, first.shape) == ("int64", "torch.int64", (2, 6))
    assert first.recorded == Statistics(min=0, max=10, mean=None, l2norm=None)
    assert first.requires_grad is False
    assert weight.slot == Slot(SlotRole.PARAMETER_GRAD, ("weight",))


def test_stacks_are_attached_to_forwards_only() -> None:
    catalog = read(BASE)
    mul = entry(catalog, "Tensor.__mul__.0.forward")

    assert len(catalog.stacks) == 22
    assert (
        catalog.stacks[mul.stack_id][0]
        == "File /home/user/demo/pt_dump.py, line 52, in forward, \n x = s.emb(ids) * scale"
    )
    assert entry(catalog, "Tensor.__mul__.0.backward").stack_id is None


def test_every_kind_of_python_value_is_flattened_as_the_format_says() -> None:
    catalog = read(DATA / "pt_types")
    prefix = "Module.m.M.forward.0."
    found = {name.removeprefix(prefix): ref for name, ref in items(catalog).items() if name.startswith(prefix)}

    shown = {name: (ref.kind.value, ref.dtype, ref.value) for name, ref in found.items() if ref.value is not None}
    assert shown == {
        "input.flag": ("scalar", "bool", True),
        "input.dtype": ("opaque", "torch.dtype", "torch.float16"),
        "input.device": ("opaque", "torch.device", "cpu"),
        "input.sz": ("opaque", "torch.Size", "[1, 2]"),
        "input.nt.p": ("scalar", "int", 1),
        "input.nt.q": ("scalar", "float", 2.5),
        "input.sl": ("opaque", "slice", "[1, None, 2]"),
        "input.el": ("opaque", "ellipsis", "..."),
        "input.f32": ("scalar", "float32", 2.5),
        "input.mf": ("opaque", "torch.memory_format", "channels_last"),
        "input.st": ("scalar", "str", "abc"),
        "input.lst.0": ("scalar", "int", 1),
    }
    assert [name for name, ref in found.items() if ref.kind is TensorKind.NULL] == ["input.none", "input.obj"]
    assert "input.dt" not in found  # an empty object is no item
    assert "input.empty" not in found
    assert found["input.lst.1.0"].slot == Slot(SlotRole.INPUT, ("lst", 1, 0))
    assert found["input.nd"].dtype == "int64"
    assert found["output.1.k"].slot == Slot(SlotRole.OUTPUT, (1, "k"))


def test_checksums_make_an_md5_dump_and_nan_statistics_stay_nan() -> None:
    catalog = read(DATA / "pt_types")
    broken = items(catalog)["Torch.add.1.forward.output.0"]

    assert catalog.task == "md5"
    assert items(catalog)["Tensor.sum.0.forward.input.0"].checksum == "0dca8bcd"
    assert broken.recorded is not None
    assert math.isnan(float(broken.recorded.max or 0.0))
    assert items(catalog)["Torch.add.0.forward.input.0"].reason == "the dump recorded no statistics of this tensor"


def test_mindspore_dump_of_tensors_is_read_with_its_files() -> None:
    catalog = read(DATA / "ms_tensor_base")
    matmul = entry(catalog, "Primitive.matmul.MatMul.1.backward")
    ref = items(catalog)["Primitive.matmul.MatMul.1.backward.output.1"]

    assert (catalog.framework.name, catalog.task) == ("mindspore", "tensor")
    assert codes(catalog) == []
    assert matmul.key == NodeKey(ONE, "Primitive.matmul.MatMul", 1, Phase.BACKWARD)
    assert matmul.parent == "Cell.mlp.dense1.Dense"
    assert (ref.kind, ref.dtype, ref.stored_dtype) == (TensorKind.TENSOR, "float32", "Float32")
    assert ref.file == "Primitive.matmul.MatMul.1.backward.output.1.npy"


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "name", "op_type", "call", "phase"),
    [
        ("Tensor.__add__.0.forward", NodeKind.API, "Tensor.__add__", "__add__", 0, Phase.FORWARD),
        ("Module.a.1.Conv2d.backward.12", NodeKind.MODULE, "Module.a.1.Conv2d", "Conv2d", 12, Phase.BACKWARD),
        ("Module.forward.Net.forward.3", NodeKind.MODULE, "Module.forward.Net", "Net", 3, Phase.FORWARD),
        ("Cell.n.LN.parameters_grad.2", NodeKind.PARAMETERS_GRAD, "Cell.n.LN.parameters_grad", "LN", 2, Phase.NONE),
        ("Cell.n.LN.parameters_grad", NodeKind.PARAMETERS_GRAD, "Cell.n.LN.parameters_grad", "LN", 0, Phase.NONE),
    ],
)
def test_names_are_parsed_from_the_right(
    text: str, kind: NodeKind, name: str, op_type: str, call: int, phase: Phase
) -> None:
    parsed = parse_entry_name(text)

    assert parsed is not None
    assert (parsed.kind, parsed.name, parsed.op_type, parsed.call, parsed.phase) == (kind, name, op_type, call, phase)


@pytest.mark.parametrize(
    "text", ["", "x", "a.b", "0.debug", "y_only.debug", "Torch..0.forward", "Torch.add.-1.forward", "T.a.٣.forward"]
)
def test_names_of_no_grammar_are_told_apart(text: str) -> None:
    assert parse_entry_name(text) is None


# --- values ----------------------------------------------------------------------------------------------------------


def test_numbers_written_as_text_and_infinities_are_numbers(tmp_path: Path) -> None:
    odd = {
        "type": "torch.Tensor",
        "dtype": "torch.half",
        "shape": ["2", 3],
        "Max": "1.5",
        "Min": "-inf",
        "Mean": "None",
    }
    folder = write(tmp_path, {"Torch.add.0.forward": forward({**odd, "Norm": math.inf}, {"type": "int", "value": "7"})})

    first, second, _ = read(folder).tensors
    assert (first.dtype, first.shape) == ("float16", (2, 3))
    assert first.recorded == Statistics(min=-math.inf, max=1.5, mean=None, l2norm=math.inf)
    assert second.value == 7


def test_point_to_point_operations_and_groups_keep_their_facts(tmp_path: Path) -> None:
    send = {"class_type": "torch.distributed.P2POp", "tensor": tensor(), "op": "isend", "peer": 1, "tag": 0}
    group = {"type": "torch.ProcessGroup", "group_ranks": [0, 1], "group_id": "ab"}
    folder = write(tmp_path, {"Distributed.batch_isend_irecv.0.forward": forward([send], group)})

    first, second, _ = read(folder).tensors
    assert first.kind is TensorKind.STATISTICS
    assert first.facts.peers == {"op": "isend", "peer": 1, "tag": 0}
    assert (second.kind, second.value) == (TensorKind.OPAQUE, "[0, 1]")


def test_a_value_that_stands_for_its_list_is_its_first_element_and_null_is_an_absent_list(tmp_path: Path) -> None:
    folder = write(tmp_path, {"Torch.add.0.forward": {"input_args": None, "output": tensor()}})

    catalog = read(folder)
    assert [ref.item for ref in catalog.tensors] == ["Torch.add.0.forward.output.0"]
    assert codes(catalog) == []


def test_unknown_leaf_types_are_kept_as_opaque_text(tmp_path: Path) -> None:
    folder = write(tmp_path, {"Torch.add.0.forward": forward({"type": "future.Thing", "radius": 3})})

    first = read(folder).tensors[0]
    assert (first.kind, first.dtype, first.value) == (TensorKind.OPAQUE, "future.Thing", "radius: 3")


@pytest.mark.parametrize(
    "bad",
    [
        tensor(Max=[1]),
        tensor(Min="big"),
        tensor(shape=[-1]),
        tensor(shape=[2.5]),
        {"type": "torch.Tensor", "shape": [1]},
        tensor(Max=1 << 2000),
        {"type": "int", "value": 1 << 2000},
        "bare text",
        3,
    ],
)
def test_a_malformed_value_costs_itself_only(tmp_path: Path, bad: Any) -> None:
    folder = write(tmp_path, {"Torch.add.0.forward": forward(bad, tensor(), output=tensor())})

    catalog = read(folder)
    kinds = [ref.kind for ref in catalog.tensors]
    assert kinds == [TensorKind.UNREADABLE, TensorKind.STATISTICS, TensorKind.STATISTICS]
    assert catalog.tensors[0].reason
    assert codes(catalog) == ["PF3411"]
    assert "Torch.add.0.forward.input.0" in catalog.problems[0].message


def test_values_nested_beyond_the_collectors_limit_are_unreadable(tmp_path: Path) -> None:
    value: Any = tensor()
    for _ in range(MAX_DEPTH + 5):
        value = [value]
    catalog = read(write(tmp_path, {"Torch.add.0.forward": forward(value), "Torch.add.1.forward": forward(tensor())}))

    assert catalog.tensors[0].kind is TensorKind.UNREADABLE
    assert len(catalog.nodes) == 2


def test_old_dumps_without_framework_and_with_old_gradient_names(tmp_path: Path) -> None:
    cell = {
        "type": "mindspore.Tensor",
        "dtype": "BFloat16",
        "shape": [1],
        "Max": 1.0,
        "Min": 1.0,
        "Mean": 1.0,
        "Norm": 1.0,
    }
    folder = write(tmp_path, {"Cell.n.LN.parameters_grad": {"gamma": [cell], "beta": [None]}})
    content = json.loads((folder / "dump.json").read_text())
    del content["framework"]
    (folder / "dump.json").write_text(json.dumps(content))

    catalog = read(folder)
    gamma, beta = catalog.tensors
    assert catalog.framework == MINDSPORE
    assert (gamma.dtype, gamma.item) == ("bfloat16", "Cell.n.LN.parameters_grad.gamma")
    assert beta.kind is TensorKind.NULL


# --- entries and files -----------------------------------------------------------------------------------------------


def test_entries_of_unknown_shape_or_name_cost_themselves(tmp_path: Path) -> None:
    data = {
        "Torch.add.0.forward": [1, 2],
        "Torch.add.1.forward": {"surprise": 1},
        "=cmd|'x'!A1\ud800": forward(tensor()),
        "Torch.add.01.backward": {"input": [tensor()]},
        "Torch.add.1.backward": {"input": [tensor()]},
        "Torch.add.2.forward": {},
    }
    catalog = read(write(tmp_path, data))

    assert sorted(codes(catalog)) == ["PF3410", "PF3412", "PF3416", "PF3416"]
    assert [node.entry for node in catalog.nodes.values()] == [
        "=cmd|'x'!A1\ud800",
        "Torch.add.01.backward",
        "Torch.add.2.forward",
    ]


def test_many_problems_of_one_kind_are_counted(tmp_path: Path) -> None:
    data = {f"Torch.add.{n}.forward": forward(1) for n in range(500)}

    problems = read(write(tmp_path, data)).problems
    assert len(problems) == 21
    assert "480 more" in problems[-1].message


def test_a_key_written_twice_is_reported(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_text(
        '{"data": {"Torch.add.0.forward": {"output": []}, "Torch.add.0.forward": {"output": [null]}}}'
    )

    catalog = read(tmp_path)
    assert codes(catalog) == ["PF3412"]
    assert "names the same call as an earlier entry" in catalog.problems[0].message
    assert len(catalog.tensors) == 0


@pytest.mark.parametrize(("task", "word"), [("structure", "construct.json"), ("statistics", "collector")])
def test_an_empty_dump_is_incomplete_and_says_what_to_do(tmp_path: Path, task: str, word: str) -> None:
    with pytest.raises(IncompleteError) as caught:
        read(write(tmp_path, {}, task=task))

    assert caught.value.diagnostic.code == "PF3402"
    assert word in str(caught.value.diagnostic.help)


def test_truncated_json_names_line_and_column(tmp_path: Path) -> None:
    text = (BASE / "step0/proc1000/dump.json").read_text()
    (tmp_path / "dump.json").write_text(text[: text.index('"Norm"', 3000)])

    with pytest.raises(IncompleteError) as caught:
        read(tmp_path)

    span = caught.value.diagnostic.span
    assert caught.value.diagnostic.code == "PF3407"
    assert span is not None
    assert span.line == text[: text.index('"Norm"', 3000)].count("\n") + 1
    assert "ends in the middle" in caught.value.diagnostic.message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "PF3407"),
        ("[" * 100000, "PF3407"),
        ('{"data": 1' + "0" * 5000 + "}", "PF3407"),
        ("[]", "PF3408"),
        ("3", "PF3408"),
        ('{"data": []}', "PF3408"),
        ('{"task": "statistics"}', "PF3408"),
    ],
)
def test_text_that_is_no_dump_is_incomplete(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "dump.json").write_text(text)

    with pytest.raises(IncompleteError) as caught:
        read(tmp_path)

    assert caught.value.diagnostic.code == code


def test_bytes_that_are_not_utf8_are_incomplete(tmp_path: Path) -> None:
    (tmp_path / "dump.json").write_bytes(b'{"data": "\xff"}')

    with pytest.raises(IncompleteError, match="byte 10 is not UTF-8"):
        read(tmp_path)


def test_a_file_that_cannot_be_read_is_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"Torch.add.0.forward": forward(tensor())})

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(dump_json_stream, "open_bytes", refuse)
    with pytest.raises(IncompleteError) as caught:
        read(tmp_path)

    assert caught.value.diagnostic.code == "PF3409"
    assert "Permission denied" in caught.value.diagnostic.message


# --- side files ------------------------------------------------------------------------------------------------------


def test_old_stack_format_and_megatron_parents_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path, {"Torch.add.0.forward": forward(tensor()), "Torch.add.1.forward": forward(tensor())})
    (folder / "stack.json").write_text(
        json.dumps({"Torch.add.0.forward": ["a", "b"], "Torch.add.1.forward": ["a", "b"]})
    )
    construct = {"Torch.add.0.forward": ["optimizer", 3], "Torch.add.1.forward": None, "megatron_micro_step_number": 4}
    (folder / "construct.json").write_text(json.dumps(construct))

    catalog = read(folder)
    first, second = catalog.nodes.values()
    assert (first.parent, first.attributes["micro_step"], second.parent) == ("optimizer", 3, None)
    assert first.stack_id == second.stack_id
    assert list(catalog.stacks.values()) == [("a", "b")]


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"0": 3}', '{"Torch.add.0.forward": [1]}', '{"Torch.add.0.forward": {}}']
)
def test_malformed_side_files_are_warnings(tmp_path: Path, content: str) -> None:
    folder = write(tmp_path, {"Torch.add.0.forward": forward(tensor())})
    (folder / "stack.json").write_text(content)
    (folder / "construct.json").write_text(content.replace('"0": 3', '"Torch.add.0.forward": 3'))

    problems = read(folder).problems
    assert {problem.code for problem in problems} == {"PF3413"}
    assert {problem.severity for problem in problems} == {Severity.WARNING}


def test_a_cycle_of_parents_is_cut(tmp_path: Path) -> None:
    names = ["Module.a.A.forward.0", "Module.b.B.forward.0"]
    folder = write(tmp_path, {name: forward(tensor()) for name in names})
    (folder / "construct.json").write_text(json.dumps({names[0]: names[1], names[1]: names[0]}))

    catalog = read(folder)
    assert [node.parent for node in catalog.nodes.values()].count(None) == 1
    assert codes(catalog) == ["PF3413"]


# --- folders ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_by_two(tmp_path: Path) -> Path:
    for step in (10, 2):
        for rank in (1, 0):
            write(tmp_path / f"step{step}" / f"rank{rank}", {"Torch.add.0.forward": forward(tensor())})
    return tmp_path


def test_a_root_gives_all_executions_by_step_then_rank(two_by_two: Path) -> None:
    expected = tuple(Execution(rank=rank, step=step) for step in (2, 10) for rank in (0, 1))

    assert read(two_by_two).executions == expected


@pytest.mark.parametrize("below", ["step2/rank1", "step2/rank1/dump.json"])
def test_a_single_folder_or_file_takes_rank_and_step_from_its_path(two_by_two: Path, below: str) -> None:
    assert read(two_by_two / below).executions == (Execution(rank=1, step=2),)


def test_a_step_folder_and_selection_narrow_the_dump(two_by_two: Path) -> None:
    assert read(two_by_two / "step10").executions == (Execution(rank=0, step=10), Execution(rank=1, step=10))
    assert read(two_by_two, select=Selection(ranks=[1], steps=[2])).executions == (Execution(rank=1, step=2),)


def test_selected_node_names_are_patterns() -> None:
    catalog = read(BASE, select=Selection(nodes=["Functional.lin*", "Module.head.*"]))

    assert {node.key.name for node in catalog.nodes.values()} == {
        "Functional.linear",
        "Module.head.Linear",
        "Module.head.Linear.parameters_grad",
    }


@pytest.mark.parametrize(
    ("options", "code"), [({"ranks": [7]}, "PF3404"), ({"steps": [3]}, "PF3404"), ({"nodes": ["nothing*"]}, "PF3404")]
)
def test_a_selection_of_nothing_is_a_usage_error(two_by_two: Path, options: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(two_by_two, select=Selection(**options))

    assert caught.value.diagnostic.code == code


def test_one_broken_rank_is_a_problem_and_the_others_are_kept(two_by_two: Path) -> None:
    (two_by_two / "step2/rank0/dump.json").write_text("{")
    (two_by_two / "step2/rank1/dump.json").unlink()

    catalog = read(two_by_two)
    assert codes(catalog) == ["PF3406", "PF3407"]
    assert len(catalog.executions) == 2


def test_helper_processes_beside_ranks_are_left_out_with_a_note(two_by_two: Path) -> None:
    write(two_by_two / "step2" / "proc77", {"Torch.add.0.forward": forward(tensor())})

    catalog = read(two_by_two / "step2")
    assert codes(catalog) == ["PF3415"]
    assert len(catalog.executions) == 2


def test_several_processes_without_rank_ask_for_one(tmp_path: Path) -> None:
    for process in (5, 6):
        write(tmp_path / "step0" / f"proc{process}", {"Torch.add.0.forward": forward(tensor())})

    with pytest.raises(UsageError) as caught:
        read(tmp_path)

    assert caught.value.diagnostic.code == "PF3405"


def test_missing_path_and_folder_without_dump_are_usage_errors(tmp_path: Path) -> None:
    (tmp_path / "step0").mkdir()

    with pytest.raises(UsageError) as missing:
        read(tmp_path / "stpe0")
    with pytest.raises(UsageError) as empty:
        read(tmp_path)

    assert missing.value.diagnostic.code == "PF3401"
    assert missing.value.diagnostic.help == f"did you mean `step0`? (in `{tmp_path}`)"
    assert empty.value.diagnostic.code == "PF3403"
    assert "it holds `step0`" in empty.value.diagnostic.notes
    assert (empty.value.diagnostic.help or "").startswith("give a dump.json, the folder that holds it")


@pytest.mark.parametrize(
    ("dumps", "cure"),
    [
        (["npu/step0/rank0", "npu/step0/rank1", "npu/step1/rank0"], "give one dump: `all/npu`"),
        (["gpu/pynative/step0/proc7", "npu"], "give one dump: `all/gpu` or `all/npu`"),
        (
            [f"run{n}/step0/rank0" for n in range(6)],
            "give one dump: `all/run0` or `all/run1` or `all/run2` or `all/run3`",
        ),
    ],
)
def test_the_folder_of_several_dumps_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dumps: list[str], cure: str
) -> None:
    for dump in dumps:
        write(tmp_path / "all" / dump, {"Torch.add.0.forward": forward(tensor())})
    monkeypatch.chdir(tmp_path)

    with pytest.raises(UsageError) as caught:
        read(Path("all"))

    assert caught.value.diagnostic.code == "PF3403"
    assert caught.value.diagnostic.help == cure + (", or one of 2 more" if len(dumps) == 6 else "")


def test_links_out_of_the_dump_are_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"Torch.add.0.forward": forward(tensor())})
    write(tmp_path / "dump/step0/rank0", {"Torch.add.0.forward": forward(tensor())})
    (tmp_path / "dump/step0/rank1").symlink_to(outside)
    (tmp_path / "dump/step0/rank2").mkdir()
    (tmp_path / "dump/step0/rank2/dump.json").symlink_to(outside / "dump.json")

    catalog = read(tmp_path / "dump")
    assert catalog.executions == (Execution(rank=0, step=0),)
    assert codes(catalog) == ["PF3417", "PF3417"]


def test_the_fingerprint_changes_with_the_file(tmp_path: Path) -> None:
    before = read(write(tmp_path, {"Torch.add.0.forward": forward(tensor())})).fingerprint
    after = read(write(tmp_path, {"Torch.add.0.forward": forward(tensor(), tensor())})).fingerprint

    assert before != after


# --- any input -------------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), cuts=st.integers(1, 12))
def test_mutated_dumps_give_a_catalog_or_a_diagnosis(
    seed: int, cuts: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    source = bytearray((DATA / "pt_types/step0/proc1000/dump.json").read_bytes())
    chance = random.Random(seed)
    for _ in range(cuts):
        place = chance.randrange(len(source))
        if chance.random() < 0.5:
            source[place] = chance.choice(b'{}[]",:0-9nulltrueNaN\\ \xff\x00')
        else:
            length = chance.randrange(1, 200)
            other = chance.randrange(len(source))
            source[place : place + length] = source[other : other + chance.randrange(200)]
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "dump.json").write_bytes(bytes(source))
    assert_catalog_or_diagnosis(folder)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "value", "shape", "dtype", "Max", "tensor", "class_type", "output", "input", "k"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(data=st.dictionaries(st.sampled_from(["Torch.a.0.forward", "Module.a.A.parameters_grad", "x"]), json_values))
def test_any_json_below_data_gives_a_catalog_or_a_diagnosis(
    data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert_catalog_or_diagnosis(write(tmp_path_factory.mktemp("values"), data))


def assert_catalog_or_diagnosis(folder: Path) -> None:
    try:
        catalog = read(folder)
    except ProbeFlowError as error:
        found = error.diagnostics
    else:
        assert all(ref.node in catalog.nodes for ref in catalog.tensors)
        found = catalog.problems
    assert all(problem.code in CODES for problem in found)
